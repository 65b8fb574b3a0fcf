//! Cables that no flow takes, told from traces (docs/placement.md, "Cables that no flow takes").

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::{Graph, LinkId};

/// The chance of calling any cable unused that is in use.
const LEVEL: f64 = 0.001;

/// What traces say about the links that flows take.
#[derive(Debug, Clone, Default)]
pub struct UseEvidence {
    /// The traced flows of every pair of ranks and rail.
    flows: BTreeMap<(u32, u32, String), Vec<SeenFlow>>,
    /// Switches that answered about any of them.
    answering: BTreeSet<String>,
}

/// What a trace says about one flow.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct SeenFlow {
    /// The links between switches that it may have taken.
    possible: BTreeSet<LinkId>,
    /// The switches that answered about it.
    answered: BTreeSet<String>,
}

/// A cable that no flow takes.
#[derive(Debug, Clone, PartialEq)]
pub struct UnusedCable {
    /// The cable by name.
    pub cable: String,
    /// Flows that might have taken it, in both directions.
    pub flows: u32,
    /// How many of them would have on average.
    pub expected: f64,
}

/// What is known about one direction of a cable.
#[derive(Debug, Clone, Default)]
struct LinkUse {
    is_taken: bool,
    flows: u32,
    expected: f64,
    /// The logarithm of the chance that all flows missed it.
    missed: f64,
}

impl UseEvidence {
    /// Takes note of a trace: `hops` as for [`Graph::path_of_hops`].
    pub fn note(&mut self, graph: &Graph, from: u32, to: u32, rail: &str, hops: &[Option<IpAddr>]) {
        let seen = graph.crossed_hops(hops);
        let names = seen.iter().flatten().map(|hop| hop.switch.to_string());
        let answered: BTreeSet<String> = names.collect();
        self.answering.extend(answered.iter().cloned());
        let possible = graph.crossing_probabilities_given(from, to, rail, &seen);
        // Answers that fit no path are evidence about the file, not about use.
        if possible.is_empty() {
            return;
        }
        let links = possible.into_iter().map(|(id, _)| id);
        let possible = links.filter(|id| !graph.link(*id).is_host).collect();
        let flows = self.flows.entry((from, to, rail.to_string())).or_default();
        flows.push(SeenFlow { possible, answered });
    }

    /// The cables that no flow takes, sorted by name.
    pub fn unused(&self, graph: &Graph) -> Vec<UnusedCable> {
        let mut links = vec![LinkUse::default(); graph.link_count()];
        for ((from, to, rail), flows) in &self.flows {
            // All ports on one path: the switches look at addresses only, and this is one draw.
            let ways: BTreeSet<&BTreeSet<LinkId>> = flows.iter().map(|flow| &flow.possible).collect();
            let draws_each = if ways.len() > 1 {
                1.0
            } else {
                1.0 / flows.len() as f64
            };
            for (id, share) in graph.crossing_probabilities(*from, *to, rail) {
                if share >= 1.0 || graph.link(id).is_host {
                    continue;
                }
                let link = &mut links[id.index()];
                for flow in flows {
                    match self.may_have_taken(graph, flow, id) {
                        Some(true) => link.is_taken = true,
                        Some(false) => {
                            link.flows += 1;
                            link.expected += share;
                            link.missed += draws_each * (1.0 - share).ln();
                        }
                        None => {}
                    }
                }
            }
        }
        let between_switches = graph.links().filter(|(_, link)| !link.is_host).count();
        let level = (LEVEL / between_switches.max(1) as f64).ln();
        let is_unused = |id: LinkId| {
            let link = &links[id.index()];
            !link.is_taken && link.missed < level
        };
        let upwards = graph.links().filter(|(_, link)| link.is_upward && !link.is_host);
        let unused = upwards.filter(|(id, _)| is_unused(*id) && is_unused(id.reverse()));
        let mut found: Vec<UnusedCable> = unused
            .map(|(id, link)| {
                let [up, down] = [id, id.reverse()].map(|id| &links[id.index()]);
                UnusedCable {
                    cable: link.cable.clone(),
                    flows: up.flows + down.flows,
                    expected: up.expected + down.expected,
                }
            })
            .collect();
        found.sort_by(|a, b| a.cable.cmp(&b.cable));
        found
    }

    /// Whether a flow may have taken a link; none where it may only because the link's upper switch, which answers about others, did not about it.
    fn may_have_taken(&self, graph: &Graph, flow: &SeenFlow, id: LinkId) -> Option<bool> {
        if !flow.possible.contains(&id) {
            return Some(false);
        }
        let upper = graph.link(id).upper_node();
        let is_missing = self.answering.contains(upper) && !flow.answered.contains(upper);
        (!is_missing).then_some(true)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::super::tests::{clos, ranks};
    use super::*;
    use crate::{Link, Topology};

    const RAIL: &str = "rail0";
    const HOSTS: [&str; 8] = ["h0", "h1", "h2", "h3", "h4", "h5", "h6", "h7"];

    fn graph(topology: &Topology) -> Graph {
        Graph::of(topology, &ranks(&HOSTS, 1)).unwrap()
    }

    /// Traces of every pair, from several ports, of which each takes the path that `choose` says; as answered by switches that are not in `silent`.
    fn evidence(
        truth: &Graph,
        written: &Graph,
        choose: impl Fn(u32, u32, u32) -> u32,
        silent: &[&str],
    ) -> UseEvidence {
        let mut evidence = UseEvidence::default();
        for from in 0..8 {
            for to in (0..8).filter(|to| *to / 2 != from / 2) {
                for port in 0..6 {
                    let paths = truth.paths(from, to, RAIL);
                    let path = &paths[choose(from, to, port) as usize % paths.len()];
                    let answer = |id: &LinkId| {
                        let is_silent = silent.contains(&truth.link(*id).to.node.as_str());
                        truth.arrivals[id.index()].filter(|_| !is_silent)
                    };
                    let mut hops: Vec<Option<IpAddr>> = path.iter().map(answer).collect();
                    // The far end is a host.
                    hops.pop();
                    evidence.note(written, from, to, RAIL, &hops);
                }
            }
        }
        evidence
    }

    /// A hash of addresses and ports.
    fn by_ports(from: u32, to: u32, port: u32) -> u32 {
        let mixed = (from * 31 + to * 17 + port * 7 + 1).wrapping_mul(0x9e37_79b1);
        mixed >> 13
    }

    /// The same fabric without some cables.
    fn without(topology: &Topology, cables: &[&str]) -> Topology {
        let mut left = topology.clone();
        left.links.retain(|link| !cables.contains(&link.name.as_str()));
        left
    }

    fn names(unused: &[UnusedCable]) -> Vec<&str> {
        unused.iter().map(|one| one.cable.as_str()).collect()
    }

    #[test]
    fn every_cable_of_a_healthy_fabric_is_used_whatever_switches_hash() {
        let graph = graph(&clos(8, 1, 4));
        assert_eq!(evidence(&graph, &graph, by_ports, &[]).unused(&graph), []);
        let by_addresses = |from, to, _| by_ports(from, to, 0);
        assert_eq!(evidence(&graph, &graph, by_addresses, &[]).unused(&graph), []);
    }

    #[test]
    fn a_cable_that_is_down_is_named_with_what_was_expected_of_it() {
        let written = clos(8, 1, 4);
        let down = "rail0-leaf1-spine2";
        let (file, truth) = (graph(&written), graph(&without(&written, &[down])));
        let found = evidence(&truth, &file, by_ports, &[]).unused(&file);
        assert_eq!(names(&found), [down]);
        // Two hosts there, six elsewhere, six ports, both directions: a quarter of 144.
        assert_eq!((found[0].flows, found[0].expected), (144, 36.0));
    }

    #[test]
    fn spines_that_a_swap_cuts_off_are_unused() {
        let written = clos(4, 1, 4);
        let mut truth = written.clone();
        truth
            .swap_cables("rail0-leaf0-spine1", "rail0-leaf1-spine0")
            .unwrap();
        let of = |topology: &Topology| Graph::of(topology, &ranks(&HOSTS[..4], 1)).unwrap();
        let (truth, file) = (of(&truth), of(&written));
        let mut evidence = UseEvidence::default();
        for (from, to) in [(0, 2), (0, 3), (1, 2), (1, 3), (2, 0), (3, 0), (2, 1), (3, 1)] {
            for port in 0..16 {
                let paths = truth.paths(from, to, RAIL);
                assert_eq!(paths.len(), 2, "two spines are cut off");
                let path = &paths[by_ports(from, to, port) as usize % 2];
                let mut hops: Vec<_> = path.iter().map(|id| truth.arrivals[id.index()]).collect();
                hops.pop();
                evidence.note(&file, from, to, RAIL, &hops);
            }
        }
        let cut_off = [
            "rail0-leaf0-spine0",
            "rail0-leaf0-spine1",
            "rail0-leaf1-spine0",
            "rail0-leaf1-spine1",
        ];
        assert_eq!(names(&evidence.unused(&file)), cut_off);
    }

    #[test]
    fn nothing_is_said_about_a_spine_that_never_answers() {
        let graph = graph(&clos(8, 1, 4));
        let spine = ["rail0-spine1"];
        assert_eq!(evidence(&graph, &graph, by_ports, &spine).unused(&graph), []);
        let leaves = ["rail0-leaf0", "rail0-leaf1", "rail0-leaf2", "rail0-leaf3"];
        assert_eq!(evidence(&graph, &graph, by_ports, &leaves).unused(&graph), []);
        assert_eq!(UseEvidence::default().unused(&graph), []);
    }

    #[test]
    fn answers_that_are_missing_now_and_then_hide_no_cable_and_accuse_none() {
        let written = clos(8, 1, 4);
        let down = "rail0-leaf1-spine2";
        let file = graph(&written);
        for (truth, unused) in [
            (written.clone(), vec![]),
            (without(&written, &[down]), vec![down]),
        ] {
            let truth = graph(&truth);
            let mut evidence = UseEvidence::default();
            for (from, to) in (0..8).flat_map(|from| (0..8).map(move |to| (from, to))) {
                if from / 2 == to / 2 {
                    continue;
                }
                for port in 0..12 {
                    let paths = truth.paths(from, to, RAIL);
                    let path = &paths[by_ports(from, to, port) as usize % paths.len()];
                    let is_answered = |step: usize| !(port + from + to + step as u32).is_multiple_of(3);
                    let answer = |(step, id): (usize, &LinkId)| {
                        truth.arrivals[id.index()].filter(|_| is_answered(step))
                    };
                    let mut hops: Vec<_> = path.iter().enumerate().map(answer).collect();
                    hops.pop();
                    evidence.note(&file, from, to, RAIL, &hops);
                }
            }
            assert_eq!(names(&evidence.unused(&file)), unused);
        }
    }

    /// The fabric with a second cable beside each one between switches.
    fn doubled(topology: &Topology) -> Topology {
        let mut doubled = topology.clone();
        let is_between_switches = |link: &&Link| link.name.contains("spine");
        for (number, link) in (0u8..).zip(topology.links.iter().filter(is_between_switches)) {
            let mut second = link.clone();
            second.name = format!("{}-b", link.name);
            second
                .ends
                .iter_mut()
                .for_each(|end| end.interface = format!("{}b", end.interface));
            second.addresses = Some([2, 1].map(|last| Ipv4Addr::new(99, 0, number, last).into()));
            doubled.links.push(second);
        }
        doubled
    }

    #[test]
    fn parallel_cables_that_answers_do_not_tell_apart_are_both_in_use() {
        let file = graph(&doubled(&clos(8, 1, 2))).with_answers_of_switches();
        assert_eq!(file.paths(0, 2, RAIL).len(), 8);
        assert_eq!(evidence(&file, &file, by_ports, &[]).unused(&file), []);
    }

    #[test]
    fn few_traces_and_one_hash_of_addresses_prove_nothing() {
        let file = graph(&clos(8, 1, 4));
        let mut few = UseEvidence::default();
        // One pair, many ports, one path.
        for _ in 0..200 {
            let path = &file.paths(0, 2, RAIL)[0];
            let mut hops: Vec<_> = path.iter().map(|id| file.arrivals[id.index()]).collect();
            hops.pop();
            few.note(&file, 0, 2, RAIL, &hops);
            few.note(&file, 2, 0, RAIL, &[None, None, None]);
        }
        assert_eq!(few.unused(&file), []);
    }
}
