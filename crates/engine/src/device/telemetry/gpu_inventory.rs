//! What the GPUs of this machine are: versions, part numbers, modes, as NVML tells them.
//!
//! Held true: whoever asks gets an answer within a stated time, whatever the driver does. A machine without NVML has no GPUs to
//! tell of, and says that; a fact that a GPU does not have is absent, one that it will not tell says why.

use std::ffi::{OsStr, OsString};
use std::sync::mpsc::channel;
use std::time::Duration;

use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};

use super::fabric_state;
use super::nvml::{LIBRARY, MOST_LINKS};
use record::{Fact, InventoryPart, PartClass};

/// A driver that has nobody using it may take seconds to wake its GPUs.
const PATIENCE: Duration = Duration::from_secs(10);

/// The GPUs of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuInventory {
    /// One part each, in the driver's order: `gpu0`, `gpu1`.
    pub parts: Vec<InventoryPart>,
    /// The version of NVML; why there is none.
    pub nvml: Fact,
    /// The newest CUDA that the driver knows.
    pub cuda: Fact,
}

impl GpuInventory {
    fn unknown(nvml: Fact) -> GpuInventory {
        GpuInventory {
            parts: Vec::new(),
            cuda: nvml.clone(),
            nvml,
        }
    }
}

/// The GPUs of this machine.
pub fn gpu_inventory() -> GpuInventory {
    gpus_of(OsStr::new(LIBRARY), PATIENCE)
}

/// The GPUs that the library at `path` knows of, when it answers in time.
pub(super) fn gpus_of(path: &OsStr, patience: Duration) -> GpuInventory {
    let (done, answer) = channel();
    let path: OsString = path.to_owned();
    // Not joined: a driver that hangs must not keep anybody.
    let thread = std::thread::Builder::new().name("nvml".to_string());
    let started = thread.spawn(move || {
        // Nobody may be listening any more.
        let _ = done.send(ask(&path));
    });
    if let Err(error) = started {
        return GpuInventory::unknown(unreadable(error.to_string()));
    }
    let silent = || {
        GpuInventory::unknown(unreadable(format!(
            "NVML did not answer within {} s",
            patience.as_secs()
        )))
    };
    answer.recv_timeout(patience).unwrap_or_else(|_| silent())
}

fn ask(path: &OsStr) -> GpuInventory {
    let nvml = match Nvml::builder().lib_path(path).init() {
        Ok(nvml) => nvml,
        Err(NvmlError::LibloadingError(_)) => return GpuInventory::unknown(Fact::Absent),
        Err(error) => return GpuInventory::unknown(unreadable(error.to_string())),
    };
    let driver = nvml_fact(nvml.sys_driver_version());
    let count = match nvml.device_count() {
        Ok(count) => count,
        Err(error) => return GpuInventory::unknown(unreadable(error.to_string())),
    };
    let part = |index: u32| match nvml.device_by_index(index) {
        Ok(device) => of_device(&device, index, &driver),
        Err(error) => {
            let name = unreadable(format!("the driver does not hand it out: {error}"));
            InventoryPart::new(PartClass::Gpu, format!("gpu{index}")).with("name", name)
        }
    };
    GpuInventory {
        parts: (0..count).map(part).collect(),
        nvml: nvml_fact(nvml.sys_nvml_version()),
        cuda: nvml_fact(nvml.sys_cuda_driver_version().map(|version| {
            let (major, minor) = (version / 1000, version % 1000 / 10);
            format!("{major}.{minor}")
        })),
    }
}

fn of_device(device: &Device<'_>, index: u32, driver: &Fact) -> InventoryPart {
    let on_or_off = |on: bool| if on { "on" } else { "off" }.to_string();
    InventoryPart::new(PartClass::Gpu, format!("gpu{index}"))
        .with("name", nvml_fact(device.name()))
        .with("uuid", nvml_fact(device.uuid()))
        .with("serial", nvml_fact(device.serial()))
        .with("part-number", nvml_fact(device.board_part_number()))
        .with(
            "pci",
            nvml_fact(device.pci_info().map(|pci| short_address(&pci.bus_id))),
        )
        .with("driver", driver.clone())
        .with("vbios", nvml_fact(device.vbios_version()))
        .with("inforom", nvml_fact(device.info_rom_image_version()))
        .with("gsp-firmware", nvml_fact(device.gsp_firmware_version()))
        .with(
            "gsp-mode",
            nvml_fact(device.gsp_firmware_mode().map(|mode| on_or_off(mode.enabled))),
        )
        .with(
            "ecc",
            nvml_fact(
                device
                    .is_ecc_enabled()
                    .map(|ecc| on_or_off(ecc.currently_enabled)),
            ),
        )
        .with(
            "mig",
            nvml_fact(device.mig_mode().map(|mig| on_or_off(mig.current != 0))),
        )
        .with(
            "persistence",
            nvml_fact(device.is_in_persistent_mode().map(on_or_off)),
        )
        .with(
            "memory",
            nvml_fact(device.memory_info().map(|memory| memory.total.to_string())),
        )
        .with("nvlinks", nvlinks(device))
        .with("fabric-state", nvml_fact(fabric_state::of(device)))
}

/// `18 of 18 up`.
fn nvlinks(device: &Device<'_>) -> Fact {
    let (mut all, mut up) = (0, 0);
    for number in 0..MOST_LINKS {
        match device.link_wrapper_for(number).is_active() {
            Ok(active) => {
                all += 1;
                up += u32::from(active);
            }
            Err(NvmlError::InvalidArg | NvmlError::NotSupported) => break,
            Err(error) => return unreadable(error.to_string()),
        }
    }
    match all {
        0 => Fact::Absent,
        all => Fact::Value(format!("{up} of {all} up")),
    }
}

/// The kernel's name for a place on the bus: four digits of domain where NVML writes eight.
fn short_address(address: &str) -> String {
    let address = address.to_ascii_lowercase();
    match address.split_once(':') {
        Some((domain, rest)) if domain.len() == 8 && domain.starts_with("0000") => {
            format!("{}:{rest}", &domain[4..])
        }
        _ => address,
    }
}

/// What NVML said, as a fact.
fn nvml_fact(answer: Result<String, NvmlError>) -> Fact {
    match answer {
        Ok(text) if text.trim().is_empty() => Fact::Absent,
        Ok(text) => Fact::Value(text.trim().to_string()),
        Err(NvmlError::NotSupported) => Fact::Absent,
        Err(NvmlError::NoPermission) => Fact::Unreadable {
            why: "permission denied".to_string(),
            needs: Some("root".to_string()),
        },
        Err(NvmlError::FailedToLoadSymbol(_)) => unreadable("the driver is too old to tell it".to_string()),
        Err(error) => unreadable(error.to_string()),
    }
}

fn unreadable(why: String) -> Fact {
    Fact::Unreadable { why, needs: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_the_library_has_no_gpus_and_says_that_there_is_none() {
        let gpus = gpus_of(OsStr::new("libno-such-nvml.so.1"), PATIENCE);
        assert_eq!(gpus, GpuInventory::unknown(Fact::Absent));
    }

    #[test]
    fn a_gpu_is_named_on_the_bus_as_the_kernel_names_it() {
        assert_eq!(short_address("00000000:18:00.0"), "0000:18:00.0");
        assert_eq!(short_address("00010000:AB:00.0"), "00010000:ab:00.0");
        assert_eq!(short_address(""), "");
    }
}
