//! What the sensors of a GPU said around a cell: clocks and what held them down, heat, power, links, error counters.
//!
//! A sensor that did not answer is absent and stands in `unavailable` with the reason; absent is never zero.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use strum::{Display, EnumIter};

use crate::units::Nanos;

/// What keeps a GPU's clocks below what they could be.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Display, EnumIter,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum ClockLimit {
    /// The hardware cut the clocks to a half or less because the GPU is too hot.
    HardwareThermal,
    /// The hardware cut the clocks to a half or less because the power supply asked for it.
    PowerBrake,
    /// The hardware cut the clocks to a half or less, for one of the two reasons above or because it drew too much power
    /// too fast. Also seen for a moment while clocks change.
    HardwareSlowdown,
    /// The driver lowers the clocks because the GPU or its memory is too hot.
    SoftwareThermal,
    /// The driver lowers the clocks to stay within the power limit that is set.
    SoftwarePowerCap,
    /// Another GPU of the same group is limited, and all of them run at one clock.
    SyncBoost,
    /// Somebody set lower clocks for applications.
    ApplicationClocks,
    /// The display needs these clocks.
    DisplayClocks,
    /// A reason this version of railgauge has no name for.
    Other,
    /// Nothing runs.
    Idle,
}

impl ClockLimit {
    /// Whether it means that hardware or cooling is in trouble, whatever the settings are.
    pub fn is_trouble(self) -> bool {
        matches!(
            self,
            ClockLimit::HardwareThermal
                | ClockLimit::PowerBrake
                | ClockLimit::HardwareSlowdown
                | ClockLimit::SoftwareThermal
        )
    }

    /// Whether clocks are lower than the load could use, for whatever reason. Being idle is not a limit.
    pub fn is_limit(self) -> bool {
        self != ClockLimit::Idle
    }

    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            ClockLimit::HardwareThermal => "hardware thermal slowdown",
            ClockLimit::PowerBrake => "hardware power brake",
            ClockLimit::HardwareSlowdown => "hardware slowdown",
            ClockLimit::SoftwareThermal => "software thermal slowdown",
            ClockLimit::SoftwarePowerCap => "software power cap",
            ClockLimit::SyncBoost => "sync boost with another GPU",
            ClockLimit::ApplicationClocks => "application clocks set lower",
            ClockLimit::DisplayClocks => "display clocks",
            ClockLimit::Other => "a limit without a name here",
            ClockLimit::Idle => "idle",
        }
    }
}

/// What the quick sensors of a GPU say at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuMoment {
    /// Clock of the multiprocessors, MHz.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sm_mhz: Option<u32>,
    /// Clock of the memory, MHz.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mhz: Option<u32>,
    /// Temperature of the GPU, degrees Celsius.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub celsius: Option<u32>,
    /// Temperature of its memory, degrees Celsius.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_celsius: Option<u32>,
    /// Power draw, milliwatts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub milliwatts: Option<u32>,
    /// What limits the clocks now; empty when nothing does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limited_by: Option<Vec<ClockLimit>>,
    /// PCIe generation of the link now; it drops while the GPU is idle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pcie_generation: Option<u32>,
    /// PCIe lanes in use now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pcie_width: Option<u32>,
}

/// The smallest and the largest reading of something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Extremes {
    /// Smallest.
    pub least: u32,
    /// Largest.
    pub most: u32,
}

impl Extremes {
    /// `extremes` with one more reading; a reading that is absent changes nothing.
    pub fn with(extremes: Option<Extremes>, reading: Option<u32>) -> Option<Extremes> {
        match (extremes, reading) {
            (None, None) => None,
            (Some(known), None) => Some(known),
            (None, Some(value)) => Some(Extremes {
                least: value,
                most: value,
            }),
            (Some(known), Some(value)) => Some(Extremes {
                least: known.least.min(value),
                most: known.most.max(value),
            }),
        }
    }

    /// Both taken together.
    pub fn join(a: Option<Extremes>, b: Option<Extremes>) -> Option<Extremes> {
        let with_least = Extremes::with(a, b.map(|b| b.least));
        Extremes::with(with_least, b.map(|b| b.most))
    }
}

/// What the quick sensors said while a cell ran.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuDuring {
    /// How often they were read; 0 when the cell was over before the first time.
    pub readings: u32,
    /// Clock of the multiprocessors, MHz, while the GPU was not idle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sm_mhz: Option<Extremes>,
    /// Clock of the memory, MHz.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mhz: Option<Extremes>,
    /// Temperature of the GPU, degrees Celsius.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub celsius: Option<Extremes>,
    /// Temperature of its memory, degrees Celsius.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_celsius: Option<Extremes>,
    /// Power draw, milliwatts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub milliwatts: Option<Extremes>,
    /// In how many of the readings each limit was on.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub limited_by: BTreeMap<ClockLimit, u32>,
    /// Best PCIe generation seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pcie_generation: Option<u32>,
    /// Most PCIe lanes seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pcie_width: Option<u32>,
}

impl GpuDuring {
    /// Counts one more reading in.
    pub fn add(&mut self, moment: &GpuMoment) {
        self.readings += 1;
        self.celsius = Extremes::with(self.celsius, moment.celsius);
        self.memory_celsius = Extremes::with(self.memory_celsius, moment.memory_celsius);
        self.milliwatts = Extremes::with(self.milliwatts, moment.milliwatts);
        // A GPU that has nothing to do lowers its clocks, which says nothing about the load.
        let limits = moment.limited_by.as_deref().unwrap_or_default();
        if !limits.contains(&ClockLimit::Idle) {
            self.sm_mhz = Extremes::with(self.sm_mhz, moment.sm_mhz);
            self.memory_mhz = Extremes::with(self.memory_mhz, moment.memory_mhz);
        }
        for limit in limits {
            *self.limited_by.entry(*limit).or_default() += 1;
        }
        self.pcie_generation = self.pcie_generation.max(moment.pcie_generation);
        self.pcie_width = self.pcie_width.max(moment.pcie_width);
    }
}

/// The most a GPU can do, and the limits it was set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuLimits {
    /// Highest clock of the multiprocessors, MHz.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sm_mhz: Option<u32>,
    /// Highest clock of the memory, MHz.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mhz: Option<u32>,
    /// Temperature from which the hardware slows down, degrees Celsius.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub celsius: Option<u32>,
    /// Power limit in force, milliwatts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub milliwatts: Option<u32>,
    /// Highest PCIe generation that GPU and slot can do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pcie_generation: Option<u32>,
    /// Most PCIe lanes that GPU and slot can do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pcie_width: Option<u32>,
}

/// A counter of a GPU before and after a cell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuCounter {
    /// Value before; none when it could not be read.
    pub before: Option<u64>,
    /// Value after; none when it could not be read.
    pub after: Option<u64>,
}

impl GpuCounter {
    /// By how much it moved; none when that is unknown, as it is for a counter that was set back meanwhile.
    pub fn moved(&self) -> Option<u64> {
        self.after?.checked_sub(self.before?)
    }
}

/// NVLinks of a GPU before and after a cell, by number.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuLinks {
    /// Up before.
    pub up_before: Vec<u32>,
    /// Up after.
    pub up_after: Vec<u32>,
    /// Down after; a link that nothing is plugged into is down as well.
    pub down_after: Vec<u32>,
}

impl GpuLinks {
    /// Links that were up before and are not any more.
    pub fn went_down(&self) -> Vec<u32> {
        let is_gone = |link: &&u32| !self.up_after.contains(link);
        self.up_before.iter().filter(is_gone).copied().collect()
    }
}

/// Names of the counters in [`GpuReading::counters`]. NVLink counters are sums over all links; for a link that moved
/// there is an entry of its own, with `/link3` at the end.
pub mod gpu_counters {
    /// Memory errors that were corrected.
    pub const ECC_CORRECTED: &str = "ecc-corrected";
    /// Memory errors that could not be corrected.
    pub const ECC_UNCORRECTED: &str = "ecc-uncorrected";
    /// PCIe packets sent again.
    pub const PCIE_REPLAYS: &str = "pcie-replays";
    /// NVLink packets sent again.
    pub const NVLINK_REPLAYS: &str = "nvlink-replays";
    /// NVLinks that lost their training and got it back.
    pub const NVLINK_RECOVERIES: &str = "nvlink-recoveries";
    /// NVLink flow-control digits with a wrong checksum.
    pub const NVLINK_CRC_FLIT: &str = "nvlink-crc-flit";
    /// NVLink data with a wrong checksum.
    pub const NVLINK_CRC_DATA: &str = "nvlink-crc-data";
}

/// What the sensors of one rank's GPU said around one cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuReading {
    /// Cell id.
    pub cell: u32,
    /// Measurement round.
    pub round: u16,
    /// World rank whose GPU this is. Ranks that share a GPU each have a reading of it.
    pub rank: u32,
    /// The GPU's own name for itself, the same in every process.
    pub uuid: String,
    /// From the reading before to the reading after.
    pub elapsed_ns: Nanos,
    /// The most it can do.
    pub limits: GpuLimits,
    /// Right before the warm-up.
    pub before: GpuMoment,
    /// While the cell ran, about ten times a second.
    pub during: GpuDuring,
    /// Right after the last iteration.
    pub after: GpuMoment,
    /// How long each limit held the clocks down between the readings before and after, as the GPU itself counts it. A limit that it does not count is absent.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub held_ns: BTreeMap<ClockLimit, Nanos>,
    /// Error counters, see [`gpu_counters`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counters: BTreeMap<String, GpuCounter>,
    /// Its NVLinks; none when it has none, or their state could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nvlinks: Option<GpuLinks>,
    /// What could not be read, and why.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unavailable: BTreeMap<String, String>,
}
