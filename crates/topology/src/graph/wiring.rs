//! Cables that are not where the topology says, told from traces.
//!
//! An answer names a port by its address, and the topology says which node is at the other end of that port's cable. That node is
//! the one the packet came from, where switches answer from the port by which it came in; or it leads back to the asker, where they
//! answer from the port by which the answer leaves. An answer that is neither contradicts the topology.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::{Graph, LinkId};

/// So many answers that contradict the topology in the same way, and none that agrees with it, make a cable a wrong one.
const ENOUGH: u32 = 2;

/// What traces say about the wiring.
#[derive(Debug, Clone, Default)]
pub struct WiringEvidence {
    /// Per port, as the link that ends there: answers that agree with the topology.
    agreed: BTreeMap<LinkId, u32>,
    /// Per port: the nodes that packets came from, where that contradicts the topology.
    seen: BTreeMap<LinkId, BTreeMap<String, u32>>,
    /// Answers from a port that leads back to the asker, but not to the switch that the packet came from.
    by_way_back: u32,
    /// Per node and switch that answered right after it from a loopback address, where the topology has no cable between the two.
    unknown_neighbours: BTreeMap<(String, String), u32>,
    /// Nodes and switches that answered after them from a loopback address, where there is a cable.
    known_neighbours: BTreeSet<(String, String)>,
}

/// A cable whose end is elsewhere than the topology says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrongCable {
    /// The cable by name.
    pub cable: String,
    /// The node that the topology has at its lower end.
    pub written: String,
    /// The node that is really there, of the cable that ends at this cable's port.
    pub found: String,
    /// Answers that say so.
    pub answers: u32,
}

/// What is wrong with the wiring in a topology.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Miswiring {
    /// Pairs of cables that are exchanged.
    pub swapped: Vec<[WrongCable; 2]>,
    /// Cables that are elsewhere, with nothing in their place.
    pub moved: Vec<WrongCable>,
}

impl Miswiring {
    /// Whether the wiring is as written, as far as it was seen.
    pub fn is_empty(&self) -> bool {
        self.swapped.is_empty() && self.moved.is_empty()
    }
}

impl WiringEvidence {
    /// Takes note of a trace that a rank sent over a rail: `hops` as for [`Graph::path_of_hops`].
    pub fn note(&mut self, graph: &Graph, from: u32, rail: &str, hops: &[Option<IpAddr>]) {
        let Some(asker) = graph.attachment(from, rail) else {
            return;
        };
        let distances = graph.distances(asker, [rail; 2]);
        let mut before = Some(asker.host);
        for hop in hops {
            let switch = hop.and_then(|address| graph.by_address.get(&address).copied());
            if let (Some(address), Some(switch), Some(before)) = (hop, switch, before) {
                match graph.arrival_at(*address) {
                    Some(link) => {
                        let written = graph.ends[link.index()][0];
                        let leads_back =
                            written == asker.host || distances[written as usize] < distances[switch as usize];
                        self.by_way_back += u32::from(leads_back && written != before);
                        match written == before || leads_back {
                            true => *self.agreed.entry(link).or_default() += 1,
                            false => {
                                let seen = self.seen.entry(link).or_default();
                                *seen.entry(graph.node(before).name.clone()).or_default() += 1;
                            }
                        }
                    }
                    None => self.note_neighbours(graph, before, switch, rail),
                }
            }
            before = switch;
        }
    }

    /// A switch that answers from a loopback address right after a node has a cable to it.
    fn note_neighbours(&mut self, graph: &Graph, before: u32, switch: u32, rail: &str) {
        let is_between = |ends: &[u32; 2]| *ends == [before, switch];
        let of_rail = |link: &str| link == rail;
        let known = graph.ends.iter().zip(&graph.links).any(|(ends, link)| {
            is_between(ends) && (!link.is_host || link.rail.as_deref().is_none_or(of_rail))
        });
        let names = (graph.node(before).name.clone(), graph.node(switch).name.clone());
        match known {
            true => _ = self.known_neighbours.insert(names),
            false => *self.unknown_neighbours.entry(names).or_default() += 1,
        }
    }

    /// Whether switches answer from the port by which the answer leaves, so that an answer names no port of the path.
    pub fn answers_leave_anywhere(&self) -> bool {
        self.by_way_back >= ENOUGH
    }

    /// The cables that are not where the topology says.
    pub fn miswiring(&self, graph: &Graph) -> Miswiring {
        let mut wrong: Vec<WrongCable> = Vec::new();
        for (link, seen) in &self.seen {
            let agreed = self.agreed.get(link).copied().unwrap_or(0);
            let most = seen.iter().max_by_key(|(_, answers)| **answers);
            let Some((found, answers)) = most.filter(|(_, answers)| **answers >= ENOUGH && agreed == 0)
            else {
                continue;
            };
            let link = graph.link(*link);
            wrong.push(WrongCable {
                cable: link.cable.clone(),
                written: link.from.node.clone(),
                found: found.clone(),
                answers: *answers,
            });
        }
        wrong.extend(self.wrong_neighbours(graph));
        let mut miswiring = Miswiring::default();
        while let Some(one) = wrong.pop() {
            let is_other = |other: &WrongCable| other.written == one.found && other.found == one.written;
            match wrong.iter().position(is_other) {
                Some(other) => miswiring.swapped.push([wrong.remove(other), one]),
                None => miswiring.moved.push(one),
            }
        }
        // Both directions of two cables may tell the same.
        for pair in &mut miswiring.swapped {
            pair.sort_by(|a, b| a.cable.cmp(&b.cable));
        }
        let cables = |pair: &[WrongCable; 2]| pair.clone().map(|wrong| wrong.cable);
        miswiring.swapped.sort_by_key(cables);
        miswiring.swapped.dedup_by_key(|pair| cables(pair));
        miswiring.moved.sort_by(|a, b| a.cable.cmp(&b.cable));
        miswiring
    }

    /// By loopback addresses: the cables of a host that is seen at another switch than written, and never at its own.
    fn wrong_neighbours(&self, graph: &Graph) -> Vec<WrongCable> {
        let mut wrong = Vec::new();
        for ((node, switch), answers) in &self.unknown_neighbours {
            // At the switch where it was seen, it took the place of a host that is not seen there any more.
            let displaced = graph.links().find(|(_, link)| {
                let is_there = link.is_host && link.is_upward && link.to.node == *switch;
                let is_gone = !self
                    .known_neighbours
                    .contains(&(link.from.node.clone(), switch.clone()));
                let is_elsewhere = self
                    .unknown_neighbours
                    .keys()
                    .any(|(other, _)| *other == link.from.node);
                is_there && is_gone && is_elsewhere
            });
            if let Some((_, link)) = displaced.filter(|_| *answers >= ENOUGH) {
                wrong.push(WrongCable {
                    cable: link.cable.clone(),
                    written: link.from.node.clone(),
                    found: node.clone(),
                    answers: *answers,
                });
            }
        }
        wrong
    }
}

impl Graph {
    /// The link that ends at the port with an address.
    fn arrival_at(&self, address: IpAddr) -> Option<LinkId> {
        let place = self
            .arrivals
            .iter()
            .position(|arrival| *arrival == Some(address))?;
        Some(LinkId(place as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{clos, ranks};
    use super::*;
    use crate::Topology;

    /// The addresses that a trace meets on a path, from the ports by which it comes in.
    fn inbound(graph: &Graph, path: &[LinkId]) -> Vec<Option<IpAddr>> {
        path.iter().map(|link| graph.arrivals[link.index()]).collect()
    }

    /// The graph for hosts `h0` to `h5`.
    fn graph(topology: &Topology) -> Graph {
        Graph::of(topology, &ranks(&["h0", "h1", "h2", "h3", "h4", "h5"], 1)).unwrap()
    }

    /// Traces of every pair on the true wiring, told to the evidence by the wrong one.
    fn evidence(truth: &Graph, written: &Graph) -> WiringEvidence {
        let mut evidence = WiringEvidence::default();
        for from in 0..6 {
            for to in (0..6).filter(|to| *to != from) {
                for path in truth.paths(from, to, "rail0") {
                    let mut hops = inbound(truth, &path);
                    // The far end is a host.
                    hops.pop();
                    evidence.note(written, from, "rail0", &hops);
                }
            }
        }
        evidence
    }

    #[test]
    fn right_wiring_is_called_right() {
        let graph = graph(&clos(6, 1, 2));
        assert!(evidence(&graph, &graph).miswiring(&graph).is_empty());
    }

    #[test]
    fn swapped_cables_are_named_both() {
        let written = clos(6, 1, 2);
        let wrong = graph(&written);
        for names in [
            ["h0-rail0", "h3-rail0"],
            ["h0-rail0", "h1-rail0"],
            ["rail0-leaf0-spine0", "rail0-leaf1-spine1"],
            ["rail0-leaf0-spine0", "rail0-leaf2-spine0"],
        ] {
            let mut truth = written.clone();
            truth.swap_cables(names[0], names[1]).unwrap();
            let found = evidence(&graph(&truth), &wrong).miswiring(&wrong);
            assert_eq!(found.moved, [], "{names:?}");
            let [pair] = found.swapped.as_slice() else {
                panic!("{names:?}: {found:?}");
            };
            let mut cables = [pair[0].cable.as_str(), pair[1].cable.as_str()];
            cables.sort_unstable();
            assert_eq!(cables, names);
        }
    }

    /// The hops of a path whose last switch answers from the port at which another path arrives: answers that leave by any uplink.
    #[test]
    fn answers_that_leave_by_any_port_are_told_from_those_of_the_port_packets_came_in_by() {
        let graph = graph(&clos(6, 1, 2));
        assert!(!evidence(&graph, &graph).answers_leave_anywhere());
        let mut evidence = WiringEvidence::default();
        let mut mixed = Vec::new();
        for (from, to) in [(0, 2), (1, 3), (2, 4)] {
            let paths = graph.paths(from, to, "rail0");
            let [mut hops, other] = [&paths[0], &paths[1]].map(|path| inbound(&graph, path));
            hops.pop();
            hops[2] = other[2];
            evidence.note(&graph, from, "rail0", &hops);
            mixed.push((from, to, hops, paths[0].clone()));
        }
        assert!(evidence.answers_leave_anywhere());
        assert!(evidence.miswiring(&graph).is_empty());
        // The second hop alone names the spine, and the path with it.
        let graph = graph.with_answers_of_switches();
        for (from, to, hops, path) in mixed {
            assert_eq!(graph.path_of_hops(from, to, "rail0", &hops), Some(path));
        }
    }
}
