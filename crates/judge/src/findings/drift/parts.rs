//! The parts of an inventory, numbered and indexed.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::rules::is_momentary;
use record::{Inventory, InventoryPart, PartAt, PartClass};

/// A part and where it is.
#[derive(Debug, Clone, Copy)]
pub(super) struct LocatedPart<'a> {
    /// Its number, in the order of the inventory.
    pub(super) number: usize,
    /// Host or switch.
    pub(super) node: &'a str,
    /// Whether that is a switch.
    pub(super) of_switch: bool,
    /// The part.
    pub(super) part: &'a InventoryPart,
}

impl<'a> LocatedPart<'a> {
    /// Node and part by name.
    pub(super) fn at(&self) -> PartAt {
        PartAt {
            node: self.node.to_string(),
            part: self.part.name.clone(),
        }
    }

    /// The value of a fact, when it is known and meaningful.
    pub(super) fn value(&self, fact: &str) -> Option<&'a str> {
        let value = self.part.value(fact)?;
        (!is_momentary(self.part, fact)).then_some(value)
    }
}

/// All parts of hosts and switches.
pub(super) struct Parts<'a> {
    all: Vec<LocatedPart<'a>>,
    by_class: BTreeMap<PartClass, Vec<usize>>,
    /// The first part of a name on a node, and where there are several, the others: a port and its interface.
    by_name: HashMap<(&'a str, &'a str), usize>,
    namesakes: HashMap<(&'a str, &'a str), Vec<usize>>,
    /// Ports of RDMA devices by node and interface.
    by_interface: HashMap<(&'a str, &'a str), usize>,
}

impl<'a> Parts<'a> {
    pub(super) fn of(inventory: &'a Inventory) -> Parts<'a> {
        let hosts = inventory.nodes.iter().map(|node| (node, false));
        let switches = inventory.switches.iter().map(|node| (node, true));
        let many: usize = hosts
            .clone()
            .chain(switches.clone())
            .map(|(node, _)| node.parts.len())
            .sum();
        let mut parts = Parts {
            all: Vec::with_capacity(many),
            by_class: BTreeMap::new(),
            by_name: HashMap::with_capacity(many),
            namesakes: HashMap::new(),
            by_interface: HashMap::new(),
        };
        for (node, of_switch) in hosts.chain(switches) {
            for part in &node.parts {
                let number = parts.all.len();
                let name = (node.node.as_str(), part.name.as_str());
                if *parts.by_name.entry(name).or_insert(number) != number {
                    parts.namesakes.entry(name).or_default().push(number);
                }
                if let (PartClass::Port, Some(interface)) = (part.class, part.value("interface")) {
                    parts.by_interface.insert((&node.node, interface), number);
                }
                parts.by_class.entry(part.class).or_default().push(number);
                parts.all.push(LocatedPart {
                    number,
                    node: &node.node,
                    of_switch,
                    part,
                });
            }
        }
        parts
    }

    /// Every part, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &LocatedPart<'a>> {
        self.all.iter()
    }

    /// Those of a class, in order.
    pub(super) fn of_class(&self, class: PartClass) -> impl Iterator<Item = &LocatedPart<'a>> {
        let numbers = self.by_class.get(&class).into_iter().flatten();
        numbers.map(|number| &self.all[*number])
    }

    /// The part of that class and name on a node.
    pub(super) fn called(&self, node: &str, name: &str, class: PartClass) -> Option<LocatedPart<'a>> {
        let mut parts = self.numbers((node, name)).map(|number| self.all[*number]);
        parts.find(|located| located.part.class == class)
    }

    /// The port of an RDMA device behind an interface.
    pub(super) fn behind(&self, interface: &PartAt) -> Option<LocatedPart<'a>> {
        let number = self
            .by_interface
            .get(&(interface.node.as_str(), interface.part.as_str()))?;
        Some(self.all[*number])
    }

    /// The parts of that name on a node.
    pub(super) fn named(&self, at: &'a PartAt) -> impl Iterator<Item = &LocatedPart<'a>> {
        let numbers = self.numbers((at.node.as_str(), at.part.as_str()));
        numbers.map(|number| &self.all[*number])
    }

    fn numbers<'s>(&'s self, name: (&'s str, &'s str)) -> impl Iterator<Item = &'s usize> {
        let others = self.namesakes.get(&name).into_iter().flatten();
        self.by_name.get(&name).into_iter().chain(others)
    }
}

/// Facts that are already decided, by part number: they are not compared again.
pub(super) type SettledFacts<'a> = HashSet<(usize, &'a str)>;
