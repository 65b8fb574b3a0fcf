//! What the sensors of a GPU said over a whole run, as `findings.json` has it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{ClockLimit, Extremes};
use crate::units::Nanos;

/// One GPU over a whole run. Clocks are those of readings in which it was not idle.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GpuSummary {
    /// The GPU's own name for itself.
    pub uuid: String,
    /// Hosts of its ranks; more than one only when they are containers of one machine.
    pub hosts: Vec<String>,
    /// Ranks that ran on it.
    pub ranks: Vec<u32>,
    /// Cells around which it was watched.
    pub cells: u32,
    /// Readings while they ran.
    pub readings: u32,
    /// Clock of the multiprocessors, MHz.
    pub sm_mhz: Option<Extremes>,
    /// The highest it can do.
    pub sm_mhz_limit: Option<u32>,
    /// Clock of the memory, MHz.
    pub memory_mhz: Option<Extremes>,
    /// The highest it can do.
    pub memory_mhz_limit: Option<u32>,
    /// Temperature, degrees Celsius.
    pub celsius: Option<Extremes>,
    /// From which the hardware slows down.
    pub celsius_limit: Option<u32>,
    /// Temperature of the memory, degrees Celsius.
    pub memory_celsius: Option<Extremes>,
    /// Power draw, milliwatts.
    pub milliwatts: Option<Extremes>,
    /// Power limit in force, milliwatts.
    pub milliwatts_limit: Option<u32>,
    /// What held its clocks down, in how many cells, and for how long.
    pub limited_by: BTreeMap<ClockLimit, ThrottleTotal>,
    /// Best PCIe generation and most lanes seen.
    pub pcie: Option<(u32, u32)>,
    /// The best that GPU and slot can do.
    pub pcie_limit: Option<(u32, u32)>,
    /// NVLinks up and down at the end; none when it has none or they could not be read.
    pub nvlinks: Option<(u32, u32)>,
    /// NVLinks that went down while a cell ran.
    pub nvlinks_lost: Vec<u32>,
    /// Error counters and by how much they moved; none when that is unknown.
    pub counters: BTreeMap<String, Option<u64>>,
    /// What could not be read, and why.
    pub unavailable: BTreeMap<String, String>,
}

/// How much a limit held the clocks down.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "HeldDown"))]
pub struct ThrottleTotal {
    /// Cells in which it was on.
    pub cells: u32,
    /// For how long in all of them, as the GPU counts it; none when it does not.
    pub held_ns: Option<Nanos>,
}
