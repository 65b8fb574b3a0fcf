//! Probes: who sends small packets to whom, how many, and which links they tell apart.
//!
//! All ranks send at the same time, each to a few others; a set of partners after another. Partners are so many ranks further on, a number drawn by lot, so every
//! rank sends and receives as much as every other, and over all sets flows cross the fabric between all of its parts.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::PlanError;
use super::layout::{Slot, TestLayout};
use record::units::{Bytes, Nanos};
use record::{Cell, Collective, DeviceKind, Load, ProbeFlow, ProbeTerms, TransportKind, Untested};
use topology::graph::{Graph, LinkId};

/// Source ports of probes start here when the suite does not say, and repeat after so many.
const FIRST_PORT: u16 = 17_000;
const PORTS: u16 = 2_048;
/// What a packet takes on a cable besides its payload: headers of UDP, IPv6 and Ethernet, preamble and gap.
const OVERHEAD: u64 = 86;
/// A packet that waits for as much of its line has met a queue, and for so long at least.
const QUEUE: Bytes = Bytes(64 << 10);
const SHORTEST_QUEUE: Nanos = Nanos(20_000);
/// Whether every two links can be told from every other two is looked at for so many links at most.
const MOST_LINKS_IN_PAIRS: usize = 2_000;

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
        let wire = work.size.0 + OVERHEAD;
        let most = f64::from(settings.packets_per_second).min(settings.share * line / wire as f64);
        let partners = usize::from(settings.partners);
        let gap = Nanos((partners as f64 * 1e9 / most.max(1e-3)) as u64);
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
                gap,
                queue: Nanos((QUEUE.0 as f64 * 1e9 / line) as u64).max(SHORTEST_QUEUE),
                share_ppm: (settings.share * 1e6) as u32,
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

/// Sends less in sets in which more flows meet on a link than its share allows. Whether any of them had to.
pub fn keep_within_share(cells: &mut [Cell], graph: &Graph) -> bool {
    let mut is_slowed = false;
    for cell in cells {
        let wire = (cell.size.0 + OVERHEAD) as f64;
        let Some(terms) = &mut cell.probes else { continue };
        let mut flows: HashMap<LinkId, f64> = HashMap::new();
        for flow in &terms.flows {
            for (link, probability) in crossed(flow, graph) {
                *flows.entry(link).or_default() += probability;
            }
        }
        let share = f64::from(terms.share_ppm) / 1e6;
        let needed = |(link, flows): (&LinkId, &f64)| {
            let rate = graph.link(*link).rate.0;
            (rate > 0.0).then(|| flows * wire * 1e9 / (rate * share))
        };
        let longest = flows.iter().filter_map(needed).fold(0.0, f64::max);
        // Rounded, or the cables of hosts would seem to be too short of it.
        if longest > terms.gap.0 as f64 * 1.001 {
            terms.gap = Nanos(longest.ceil() as u64);
            is_slowed = true;
        }
    }
    is_slowed
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
        let words = flows.len().div_ceil(64);
        let mut of_link: BTreeMap<LinkId, Vec<u64>> = BTreeMap::new();
        for (number, flow) in flows.iter().enumerate() {
            for (link, probability) in crossed(flow, graph) {
                if probability >= 1.0 - 1e-9 {
                    of_link.entry(link).or_insert_with(|| vec![0; words])[number / 64] |= 1 << (number % 64);
                }
            }
        }
        let uncrossed = graph.links().map(|(link, _)| link);
        let uncrossed =
            uncrossed.filter(|link| !of_link.contains_key(link) && graph.host_without_ranks(*link).is_none());
        let mut alike: BTreeMap<&[u64], Vec<LinkId>> = BTreeMap::new();
        for (link, flows) in &of_link {
            alike.entry(flows).or_default().push(*link);
        }
        let distinct: Vec<&[u64]> = alike.keys().copied().collect();
        let pairs_alike = (distinct.len() <= MOST_LINKS_IN_PAIRS).then(|| pairs_alike(&distinct));
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

/// Pairs of sets of flows whose union is that of another pair, or one of the sets.
fn pairs_alike(sets: &[&[u64]]) -> usize {
    let hash = |words: &mut dyn Iterator<Item = u64>| {
        let mut hasher = DefaultHasher::new();
        words.for_each(|word| word.hash(&mut hasher));
        hasher.finish()
    };
    let mut seen: HashMap<u64, usize> = HashMap::new();
    for set in sets {
        *seen.entry(hash(&mut set.iter().copied())).or_default() += 1;
    }
    for (number, one) in sets.iter().enumerate() {
        for other in &sets[number + 1..] {
            let union = &mut one.iter().zip(other.iter()).map(|(a, b)| a | b);
            *seen.entry(hash(union)).or_default() += 1;
        }
    }
    seen.values().filter(|count| **count > 1).sum()
}
