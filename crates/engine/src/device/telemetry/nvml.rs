//! The sensors as NVML reads them. The library is opened at run time; a machine without it has no sensors, and says so.

use std::ffi::OsStr;
use std::fmt::Display;

use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::{
    Clock, EccCounter, MemoryError, TemperatureSensor, TemperatureThreshold,
};
use nvml_wrapper::enum_wrappers::nv_link::ErrorCounter;
use nvml_wrapper::enums::device::SampleValue;
use nvml_wrapper::error::{Bits, NvmlError};
use nvml_wrapper::structs::device::FieldId;
use nvml_wrapper::sys_exports::field_id;
use nvml_wrapper::{Device, Nvml};

use super::{CounterSnapshot, GpuName, Sensors, Unreadable};
use record::{ClockLimit, GpuLimits, GpuMoment, gpu_counters};

/// As the driver installs it.
pub(super) const LIBRARY: &str = "libnvidia-ml.so.1";
/// More NVLinks than any GPU has; the first that does not exist ends the search.
pub(super) const MOST_LINKS: u32 = 64;

/// Bits of NVML and what they mean.
const LIMITS: &[(ThrottleReasons, ClockLimit)] = &[
    (ThrottleReasons::GPU_IDLE, ClockLimit::Idle),
    (
        ThrottleReasons::APPLICATIONS_CLOCKS_SETTING,
        ClockLimit::ApplicationClocks,
    ),
    (ThrottleReasons::SW_POWER_CAP, ClockLimit::SoftwarePowerCap),
    (ThrottleReasons::HW_SLOWDOWN, ClockLimit::HardwareSlowdown),
    (ThrottleReasons::SYNC_BOOST, ClockLimit::SyncBoost),
    (ThrottleReasons::SW_THERMAL_SLOWDOWN, ClockLimit::SoftwareThermal),
    (ThrottleReasons::HW_THERMAL_SLOWDOWN, ClockLimit::HardwareThermal),
    (ThrottleReasons::HW_POWER_BRAKE_SLOWDOWN, ClockLimit::PowerBrake),
    (ThrottleReasons::DISPLAY_CLOCK_SETTING, ClockLimit::DisplayClocks),
];

/// Fields that count the nanoseconds a limit was on. The wrapper knows which driver numbers them how.
const HELD: &[(u32, ClockLimit)] = &[
    (
        field_id::NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP,
        ClockLimit::SoftwarePowerCap,
    ),
    (
        field_id::NVML_FI_DEV_CLOCKS_EVENT_REASON_SYNC_BOOST,
        ClockLimit::SyncBoost,
    ),
    (
        field_id::NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN,
        ClockLimit::SoftwareThermal,
    ),
    (
        field_id::NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN,
        ClockLimit::HardwareThermal,
    ),
    (
        field_id::NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN,
        ClockLimit::PowerBrake,
    ),
];

/// Counters of one NVLink.
const LINK_COUNTERS: &[(ErrorCounter, &str)] = &[
    (ErrorCounter::DlReplay, gpu_counters::NVLINK_REPLAYS),
    (ErrorCounter::DlRecovery, gpu_counters::NVLINK_RECOVERIES),
    (ErrorCounter::DlCrcFlit, gpu_counters::NVLINK_CRC_FLIT),
    (ErrorCounter::DlCrcData, gpu_counters::NVLINK_CRC_DATA),
];

/// The sensors of this machine's GPUs.
struct NvmlSensors {
    nvml: Nvml,
}

/// Opens the driver's own library.
pub(super) fn open() -> Result<Box<dyn Sensors>, String> {
    open_at(OsStr::new(LIBRARY))
}

/// Opens the library at `path`.
pub(super) fn open_at(path: &OsStr) -> Result<Box<dyn Sensors>, String> {
    let nvml = Nvml::builder().lib_path(path).init();
    let nvml = nvml.map_err(|error| match error {
        NvmlError::LibloadingError(error) => {
            format!("NVML is not installed: {error}")
        }
        error => format!("NVML cannot be used: {error}"),
    })?;
    Ok(Box::new(NvmlSensors { nvml }))
}

impl Sensors for NvmlSensors {
    fn moment(&mut self, gpu: &GpuName, missing: &mut Unreadable) -> GpuMoment {
        let Some(device) = self.device(gpu, missing) else {
            return GpuMoment::default();
        };
        let mut note = |what: &str, result| known(missing, what, result);
        GpuMoment {
            sm_mhz: note("SM clock", device.clock_info(Clock::SM)),
            memory_mhz: note("memory clock", device.clock_info(Clock::Memory)),
            celsius: note("temperature", device.temperature(TemperatureSensor::Gpu)),
            milliwatts: note("power", device.power_usage()),
            pcie_generation: note("PCIe generation", device.current_pcie_link_gen()),
            pcie_width: note("PCIe width", device.current_pcie_link_width()),
            memory_celsius: memory_temperature(&device, missing),
            limited_by: limits_now(&device, missing),
        }
    }

    fn snapshot(&mut self, gpu: &GpuName, missing: &mut Unreadable) -> CounterSnapshot {
        let Some(device) = self.device(gpu, missing) else {
            return CounterSnapshot::default();
        };
        let mut snapshot = CounterSnapshot {
            limits: limits(&device, missing),
            ..CounterSnapshot::default()
        };
        read_held(&device, &mut snapshot, missing);
        read_counters(&device, &mut snapshot, missing);
        read_links(&device, &mut snapshot, missing);
        snapshot
    }
}

impl NvmlSensors {
    fn device(&self, gpu: &GpuName, missing: &mut Unreadable) -> Option<Device<'_>> {
        let by_name = self.nvml.device_by_uuid(gpu.uuid.as_str());
        // A container may hide names, and a part of a GPU has a name of its own.
        let found = by_name.or_else(|_| self.nvml.device_by_pci_bus_id(gpu.pci.as_str()));
        let named = format!("GPU {} at {}", gpu.uuid, gpu.pci);
        known(missing, &named, found)
    }
}

/// A reading, or a note that there is none.
fn known<T>(missing: &mut Unreadable, what: &str, result: Result<T, impl Display>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(error) => {
            missing.insert(what.to_string(), error.to_string());
            None
        }
    }
}

fn limits(device: &Device<'_>, missing: &mut Unreadable) -> GpuLimits {
    let mut note = |what: &str, result| known(missing, what, result);
    let slowdown = TemperatureThreshold::Slowdown;
    GpuLimits {
        sm_mhz: note("highest SM clock", device.max_clock_info(Clock::SM)),
        memory_mhz: note("highest memory clock", device.max_clock_info(Clock::Memory)),
        celsius: note("slowdown temperature", device.temperature_threshold(slowdown)),
        milliwatts: note("power limit", device.enforced_power_limit()),
        pcie_generation: note("highest PCIe generation", device.max_pcie_link_gen()),
        pcie_width: note("most PCIe lanes", device.max_pcie_link_width()),
    }
}

fn limits_now(device: &Device<'_>, missing: &mut Unreadable) -> Option<Vec<ClockLimit>> {
    let bits = match device.current_throttle_reasons_strict() {
        Ok(reasons) => Ok(reasons.bits()),
        // A newer driver may know more reasons than we do.
        Err(NvmlError::IncorrectBits(Bits::U64(bits))) => Ok(bits),
        Err(error) => Err(error),
    };
    Some(named_limits(known(missing, "what limits the clocks", bits)?))
}

/// The limits behind a word of bits, gravest first.
pub(super) fn named_limits(bits: u64) -> Vec<ClockLimit> {
    let is_on = |(bit, _): &&(ThrottleReasons, ClockLimit)| bits & bit.bits() != 0;
    let mut limits: Vec<ClockLimit> = LIMITS.iter().filter(is_on).map(|(_, limit)| *limit).collect();
    let with_a_name = LIMITS.iter().fold(0, |all, (bit, _)| all | bit.bits());
    if bits & !with_a_name != 0 {
        limits.push(ClockLimit::Other);
    }
    limits.sort_unstable();
    limits
}

fn memory_temperature(device: &Device<'_>, missing: &mut Unreadable) -> Option<u32> {
    let mut values = fields(device, &[field_id::NVML_FI_DEV_MEMORY_TEMP]);
    let value = values.pop().unwrap_or_else(|| Err("no answer".to_string()));
    let value = known(missing, "memory temperature", value)?;
    u32::try_from(value).ok()
}

fn read_held(device: &Device<'_>, snapshot: &mut CounterSnapshot, missing: &mut Unreadable) {
    let ids: Vec<u32> = HELD.iter().map(|(id, _)| *id).collect();
    for ((_, limit), value) in HELD.iter().zip(fields(device, &ids)) {
        let what = format!("time of {}", limit.words());
        if let Some(value) = known(missing, &what, value) {
            snapshot.held_ns.insert(*limit, value);
        }
    }
}

/// The values of some fields, in order.
fn fields(device: &Device<'_>, ids: &[u32]) -> Vec<Result<u64, String>> {
    let wanted: Vec<FieldId> = ids.iter().map(|id| FieldId(*id)).collect();
    match device.field_values_for(&wanted) {
        Ok(values) => values
            .into_iter()
            .map(|sample| {
                let value = sample.and_then(|sample| sample.value);
                as_count(value.map_err(|error| error.to_string())?)
            })
            .collect(),
        Err(error) => vec![Err(error.to_string()); ids.len()],
    }
}

/// A whole number that is not negative, whatever type it comes in.
fn as_count(value: SampleValue) -> Result<u64, String> {
    match value {
        SampleValue::U32(value) => Ok(value.into()),
        SampleValue::U64(value) => Ok(value),
        SampleValue::I64(value) => u64::try_from(value).map_err(|_| format!("{value} is not a valid sample")),
        SampleValue::F64(value) if value >= 0.0 => Ok(value as u64),
        SampleValue::F64(value) => Err(format!("{value} is not a valid sample")),
    }
}

fn read_counters(device: &Device<'_>, snapshot: &mut CounterSnapshot, missing: &mut Unreadable) {
    let ecc = |kind| device.total_ecc_errors(kind, EccCounter::Volatile);
    let counters = [
        (gpu_counters::ECC_CORRECTED, ecc(MemoryError::Corrected)),
        (gpu_counters::ECC_UNCORRECTED, ecc(MemoryError::Uncorrected)),
        (
            gpu_counters::PCIE_REPLAYS,
            device.pcie_replay_counter().map(u64::from),
        ),
    ];
    for (name, value) in counters {
        if let Some(value) = known(missing, name, value) {
            snapshot.counters.insert(name.to_string(), value);
        }
    }
}

fn read_links(device: &Device<'_>, snapshot: &mut CounterSnapshot, missing: &mut Unreadable) {
    for number in 0..MOST_LINKS {
        let link = device.link_wrapper_for(number);
        match link.is_active() {
            Ok(up) => _ = snapshot.links.insert(number, up),
            // There are no more, or none at all.
            Err(NvmlError::InvalidArg | NvmlError::NotSupported) if number > 0 => break,
            Err(error) => {
                missing.insert("NVLinks".to_string(), error.to_string());
                break;
            }
        }
        for (counter, name) in LINK_COUNTERS.iter().filter(|_| snapshot.links[&number]) {
            if let Some(value) = known(missing, name, link.error_counter(*counter)) {
                snapshot.counters.insert(format!("{name}/link{number}"), value);
            }
        }
    }
}
