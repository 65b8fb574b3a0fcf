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

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap, HashSet};

use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::flow::{Flow, PathTable, SlotCapacity};
use candidates::{Candidate, Suspect, different_partners};
use topology::graph::{Graph, LinkId};

pub use candidates::partners;

/// A link counts as crossed when flows of unknown path have missed it with at most this probability.
const MISSED: f64 = 0.01;
/// The same where it is known afterwards which links they crossed: the others are asked for again.
const MISSED_AT_FIRST: f64 = 0.25;
/// The most slots of a rail's opening that only make it less probable that a link was missed.
const MOST_DRAWS: usize = 40;
/// Packings of an opening that are tried, and candidates that are looked at in all of them.
const MOST_PACKINGS: usize = 32;
const LOOKED_AT: usize = 200_000;
/// The fewest slots of a rail's opening: fewer would cross the hosts' cables twice only, and miss what comes and goes.
const FEWEST_SLOTS: usize = 5;
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

    /// Slots that cross every link `times` times, rail by rail; only links of the hosts, switches and cables in `focus`, unless
    /// it names none.
    pub fn opening(&mut self, times: u32, focus: &[String]) -> Vec<SlotOfFlows> {
        let rails = self.rails.clone();
        let slots = rails.iter().map(|rail| self.open_rail(rail, times, focus));
        slots.collect::<Vec<_>>().concat()
    }

    fn open_rail(&mut self, rail: &str, times: u32, focus: &[String]) -> Vec<SlotOfFlows> {
        let mut slots = Vec::new();
        if self.is_sprayed(rail) {
            let is_wanted = |leaf: &str| focus.is_empty() || focus.iter().any(|name| name == leaf);
            slots = self.leaf_slots(rail, times, |leaf, _| is_wanted(leaf));
        }
        let candidates = self.candidates(rail, |_, _, _| true);
        let is_wanted = |link: LinkId| {
            let link = self.graph.link(link);
            let names = [&link.cable, &link.from.node, &link.to.node];
            focus.is_empty() || names.iter().any(|name| focus.contains(name))
        };
        let mut need = vec![0; self.graph.link_count()];
        for link in candidates.iter().flat_map(|candidate| &candidate.sure) {
            if need[link.index()] == 0 && is_wanted(*link) {
                need[link.index()] = times;
            }
        }
        // Not every host may have taken part in the slots of its leaf.
        for flow in slots.iter().flatten() {
            let own = [self.graph.up(flow.from, rail), self.graph.down(flow.to, rail)];
            for link in own.into_iter().flatten() {
                need[link.index()] = need[link.index()].saturating_sub(1);
            }
        }
        // What is left of the doubt that a link was missed, as a logarithm.
        let mut doubt = vec![0.0; self.graph.link_count()];
        let missed = match self.table.is_told_afterwards() {
            true => MISSED_AT_FIRST,
            false => MISSED,
        };
        for (link, _) in candidates.iter().flat_map(|candidate| &candidate.perhaps) {
            // What flows of known path cross is not left to chance.
            if need[link.index()] == 0 && is_wanted(*link) && slots.is_empty() {
                doubt[link.index()] = -missed.ln();
            }
        }
        let mut packed = self.fewest_packed(rail, &candidates, need, doubt);
        if focus.is_empty() && slots.is_empty() {
            packed.resize(packed.len().max(FEWEST_SLOTS), Vec::new());
            self.fill_up(rail, &candidates, &mut packed);
            packed.retain(|slot| !slot.is_empty());
        }
        slots.extend(packed);
        slots
    }

    /// The shortest of several packings, each drawn by lot: slots are what a run takes its time for. Of equals the one that fills most links. As
    /// many as can be looked at without being noticed.
    fn fewest_packed(
        &mut self,
        rail: &str,
        candidates: &[Candidate],
        need: Vec<u32>,
        doubt: Vec<f64>,
    ) -> Vec<SlotOfFlows> {
        let tries = (LOOKED_AT / candidates.len().max(1)).clamp(1, MOST_PACKINGS);
        let mut fewest: Option<((usize, usize), Adaptive<'g>, Vec<SlotOfFlows>)> = None;
        for number in 0..tries {
            let mut packing = self.clone();
            packing.random.set_stream(number as u64);
            let slots = packing.packed(rail, candidates, need.clone(), doubt.clone());
            let unfilled = self.unfilled(&slots).len();
            let length = (slots.len().max(FEWEST_SLOTS), unfilled);
            if fewest.as_ref().is_none_or(|(shortest, ..)| length < *shortest) {
                fewest = Some((length, packing, slots));
            }
            if length == (FEWEST_SLOTS, 0) {
                break;
            }
        }
        let Some((_, packing, slots)) = fewest else {
            return Vec::new();
        };
        *self = packing;
        slots
    }

    /// Links that flows cross, and never with all they carry.
    fn unfilled(&self, slots: &[SlotOfFlows]) -> BTreeSet<LinkId> {
        let mut unfilled: BTreeSet<LinkId> = slots
            .iter()
            .flatten()
            .flat_map(|flow| &flow.path)
            .copied()
            .collect();
        for slot in slots {
            let capacity = SlotCapacity::with(self.graph, self.table, slot);
            unfilled.retain(|link| !capacity.is_filled(*link));
        }
        unfilled
    }

    /// Adds flows of known path to slots that have room for them, to links that were never filled, over links that few have crossed and between
    /// ranks that have not met. Most take no time: others are measured in that slot anyway.
    fn fill_up(&mut self, rail: &str, candidates: &[Candidate], slots: &mut [SlotOfFlows]) {
        let mut crossed = vec![0_u32; self.graph.link_count()];
        let links = slots.iter().flatten().flat_map(|flow| &flow.path);
        links.for_each(|link| crossed[link.index()] += 1);
        let mut unfilled = self.unfilled(slots);
        let mut of_senders: Vec<&[Candidate]> =
            candidates.chunk_by(|a, b| a.flow.from == b.flow.from).collect();
        let used = self.used.entry(rail.to_string()).or_default();
        for slot in slots {
            let mut capacity = SlotCapacity::with(self.graph, self.table, slot);
            // Who has sent least, against what it received, sends first: the others are left to receive.
            of_senders.sort_by_key(|of_sender| {
                let from = of_sender[0].flow.from;
                let times = |link: Option<LinkId>| link.map_or(0, |link| crossed[link.index()] as i64);
                times(self.graph.up(from, rail)) - times(self.graph.down(from, rail))
            });
            for of_sender in &of_senders {
                let fits = |candidate: &&Candidate| {
                    let flow = &candidate.flow;
                    let is_free = !capacity.is_busy(flow.from) && !capacity.is_busy(flow.to);
                    is_free && !flow.path.is_empty() && capacity.fits(flow)
                };
                let cost = |candidate: &&Candidate| {
                    let Flow { from, to, path, .. } = &candidate.flow;
                    let times = || path.iter().map(|link| crossed[link.index()]);
                    let may_fill =
                        |link: &&LinkId| unfilled.contains(*link) && capacity.is_partly_used(**link);
                    let fills = path.iter().filter(may_fill).count();
                    (
                        Reverse(fills),
                        used.contains(&(*from, *to)),
                        times().min(),
                        times().sum::<u32>(),
                    )
                };
                if let Some(Candidate { flow, .. }) = of_sender.iter().filter(fits).min_by_key(cost) {
                    capacity.add(flow);
                    used.insert((flow.from, flow.to));
                    flow.path.iter().for_each(|link| crossed[link.index()] += 1);
                    slot.push(flow.clone());
                    self.flows += 1;
                }
            }
            unfilled.retain(|link| !capacity.is_filled(*link));
        }
    }

    /// Slots of flows that cross every link in need as often as that, and links in doubt until it is improbable that all missed them.
    fn packed(
        &mut self,
        rail: &str,
        candidates: &[Candidate],
        mut need: Vec<u32>,
        mut doubt: Vec<f64>,
    ) -> Vec<SlotOfFlows> {
        let mut slots = Vec::new();
        let mut draws = 0;
        // Every slot gains something, so this ends.
        loop {
            let is_needed = need.iter().any(|need| *need > 0);
            draws += usize::from(!is_needed);
            if !is_needed && (draws > MOST_DRAWS || doubt.iter().all(|doubt| *doubt <= 0.0)) {
                break;
            }
            let slot = self.pack(rail, candidates, &mut need, &mut doubt);
            if slot.is_empty() {
                break;
            }
            slots.push(slot);
        }
        slots
    }

    /// Fills one slot with flows that cross links in need, or may cross links in doubt.
    fn pack(
        &mut self,
        rail: &str,
        candidates: &[Candidate],
        need: &mut [u32],
        doubt: &mut [f64],
    ) -> SlotOfFlows {
        let mut capacity = SlotCapacity::new(self.graph, self.table);
        let mut slot = Vec::new();
        let mut of_senders: Vec<&[Candidate]> =
            candidates.chunk_by(|a, b| a.flow.from == b.flow.from).collect();
        of_senders.shuffle(&mut self.random);
        let need_of_own = |of_sender: &&[Candidate]| {
            let up = self.graph.up(of_sender[0].flow.from, rail);
            Reverse(up.map_or(0, |link| need[link.index()]))
        };
        of_senders.sort_by_key(need_of_own);
        let used = self.used.entry(rail.to_string()).or_default();
        let mut crossed: BTreeSet<LinkId> = BTreeSet::new();
        for of_sender in of_senders {
            let mut best: Option<(u32, &Candidate)> = None;
            for candidate in of_sender {
                let Flow { from, to, .. } = &candidate.flow;
                if capacity.is_busy(*from) || capacity.is_busy(*to) {
                    continue;
                }
                let of_sure: u32 = candidate.sure.iter().map(|link| need[link.index()]).sum();
                let in_doubt = |(link, _): &&(LinkId, f64)| doubt[link.index()] > 0.0;
                let gain = of_sure + candidate.perhaps.iter().filter(in_doubt).count() as u32;
                if gain == 0 || !capacity.fits(&candidate.flow) {
                    continue;
                }
                let is_new = !used.contains(&(*from, *to));
                let is_known = candidate.perhaps.is_empty();
                // A link that carries more than one host sends is tested only when several send over it at once.
                let fills = candidate
                    .sure
                    .iter()
                    .any(|link| need[link.index()] > 0 && capacity.is_partly_used(*link));
                let chance = u32::from(self.random.random::<u8>());
                let score = gain * 1024
                    + u32::from(fills) * 2048
                    + u32::from(is_known) * 1024
                    + u32::from(is_new) * 512
                    + chance;
                if best.is_none_or(|(most, _)| score > most) {
                    best = Some((score, candidate));
                }
            }
            let Some((_, candidate)) = best else {
                continue;
            };
            let flow = &candidate.flow;
            capacity.add(flow);
            used.insert((flow.from, flow.to));
            crossed.extend(&candidate.sure);
            for (link, probability) in &candidate.perhaps {
                doubt[link.index()] += (1.0 - probability).ln();
            }
            slot.push(flow.clone());
        }
        let slot = slot.into_iter().map(|flow| self.with_port(flow)).collect();
        for link in crossed {
            need[link.index()] = need[link.index()].saturating_sub(1);
        }
        slot
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
        let flows = flows.into_iter().map(|flow| self.with_port(anew(flow))).collect();
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
        let concerns_ranks =
            |ambiguity: &Ambiguity| !ambiguity.senders.is_empty() || !ambiguity.receivers.is_empty();
        for rail in self.rails.clone() {
            if ambiguities
                .iter()
                .any(|ambiguity| ambiguity.rail == rail || concerns_ranks(ambiguity))
            {
                let candidates = self.candidates(&rail, |from, to, links| {
                    ambiguities
                        .iter()
                        .any(|ambiguity| ambiguity.crossed(from, to, links) > 0)
                });
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
        let mut chosen: Vec<Flow> = Vec::new();
        for ambiguity in ambiguities {
            for flow in self.flows_for(ambiguity, ambiguities, &of_rail, &is_good) {
                let is_draw = flow.path.is_empty() && flow.port.is_none();
                if is_draw || !chosen.contains(&flow) {
                    let used = self.used.entry(flow.rail.clone()).or_default();
                    used.insert((flow.from, flow.to));
                    chosen.push(self.with_port(flow));
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
        let mut options: Vec<(usize, u64, &Candidate)> = Vec::new();
        for candidate in self.rails.iter().filter_map(|rail| of_rail.get(rail)).flatten() {
            let flow = &candidate.flow;
            let crossed = ambiguity.crossed(flow.from, flow.to, &candidate.reach);
            if crossed == 0 {
                continue;
            }
            let of_others = ambiguities.iter().filter(|other| *other != ambiguity);
            let foreign: usize = of_others
                .map(|other| other.crossed(flow.from, flow.to, &candidate.reach))
                .sum();
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

    /// Flows in as few slots as they fit into, in order.
    pub fn in_slots(&self, flows: Vec<Flow>) -> Vec<SlotOfFlows> {
        let mut slots: Vec<(SlotCapacity<'_>, SlotOfFlows)> = Vec::new();
        for flow in flows {
            let fits = slots
                .iter()
                .position(|(capacity, slot)| slot[0].rail == flow.rail && capacity.fits(&flow));
            match fits {
                Some(slot) => {
                    slots[slot].0.add(&flow);
                    slots[slot].1.push(flow);
                }
                None => {
                    let mut capacity = SlotCapacity::new(self.graph, self.table);
                    capacity.add(&flow);
                    slots.push((capacity, vec![flow]));
                }
            }
        }
        slots.into_iter().map(|(_, slot)| slot).collect()
    }
}

#[cfg(test)]
mod tests;
