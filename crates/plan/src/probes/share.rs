//! How many packets flows of probes send, so that none of the links they cross carries more than its share of them.

use std::collections::HashMap;

use super::crossed;
use crate::Plan;
use record::units::Rate;
use record::{Cell, ProbeTerms};
use topology::graph::{Graph, LinkId};

/// Shares out how many packets flows send, again where paths have become known since.
pub fn share_out_by_paths(cells: &mut [Cell], graph: &Graph, line: Rate) {
    for cell in cells {
        share_out(cell, graph, line.0);
    }
}

/// Shares out how many packets the flows of a cell send: all alike, until a link carries as much as it may or a rank sends as much as it may; then the others more,
/// and so on. A link of unknown rate carries `line`; flows of unknown path count with their probabilities.
pub(super) fn share_out(cell: &mut Cell, graph: &Graph, line: f64) {
    let Some(terms) = &mut cell.probes else { return };
    let wire = terms.wire.0 as f64;
    let share = f64::from(terms.share_ppm) / 1e6;
    let mut numbers: HashMap<(Option<LinkId>, u32, &str), usize> = HashMap::new();
    let mut limits: Vec<Limit> = Vec::new();
    let mut uses: Vec<Vec<(usize, f64)>> = Vec::new();
    for (place, flow) in terms.flows.iter().enumerate() {
        let links = crossed(flow, graph).into_iter().map(|(link, probability)| {
            let rate = Some(graph.link(link).rate.0)
                .filter(|rate| *rate > 0.0)
                .unwrap_or(line);
            ((Some(link), 0, ""), rate * share / wire, probability)
        });
        let own = (
            (None, flow.from, flow.rail.as_str()),
            f64::from(terms.most_per_second),
            1.0,
        );
        let mut used = Vec::new();
        for (what, most, probability) in links.chain([own]) {
            let number = *numbers.entry(what).or_insert_with(|| {
                limits.push(Limit {
                    left: most,
                    growing: 0.0,
                    flows: Vec::new(),
                });
                limits.len() - 1
            });
            limits[number].growing += probability;
            limits[number].flows.push(place);
            used.push((number, probability));
        }
        uses.push(used);
    }
    let mut per_second: Vec<f64> = vec![0.0; uses.len()];
    let mut is_growing = vec![true; uses.len()];
    while is_growing.contains(&true) {
        let steps = limits.iter().filter(|limit| limit.growing > 1e-9);
        let step = steps
            .map(|limit| limit.left / limit.growing)
            .fold(f64::INFINITY, f64::min);
        if !step.is_finite() {
            break;
        }
        for (flow, grows) in per_second.iter_mut().zip(&is_growing) {
            *flow += if *grows { step } else { 0.0 };
        }
        let mut full = Vec::new();
        for limit in &mut limits {
            limit.left -= step * limit.growing;
            if limit.growing > 1e-9 && limit.left <= 1e-9 * step.max(1.0) {
                full.extend(limit.flows.iter().copied());
            }
        }
        for flow in full {
            if std::mem::take(&mut is_growing[flow]) {
                uses[flow]
                    .iter()
                    .for_each(|(limit, probability)| limits[*limit].growing -= probability);
            }
        }
    }
    let seconds = terms.window.0 as f64 / 1e9;
    for (flow, per_second) in terms.flows.iter_mut().zip(per_second) {
        flow.packets = ((per_second * seconds) as u32).max(1);
    }
}

/// The same by what ranks may send, before paths are known.
pub(super) fn share_out_by_ranks(terms: &mut ProbeTerms) {
    let mut of_rank: HashMap<(u32, &str), u32> = HashMap::new();
    for flow in &terms.flows {
        *of_rank.entry((flow.from, flow.rail.as_str())).or_default() += 1;
    }
    let all = f64::from(terms.most_per_second) * terms.window.0 as f64 / 1e9;
    let packets: Vec<u32> = terms
        .flows
        .iter()
        .map(|flow| ((all / f64::from(of_rank[&(flow.from, flow.rail.as_str())])) as u32).max(1))
        .collect();
    terms
        .flows
        .iter_mut()
        .zip(packets)
        .for_each(|(flow, packets)| flow.packets = packets);
}

/// The share of every link that the probes of a cell take.
pub(super) fn shares_taken(cell: &Cell, graph: &Graph) -> HashMap<LinkId, f64> {
    let mut taken: HashMap<LinkId, f64> = HashMap::new();
    let Some(terms) = &cell.probes else { return taken };
    let wire = terms.wire.0 as f64;
    let seconds = terms.window.0 as f64 / 1e9;
    for flow in &terms.flows {
        for (link, probability) in crossed(flow, graph) {
            let rate = graph.link(link).rate.0;
            if rate > 0.0 {
                *taken.entry(link).or_default() +=
                    probability * f64::from(flow.packets) * wire / (seconds * rate);
            }
        }
    }
    taken
}

/// What probes burden the fabric with, for a progress line.
pub fn what_is_sent(plan: &Plan, graph: &Graph) -> String {
    let cells = || plan.cells.iter().filter(|cell| cell.probes.is_some());
    let taken = cells().flat_map(|cell| shares_taken(cell, graph).into_values());
    let most = taken.fold(0.0, f64::max);
    let per_second = cells().filter_map(|cell| {
        let terms = cell.probes.as_ref()?;
        let packets: u64 = terms.flows.iter().map(|flow| u64::from(flow.packets)).sum();
        let rails_of_ranks = (cell.ranks.len() * cell.rails.len()).max(1);
        Some(packets as f64 * 1e9 / terms.window.0 as f64 / rails_of_ranks as f64)
    });
    let per_second: Vec<f64> = per_second.collect();
    let average = per_second.iter().sum::<f64>() / per_second.len().max(1) as f64;
    format!(
        "each rank sends {average:.0} probes a second on a rail; they take {:.2} % of a link at most",
        most * 100.0
    )
}

/// What flows share: a link, or what a rank sends on a rail.
struct Limit {
    /// Packets a second that it still lets pass.
    left: f64,
    /// Flows that still grow, each with the probability that it is one of them.
    growing: f64,
    flows: Vec<usize>,
}
