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

/// How many flows should cross every link: as many as the suite says, where all probes are of tests that say so.
pub(super) fn flows_per_link(plan: &Plan) -> Option<usize> {
    let probes = plan.cells.iter().filter(|cell| cell.probes.is_some());
    let said: Option<Vec<usize>> = probes
        .map(|cell| {
            plan.flows_per_link
                .get(&cell.test)
                .map(|flows| usize::from(*flows))
        })
        .collect();
    said?.into_iter().max()
}

/// Flows to try for links that fewer than two of the plan cross (or as many as the suite says), whose paths are not known yet; none where switches place flows anew.
pub fn flows_to_try(plan: &Plan, ranks: &[RankRecord], graph: &Graph) -> Vec<ProbeFlow> {
    if !are_paths_known(&plan.cells, graph) {
        return Vec::new();
    }
    let missing = missing(plan, graph);
    let mut links: Vec<LinkId> = missing.keys().copied().collect();
    links.sort_unstable();
    let wanted = (SPARE * FLOWS as f64, MOST_TRIED);
    let spare = plan.spare_probes.as_slice();
    candidates((&plan.cells, spare, ranks), graph, &links, wanted, plan.seed)
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
    let (chosen, spare): (Vec<_>, Vec<_>) = tried.into_iter().zip(is_chosen).partition(|(_, chosen)| *chosen);
    if flows_per_link(plan).is_some() {
        let known = spare
            .into_iter()
            .map(|(flow, _)| flow)
            .filter(|flow| flow.way.is_some());
        plan.spare_probes.extend(known);
    }
    let chosen = chosen.into_iter().map(|(flow, _)| flow);
    if let Some(cell) = one_more_set(&plan.cells, graph, chosen.collect(), plan.wire) {
        let behind = plan.cells.iter().rposition(|cell| cell.probes.is_some());
        plan.cells.insert(behind.map_or(0, |place| place + 1), cell);
    }
}

/// Links that ranks may use, and how many flows of known path each is short of.
fn missing(plan: &Plan, graph: &Graph) -> HashMap<LinkId, usize> {
    let links = graph.links().map(|(link, _)| link);
    let usable = links.filter(|link| graph.host_without_ranks(*link).is_none());
    let flows = flows_per_link(plan).unwrap_or(FLOWS);
    let mut missing: HashMap<LinkId, usize> = usable.map(|link| (link, flows)).collect();
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

#[cfg(test)]
mod tests {
    use super::super::share::shares_taken;
    use super::super::tests::{planned, planned_with, tell_paths};
    use super::*;
    use crate::twin::clos;
    use topology::suite::Suite;

    /// One on every host.
    fn ranks() -> Vec<RankRecord> {
        clos(&"64x2".parse().unwrap()).1
    }

    fn one_flow_of_each(suite: &mut Suite) {
        let probe = &mut suite.tests[0].probe;
        (probe.sets, probe.partners) = (1, 1);
    }

    #[test]
    fn links_that_hardly_any_flow_crosses_get_two_in_one_more_set_behind_the_others() {
        let (mut plan, graph) = planned_with("64x1", one_flow_of_each);
        let before = missing(&plan, &graph);
        assert!(before.len() > 64, "{}", before.len());
        let mut tried = flows_to_try(&plan, &ranks(), &graph);
        assert!(tried.len() <= MOST_TRIED && tried.iter().all(|flow| flow.way.is_none()));
        tell_paths(&mut tried, &graph);
        cover(&mut plan, &graph, tried);
        let left = missing(&plan, &graph);
        assert!(
            left.len() * 20 <= before.len(),
            "{} of {}",
            left.len(),
            before.len()
        );
        let [first, second] = plan.cells.as_slice() else {
            panic!("{}", plan.cells.len());
        };
        assert!(second.id > first.id && second.slot > first.slot);
        let sets = [first, second].map(|cell| cell.probes.as_ref().unwrap().set);
        assert_eq!(sets[1], sets[0] + 1);
        let most = shares_taken(second, &graph).into_values().fold(0.0, f64::max);
        assert!(most <= 0.0101, "{most}");
    }

    #[test]
    fn where_every_link_is_crossed_by_two_flows_nothing_is_added() {
        let (mut plan, graph) = planned("16x2");
        let cells = plan.cells.clone();
        let tried = flows_to_try(&plan, &ranks(), &graph);
        assert_eq!(tried, []);
        cover(&mut plan, &graph, tried);
        assert_eq!(plan.cells, cells);
    }

    #[test]
    fn where_no_path_is_known_no_port_is_worth_trying() {
        let (mut plan, graph) = planned_with("64x1", one_flow_of_each);
        let terms = plan.cells.iter_mut().filter_map(|cell| cell.probes.as_mut());
        terms
            .flat_map(|terms| &mut terms.flows)
            .for_each(|flow| flow.way = None);
        assert_eq!(flows_to_try(&plan, &ranks(), &graph), []);
    }
}
