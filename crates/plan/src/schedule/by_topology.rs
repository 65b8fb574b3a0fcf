//! Pairs that follow the fabric: neighbours on a leaf, then leaf to leaf over every path between them.
//!
//! On every leaf each rank meets its two neighbours, which says everything about cables of hosts. Every leaf sends to the next one,
//! once over each path there is and with each of its ranks in turn, which crosses every cable between switches in both
//! directions. Flows of a slot share no rank and ask no link for more than it carries, so that what is slow is slow by itself.
//! The number of flows grows with the number of cables, not with that of pairs.

use std::collections::BTreeMap;

use crate::flow::{Flow, PathTable, PortPath, SlotCapacity};
use topology::graph::Graph;

/// Pairs of ranks that the schedule will want to send between on a rail, in both directions: path discovery
/// probes these.
pub fn pairs(graph: &Graph, ranks: &[u32], rail: &str) -> Vec<(u32, u32)> {
    let leaves = leaves(graph, ranks, rail);
    let mut pairs: Vec<(u32, u32)> = Vec::new();
    for (a, b) in next_leaves(&leaves) {
        let most = a.len().max(b.len());
        pairs.extend((0..most).map(|at| (a[at % a.len()], b[at % b.len()])));
    }
    let back: Vec<(u32, u32)> = pairs.iter().map(|(a, b)| (*b, *a)).collect();
    pairs.extend(back);
    pairs
}

/// The slots of a rail: on the leaves first, then from leaf to leaf.
pub fn matchings(graph: &Graph, table: &PathTable, ranks: &[u32], rail: &str) -> Vec<Vec<Flow>> {
    let leaves = leaves(graph, ranks, rail);
    let flow = |from: u32, to: u32, (port, path): PortPath| Flow {
        from,
        to,
        rail: rail.to_string(),
        port,
        path,
    };
    let mut on_leaves = Vec::new();
    for leaf in &leaves {
        let meetings = match leaf.len() {
            0 | 1 => 0,
            2 => 1,
            more => more,
        };
        for at in 0..meetings {
            let (a, b) = (leaf[at], leaf[(at + 1) % leaf.len()]);
            for (from, to) in [(a, b), (b, a)] {
                let path = table.paths(graph, from, to, rail).into_iter().next();
                on_leaves.extend(path.map(|path| flow(from, to, path)));
            }
        }
    }
    let mut across = Vec::new();
    for (a, b) in next_leaves(&leaves) {
        for (senders, receivers) in [(a, b), (b, a)] {
            let pair = |at: usize| (senders[at % senders.len()], receivers[at % receivers.len()]);
            let paths = |at: usize| {
                let (from, to) = pair(at);
                let mut paths = table.paths(graph, from, to, rail);
                paths.sort_by(|a, b| between_switches(&a.1).cmp(between_switches(&b.1)));
                paths
            };
            let ranks = senders.len().max(receivers.len());
            let most = (0..ranks).map(|at| paths(at).len()).max().unwrap_or(0);
            for at in 0..ranks.max(most) {
                let (from, to) = pair(at);
                let mut paths = paths(at);
                if !paths.is_empty() {
                    let path = paths.swap_remove(at % paths.len());
                    across.push(flow(from, to, path));
                }
            }
        }
    }
    let mut slots = in_slots(graph, table, on_leaves);
    slots.extend(in_slots(graph, table, across));
    slots
}

/// A path without the cables of the hosts: what paths between two leaves differ in.
fn between_switches<T>(path: &[T]) -> &[T] {
    path.get(1..path.len().saturating_sub(1)).unwrap_or(&[])
}

/// The ranks of every leaf of a rail, leaves and ranks in order.
fn leaves(graph: &Graph, ranks: &[u32], rail: &str) -> Vec<Vec<u32>> {
    let mut leaves: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for rank in ranks {
        if let Some(leaf) = graph.leaf_of(*rank, rail) {
            leaves.entry(leaf).or_default().push(*rank);
        }
    }
    leaves.into_values().collect()
}

/// Every leaf with the one after it, round to the first; two leaves are one pair.
fn next_leaves(leaves: &[Vec<u32>]) -> impl Iterator<Item = (&Vec<u32>, &Vec<u32>)> {
    let pairs = match leaves.len() {
        0 | 1 => 0,
        2 => 1,
        more => more,
    };
    (0..pairs).map(|at| (&leaves[at], &leaves[(at + 1) % leaves.len()]))
}

/// Every flow in the first slot that has capacity for it.
fn in_slots(graph: &Graph, table: &PathTable, flows: Vec<Flow>) -> Vec<Vec<Flow>> {
    let mut slots: Vec<(SlotCapacity<'_>, Vec<Flow>)> = Vec::new();
    for flow in flows {
        let fits = |(capacity, _): &(SlotCapacity<'_>, Vec<Flow>)| capacity.fits(&flow);
        let at = slots.iter().position(fits).unwrap_or_else(|| {
            slots.push((SlotCapacity::new(graph, table), Vec::new()));
            slots.len() - 1
        });
        let (capacity, slot) = &mut slots[at];
        capacity.add(&flow);
        slot.push(flow);
    }
    slots.into_iter().map(|(_, flows)| flows).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use record::units::Rate;
    use std::collections::{BTreeSet, HashMap};
    use topology::Fabric;
    use topology::{Host, Link, Port, Switch, Tier, Topology};

    fn port(node: &str, interface: &str) -> Port {
        Port {
            node: node.to_string(),
            interface: interface.to_string(),
        }
    }

    /// One rail: leaves of so many hosts each, every leaf with one cable to every spine, as fast as `uplink` cables of hosts.
    fn clos(leaves: u32, each: u32, spines: u32, uplink: f64) -> Topology {
        let mut topology = Topology::default();
        let cable = |ends: [Port; 2], rate: f64| Link {
            name: format!("{}-{}", ends[0].node, ends[1].node),
            ends,
            rate: Rate(rate * 25e6),
            rail: Some("rail0".to_string()),
            addresses: None,
        };
        let mut links = Vec::new();
        for leaf in 0..leaves {
            for at in 0..each {
                let host = format!("h{}", leaf * each + at);
                links.push(cable(
                    [
                        port(&host, "rail0"),
                        port(&format!("leaf{leaf}"), &format!("p{at}")),
                    ],
                    1.0,
                ));
                topology.hosts.push(Host { name: host });
            }
            for spine in 0..spines {
                let ends = [
                    port(&format!("leaf{leaf}"), &format!("u{spine}")),
                    port(&format!("spine{spine}"), &format!("d{leaf}")),
                ];
                links.push(cable(ends, uplink));
            }
        }
        let switch = |name: String, tier| Switch {
            name,
            tier,
            rail: Some("rail0".to_string()),
            address: None,
        };
        topology.switches = (0..leaves)
            .map(|leaf| switch(format!("leaf{leaf}"), Tier::Leaf))
            .chain((0..spines).map(|spine| switch(format!("spine{spine}"), Tier::Spine)))
            .collect();
        topology.links = links;
        topology
    }

    fn planned(topology: &Topology) -> (Graph, Vec<u32>, Vec<Vec<Flow>>) {
        let fabric = Fabric::of(topology);
        let graph = Graph::of(topology, &fabric.ranks).unwrap();
        let ranks: Vec<u32> = fabric.ranks.iter().map(|record| record.rank).collect();
        let slots = matchings(&graph, &PathTable::assuming(), &ranks, "rail0");
        (graph, ranks, slots)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn every_cable_is_crossed_both_ways_and_no_slot_asks_too_much_of_one(
            leaves in 1u32..6,
            each in 1u32..6,
            spines in 1u32..5,
            uplink in prop::sample::select(vec![0.5, 1.0, 2.0, 4.0]),
        ) {
            let (graph, _, slots) = planned(&clos(leaves, each, spines, uplink));
            let mut crossed = BTreeSet::new();
            for slot in &slots {
                let mut busy = BTreeSet::new();
                let mut load: HashMap<_, f64> = HashMap::new();
                for flow in slot {
                    prop_assert!(busy.insert(flow.from) && busy.insert(flow.to));
                    for link in &flow.path {
                        crossed.insert(*link);
                        *load.entry(*link).or_default() += 25e6;
                    }
                }
                for (link, load) in load {
                    let alone = slot.iter().filter(|flow| flow.path.contains(&link)).count() == 1;
                    prop_assert!(alone || load <= graph.link(link).rate.0 * 1.01, "{}", graph.name(link));
                }
            }
            let reachable = |link: &topology::graph::DirectedLink| match (leaves, each) {
                (1, 1) => false,
                (1, _) => link.is_host,
                _ => true,
            };
            for (id, link) in graph.links() {
                prop_assert_eq!(crossed.contains(&id), reachable(link), "{}", graph.name(id));
            }
        }
    }

    #[test]
    fn flows_grow_with_the_cables_and_not_with_the_pairs() {
        let count = |leaves: u32| -> usize {
            let (_, _, slots) = planned(&clos(leaves, 4, 2, 2.0));
            slots.iter().map(Vec::len).sum()
        };
        assert_eq!(count(16), 2 * count(8));
        let (_, _, slots) = planned(&clos(16, 4, 2, 2.0));
        assert!(slots.len() <= 20, "{} slots for 64 hosts", slots.len());
    }

    #[test]
    fn paths_are_asked_for_between_just_the_pairs_that_are_sent_between_across_leaves() {
        let (graph, ranks, slots) = planned(&clos(4, 3, 2, 1.0));
        let wanted: BTreeSet<(u32, u32)> = pairs(&graph, &ranks, "rail0").into_iter().collect();
        let across = slots.iter().flatten().filter(|flow| flow.path.len() > 2);
        let sent: BTreeSet<(u32, u32)> = across.map(|flow| (flow.from, flow.to)).collect();
        assert_eq!(sent, wanted);
    }
}
