//! What every element was shown to carry: the largest sum, over slots, of the flows that certainly crossed it.
//!
//! The load of a whole part is a fraction: that of the link of it which carried the largest part of its rate. So a flow that
//! passed one of its links speaks for all of it.

use std::collections::HashMap;

use super::element::Elements;
use super::flow::{FlowState, MeasuredFlow};
use record::units::Rate;

/// What elements carried, slot by slot.
pub(super) struct Loads {
    /// Per element: the largest load of any slot, by the lower ends of the flows' intervals.
    demonstrated: Vec<f64>,
    /// Per element: the largest load by medians.
    most: Vec<f64>,
    /// Per element: flows that certainly crossed it.
    flows: Vec<u32>,
    /// Per slot and element, by the upper ends and by the medians, where several flows share the element.
    shared: HashMap<(u32, usize), (f64, f64)>,
}

impl Loads {
    pub(super) fn of(flows: &[MeasuredFlow], elements: &Elements) -> Loads {
        let mut loads = Loads {
            demonstrated: vec![0.0; elements.count()],
            most: vec![0.0; elements.count()],
            flows: vec![0; elements.count()],
            shared: HashMap::new(),
        };
        let mut order: Vec<&MeasuredFlow> = flows.iter().collect();
        order.sort_by_key(|flow| flow.slot);
        for slot in order.chunk_by(|a, b| a.slot == b.slot) {
            let mut sums: HashMap<usize, (f64, f64, f64, u32)> = HashMap::new();
            for flow in slot {
                for element in flow
                    .certain
                    .iter()
                    .filter(|element| elements.whole(**element).is_none())
                {
                    let (sum, share) = (sums.entry(*element).or_default(), flow.share(*element));
                    // What a slow one of equal links does not carry goes over the others: then nothing says what each did.
                    let is_even = share >= 1.0 || flow.state != FlowState::Slow;
                    sum.0 += if is_even { flow.rate.lower.0 * share } else { 0.0 };
                    sum.1 += flow.rate.median.0 * share;
                    sum.2 += flow.rate.upper.0 * share;
                    sum.3 += 1;
                }
            }
            for (element, (lower, median, upper, count)) in sums {
                loads.demonstrated[element] = loads.demonstrated[element].max(lower);
                loads.most[element] = loads.most[element].max(median);
                loads.flows[element] += count;
                if count > 1 {
                    loads.shared.insert((slot[0].slot, element), (upper, median));
                }
            }
        }
        for link in 0..elements.link_count() {
            let fraction = loads.demonstrated[link] / elements.rate_of(link);
            for whole in elements.wholes_of(link) {
                loads.demonstrated[*whole] = loads.demonstrated[*whole].max(fraction);
            }
        }
        for flow in flows.iter().filter(|flow| !flow.possible.is_empty()) {
            loads.add_uncertain_path(flow, elements);
        }
        loads
    }

    /// A flow that crossed one of several links of a whole part, it is not known which, carried that over the part: as a fraction of
    /// the fastest of them.
    fn add_uncertain_path(&mut self, flow: &MeasuredFlow, elements: &Elements) {
        for whole in flow
            .certain
            .iter()
            .filter(|element| elements.whole(**element).is_some())
        {
            let possible = flow.possible.iter().map(|(link, _)| *link);
            let own = possible.filter(|link| elements.wholes_of(*link).contains(whole));
            let fastest = own.map(|link| elements.rate_of(link)).fold(0.0, f64::max);
            if fastest > 0.0 {
                let demonstrated = &mut self.demonstrated[*whole];
                *demonstrated = demonstrated.max(flow.rate.lower.0 / fastest);
            }
        }
    }

    /// The most an element certainly carried at one time.
    pub(super) fn demonstrated(&self, element: usize) -> f64 {
        self.demonstrated[element]
    }

    /// The most it carried at one time, by medians; none when nothing is known to have crossed it.
    pub(super) fn most(&self, element: usize) -> Option<Rate> {
        (self.flows[element] > 0).then(|| Rate(self.most[element]))
    }

    /// How many flows certainly crossed it.
    pub(super) fn flows(&self, element: usize) -> u32 {
        self.flows[element]
    }

    /// Whether an element may be what limited a flow: it never carried more, by `slack`.
    pub(super) fn may_limit(
        &self,
        flow: &MeasuredFlow,
        element: usize,
        elements: &Elements,
        slack: f64,
    ) -> bool {
        let (at_most, _) = self.with(flow, element, elements);
        self.demonstrated(element) <= at_most * (1.0 + slack)
    }

    /// What an element carried while `flow` ran, if the flow crossed it: at most, and by medians.
    pub(super) fn with(&self, flow: &MeasuredFlow, element: usize, elements: &Elements) -> (f64, f64) {
        let of_one = |element: usize| {
            let shared = self.shared.get(&(flow.slot, element)).copied();
            let share = flow.share(element);
            shared.unwrap_or((flow.rate.upper.0 * share, flow.rate.median.0 * share))
        };
        if elements.whole(element).is_none() {
            return of_one(element);
        }
        let members = flow
            .crossed()
            .filter(|link| elements.wholes_of(*link).contains(&element));
        members.fold((0.0, 0.0), |(upper, median): (f64, f64), link| {
            let (at_most, carried) = of_one(link);
            let rate = elements.rate_of(link);
            (upper.max(at_most / rate), median.max(carried / rate))
        })
    }
}
