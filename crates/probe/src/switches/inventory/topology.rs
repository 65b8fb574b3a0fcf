//! What a topology adds to an inventory: tiers of switches, names of cables, and cables that nobody else told of.

use super::SwitchInventory;
use super::gathered::Gathered;
use super::told::{Told, cable, switch_part};
use record::{Fact, PartAt};
use topology::{Switch, Tier, Topology};

/// Adds what a topology knows. Where it contradicts what was told, that is a trouble: a cable in another port than it should be.
pub fn apply_topology(inventory: &mut SwitchInventory, topology: &Topology) {
    let place = match topology.source.origin.as_str() {
        "" => "the topology",
        origin => origin,
    };
    let mut gathered = Gathered::of(std::mem::take(inventory));
    // Where nobody was asked about switches, that nobody told of them is not worth a word.
    let was_asked = !gathered.has_no_switches();
    let mut told = Told::default();
    if topology.each_rail {
        // It stands for every rail: which cable is in which port it does not say.
        for name in gathered.names() {
            let is_meant =
                |switch: &&Switch| name == switch.name || name.ends_with(&format!("-{}", switch.name));
            if let Some(switch) = topology.switches.iter().find(is_meant) {
                let tier = Fact::Value(word(switch.tier).to_string());
                told.part(&name, switch_part(&name).with("tier", tier));
            }
        }
        gathered.add(place, told);
        *inventory = gathered.finish();
        return;
    }
    for switch in topology.switches.iter().filter(|_| was_asked) {
        let mut part = switch_part(&switch.name);
        if !gathered.knows(&switch.name) {
            let why = "no source tells of this switch".to_string();
            part = part.with("firmware", Fact::Unreadable { why, needs: None });
        }
        let tier = Fact::Value(word(switch.tier).to_string());
        told.part(&switch.name, part.with("tier", tier));
    }
    for link in &topology.links {
        let ends = link.ends.each_ref().map(|end| PartAt {
            node: end.node.clone(),
            part: end.interface.clone(),
        });
        let mut cable = cable(ends.clone());
        cable.name = link.name.clone();
        gathered.rename(&ends, &link.name);
        told.cables.push(cable);
    }
    gathered.add(place, told);
    *inventory = gathered.finish();
}

fn word(tier: Tier) -> &'static str {
    match tier {
        Tier::Leaf => "leaf",
        Tier::Spine => "spine",
        Tier::Core => "core",
    }
}
