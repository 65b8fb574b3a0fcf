//! The fewest parts that explain all slow flows.
//!
//! The rate of a flow is that of the slowest part it crosses. So a part is ruled out for a slow flow when it carried
//! more at another time than it carried while that flow was slow; the parts that are left are the flow's candidates.
//! The part that is a candidate of most slow flows explains those that ran at its rate; a flow that is slower still,
//! or does not cross it, needs another one. A slow flow without a candidate was slow by chance: everything it crossed
//! carried more.

use std::collections::BTreeMap;

use super::element::{Element, Elements};
use super::flow::{FlowState, MeasuredFlow};
use super::loads::Loads;

/// How far below the rate of the part that explains it a flow may lie: noise of two measurements.
const ALIKE: f64 = 0.2;
/// Weight of a rank relative to a cable that explains the same: cables fail more often than hosts.
const RANK_WEIGHT: f64 = 0.25;
/// Weight of every further fault that an explanation needs.
const ANOTHER_FAULT: f64 = 0.05;
/// Explanations below this weight are not reported.
const LIGHTEST: f64 = 0.01;

/// A part that explains some slow flows.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Explanation {
    /// The part and its alternatives, with their shares of belief; the first has the largest.
    pub(super) suspects: Vec<(Element, f64)>,
    /// The flows it explains, as numbers into the list of flows.
    pub(super) flows: Vec<usize>,
}

/// The explanations of all slow flows.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Explanations {
    /// Parts, the one that explains most first.
    pub(super) causes: Vec<Explanation>,
    /// Flows that were slow by chance.
    pub(super) transient: Vec<usize>,
}

/// Explains the slow flows that `is_evidence` accepts. `slack` is the relative difference from which two rates of a
/// flow count as different.
pub(super) fn explain(
    flows: &[MeasuredFlow],
    loads: &Loads,
    elements: &Elements,
    is_evidence: impl Fn(&MeasuredFlow) -> bool,
    slack: impl Fn(&MeasuredFlow) -> f64,
) -> Explanations {
    let mut explained = Explanations::default();
    // Per slow flow its candidates; per candidate its flows with what it carried while they were slow.
    let mut candidates: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (number, flow) in flows.iter().enumerate() {
        if flow.state != FlowState::Slow || flow.contended || !is_evidence(flow) {
            continue;
        }
        let may_be_it = |element: &usize| {
            let (at_most, _) = loads.with(flow, *element);
            loads.demonstrated(*element) <= at_most * (1.0 + slack(flow))
        };
        let left: Vec<usize> = flow.crossed().filter(may_be_it).collect();
        match left.is_empty() {
            true => explained.transient.push(number),
            false => {
                candidates.insert(number, left);
            }
        }
    }
    let all = candidates.clone();
    while !candidates.is_empty() {
        let covers = Covers::of(&candidates, flows, loads, elements);
        let Some((best, covered)) = covers.best().filter(|(_, covered)| !covered.is_empty()) else {
            break;
        };
        let suspects = weigh(best, covered, &covers, &all, elements);
        for flow in covered {
            candidates.remove(flow);
        }
        explained.causes.push(Explanation {
            suspects,
            flows: covered.to_vec(),
        });
    }
    explained
}

/// Which flows each candidate explains by itself.
struct Covers<'e> {
    flows: BTreeMap<usize, Vec<usize>>,
    elements: &'e Elements,
}

impl<'e> Covers<'e> {
    fn of(
        candidates: &BTreeMap<usize, Vec<usize>>,
        flows: &[MeasuredFlow],
        loads: &Loads,
        elements: &'e Elements,
    ) -> Covers<'e> {
        let mut of_element: BTreeMap<usize, Vec<(usize, f64)>> = BTreeMap::new();
        for (flow, left) in candidates {
            for element in left {
                let (_, carried) = loads.with(&flows[*flow], *element);
                of_element.entry(*element).or_default().push((*flow, carried));
            }
        }
        let flows = of_element.into_iter().map(|(element, carried)| {
            let capacity = carried.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
            let explained = carried
                .iter()
                .filter(|(_, rate)| *rate >= capacity * (1.0 - ALIKE));
            (element, explained.map(|(flow, _)| *flow).collect())
        });
        Covers {
            flows: flows.collect(),
            elements,
        }
    }

    /// The one that explains most; of equals a cable before a rank.
    fn best(&self) -> Option<(usize, &[usize])> {
        let best = self.flows.iter().max_by_key(|(element, flows)| {
            (flows.len(), self.is_link(**element), std::cmp::Reverse(**element))
        });
        best.map(|(element, flows)| (*element, flows.as_slice()))
    }

    fn is_link(&self, element: usize) -> bool {
        matches!(self.elements.element(element), Element::Link(_))
    }
}

/// The suspects for what `best` explains: itself, and every alternative, with further faults where it needs them.
fn weigh(
    best: usize,
    covered: &[usize],
    covers: &Covers<'_>,
    candidates: &BTreeMap<usize, Vec<usize>>,
    elements: &Elements,
) -> Vec<(Element, f64)> {
    let prior = |element: usize| if covers.is_link(element) { 1.0 } else { RANK_WEIGHT };
    let mut weights = vec![(best, prior(best))];
    for (element, flows) in covers.flows.iter().filter(|(element, _)| **element != best) {
        let missing: Vec<&usize> = covered.iter().filter(|flow| !flows.contains(flow)).collect();
        if missing.len() == covered.len() {
            continue;
        }
        let further = match missing.as_slice() {
            [] => 0,
            [first, rest @ ..] => {
                let shares = |other: &&usize| {
                    **other != best
                        && rest
                            .iter()
                            .all(|flow| candidates.get(flow).is_some_and(|left| left.contains(other)))
                };
                let common = candidates
                    .get(first)
                    .is_some_and(|left| left.iter().any(|other| shares(&other)));
                if common { 1 } else { missing.len().min(3) }
            }
        };
        weights.push((*element, prior(*element) * ANOTHER_FAULT.powi(further as i32)));
    }
    let sum: f64 = weights.iter().map(|(_, weight)| weight).sum();
    let mut suspects: Vec<(Element, f64)> = weights
        .into_iter()
        .map(|(element, weight)| (elements.element(element), weight / sum))
        .filter(|(_, share)| *share >= LIGHTEST)
        .collect();
    suspects.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    suspects
}
