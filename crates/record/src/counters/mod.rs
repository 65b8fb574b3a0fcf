//! Every counter that is read around cells: where it is found, how wide it is and what happens at its end, what it speaks of.
//!
//! One visible registry, known to whoever reads counters and to whoever judges them, so that a run recorded anywhere is judged
//! here with the same knowledge. Counters that are no counters (percentages, watermarks) are left out: they have no difference.

mod catalogue;
mod movement;

pub use catalogue::COUNTERS;
pub use movement::Movement;

use std::collections::HashMap;
use std::sync::LazyLock;

use strum::{Display, EnumIter, EnumString, VariantNames};

/// Where a counter is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Display, EnumIter)]
#[strum(serialize_all = "kebab-case")]
pub enum CounterSource {
    /// `/sys/class/net/X`.
    Interface,
    /// `ports/N/counters` of an RDMA device: those that InfiniBand defines.
    Port,
    /// `ports/N/hw_counters` of an RDMA device: its driver's own.
    Hardware,
    /// What the driver of an interface tells `ethtool -S`.
    Ethtool,
    /// `aer_dev_*` of the PCI device behind a port or interface.
    Pcie,
    /// What a GPU's driver tells NVML.
    Gpu,
}

impl CounterSource {
    /// What stands for all its counters, where none of them is there or can be read.
    pub fn all(self) -> String {
        format!("{self}/*")
    }
}

/// What a counter speaks of when it moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum CounterKind {
    /// Data went through: always moves.
    Traffic,
    /// Bits were wrong on the wire: cable, optics, connector.
    Physical,
    /// The link went down.
    Flap,
    /// Somebody had to wait or throw away for want of room or credit.
    Congestion,
    /// Packets did not arrive, wherever they were lost.
    Loss,
    /// The device's own connection to the host.
    Pcie,
    /// A GPU's memory and links.
    Gpu,
}

/// What one step of a counter is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Display)]
#[strum(serialize_all = "kebab-case")]
pub enum CounterUnit {
    /// Something happened.
    Events,
    /// A packet.
    Packets,
    /// A byte.
    Bytes,
    /// Four bytes.
    Words,
    /// A bit.
    Bits,
    /// A microsecond.
    Microseconds,
    /// A tick of the device's own clock.
    Ticks,
}

/// What a counter does at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AtItsEnd {
    /// It begins again at zero.
    Wraps,
    /// It stays there until somebody clears it.
    Sticks,
}

/// A counter that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counter {
    /// As the kernel or the driver writes it; `*` stands for one digit. Those of the PCI bus have their file before them.
    pub name: &'static str,
    /// Where it is found.
    pub source: CounterSource,
    /// What it speaks of.
    pub kind: CounterKind,
    /// What one step is.
    pub unit: CounterUnit,
    /// How wide it is.
    pub bits: u8,
    /// What it does when that is not enough.
    pub end: AtItsEnd,
}

impl Counter {
    /// Whether `name` is this counter's, or that of one of those that `*` stands for.
    pub fn is_called(&self, name: &str) -> bool {
        match self.name.split_once('*') {
            _ if self.name == name => true,
            None => false,
            Some((head, tail)) => {
                let middle = name.strip_prefix(head).and_then(|rest| rest.strip_suffix(tail));
                middle.is_some_and(|digit| digit.len() == 1 && digit.as_bytes()[0].is_ascii_digit())
            }
        }
    }

    /// How wide it is, as records say it: nothing where it is as wide as the number it is kept in.
    pub fn recorded_bits(&self) -> Option<u8> {
        (self.bits < u64::BITS as u8).then_some(self.bits)
    }
}

/// The known counters of a source, in order.
pub fn of_source(source: CounterSource) -> impl Iterator<Item = &'static Counter> {
    COUNTERS.iter().filter(move |counter| counter.source == source)
}

/// The counter of that name at a source.
pub fn at(source: CounterSource, name: &str) -> Option<&'static Counter> {
    alike(name).find(|counter| counter.source == source)
}

/// The counter of that name, wherever it is found: of several the first in the catalogue.
pub fn named(name: &str) -> Option<&'static Counter> {
    alike(name).next()
}

/// All counters of that name: a port and its driver may both have one. Asked for every line of a record, so they are looked up.
pub fn alike(name: &str) -> impl Iterator<Item = &'static Counter> {
    static BY_NAME: LazyLock<HashMap<&str, Vec<&Counter>>> = LazyLock::new(|| {
        let mut by_name: HashMap<&str, Vec<&Counter>> = HashMap::new();
        for counter in COUNTERS {
            by_name.entry(counter.name).or_default().push(counter);
        }
        by_name
    });
    static PATTERNS: LazyLock<Vec<&Counter>> = LazyLock::new(|| {
        COUNTERS
            .iter()
            .filter(|counter| counter.name.contains('*'))
            .collect()
    });
    let exact = BY_NAME.get(name);
    let by_pattern = || PATTERNS.iter().find(|counter| counter.is_called(name));
    let pattern = if exact.is_none() { by_pattern() } else { None };
    exact.into_iter().flatten().chain(pattern).copied()
}

/// Whether a counter moves with data and says nothing beyond that. Names that are not known are judged by how they end.
pub fn is_traffic(name: &str) -> bool {
    match named(name) {
        Some(counter) => counter.kind == CounterKind::Traffic,
        None => name.ends_with("_bytes") || name.ends_with("_packets"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn no_counter_is_listed_twice_for_one_source() {
        let mut seen = HashSet::new();
        for counter in COUNTERS {
            assert!(seen.insert((counter.source, counter.name)), "{}", counter.name);
            assert!((1..=64).contains(&counter.bits), "{}", counter.name);
        }
    }

    #[test]
    fn a_counter_kept_for_each_priority_is_known_for_each_and_for_nothing_else() {
        let known = |name: &str| named(name).map(|counter| counter.name);
        assert_eq!(known("rx_prio3_pause_duration"), Some("rx_prio*_pause_duration"));
        for other in [
            "rx_prio_pause_duration",
            "rx_prio33_pause_duration",
            "rx_priox_pause_duration",
            "rx_prio3_pause_duration2",
        ] {
            assert_eq!(known(other), None, "{other}");
        }
    }

    #[test]
    fn a_name_that_two_sources_share_speaks_of_the_same_thing_in_both() {
        for counter in COUNTERS {
            let first = named(counter.name).unwrap();
            assert_eq!(
                (counter.kind, counter.unit),
                (first.kind, first.unit),
                "{}",
                counter.name
            );
        }
    }

    #[test]
    fn traffic_of_devices_that_nobody_knows_is_no_error() {
        assert!(is_traffic("port_xmit_data") && is_traffic("strange_bytes") && is_traffic("sent_pkts"));
        assert!(!is_traffic("symbol_error") && !is_traffic("strange_errors"));
    }
}
