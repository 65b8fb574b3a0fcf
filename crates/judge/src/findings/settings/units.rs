//! The places whose congestion settings are compared: ends of rails on hosts, hosts, switches, and ports of switches.
//!
//! A bond has the settings of its members. What the inventory does not have of a place is not known there; it is never taken from elsewhere.

use std::collections::{BTreeMap, BTreeSet};

use crate::findings::analysis::RunAnalysis;
use record::{Fact, Inventory, InventoryPart, PartClass, RailEnd};

/// A place and the parts that say how it is set up.
#[derive(Debug, Clone)]
pub(in crate::findings) struct Unit<'a> {
    pub(super) name: String,
    parts: Vec<&'a InventoryPart>,
}

impl<'a> Unit<'a> {
    /// The value of a fact, by the first part that knows it.
    pub(in crate::findings) fn value(&self, fact: &str) -> Option<&'a str> {
        self.parts.iter().find_map(|part| part.value(fact))
    }

    /// Why a fact could not be read.
    pub(super) fn unreadable(&self, fact: &str) -> Option<&'a str> {
        let mut facts = self.parts.iter().filter_map(|part| part.facts.get(fact));
        facts.find_map(|fact| match fact {
            Fact::Unreadable { why, .. } => Some(why.as_str()),
            Fact::Value(_) | Fact::Absent => None,
        })
    }
}

/// What an inventory has of a run.
pub(in crate::findings) struct Places<'a> {
    inventory: &'a Inventory,
    /// Ends by rail and host.
    ends: BTreeMap<(&'a str, &'a str), Unit<'a>>,
    /// Leaves by rail and host.
    leaves: BTreeMap<(&'a str, &'a str), &'a str>,
    tiers: BTreeMap<&'a str, String>,
}

impl<'a> Places<'a> {
    /// The places of a run; none without an inventory.
    pub(in crate::findings) fn of(analysis: &'a RunAnalysis<'_>) -> Option<Places<'a>> {
        let inventory = analysis.recorded.inventory.as_ref()?;
        let mut places = Places {
            inventory,
            ends: BTreeMap::new(),
            leaves: BTreeMap::new(),
            tiers: BTreeMap::new(),
        };
        let graph = analysis.localisation.as_ref().map(|known| &known.graph);
        for record in &analysis.run().ranks {
            for end in &record.rails {
                let place = (end.rail.as_str(), record.host.as_str());
                let unit = || Unit {
                    name: format!("{}/{}", record.host, end.rail),
                    parts: parts_of(inventory, &record.host, end),
                };
                places.ends.entry(place).or_insert_with(unit);
                if let Some(leaf) = graph.and_then(|graph| graph.leaf_of(record.rank, &end.rail)) {
                    places.leaves.entry(place).or_insert(leaf);
                }
            }
        }
        for switch in &inventory.switches {
            let said = switch.part(PartClass::Switch, &switch.node);
            let said = said.and_then(|part| part.value("tier")).map(str::to_string);
            let known = || {
                graph
                    .and_then(|graph| graph.tier_of(&switch.node))
                    .map(|tier| format!("{tier:?}"))
            };
            if let Some(tier) = said.or_else(known) {
                places.tiers.insert(&switch.node, tier.to_lowercase());
            }
        }
        Some(places)
    }

    /// Ends of rails, those that are meant and the others.
    pub(super) fn ends(&self, is_meant: &dyn Fn(&str, &str) -> Option<bool>) -> [Vec<Unit<'a>>; 2] {
        let mut both = [Vec::new(), Vec::new()];
        for ((rail, host), unit) in &self.ends {
            match is_meant(rail, host) {
                Some(true) => both[0].push(unit.clone()),
                Some(false) => both[1].push(unit.clone()),
                None => {}
            }
        }
        both
    }

    /// The ends of a rail.
    pub(in crate::findings) fn of_rail(&self, rail: &str) -> Vec<Unit<'a>> {
        let [ends, _] = self.ends(&|of, _| (of == rail).then_some(true));
        ends
    }

    /// The hosts themselves: those that are meant, and the others.
    pub(super) fn hosts(&self, meant: &[String]) -> [Vec<Unit<'a>>; 2] {
        let ran: BTreeSet<&str> = self.ends.keys().map(|(_, host)| *host).collect();
        let mut both = [Vec::new(), Vec::new()];
        for host in ran {
            let part = self
                .inventory
                .node(host)
                .and_then(|node| node.part(PartClass::Host, host));
            if let Some(part) = part {
                let place = usize::from(!meant.iter().any(|name| name == host));
                both[place].push(Unit {
                    name: host.to_string(),
                    parts: vec![part],
                });
            }
        }
        both
    }

    /// A switch, and the others of its tier.
    pub(super) fn switches(&self, meant: &str) -> [Vec<Unit<'a>>; 2] {
        let tier = self.tiers.get(meant);
        let mut both = [Vec::new(), Vec::new()];
        for switch in self.all_switches() {
            match switch.name == meant {
                true => both[0].push(switch),
                false if self.tiers.get(switch.name.as_str()) == tier => both[1].push(switch),
                false => {}
            }
        }
        both
    }

    /// All switches that the inventory has.
    pub(in crate::findings) fn all_switches(&self) -> Vec<Unit<'a>> {
        let unit = |switch: &'a record::NodeInventory| {
            let part = switch.part(PartClass::Switch, &switch.node)?;
            Some(Unit {
                name: switch.node.clone(),
                parts: vec![part],
            })
        };
        self.inventory.switches.iter().filter_map(unit).collect()
    }

    /// The leaves of a rail.
    pub(in crate::findings) fn leaves_of(&self, rail: &str) -> Vec<Unit<'a>> {
        let leaves: BTreeSet<&str> = self
            .leaves
            .iter()
            .filter(|((of, _), _)| *of == rail)
            .map(|(_, leaf)| *leaf)
            .collect();
        let mut switches = self.all_switches();
        switches.retain(|switch| leaves.contains(switch.name.as_str()));
        switches
    }

    /// The port of a switch that a host's end is plugged into, and the ports of the same switch that other hosts are plugged into.
    pub(super) fn switch_ports(&self, rail: &str, host: &str) -> [Vec<Unit<'a>>; 2] {
        let mut both = [Vec::new(), Vec::new()];
        let Some((switch, meant)) = self.port_of(rail, host) else {
            return both;
        };
        for (of, at) in self.ends.keys() {
            let Some((other, unit)) = self.port_of(of, at) else {
                continue;
            };
            if other != switch {
                continue;
            }
            match unit.name == meant.name {
                true => both[0] = vec![unit],
                false => both[1].push(unit),
            }
        }
        both
    }

    fn port_of(&self, rail: &str, host: &str) -> Option<(&'a str, Unit<'a>)> {
        let end = self.ends.get(&(rail, host))?;
        let is_end = |at: &record::PartAt| {
            at.node == host
                && end
                    .parts
                    .iter()
                    .any(|part| part.name == at.part || is_first_port(part, &at.part))
        };
        let mut cables = self.inventory.cables.iter();
        let far = cables.find_map(|cable| match &cable.ends {
            [one, other] if is_end(one) => Some(other),
            [one, other] if is_end(other) => Some(one),
            _ => None,
        })?;
        let switch = self
            .inventory
            .switches
            .iter()
            .find(|switch| switch.node == far.node)?;
        let part = switch.part(PartClass::Port, &far.part)?;
        let unit = Unit {
            name: format!("{}/{}", far.node, far.part),
            parts: vec![part],
        };
        Some((switch.node.as_str(), unit))
    }
}

/// Some sources name the first port of a device like the device.
fn is_first_port(part: &InventoryPart, name: &str) -> bool {
    part.class == PartClass::Port && part.name.strip_suffix("/1") == Some(name)
}

/// The interface of an end, the members of a bond, and the port of the RDMA device.
fn parts_of<'a>(inventory: &'a Inventory, host: &str, end: &RailEnd) -> Vec<&'a InventoryPart> {
    let Some(node) = inventory.node(host) else {
        return Vec::new();
    };
    let mut parts = Vec::new();
    if let Some(interface) = &end.interface
        && let Some(part) = node.part(PartClass::Interface, interface)
    {
        let members = part.value("bond-members").unwrap_or_default().split_whitespace();
        let members = members.filter_map(|name| node.part(PartClass::Interface, name));
        parts.push(part);
        parts.extend(members);
    }
    let of_device = end.rdma.as_ref().and_then(|rdma| {
        let name = format!("{}/{}", rdma.device, rdma.port);
        node.part(PartClass::Port, &name)
    });
    let beside = || {
        let interface = end.interface.as_deref()?;
        let mut ports = node.parts.iter().filter(|part| part.class == PartClass::Port);
        ports.find(|part| part.value("interface") == Some(interface))
    };
    parts.extend(of_device.or_else(beside));
    parts
}
