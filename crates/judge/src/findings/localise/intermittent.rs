//! Parts that are slow now and then.
//!
//! A part that carried more at another time does not explain a slow flow, by the rule of `explain`: such flows count as disturbances. A cable that
//! is slow in four of five crossings is cleared by the fifth. But disturbances have no reason to gather: with `s` slow ones among the `n`
//! flows that certainly crossed a part, and the others elsewhere, Fisher's exact test says how probable that many are here by chance.
//! The least probable part is a cause of its own; the rest is looked at again without its flows. Slow flows of one slot count once: what disturbs a
//! machine disturbs all that runs at that moment.
//!
//! Assumed: disturbances are independent between slots. What breaks that (a neighbour's job that comes and goes for minutes) hits all parts that are
//! measured meanwhile, and not the flows of one part all over the run.

use std::collections::{BTreeMap, BTreeSet};

use super::element::{Element, Elements};
use super::explain::{RANK_WEIGHT, shares_of};
use super::flow::{FlowState, MeasuredFlow};
use record::stats::more_often;

/// Fewer slow crossings say nothing.
const FEWEST: usize = 2;
/// A part is worth more measurements from this p-value on, before it is corrected for all parts.
const SUSPICIOUS: f64 = 0.005;

/// A part that slow flows gather on.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct IntermittentPart {
    /// The part and its alternatives, with their shares of belief.
    pub(super) suspects: Vec<(Element, f64)>,
    /// Its slow flows, as numbers into the list of flows.
    pub(super) flows: Vec<usize>,
    /// How many crossings were slow, and how many there were.
    pub(super) crossings: (u32, u32),
    /// The probability of as many by chance, not corrected.
    pub(super) p_value: f64,
}

/// Slow crossings and all crossings of one part.
#[derive(Debug, Clone, Default)]
struct Tally {
    flows: Vec<usize>,
    slots: BTreeSet<u32>,
    all: usize,
}

impl Tally {
    fn slow(&self) -> usize {
        self.slots.len()
    }
}

/// The parts that flows which were slow by chance gather on; `transient` are their numbers.
pub(super) fn parts(
    flows: &[MeasuredFlow],
    transient: &[usize],
    elements: &Elements,
) -> Vec<IntermittentPart> {
    let mut left: BTreeSet<usize> = transient.iter().copied().collect();
    let mut found = Vec::new();
    if left.len() < FEWEST {
        return found;
    }
    let is_judged = |flow: &MeasuredFlow| flow.state != FlowState::Unjudged && !flow.contended;
    let judged = flows.iter().filter(|flow| is_judged(flow)).count();
    let mut crossed: Vec<usize> = vec![0; elements.count()];
    for flow in flows.iter().filter(|flow| is_judged(flow)) {
        flow.certain.iter().for_each(|element| crossed[*element] += 1);
    }
    loop {
        let mut tallies: BTreeMap<usize, Tally> = BTreeMap::new();
        let mut slots: BTreeSet<u32> = BTreeSet::new();
        for number in &left {
            slots.insert(flows[*number].slot);
            let single = flows[*number].certain.iter();
            for element in single.filter(|element| elements.whole(**element).is_none()) {
                let tally = tallies.entry(*element).or_default();
                tally.flows.push(*number);
                tally.slots.insert(flows[*number].slot);
                tally.all = crossed[*element];
            }
        }
        let p_value = |tally: &Tally| {
            let elsewhere = slots.len() - tally.slow();
            more_often(
                tally.slow() as u64,
                tally.all.max(tally.slow()) as u64,
                elsewhere as u64,
                judged.saturating_sub(tally.all).max(elsewhere) as u64,
            )
        };
        let gathered = tallies.iter().filter(|(_, tally)| tally.slow() >= FEWEST);
        let best = gathered
            .map(|(element, tally)| (p_value(tally), *element))
            .min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let Some((p_value, best)) = best.filter(|(p_value, _)| *p_value < SUSPICIOUS) else {
            return found;
        };
        let own = &tallies[&best];
        found.push(IntermittentPart {
            suspects: suspects(best, &tallies, (slots.len(), judged), elements),
            flows: own.flows.clone(),
            crossings: (own.slow() as u32, own.all as u32),
            p_value,
        });
        let explained: BTreeSet<usize> = own.flows.iter().copied().collect();
        left.retain(|number| !explained.contains(number));
    }
}

/// The part and those that its slow flows also crossed, weighed by how well each explains where flows were slow and where not.
fn suspects(
    best: usize,
    tallies: &BTreeMap<usize, Tally>,
    (slow, judged): (usize, usize),
    elements: &Elements,
) -> Vec<(Element, f64)> {
    let log_likelihood = |tally: &Tally| {
        let of = |slow: usize, all: usize| {
            let (slow, all) = (slow as f64, all.max(slow) as f64);
            let share = (slow + 0.5) / (all + 1.0);
            slow * share.ln() + (all - slow) * (1.0 - share).ln()
        };
        of(tally.slow(), tally.all) + of(slow - tally.slow(), judged.saturating_sub(tally.all))
    };
    let own: BTreeSet<usize> = tallies[&best].flows.iter().copied().collect();
    let most = log_likelihood(&tallies[&best]);
    let weight = |element: usize, tally: &Tally| {
        let prior = match elements.element(element) {
            Element::Link(_) => 1.0,
            _ => RANK_WEIGHT,
        };
        prior * (log_likelihood(tally) - most).exp()
    };
    let alike = tallies
        .iter()
        .filter(|(_, tally)| tally.flows.iter().any(|flow| own.contains(flow)));
    let weights = alike.map(|(element, tally)| (*element, weight(*element, tally)));
    shares_of(weights.collect(), elements)
}
