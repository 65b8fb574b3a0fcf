//! The counters of one end of a rail at one moment: of its interface, its RDMA port, their driver, and the PCI bus.
//!
//! The counters are those of the catalogue ([`record::counters`]). Readers take the root of a tree. An absent counter is
//! distinguished from an unreadable one; nothing in a tree makes a reader fail, block or read without bound.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Error, ErrorKind, Read};
use std::path::{Path, PathBuf};

use super::ethtool::{self, Unavailable};
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
    /// Its value.
    pub value: Value,
    /// Its width in bits where that is less than 64.
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

/// Whether the driver is queried. Every query waits for the kernel's network configuration lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DriverQuery {
    /// Query it.
    Ask,
    /// An earlier query showed that it has none of the known counters.
    SkipKnownEmpty,
}

/// All counters of an end of a rail, in the order of the catalogue. A counter that both the port and the driver have is
/// read once, from the port.
pub fn read(root: &Path, end: &RailEnd, driver: DriverQuery) -> Vec<Reading> {
    let mut readings = Vec::new();
    if let Some(interface) = &end.interface {
        readings.extend(of_interface(root, interface));
    }
    if let Some(port) = &end.rdma {
        readings.extend(of_port(root, &port.device, port.port));
    }
    if let Some(interface) = &end.interface {
        readings.extend(match driver {
            DriverQuery::Ask => of_driver(root, interface),
            DriverQuery::SkipKnownEmpty => vec![none_of(CounterSource::Ethtool, CounterState::Absent)],
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
        Some(folder) if counter.name == "carrier_changes" => number(&folder.join(counter.name)),
        Some(folder) => number(&folder.join("statistics").join(counter.name)),
    };
    of_source(CounterSource::Interface, value)
}

fn of_port(root: &Path, device: &str, port: u8) -> Vec<Reading> {
    let folder = rdma::port_folder(root, device, port);
    let below = |kind: &'static str| {
        let folder = folder.as_ref().map(|folder| folder.join(kind));
        move |counter: &Counter| match &folder {
            None => Err(CounterState::Absent),
            Some(folder) => number(&folder.join(counter.name)),
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
    let has_value = |name: &str| {
        of_driver
            .iter()
            .any(|other| other.name == name && other.value.is_ok())
    };
    readings.retain(|reading| reading.value.is_ok() || !has_value(&reading.name));
    readings.extend(of_driver);
    readings
}

/// The counters of the driver. A recorded tree has no driver to query.
fn of_driver(root: &Path, interface: &str) -> Vec<Reading> {
    let source = CounterSource::Ethtool;
    if root != Path::new(SYS) {
        let why = "a recorded tree has no driver to query".to_string();
        return vec![none_of(source, CounterState::Unreadable(why))];
    }
    match ethtool::statistics(interface) {
        Err(Unavailable::Absent) => vec![none_of(source, CounterState::Absent)],
        Err(Unavailable::Unreadable { why, .. }) => vec![none_of(source, CounterState::Unreadable(why))],
        Ok(statistics) => of_statistics(&statistics),
    }
}

/// The known counters of a driver, and as absent the known ones that it lacks.
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
    let mut errors = PciErrors::below(folder.as_deref());
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

/// Errors that the PCI bus reports about a device: files `aer_dev_*`, each a list of `NAME COUNT`, read once.
struct PciErrors {
    folder: Option<PathBuf>,
    lists: BTreeMap<String, Result<String, CounterState>>,
}

impl PciErrors {
    /// Those of the device with this folder; of none, all are absent.
    fn below(folder: Option<&Path>) -> PciErrors {
        PciErrors {
            folder: folder.map(Path::to_path_buf),
            lists: BTreeMap::new(),
        }
    }

    /// The counter `FILE/NAME`.
    fn count(&mut self, counter: &str) -> Value {
        let (Some(folder), Some((file, name))) = (&self.folder, counter.split_once('/')) else {
            return Err(CounterState::Absent);
        };
        let list = self.lists.entry(file.to_string());
        let list = list.or_insert_with(|| text(&folder.join(file)));
        let list = list.as_ref().map_err(CounterState::clone)?;
        let mut lines = list.lines().filter_map(|line| line.trim().split_once(' '));
        let (_, count) = lines
            .find(|(found, _)| *found == name)
            .ok_or(CounterState::Absent)?;
        let number = count.trim().parse();
        number.map_err(|_| unreadable("not a number"))
    }
}

/// The longest file of counters.
const LONGEST: u64 = 4096;

/// The number in a file.
fn number(path: &Path) -> Value {
    let text = text(path)?;
    text.trim().parse().map_err(|_| unreadable("not a number"))
}

/// The text of a file. Only plain files are opened: reading a pipe in a recorded tree could block forever.
fn text(path: &Path) -> Result<String, CounterState> {
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => {}
        Ok(_) => return Err(unreadable("not a plain file")),
        Err(error) => return Err(state(&error)),
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| state(&error))?;
    file.take(LONGEST + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| state(&error))?;
    if bytes.len() as u64 > LONGEST {
        return Err(unreadable("longer than 4096 bytes"));
    }
    String::from_utf8(bytes).map_err(|_| unreadable("not text"))
}

fn state(error: &Error) -> CounterState {
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => CounterState::Absent,
        // The kind alone: the full message differs between machines.
        kind => CounterState::Unreadable(kind.to_string()),
    }
}

fn unreadable(why: &str) -> CounterState {
    CounterState::Unreadable(why.to_string())
}

#[cfg(test)]
mod tests;
