//! What every element was shown to carry: the largest sum, over slots, of the flows that certainly crossed it.

use std::collections::HashMap;

use super::flow::MeasuredFlow;
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
    pub(super) fn of(flows: &[MeasuredFlow], elements: usize) -> Loads {
        let mut loads = Loads {
            demonstrated: vec![0.0; elements],
            most: vec![0.0; elements],
            flows: vec![0; elements],
            shared: HashMap::new(),
        };
        let mut order: Vec<&MeasuredFlow> = flows.iter().collect();
        order.sort_by_key(|flow| flow.slot);
        for slot in order.chunk_by(|a, b| a.slot == b.slot) {
            let mut sums: HashMap<usize, (f64, f64, f64, u32)> = HashMap::new();
            for flow in slot {
                for element in &flow.certain {
                    let sum = sums.entry(*element).or_default();
                    sum.0 += flow.rate.lower.0;
                    sum.1 += flow.rate.median.0;
                    sum.2 += flow.rate.upper.0;
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
        loads
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

    /// What an element carried while `flow` ran, if the flow crossed it: at most, and by medians.
    pub(super) fn with(&self, flow: &MeasuredFlow, element: usize) -> (f64, f64) {
        let shared = self.shared.get(&(flow.slot, element)).copied();
        shared.unwrap_or((flow.rate.upper.0, flow.rate.median.0))
    }
}
