//! Flows over links that too few probes of the plan happen to cross, as one more set.

use std::collections::HashMap;

use super::aim::{are_paths_known, candidates, flows_of, one_more_set};
use super::known_links;
use crate::Plan;
use record::{ProbeFlow, RankRecord};
use topology::graph::{Graph, LinkId};

/// Flows that should cross every link, so that it is not judged by one of them alone.
const FLOWS: usize = 2;
/// For each flow that is missing, so many should cross the link of those that are tried, and so many are tried at most.
const SPARE: f64 = 2.0;
const MOST_TRIED: usize = 4_096;

/// Flows to try for links that fewer than two of the plan cross, whose paths are not known yet; none where switches place flows anew.
pub fn flows_to_try(plan: &Plan, ranks: &[RankRecord], graph: &Graph) -> Vec<ProbeFlow> {
    if !are_paths_known(&plan.cells, graph) {
        return Vec::new();
    }
    let missing = missing(plan, graph);
    let mut links: Vec<LinkId> = missing.keys().copied().collect();
    links.sort_unstable();
    let wanted = (SPARE * FLOWS as f64, MOST_TRIED);
    candidates((&plan.cells, ranks), graph, &links, wanted, plan.seed)
}

/// Adds those that cross most of what is missing, as one more set behind the others.
pub fn cover(plan: &mut Plan, graph: &Graph, tried: Vec<ProbeFlow>) {
    let mut missing = missing(plan, graph);
    let known = tried
        .iter()
        .map(|flow| known_links(flow, graph).unwrap_or_default());
    let crossed: Vec<Vec<LinkId>> = known.collect();
    let mut is_chosen = vec![false; tried.len()];
    let most = crossed.iter().map(Vec::len).max().unwrap_or(0);
    // The flows that help most links first.
    for helped in (1..=most).rev() {
        for (links, is_chosen) in crossed.iter().zip(&mut is_chosen).filter(|(_, chosen)| !**chosen) {
            let is_missing = |link: &&LinkId| missing.get(link).is_some_and(|flows| *flows > 0);
            if links.iter().filter(is_missing).count() >= helped {
                *is_chosen = true;
                for link in links {
                    missing
                        .entry(*link)
                        .and_modify(|flows| *flows = flows.saturating_sub(1));
                }
            }
        }
    }
    let chosen = tried
        .into_iter()
        .zip(is_chosen)
        .filter_map(|(flow, chosen)| chosen.then_some(flow));
    if let Some(cell) = one_more_set(&plan.cells, graph, chosen.collect(), plan.wire) {
        let behind = plan.cells.iter().rposition(|cell| cell.probes.is_some());
        plan.cells.insert(behind.map_or(0, |place| place + 1), cell);
    }
}

/// Links that ranks may use, and how many flows of known path each is short of.
fn missing(plan: &Plan, graph: &Graph) -> HashMap<LinkId, usize> {
    let links = graph.links().map(|(link, _)| link);
    let usable = links.filter(|link| graph.host_without_ranks(*link).is_none());
    let mut missing: HashMap<LinkId, usize> = usable.map(|link| (link, FLOWS)).collect();
    for link in flows_of(&plan.cells)
        .filter_map(|flow| known_links(flow, graph))
        .flatten()
    {
        missing
            .entry(link)
            .and_modify(|flows| *flows = flows.saturating_sub(1));
    }
    missing.retain(|_, flows| *flows > 0);
    missing
}
