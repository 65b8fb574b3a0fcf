//! Aimed probes: more flows over links that may be at fault, each over as few of the others as possible (docs/loss.md, "Aimed probes").

use std::collections::{BTreeMap, HashMap, HashSet};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::ask::ask;
use super::cover::flows_per_link;
use super::share::share_out;
use super::{FIRST_PORT, PORTS, known_links};
use crate::Plan;
use crate::diagnose::Measurer;
use judge::findings::open_links;
use record::units::Rate;
use record::{Cell, EndReason, ProbeFlow, ProbeTerms, RankRecord};
use topology::graph::{Graph, LinkId};

/// More sets than this tell nothing new.
const MOST_STEPS: u64 = 3;
/// Links that are looked at in one step.
const MOST_LINKS: usize = 64;
/// Flows over each of them.
const FLOWS: usize = 4;
/// For each flow, so many should cross the link of those that are tried, and so many are tried at most for all links together.
const SPARE: f64 = 3.0;
const MOST_TRIED: usize = 4_096;
/// Pairs that are drawn before a link is given up that none of them can cross.
const MOST_DRAWN: usize = 64;

/// Measures, and asks which paths flows would take.
pub trait ProbeMeasurer: Measurer {
    /// The same flows with their paths, where they are known.
    fn trace(&mut self, flows: Vec<ProbeFlow>) -> Result<Vec<ProbeFlow>, Self::Error>;

    /// Whether both ends of a flow are still there.
    fn can_send(&self, flow: &ProbeFlow) -> bool;
}

/// Sends sets of aimed probes until nothing is open that they could tell.
pub fn aim<M: ProbeMeasurer>(measurer: &mut M, graph: &Graph, plan: &Plan) -> Result<EndReason, M::Error> {
    if flows_per_link(plan).is_some() {
        return ask(measurer, graph, plan);
    }
    let (seed, line) = (plan.seed, plan.wire);
    for step in 0..MOST_STEPS {
        let recorded = measurer.recorded()?;
        let cells = &recorded.run.cells;
        if !are_paths_known(cells, graph) {
            break;
        }
        let names = open_links(&recorded);
        let links = names.iter().filter_map(|name| graph.named(name));
        let links: Vec<LinkId> = links.take(MOST_LINKS).collect();
        let wanted = (SPARE * FLOWS as f64, MOST_TRIED);
        let ranks = &recorded.run.ranks;
        let tried = candidates(
            (cells, &[], ranks),
            graph,
            &links,
            wanted,
            seed.wrapping_add(1 + step),
        );
        if tried.is_empty() {
            break;
        }
        let traced = measurer.trace(tried)?;
        let Some(cell) = aimed(cells, graph, &links, traced, line) else {
            break;
        };
        let why = format!(
            "which of {} loses packets or holds them up?",
            record::text::counted(links.len(), "link")
        );
        let end = measurer.measure(&why, &[cell])?;
        if end != EndReason::Finished {
            return Ok(end);
        }
    }
    Ok(EndReason::Finished)
}

/// Whether switches place probes by their ports: most paths of those sent before are known.
pub(super) fn are_paths_known(cells: &[Cell], graph: &Graph) -> bool {
    let known = flows_of(cells)
        .filter(|flow| known_links(flow, graph).is_some())
        .count();
    2 * known > flows_of(cells).count()
}

/// Who can send and receive on each rail.
struct Members<'a> {
    graph: &'a Graph,
    /// Ranks of every rail that sent or received probes.
    of_rail: BTreeMap<&'a str, Vec<u32>>,
    /// Switches that packets from a leaf can go up to, the leaf itself included.
    above: HashMap<&'a str, HashSet<&'a str>>,
}

impl<'a> Members<'a> {
    fn of(cells: &'a [Cell], graph: &'a Graph) -> Members<'a> {
        let mut of_rail: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
        for flow in flows_of(cells) {
            of_rail
                .entry(&flow.rail)
                .or_default()
                .extend([flow.from, flow.to]);
        }
        for ranks in of_rail.values_mut() {
            ranks.sort_unstable();
            ranks.dedup();
        }
        let mut up: HashMap<&str, Vec<&str>> = HashMap::new();
        for (_, link) in graph.links().filter(|(_, link)| link.is_upward && !link.is_host) {
            up.entry(&link.from.node).or_default().push(&link.to.node);
        }
        let leaves = of_rail
            .iter()
            .flat_map(|(rail, ranks)| ranks.iter().filter_map(|rank| graph.leaf_of(*rank, rail)));
        let leaves: HashSet<&str> = leaves.collect();
        let above = leaves.into_iter().map(|leaf| {
            let mut reached = HashSet::from([leaf]);
            let mut next = vec![leaf];
            while let Some(node) = next.pop() {
                let higher = up.get(node).into_iter().flatten().copied();
                next.extend(higher.filter(|higher| reached.insert(higher)));
            }
            (leaf, reached)
        });
        Members {
            graph,
            of_rail,
            above: above.collect(),
        }
    }

    /// Pairs of ranks that may send over a link on a rail: senders and receivers.
    fn ends(&self, link: LinkId, rail: &str) -> (Vec<u32>, Vec<u32>) {
        let all = self.of_rail.get(rail).cloned().unwrap_or_default();
        let data = self.graph.link(link);
        let up = if data.is_upward { link } else { link.reverse() };
        let is_below = |rank: &u32| match data.is_host {
            true => self.graph.up(*rank, rail) == Some(up),
            false => {
                let leaf = self.graph.leaf_of(*rank, rail);
                leaf.is_some_and(|leaf| {
                    self.above
                        .get(leaf)
                        .is_some_and(|above| above.contains(data.lower_node()))
                })
            }
        };
        let below: Vec<u32> = all.iter().copied().filter(is_below).collect();
        match data.is_upward {
            true => (below, all),
            false => (all, below),
        }
    }
}

/// Flows to try, whose paths are not known, and that are neither planned nor spare: so many that every link should be crossed by `wanted` of them, and at most `most` in all.
pub(super) fn candidates(
    (cells, spare, ranks): (&[Cell], &[ProbeFlow], &[RankRecord]),
    graph: &Graph,
    links: &[LinkId],
    (wanted, most): (f64, usize),
    seed: u64,
) -> Vec<ProbeFlow> {
    let members = Members::of(cells, graph);
    let host_of: HashMap<u32, &str> = ranks
        .iter()
        .map(|record| (record.rank, record.host.as_str()))
        .collect();
    let first = cells
        .iter()
        .find(|cell| cell.probes.is_some())
        .and_then(|cell| cell.source_port);
    let first = first.unwrap_or(FIRST_PORT);
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let had = flows_of(cells).chain(spare);
    let had = had.map(|flow| (flow.from, flow.to, flow.rail.as_str(), flow.port));
    let mut had: HashSet<(u32, u32, &str, u16)> = had.collect();
    let most_of_link = (most / links.len().max(1)).max(1);
    let mut found = Vec::new();
    for link in links.iter().take(most) {
        let of_link = graph.link(*link).rail.as_deref();
        let rails = members.of_rail.keys().copied();
        let rails = rails.filter(|rail| of_link.is_none_or(|own| own == *rail));
        let ends = rails.map(|rail| (rail, members.ends(*link, rail)));
        let ends: Vec<_> = ends
            .filter(|(_, (senders, receivers))| !senders.is_empty() && !receivers.is_empty())
            .collect();
        if ends.is_empty() {
            continue;
        }
        let (mut expected, mut tried, mut missed) = (0.0, 0, 0);
        while expected < wanted && tried < most_of_link && missed < MOST_DRAWN {
            let (rail, (senders, receivers)) = &ends[random.random_range(0..ends.len())];
            let from = senders[random.random_range(0..senders.len())];
            let to = receivers[random.random_range(0..receivers.len())];
            let port = first.wrapping_add(random.random_range(0..PORTS));
            let crossed = match host_of.get(&from) == host_of.get(&to) {
                true => Vec::new(),
                false => graph.crossing_probabilities(from, to, rail),
            };
            let own = crossed.iter().find(|(other, _)| other == link);
            match own.filter(|_| had.insert((from, to, rail, port))) {
                None => missed += 1,
                Some((_, probability)) => {
                    (expected, tried) = (expected + probability, tried + 1);
                    found.push(ProbeFlow {
                        from,
                        to,
                        rail: rail.to_string(),
                        port,
                        packets: 1,
                        way: None,
                    });
                }
            }
        }
    }
    found
}

/// All flows of probes of some cells.
pub(super) fn flows_of(cells: &[Cell]) -> impl Iterator<Item = &ProbeFlow> {
    cells
        .iter()
        .filter_map(|cell| cell.probes.as_ref())
        .flat_map(|terms| &terms.flows)
}

/// The cell of those flows that tell links apart; none where no known path leads over any of them.
fn aimed(cells: &[Cell], graph: &Graph, links: &[LinkId], tried: Vec<ProbeFlow>, line: Rate) -> Option<Cell> {
    let suspects: HashSet<LinkId> = links.iter().copied().collect();
    // Per flow the suspects that it crosses.
    let known = tried
        .iter()
        .map(|flow| known_links(flow, graph).unwrap_or_default());
    let crossed: Vec<Vec<LinkId>> = known
        .map(|links| links.into_iter().filter(|link| suspects.contains(link)).collect())
        .collect();
    let mut over: HashMap<LinkId, Vec<usize>> = HashMap::new();
    for (number, links) in crossed.iter().enumerate() {
        links
            .iter()
            .for_each(|link| over.entry(*link).or_default().push(number));
    }
    let mut uses: HashMap<u32, usize> = HashMap::new();
    let mut is_chosen = vec![false; tried.len()];
    for link in links {
        let own = over.get(link).map_or(&[][..], Vec::as_slice);
        let alone = own
            .iter()
            .filter(|number| is_chosen[**number] && crossed[**number].len() == 1)
            .count();
        for _ in alone..FLOWS {
            let used = |rank: u32| uses.get(&rank).copied().unwrap_or(0);
            let left = own.iter().copied().filter(|number| !is_chosen[*number]);
            let best = left.min_by_key(|number| {
                let flow = &tried[*number];
                (crossed[*number].len(), used(flow.from) + used(flow.to), *number)
            });
            let Some(best) = best else { break };
            is_chosen[best] = true;
            for rank in [tried[best].from, tried[best].to] {
                *uses.entry(rank).or_default() += 1;
            }
        }
    }
    let flows = tried.into_iter().zip(is_chosen);
    let flows = flows.filter_map(|(flow, chosen)| chosen.then_some(flow));
    one_more_set(cells, graph, flows.collect(), line)
}

/// A cell of these flows, numbered after all others; none without flows.
pub(super) fn one_more_set(cells: &[Cell], graph: &Graph, flows: Vec<ProbeFlow>, line: Rate) -> Option<Cell> {
    let template = cells.iter().rfind(|cell| cell.probes.is_some())?;
    let mut ranks: Vec<u32> = flows.iter().flat_map(|flow| [flow.from, flow.to]).collect();
    ranks.sort_unstable();
    ranks.dedup();
    if ranks.is_empty() {
        return None;
    }
    let mut rails: Vec<String> = flows.iter().map(|flow| flow.rail.clone()).collect();
    rails.sort_unstable();
    rails.dedup();
    let sets = cells
        .iter()
        .filter_map(|cell| cell.probes.as_ref())
        .map(|terms| terms.set);
    let terms = ProbeTerms {
        set: sets.max().unwrap_or(0) + 1,
        flows,
        ..template.probes.clone()?
    };
    let mut cell = Cell {
        id: 1 + cells.iter().map(|cell| cell.id).max()?,
        slot: 1 + cells.iter().map(|cell| cell.slot).max()?,
        ranks,
        rails,
        probes: Some(terms),
        ..template.clone()
    };
    share_out(&mut cell, graph, line.0);
    Some(cell)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{planned, tell_paths};
    use super::*;
    use crate::twin::clos;

    #[test]
    fn flows_are_aimed_so_that_each_suspect_is_crossed_alone_by_several_between_different_hosts() {
        let (plan, graph) = planned("16x2");
        let ranks = clos(&"16x2".parse().unwrap()).1;
        // Those that one flow of the plan crosses: what is left when it alone lost packets.
        let flow = flows_of(&plan.cells)
            .find(|flow| flow.way.as_ref().unwrap().links.len() == 4)
            .unwrap();
        let links = known_links(flow, &graph).unwrap();
        let wanted = (SPARE * FLOWS as f64, MOST_TRIED);
        let mut tried = candidates((&plan.cells, &[], &ranks), &graph, &links, wanted, 1);
        let had: HashSet<_> = flows_of(&plan.cells)
            .map(|flow| (flow.from, flow.to, flow.rail.clone(), flow.port))
            .collect();
        assert!(
            tried
                .iter()
                .all(|flow| !had.contains(&(flow.from, flow.to, flow.rail.clone(), flow.port)))
        );
        tell_paths(&mut tried, &graph);
        let cell = aimed(&plan.cells, &graph, &links, tried, plan.wire).unwrap();
        assert!(
            plan.cells
                .iter()
                .all(|other| other.id < cell.id && other.slot < cell.slot)
        );
        let chosen = &cell.probes.as_ref().unwrap().flows;
        for link in &links {
            let crosses = |flow: &&ProbeFlow| known_links(flow, &graph).unwrap().contains(link);
            let is_alone = |flow: &&ProbeFlow| {
                let crossed = known_links(flow, &graph).unwrap();
                crossed.iter().filter(|other| links.contains(other)).count() == 1
            };
            let alone: Vec<&ProbeFlow> = chosen.iter().filter(crosses).filter(is_alone).collect();
            assert!(alone.len() >= 3, "{}: {alone:?}", graph.name(*link));
            let ends: HashSet<(u32, u32)> = alone.iter().map(|flow| (flow.from, flow.to)).collect();
            assert!(ends.len() >= 3, "{ends:?}");
        }
    }

    #[test]
    fn ranks_of_one_host_are_no_pair_and_a_link_that_no_path_leads_over_gets_no_flow() {
        let (plan, graph) = planned("16x2");
        let mut ranks = clos(&"16x2".parse().unwrap()).1;
        ranks
            .iter_mut()
            .for_each(|record| record.host = "one".to_string());
        let links: Vec<LinkId> = graph.links().map(|(link, _)| link).collect();
        assert_eq!(
            candidates((&plan.cells, &[], &ranks), &graph, &links, (12.0, 100), 1),
            []
        );
        assert_eq!(aimed(&plan.cells, &graph, &links, Vec::new(), plan.wire), None);
    }
}
