//! The counters of one end of a rail at one moment: of its interface, its RDMA port, their driver, and the PCI bus.
//!
//! Which counters there are is the catalogue's to say ([`record::counters`]). As everywhere readers take the root of a
//! tree; a counter that is not there is told from one that is there and cannot be read; nothing in a tree makes a reader fail,
//! wait or read without bound.

mod attribute;
mod pci;

use std::path::Path;

use super::ethtool::{self, Missing};
use super::sysfs::SYS;
use super::{rdma, sysfs};
use record::counters::{self, Counter, CounterSource};
use record::{CounterState, RailEnd};

/// A value, or why there is none: absent or unreadable.
pub type Value = Result<u64, CounterState>;

/// One counter at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// Its name; `ethtool/*` and the like stand for all counters of a source that has none to show.
    pub name: String,
    /// What it stands at.
    pub value: Value,
    /// How many bits it has where that is fewer than 64.
    pub bits: Option<u8>,
}

impl Reading {
    fn of(counter: &Counter, name: &str, value: Value) -> Reading {
        Reading {
            name: name.to_string(),
            value,
            bits: counter.recorded_bits(),
        }
    }
}

/// Whether a driver is asked: every question to one waits for the lock that all changes of a machine's network take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Driver {
    /// It is.
    Asked,
    /// It has told before that it has none of the counters that are known.
    KnownToHaveNone,
}

/// All counters of an end of a rail, in the order of the catalogue. A counter that the port and the driver both have is told
/// once, as the port counts it.
pub fn read(root: &Path, end: &RailEnd, driver: Driver) -> Vec<Reading> {
    let mut readings = Vec::new();
    if let Some(interface) = &end.interface {
        readings.extend(of_interface(root, interface));
    }
    if let Some(port) = &end.rdma {
        readings.extend(of_port(root, &port.device, port.port));
    }
    if let Some(interface) = &end.interface {
        readings.extend(match driver {
            Driver::Asked => of_driver(root, interface),
            Driver::KnownToHaveNone => vec![none_of(CounterSource::Ethtool, CounterState::Absent)],
        });
    }
    let device = end.rdma.as_ref().map(|port| port.device.as_str());
    readings.extend(of_bus(root, device, end.interface.as_deref()));
    readings
}

fn of_interface(root: &Path, interface: &str) -> Vec<Reading> {
    let folder = sysfs::folder_of(root, interface);
    let value = |counter: &Counter| match &folder {
        None => Err(CounterState::Absent),
        Some(folder) if counter.name == "carrier_changes" => attribute::number(&folder.join(counter.name)),
        Some(folder) => attribute::number(&folder.join("statistics").join(counter.name)),
    };
    of_source(CounterSource::Interface, value)
}

fn of_port(root: &Path, device: &str, port: u8) -> Vec<Reading> {
    let folder = rdma::port_folder(root, device, port);
    let below = |kind: &'static str| {
        let folder = folder.as_ref().map(|folder| folder.join(kind));
        move |counter: &Counter| match &folder {
            None => Err(CounterState::Absent),
            Some(folder) => attribute::number(&folder.join(counter.name)),
        }
    };
    let mut readings = of_source(CounterSource::Port, below("counters"));
    let known: Vec<String> = readings
        .iter()
        .filter(|reading| reading.value.is_ok())
        .map(|reading| reading.name.clone())
        .collect();
    let mut of_driver = of_source(CounterSource::Hardware, below("hw_counters"));
    of_driver.retain(|reading| !known.contains(&reading.name));
    let told = |name: &str| {
        of_driver
            .iter()
            .any(|other| other.name == name && other.value.is_ok())
    };
    readings.retain(|reading| reading.value.is_ok() || !told(&reading.name));
    readings.extend(of_driver);
    readings
}

/// What the driver counts. A tree that was recorded somewhere has no driver to ask.
fn of_driver(root: &Path, interface: &str) -> Vec<Reading> {
    let source = CounterSource::Ethtool;
    if root != Path::new(SYS) {
        let why = "a recorded tree has no driver to ask".to_string();
        return vec![none_of(source, CounterState::Unreadable(why))];
    }
    match ethtool::statistics(interface) {
        Err(Missing::Absent) => vec![none_of(source, CounterState::Absent)],
        Err(Missing::Unreadable { why, .. }) => vec![none_of(source, CounterState::Unreadable(why))],
        Ok(statistics) => of_statistics(&statistics),
    }
}

/// Those counters of a driver that are known, and which of the known ones it lacks.
fn of_statistics(statistics: &[(String, u64)]) -> Vec<Reading> {
    let source = CounterSource::Ethtool;
    let mut readings = Vec::new();
    let mut lacking: Vec<&Counter> = counters::of_source(source).collect();
    for (name, value) in statistics {
        if let Some(counter) = counters::at(source, name) {
            readings.push(Reading::of(counter, name, Ok(*value)));
            lacking.retain(|other| other.name != counter.name);
        }
    }
    if readings.is_empty() {
        return vec![none_of(source, CounterState::Absent)];
    }
    let absent = |counter: &Counter| Reading::of(counter, counter.name, Err(CounterState::Absent));
    readings.extend(lacking.into_iter().map(absent));
    readings
}

fn of_bus(root: &Path, device: Option<&str>, interface: Option<&str>) -> Vec<Reading> {
    let of_device = device.and_then(|device| rdma::device_folder(root, device));
    let of_interface = interface.and_then(|interface| sysfs::folder_of(root, interface));
    let folders = of_device.into_iter().chain(of_interface);
    let folder = folders
        .map(|folder| folder.join("device"))
        .find(|folder| folder.is_dir());
    let mut errors = pci::Errors::below(folder.as_deref());
    of_source(CounterSource::Pcie, |counter| errors.count(counter.name))
}

/// The counters of a source; one reading for all of them when each is missing for the same reason.
fn of_source(source: CounterSource, mut value: impl FnMut(&Counter) -> Value) -> Vec<Reading> {
    let readings: Vec<Reading> = counters::of_source(source)
        .map(|counter| Reading::of(counter, counter.name, value(counter)))
        .collect();
    match readings.first().map(|first| &first.value) {
        Some(Err(state)) if readings.iter().all(|other| other.value.as_ref() == Err(state)) => {
            vec![none_of(source, state.clone())]
        }
        _ => readings,
    }
}

fn none_of(source: CounterSource, state: CounterState) -> Reading {
    Reading {
        name: source.all(),
        value: Err(state),
        bits: None,
    }
}

#[cfg(test)]
mod tests;
