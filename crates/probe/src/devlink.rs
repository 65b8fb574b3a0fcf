//! Device information from devlink: serial numbers, and fixed, running and stored versions.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::ethtool::Unavailable;
use super::netlink::Family;
use super::netlink::message::{Attributes, attributes, text};

const GET_INFO: u8 = 51;

const BUS: u16 = 1;
const DEVICE: u16 = 2;
const DRIVER: u16 = 98;
const SERIAL: u16 = 99;
const FIXED: u16 = 100;
const RUNNING: u16 = 101;
const STORED: u16 = 102;
const VERSION_NAME: u16 = 103;
const VERSION: u16 = 104;
const BOARD_SERIAL: u16 = 146;

/// One device. Facts that its driver does not report are left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Device {
    /// The bus it is on: `pci`.
    pub bus: String,
    /// Its address there: `0000:17:00.0`.
    pub device: String,
    /// Its driver.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// Its serial number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
    /// The serial number of its board.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub board_serial: Option<String>,
    /// What cannot change: `fw.psid`, `board.id`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub fixed: BTreeMap<String, String>,
    /// What runs: `fw.version`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub running: BTreeMap<String, String>,
    /// What will run after the next reset.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub stored: BTreeMap<String, String>,
}

/// All devices that drivers report.
pub fn devices() -> Result<Vec<Device>, Unavailable> {
    let answers = Family::find("devlink", 1)?.ask(GET_INFO, Attributes::new(), true)?;
    Ok(answers.iter().filter_map(|answer| device(answer)).collect())
}

/// One device from one answer; none when the answer does not identify it.
fn device(answer: &[u8]) -> Option<Device> {
    let mut device = Device {
        bus: text(answer, BUS)?,
        device: text(answer, DEVICE)?,
        driver: text(answer, DRIVER),
        serial: text(answer, SERIAL),
        board_serial: text(answer, BOARD_SERIAL),
        ..Device::default()
    };
    for (kind, value) in attributes(answer) {
        let versions = match kind {
            FIXED => &mut device.fixed,
            RUNNING => &mut device.running,
            STORED => &mut device.stored,
            _ => continue,
        };
        if let (Some(name), Some(version)) = (text(value, VERSION_NAME), text(value, VERSION)) {
            versions.insert(name, version);
        }
    }
    Some(device)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn firmware_that_waits_for_a_reset_is_told_from_what_runs() {
        let version =
            |name: &str, value: &str| Attributes::new().text(VERSION_NAME, name).text(VERSION, value);
        let answer = Attributes::new()
            .text(BUS, "pci")
            .text(DEVICE, "0000:17:00.0")
            .text(DRIVER, "mlx5_core")
            .nest(FIXED, &version("fw.psid", "MT_0000000838"))
            .nest(RUNNING, &version("fw.version", "28.39.1002"))
            .nest(STORED, &version("fw.version", "28.43.2026"));
        let device = device(answer.bytes()).unwrap();
        assert_eq!(device.device, "0000:17:00.0");
        assert_eq!(device.fixed["fw.psid"], "MT_0000000838");
        assert_eq!(device.running["fw.version"], "28.39.1002");
        assert_eq!(device.stored["fw.version"], "28.43.2026");
        assert_eq!(device.serial, None);
    }

    #[test]
    fn a_kernel_without_devlink_is_told_from_one_without_devices() {
        match devices() {
            Ok(_) => {}
            Err(Unavailable::Unreadable { why, .. }) => assert!(!why.is_empty()),
            Err(Unavailable::Absent) => panic!("devlink itself is either there or unreadable"),
        }
    }

    proptest! {
        #[test]
        fn no_answer_makes_a_reader_fail(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            if let Some(device) = device(&bytes) {
                prop_assert!(!device.bus.is_empty() && !device.device.is_empty());
            }
        }
    }
}
