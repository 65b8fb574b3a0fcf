//! The fewest parts that explain all slow flows.
//!
//! The rate of a flow is that of the slowest part it crosses. So a part is ruled out for a slow flow when it carried
//! more at another time than it carried while that flow was slow; the parts that are left are the flow's candidates.
//! A part that flows only may have crossed is also ruled out when chance explains them better (`chance`). The part
//! that is a candidate of most slow flows explains those that ran at its rate; a flow that is slower still, or does
//! not cross it, needs another one. A slow flow without a candidate was slow by chance.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::chance::{Chance, Unexplained};
use super::element::{Element, Elements};
use super::flow::{FlowState, MeasuredFlow};
use super::loads::Loads;

/// How far below the rate of the part that explains it a flow may lie: noise of two measurements.
const ALIKE: f64 = 0.2;
/// How much more a link of a whole part may have carried than another when the part as a whole is slow: its links are not alike.
const SLACK_OF_WHOLE: f64 = 0.1;
/// A part that explains this share of the flows is not ruled out for the others by noise.
const MOSTLY: f64 = 0.8;
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
    let mut left_of: Vec<Vec<usize>> = vec![Vec::new(); flows.len()];
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
            false => left_of[number] = left,
        }
    }
    let chance = Chance::new(flows, loads, elements);
    let carried_by_good = carried_by_good(flows, loads, elements);
    let candidates = Candidates::of(left_of, flows, loads, elements);
    let slow = candidates
        .of_flow
        .iter()
        .enumerate()
        .filter(|(_, left)| !left.is_empty());
    let mut unexplained = Unexplained::of(slow.map(|(number, _)| number), flows.len());
    let mut carried = Carried {
        of_part: candidates.of_part.clone(),
        elements,
    };
    while !unexplained.is_empty() {
        let mut covers = carried.covers();
        covers.of_part.retain(|element, cover| {
            let is_refuted = carried_by_good
                .get(element)
                .is_some_and(|most| *most > cover.capacity);
            !is_refuted && chance.is_less_likely(*element, &cover.flows, cover.capacity, &unexplained)
        });
        let Some((best, cover)) = covers.best().filter(|(_, cover)| !cover.flows.is_empty()) else {
            break;
        };
        let may_limit =
            |element: usize, flow: usize| loads.may_limit(&flows[flow], element, elements, SLACK_OF_WHOLE);
        let suspects = weigh(best, cover, &covers, &candidates, flows, &chance, may_limit);
        unexplained.remove(&cover.flows);
        explained.causes.push(Explanation {
            suspects,
            by_chance: chance.p_value(best, &cover.flows, &unexplained),
            flows: cover.flows.clone(),
        });
        carried.keep(&unexplained);
    }
    // Chance explains what is left better than any part.
    explained.transient.extend(unexplained.into_flows());
    explained.transient.sort_unstable();
    explained
}

/// The most that flows which are as fast as they should be carried over each whole part that they certainly crossed. A part that slows down others to less
/// than that is none.
fn carried_by_good(flows: &[MeasuredFlow], loads: &Loads, elements: &Elements) -> HashMap<usize, f64> {
    let mut most: HashMap<usize, f64> = HashMap::new();
    for flow in flows
        .iter()
        .filter(|flow| flow.state == FlowState::Good && !flow.contended)
    {
        let wholes = flow
            .certain
            .iter()
            .filter(|element| elements.whole(**element).is_some());
        for whole in wholes {
            let (_, carried) = loads.with(flow, *whole, elements);
            let most = most.entry(*whole).or_insert(carried);
            *most = most.max(carried);
        }
    }
    most
}

/// The flows that a part explains by itself, in order, and what it then carries.
struct Cover {
    flows: Vec<usize>,
    capacity: f64,
}

/// What each candidate explains.
struct Covers<'e> {
    of_part: BTreeMap<usize, Cover>,
    elements: &'e Elements,
}

/// Which parts may be the reason that each slow flow is slow.
struct Candidates {
    /// Per flow; none for those that are not slow.
    of_flow: Vec<Vec<usize>>,
    /// Per part its flows.
    of_part: BTreeMap<usize, Vec<SlowFlow>>,
}

/// A slow flow of which a part may be the reason.
#[derive(Clone, Copy)]
struct SlowFlow {
    number: usize,
    /// What the part carried while it ran, if the flow crossed it.
    carried: f64,
    /// Whether only shares of it crossed the part.
    is_spread: bool,
}

impl Candidates {
    fn of(
        of_flow: Vec<Vec<usize>>,
        flows: &[MeasuredFlow],
        loads: &Loads,
        elements: &Elements,
    ) -> Candidates {
        let mut of_part: BTreeMap<usize, Vec<SlowFlow>> = BTreeMap::new();
        for ((number, left), flow) in of_flow.iter().enumerate().zip(flows) {
            for element in left {
                of_part.entry(*element).or_default().push(SlowFlow {
                    number,
                    carried: loads.with(flow, *element, elements).1,
                    is_spread: flow.is_spread_over(*element, elements),
                });
            }
        }
        Candidates { of_flow, of_part }
    }

    /// The most that a part carried while these flows ran.
    fn carried(&self, part: usize, flows: &[usize]) -> f64 {
        let own = self.of_part.get(&part).map_or(&[][..], Vec::as_slice);
        let carried = flows.iter().filter_map(|flow| {
            let place = own.binary_search_by_key(flow, |slow| slow.number).ok()?;
            Some(own[place].carried)
        });
        carried.fold(0.0, f64::max)
    }
}

/// What each candidate carried while the slow flows ran that nothing explains yet.
struct Carried<'e> {
    of_part: BTreeMap<usize, Vec<SlowFlow>>,
    elements: &'e Elements,
}

impl<'e> Carried<'e> {
    /// Only these flows are left.
    fn keep(&mut self, unexplained: &Unexplained) {
        self.of_part.retain(|_, carried| {
            carried.retain(|slow| unexplained.contains(slow.number));
            !carried.is_empty()
        });
    }

    fn covers(&self) -> Covers<'e> {
        let of_part = self.of_part.iter().map(|(element, carried)| {
            let capacity = carried.iter().map(|slow| slow.carried).fold(0.0, f64::max);
            // How much more than its rate seems to cross a slow one of equal links depends on how many flows are spread over them.
            let explained = carried
                .iter()
                .filter(|slow| slow.is_spread || slow.carried >= capacity * (1.0 - ALIKE));
            let flows = explained.map(|slow| slow.number).collect();
            (*element, Cover { flows, capacity })
        });
        Covers {
            of_part: of_part.collect(),
            elements: self.elements,
        }
    }
}

impl Covers<'_> {
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
}

/// Whether a part may be the reason that all of these flows are slow.
fn explains(part: usize, flows: &[usize], candidates: &Candidates) -> bool {
    let is_left = |flow: &usize| candidates.of_flow[*flow].contains(&part);
    flows.iter().all(is_left)
}

/// The parts of which any may be the reason that all of these flows are slow.
fn common(flows: &[usize], candidates: &Candidates) -> BTreeSet<usize> {
    let first = flows.first().map(|first| &candidates.of_flow[*first]);
    let parts = first.into_iter().flatten().copied();
    parts.filter(|part| explains(*part, flows, candidates)).collect()
}

/// How many faults slow down the flows that a part does not explain: one where another part is common to all of them, else one for each;
/// and the logarithm of the probability that good flows missed those. `aside` are no such parts.
fn further_faults(
    missing: &[usize],
    aside: &BTreeSet<usize>,
    candidates: &Candidates,
    chance: &Chance<'_>,
) -> (usize, f64) {
    // The likeliest of the parts that explain these.
    let likeliest = |flows: &[usize]| {
        let left = flows.first().map(|first| &candidates.of_flow[*first]);
        let parts = left.into_iter().flatten().filter(|part| !aside.contains(part));
        let common = parts.filter(|part| explains(**part, flows, candidates));
        common
            .map(|part| chance.missed(*part, candidates.carried(*part, flows)))
            .reduce(f64::max)
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

/// Those of `all` that are not among `some`. Both are in order.
fn without(all: &[usize], some: &[usize]) -> Vec<usize> {
    let mut some = some.iter().peekable();
    let is_other = |flow: &&usize| {
        while some.next_if(|next| *next < *flow).is_some() {}
        some.peek() != Some(flow)
    };
    all.iter().filter(is_other).copied().collect()
}

/// The suspects for what `best` explains: itself, and every alternative, with further faults where it needs them.
fn weigh(
    best: usize,
    cover: &Cover,
    covers: &Covers<'_>,
    candidates: &Candidates,
    flows: &[MeasuredFlow],
    chance: &Chance<'_>,
    may_limit: impl Fn(usize, usize) -> bool,
) -> Vec<(Element, f64)> {
    let prior = |element: usize| covers.elements.prior(element);
    // What a part carries is in its own unit: of a whole part a fraction.
    let covered = &cover.flows;
    let slow_flows = chance.slow_flows(covered);
    let likelihood = |element: usize, over_it: &[usize], capacity: f64| {
        chance.log_likelihood(element, &slow_flows, over_it, capacity)
    };
    let of_best = likelihood(best, covered, cover.capacity);
    let elements = covers.elements;
    let mut weights = vec![(best, prior(best))];
    // What explains all of them needs nothing beside it, and is none of the further faults of another part.
    let mut aside = common(covered, candidates);
    aside.insert(best);
    // The flows that may have crossed each part.
    let mut crossing: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for flow in covered {
        for element in flows[*flow].crossed() {
            crossing.entry(element).or_default().push(*flow);
        }
    }
    let others = crossing.iter().filter(|(element, _)| **element != best);
    for (element, crossing, other) in
        others.filter_map(|(element, crossing)| Some((element, crossing, covers.of_part.get(element)?)))
    {
        // A whole part was given more slack than its links: they get the same beside it. Of many flows, some lie far apart by chance.
        let is_close =
            elements.whole(best).is_some() || other.flows.len() as f64 >= MOSTLY * covered.len() as f64;
        let is_explained = |flow: &&usize| {
            other.flows.binary_search(flow).is_ok() || (is_close && may_limit(*element, **flow))
        };
        let explained: Vec<usize> = crossing.iter().filter(is_explained).copied().collect();
        let missing = without(covered, &explained);
        if missing.len() == covered.len() {
            continue;
        }
        let (further, missed) = further_faults(&missing, &aside, candidates, chance);
        // One of its links, and further faults that slow the others down, is the whole part in other words.
        if further > 0 && elements.is_within(*element, best) {
            continue;
        }
        let weight = prior(*element)
            * ANOTHER_FAULT.powi(further as i32)
            * (likelihood(*element, crossing, other.capacity) + missed - of_best).exp();
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
