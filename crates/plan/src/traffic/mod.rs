//! Worst traffic: patterns that the topology should carry and a hash may not, all flows of a pattern at the same time (docs/method.md, "Worst traffic").
//!
//! Every flow is sent from a source port whose path was traced, the same for all pairs: a pattern is about who sends to whom, not about choosing ports. Of two
//! patterns with the same pairs one is measured.

pub mod patterns;
pub mod search;

use std::hash::{DefaultHasher, Hash, Hasher};

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::PlanError;
use super::ecmp::{leaves, message};
use super::layout::{Slot, TestLayout};
use patterns::{Pattern, leaf_shifts, random, structured};
use record::{Cell, Collective, Load, PatternKind, StreamTerms, TrafficPattern, TransportKind};
use search::{Paths, climb};
use topology::graph::Graph;

/// First source port of flows over TCP: below the ephemeral ports.
pub const FIRST_PORT: u16 = 24_000;
/// First UDP source port of RoCE flows, which start at 49152.
pub const FIRST_ROCE_PORT: u16 = 50_000;
/// With more ranks, only pairs that leaf shifts bring together are traced, and exchanged by the search.
const ALL_PAIRS: usize = 32;
/// Of leaves with more hosts, so many meet those of another.
const MOST_OF_LEAF: usize = 64;

/// The first source port of flows whose paths are traced.
pub fn first_port(transport: TransportKind) -> u16 {
    match transport {
        TransportKind::Verbs => FIRST_ROCE_PORT,
        _ => FIRST_PORT,
    }
}

/// The pairs of ranks whose paths a search on a rail asks for: all, or those that leaf shifts bring together.
pub fn pairs_to_trace(graph: &Graph, ranks: &[u32], rail: &str) -> Vec<(u32, u32)> {
    let leaves = leaves(graph, ranks, rail);
    let hosts = leaves.concat();
    let every = |a: &[u32], b: &[u32]| -> Vec<(u32, u32)> {
        let from = a.iter().take(MOST_OF_LEAF);
        let pairs = from.flat_map(|from| b.iter().take(MOST_OF_LEAF).map(move |to| (*from, *to)));
        pairs.collect()
    };
    let wanted: Vec<(u32, u32)> = match hosts.len() <= ALL_PAIRS {
        true => every(&hosts, &hosts),
        false => {
            let shifts = leaf_shifts(leaves.len());
            let of_shift = |shift: usize| {
                let leaves = &leaves;
                (0..leaves.len()).map(move |leaf| (&leaves[leaf], &leaves[(leaf + shift) % leaves.len()]))
            };
            let both = shifts.into_iter().flat_map(of_shift);
            both.flat_map(|(a, b)| every(a, b)).collect()
        }
    };
    let has_choice = |pair: &(u32, u32)| pair.0 != pair.1 && graph.paths(pair.0, pair.1, rail).len() > 1;
    wanted.into_iter().filter(has_choice).collect()
}

impl TestLayout<'_> {
    /// A slot for every rail and pattern.
    pub(super) fn permutations(&mut self) -> Result<Vec<Slot>, PlanError> {
        if self.has_no_links() {
            return Ok(Vec::new());
        }
        let known = self.known;
        let Some(graph) = known.graph.as_deref().filter(|graph| !graph.is_inferred()) else {
            let why = "which ranks share a leaf is not known; give a topology with --topology FILE";
            self.leave_out("all of it", why);
            return Ok(Vec::new());
        };
        let world = self.world();
        let first = first_port(self.transport);
        let ports = first..first + self.test.flows;
        let mut slots = Vec::new();
        for rail in self.rails {
            let leaves = leaves(graph, &world, rail);
            let patterns = match self.test.traffic.pairs.as_slice() {
                [] if leaves.len() < 2 => {
                    let why = "all hosts are behind one leaf: flows share no cable";
                    self.leave_out(&format!("rail {rail}"), why);
                    continue;
                }
                [] => {
                    let mut paths = Paths::new(graph, &known.paths, rail, ports.clone());
                    self.patterns(&leaves, rail, &mut paths)
                }
                listed => vec![Pattern::new(
                    "listed",
                    PatternKind::Listed,
                    self.checked(listed, &world)?,
                )],
            };
            self.check_count(patterns.iter().map(|pattern| pattern.pairs.len()).sum())?;
            for (set, pattern) in (0u16..).zip(&patterns) {
                slots.push(self.slot_of(pattern, rail, set, first)?);
            }
        }
        Ok(slots)
    }

    /// Patterns by lot, the structured ones, and the worst that a search finds from the worst of them.
    fn patterns(&self, leaves: &[Vec<u32>], rail: &str, paths: &mut Paths<'_>) -> Vec<Pattern> {
        let settings = &self.test.traffic;
        let mut hasher = DefaultHasher::new();
        (self.seed, rail).hash(&mut hasher);
        let mut drawn = ChaCha8Rng::seed_from_u64(hasher.finish());
        let mut patterns = random(leaves, settings.random, &mut drawn);
        patterns.extend(structured(leaves));
        let mut starts: Vec<(f64, Vec<(u32, u32)>)> = patterns
            .iter()
            .filter(|pattern| pattern.is_permutation())
            .map(|pattern| (paths.slowdown(&pattern.pairs), pattern.pairs.clone()))
            .collect();
        // Exchanges need known paths, where any is known.
        let known = starts.iter().filter(|(_, pairs)| paths.are_known(pairs)).count();
        if known > 0 {
            starts.retain(|(_, pairs)| paths.are_known(pairs));
        }
        starts.sort_by(|a, b| b.0.total_cmp(&a.0));
        for number in 1..=settings.worst {
            let Some((_, start)) = starts.get(usize::from(number - 1) % starts.len().max(1)) else {
                break;
            };
            let pairs = climb(paths, start, &mut drawn);
            let found = Pattern::new(format!("worst-{number}"), PatternKind::Searched, pairs);
            if patterns.iter().all(|pattern| pattern.pairs != found.pairs) {
                patterns.push(found);
            }
        }
        patterns
    }

    /// The pairs of a suite, all of whose ranks are there.
    fn checked(&self, pairs: &[(u32, u32)], world: &[u32]) -> Result<Vec<(u32, u32)>, PlanError> {
        let mut ranks = pairs.iter().flat_map(|(from, to)| [*from, *to]);
        match ranks.find(|rank| !world.contains(rank)) {
            None => Ok(pairs.to_vec()),
            Some(rank) => Err(PlanError::UnknownRank {
                test: self.test.name.clone(),
                rank,
                last: world.last().copied().unwrap_or(0),
            }),
        }
    }

    fn slot_of(&mut self, pattern: &Pattern, rail: &str, set: u16, first: u16) -> Result<Slot, PlanError> {
        let (flows, window) = (self.test.flows, self.test.traffic.window);
        let rate = self.known.slowest().unwrap_or(super::estimate::RATE);
        let work = self.work(2)?[0];
        let load = match pattern.pairs.len() {
            0 | 1 => Load::Alone,
            _ => Load::Together,
        };
        let cells = pattern.pairs.iter().map(|(from, to)| Cell {
            collective: Collective::Streams,
            source_port: Some(first),
            size: message(rate, window, flows),
            streams: Some(StreamTerms {
                set,
                window,
                one_port: false,
                into_one: false,
                pattern: Some(TrafficPattern {
                    name: pattern.name.clone(),
                    kind: pattern.kind,
                    at_least: self.test.traffic.at_least,
                }),
                ports: Vec::new(),
                round: 0,
                ways: Vec::new(),
            }),
            ..self.cell(work, vec![*from, *to], vec![rail.to_string()], load)
        });
        Ok(cells.collect())
    }
}

#[cfg(test)]
mod tests;
