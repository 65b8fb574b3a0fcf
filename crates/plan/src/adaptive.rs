//! The adaptive schedule: every cable a few times, then the flows that distinguish the suspects.
//!
//! The *opening* crosses every link that any flow can reach, in both directions, as often as asked, each time with other
//! partners where there are any. What looks slow leaves *ambiguities*: sets of links that may be the reason. *Narrowing* sends flows
//! that cross one suspect each and otherwise only links that are known to be good, from and to ranks that had no part in it
//! before: a suspect that is slow then is named, one that is not is cleared. Flows of one slot share no rank and no link, so no test
//! disturbs another; slots of different rails are never mixed.
//!
//! Where the path of a flow is not known, it is a draw: every such flow is a connection of its own, and the opening goes on until
//! it is improbable that a link was missed by all of them. Where switches say afterwards which path it took, it is shorter, and
//! what none has crossed is asked for again. Where packets are sprayed, every flow crosses all links that its leaf may
//! choose, with a share of its rate: all hosts of a leaf send or receive at once, so that its links are filled.

mod candidates;
mod draws;
mod opening;

use std::collections::{HashMap, HashSet};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::flow::{Flow, PathTable, SlotCapacity};
use candidates::{Candidate, Suspect, different_partners};
use topology::graph::{Graph, LinkId};

pub use candidates::partners;

/// The most flows sent for one ambiguity in one step.
const FLOWS_PER_AMBIGUITY: usize = 8;

/// Flows that run at the same time.
pub type SlotOfFlows = Vec<Flow>;

/// Links and ranks of which one slows some flows down, and it is not known which.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Ambiguity {
    /// The rail on which it was seen.
    pub rail: String,
    /// The links, the likeliest first.
    pub links: Vec<LinkId>,
    /// Ranks that may be slow as senders.
    pub senders: Vec<u32>,
    /// Ranks that may be slow as receivers.
    pub receivers: Vec<u32>,
    /// How many more measurements the likeliest needs before it can be accused.
    pub wanted: usize,
    /// Whether flows of unknown path may cross it or not, and too few have so far.
    pub by_draws: bool,
}

impl Ambiguity {
    /// How many parts it is about.
    pub fn parts(&self) -> usize {
        self.links.len() + self.senders.len() + self.receivers.len()
    }

    /// How many of its parts a flow crosses.
    fn crossed(&self, from: u32, to: u32, path: &[LinkId]) -> usize {
        let links = self.links.iter().filter(|link| path.contains(link)).count();
        links + usize::from(self.senders.contains(&from)) + usize::from(self.receivers.contains(&to))
    }
}

/// The parts of all ambiguities, each with how many of them it is in.
struct AllSuspects {
    links: HashMap<LinkId, usize>,
    senders: HashMap<u32, usize>,
    receivers: HashMap<u32, usize>,
}

impl AllSuspects {
    fn of<'a>(ambiguities: impl IntoIterator<Item = &'a Ambiguity>) -> AllSuspects {
        let mut all = AllSuspects {
            links: HashMap::new(),
            senders: HashMap::new(),
            receivers: HashMap::new(),
        };
        for ambiguity in ambiguities {
            for link in &ambiguity.links {
                *all.links.entry(*link).or_default() += 1;
            }
            for sender in &ambiguity.senders {
                *all.senders.entry(*sender).or_default() += 1;
            }
            for receiver in &ambiguity.receivers {
                *all.receivers.entry(*receiver).or_default() += 1;
            }
        }
        all
    }

    /// How many of the parts of all ambiguities a flow crosses.
    fn crossed(&self, from: u32, to: u32, path: &[LinkId]) -> usize {
        let links = path.iter().filter_map(|link| self.links.get(link));
        let ends = [self.senders.get(&from), self.receivers.get(&to)];
        links.chain(ends.into_iter().flatten()).sum()
    }
}

/// Makes the slots of an adaptive test.
#[derive(Clone)]
pub struct Adaptive<'g> {
    graph: &'g Graph,
    table: &'g PathTable,
    ranks: Vec<u32>,
    rails: Vec<String>,
    seed: u64,
    /// Pairs that were measured, per rail.
    used: HashMap<String, HashSet<(u32, u32)>>,
    /// Ports of flows of which only some switches are known that were measured.
    used_ports: HashMap<(u32, u32, String), HashSet<u16>>,
    /// Flows so far.
    flows: usize,
    random: ChaCha8Rng,
}

impl<'g> Adaptive<'g> {
    /// For these ranks and rails; the same seed gives the same flows.
    pub fn new(
        graph: &'g Graph,
        table: &'g PathTable,
        ranks: &[u32],
        rails: &[String],
        seed: u64,
    ) -> Adaptive<'g> {
        Adaptive {
            graph,
            table,
            ranks: ranks.to_vec(),
            rails: rails.to_vec(),
            seed,
            used: HashMap::new(),
            used_ports: HashMap::new(),
            flows: 0,
            random: ChaCha8Rng::seed_from_u64(seed),
        }
    }

    /// Takes note of a pair that was measured: others are preferred from here on.
    pub fn remember(&mut self, flow: &Flow) {
        self.flows += 1;
        let used = self.used.entry(flow.rail.clone()).or_default();
        used.insert((flow.from, flow.to));
        self.note_port(flow);
    }

    /// Takes note of a pinned port whose path is not known.
    fn note_port(&mut self, flow: &Flow) {
        if let Some(port) = flow.port.filter(|_| flow.path.is_empty()) {
            let pair = (flow.from, flow.to, flow.rail.clone());
            self.used_ports.entry(pair).or_default().insert(port);
        }
    }

    /// A flow with a source port of its own, where its path is not known.
    fn with_port(&mut self, flow: Flow) -> Flow {
        self.flows += 1;
        self.note_port(&flow);
        match flow.path.is_empty() && flow.port.is_none() {
            true => Flow {
                port: self.table.fresh_port(self.flows),
                ..flow
            },
            false => flow,
        }
    }

    /// Flows that were measured, to be measured again: over the same path where it is known, else in a new connection.
    pub fn again(&mut self, flows: Vec<Flow>) -> Vec<SlotOfFlows> {
        let anew = |flow: Flow| Flow {
            port: flow.port.filter(|_| !flow.path.is_empty()),
            ..flow
        };
        let flows = flows.into_iter().map(|flow| vec![self.with_port(anew(flow))]);
        let flows = flows.collect();
        self.in_slots(flows)
    }

    /// Slots that distinguish the suspects of each ambiguity, or confirm the only one. `is_good` says which links are known to carry
    /// what they should. Empty when nothing more can be distinguished or confirmed.
    pub fn narrowing(
        &mut self,
        ambiguities: &[Ambiguity],
        is_good: impl Fn(LinkId) -> bool,
    ) -> Vec<SlotOfFlows> {
        let mut of_rail: HashMap<String, Vec<Candidate>> = HashMap::new();
        let all = AllSuspects::of(ambiguities);
        let concerns_ranks =
            |ambiguity: &Ambiguity| !ambiguity.senders.is_empty() || !ambiguity.receivers.is_empty();
        for rail in self.rails.clone() {
            if ambiguities
                .iter()
                .any(|ambiguity| ambiguity.rail == rail || concerns_ranks(ambiguity))
            {
                let candidates = self.candidates(&rail, |from, to, links| all.crossed(from, to, links) > 0);
                of_rail.insert(rail, candidates);
            }
        }
        let (sprayed, ambiguities): (Vec<Ambiguity>, Vec<Ambiguity>) = ambiguities
            .iter()
            .cloned()
            .partition(|ambiguity| !ambiguity.links.is_empty() && self.is_sprayed(&ambiguity.rail));
        let ambiguities = ambiguities.as_slice();
        let mut slots = Vec::new();
        for ambiguity in sprayed.iter().filter(|ambiguity| ambiguity.wanted > 0) {
            let graph = self.graph;
            let is_wanted = |leaf: &str, sends: bool| {
                let mut links = ambiguity.links.iter().map(|link| graph.link(*link));
                links.any(|link| {
                    let at_leaf = if link.is_host {
                        link.upper_node()
                    } else {
                        link.lower_node()
                    };
                    at_leaf == leaf && link.is_upward == sends
                })
            };
            slots.extend(self.leaf_slots(
                &ambiguity.rail,
                ambiguity.wanted.min(FLOWS_PER_AMBIGUITY) as u32,
                is_wanted,
            ));
        }
        let mut chosen: Vec<SlotOfFlows> = Vec::new();
        for ambiguity in ambiguities {
            for flow in self.flows_for(ambiguity, ambiguities, &of_rail, &is_good) {
                let is_draw = flow.path.is_empty() && flow.port.is_none();
                let is_chosen = chosen.iter().any(|together| together.contains(&flow));
                if is_draw || !is_chosen {
                    let mut together = self.companions(&flow, ambiguity, &of_rail);
                    together.insert(0, flow);
                    for flow in &together {
                        let used = self.used.entry(flow.rail.clone()).or_default();
                        used.insert((flow.from, flow.to));
                    }
                    chosen.push(together.into_iter().map(|flow| self.with_port(flow)).collect());
                }
            }
        }
        slots.extend(self.in_slots(chosen));
        slots
    }

    /// The flows that serve one ambiguity: one per part that can be crossed without the others, or several over the only one.
    fn flows_for(
        &mut self,
        ambiguity: &Ambiguity,
        ambiguities: &[Ambiguity],
        of_rail: &HashMap<String, Vec<Candidate>>,
        is_good: impl Fn(LinkId) -> bool,
    ) -> Vec<Flow> {
        let others = AllSuspects::of(ambiguities.iter().filter(|other| *other != ambiguity));
        let mut options: Vec<(usize, u64, &Candidate)> = Vec::new();
        for candidate in self.rails.iter().filter_map(|rail| of_rail.get(rail)).flatten() {
            let flow = &candidate.flow;
            let crossed = ambiguity.crossed(flow.from, flow.to, &candidate.reach);
            if crossed == 0 {
                continue;
            }
            let foreign = others.crossed(flow.from, flow.to, &candidate.reach);
            let is_unproven = |link: &&LinkId| !ambiguity.links.contains(link) && !is_good(**link);
            let unproven = candidate.sure.iter().filter(is_unproven).count();
            let is_unknown = usize::from(flow.path.is_empty());
            let used = self.used.get(&flow.rail);
            let is_used = usize::from(used.is_some_and(|used| used.contains(&(flow.from, flow.to))));
            let cost = 4 * foreign + 3 * is_unknown + 2 * unproven + is_used;
            let chance = u64::from(self.random.random::<u8>());
            options.push((crossed, cost as u64 * 256 + chance, candidate));
        }
        options.sort_by_key(|(crossed, cost, _)| (*crossed, *cost));
        let mut flows = self.draws_for(ambiguity, &options);
        if !flows.is_empty() {
            return flows;
        }
        if ambiguity.parts() > 1 {
            // For every part the cheapest flow that crosses as few of the others as possible, but never all of them.
            for part in Suspect::all(ambiguity).iter().take(FLOWS_PER_AMBIGUITY) {
                let mut tells = options.iter().filter(|(crossed, _, candidate)| {
                    // One flow over a known path says what it can; flows that draw their paths say more together.
                    let says_more = !candidate.flow.path.is_empty() || !flows.contains(&candidate.flow);
                    *crossed < ambiguity.parts() && says_more
                });
                if let Some((_, _, candidate)) = tells.find(|(_, _, candidate)| part.is_crossed(candidate))
                    && !flows.contains(&candidate.flow)
                {
                    flows.push(candidate.flow.clone());
                }
            }
        }
        if flows.is_empty() {
            // There is only one, or they are ambiguous: what is left is to confirm that it is one of them.
            let all = options
                .into_iter()
                .map(|(_, _, candidate)| candidate.flow.clone());
            flows = different_partners(all, ambiguity.wanted.min(FLOWS_PER_AMBIGUITY));
        }
        flows
    }

    /// The flows that must be sent at the same time for the suspects that one crosses to be asked for all they carry, those that cross as few of
    /// the others as possible. None where one flow is all they carry.
    fn companions(
        &self,
        flow: &Flow,
        ambiguity: &Ambiguity,
        of_rail: &HashMap<String, Vec<Candidate>>,
    ) -> Vec<Flow> {
        let mut companions = Vec::new();
        let mut capacity = SlotCapacity::with(self.graph, self.table, std::slice::from_ref(flow));
        let is_suspected =
            |link: &&LinkId| ambiguity.links.contains(link) && !self.graph.link(**link).is_host;
        for link in flow.path.iter().filter(is_suspected) {
            while !capacity.is_filled(*link) {
                let candidates = of_rail.get(&flow.rail).into_iter().flatten();
                let fitting = candidates
                    .map(|candidate| &candidate.flow)
                    .filter(|other| other.path.contains(link) && capacity.fits(other));
                let crossed = |other: &&Flow| ambiguity.crossed(other.from, other.to, &other.path);
                let Some(other) = fitting.min_by_key(crossed) else {
                    break;
                };
                capacity.add(other);
                companions.push(other.clone());
            }
        }
        companions
    }

    /// Flows in as few slots as they fit into, in order; those that belong together in one.
    pub fn in_slots(&self, groups: Vec<SlotOfFlows>) -> Vec<SlotOfFlows> {
        let mut slots: Vec<(SlotCapacity<'_>, SlotOfFlows)> = Vec::new();
        for group in groups {
            let with_group = |capacity: &SlotCapacity<'g>| {
                let mut capacity = capacity.clone();
                for flow in &group {
                    if !capacity.fits(flow) {
                        return None;
                    }
                    capacity.add(flow);
                }
                Some(capacity)
            };
            let fits = slots.iter().enumerate().find_map(|(place, (capacity, slot))| {
                let is_same_rail = slot[0].rail == group.first()?.rail;
                is_same_rail
                    .then(|| Some((place, with_group(capacity)?)))
                    .flatten()
            });
            match fits {
                Some((place, capacity)) => {
                    slots[place].0 = capacity;
                    slots[place].1.extend(group);
                }
                None if group.is_empty() => {}
                None => slots.push((SlotCapacity::with(self.graph, self.table, &group), group)),
            }
        }
        slots.into_iter().map(|(_, slot)| slot).collect()
    }
}

#[cfg(test)]
mod tests;
