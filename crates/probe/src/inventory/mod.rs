//! What this node is made of: one small collector per source, each reading from the root of a tree.
//!
//! No collector fails: what cannot be read is a fact, too. So a tree recorded on another machine, a broken one, and the machine
//! itself are all read the same way, and without privilege most of it is known. Only the tree at `/` asks this machine's kernel.

mod asked;
mod board;
mod config;
mod host;
mod module;
mod net;
mod nic;
mod pci;
mod read;
mod recording;
mod software;
mod tree;

use std::path::Path;

pub use recording::record_tree;

use asked::Asked;
use record::{Fact, InventoryPart, NodeInventory};
use tree::Tree;

/// Where a recorded tree has its GPUs: a list of parts.
const GPUS: &str = "railgauge/gpus.json";

/// Everything that the tree at `root` (`/` on a running machine) tells of the node called `name`. GPUs are told by their own
/// library, so a running machine's are not among it; a recorded one's are.
pub fn of_tree(root: &Path, name: &str) -> NodeInventory {
    collect(&Tree::open(root), name).0
}

/// The same, and what was asked for it.
fn collect(tree: &Tree, name: &str) -> (NodeInventory, Asked) {
    let interfaces = net::names(tree);
    let asked = Asked::of(tree, interfaces.as_deref().unwrap_or_default());
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
    let nics = nic::parts(tree, &devices.unwrap_or_default(), &asked);
    let ends = net::parts(tree, interfaces.as_deref().unwrap_or_default(), &asked, &nics);
    // Others come and go with containers.
    let has_device = |part: &&InventoryPart| part.facts.get("pci") != Some(&Fact::Absent);
    let of_devices = interfaces.map(|_| ends.iter().filter(has_device).count().to_string());
    let of_devices = of_devices.map_or_else(|fact| fact, Fact::Value);
    parts[0].facts.insert("interfaces".to_string(), of_devices);
    let modules = module::parts(&ends, &asked);
    parts.extend(nics);
    parts.extend(ends);
    parts.extend(modules);
    parts.extend(pci::parts(tree, &addresses.unwrap_or_default()));
    let mut trouble = tree.trouble().cloned();
    match recorded_gpus(tree) {
        Ok(gpus) => parts.extend(gpus),
        Err(Fact::Absent) => {}
        Err(fact) => trouble = trouble.or(Some(fact)),
    }
    if let Some(fact) = trouble {
        parts[0].facts.insert("recording".to_string(), fact);
    }
    let node = NodeInventory {
        node: name.to_string(),
        parts,
    };
    (node, asked)
}

fn recorded_gpus(tree: &Tree) -> Result<Vec<InventoryPart>, Fact> {
    match tree.is_live() {
        true => Err(Fact::Absent),
        false => tree.own(GPUS),
    }
}

#[cfg(test)]
mod corruption;
#[cfg(test)]
mod tests;
