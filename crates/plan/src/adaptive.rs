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

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::flow::{Flow, PathTable, SlotCapacity};
use topology::graph::{Graph, LinkId, Path};

/// In a world of more ranks than this not every pair is thought of.
const ALL_PAIRS: usize = 32;
/// How many partners a rank has then.
const PARTNERS: usize = 16;
/// A link counts as crossed when flows of unknown path have missed it with at most this probability.
const MISSED: f64 = 0.01;
/// The same where it is known afterwards which links they crossed: the others are asked for again.
const MISSED_AT_FIRST: f64 = 0.25;
/// The most slots of a rail's opening that only make it less probable that a link was missed.
const MOST_DRAWS: usize = 40;
/// The most flows sent for one ambiguity in one step.
const FLOWS_PER_AMBIGUITY: usize = 8;
/// Flows of unknown path are sent until all of them have missed a suspect with this probability.
const UNSEEN: f64 = 0.03;
/// The most of them for the links of one leaf in one direction in one step.
const MOST_FLOWS_OF_A_GROUP: usize = 28;
/// So many leaves and directions are asked about in one step.
const MOST_GROUPS: usize = 4;

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
}

impl Ambiguity {
    fn parts(&self) -> usize {
        self.links.len() + self.senders.len() + self.receivers.len()
    }

    /// How many of its parts a flow crosses.
    fn crossed(&self, from: u32, to: u32, path: &[LinkId]) -> usize {
        let links = self.links.iter().filter(|link| path.contains(link)).count();
        links + usize::from(self.senders.contains(&from)) + usize::from(self.receivers.contains(&to))
    }
}

/// A flow that could be sent.
#[derive(Debug, Clone)]
struct Candidate {
    flow: Flow,
    /// The links it crosses on every possible path.
    sure: Path,
    /// Further links it may cross, each with its probability, when its path is not known.
    perhaps: Vec<(LinkId, f64)>,
    /// All of them.
    reach: Path,
}

/// Makes the slots of an adaptive test.
pub struct Adaptive<'g> {
    graph: &'g Graph,
    table: &'g PathTable,
    ranks: Vec<u32>,
    rails: Vec<String>,
    seed: u64,
    /// Pairs that were measured, per rail.
    used: HashMap<String, HashSet<(u32, u32)>>,
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
            flows: 0,
            random: ChaCha8Rng::seed_from_u64(seed),
        }
    }

    /// Takes note of a pair that was measured: others are preferred from here on.
    pub fn remember(&mut self, from: u32, to: u32, rail: &str) {
        self.flows += 1;
        self.used.entry(rail.to_string()).or_default().insert((from, to));
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
        slots.extend(self.packed(rail, &candidates, need, doubt));
        slots
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
    fn is_sprayed(&self, rail: &str) -> bool {
        let is_sprayed = |rank: &u32| self.table.is_sprayed(self.graph, *rank, rail);
        self.ranks.iter().any(is_sprayed)
    }

    /// Where packets are sprayed, only all hosts of a leaf together fill its cables: slots in which they all send to hosts of other
    /// leaves, as far as the cables carry that, or all receive from them. `is_wanted` chooses leaves and directions (whether they send).
    fn leaf_slots(
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
                    let ends = |other: u32| if sends { (member, other) } else { (other, member) };
                    let partner = others.iter().position(|other| {
                        let (from, to) = ends(*other);
                        capacity.fits(from, to, rail, &[])
                    });
                    let Some(partner) = partner.map(|partner| others.remove(partner)) else {
                        continue;
                    };
                    let (from, to) = ends(partner);
                    capacity.add(from, to, rail, &[]);
                    self.used.entry(rail.to_string()).or_default().insert((from, to));
                    slot.push(self.with_port(Flow {
                        from,
                        to,
                        rail: rail.to_string(),
                        port: None,
                        path: Path::new(),
                    }));
                }
                slots.extend((!slot.is_empty()).then_some(slot));
            }
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
            std::cmp::Reverse(up.map_or(0, |link| need[link.index()]))
        };
        of_senders.sort_by_key(need_of_own);
        let used = self.used.entry(rail.to_string()).or_default();
        let mut crossed: BTreeSet<LinkId> = BTreeSet::new();
        for of_sender in of_senders {
            let mut best: Option<(u32, &Candidate)> = None;
            for candidate in of_sender {
                let Flow { from, to, path, .. } = &candidate.flow;
                if capacity.is_busy(*from) || capacity.is_busy(*to) {
                    continue;
                }
                let of_sure: u32 = candidate.sure.iter().map(|link| need[link.index()]).sum();
                let in_doubt = |(link, _): &&(LinkId, f64)| doubt[link.index()] > 0.0;
                let gain = of_sure + candidate.perhaps.iter().filter(in_doubt).count() as u32;
                if gain == 0 || !capacity.fits(*from, *to, rail, path) {
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
            capacity.add(flow.from, flow.to, rail, &flow.path);
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
        match flow.path.is_empty() {
            true => Flow {
                port: self.table.fresh_port(self.flows),
                ..flow
            },
            false => flow,
        }
    }

    /// Flows that were measured, to be measured again: over the same path where it is known, else in a new connection.
    pub fn again(&mut self, flows: Vec<Flow>) -> Vec<SlotOfFlows> {
        let flows = flows.into_iter().map(|flow| self.with_port(flow)).collect();
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
                if flow.path.is_empty() || !chosen.contains(&flow) {
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

    /// Where only flows of unknown path cross suspects between switches: for each leaf and direction as many flows as make it improbable
    /// that all of them miss a suspect, those that cross no other suspected leaf where there are any. Suspects at hosts get a flow each.
    fn draws_for(&self, ambiguity: &Ambiguity, options: &[(usize, u64, &Candidate)]) -> Vec<Flow> {
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
        let is_in = |link: LinkId, group: &(&str, bool)| group_of(link) == Some(*group);
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

    /// Flows in as few slots as they fit into, in order.
    pub fn in_slots(&self, flows: Vec<Flow>) -> Vec<SlotOfFlows> {
        let mut slots: Vec<(SlotCapacity<'_>, SlotOfFlows)> = Vec::new();
        for flow in flows {
            let fits = slots.iter().position(|(capacity, slot)| {
                slot[0].rail == flow.rail && capacity.fits(flow.from, flow.to, &flow.rail, &flow.path)
            });
            match fits {
                Some(slot) => {
                    slots[slot].0.add(flow.from, flow.to, &flow.rail, &flow.path);
                    slots[slot].1.push(flow);
                }
                None => {
                    let mut capacity = SlotCapacity::new(self.graph, self.table);
                    capacity.add(flow.from, flow.to, &flow.rail, &flow.path);
                    slots.push((capacity, vec![flow]));
                }
            }
        }
        slots.into_iter().map(|(_, slot)| slot).collect()
    }

    /// Every flow that is thought of on a rail and that `is_wanted` (sender, receiver, links), those of one sender side by side.
    fn candidates(&self, rail: &str, is_wanted: impl Fn(u32, u32, &[LinkId]) -> bool) -> Vec<Candidate> {
        let partners = partners(self.graph, &self.ranks, rail, self.seed);
        let mut candidates = Vec::new();
        for from in &self.ranks {
            for to in partners.get(from).into_iter().flatten() {
                for (port, path) in self.table.paths(self.graph, *from, *to, rail) {
                    let (sure, perhaps): (Path, Vec<(LinkId, f64)>) = match path.is_empty() {
                        false => (path.clone(), Vec::new()),
                        true => {
                            let crossed = self.graph.crossing_probabilities(*from, *to, rail);
                            let is_sure = |(_, probability): &(LinkId, f64)| *probability > 0.999_999;
                            let (sure, perhaps): (Vec<_>, Vec<_>) = crossed.into_iter().partition(is_sure);
                            (sure.into_iter().map(|(link, _)| link).collect(), perhaps)
                        }
                    };
                    let reach: Path = sure
                        .iter()
                        .copied()
                        .chain(perhaps.iter().map(|(link, _)| *link))
                        .collect();
                    if !is_wanted(*from, *to, &reach) {
                        continue;
                    }
                    let (from, to, rail) = (*from, *to, rail.to_string());
                    let flow = Flow {
                        from,
                        to,
                        rail,
                        port,
                        path,
                    };
                    candidates.push(Candidate {
                        flow,
                        sure,
                        perhaps,
                        reach,
                    });
                }
            }
        }
        candidates
    }
}

/// One part of a ambiguity.
enum Suspect {
    Link(LinkId),
    Sender(u32),
    Receiver(u32),
}

impl Suspect {
    fn all(ambiguity: &Ambiguity) -> Vec<Suspect> {
        let links = ambiguity.links.iter().map(|link| Suspect::Link(*link));
        let senders = ambiguity.senders.iter().map(|rank| Suspect::Sender(*rank));
        let receivers = ambiguity.receivers.iter().map(|rank| Suspect::Receiver(*rank));
        links.chain(senders).chain(receivers).collect()
    }

    fn is_crossed(&self, candidate: &Candidate) -> bool {
        match self {
            Suspect::Link(link) => candidate.reach.contains(link),
            Suspect::Sender(rank) => candidate.flow.from == *rank,
            Suspect::Receiver(rank) => candidate.flow.to == *rank,
        }
    }
}

/// The first so many flows, as far as possible no two between the same ranks.
fn different_partners(flows: impl Iterator<Item = Flow>, wanted: usize) -> Vec<Flow> {
    let mut chosen: Vec<Flow> = Vec::new();
    let mut spare: Vec<Flow> = Vec::new();
    for flow in flows {
        if chosen.len() == wanted {
            break;
        }
        let is_met = chosen
            .iter()
            .any(|other| other.from == flow.from && other.to == flow.to);
        match is_met {
            true => spare.push(flow),
            false => chosen.push(flow),
        }
    }
    let missing = wanted - chosen.len();
    chosen.extend(spare.into_iter().take(missing));
    chosen
}

/// The partners of each rank on a rail: all others in a small world, else some of its own leaf and some beyond.
pub fn partners(graph: &Graph, ranks: &[u32], rail: &str, seed: u64) -> HashMap<u32, Vec<u32>> {
    let mut random = ChaCha8Rng::seed_from_u64(seed ^ 0x9e37_79b9);
    let mut of_rank = HashMap::new();
    for rank in ranks {
        let others = || ranks.iter().copied().filter(|other| other != rank);
        let chosen: Vec<u32> = if ranks.len() <= ALL_PAIRS {
            others().collect()
        } else {
            let leaf = graph.leaf_of(*rank, rail);
            let (mut near, mut far): (Vec<u32>, Vec<u32>) =
                others().partition(|other| graph.leaf_of(*other, rail) == leaf);
            near.shuffle(&mut random);
            far.shuffle(&mut random);
            let of_leaf = near.len().min(PARTNERS / 6);
            near.truncate(of_leaf);
            far.truncate(PARTNERS - of_leaf);
            near.into_iter().chain(far).collect()
        };
        of_rank.insert(*rank, chosen);
    }
    of_rank
}

#[cfg(test)]
mod tests;
