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
use std::collections::{BTreeMap, HashMap, HashSet};

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

/// Slow flows that a part explains.
pub(super) struct SlowFlows {
    /// For each the largest probability with which it crossed a link; 1 where its path is known. As bits.
    likeliest_link: HashMap<usize, u64>,
    /// How many there are of each.
    by_likeliest_link: BTreeMap<u64, usize>,
}

/// What may have crossed a part.
#[derive(Default)]
struct Crossings {
    /// Flows in order, with their probabilities.
    flows: Vec<(usize, f64)>,
    /// What the good ones would have carried over it, most first, and the logarithm of the probability that those up to here all missed it.
    good: OnceCell<Vec<(f64, f64)>>,
}

impl Crossings {
    /// The probability that a flow crossed it.
    fn probability(&self, flow: usize) -> f64 {
        let place = self.flows.binary_search_by_key(&flow, |(number, _)| *number);
        place.map_or(0.0, |place| self.flows[place].1)
    }
}

impl<'f> Chance<'f> {
    /// Slow flows that a part explains.
    pub(super) fn slow_flows(&self, flows: &[usize]) -> SlowFlows {
        let likeliest = |flow: &usize| {
            self.flows[*flow]
                .likeliest_link(self.elements.link_count())
                .to_bits()
        };
        let likeliest_link: HashMap<usize, u64> = flows.iter().map(|flow| (*flow, likeliest(flow))).collect();
        let mut by_likeliest_link: BTreeMap<u64, usize> = BTreeMap::new();
        for bits in likeliest_link.values() {
            *by_likeliest_link.entry(*bits).or_default() += 1;
        }
        SlowFlows {
            likeliest_link,
            by_likeliest_link,
        }
    }

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
    /// that these flows crossed it, and that the good ones did not. `over_it` are those of `slow` that may have crossed it.
    pub(super) fn log_likelihood(
        &self,
        element: usize,
        slow: &SlowFlows,
        over_it: &[usize],
        capacity: f64,
    ) -> f64 {
        let Some(crossings) = self.crossings.get(&element) else {
            return 0.0;
        };
        let d = self.disturbance(element, None);
        let of_one = |q: f64| (q + (1.0 - q) * d).ln();
        // What did not cross it needs another fault (see `missed`), and must have crossed that one.
        let mut elsewhere = slow.by_likeliest_link.clone();
        let mut of_slow = 0.0;
        for flow in over_it {
            of_slow += of_one(crossings.probability(*flow));
            if let Some(count) = elsewhere.get_mut(&slow.likeliest_link[flow]) {
                *count -= 1;
            }
        }
        let others = elsewhere.iter().filter(|(_, count)| **count > 0);
        of_slow += others
            .map(|(bits, count)| *count as f64 * of_one(f64::from_bits(*bits)))
            .sum::<f64>();
        of_slow + self.counter_evidence(element, crossings, capacity)
    }

    /// The logarithm of the probability that good flows missed a part that slows down others to `capacity`.
    pub(super) fn missed(&self, element: usize, capacity: f64) -> f64 {
        let crossings = self.crossings.get(&element);
        crossings.map_or(0.0, |crossings| {
            self.counter_evidence(element, crossings, capacity)
        })
    }

    /// Whether a part that explains `slow` is a better explanation than chance. A part that every one of its flows
    /// certainly crossed is not judged here.
    pub(super) fn is_less_likely(
        &self,
        element: usize,
        slow: &[usize],
        capacity: f64,
        unexplained: &Unexplained,
    ) -> bool {
        let Some(crossings) = self.crossings.get(&element) else {
            return true;
        };
        if slow.iter().any(|flow| crossings.probability(*flow) >= 1.0) {
            return true;
        }
        let d = self.disturbance(element, Some(unexplained));
        let of_slow = slow.iter().map(|flow| {
            let q = crossings.probability(*flow);
            ((q + (1.0 - q) * d) / d).ln()
        });
        of_slow.sum::<f64>() + self.counter_evidence(element, crossings, capacity) > 0.0
    }

    /// The p-value of a share of slow flows as large as that of `slow` among all that may have crossed the part, if
    /// they are slow no more often than those elsewhere; none where one of them certainly crossed it.
    pub(super) fn p_value(&self, element: usize, slow: &[usize], unexplained: &Unexplained) -> Option<f64> {
        let crossings = self.crossings.get(&element)?;
        let slots: HashSet<u32> = slow.iter().map(|flow| self.flows[*flow].slot).collect();
        if slow.iter().any(|flow| crossings.probability(*flow) >= 1.0) {
            return None;
        }
        let (others, of_others) = self.elsewhere(element, Some(unexplained));
        Some(Disturbances::seen(others, of_others).ever(slots.len(), crossings.flows.len()))
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
    fn disturbance(&self, element: usize, unexplained: Option<&Unexplained>) -> f64 {
        let (slow, all) = self.elsewhere(element, unexplained);
        (slow as f64 + 1.0) / (all as f64 + 2.0)
    }

    /// The flows that cannot have crossed a part: those of them that are slow and unexplained, and all.
    fn elsewhere(&self, element: usize, unexplained: Option<&Unexplained>) -> (usize, usize) {
        let crossed = self.crossings.get(&element);
        let crossed = crossed.map_or(&[][..], |crossings| &crossings.flows);
        let slow = unexplained.map_or(0, |unexplained| {
            let over_it = crossed.iter().filter(|(flow, _)| unexplained.contains(*flow));
            unexplained.count - over_it.count()
        });
        (slow, self.judged.saturating_sub(crossed.len()))
    }
}

/// The slow flows that nothing explains yet.
pub(super) struct Unexplained {
    is: Vec<bool>,
    count: usize,
}

impl Unexplained {
    /// These ones, of so many flows.
    pub(super) fn of(slow: impl Iterator<Item = usize>, flows: usize) -> Unexplained {
        let mut unexplained = Unexplained {
            is: vec![false; flows],
            count: 0,
        };
        for flow in slow {
            unexplained.is[flow] = true;
            unexplained.count += 1;
        }
        unexplained
    }

    /// Whether a flow is one of them.
    pub(super) fn contains(&self, flow: usize) -> bool {
        self.is[flow]
    }

    /// Whether none is left.
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// These are explained now.
    pub(super) fn remove(&mut self, flows: &[usize]) {
        for flow in flows {
            self.count -= usize::from(std::mem::take(&mut self.is[*flow]));
        }
    }

    /// All of them, in order.
    pub(super) fn into_flows(self) -> impl Iterator<Item = usize> {
        self.is
            .into_iter()
            .enumerate()
            .filter_map(|(flow, is)| is.then_some(flow))
    }
}
