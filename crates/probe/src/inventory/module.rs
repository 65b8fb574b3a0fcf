//! What is plugged into the ports of interfaces. Takes CAP_NET_ADMIN.

use super::super::ethtool::{Missing, ModuleMemory};
use super::super::transceiver;
use super::asked::Asked;
use record::{Fact, InventoryPart, PartClass};

/// The modules of interfaces that have a place for one: those of devices on a bus whose driver knows of it.
pub(super) fn parts(interfaces: &[InventoryPart], asked: &Asked) -> Vec<InventoryPart> {
    let has_device = |part: &&InventoryPart| part.facts.get("pci").is_some_and(|pci| *pci != Fact::Absent);
    let one = |part: &InventoryPart| {
        let module = match asked.interface(&part.name).module {
            Err(Missing::Absent) => return None,
            Ok(ModuleMemory(memory)) => transceiver::facts(&memory),
            // Nothing is known of it, and it is the same reason for everything.
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
