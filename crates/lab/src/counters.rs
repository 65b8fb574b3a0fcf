//! The counters of every switch port, read the way the product reads them from any tree.

use super::{Lab, Node};
use probe::switches::{CounterFile, PortEntry};
use probe::sysfs;

/// The counters of one port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortCounters {
    /// The switch.
    pub switch: Node,
    /// The port there.
    pub port: String,
    /// By the kernel's names; absent is not zero.
    pub counters: Vec<(String, Option<u64>)>,
}

/// The counters of all switch ports of a lab.
pub fn counters(lab: &Lab) -> Vec<PortCounters> {
    let of_switch = |switch: Node| {
        let root = lab.folder().sysfs(switch);
        let ports = lab.wiring.ports_of(switch).map(move |(port, _)| PortCounters {
            switch,
            port: port.interface.clone(),
            counters: sysfs::read_counters(&root, &port.interface),
        });
        ports.collect::<Vec<_>>()
    };
    lab.wiring.shape.switches().flat_map(of_switch).collect()
}

/// The same as a file that any run can be told to read.
pub fn counters_file(counters: &[PortCounters]) -> CounterFile {
    let port = |port: &PortCounters| PortEntry {
        switch: port.switch.to_string(),
        port: port.port.clone(),
        bits: None,
        counters: port.counters.iter().cloned().collect(),
    };
    CounterFile::of(counters.iter().map(port).collect())
}
