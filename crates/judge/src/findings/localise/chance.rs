//! What flows of unknown path say about a part: a slow one may be a disturbance, a good one may have missed the part.
//!
//! With `q` the probability that a flow crossed a part and `d` that of a disturbance, a flow is slow with probability
//! `q + (1 - q) d` when the part is slow and `d` when nothing is. A good one has probability `1 - q` when the part is
//! slow (up to [`UNNOTICED`]) and 1 when nothing is. The product of the ratios decides. `d` is counted among the flows
//! that cannot have crossed the part, so a noisy fabric needs more evidence. Assumed: flows choose their paths
//! independently of each other. A part that flows certainly crossed (`q` = 1) is ruled out by what it carried, not here; beside parts
//! that are not certain it is weighed like them: good flows over it speak against it, and what it does not explain must have met
//! elsewhere.

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};

use super::element::Elements;
use super::flow::{FlowState, MeasuredFlow};
use super::loads::Loads;
use crate::findings::variation::Disturbances;

/// The probability that a flow over a slow part looks good.
const UNNOTICED: f64 = 0.02;

/// The flows that may have crossed each part, with their probabilities.
pub(super) struct Chance<'f> {
    flows: &'f [MeasuredFlow],
    loads: &'f Loads,
    elements: &'f Elements,
    /// Per part every judged flow that crossed it or may have. Empty where all paths are known.
    crossings: HashMap<usize, Crossings>,
    judged: usize,
}

/// What may have crossed a part.
#[derive(Default)]
struct Crossings {
    /// Flows, with their probabilities.
    flows: Vec<(usize, f64)>,
    /// What the good ones would have carried over it, most first, and the logarithm of the probability that those up to here all missed it.
    good: OnceCell<Vec<(f64, f64)>>,
}

impl<'f> Chance<'f> {
    pub(super) fn new(flows: &'f [MeasuredFlow], loads: &'f Loads, elements: &'f Elements) -> Chance<'f> {
        let mut crossings: HashMap<usize, Crossings> = HashMap::new();
        let has_unknown_paths = flows.iter().any(|flow| !flow.possible.is_empty());
        let judged = || {
            let all = flows.iter().enumerate();
            all.filter(|(_, flow)| flow.state != FlowState::Unjudged && !flow.contended)
        };
        for (number, flow) in judged() {
            let certain = flow.certain.iter().map(|element| (*element, 1.0));
            for (element, probability) in certain.chain(flow.possible.iter().copied()) {
                if has_unknown_paths {
                    let of_part = crossings.entry(element).or_default();
                    of_part.flows.push((number, probability));
                }
            }
        }
        Chance {
            flows,
            loads,
            elements,
            judged: judged().count(),
            crossings,
        }
    }

    /// The logarithm of the probability of what is known, if the part is slow at `capacity` and explains `slow`:
    /// that these flows crossed it, and that the good ones did not.
    pub(super) fn log_likelihood(&self, element: usize, slow: &[usize], capacity: f64) -> f64 {
        let Some(crossings) = self.crossings.get(&element) else {
            return 0.0;
        };
        let d = self.disturbance(element, std::iter::empty());
        let of_slow = slow.iter().map(|flow| {
            let flow = &self.flows[*flow];
            let q = match flow.probability(element) {
                // It needs another fault (see `missed`), and must have crossed that one.
                0.0 => flow.likeliest_link(self.elements.link_count()),
                crossed => crossed,
            };
            (q + (1.0 - q) * d).ln()
        });
        of_slow.sum::<f64>() + self.counter_evidence(element, crossings, capacity)
    }

    /// The logarithm of the probability that good flows missed a part that slows down these flows.
    pub(super) fn missed(&self, element: usize, slow: &[usize]) -> f64 {
        let Some(crossings) = self.crossings.get(&element) else {
            return 0.0;
        };
        let carried = slow
            .iter()
            .map(|flow| self.loads.with(&self.flows[*flow], element, self.elements).1);
        self.counter_evidence(element, crossings, carried.fold(0.0, f64::max))
    }

    /// Whether a flow may have crossed a part.
    pub(super) fn has_crossed(&self, element: usize, flow: usize) -> bool {
        self.flows[flow].probability(element) > 0.0
    }

    /// Whether a part that explains `slow` is a better explanation than chance. A part that every one of its flows
    /// certainly crossed is not judged here.
    pub(super) fn is_less_likely(
        &self,
        element: usize,
        slow: &[usize],
        capacity: f64,
        unexplained: impl Iterator<Item = usize>,
    ) -> bool {
        let Some(crossings) = self.crossings.get(&element) else {
            return true;
        };
        if slow
            .iter()
            .any(|flow| self.flows[*flow].probability(element) >= 1.0)
        {
            return true;
        }
        let d = self.disturbance(element, unexplained);
        let of_slow = slow.iter().map(|flow| {
            let q = self.flows[*flow].probability(element);
            ((q + (1.0 - q) * d) / d).ln()
        });
        of_slow.sum::<f64>() + self.counter_evidence(element, crossings, capacity) > 0.0
    }

    /// The p-value of a share of slow flows as large as that of `slow` among all that may have crossed the part, if
    /// they are slow no more often than those elsewhere; none where one of them certainly crossed it.
    pub(super) fn p_value(
        &self,
        element: usize,
        slow: &[usize],
        unexplained: impl Iterator<Item = usize>,
    ) -> Option<f64> {
        let crossed = self.crossings.get(&element)?.flows.len();
        let slots: HashSet<u32> = slow.iter().map(|flow| self.flows[*flow].slot).collect();
        if slow
            .iter()
            .any(|flow| self.flows[*flow].probability(element) >= 1.0)
        {
            return None;
        }
        let (others, of_others) = self.elsewhere(element, unexplained);
        Some(Disturbances::seen(others, of_others).ever(slots.len(), crossed))
    }

    /// The probability that good flows all missed a part that carries only `capacity`, as a logarithm.
    fn counter_evidence(&self, element: usize, crossings: &Crossings, capacity: f64) -> f64 {
        let good = crossings
            .good
            .get_or_init(|| self.good(element, &crossings.flows));
        let passed = good.partition_point(|(carried, _)| *carried > capacity);
        passed.checked_sub(1).map_or(0.0, |last| good[last].1)
    }

    /// What good flows carried over a part, if they crossed it, most first; with the logarithm of the probability that those up to here all missed it,
    /// being slow with it.
    fn good(&self, element: usize, crossings: &[(usize, f64)]) -> Vec<(f64, f64)> {
        let good = crossings
            .iter()
            .filter(|(flow, _)| self.flows[*flow].state == FlowState::Good);
        let mut good: Vec<(f64, f64)> = good
            .map(|(flow, q)| {
                let (_, carried) = self.loads.with(&self.flows[*flow], element, self.elements);
                (carried, (1.0 - q * (1.0 - UNNOTICED)).ln())
            })
            .filter(|(carried, _)| !carried.is_nan())
            .collect();
        good.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut missed = 0.0;
        for (_, of_one) in &mut good {
            missed += *of_one;
            *of_one = missed;
        }
        good
    }

    /// How often flows that cannot have crossed a part were slow and are not explained; never zero.
    fn disturbance(&self, element: usize, unexplained: impl Iterator<Item = usize>) -> f64 {
        let (slow, all) = self.elsewhere(element, unexplained);
        (slow as f64 + 1.0) / (all as f64 + 2.0)
    }

    /// The flows that cannot have crossed a part: those of them that are slow and unexplained, and all.
    fn elsewhere(&self, element: usize, unexplained: impl Iterator<Item = usize>) -> (usize, usize) {
        let crossed = self
            .crossings
            .get(&element)
            .map_or(0, |crossings| crossings.flows.len());
        let slow = unexplained.filter(|flow| self.flows[*flow].probability(element) == 0.0);
        (slow.count(), self.judged.saturating_sub(crossed))
    }
}
