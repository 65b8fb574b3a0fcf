//! Probes: who sends small packets to whom, how many, and which links they tell apart.
//!
//! All ranks send at the same time, each to a few others; a set of partners after another. Partners are so many ranks further on, a number drawn by lot, so every
//! rank sends and receives as much as every other, and over all sets flows cross the fabric between all of its parts.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::layout::{Slot, TestLayout};
use super::{Plan, PlanError};
use record::units::{Bytes, Nanos, Rate};
use record::{Cell, Collective, DeviceKind, Load, ProbeFlow, ProbeTerms, TransportKind, Untested};
use topology::graph::{Graph, LinkId};

/// Source ports of probes start here when the suite does not say, and repeat after so many.
const FIRST_PORT: u16 = 17_000;
const PORTS: u16 = 2_048;
/// What a packet takes on a cable besides its payload: headers of UDP, IP and Ethernet, preamble and gap; and what IPv6 adds to that.
const OVERHEAD: u64 = 66;
const MORE_IN_IPV6: u64 = 20;
/// A packet that waits for as much of its line has met a queue, and for so long at least.
const QUEUE: Bytes = Bytes(64 << 10);
const SHORTEST_QUEUE: Nanos = Nanos(20_000);
/// Whether every two links can be told from every other two is looked at where that takes so many steps at most.
const MOST_WORK_ON_PAIRS: usize = 500_000_000;
/// More flows than this tell no more, and their paths take long to trace and to record.
const MOST_FLOWS: usize = 100_000;

impl TestLayout<'_> {
    /// One slot for every set of partners.
    pub(super) fn probes(&mut self) -> Result<Vec<Slot>, PlanError> {
        if self.has_no_links() {
            return Ok(Vec::new());
        }
        let inferred;
        let graph = match &self.known.graph {
            Some(graph) => graph.as_ref(),
            None => {
                inferred = Graph::inferred(&self.fabric.ranks);
                &inferred
            }
        };
        let settings = self.test.probe.clone();
        let world = self.world();
        let mut rails: Vec<(String, Vec<u32>, Vec<usize>)> = Vec::new();
        for (number, rail) in (0..).zip(self.rails) {
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
        let at_most = (MOST_FLOWS / (ends * usize::from(settings.sets)).max(1)).max(1);
        let partners = usize::from(settings.partners).min(at_most);
        if partners < usize::from(settings.partners) {
            let what = format!("{} partners at a time instead of {partners}", settings.partners);
            self.leave_out(
                &what,
                &format!("that would be more than {MOST_FLOWS} flows of probes"),
            );
        }
        let mut addresses = self.fabric.ranks.iter().flat_map(|rank| &rank.rails);
        let is_ipv6 = addresses.any(|end| end.address.contains(':'));
        let mut slots = Vec::new();
        for set in 0..settings.sets {
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
                share_out(cell, graph, line);
            }
        }
        if slots.is_empty() {
            self.leave_out("all of it", "all ranks are on one host: no probe would leave it");
        }
        Ok(slots)
    }
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

/// Shares out how many packets flows send, again where paths have become known since.
pub fn share_out_by_paths(cells: &mut [Cell], graph: &Graph, line: Rate) {
    for cell in cells {
        share_out(cell, graph, line.0);
    }
}

/// Shares out how many packets the flows of a cell send: all alike, until a link carries as much as it may or a rank sends as much as it may; then the others more,
/// and so on. A link of unknown rate carries `line`; flows of unknown path count with their probabilities.
fn share_out(cell: &mut Cell, graph: &Graph, line: f64) {
    let Some(terms) = &mut cell.probes else { return };
    let wire = terms.wire.0 as f64;
    let share = f64::from(terms.share_ppm) / 1e6;
    let mut numbers: HashMap<(Option<LinkId>, u32, &str), usize> = HashMap::new();
    let mut limits: Vec<Limit> = Vec::new();
    let mut uses: Vec<Vec<(usize, f64)>> = Vec::new();
    for (place, flow) in terms.flows.iter().enumerate() {
        let links = crossed(flow, graph).into_iter().map(|(link, probability)| {
            let rate = Some(graph.link(link).rate.0)
                .filter(|rate| *rate > 0.0)
                .unwrap_or(line);
            ((Some(link), 0, ""), rate * share / wire, probability)
        });
        let own = (
            (None, flow.from, flow.rail.as_str()),
            f64::from(terms.most_per_second),
            1.0,
        );
        let mut used = Vec::new();
        for (what, most, probability) in links.chain([own]) {
            let number = *numbers.entry(what).or_insert_with(|| {
                limits.push(Limit {
                    left: most,
                    growing: 0.0,
                    flows: Vec::new(),
                });
                limits.len() - 1
            });
            limits[number].growing += probability;
            limits[number].flows.push(place);
            used.push((number, probability));
        }
        uses.push(used);
    }
    let mut per_second: Vec<f64> = vec![0.0; uses.len()];
    let mut is_growing = vec![true; uses.len()];
    while is_growing.contains(&true) {
        let steps = limits.iter().filter(|limit| limit.growing > 1e-9);
        let step = steps
            .map(|limit| limit.left / limit.growing)
            .fold(f64::INFINITY, f64::min);
        if !step.is_finite() {
            break;
        }
        for (flow, grows) in per_second.iter_mut().zip(&is_growing) {
            *flow += if *grows { step } else { 0.0 };
        }
        let mut full = Vec::new();
        for limit in &mut limits {
            limit.left -= step * limit.growing;
            if limit.growing > 1e-9 && limit.left <= 1e-9 * step.max(1.0) {
                full.extend(limit.flows.iter().copied());
            }
        }
        for flow in full {
            if std::mem::take(&mut is_growing[flow]) {
                uses[flow]
                    .iter()
                    .for_each(|(limit, probability)| limits[*limit].growing -= probability);
            }
        }
    }
    let seconds = terms.window.0 as f64 / 1e9;
    for (flow, per_second) in terms.flows.iter_mut().zip(per_second) {
        flow.packets = ((per_second * seconds) as u32).max(1);
    }
}

/// The share of every link that the probes of a cell take.
fn shares_taken(cell: &Cell, graph: &Graph) -> HashMap<LinkId, f64> {
    let mut taken: HashMap<LinkId, f64> = HashMap::new();
    let Some(terms) = &cell.probes else { return taken };
    let wire = terms.wire.0 as f64;
    let seconds = terms.window.0 as f64 / 1e9;
    for flow in &terms.flows {
        for (link, probability) in crossed(flow, graph) {
            let rate = graph.link(link).rate.0;
            if rate > 0.0 {
                *taken.entry(link).or_default() +=
                    probability * f64::from(flow.packets) * wire / (seconds * rate);
            }
        }
    }
    taken
}

/// What probes burden the fabric with, for a progress line.
pub fn what_is_sent(plan: &Plan, graph: &Graph) -> String {
    let cells = || plan.cells.iter().filter(|cell| cell.probes.is_some());
    let taken = cells().flat_map(|cell| shares_taken(cell, graph).into_values());
    let most = taken.fold(0.0, f64::max);
    let per_second = cells().filter_map(|cell| {
        let terms = cell.probes.as_ref()?;
        let packets: u64 = terms.flows.iter().map(|flow| u64::from(flow.packets)).sum();
        let rails_of_ranks = (cell.ranks.len() * cell.rails.len()).max(1);
        Some(packets as f64 * 1e9 / terms.window.0 as f64 / rails_of_ranks as f64)
    });
    let per_second: Vec<f64> = per_second.collect();
    let average = per_second.iter().sum::<f64>() / per_second.len().max(1) as f64;
    format!(
        "each rank sends {average:.0} probes a second on a rail; they take {:.2} % of a link at most",
        most * 100.0
    )
}

/// What flows share: a link, or what a rank sends on a rail.
struct Limit {
    /// Packets a second that it still lets pass.
    left: f64,
    /// Flows that still grow, each with the probability that it is one of them.
    growing: f64,
    flows: Vec<usize>,
}

/// Which links the flows of some cells of probes tell apart.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Identifiability {
    /// Directed links that are crossed by a flow of known path.
    pub crossed: usize,
    /// Those that are not.
    pub uncrossed: Vec<LinkId>,
    /// Sets of links that the same flows cross: one of them is as likely as another.
    pub alike: Vec<Vec<LinkId>>,
    /// Pairs of links that would make the same flows lose packets as another pair does; none where there are too many links to tell.
    pub pairs_alike: Option<usize>,
}

impl Identifiability {
    /// Of all cells together.
    pub fn of(cells: &[Cell], graph: &Graph) -> Identifiability {
        let flows = cells.iter().filter_map(|cell| cell.probes.as_ref());
        let flows: Vec<&ProbeFlow> = flows.flat_map(|terms| &terms.flows).collect();
        let mut of_link: BTreeMap<LinkId, Vec<u32>> = BTreeMap::new();
        for (number, flow) in (0..).zip(&flows) {
            for (link, probability) in crossed(flow, graph) {
                if probability >= 1.0 - 1e-9 {
                    of_link.entry(link).or_default().push(number);
                }
            }
        }
        let uncrossed = graph.links().map(|(link, _)| link);
        let uncrossed =
            uncrossed.filter(|link| !of_link.contains_key(link) && graph.host_without_ranks(*link).is_none());
        let mut alike: BTreeMap<&[u32], Vec<LinkId>> = BTreeMap::new();
        for (link, flows) in &of_link {
            alike.entry(flows).or_default().push(*link);
        }
        let distinct: Vec<&[u32]> = alike.keys().copied().collect();
        let pairs = distinct.len() * distinct.len() / 2;
        let is_little = pairs * flows.len().div_ceil(64) <= MOST_WORK_ON_PAIRS;
        let pairs_alike = is_little.then(|| pairs_alike(&distinct, flows.len()));
        Identifiability {
            crossed: of_link.len(),
            uncrossed: uncrossed.collect(),
            alike: alike.into_values().filter(|links| links.len() > 1).collect(),
            pairs_alike,
        }
    }

    /// What stays untested, or ambiguous.
    pub fn untested(&self, graph: &Graph) -> Vec<Untested> {
        let mut found = Vec::new();
        if let Some(first) = self.uncrossed.first() {
            found.push(Untested {
                what: format!(
                    "probes over {} of {} directed links, such as {}",
                    self.uncrossed.len(),
                    self.uncrossed.len() + self.crossed,
                    graph.name(*first)
                ),
                why: "no probe is known beforehand to cross them: they are judged by probabilities"
                    .to_string(),
            });
        }
        if let Some(first) = self.alike.first() {
            let names: Vec<String> = first.iter().map(|link| graph.name(*link)).collect();
            let others = match self.alike.len() {
                1 => String::new(),
                more => format!(", and {} more such sets", more - 1),
            };
            found.push(Untested {
                what: format!("telling {} apart by probes{others}", record::text::list(&names)),
                why: "the same probes cross them".to_string(),
            });
        }
        found
    }

    /// In words, for a progress line.
    pub fn in_words(&self) -> String {
        let apart = self.crossed - self.alike.iter().map(Vec::len).sum::<usize>();
        let pairs = match self.pairs_alike {
            Some(0) => ", and every two of them from every other two".to_string(),
            Some(pairs) => format!(
                "; {} of two links cannot be told from another",
                record::text::counted(pairs, "pair")
            ),
            None => String::new(),
        };
        format!(
            "probes cross {} directed links and tell {apart} of them apart{pairs}",
            self.crossed
        )
    }
}

/// Pairs of sets of so many flows whose union is that of another pair, or one of the sets.
fn pairs_alike(sets: &[&[u32]], flows: usize) -> usize {
    let bits = |set: &&[u32]| {
        let mut bits = vec![0u64; flows.div_ceil(64)];
        set.iter()
            .for_each(|flow| bits[*flow as usize / 64] |= 1 << (flow % 64));
        bits
    };
    let sets: Vec<Vec<u64>> = sets.iter().map(bits).collect();
    let hash = |words: &mut dyn Iterator<Item = u64>| {
        let mut hasher = DefaultHasher::new();
        words.for_each(|word| word.hash(&mut hasher));
        hasher.finish()
    };
    let mut seen: HashMap<u64, usize> = HashMap::new();
    for set in &sets {
        *seen.entry(hash(&mut set.iter().copied())).or_default() += 1;
    }
    for (number, one) in sets.iter().enumerate() {
        for other in &sets[number + 1..] {
            let union = &mut one.iter().zip(other).map(|(a, b)| a | b);
            *seen.entry(hash(union)).or_default() += 1;
        }
    }
    seen.values().filter(|count| **count > 1).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::twin::clos;
    use crate::{Choices, FabricKnowledge};
    use record::StreamPath;
    use std::sync::Arc;
    use topology::Fabric;
    use topology::suite::Suite;

    /// The plan of the suite on a fabric of two tiers, with a path for every flow.
    fn planned(shape: &str) -> (Plan, Arc<Graph>) {
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
                ..FabricKnowledge::default()
            },
            ..Choices::default()
        };
        let suite = Suite::load("probe").unwrap();
        let mut plan = Plan::new(&suite, &fabric, &choices).unwrap();
        for flow in plan
            .cells
            .iter_mut()
            .filter_map(|cell| cell.probes.as_mut())
            .flat_map(|terms| &mut terms.flows)
        {
            let paths = graph.paths(flow.from, flow.to, &flow.rail);
            let path = &paths
                [(usize::from(flow.port) * 7 + flow.from as usize * 3 + flow.to as usize) % paths.len()];
            flow.way = Some(StreamPath {
                links: path.iter().map(|link| graph.name(*link)).collect(),
                whole: true,
                steady: None,
            });
        }
        share_out_by_paths(&mut plan.cells, &graph, plan.wire);
        (plan, graph)
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

    #[test]
    fn two_lossy_links_are_two_others_only_where_their_flows_together_are_the_same() {
        let sets: [&[u32]; 3] = [&[0], &[1], &[0, 1]];
        // The third is as the first two together, and as any of them with it.
        assert_eq!(pairs_alike(&sets, 2), 4);
        let apart: [&[u32]; 3] = [&[0], &[1], &[70]];
        assert_eq!(pairs_alike(&apart, 71), 0);
    }
}
