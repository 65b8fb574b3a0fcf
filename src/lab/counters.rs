//! The counters of every switch port, read the way the product reads them from any tree.

use std::path::PathBuf;

use serde::Serialize;

use super::{Lab, Node};
use crate::fabric::sysfs;

/// The counters of one port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PortCounters {
    /// The switch.
    pub switch: Node,
    /// The port there.
    pub port: String,
    /// The tree they were read from.
    pub root: PathBuf,
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
            root: root.clone(),
        });
        ports.collect::<Vec<_>>()
    };
    lab.wiring.shape.switches().flat_map(of_switch).collect()
}
