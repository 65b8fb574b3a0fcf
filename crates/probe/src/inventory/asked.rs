//! What is asked of drivers and the kernel instead of read from files, and the same as it was answered on a recorded machine.
//!
//! A recorded tree has these answers in files of its own (`railgauge/ethtool/IFACE.json`, `railgauge/devlink.json`). One that does
//! not have them says so: the machine that reads it is never asked in its place.

use std::collections::BTreeMap;
use std::panic::resume_unwind;

use serde::{Deserialize, Serialize};

use super::super::devlink::{self, Device};
use super::super::ethtool::{self, Driver, Link, Missing, ModuleMemory, Pause, Rings};
use super::tree::Tree;
use record::Fact;

/// Where a recorded tree has the answers about an interface.
pub(super) const ETHTOOL: &str = "railgauge/ethtool";
/// Where it has those about devices.
pub(super) const DEVLINK: &str = "railgauge/devlink.json";

/// Interfaces that are asked at the same time.
const MOST_THREADS: usize = 16;

/// An answer, or why there is none.
pub(super) type Answer<T> = Result<T, Missing>;

/// What the driver of an interface answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct OfInterface {
    pub(super) driver: Answer<Driver>,
    pub(super) link: Answer<Link>,
    pub(super) lanes: Answer<u32>,
    pub(super) fec: Answer<String>,
    pub(super) pause: Answer<Pause>,
    pub(super) rings: Answer<Rings>,
    pub(super) module: Answer<ModuleMemory>,
}

impl OfInterface {
    fn asked(interface: &str) -> OfInterface {
        OfInterface {
            driver: ethtool::driver(interface),
            link: ethtool::link(interface),
            lanes: ethtool::lanes(interface),
            fec: ethtool::fec(interface),
            pause: ethtool::pause(interface),
            rings: ethtool::rings(interface),
            module: ethtool::module_memory(interface),
        }
    }

    /// Nothing is known, for one reason.
    fn unknown(why: &Missing) -> OfInterface {
        OfInterface {
            driver: Err(why.clone()),
            link: Err(why.clone()),
            lanes: Err(why.clone()),
            fec: Err(why.clone()),
            pause: Err(why.clone()),
            rings: Err(why.clone()),
            module: Err(why.clone()),
        }
    }
}

/// What a file of answers does not say was not asked.
impl Default for OfInterface {
    fn default() -> OfInterface {
        OfInterface::unknown(&not_recorded())
    }
}

/// All answers of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) interfaces: BTreeMap<String, OfInterface>,
    pub(super) devices: Answer<Vec<Device>>,
}

impl Asked {
    /// Asks the machine, or reads what a recorded one answered.
    pub(super) fn of(tree: &Tree, interfaces: &[String]) -> Asked {
        match tree.is_live() {
            true => Asked::live(interfaces),
            false => Asked::recorded(tree, interfaces),
        }
    }

    /// Firmware takes its time to answer, above all for modules: interfaces are asked side by side. The threads are new ones, so
    /// that they are in the network namespace of whoever asks.
    fn live(interfaces: &[String]) -> Asked {
        std::thread::scope(|scope| {
            let devices = scope.spawn(devlink::devices);
            let share = interfaces.len().div_ceil(MOST_THREADS).max(1);
            let ask = |names: &'_ [String]| -> Vec<(String, OfInterface)> {
                let one = |name: &String| (name.clone(), OfInterface::asked(name));
                names.iter().map(one).collect()
            };
            let asked: Vec<_> = interfaces
                .chunks(share)
                .map(|names| scope.spawn(move || ask(names)))
                .collect();
            let interfaces = asked
                .into_iter()
                .flat_map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
            Asked {
                interfaces: interfaces.collect(),
                devices: devices.join().unwrap_or_else(|panic| resume_unwind(panic)),
            }
        })
    }

    fn recorded(tree: &Tree, interfaces: &[String]) -> Asked {
        let interface = |name: &String| {
            let answers = tree.own(format!("{ETHTOOL}/{name}.json"));
            let answers = answers.unwrap_or_else(|fact| OfInterface::unknown(&missing(fact)));
            (name.clone(), answers)
        };
        let devices: Result<Answer<Vec<Device>>, Fact> = tree.own(DEVLINK);
        Asked {
            interfaces: interfaces.iter().map(interface).collect(),
            devices: devices.unwrap_or_else(|fact| Err(missing(fact))),
        }
    }

    /// What the driver of an interface answered.
    pub(super) fn interface(&self, name: &str) -> OfInterface {
        self.interfaces.get(name).cloned().unwrap_or_default()
    }

    /// What devlink tells of the device at a PCI address.
    pub(super) fn device(&self, pci: &str) -> Answer<&Device> {
        let devices = self.devices.as_ref().map_err(Missing::clone)?;
        let is_it = |device: &&Device| device.bus == "pci" && device.device == pci;
        devices.iter().find(is_it).ok_or(Missing::Absent)
    }
}

fn not_recorded() -> Missing {
    Missing::because("it was not recorded")
}

/// Why answers in a file are missing.
fn missing(fact: Fact) -> Missing {
    match fact {
        Fact::Unreadable { why, needs } => Missing::Unreadable { why, needs },
        Fact::Absent | Fact::Value(_) => not_recorded(),
    }
}
