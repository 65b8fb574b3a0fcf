//! Flows whose paths are not known when they are sent: single connections as draws, and all hosts of a leaf at once where packets are
//! sprayed.

use std::collections::{BTreeMap, HashSet};

use rand::seq::SliceRandom;

use super::candidates::{Candidate, Suspect};
use super::opening::MISSED_AT_FIRST;
use super::{Adaptive, Ambiguity, FLOWS_PER_AMBIGUITY, SlotOfFlows};
use crate::flow::{Flow, SlotCapacity};
use topology::graph::{LinkId, Path};

/// Flows of unknown path are sent until all of them have missed a suspect with this probability.
pub(super) const UNSEEN: f64 = 0.03;
/// The most of them for the links of one leaf in one direction in one step.
const MOST_FLOWS_OF_A_GROUP: usize = 28;
/// So many leaves and directions are asked about in one step.
const MOST_GROUPS: usize = 4;

impl Adaptive<'_> {
    /// Where paths are known only once flows were measured: slots of flows that may cross links that none has crossed so far.
    pub fn over_untested(&mut self, untested: &[LinkId]) -> Vec<SlotOfFlows> {
        let mut slots = Vec::new();
        if !self.table.is_told_afterwards() || untested.is_empty() {
            return slots;
        }
        let reaches = |links: &[LinkId]| links.iter().any(|link| untested.contains(link));
        let mut rails = self.rails.clone();
        rails.retain(|rail| !self.is_sprayed(rail));
        for rail in &rails {
            let candidates = self.candidates(rail, |_, _, links| reaches(links));
            let mut doubt = vec![0.0; self.graph.link_count()];
            for link in untested {
                doubt[link.index()] = -MISSED_AT_FIRST.ln();
            }
            let possible = candidates.iter().flat_map(|candidate| &candidate.perhaps);
            let possible: HashSet<LinkId> = possible.map(|(link, _)| *link).collect();
            for (id, _) in self.graph.links().filter(|(id, _)| !possible.contains(id)) {
                doubt[id.index()] = 0.0;
            }
            let need = vec![0; self.graph.link_count()];
            slots.extend(self.packed(rail, &candidates, need, doubt));
        }
        slots
    }

    /// Whether packets are sprayed on a rail.
    pub(super) fn is_sprayed(&self, rail: &str) -> bool {
        let is_sprayed = |rank: &u32| self.table.is_sprayed(self.graph, *rank, rail);
        self.ranks.iter().any(is_sprayed)
    }

    /// Where packets are sprayed, only all hosts of a leaf together fill its cables: slots in which they all send to hosts of other
    /// leaves, as far as the cables carry that, or all receive from them. `is_wanted` chooses leaves and directions (whether they send).
    pub(super) fn leaf_slots(
        &mut self,
        rail: &str,
        times: u32,
        is_wanted: impl Fn(&str, bool) -> bool,
    ) -> Vec<SlotOfFlows> {
        let graph = self.graph;
        let mut of_leaf: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
        for rank in &self.ranks {
            if let Some(leaf) = graph.leaf_of(*rank, rail) {
                of_leaf.entry(leaf).or_default().push(*rank);
            }
        }
        let mut slots = Vec::new();
        for _ in 0..times {
            for (leaf, sends) in of_leaf.keys().flat_map(|leaf| [(*leaf, true), (*leaf, false)]) {
                if !is_wanted(leaf, sends) {
                    continue;
                }
                let mut members = of_leaf[leaf].clone();
                let others = of_leaf.iter().filter(|(other, _)| **other != leaf);
                let mut others: Vec<u32> = others.flat_map(|(_, ranks)| ranks.iter().copied()).collect();
                members.shuffle(&mut self.random);
                others.shuffle(&mut self.random);
                let mut capacity = SlotCapacity::new(graph, self.table);
                let mut slot = Vec::new();
                for member in members {
                    let with = |other: u32| {
                        let (from, to) = if sends { (member, other) } else { (other, member) };
                        Flow {
                            from,
                            to,
                            rail: rail.to_string(),
                            port: None,
                            path: Path::new(),
                        }
                    };
                    let partner = others.iter().position(|other| capacity.fits(&with(*other)));
                    let Some(partner) = partner.map(|partner| others.remove(partner)) else {
                        continue;
                    };
                    let flow = with(partner);
                    capacity.add(&flow);
                    let used = self.used.entry(rail.to_string()).or_default();
                    used.insert((flow.from, flow.to));
                    slot.push(self.with_port(flow));
                }
                slots.extend((!slot.is_empty()).then_some(slot));
            }
        }
        slots
    }

    /// Where only flows of unknown path cross suspects between switches: for each leaf and direction as many flows as make it improbable
    /// that all of them miss a suspect, those that cross no other suspected leaf where there are any. Suspects at hosts get a flow each.
    pub(super) fn draws_for(&self, ambiguity: &Ambiguity, options: &[(usize, u64, &Candidate)]) -> Vec<Flow> {
        let group_of = |link: LinkId| {
            let link = self.graph.link(link);
            (!link.is_host).then(|| (link.lower_node(), link.is_upward))
        };
        let mut groups: Vec<(&str, bool)> = Vec::new();
        for group in ambiguity.links.iter().filter_map(|link| group_of(*link)) {
            if !groups.contains(&group) {
                groups.push(group);
            }
        }
        // What is known of a flow may leave out the suspects.
        let is_in = |link: LinkId, group: &(&str, bool)| {
            group_of(link) == Some(*group) && ambiguity.links.contains(&link)
        };
        let suspected = |candidate: &Candidate| -> Vec<(&str, bool)> {
            let crossed = groups
                .iter()
                .filter(|group| candidate.reach.iter().any(|link| is_in(*link, group)));
            crossed.copied().collect()
        };
        let mut flows: Vec<Flow> = Vec::new();
        for group in groups.iter().take(MOST_GROUPS) {
            let across = options
                .iter()
                .filter(|(_, _, candidate)| suspected(candidate).contains(group));
            let mut across: Vec<(usize, &Candidate)> = across
                .map(|(_, _, candidate)| (suspected(candidate).len(), *candidate))
                .collect();
            // A link that some flow is known to cross needs no draws.
            if across.is_empty() || across.iter().any(|(_, candidate)| candidate.perhaps.is_empty()) {
                return Vec::new();
            }
            let fewest = across.iter().map(|(groups, _)| *groups).min().unwrap_or_default();
            across.retain(|(groups, _)| *groups == fewest);
            let least = |candidate: &Candidate| {
                let own = candidate.perhaps.iter().filter(|(link, _)| is_in(*link, group));
                own.map(|(_, probability)| *probability).fold(1.0, f64::min)
            };
            let rarest = across
                .iter()
                .map(|(_, candidate)| least(candidate))
                .fold(1.0, f64::min);
            // Where it is known afterwards what they crossed, some now and some in the next step tell more than all now.
            let (unseen, least) = match self.table.is_told_afterwards() {
                true => (MISSED_AT_FIRST, FLOWS_PER_AMBIGUITY / 2),
                false => (UNSEEN, FLOWS_PER_AMBIGUITY),
            };
            let draws = (unseen.ln() / (1.0 - rarest).ln()).ceil() as usize;
            let draws = draws.clamp(least, MOST_FLOWS_OF_A_GROUP);
            flows.extend(
                across
                    .iter()
                    .cycle()
                    .take(draws)
                    .map(|(_, candidate)| candidate.flow.clone()),
            );
        }
        if flows.is_empty() {
            return flows;
        }
        for part in Suspect::all(ambiguity) {
            let is_between_switches = matches!(part, Suspect::Link(link) if group_of(link).is_some());
            let own = options
                .iter()
                .find(|(_, _, candidate)| part.is_crossed(candidate));
            flows.extend(
                own.filter(|_| !is_between_switches)
                    .map(|(_, _, candidate)| candidate.flow.clone()),
            );
        }
        flows
    }
}
