//! Links between switches that no delivering flow ever crossed, although a fair hash would have sent many over them.
//!
//! A flow that delivered clears every link on its path. One that did not says little by itself: it may have been
//! dropped on its path, or its acknowledgements on the return path. So the links without any delivering flow are
//! accused, and flows that vanished where such a link begins distinguish a dead link from one that nothing is ever
//! sent to.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::flows::Flow;
use topology::graph::{Graph, LinkId, Path};

/// A link that delivers nothing.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct DeadMember {
    /// The link.
    pub(super) link: LinkId,
    /// Others that fit as well.
    pub(super) or: Vec<LinkId>,
    /// Delivering flows that a fair hash would have sent over it.
    pub(super) expected: f64,
    /// Probability that none crosses it.
    pub(super) p_value: f64,
    /// The same if all flows of a pair took one path.
    pub(super) p_of_pairs: f64,
    /// Flows that delivered nothing and were last seen where it begins, or on it.
    pub(super) vanished: u32,
    /// Ids of the cells that say so.
    pub(super) cells: Vec<u32>,
}

/// A link under a fair hash.
#[derive(Debug, Clone, Copy, Default)]
struct FairHashOdds {
    /// Logarithm of the probability that no delivering flow crosses it.
    none: f64,
    /// The same if all flows of a pair went together.
    none_of_pairs: f64,
    /// Delivering flows expected on it.
    expected: f64,
}

/// Dead links of a rail, and links that nothing is sent to (without vanished flows), at `level`.
pub(super) fn dead_links(graph: &Graph, rail: &str, flows: &[Flow], level: f64) -> Vec<DeadMember> {
    let crossed: HashSet<LinkId> = flows
        .iter()
        .filter(|flow| !flow.dead)
        .flat_map(|flow| flow.path.iter().copied())
        .collect();
    let dead: Vec<&Flow> = flows.iter().filter(|flow| flow.dead).collect();
    let mut paths = PathCache::new(graph, rail);
    let mut found: Vec<DeadMember> = Vec::new();
    let mut closed: HashSet<LinkId> = HashSet::new();
    loop {
        let odds = odds(&mut paths, flows, &closed);
        let is_suspect = |(link, odds_of_link): &(&LinkId, &FairHashOdds)| {
            !crossed.contains(link) && !closed.contains(link) && odds_of_link.none.exp() <= level
        };
        let mut suspects: Vec<(u32, LinkId)> = odds
            .iter()
            .filter(is_suspect)
            .map(|(link, _)| (vanished(graph, &mut paths, &dead, *link).len() as u32, *link))
            .collect();
        // Most vanished flows first; among equals the least probable.
        suspects.sort_by(|a, b| {
            let none = |link: &LinkId| odds[link].none;
            b.0.cmp(&a.0)
                .then(none(&a.1).total_cmp(&none(&b.1)))
                .then(a.1.cmp(&b.1))
        });
        let one = |link: LinkId, vanished: u32, or: Vec<LinkId>, mut cells: Vec<u32>| {
            cells.dedup();
            DeadMember {
                link,
                or,
                expected: odds[&link].expected,
                p_value: odds[&link].none.exp(),
                p_of_pairs: odds[&link].none_of_pairs.exp(),
                vanished,
                cells,
            }
        };
        let Some(&(most, link)) = suspects.first().filter(|(most, _)| *most > 0) else {
            let idle = suspects
                .into_iter()
                .map(|(_, link)| one(link, 0, Vec::new(), Vec::new()));
            found.extend(idle);
            return found;
        };
        closed.insert(link);
        // Equal suspects that are cleared without this one were only behind it, or before it.
        let without = self::odds(&mut paths, flows, &closed);
        let or: Vec<LinkId> = suspects[1..]
            .iter()
            .filter(|(count, other)| *count == most && !still(&without, other, level))
            .map(|(_, other)| *other)
            .collect();
        let cells = vanished(graph, &mut paths, &dead, link);
        found.push(one(link, most, or, cells));
    }
}

fn still(odds: &BTreeMap<LinkId, FairHashOdds>, link: &LinkId, level: f64) -> bool {
    odds.get(link)
        .is_some_and(|odds_of_link| odds_of_link.none.exp() <= level)
}

/// Cells of the flows that delivered nothing and were last seen on a link or where it begins, one entry per flow.
fn vanished(graph: &Graph, paths: &mut PathCache<'_>, dead: &[&Flow], link: LinkId) -> Vec<u32> {
    let begins = &graph.link(link).from.node;
    let mut cells = Vec::new();
    for flow in dead {
        let was_on = flow.path.contains(&link);
        let ended = flow.path.last().filter(|_| !flow.whole);
        let ended_there = ended.is_some_and(|last| graph.link(*last).to.node == *begins);
        if was_on || ended_there && paths.of(flow.ranks).iter().any(|path| path.contains(&link)) {
            cells.push(flow.cell);
        }
    }
    cells
}

/// Every link between switches under a fair hash, for flows that avoid `closed`.
fn odds(
    paths: &mut PathCache<'_>,
    flows: &[Flow],
    closed: &HashSet<LinkId>,
) -> BTreeMap<LinkId, FairHashOdds> {
    let mut pairs: BTreeMap<(u32, u32), u32> = BTreeMap::new();
    for flow in flows.iter().filter(|flow| flow.fresh && flow.whole && !flow.dead) {
        *pairs.entry(flow.ranks).or_default() += 1;
    }
    let mut odds: BTreeMap<LinkId, FairHashOdds> = BTreeMap::new();
    for (ranks, count) in pairs {
        for (link, share) in paths.shares(ranks, closed) {
            let odds_of_link = odds.entry(link).or_default();
            // A link that all must cross has no logarithm: almost certain is enough.
            let none = (1.0 - share).max(1e-12).ln();
            odds_of_link.none += f64::from(count) * none;
            odds_of_link.none_of_pairs += none;
            odds_of_link.expected += f64::from(count) * share;
        }
    }
    odds
}

/// The shortest paths between ranks of a rail, cached.
struct PathCache<'g> {
    graph: &'g Graph,
    rail: &'g str,
    known: HashMap<(u32, u32), Vec<Path>>,
}

impl<'g> PathCache<'g> {
    fn new(graph: &'g Graph, rail: &'g str) -> PathCache<'g> {
        PathCache {
            graph,
            rail,
            known: HashMap::new(),
        }
    }

    fn of(&mut self, (from, to): (u32, u32)) -> &[Path] {
        let (graph, rail) = (self.graph, self.rail);
        let known = self.known.entry((from, to));
        known.or_insert_with(|| graph.paths(from, to, rail))
    }

    /// The share of a pair's flows that fair hashes give each link between switches, for flows that avoid `closed`.
    fn shares(&mut self, ranks: (u32, u32), closed: &HashSet<LinkId>) -> Vec<(LinkId, f64)> {
        let graph = self.graph;
        let paths = self.of(ranks);
        let mut weighted: Vec<(f64, &Path)> = Vec::with_capacity(paths.len());
        split(paths, 0, 1.0, &mut weighted);
        weighted.retain(|(_, path)| !path.iter().any(|link| closed.contains(link)));
        let all: f64 = weighted.iter().map(|(weight, _)| weight).sum();
        let mut shares: BTreeMap<LinkId, f64> = BTreeMap::new();
        for (weight, path) in weighted {
            for link in path.iter().filter(|link| !graph.link(**link).is_host) {
                *shares.entry(*link).or_default() += weight / all;
            }
        }
        shares.into_iter().collect()
    }
}

/// The probability of every path when each switch chooses fairly among its links; paths are sorted.
fn split<'w>(paths: &'w [Path], depth: usize, weight: f64, into: &mut Vec<(f64, &'w Path)>) {
    match paths {
        [] => {}
        [path] => into.push((weight, path)),
        _ => {
            let branches: Vec<&[Path]> = paths.chunk_by(|a, b| a.get(depth) == b.get(depth)).collect();
            // All paths are equally long and different, so they part somewhere; if not, the weight is divided
            // equally.
            if paths.iter().any(|path| depth >= path.len()) {
                into.extend(paths.iter().map(|path| (weight / paths.len() as f64, path)));
                return;
            }
            let share = weight / branches.len() as f64;
            for branch in branches {
                split(branch, depth + 1, share, into);
            }
        }
    }
}
