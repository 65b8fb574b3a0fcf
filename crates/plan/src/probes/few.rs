//! The fewest of the planned flows that cover every link as often as the suite says (docs/loss.md, "Few flows").
//!
//! Which links a flow crosses is known when its path was traced. All planned flows are traced, those that cover most of what is not covered yet are sent, and the others
//! are spare. That a link is covered rests on paths that stay; where switches place flows anew, no path is known, and all that may be planned is sent.

use super::MOST_FLOWS;
use super::aim::{are_paths_known, flows_of};
use super::known_links;
use crate::Plan;
use record::{Cell, ProbeFlow};
use topology::graph::{Graph, LinkId};

/// Keeps of the flows of tests with `flows_per_link` as few as cover all links that any of them crosses.
pub fn keep_few(plan: &mut Plan, graph: &Graph) {
    if plan.flows_per_link.is_empty() {
        return;
    }
    let is_few = |cell: &Cell| cell.probes.is_some() && plan.flows_per_link.contains_key(&cell.test);
    let of_few: Vec<usize> = (0..plan.cells.len())
        .filter(|place| is_few(&plan.cells[*place]))
        .collect();
    if of_few.is_empty() {
        return;
    }
    if !are_paths_known(&plan.cells, graph) {
        return send_what_may_be(plan, &of_few);
    }
    let per_link = |place: usize| plan.flows_per_link[&plan.cells[place].test];
    let crossed: Vec<Vec<Vec<LinkId>>> = of_few
        .iter()
        .map(|place| {
            let flows = flows_of(std::slice::from_ref(&plan.cells[*place]));
            flows
                .map(|flow| known_links(flow, graph).unwrap_or_default())
                .collect()
        })
        .collect();
    let most = of_few.iter().map(|place| per_link(*place)).max().unwrap_or(1);
    let flat: Vec<&[LinkId]> = crossed.iter().flatten().map(Vec::as_slice).collect();
    let chosen = covering(&flat, graph.link_count(), most);
    let mut is_chosen = chosen.into_iter();
    let mut spare = Vec::new();
    for place in &of_few {
        let Some(terms) = &mut plan.cells[*place].probes else {
            continue;
        };
        let flows = std::mem::take(&mut terms.flows);
        let (sent, left): (Vec<ProbeFlow>, Vec<ProbeFlow>) =
            flows.into_iter().partition(|_| is_chosen.next().unwrap_or(true));
        terms.flows = sent;
        spare.extend(left.into_iter().filter(|flow| known_links(flow, graph).is_some()));
    }
    plan.spare_probes = spare;
    plan.cells.iter_mut().for_each(keep_ends_only);
    plan.cells
        .retain(|cell| cell.probes.as_ref().is_none_or(|terms| !terms.flows.is_empty()));
}

/// Which flows cover every link that any of them crosses by so many of them, or by all that cross it: those that cover most of what is missing first, and none that all
/// others do without.
fn covering(crossed: &[&[LinkId]], links: usize, per_link: u16) -> Vec<bool> {
    let mut covered = vec![0_u16; links];
    let mut is_chosen = vec![false; crossed.len()];
    let longest = crossed.iter().map(|links| links.len()).max().unwrap_or(0);
    for helped in (1..=longest).rev() {
        for (links, is_chosen) in crossed.iter().zip(&mut is_chosen).filter(|(_, chosen)| !**chosen) {
            let missing = links
                .iter()
                .filter(|link| covered[link.index()] < per_link)
                .count();
            if missing >= helped {
                *is_chosen = true;
                links.iter().for_each(|link| covered[link.index()] += 1);
            }
        }
    }
    // What was chosen last covers little, and some of what was chosen before is covered by it.
    for (links, is_chosen) in crossed.iter().zip(&mut is_chosen).filter(|(_, chosen)| **chosen) {
        if links.iter().all(|link| covered[link.index()] > per_link) {
            *is_chosen = false;
            links.iter().for_each(|link| covered[link.index()] -= 1);
        }
    }
    is_chosen
}

/// Where no path is known every flow tells something, but no more of them are sent than without `flows_per_link`.
fn send_what_may_be(plan: &mut Plan, of_few: &[usize]) {
    let count = |cell: &Cell| cell.probes.as_ref().map_or(0, |terms| terms.flows.len());
    let mut sent = 0;
    let mut is_kept = vec![true; plan.cells.len()];
    for (number, place) in of_few.iter().enumerate() {
        sent += count(&plan.cells[*place]);
        is_kept[*place] = number == 0 || sent <= MOST_FLOWS;
    }
    let mut is_kept = is_kept.into_iter();
    plan.cells.retain(|_| is_kept.next().unwrap_or(true));
}

/// A cell has the ranks and rails that its flows have.
fn keep_ends_only(cell: &mut Cell) {
    let Some(terms) = &cell.probes else { return };
    let mut ranks: Vec<u32> = terms.flows.iter().flat_map(|flow| [flow.from, flow.to]).collect();
    ranks.sort_unstable();
    ranks.dedup();
    let has_flow = |rail: &String| terms.flows.iter().any(|flow| flow.rail == *rail);
    cell.rails.retain(has_flow);
    cell.ranks = ranks;
}

#[cfg(test)]
mod tests {
    use super::super::cover::{cover, flows_to_try};
    use super::super::share::{share_out_by_paths, shares_taken};
    use super::super::tests::{planned_with, tell_paths};
    use super::*;
    use std::collections::HashMap;

    fn links(numbers: &[u32]) -> Vec<LinkId> {
        numbers.iter().copied().map(LinkId).collect()
    }

    #[test]
    fn flows_that_others_make_needless_are_not_sent_and_no_link_is_given_up_for_that() {
        let flows = [
            links(&[0, 1]),
            links(&[0, 2, 3]),
            links(&[1, 4, 5]),
            links(&[6]),
            links(&[6]),
        ];
        let flows: Vec<&[LinkId]> = flows.iter().map(Vec::as_slice).collect();
        assert_eq!(covering(&flows, 8, 1), [false, true, true, true, false]);
        assert_eq!(covering(&flows, 8, 2), [true; 5]);
        // The first two cover most, and the third makes the first needless.
        let late = [
            links(&[0, 1, 2]),
            links(&[0, 3, 4]),
            links(&[1, 2, 5]),
            links(&[9]),
        ];
        let late: Vec<&[LinkId]> = late.iter().map(Vec::as_slice).collect();
        assert_eq!(covering(&late, 10, 1), [false, true, true, true]);
    }

    #[test]
    fn every_link_is_covered_by_a_third_of_the_flows_and_what_was_traced_beside_them_is_spare() {
        let (mut plan, graph) = planned_with("64x2", |suite| suite.tests[0].probe.flows_per_link = Some(1));
        let planned: Vec<ProbeFlow> = flows_of(&plan.cells).cloned().collect();
        keep_few(&mut plan, &graph);
        let sent = flows_of(&plan.cells).count();
        assert_eq!(sent + plan.spare_probes.len(), planned.len());
        // Every host sends and receives at least once: as many flows as there are host cables are needed.
        assert!((128..=256).contains(&sent), "{sent} of {}", planned.len());
        let mut crossings: HashMap<LinkId, usize> = HashMap::new();
        for link in flows_of(&plan.cells).flat_map(|flow| known_links(flow, &graph).unwrap()) {
            *crossings.entry(link).or_default() += 1;
        }
        assert_eq!(crossings.len(), graph.link_count());
        for cell in &mut plan.cells {
            let terms = cell.probes.as_ref().unwrap();
            assert!(
                terms
                    .flows
                    .iter()
                    .all(|flow| cell.ranks.contains(&flow.from) && cell.ranks.contains(&flow.to))
            );
        }
        share_out_by_paths(&mut plan.cells, &graph, plan.wire);
        for cell in &plan.cells {
            let most = shares_taken(cell, &graph).into_values().fold(0.0, f64::max);
            assert!(most <= 0.0101, "{most}");
        }
    }

    #[test]
    fn links_that_no_planned_flow_crosses_are_covered_by_ports_that_are_tried() {
        let (mut plan, graph) = planned_with("64x1", |suite| {
            let probe = &mut suite.tests[0].probe;
            (probe.sets, probe.partners, probe.flows_per_link) = (1, 1, Some(1));
        });
        keep_few(&mut plan, &graph);
        let crossed = |plan: &Plan| {
            let links = flows_of(&plan.cells).flat_map(|flow| known_links(flow, &graph).unwrap());
            links.collect::<std::collections::HashSet<_>>().len()
        };
        let before = crossed(&plan);
        assert!(before < graph.link_count());
        let ranks = crate::twin::clos(&"64x1".parse().unwrap()).1;
        let mut tried = flows_to_try(&plan, &ranks, &graph);
        tell_paths(&mut tried, &graph);
        cover(&mut plan, &graph, tried);
        let left = graph.link_count() - crossed(&plan);
        assert!(left * 10 < graph.link_count() - before, "{left}");
    }

    #[test]
    fn where_no_path_is_known_nothing_is_left_out_and_where_the_suite_does_not_ask_for_it_neither() {
        let few =
            |flows| move |suite: &mut topology::suite::Suite| suite.tests[0].probe.flows_per_link = flows;
        let (mut plan, graph) = planned_with("16x2", few(Some(1)));
        let terms = plan.cells.iter_mut().filter_map(|cell| cell.probes.as_mut());
        terms
            .flat_map(|terms| &mut terms.flows)
            .for_each(|flow| flow.way = None);
        let cells = plan.cells.clone();
        keep_few(&mut plan, &graph);
        assert_eq!((&plan.cells, plan.spare_probes.len()), (&cells, 0));
        let (mut plan, graph) = planned_with("16x2", few(None));
        let cells = plan.cells.clone();
        keep_few(&mut plan, &graph);
        assert_eq!((&plan.cells, plan.spare_probes.len()), (&cells, 0));
    }
}
