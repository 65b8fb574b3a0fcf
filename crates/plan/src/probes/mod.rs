//! Probes: who sends small packets to whom, how many, and which links they tell apart.
//!
//! All ranks send at the same time, each to a few others; a set of partners after another. Partners are so many ranks further on, a number drawn by lot, so every
//! rank sends and receives as much as every other, and over all sets flows cross the fabric between all of its parts.

mod aim;
mod ask;
mod cover;
mod few;
mod identify;
mod share;

use std::collections::HashSet;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::PlanError;
use super::layout::{Slot, TestLayout};
use record::units::{Bytes, Nanos};
use record::{Cell, Collective, DeviceKind, Load, ProbeFlow, ProbeTerms, TransportKind};
use share::{share_out, share_out_by_ranks};
use topology::graph::{Graph, LinkId};

pub use aim::{ProbeMeasurer, aim};
pub use cover::{cover, flows_to_try};
pub use few::keep_few;
pub use identify::Identifiability;
pub use share::{share_out_by_paths, what_is_sent};

/// Source ports of probes start here when the suite does not say, and repeat after so many.
const FIRST_PORT: u16 = 17_000;
const PORTS: u16 = 2_048;
/// What a packet takes on a cable besides its payload: headers of UDP, IP and Ethernet, preamble and gap; and what IPv6 adds to that.
const OVERHEAD: u64 = 66;
const MORE_IN_IPV6: u64 = 20;
/// A packet that waits for as much of its line has met a queue, and for so long at least.
const QUEUE: Bytes = Bytes(64 << 10);
const SHORTEST_QUEUE: Nanos = Nanos(20_000);
/// More flows than this tell no more, and their paths take long to trace and to record.
const MOST_FLOWS: usize = 100_000;
/// So many are planned where only those are sent that cover every link: the others are traced.
const MOST_TRACED: usize = 400_000;
/// Before paths are known, so many flows are shared out over all links that they may cross: of more, that takes minutes, and they are shared out again by their paths.
const SHARED_OUT: usize = 8_192;

impl TestLayout<'_> {
    /// One slot for every set of partners.
    pub(super) fn probes(&mut self) -> Result<Vec<Slot>, PlanError> {
        if self.has_no_links() {
            return Ok(Vec::new());
        }
        let graph = self.known.graph_or_inferred(&self.fabric.ranks);
        let graph = graph.as_ref();
        let settings = self.test.probe.clone();
        let world = self.world();
        let mut rails: Vec<(String, Vec<u32>, Vec<usize>)> = Vec::new();
        for (number, rail) in (0..).zip(self.rails) {
            if settings.sprayed_only && !self.known.is_sprayed(&world, rail) {
                continue;
            }
            let members = one_per_cable(graph, &world, rail);
            if members.len() < 2 {
                self.leave_out(&format!("rail {rail}"), "only one host is on it");
                continue;
            }
            let mut shifts: Vec<usize> = (1..members.len()).collect();
            shifts.shuffle(&mut ChaCha8Rng::seed_from_u64(self.seed.wrapping_add(number)));
            rails.push((rail.clone(), members, shifts));
        }
        if rails.is_empty() {
            self.leave_out("all of it", "no two hosts share a rail");
            return Ok(Vec::new());
        }
        let first = self.test.source_port.unwrap_or(FIRST_PORT);
        let line = self.known.slowest().unwrap_or(super::estimate::RATE).0;
        let work = self.work(2)?[0];
        let ends: usize = rails.iter().map(|(_, members, _)| members.len()).sum();
        let asked = (usize::from(settings.sets), usize::from(settings.partners));
        let most = match settings.flows_per_link {
            Some(_) => MOST_TRACED,
            None => MOST_FLOWS,
        };
        let (sets, partners) = within_limit(ends, asked, most);
        if (sets, partners) != asked {
            self.leave_out(
                &format!(
                    "probes to {} others from every rank instead of {}",
                    asked.0 * asked.1,
                    sets * partners
                ),
                &format!("that would be more than {most} flows of probes"),
            );
        }
        let mut addresses = self.fabric.ranks.iter().flat_map(|rank| &rank.rails);
        let is_ipv6 = addresses.any(|end| end.address.contains(':'));
        let mut slots = Vec::new();
        for set in 0..sets as u16 {
            let mut flows = Vec::new();
            for (rail, members, shifts) in &rails {
                for partner in 0..partners.min(shifts.len()) {
                    let turn = usize::from(set) * partners + partner;
                    let shift = shifts[turn % shifts.len()];
                    let port = first.wrapping_add(turn as u16 % PORTS);
                    for (place, from) in members.iter().enumerate() {
                        let to = members[(place + shift) % members.len()];
                        if self.fabric.rank(*from).map(|rank| &rank.host)
                            != self.fabric.rank(to).map(|rank| &rank.host)
                        {
                            flows.push(ProbeFlow {
                                from: *from,
                                to,
                                rail: rail.clone(),
                                port,
                                packets: 1,
                                way: None,
                            });
                        }
                    }
                }
            }
            if flows.is_empty() {
                continue;
            }
            let takes_part: HashSet<u32> = flows.iter().flat_map(|flow| [flow.from, flow.to]).collect();
            let ranks = world
                .iter()
                .copied()
                .filter(|rank| takes_part.contains(rank))
                .collect();
            let terms = ProbeTerms {
                set,
                window: settings.window,
                queue: Nanos((QUEUE.0 as f64 * 1e9 / line) as u64).max(SHORTEST_QUEUE),
                wire: Bytes(work.size.0 + OVERHEAD + if is_ipv6 { MORE_IN_IPV6 } else { 0 }),
                share_ppm: (settings.share * 1e6) as u32,
                most_per_second: settings.packets_per_second,
                flows,
            };
            let names = rails.iter().map(|(rail, ..)| rail.clone()).collect();
            slots.push(vec![Cell {
                collective: Collective::Probes,
                transport: TransportKind::Udp,
                device: DeviceKind::Host,
                source_port: Some(first),
                probes: Some(terms),
                ..self.cell(work, ranks, names, Load::Alone)
            }]);
            if let Some([cell]) = slots.last_mut().map(Vec::as_mut_slice) {
                match cell
                    .probes
                    .as_mut()
                    .filter(|terms| terms.flows.len() > SHARED_OUT)
                {
                    Some(terms) => share_out_by_ranks(terms),
                    None => share_out(cell, graph, line),
                }
            }
        }
        if slots.is_empty() {
            self.leave_out("all of it", "all ranks are on one host: no probe would leave it");
        }
        Ok(slots)
    }
}

/// Sets of partners, and partners at a time, so that ranks with so many ends on rails do not make too many flows.
fn within_limit(ends: usize, (sets, partners): (usize, usize), most: usize) -> (usize, usize) {
    let of_one_end = (most / ends.max(1)).max(1);
    let sets = sets.min(of_one_end);
    (sets, partners.min((of_one_end / sets).max(1)))
}

/// The ranks on a rail, one for every cable.
fn one_per_cable(graph: &Graph, world: &[u32], rail: &str) -> Vec<u32> {
    let mut seen: HashSet<LinkId> = HashSet::new();
    let has_own = |rank: &u32| graph.up(*rank, rail).is_some_and(|cable| seen.insert(cable));
    world.iter().copied().filter(has_own).collect()
}

/// The links that a flow certainly crosses, and those it may cross, with probabilities.
fn crossed(flow: &ProbeFlow, graph: &Graph) -> Vec<(LinkId, f64)> {
    match known_links(flow, graph) {
        Some(links) => links.into_iter().map(|link| (link, 1.0)).collect(),
        None => graph.crossing_probabilities(flow.from, flow.to, &flow.rail),
    }
}

/// The path of a flow, where it is known.
fn known_links(flow: &ProbeFlow, graph: &Graph) -> Option<Vec<LinkId>> {
    let way = flow.way.as_ref().filter(|way| way.whole)?;
    way.links.iter().map(|name| graph.named(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::share::shares_taken;
    use super::*;
    use crate::flow::PathTable;
    use crate::twin::clos;
    use crate::{Choices, FabricKnowledge, Plan};
    use record::StreamPath;
    use std::collections::HashMap;
    use std::sync::Arc;
    use topology::Fabric;
    use topology::suite::Suite;

    /// The plan of the suite on a fabric of two tiers, with a path for every flow.
    pub(super) fn planned(shape: &str) -> (Plan, Arc<Graph>) {
        planned_with(shape, |_| ())
    }

    /// The same with other settings.
    pub(super) fn planned_with(shape: &str, change: impl Fn(&mut Suite)) -> (Plan, Arc<Graph>) {
        planned_where("probe", shape, &[], change)
    }

    /// The plan of a suite on a fabric of two tiers, of which some leaves spray packets.
    fn planned_where(
        suite: &str,
        shape: &str,
        spraying: &[&str],
        change: impl Fn(&mut Suite),
    ) -> (Plan, Arc<Graph>) {
        let (topology, ranks) = clos(&shape.parse().unwrap());
        let graph = Arc::new(Graph::of(&topology, &ranks).unwrap());
        let fabric = Fabric {
            hosts: Vec::new(),
            ranks,
        };
        let choices = Choices {
            topology: Some(topology),
            known: FabricKnowledge {
                graph: Some(Arc::clone(&graph)),
                paths: Arc::new(PathTable::default().with_spraying(spraying.iter().copied())),
                ..FabricKnowledge::default()
            },
            ..Choices::default()
        };
        let mut suite = Suite::load(suite).unwrap();
        change(&mut suite);
        let mut plan = Plan::new(&suite, &fabric, &choices).unwrap();
        let terms = plan.cells.iter_mut().filter_map(|cell| cell.probes.as_mut());
        terms.for_each(|terms| tell_paths(&mut terms.flows, &graph));
        share_out_by_paths(&mut plan.cells, &graph, plan.wire);
        (plan, graph)
    }

    #[test]
    fn nights_send_probes_where_packets_are_sprayed_only() {
        let probes = |spraying: &[&str]| {
            let (plan, _) = planned_where("nightly", "8x2", spraying, |_| ());
            let is_probe = |cell: &&Cell| cell.probes.is_some();
            let rails = plan.cells.iter().filter(is_probe).map(|cell| cell.rails.clone());
            let tests = plan.tests.iter().map(|test| test.name.clone());
            (tests.collect::<Vec<_>>(), rails.collect::<Vec<_>>())
        };
        let (tests, cells) = probes(&[]);
        assert_eq!(
            (tests.contains(&"losses".to_string()), cells.len()),
            (false, 0),
            "{tests:?}"
        );
        let (tests, cells) = probes(&["rail1-leaf0"]);
        assert_eq!(tests.last().map(String::as_str), Some("losses"));
        assert_eq!(cells, vec![vec!["rail1".to_string()]; 8], "every set");
    }

    /// A path for every flow, by its ends and port.
    pub(super) fn tell_paths(flows: &mut [ProbeFlow], graph: &Graph) {
        for flow in flows {
            let paths = graph.paths(flow.from, flow.to, &flow.rail);
            let path = &paths
                [(usize::from(flow.port) * 7 + flow.from as usize * 3 + flow.to as usize) % paths.len()];
            flow.way = Some(StreamPath {
                links: path.iter().map(|link| graph.name(*link)).collect(),
                whole: true,
                steady: None,
            });
        }
    }

    #[test]
    fn every_rank_sends_and_receives_in_every_set_and_no_link_carries_more_than_its_share() {
        let (plan, graph) = planned("16x2");
        assert_eq!(plan.cells.len(), 16);
        for cell in &plan.cells {
            let terms = cell.probes.as_ref().unwrap();
            assert_eq!(terms.flows.len(), 16 * 2 * 4);
            let mut ends: HashMap<(u32, &str), [usize; 2]> = HashMap::new();
            for flow in &terms.flows {
                assert_ne!(flow.from, flow.to);
                ends.entry((flow.from, &flow.rail)).or_default()[0] += 1;
                ends.entry((flow.to, &flow.rail)).or_default()[1] += 1;
            }
            assert!(ends.values().all(|counts| *counts == [4, 4]));
            let most = shares_taken(cell, &graph).into_values().fold(0.0, f64::max);
            assert!(most <= 0.01, "{most}");
        }
        let untold = Identifiability::of(&plan.cells, &graph);
        assert_eq!((untold.uncrossed.len(), untold.alike.len()), (0, 0));
        assert_eq!(untold.crossed, graph.link_count());
        assert_eq!(untold.pairs_alike, Some(0));
        assert!(untold.untested(&graph).is_empty());
    }

    #[test]
    fn no_fabric_is_so_large_that_more_flows_are_planned_than_may_be() {
        assert_eq!(within_limit(32, (16, 4), MOST_FLOWS), (16, 4));
        assert_eq!(within_limit(4_096, (16, 4), MOST_FLOWS), (16, 1));
        assert_eq!(within_limit(1_024 * 8, (16, 4), MOST_FLOWS), (12, 1));
        assert_eq!(within_limit(4_096 * 8, (16, 4), MOST_FLOWS), (3, 1));
        assert_eq!(within_limit(MOST_FLOWS * 2, (16, 4), MOST_FLOWS), (1, 1));
        assert_eq!(within_limit(9_216, (16, 4), MOST_TRACED), (16, 2));
    }

    #[test]
    fn flows_that_share_no_full_link_send_more() {
        let (mut plan, graph) = planned("16x2");
        let cell = &mut plan.cells[0];
        let terms = cell.probes.as_mut().unwrap();
        terms.most_per_second = u32::MAX;
        share_out(cell, &graph, 1.0);
        let taken = shares_taken(cell, &graph);
        let flows = &cell.probes.as_ref().unwrap().flows;
        // Each of them crosses a link that carries all that it may, but for rounding.
        let slack = cell.probes.as_ref().unwrap().wire.0 as f64 * 40.0;
        for flow in flows {
            let is_full = |link: &LinkId| {
                taken[link] * graph.link(*link).rate.0 > 0.01 * graph.link(*link).rate.0 - slack
            };
            assert!(known_links(flow, &graph).unwrap().iter().any(is_full), "{flow:?}");
        }
        terms_of(cell).most_per_second = 100;
        share_out(cell, &graph, 1.0);
        assert!(terms_of(cell).flows.iter().all(|flow| flow.packets == 25));
    }

    fn terms_of(cell: &mut Cell) -> &mut ProbeTerms {
        cell.probes.as_mut().unwrap()
    }

    #[test]
    fn what_no_probe_crosses_and_what_the_same_probes_cross_is_said() {
        let (mut plan, graph) = planned("16x2");
        // Of one set only flows between two hosts are left.
        plan.cells.truncate(1);
        let flows = &mut terms_of(&mut plan.cells[0]).flows;
        flows.truncate(2);
        let told = Identifiability::of(&plan.cells, &graph);
        assert!(told.uncrossed.len() > graph.link_count() / 2 && !told.alike.is_empty());
        let untested = told.untested(&graph);
        assert_eq!(untested.len(), 2);
        assert!(untested[1].why.contains("same probes"), "{untested:?}");
    }
}
