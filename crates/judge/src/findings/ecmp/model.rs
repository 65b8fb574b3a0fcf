//! What every link carried in every slot, beside what it should have: fair shares of the flows that crossed it.
//!
//! Flows take what they can get. So the paths of flows and the capacities of links determine what each flow should
//! get, and with it the load of every link. The overhead of hosts and headers is the same for all: the *efficiency*
//! of the run is the median, over links that should be full, of what they carried of their rate, so that a few slow
//! ones do not count.

use std::collections::{BTreeMap, HashSet};

use rayon::prelude::*;

use super::fair;
use super::flows::Flow;
use record::MOST_UNKNOWN_PATHS;
use topology::graph::{Graph, LinkId};

/// A link is full when its flows should take this fraction of its rate.
const FULL: f64 = 0.98;
/// A lower efficiency means that something else is wrong.
const LEAST: f64 = 0.5;

/// One link in one slot.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SlotLoad {
    /// What it should have carried.
    pub(super) expected: f64,
    /// What it carried, iteration by iteration.
    pub(super) carried: Vec<f64>,
    /// Flows that crossed it.
    pub(super) flows: u32,
}

impl SlotLoad {
    /// What it carried on average.
    pub(super) fn mean(&self) -> f64 {
        self.carried.iter().sum::<f64>() / self.carried.len().max(1) as f64
    }

    /// The most it carried in any iteration.
    pub(super) fn most(&self) -> f64 {
        self.carried.iter().copied().fold(0.0, f64::max)
    }
}

/// The flows of one slot whose paths are known and that delivered something.
#[derive(Debug, Clone)]
pub(super) struct Slot {
    /// Numbers of the flows.
    flows: Vec<usize>,
    /// The links they crossed.
    pub(super) loads: BTreeMap<LinkId, SlotLoad>,
}

/// The loads of a rail.
#[derive(Debug, Clone)]
pub(super) struct Model {
    /// What links carry, by number; infinite where their rate is not known.
    pub(super) capacity: Vec<f64>,
    /// What is left of a link's rate for payload.
    pub(super) efficiency: f64,
    /// The share of their rate that links carried that should have been full, the median of them.
    pub(super) carried: f64,
    /// Slots that can be judged.
    pub(super) slots: Vec<Slot>,
}

/// What every link carries, by its number; infinite where that is not known.
pub(super) fn capacities(graph: &Graph) -> Vec<f64> {
    let rates = graph.links().map(|(_, link)| link.rate.0);
    rates
        .map(|rate| if rate > 0.0 { rate } else { f64::INFINITY })
        .collect()
}

impl Model {
    /// The loads of all slots; none when no link's rate or no path is known.
    pub(super) fn of(graph: &Graph, flows: &[Flow]) -> Option<Model> {
        let capacity = capacities(graph);
        let mut by_slot: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (number, flow) in flows.iter().enumerate().filter(|(_, flow)| !flow.dead) {
            by_slot.entry(flow.slot).or_default().push(number);
        }
        let slots: Vec<Slot> = by_slot
            .into_values()
            .filter_map(|members| {
                let (known, unknown): (Vec<usize>, Vec<usize>) =
                    members.into_iter().partition(|number| flows[*number].whole);
                let is_known =
                    !known.is_empty() && unknown.len() as f64 <= MOST_UNKNOWN_PATHS * known.len() as f64;
                is_known.then(|| Slot {
                    loads: carried(&known, flows),
                    flows: known,
                })
            })
            .collect();
        let mut model = Model {
            capacity,
            efficiency: 1.0,
            carried: 1.0,
            slots,
        };
        if model.slots.is_empty() {
            return None;
        }
        model.expect(flows);
        model.carried = model.measured_share()?;
        model.efficiency = model.carried.clamp(LEAST, 1.05);
        let efficiency = model.efficiency;
        model
            .capacity
            .iter_mut()
            .for_each(|capacity| *capacity *= efficiency);
        model.expect(flows);
        Some(model)
    }

    /// Whether links carry enough of their rates, on the whole, for a slow one to stand out.
    pub(super) fn can_tell_links(&self) -> bool {
        self.carried >= LEAST
    }

    /// Computes what every link should carry with the current capacities.
    pub(super) fn expect(&mut self, flows: &[Flow]) {
        let capacity = &self.capacity;
        self.slots
            .par_iter_mut()
            .for_each(|slot| slot.expect(flows, capacity));
    }

    /// The same for one slot, with another capacity of one link: what every link should carry then.
    pub(super) fn with(&self, slot: usize, flows: &[Flow], link: LinkId, capacity: f64) -> Slot {
        let mut capacities = self.capacity.clone();
        if let Some(changed) = capacities.get_mut(link.index()) {
            *changed = capacity;
        }
        let mut slot = self.slots[slot].clone();
        slot.expect(flows, &capacities);
        slot
    }

    fn measured_share(&self) -> Option<f64> {
        let ratios = |least: f64| {
            let loads = self.slots.iter().flat_map(|slot| &slot.loads);
            let mut ratios: Vec<f64> = loads
                .filter(|(link, load)| {
                    let capacity = self.capacity[link.index()];
                    capacity.is_finite() && load.expected.is_finite() && load.expected >= least * capacity
                })
                .filter(|(_, load)| load.expected > 0.0)
                .map(|(_, load)| load.mean() / load.expected)
                .collect();
            ratios.sort_unstable_by(f64::total_cmp);
            ratios.get(ratios.len() / 2).copied()
        };
        ratios(FULL).or_else(|| ratios(0.0))
    }
}

impl Slot {
    /// The links crossed by flows that cross one of these.
    pub(super) fn links_with(&self, flows: &[Flow], some: &[LinkId]) -> HashSet<LinkId> {
        let paths = self.flows.iter().map(|number| &flows[*number].path);
        let touched = paths.filter(|path| path.iter().any(|link| some.contains(link)));
        touched.flatten().copied().collect()
    }

    fn expect(&mut self, flows: &[Flow], capacity: &[f64]) {
        let paths: Vec<&[LinkId]> = self
            .flows
            .iter()
            .map(|number| flows[*number].path.as_slice())
            .collect();
        let rates = fair::rates(&paths, capacity);
        self.loads.values_mut().for_each(|load| load.expected = 0.0);
        for (path, rate) in paths.iter().zip(rates) {
            for link in *path {
                if let Some(load) = self.loads.get_mut(link) {
                    load.expected += rate;
                }
            }
        }
    }
}

/// What the flows carried over every link.
fn carried(numbers: &[usize], flows: &[Flow]) -> BTreeMap<LinkId, SlotLoad> {
    let iterations = numbers.iter().map(|number| flows[*number].rates.len()).max();
    let iterations = iterations.unwrap_or(0);
    let mut loads: BTreeMap<LinkId, SlotLoad> = BTreeMap::new();
    for flow in numbers.iter().map(|number| &flows[*number]) {
        for link in &flow.path {
            let load = loads.entry(*link).or_insert_with(|| SlotLoad {
                expected: 0.0,
                carried: vec![0.0; iterations],
                flows: 0,
            });
            load.flows += 1;
            for (sum, rate) in load.carried.iter_mut().zip(&flow.rates) {
                *sum += rate;
            }
        }
    }
    loads
}
