//! What a GPU's sensors say around a cell: clocks and what holds them down, heat, power, links, error counters.
//!
//! Held true: watching never fails a run and never holds one up. Sensors are read on a thread of their own ([`GpuMonitor`]);
//! who asks waits a stated while at most; whatever does not answer is recorded as unavailable, with the reason. [`Sensors`]
//! is the seam: NVML on real machines, readings made to order in tests.

mod fabric_state;
mod gpu_inventory;
mod monitor;
mod nvml;
mod reading;

#[cfg(test)]
mod monitor_tests;
#[cfg(test)]
mod nvml_tests;

use std::collections::BTreeMap;

pub use gpu_inventory::{GpuInventory, gpu_inventory};
pub use monitor::{GpuMonitor, SensorRecording, process_monitor};

use record::{ClockLimit, GpuLimits, GpuMoment};

/// A GPU as the driver's libraries name it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GpuName {
    /// Its own name for itself, such as `GPU-8c4f...`.
    pub uuid: String,
    /// Its place on the PCI bus, such as `0000:18:00.0`; the way to find it when the name does not.
    pub pci: String,
}

/// What could not be read, and why.
pub type Unreadable = BTreeMap<String, String>;

/// What changes slowly or only counts up, read before and after a cell.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CounterSnapshot {
    /// The most it can do.
    pub limits: GpuLimits,
    /// For how many nanoseconds each limit has held the clocks down since the driver was loaded.
    pub held_ns: BTreeMap<ClockLimit, u64>,
    /// Error counters; those of single NVLinks have `/link3` at their end.
    pub counters: BTreeMap<String, u64>,
    /// NVLinks by number, and whether they are up.
    pub links: BTreeMap<u32, bool>,
}

/// Reads the sensors of GPUs. What cannot be read is left out and named in `missing`.
pub trait Sensors {
    /// The quick ones, read many times while a cell runs.
    fn moment(&mut self, gpu: &GpuName, missing: &mut Unreadable) -> GpuMoment;
    /// The slow ones, read before and after it.
    fn snapshot(&mut self, gpu: &GpuName, missing: &mut Unreadable) -> CounterSnapshot;
}
