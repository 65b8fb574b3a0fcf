//! Which parts were measured, and which of them turned out slow.
//!
//! What is measured is the end of a rail on a host. Its parts are the interface, what is plugged into it, the RDMA
//! device and its port behind it, and the card's place on the bus; they are slow when that end is accused. A pair
//! that is slow with neither end accused says nothing about either, and both are left out. Hosts are slow when they,
//! or one of their ends, are accused; switches when they are accused; GPUs when their rank keeps the others waiting.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::super::localise::Localisation;
use super::parts::Parts;
use crate::findings::analysis::RunAnalysis;
use record::{Inventory, InventoryPart, LinkState, PartAt, PartClass, PortName, RailEnd, SuspectKind};

/// A part that was measured.
#[derive(Debug, Clone, Copy)]
pub(super) struct MeasuredPart<'a> {
    pub(super) node: &'a str,
    /// The rail it serves, when it is one.
    pub(super) rail: Option<&'a str>,
    pub(super) part: &'a InventoryPart,
    pub(super) slow: bool,
}

impl MeasuredPart<'_> {
    /// Node and part by name.
    pub(super) fn at(&self) -> PartAt {
        PartAt {
            node: self.node.to_string(),
            part: self.part.name.clone(),
        }
    }
}

/// Everything that was measured, by class.
#[derive(Debug, Default)]
pub(super) struct MeasuredParts<'a> {
    by_class: BTreeMap<PartClass, BTreeMap<(&'a str, &'a str), MeasuredPart<'a>>>,
}

/// Ends of rails by host and rail.
type RailEndSet<'a> = BTreeSet<(&'a str, &'a str)>;

impl<'a> MeasuredParts<'a> {
    /// What a run measured of the parts of its inventory.
    pub(super) fn of(analysis: &RunAnalysis<'a>, inventory: &'a Inventory) -> MeasuredParts<'a> {
        let parts = Parts::of(inventory);
        let judged = JudgedEnds::of(analysis);
        let mut measured = MeasuredParts::default();
        let mut ends: BTreeMap<(&str, &str), &RailEnd> = BTreeMap::new();
        for record in &analysis.run().ranks {
            for end in &record.rails {
                ends.entry((record.host.as_str(), end.rail.as_str()))
                    .or_insert(end);
            }
        }
        for (host, rail) in judged.judged.difference(&judged.unclear) {
            let slow = judged.slow.contains(&(*host, *rail));
            if let Some(end) = ends.get(&(*host, *rail)) {
                for part in parts_of(end, host, &parts) {
                    measured.add(host, Some(rail), part, slow);
                }
            }
            measured.add_node(&parts, host, PartClass::Host, slow);
        }
        for host in &judged.hosts {
            measured.add_node(&parts, host, PartClass::Host, true);
        }
        for (switch, slow) in switches(analysis) {
            measured.add_node(&parts, switch, PartClass::Switch, slow);
        }
        measured.add_gpus(analysis, &parts);
        measured
    }

    fn add(&mut self, node: &'a str, rail: Option<&'a str>, part: &'a InventoryPart, slow: bool) {
        let of_class = self.by_class.entry(part.class).or_default();
        let unit = of_class
            .entry((node, part.name.as_str()))
            .or_insert(MeasuredPart {
                node,
                rail,
                part,
                slow,
            });
        unit.slow |= slow;
    }

    /// Adds the part that is a node itself.
    fn add_node(&mut self, parts: &Parts<'a>, node: &str, class: PartClass, slow: bool) {
        if let Some(located) = parts.called(node, node, class) {
            self.add(located.node, None, located.part, slow);
        }
    }

    fn add_gpus(&mut self, analysis: &RunAnalysis<'a>, parts: &Parts<'a>) {
        let by_uuid: HashMap<&str, &InventoryPart> = parts
            .of_class(PartClass::Gpu)
            .filter_map(|located| Some((located.part.value("uuid")?, located.part)))
            .collect();
        let straggling: BTreeSet<u32> = analysis.stragglers.confirmed.iter().map(|one| one.rank).collect();
        for record in &analysis.run().ranks {
            let gpu = record.gpu.as_ref().and_then(|gpu| by_uuid.get(gpu.uuid.as_str()));
            if let Some(part) = gpu {
                self.add(&record.host, None, part, straggling.contains(&record.rank));
            }
        }
    }

    /// Those of a class, in order.
    pub(super) fn of_class(&self, class: PartClass) -> impl Iterator<Item = &MeasuredPart<'a>> {
        self.by_class.get(&class).into_iter().flat_map(BTreeMap::values)
    }

    /// The slow ones among these parts: their nodes and rails.
    pub(super) fn slow_among(
        &self,
        class: PartClass,
        parts: &BTreeSet<PartAt>,
    ) -> Vec<(&'a str, Option<&'a str>)> {
        let slow = self
            .of_class(class)
            .filter(|unit| unit.slow && parts.contains(&unit.at()));
        slow.map(|unit| (unit.node, unit.rail)).collect()
    }

    /// Whether anything of a class turned out slow.
    pub(super) fn has_slow(&self, class: PartClass) -> bool {
        self.of_class(class).any(|unit| unit.slow)
    }
}

/// The parts at a host's end of a rail.
fn parts_of<'a>(end: &'a RailEnd, host: &'a str, parts: &Parts<'a>) -> Vec<&'a InventoryPart> {
    let mut found: Vec<&InventoryPart> = Vec::new();
    let mut port = end.rdma.as_ref().and_then(|rdma| {
        let name = format!("{}/{}", rdma.device, rdma.port);
        parts.called(host, &name, PartClass::Port)
    });
    if let Some(interface) = &end.interface {
        for class in [PartClass::Interface, PartClass::Module] {
            found.extend(parts.called(host, interface, class).map(|located| located.part));
        }
        let at = PartAt {
            node: host.to_string(),
            part: interface.clone(),
        };
        port = port.or_else(|| parts.behind(&at));
    }
    if let Some(port) = port {
        found.push(port.part);
        let device = PortName::node_of(&port.part.name);
        found.extend(
            parts
                .called(host, device, PartClass::Nic)
                .map(|located| located.part),
        );
    }
    let bus = found.iter().find_map(|part| part.value("pci"));
    let card = bus.and_then(|bus| parts.called(host, bus, PartClass::Pci));
    found.extend(card.map(|located| located.part));
    found
}

/// Rail ends by verdict.
#[derive(Default)]
struct JudgedEnds<'a> {
    judged: RailEndSet<'a>,
    slow: RailEndSet<'a>,
    /// Ends of pairs that are slow without either end being accused.
    unclear: RailEndSet<'a>,
    /// Hosts that are slow as a whole.
    hosts: BTreeSet<&'a str>,
}

impl<'a> JudgedEnds<'a> {
    fn of(analysis: &RunAnalysis<'a>) -> JudgedEnds<'a> {
        let hosts: HashMap<u32, &'a str> = analysis
            .run()
            .ranks
            .iter()
            .map(|record| (record.rank, record.host.as_str()))
            .collect();
        let ends_of = |place: usize| -> Vec<(&'a str, &'a str)> {
            let cell = analysis.summaries[place].cell;
            let rails = || cell.rails.iter().chain(&cell.to_rail);
            let ranks = cell.ranks.iter().filter_map(|rank| hosts.get(rank));
            ranks
                .flat_map(|host| rails().map(move |rail| (*host, rail.as_str())))
                .collect()
        };
        let mut ends = JudgedEnds::default();
        for (place, speed) in analysis.speeds.iter().enumerate() {
            if speed.comparison().is_some() {
                ends.judged.extend(ends_of(place));
            }
        }
        if let Some(localisation) = &analysis.localisation {
            ends.add_accused(analysis, localisation);
        }
        let rails = analysis.blame.rail.values().chain([&analysis.blame.all_rails]);
        for place in rails.flatten() {
            ends.slow.extend(ends_of(*place));
        }
        if let Some((rank, places)) = &analysis.blame.shared_rank {
            let host = hosts.get(rank).copied();
            let of_host = places.iter().flat_map(|place| ends_of(*place));
            ends.slow.extend(of_host.filter(|(at, _)| Some(*at) == host));
        }
        for places in analysis.blame.pair.values() {
            ends.unclear
                .extend(places.iter().flat_map(|place| ends_of(*place)));
        }
        let slow = ends.slow.clone();
        ends.unclear.retain(|end| !slow.contains(end));
        let straggling = analysis.stragglers.confirmed.iter().map(|one| one.rank);
        ends.hosts.extend(straggling.filter_map(|rank| hosts.get(&rank)));
        ends
    }

    fn add_accused(&mut self, analysis: &RunAnalysis<'a>, localisation: &Localisation) {
        for fault in localisation.faulty_parts(analysis.run()) {
            let link = fault.link.map(|link| localisation.graph.link(link));
            match link {
                Some(link) if link.is_host => {
                    let port = if link.is_upward { &link.from } else { &link.to };
                    let is_it = |(host, rail): &&(&str, &str)| {
                        *host == port.node && link.rail.as_deref().is_none_or(|of_link| of_link == *rail)
                    };
                    self.slow.extend(self.judged.iter().filter(is_it));
                }
                Some(_) => {}
                None => {
                    let of_node = fault.suspects.first();
                    let of_node = of_node.filter(|suspect| suspect.kind == SuspectKind::Node);
                    if let Some(suspect) = of_node {
                        let is_it = |(host, _): &&(&str, &str)| *host == suspect.part;
                        self.slow.extend(self.judged.iter().filter(is_it));
                    }
                }
            }
        }
    }
}

/// Switches that flows crossed, and whether they are accused.
fn switches<'a>(analysis: &'a RunAnalysis<'_>) -> BTreeMap<&'a str, bool> {
    let Some(localisation) = &analysis.localisation else {
        return BTreeMap::new();
    };
    let graph = &localisation.graph;
    let mut switches: BTreeMap<&str, bool> = BTreeMap::new();
    for (id, link) in graph.links() {
        if localisation.state(id) == LinkState::Untested {
            continue;
        }
        for node in [&link.from.node, &link.to.node] {
            if graph.tier_of(node).is_some() {
                switches.insert(node, false);
            }
        }
    }
    for fault in localisation.faulty_parts(analysis.run()) {
        if let Some(slow) = fault
            .switch
            .as_ref()
            .and_then(|name| switches.get_mut(name.as_str()))
        {
            *slow = true;
        }
    }
    switches
}
