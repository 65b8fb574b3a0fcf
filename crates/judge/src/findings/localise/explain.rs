//! The fewest parts that explain all slow flows.
//!
//! The rate of a flow is that of the slowest part it crosses. So a part is ruled out for a slow flow when it carried
//! more at another time than it carried while that flow was slow; the parts that are left are the flow's candidates.
//! A part that flows only may have crossed is also ruled out when chance explains them better (`chance`). The part
//! that is a candidate of most slow flows explains those that ran at its rate; a flow that is slower still, or does
//! not cross it, needs another one. A slow flow without a candidate was slow by chance.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::chance::Chance;
use super::element::{Element, Elements};
use super::flow::{FlowState, MeasuredFlow};
use super::loads::Loads;

/// How far below the rate of the part that explains it a flow may lie: noise of two measurements.
const ALIKE: f64 = 0.2;
/// How much more a link of a whole part may have carried than another when the part as a whole is slow: its links are not alike.
const SLACK_OF_WHOLE: f64 = 0.1;
/// A part that explains this share of the flows is not ruled out for the others by noise.
const MOSTLY: f64 = 0.8;
/// Weight of a rank relative to a cable that explains the same.
pub(super) const RANK_WEIGHT: f64 = 0.25;
/// Weight of every further fault that an explanation needs.
const ANOTHER_FAULT: f64 = 0.05;
/// The most further faults that are counted.
const MOST_FURTHER: usize = 3;
/// Explanations below this weight are not reported.
const LIGHTEST: f64 = 0.03;

/// A part that explains some slow flows.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Explanation {
    /// The part and its alternatives, with their shares of belief; the first has the largest.
    pub(super) suspects: Vec<(Element, f64)>,
    /// The flows it explains, as numbers into the list of flows.
    pub(super) flows: Vec<usize>,
    /// P-value of that many slow flows by chance, where it is not certain that they crossed the part.
    pub(super) by_chance: Option<f64>,
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
        // What is sprayed meets the same links as others of its slot: a link that does not slow them down is not the reason.
        let slot_mates: Vec<&MeasuredFlow> = match flow.shares.is_empty() {
            true => Vec::new(),
            false => flows
                .iter()
                .filter(|other| other.slot == flow.slot && other.state == FlowState::Good)
                .collect(),
        };
        let may_be_it = |element: &usize| {
            let slack = match elements.whole(*element) {
                Some(_) => slack(flow).max(SLACK_OF_WHOLE),
                None => slack(flow),
            };
            let is_shared = |mate: &&MeasuredFlow| mate.is_spread_over(*element, elements);
            let has_passed = flow.is_spread_over(*element, elements) && slot_mates.iter().any(is_shared);
            !has_passed && loads.may_limit(flow, *element, elements, slack)
        };
        let left: Vec<usize> = flow.crossed().filter(may_be_it).collect();
        match left.is_empty() {
            true => explained.transient.push(number),
            false => {
                candidates.insert(number, left);
            }
        }
    }
    let chance = Chance::new(flows, loads, elements);
    let all = candidates.clone();
    while !candidates.is_empty() {
        let mut covers = Covers::of(&candidates, flows, loads, elements);
        covers.of_part.retain(|element, cover| {
            let unexplained = candidates.keys().copied();
            let is_whole = elements.whole(*element).is_some();
            let is_refuted = is_whole && has_passed(*element, cover.capacity, flows, loads, elements);
            !is_refuted && chance.is_less_likely(*element, &cover.flows, cover.capacity, unexplained)
        });
        let Some((best, cover)) = covers.best().filter(|(_, cover)| !cover.flows.is_empty()) else {
            break;
        };
        let suspects = weigh(best, cover, &covers, &all, elements, &chance, |element, flow| {
            loads.may_limit(&flows[flow], element, elements, SLACK_OF_WHOLE)
        });
        for flow in &cover.flows {
            candidates.remove(flow);
        }
        explained.causes.push(Explanation {
            suspects,
            by_chance: chance.p_value(best, &cover.flows, candidates.keys().copied()),
            flows: cover.flows.clone(),
        });
    }
    // Chance explains what is left better than any part.
    explained.transient.extend(candidates.into_keys());
    explained.transient.sort_unstable();
    explained
}

/// Whether a flow that is as fast as it should be certainly crossed a part and carried more than its slow flows did.
fn has_passed(
    element: usize,
    capacity: f64,
    flows: &[MeasuredFlow],
    loads: &Loads,
    elements: &Elements,
) -> bool {
    let good = flows
        .iter()
        .filter(|flow| flow.state == FlowState::Good && !flow.contended);
    let mut crossed = good.filter(|flow| flow.certain.contains(&element));
    crossed.any(|flow| loads.with(flow, element, elements).1 > capacity)
}

/// The flows that a part explains by itself, and what it then carries.
struct Cover {
    flows: Vec<usize>,
    capacity: f64,
}

/// What each candidate explains.
struct Covers<'e> {
    of_part: BTreeMap<usize, Cover>,
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
                let (_, carried) = loads.with(&flows[*flow], *element, elements);
                of_element.entry(*element).or_default().push((*flow, carried));
            }
        }
        let of_part = of_element.into_iter().map(|(element, carried)| {
            let capacity = carried.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
            // How much more than its rate seems to cross a slow one of equal links depends on how many flows are spread over them.
            let is_spread = |flow: usize| flows[flow].is_spread_over(element, elements);
            let explained = carried
                .iter()
                .filter(|(flow, rate)| is_spread(*flow) || *rate >= capacity * (1.0 - ALIKE));
            let flows = explained.map(|(flow, _)| *flow).collect();
            (element, Cover { flows, capacity })
        });
        Covers {
            of_part: of_part.collect(),
            elements,
        }
    }

    /// The one that explains most; of equals the smallest: a cable before a rank before a whole part.
    fn best(&self) -> Option<(usize, &Cover)> {
        let best = self.of_part.iter().max_by_key(|(element, cover)| {
            (
                cover.flows.len(),
                Reverse(self.size(**element)),
                Reverse(**element),
            )
        });
        best.map(|(element, cover)| (*element, cover))
    }

    fn size(&self, element: usize) -> usize {
        match (self.elements.element(element), self.elements.whole(element)) {
            (Element::Link(_), _) => 0,
            (_, None) => 1,
            (_, Some(whole)) => 1 + whole.links.len(),
        }
    }

    /// How likely a part is at fault, relative to a cable that explains the same: cables fail more often than hosts.
    fn prior(&self, element: usize) -> f64 {
        match (self.elements.element(element), self.elements.whole(element)) {
            (Element::Link(_), _) => 1.0,
            (_, None) => RANK_WEIGHT,
            (_, Some(whole)) => whole.kind.prior(),
        }
    }
}

/// How many faults slow down the flows that a part does not explain: one where another part is common to all of them, else one for each;
/// and the logarithm of the probability that good flows missed those. A part that explains all of `covered` needs nothing beside it, and
/// is none of them.
fn further_faults(
    best: usize,
    covered: &[usize],
    missing: &[usize],
    candidates: &BTreeMap<usize, Vec<usize>>,
    chance: &Chance<'_>,
) -> (usize, f64) {
    let is_left = |part: usize, flow: &usize| candidates.get(flow).is_some_and(|left| left.contains(&part));
    let explains = |part: usize, flows: &[usize]| flows.iter().all(|flow| is_left(part, flow));
    // The likeliest of the parts that explain these.
    let likeliest = |flows: &[usize]| {
        let left = flows.first().and_then(|first| candidates.get(first));
        let common = left
            .into_iter()
            .flatten()
            .filter(|part| **part != best && explains(**part, flows) && !explains(**part, covered));
        common.map(|part| chance.missed(*part, flows)).reduce(f64::max)
    };
    if missing.is_empty() {
        return (0, 0.0);
    }
    if let Some(missed) = likeliest(missing) {
        return (1, missed);
    }
    let each = missing.iter().take(MOST_FURTHER);
    let missed: Vec<f64> = each.map(|flow| likeliest(&[*flow]).unwrap_or(0.0)).collect();
    (missed.len(), missed.iter().sum())
}

/// The suspects for what `best` explains: itself, and every alternative, with further faults where it needs them.
fn weigh(
    best: usize,
    cover: &Cover,
    covers: &Covers<'_>,
    candidates: &BTreeMap<usize, Vec<usize>>,
    elements: &Elements,
    chance: &Chance<'_>,
    may_limit: impl Fn(usize, usize) -> bool,
) -> Vec<(Element, f64)> {
    let prior = |element: usize| covers.prior(element);
    // What a part carries is in its own unit: of a whole part a fraction.
    let likelihood = |element: usize, own: &Cover| chance.log_likelihood(element, &cover.flows, own.capacity);
    let of_best = likelihood(best, cover);
    let covered = &cover.flows;
    let mut weights = vec![(best, prior(best))];
    for (element, other) in covers.of_part.iter().filter(|(element, _)| **element != best) {
        // A whole part was given more slack than its links: they get the same beside it. Of many flows, some lie far apart by chance.
        let is_close =
            elements.whole(best).is_some() || other.flows.len() as f64 >= MOSTLY * covered.len() as f64;
        let is_missing = |flow: &&usize| {
            let is_let_off = is_close && chance.has_crossed(*element, **flow) && may_limit(*element, **flow);
            !other.flows.contains(flow) && !is_let_off
        };
        let missing: Vec<usize> = covered.iter().filter(is_missing).copied().collect();
        if missing.len() == covered.len() {
            continue;
        }
        let (further, missed) = further_faults(best, covered, &missing, candidates, chance);
        // One of its links, and further faults that slow the others down, is the whole part in other words.
        if further > 0 && elements.is_within(*element, best) {
            continue;
        }
        let weight = prior(*element)
            * ANOTHER_FAULT.powi(further as i32)
            * (likelihood(*element, other) + missed - of_best).exp();
        weights.push((*element, weight));
    }
    shares_of(weights, elements)
}

/// The shares of belief of parts with these weights, the largest first; the lightest are left out.
pub(super) fn shares_of(weights: Vec<(usize, f64)>, elements: &Elements) -> Vec<(Element, f64)> {
    let sum: f64 = weights.iter().map(|(_, weight)| weight).sum();
    let mut suspects: Vec<(Element, f64)> = weights
        .into_iter()
        .map(|(element, weight)| (elements.element(element), weight / sum))
        .filter(|(_, share)| *share >= LIGHTEST)
        .collect();
    suspects.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    suspects
}
