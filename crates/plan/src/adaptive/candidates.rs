//! Every flow that could be sent, and what it would cross.

use std::collections::HashMap;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::{Adaptive, Ambiguity};
use crate::flow::{Flow, PortPath};
use topology::graph::{Graph, LinkId, Path};

/// In a world of more ranks than this not every pair is thought of.
const ALL_PAIRS: usize = 32;
/// How many partners a rank has then.
const PARTNERS: usize = 16;

/// A flow that could be sent.
#[derive(Debug, Clone)]
pub(super) struct Candidate {
    pub(super) flow: Flow,
    /// The links it crosses on every possible path.
    pub(super) sure: Path,
    /// Further links it may cross, each with its probability, when its path is not known.
    pub(super) perhaps: Vec<(LinkId, f64)>,
    /// All of them.
    pub(super) reach: Path,
}

impl Adaptive<'_> {
    /// Every flow that is thought of on a rail and that `is_wanted` (sender, receiver, links), those of one sender side by side.
    pub(super) fn candidates(
        &self,
        rail: &str,
        is_wanted: impl Fn(u32, u32, &[LinkId]) -> bool,
    ) -> Vec<Candidate> {
        let partners = partners(self.graph, &self.ranks, rail, self.seed);
        let mut candidates = Vec::new();
        for from in &self.ranks {
            for to in partners.get(from).into_iter().flatten() {
                for flow in self.ways(*from, *to, rail) {
                    let crossed = self.table.crossing_probabilities(self.graph, &flow);
                    let is_sure = |(_, probability): &(LinkId, f64)| *probability > 0.999_999;
                    let (sure, perhaps): (Vec<_>, Vec<_>) = crossed.into_iter().partition(is_sure);
                    let sure: Path = sure.into_iter().map(|(link, _)| link).collect();
                    let reach: Path = sure
                        .iter()
                        .copied()
                        .chain(perhaps.iter().map(|(link, _)| *link))
                        .collect();
                    if !is_wanted(*from, *to, &reach) {
                        continue;
                    }
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

    /// The flows from one rank to another that differ. Where only some switches are known of the flow from a port, it is worth one
    /// measurement: it takes the same path every time.
    fn ways(&self, from: u32, to: u32, rail: &str) -> Vec<Flow> {
        let flow = |(port, path): PortPath| Flow {
            from,
            to,
            rail: rail.to_string(),
            port,
            path,
        };
        let known = self.table.paths(self.graph, from, to, rail).into_iter();
        let mut ways: Vec<Flow> = known.map(flow).collect();
        let used = self.used_ports.get(&(from, to, rail.to_string()));
        let is_new = |port: &u16| used.is_none_or(|used| !used.contains(port));
        let half_known = self.table.half_known(from, to, rail).iter();
        let half_known = half_known
            .filter(|(port, _)| is_new(port))
            .map(|(port, _)| flow((Some(*port), Path::new())))
            .filter(|flow| !self.table.crossing_probabilities(self.graph, flow).is_empty());
        let half_known: Vec<Flow> = half_known.collect();
        if !half_known.is_empty() {
            ways.retain(|flow| !flow.path.is_empty());
            ways.extend(half_known);
        }
        ways
    }
}

/// One part of an ambiguity.
pub(super) enum Suspect {
    Link(LinkId),
    Sender(u32),
    Receiver(u32),
}

impl Suspect {
    pub(super) fn all(ambiguity: &Ambiguity) -> Vec<Suspect> {
        let links = ambiguity.links.iter().map(|link| Suspect::Link(*link));
        let senders = ambiguity.senders.iter().map(|rank| Suspect::Sender(*rank));
        let receivers = ambiguity.receivers.iter().map(|rank| Suspect::Receiver(*rank));
        links.chain(senders).chain(receivers).collect()
    }

    pub(super) fn is_crossed(&self, candidate: &Candidate) -> bool {
        match self {
            Suspect::Link(link) => candidate.reach.contains(link),
            Suspect::Sender(rank) => candidate.flow.from == *rank,
            Suspect::Receiver(rank) => candidate.flow.to == *rank,
        }
    }
}

/// The first so many flows, as far as possible no two between the same ranks.
pub(super) fn different_partners(flows: impl Iterator<Item = Flow>, wanted: usize) -> Vec<Flow> {
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
