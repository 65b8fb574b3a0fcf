//! What a topology adds to an inventory: tiers of switches, names of cables, and cables that no other source has.

use super::SwitchInventory;
use super::builder::InventoryBuilder;
use super::parsed::{ParsedInventory, cable, switch_part};
use record::{Fact, PartAt};
use topology::{Switch, Tier, Topology};

/// Adds the facts of a topology. A contradiction, such as a cable in another port, is an error in the inventory.
pub fn apply_topology(inventory: &mut SwitchInventory, topology: &Topology) {
    let place = match topology.source.origin.as_str() {
        "" => "the topology",
        origin => origin,
    };
    let mut builder = InventoryBuilder::of(std::mem::take(inventory));
    // Without any source about switches, switches that no source has are not worth an error.
    let has_sources = !builder.has_no_switches();
    let mut parsed = ParsedInventory::default();
    if topology.each_rail {
        // It stands for every rail: which cable is in which port it does not say.
        for name in builder.names() {
            let is_meant =
                |switch: &&Switch| name == switch.name || name.ends_with(&format!("-{}", switch.name));
            if let Some(switch) = topology.switches.iter().find(is_meant) {
                let tier = Fact::Value(word(switch.tier).to_string());
                parsed.part(&name, switch_part(&name).with("tier", tier));
            }
        }
        builder.add(place, parsed);
        *inventory = builder.finish();
        return;
    }
    for switch in topology.switches.iter().filter(|_| has_sources) {
        let mut part = switch_part(&switch.name);
        if !builder.knows(&switch.name) {
            let why = "no source has this switch".to_string();
            part = part.with("firmware", Fact::Unreadable { why, needs: None });
        }
        let tier = Fact::Value(word(switch.tier).to_string());
        parsed.part(&switch.name, part.with("tier", tier));
    }
    for link in &topology.links {
        let ends = link.ends.each_ref().map(|end| PartAt {
            node: end.node.clone(),
            part: end.interface.clone(),
        });
        let mut cable = cable(ends.clone());
        cable.name = link.name.clone();
        builder.rename(&ends, &link.name);
        parsed.cables.push(cable);
    }
    builder.add(place, parsed);
    *inventory = builder.finish();
}

fn word(tier: Tier) -> &'static str {
    match tier {
        Tier::Leaf => "leaf",
        Tier::Spine => "spine",
        Tier::Core => "core",
    }
}
