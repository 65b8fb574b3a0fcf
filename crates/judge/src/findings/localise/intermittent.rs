//! Parts that are slow now and then.
//!
//! A part that carried more at another time does not explain a slow flow, by the rule of `explain`: such flows count as disturbances. A cable that
//! is slow in four of five crossings is cleared by the fifth. But disturbances have no reason to gather: with `s` slow ones among the `n`
//! slots in which flows certainly crossed a part, the share of slow flows elsewhere says how probable that many are here by chance (binomial).
//! The least probable part is a cause of its own; the rest is looked at again without its flows. Slow flows of one slot count once: what disturbs a
//! machine disturbs all that runs at that moment.
//!
//! Assumed: disturbances are independent between slots. What breaks that (a neighbour's job that comes and goes for minutes) hits all parts that are
//! measured meanwhile, and not the flows of one part all over the run.

use std::collections::{BTreeMap, BTreeSet};

use super::element::RANK_WEIGHT;
use super::element::{Element, Elements};
use super::explain::shares_of;
use super::flow::{FlowState, MeasuredFlow};
use crate::findings::variation::Disturbances;

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
    /// Slots with a slow one.
    slots: BTreeSet<u32>,
    /// All flows over it, and their slots.
    all: usize,
    crossed: usize,
}

impl Tally {
    fn slow(&self) -> usize {
        self.slots.len()
    }
}

/// The parts that flows which were slow by chance gather on; `transient` are their numbers, and `accounted` those of flows that are slow for a known
/// reason.
pub(super) fn parts(
    flows: &[MeasuredFlow],
    transient: &[usize],
    accounted: &BTreeSet<usize>,
    elements: &Elements,
) -> Vec<IntermittentPart> {
    let mut left: BTreeSet<usize> = transient.iter().copied().collect();
    let mut found = Vec::new();
    if left.len() < FEWEST {
        return found;
    }
    let is_judged = |flow: &MeasuredFlow| flow.state != FlowState::Unjudged && !flow.contended;
    let judged = flows.iter().filter(|flow| is_judged(flow)).count();
    let mut crossed: Vec<(usize, BTreeSet<u32>)> = vec![Default::default(); elements.count()];
    for flow in flows.iter().filter(|flow| is_judged(flow)) {
        for element in &flow.certain {
            crossed[*element].0 += 1;
            crossed[*element].1.insert(flow.slot);
        }
    }
    // Also what an unconfirmed part explains may be a disturbance.
    let is_disturbed = |(number, flow): &(usize, &MeasuredFlow)| {
        flow.state == FlowState::Slow && !flow.contended && !accounted.contains(number)
    };
    let mut disturbed: BTreeSet<usize> = flows
        .iter()
        .enumerate()
        .filter(is_disturbed)
        .map(|(number, _)| number)
        .collect();
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
                (tally.all, tally.crossed) = (crossed[*element].0, crossed[*element].1.len());
            }
        }
        let mut disturbed_over = vec![0; elements.count()];
        for element in disturbed.iter().flat_map(|flow| &flows[*flow].certain) {
            disturbed_over[*element] += 1;
        }
        let elsewhere = |element: usize, tally: &Tally| {
            let slow = disturbed.len() - disturbed_over[element];
            Disturbances::seen(slow, judged.saturating_sub(tally.all).max(slow))
        };
        let gathered = tallies.iter().filter(|(_, tally)| tally.slow() >= FEWEST);
        let best = gathered
            .map(|(element, tally)| {
                let p_value = elsewhere(*element, tally).at_least(tally.slow(), tally.crossed);
                (p_value, *element)
            })
            .min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let Some((_, best)) = best.filter(|(p_value, _)| *p_value < SUSPICIOUS) else {
            return found;
        };
        let own = &tallies[&best];
        found.push(IntermittentPart {
            suspects: suspects(best, &tallies, (slots.len(), judged), elements),
            flows: own.flows.clone(),
            crossings: (own.slow() as u32, own.crossed as u32),
            p_value: elsewhere(best, own).ever(own.slow(), own.crossed),
        });
        let explained: BTreeSet<usize> = own.flows.iter().copied().collect();
        left.retain(|number| !explained.contains(number));
        disturbed.retain(|number| !explained.contains(number));
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
