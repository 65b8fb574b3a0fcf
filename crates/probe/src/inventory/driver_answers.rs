//! Answers of drivers and the kernel that no file has: queried live, or read from a recorded tree.
//!
//! A recorded tree has these answers in files of its own (`railgauge/ethtool/IFACE.json`, `railgauge/devlink.json`). Where they are
//! missing they are unknown: the machine that reads the tree is never queried instead.

use std::collections::BTreeMap;
use std::panic::resume_unwind;

use serde::{Deserialize, Serialize};

use super::super::dcb::{self, Dcb};
use super::super::devlink::{self, Device};
use super::super::ethtool::{self, Driver, Link, ModuleMemory, Pause, Rings, Unavailable};
use super::tree::Tree;
use record::Fact;

/// The folder of a recorded tree with the answers about interfaces.
pub(super) const ETHTOOL: &str = "railgauge/ethtool";
/// The file with those about devices.
pub(super) const DEVLINK: &str = "railgauge/devlink.json";

/// Threads that query interfaces.
const MOST_THREADS: usize = 16;

/// An answer, or why it is unavailable.
pub(super) type Answer<T> = Result<T, Unavailable>;

/// What the driver of an interface answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct InterfaceAnswers {
    pub(super) driver: Answer<Driver>,
    pub(super) link: Answer<Link>,
    pub(super) lanes: Answer<u32>,
    pub(super) fec: Answer<String>,
    pub(super) pause: Answer<Pause>,
    pub(super) rings: Answer<Rings>,
    pub(super) module: Answer<ModuleMemory>,
    pub(super) pfc_prevention: Answer<String>,
    pub(super) dcb: Answer<Dcb>,
}

impl InterfaceAnswers {
    fn query(interface: &str) -> InterfaceAnswers {
        InterfaceAnswers {
            driver: ethtool::driver(interface),
            link: ethtool::link(interface),
            lanes: ethtool::lanes(interface),
            fec: ethtool::fec(interface),
            pause: ethtool::pause(interface),
            rings: ethtool::rings(interface),
            module: ethtool::module_memory(interface),
            pfc_prevention: ethtool::pfc_prevention(interface),
            dcb: dcb::dcb(interface),
        }
    }

    /// All answers unavailable for one reason.
    fn unknown(why: &Unavailable) -> InterfaceAnswers {
        InterfaceAnswers {
            driver: Err(why.clone()),
            link: Err(why.clone()),
            lanes: Err(why.clone()),
            fec: Err(why.clone()),
            pause: Err(why.clone()),
            rings: Err(why.clone()),
            module: Err(why.clone()),
            pfc_prevention: Err(why.clone()),
            dcb: Err(why.clone()),
        }
    }
}

/// Answers that a file does not have were not recorded.
impl Default for InterfaceAnswers {
    fn default() -> InterfaceAnswers {
        InterfaceAnswers::unknown(&not_recorded())
    }
}

/// All answers of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DriverAnswers {
    pub(super) interfaces: BTreeMap<String, InterfaceAnswers>,
    pub(super) devices: Answer<Vec<Device>>,
}

impl DriverAnswers {
    /// Queries the machine, or reads the answers of a recorded one.
    pub(super) fn of(tree: &Tree, interfaces: &[String]) -> DriverAnswers {
        match tree.is_live() {
            true => DriverAnswers::live(interfaces),
            false => DriverAnswers::recorded(tree, interfaces),
        }
    }

    /// Firmware answers slowly, above all for modules, so interfaces are queried in parallel. The threads are new ones, so that
    /// they are in the network namespace of the caller.
    fn live(interfaces: &[String]) -> DriverAnswers {
        std::thread::scope(|scope| {
            let devices = scope.spawn(devlink::devices);
            let share = interfaces.len().div_ceil(MOST_THREADS).max(1);
            let ask = |names: &'_ [String]| -> Vec<(String, InterfaceAnswers)> {
                let one = |name: &String| (name.clone(), InterfaceAnswers::query(name));
                names.iter().map(one).collect()
            };
            let answers: Vec<_> = interfaces
                .chunks(share)
                .map(|names| scope.spawn(move || ask(names)))
                .collect();
            let interfaces = answers
                .into_iter()
                .flat_map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
            DriverAnswers {
                interfaces: interfaces.collect(),
                devices: devices.join().unwrap_or_else(|panic| resume_unwind(panic)),
            }
        })
    }

    fn recorded(tree: &Tree, interfaces: &[String]) -> DriverAnswers {
        let interface = |name: &String| {
            let answers = tree.own_file(format!("{ETHTOOL}/{name}.json"));
            let answers = answers.unwrap_or_else(|fact| InterfaceAnswers::unknown(&missing(fact)));
            (name.clone(), answers)
        };
        let devices: Result<Answer<Vec<Device>>, Fact> = tree.own_file(DEVLINK);
        DriverAnswers {
            interfaces: interfaces.iter().map(interface).collect(),
            devices: devices.unwrap_or_else(|fact| Err(missing(fact))),
        }
    }

    /// What the driver of an interface answered.
    pub(super) fn interface(&self, name: &str) -> InterfaceAnswers {
        self.interfaces.get(name).cloned().unwrap_or_default()
    }

    /// The devlink information of the device at a PCI address.
    pub(super) fn device(&self, pci: &str) -> Answer<&Device> {
        let devices = self.devices.as_ref().map_err(Unavailable::clone)?;
        let is_it = |device: &&Device| device.bus == "pci" && device.device == pci;
        devices.iter().find(is_it).ok_or(Unavailable::Absent)
    }
}

fn not_recorded() -> Unavailable {
    Unavailable::because("it was not recorded")
}

/// Why answers in a file are missing.
fn missing(fact: Fact) -> Unavailable {
    match fact {
        Fact::Unreadable { why, needs } => Unavailable::Unreadable { why, needs },
        Fact::Absent | Fact::Value(_) => not_recorded(),
    }
}
