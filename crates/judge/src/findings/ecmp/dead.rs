//! Links between switches that no delivering flow ever crossed, although chance would have sent many over them.
//!
//! A flow that delivered clears every link on its way there. One that did not says little by itself: it may have been swallowed
//! on the way, or its acknowledgements on the way back. So it is the links without any delivering flow that are accused, and flows that
//! vanished where such a link begins are what tells a dead link from one that nothing is ever sent to.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::flows::Flow;
use topology::graph::{Graph, LinkId, Path};

/// A link that delivers nothing.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct DeadLink {
    /// The link.
    pub(super) link: LinkId,
    /// Others that fit as well.
    pub(super) or: Vec<LinkId>,
    /// Flows that would have crossed it and delivered, by chance.
    pub(super) expected: f64,
    /// Chance that none does.
    pub(super) p_value: f64,
    /// The same if the flows of a pair all went together.
    pub(super) p_of_pairs: f64,
    /// Flows that delivered nothing and were last seen where it begins, or on it.
    pub(super) vanished: u32,
    /// Ids of the cells that say so.
    pub(super) cells: Vec<u32>,
}

/// What chance makes of one link.
#[derive(Debug, Clone, Copy, Default)]
struct Chance {
    /// Logarithm of the chance that no delivering flow crosses it.
    none: f64,
    /// The same if all flows of a pair went together.
    none_of_pairs: f64,
    /// Delivering flows expected on it.
    expected: f64,
}

/// Dead links of a rail, and links that nothing is sent to (without vanished flows), at `level`.
pub(super) fn dead_links(graph: &Graph, rail: &str, flows: &[Flow], level: f64) -> Vec<DeadLink> {
    let crossed: HashSet<LinkId> = flows
        .iter()
        .filter(|flow| !flow.dead)
        .flat_map(|flow| flow.way.iter().copied())
        .collect();
    let dead: Vec<&Flow> = flows.iter().filter(|flow| flow.dead).collect();
    let mut ways = Ways::new(graph, rail);
    let mut found: Vec<DeadLink> = Vec::new();
    let mut closed: HashSet<LinkId> = HashSet::new();
    loop {
        let chances = chances(&mut ways, flows, &closed);
        let is_suspect = |(link, chance): &(&LinkId, &Chance)| {
            !crossed.contains(link) && !closed.contains(link) && chance.none.exp() <= level
        };
        let mut suspects: Vec<(u32, LinkId)> = chances
            .iter()
            .filter(is_suspect)
            .map(|(link, _)| (vanished(graph, &mut ways, &dead, *link).len() as u32, *link))
            .collect();
        // Who has most vanished flows first; among equals the one that chance spares least.
        suspects.sort_by(|a, b| {
            let none = |link: &LinkId| chances[link].none;
            b.0.cmp(&a.0)
                .then(none(&a.1).total_cmp(&none(&b.1)))
                .then(a.1.cmp(&b.1))
        });
        let one = |link: LinkId, vanished: u32, or: Vec<LinkId>, mut cells: Vec<u32>| {
            cells.dedup();
            DeadLink {
                link,
                or,
                expected: chances[&link].expected,
                p_value: chances[&link].none.exp(),
                p_of_pairs: chances[&link].none_of_pairs.exp(),
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
        // Equal suspects that are no longer suspect without this one were only behind it, or before it.
        let without = self::chances(&mut ways, flows, &closed);
        let or: Vec<LinkId> = suspects[1..]
            .iter()
            .filter(|(count, other)| *count == most && !still(&without, other, level))
            .map(|(_, other)| *other)
            .collect();
        let cells = vanished(graph, &mut ways, &dead, link);
        found.push(one(link, most, or, cells));
    }
}

fn still(chances: &BTreeMap<LinkId, Chance>, link: &LinkId, level: f64) -> bool {
    chances.get(link).is_some_and(|chance| chance.none.exp() <= level)
}

/// Cells of the flows that delivered nothing and were last seen on a link or where it begins, one entry per flow.
fn vanished(graph: &Graph, ways: &mut Ways<'_>, dead: &[&Flow], link: LinkId) -> Vec<u32> {
    let begins = &graph.link(link).from.node;
    let mut cells = Vec::new();
    for flow in dead {
        let was_on = flow.way.contains(&link);
        let ended = flow.way.last().filter(|_| !flow.whole);
        let ended_there = ended.is_some_and(|last| graph.link(*last).to.node == *begins);
        if was_on || ended_there && ways.of(flow.ranks).iter().any(|way| way.contains(&link)) {
            cells.push(flow.cell);
        }
    }
    cells
}

/// What chance makes of every link between switches, for flows that keep away from `closed`.
fn chances(ways: &mut Ways<'_>, flows: &[Flow], closed: &HashSet<LinkId>) -> BTreeMap<LinkId, Chance> {
    let mut pairs: BTreeMap<(u32, u32), u32> = BTreeMap::new();
    for flow in flows.iter().filter(|flow| flow.fresh && flow.whole && !flow.dead) {
        *pairs.entry(flow.ranks).or_default() += 1;
    }
    let mut chances: BTreeMap<LinkId, Chance> = BTreeMap::new();
    for (ranks, count) in pairs {
        for (link, share) in ways.shares(ranks, closed) {
            let chance = chances.entry(link).or_default();
            // A link that all must cross has no logarithm: as good as certain is enough.
            let none = (1.0 - share).max(1e-12).ln();
            chance.none += f64::from(count) * none;
            chance.none_of_pairs += none;
            chance.expected += f64::from(count) * share;
        }
    }
    chances
}

/// The shortest ways between ranks of a rail, remembered.
struct Ways<'g> {
    graph: &'g Graph,
    rail: &'g str,
    known: HashMap<(u32, u32), Vec<Path>>,
}

impl<'g> Ways<'g> {
    fn new(graph: &'g Graph, rail: &'g str) -> Ways<'g> {
        Ways {
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

    /// The share of a pair's flows that each link between switches gets from fair hashes, of those that keep away from `closed`.
    fn shares(&mut self, ranks: (u32, u32), closed: &HashSet<LinkId>) -> Vec<(LinkId, f64)> {
        let graph = self.graph;
        let ways = self.of(ranks);
        let mut weighted: Vec<(f64, &Path)> = Vec::with_capacity(ways.len());
        split(ways, 0, 1.0, &mut weighted);
        weighted.retain(|(_, way)| !way.iter().any(|link| closed.contains(link)));
        let all: f64 = weighted.iter().map(|(weight, _)| weight).sum();
        let mut shares: BTreeMap<LinkId, f64> = BTreeMap::new();
        for (weight, way) in weighted {
            for link in way.iter().filter(|link| !graph.link(**link).is_host) {
                *shares.entry(*link).or_default() += weight / all;
            }
        }
        shares.into_iter().collect()
    }
}

/// The chance of every way when each switch chooses fairly among its links; ways are sorted.
fn split<'w>(ways: &'w [Path], depth: usize, weight: f64, into: &mut Vec<(f64, &'w Path)>) {
    match ways {
        [] => {}
        [way] => into.push((weight, way)),
        _ => {
            let branches: Vec<&[Path]> = ways.chunk_by(|a, b| a.get(depth) == b.get(depth)).collect();
            // All ways are equally long and different, so they part somewhere; if not, they are shared out as they are.
            if ways.iter().any(|way| depth >= way.len()) {
                into.extend(ways.iter().map(|way| (weight / ways.len() as f64, way)));
                return;
            }
            let share = weight / branches.len() as f64;
            for branch in branches {
                split(branch, depth + 1, share, into);
            }
        }
    }
}
