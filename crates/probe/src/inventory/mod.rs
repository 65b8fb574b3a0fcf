//! The inventory of this node: one small collector per source, each reading from the root of a tree.
//!
//! No collector fails: that something cannot be read is a fact, too. So a tree recorded on another machine, a broken one, and the
//! machine itself are read the same way, and most of it needs no privilege. Only the tree at `/` queries this machine's kernel.

mod board;
mod config;
mod congestion;
mod driver_answers;
mod host;
mod net;
mod nic;
mod pci;
mod read;
mod recording;
mod software;
mod tree;

use std::path::Path;

pub use recording::record_tree;

use super::ethtool::{ModuleMemory, Unavailable};
use super::transceiver;
use driver_answers::DriverAnswers;
use record::{Fact, InventoryPart, NodeInventory, PartClass};
use tree::Tree;

/// Where a recorded tree has its GPUs: a list of parts.
const GPUS: &str = "railgauge/gpus.json";

/// The inventory of the node called `name` from the tree at `root` (`/` on a running machine). GPUs are read by their own
/// library, so those of a running machine are not included; those of a recorded one are.
pub fn of_tree(root: &Path, name: &str) -> NodeInventory {
    collect(&Tree::open(root), name).0
}

/// The same, and the answers of drivers.
fn collect(tree: &Tree, name: &str) -> (NodeInventory, DriverAnswers) {
    let interfaces = net::names(tree);
    let answers = DriverAnswers::of(tree, interfaces.as_deref().unwrap_or_default());
    let devices = nic::names(tree);
    let addresses = pci::names(tree);
    let count = |names: &Result<Vec<String>, Fact>| match names {
        Ok(names) => Fact::Value(names.len().to_string()),
        Err(fact) => fact.clone(),
    };
    let mut parts = vec![
        host::part(tree, name)
            .with("nics", count(&devices))
            .with("pci-devices", count(&addresses)),
    ];
    let nics = nic::parts(tree, &devices.unwrap_or_default(), &answers);
    let ends = net::parts(tree, interfaces.as_deref().unwrap_or_default(), &answers, &nics);
    // Virtual interfaces come and go with containers.
    let has_device = |part: &&InventoryPart| part.facts.get("pci") != Some(&Fact::Absent);
    let of_devices = interfaces.map(|_| ends.iter().filter(has_device).count().to_string());
    let of_devices = of_devices.map_or_else(|fact| fact, Fact::Value);
    parts[0].facts.insert("interfaces".to_string(), of_devices);
    let modules = modules_of(&ends, &answers);
    parts.extend(nics);
    parts.extend(ends);
    parts.extend(modules);
    parts.extend(pci::parts(tree, &addresses.unwrap_or_default()));
    let mut recording_error = tree.recording_error().cloned();
    match recorded_gpus(tree) {
        Ok(gpus) => parts.extend(gpus),
        Err(Fact::Absent) => {}
        Err(fact) => recording_error = recording_error.or(Some(fact)),
    }
    if let Some(fact) = recording_error {
        parts[0].facts.insert("recording".to_string(), fact);
    }
    let node = NodeInventory {
        node: name.to_string(),
        parts,
    };
    (node, answers)
}

fn recorded_gpus(tree: &Tree) -> Result<Vec<InventoryPart>, Fact> {
    match tree.is_live() {
        true => Err(Fact::Absent),
        false => tree.own_file(GPUS),
    }
}

/// The modules plugged into interfaces of bus devices whose drivers support modules. Needs CAP_NET_ADMIN.
fn modules_of(interfaces: &[InventoryPart], answers: &DriverAnswers) -> Vec<InventoryPart> {
    let has_device = |part: &&InventoryPart| part.facts.get("pci").is_some_and(|pci| *pci != Fact::Absent);
    let one = |part: &InventoryPart| {
        let module = match answers.interface(&part.name).module {
            Err(Unavailable::Absent) => return None,
            Ok(ModuleMemory(memory)) => transceiver::facts(&memory),
            // Every fact is unavailable for the same reason.
            Err(missing) => {
                let names = transceiver::facts(&[]).into_keys();
                names.map(|name| (name, missing.clone().into())).collect()
            }
        };
        Some(InventoryPart {
            class: PartClass::Module,
            name: part.name.clone(),
            facts: module,
        })
    };
    let with_interface = |part: InventoryPart| {
        let name = Fact::Value(part.name.clone());
        part.with("interface", name)
    };
    interfaces
        .iter()
        .filter(has_device)
        .filter_map(one)
        .map(with_interface)
        .collect()
}

#[cfg(test)]
mod corruption_tests;
#[cfg(test)]
mod tests;
