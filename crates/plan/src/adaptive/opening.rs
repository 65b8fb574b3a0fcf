//! The opening: every link as often as asked, in the fewest slots, whose free places are filled.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use rand::RngExt;
use rand::seq::SliceRandom;

use super::candidates::Candidate;
use super::{Adaptive, SlotOfFlows};
use crate::flow::{Flow, SlotCapacity};
use topology::graph::LinkId;

/// A link counts as crossed when flows of unknown path have missed it with at most this probability.
const MISSED: f64 = 0.01;
/// The same where it is known afterwards which links they crossed: the others are asked for again.
pub(super) const MISSED_AT_FIRST: f64 = 0.25;
/// The most slots of a rail's opening that only make it less probable that a link was missed.
const MOST_DRAWS: usize = 40;
/// Packings of an opening that are tried, and candidates that are looked at in all of them.
const MOST_PACKINGS: usize = 32;
const LOOKED_AT: usize = 200_000;
/// The fewest slots of a rail's opening: fewer would cross the hosts' cables twice only, and miss what comes and goes.
const FEWEST_SLOTS: usize = 5;
/// The most slots of a rail's opening that fill links which one host cannot fill.
const MOST_FILLING: usize = 16;

impl<'g> Adaptive<'g> {
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
        let is_all = focus.is_empty() && slots.is_empty();
        let mut packed = self.fewest_packed(rail, &candidates, is_all, need, doubt);
        if is_all {
            packed.resize(packed.len().max(FEWEST_SLOTS), Vec::new());
            self.fill_up(rail, &candidates, &mut packed);
            packed.retain(|slot| !slot.is_empty());
        }
        slots.extend(packed);
        slots
    }

    /// The shortest of several packings, each drawn by lot, which begin with slots that fill links when `fills`: slots are what a run takes its time for. As many as can be looked at without being
    /// noticed.
    fn fewest_packed(
        &mut self,
        rail: &str,
        candidates: &[Candidate],
        fills: bool,
        need: Vec<u32>,
        doubt: Vec<f64>,
    ) -> Vec<SlotOfFlows> {
        let tries = (LOOKED_AT / candidates.len().max(1)).clamp(1, MOST_PACKINGS);
        let mut fewest: Option<(usize, Adaptive<'g>, Vec<SlotOfFlows>)> = None;
        for number in 0..tries {
            let mut packing = self.clone();
            packing.random.set_stream(number as u64);
            let (mut slots, mut need) = (Vec::new(), need.clone());
            if fills {
                slots = packing.filling(rail, candidates);
            }
            for slot in &slots {
                let crossed: BTreeSet<LinkId> =
                    slot.iter().flat_map(|flow| flow.path.iter().copied()).collect();
                for link in crossed {
                    need[link.index()] = need[link.index()].saturating_sub(1);
                }
            }
            slots.extend(packing.packed(rail, candidates, need, doubt.clone()));
            let length = slots.len().max(FEWEST_SLOTS);
            if fewest.as_ref().is_none_or(|(shortest, ..)| length < *shortest) {
                fewest = Some((length, packing, slots));
            }
            if length == FEWEST_SLOTS {
                break;
            }
        }
        let Some((_, packing, slots)) = fewest else {
            return Vec::new();
        };
        *self = packing;
        slots
    }

    /// Slots that ask every link between switches for all it carries, where that takes several hosts at once: what one of them sends shows nothing
    /// of a cable that has lost half of what it carries for two.
    fn filling(&mut self, rail: &str, candidates: &[Candidate]) -> Vec<SlotOfFlows> {
        let mut over: BTreeMap<LinkId, Vec<&Flow>> = BTreeMap::new();
        for flow in candidates.iter().map(|candidate| &candidate.flow) {
            let alone = SlotCapacity::with(self.graph, self.table, std::slice::from_ref(flow));
            let is_wider = |link: &&LinkId| !self.graph.link(**link).is_host && !alone.is_filled(**link);
            for link in flow.path.iter().filter(is_wider) {
                over.entry(*link).or_default().push(flow);
            }
        }
        let mut unfilled: Vec<LinkId> = over.keys().copied().collect();
        unfilled.shuffle(&mut self.random);
        let mut slots = Vec::new();
        while slots.len() < MOST_FILLING {
            let mut capacity = SlotCapacity::new(self.graph, self.table);
            let mut slot: SlotOfFlows = Vec::new();
            for link in &unfilled {
                let (mut filling, mut added) = (capacity.clone(), Vec::new());
                while !filling.is_filled(*link) {
                    // Best one that helps to fill others, too: they go to the same leaf.
                    let helps = |flow: &&&Flow| {
                        let wider = flow.path.iter().filter(|other| over.contains_key(other));
                        wider.filter(|other| filling.is_partly_used(**other)).count()
                    };
                    let fitting = over[link].iter().filter(|flow| filling.fits(flow));
                    let Some(flow) = fitting.min_by_key(|flow| Reverse(helps(flow))) else {
                        break;
                    };
                    filling.add(flow);
                    added.push(*flow);
                }
                if filling.is_filled(*link) {
                    slot.extend(added.into_iter().cloned());
                    capacity = filling;
                }
            }
            if slot.is_empty() {
                break;
            }
            unfilled.retain(|link| !capacity.is_filled(*link));
            slots.push(slot);
        }
        let used = self.used.entry(rail.to_string()).or_default();
        used.extend(slots.iter().flatten().map(|flow| (flow.from, flow.to)));
        self.flows += slots.iter().map(Vec::len).sum::<usize>();
        slots
    }

    /// Adds flows of known path to slots that have room for them, over links that few have crossed and between ranks that have not met. Most take no time: others are measured in that slot anyway.
    fn fill_up(&mut self, rail: &str, candidates: &[Candidate], slots: &mut [SlotOfFlows]) {
        let mut crossed = vec![0_u32; self.graph.link_count()];
        let links = slots.iter().flatten().flat_map(|flow| &flow.path);
        links.for_each(|link| crossed[link.index()] += 1);
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
                    (used.contains(&(*from, *to)), times().min(), times().sum::<u32>())
                };
                if let Some(Candidate { flow, .. }) = of_sender.iter().filter(fits).min_by_key(cost) {
                    capacity.add(flow);
                    used.insert((flow.from, flow.to));
                    flow.path.iter().for_each(|link| crossed[link.index()] += 1);
                    slot.push(flow.clone());
                    self.flows += 1;
                }
            }
        }
    }

    /// Slots of flows that cross every link in need as often as that, and links in doubt until it is improbable that all missed them.
    pub(super) fn packed(
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
}
