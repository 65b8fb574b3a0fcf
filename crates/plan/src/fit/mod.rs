//! Fitting a plan into its budget: what to leave out, in a stated order, and how to say so.
//!
//! Slots are kept or left out as a whole. While the expected time is too long, this goes first, then the next:
//!
//! 1. sizes between the smallest and the largest of a sweep, those first whose neighbours are nearest;
//! 2. slots that cross nothing which no other slot of the same measurement crosses;
//! 3. whole tests, from the last of the suite on, those first whose parts other tests reach, too;
//! 4. of the one test that is left, what does not fit; its first slot stays and is cut short, if need be.
//!
//! 1 and 2 begin with the last test of the suite. A measurement judged by its peers keeps so many that each has three, or as many as it
//! had; where 4 would leave fewer it is left out as a whole. A part of the budget is kept for the ranks to meet and for suspects to be
//! measured again. The same plan and budget give the same result, unless the ranks took longer to meet than that part allows for.

mod reach;
mod untested;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::Plan;
use super::estimate::of_slot;
use record::units::{Bytes, Nanos};
use record::{Reference, TestRecord};
use topology::Fabric;

use reach::Reaches;

/// The share of a budget that is not planned: ranks meet in it, cells take more than their fewest iterations, and suspects are measured
/// again.
pub const RESERVE: f64 = 0.3;

/// So many peers every cell keeps that is judged by them, as long as it is measured at all.
pub const FEWEST_PEERS: u32 = 3;

/// Why a slot is left out, in the order in which that happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Size,
    Crossed,
    Test,
    Rest,
}

/// One slot of the plan.
struct SlotCost {
    /// Its cells in the plan.
    cells: Range<usize>,
    /// Its test in the plan.
    test: usize,
    cost: Nanos,
    left_out: Option<Step>,
}

struct Fitting<'a> {
    slots: Vec<SlotCost>,
    reaches: Reaches<'a>,
    tests: &'a [TestRecord],
    time: Nanos,
    available: Nanos,
}

impl Plan {
    /// Leaves out what the budget has no time for when `spent` of it is gone, and lists it among what stays untested. Tests that are left
    /// out as a whole stay in the list of tests: they were asked for.
    pub fn fit(&mut self, fabric: &Fabric, spent: Nanos) {
        let Some(budget) = self.budget else { return };
        let available = available(budget, spent);
        if self.estimate().expected <= available {
            return;
        }
        let mut fitting = Fitting::new(self, fabric, available);
        fitting.leave_out_sizes(self);
        fitting.leave_out_what_is_crossed_anyway();
        fitting.leave_out_tests();
        fitting.leave_out_the_rest();
        let untested = fitting.untested(self, budget);
        let gone = fitting.slots.iter().filter(|slot| slot.left_out.is_some());
        let gone: BTreeSet<usize> = gone.flat_map(|slot| slot.cells.clone()).collect();
        let mut place = 0..;
        self.cells
            .retain(|_| place.next().is_some_and(|place| !gone.contains(&place)));
        self.untested.extend(untested);
    }
}

/// What of a budget cells may be planned for.
fn available(budget: Nanos, spent: Nanos) -> Nanos {
    let planned = Nanos((budget.0 as f64 * (1.0 - RESERVE)) as u64);
    planned.min(Nanos(budget.0.saturating_sub(spent.0)))
}

impl<'a> Fitting<'a> {
    fn new(plan: &'a Plan, fabric: &'a Fabric, available: Nanos) -> Fitting<'a> {
        let mut slots = Vec::new();
        let mut place = 0;
        for slot in plan.slots() {
            let test = plan.tests.iter().position(|test| test.name == slot[0].test);
            slots.push(SlotCost {
                cells: place..place + slot.len(),
                test: test.unwrap_or_default(),
                cost: of_slot(slot, &plan.tests, plan.wire).expected,
                left_out: None,
            });
            place += slot.len();
        }
        Fitting {
            time: slots.iter().map(|slot| slot.cost).sum(),
            reaches: Reaches::of(plan, fabric, is_judged_by_peers),
            slots,
            tests: &plan.tests,
            available,
        }
    }

    fn fits(&self) -> bool {
        self.time <= self.available
    }

    fn leave_out(&mut self, slot: usize, step: Step) {
        let of = &mut self.slots[slot];
        if of.left_out.is_none() {
            of.left_out = Some(step);
            self.time = Nanos(self.time.0 - of.cost.0);
            self.reaches.forget(slot);
        }
    }

    /// The slots of a test that are kept, in the order of the plan.
    fn kept(&self, test: usize) -> Vec<usize> {
        let of_test = |slot: &usize| self.slots[*slot].test == test && self.slots[*slot].left_out.is_none();
        (0..self.slots.len()).filter(of_test).collect()
    }

    fn leave_out_sizes(&mut self, plan: &Plan) {
        for test in (0..self.tests.len()).rev() {
            if self.fits() {
                return;
            }
            let mut sweeps: BTreeMap<_, BTreeMap<Bytes, Vec<usize>>> = BTreeMap::new();
            for slot in self.kept(test) {
                let cell = &plan.cells[self.slots[slot].cells.start];
                let sizes = sweeps.entry(reach::sweep_of(cell)).or_default();
                sizes.entry(cell.size).or_default().push(slot);
            }
            let mut sweeps: Vec<BTreeMap<Bytes, Vec<usize>>> = sweeps.into_values().collect();
            while let (false, Some((sweep, size))) = (self.fits(), self.most_dispensable(&sweeps)) {
                for slot in sweeps[sweep].remove(&size).unwrap_or_default() {
                    self.leave_out(slot, Step::Size);
                }
            }
        }
    }

    /// Of all sizes between others the one whose neighbours are nearest; of equals the one that takes longest.
    fn most_dispensable(&self, sweeps: &[BTreeMap<Bytes, Vec<usize>>]) -> Option<(usize, Bytes)> {
        let mut best: Option<(f64, Nanos, usize, Bytes)> = None;
        for (sweep, sizes) in sweeps.iter().enumerate() {
            let known: Vec<(&Bytes, &Vec<usize>)> = sizes.iter().collect();
            for around in known.windows(3) {
                let (size, slots) = around[1];
                let gap = ratio(*around[0].0, *around[2].0);
                let cost = slots.iter().map(|slot| self.slots[*slot].cost).sum();
                let is_better = best.is_none_or(|(least, most, ..)| {
                    gap < least - 1e-9 || (gap < least + 1e-9 && cost > most)
                });
                if is_better {
                    best = Some((gap, cost, sweep, *size));
                }
            }
        }
        best.map(|(_, _, sweep, size)| (sweep, size))
    }

    fn leave_out_what_is_crossed_anyway(&mut self) {
        for test in (0..self.tests.len()).rev() {
            let mut slots = self.kept(test);
            slots.sort_by_key(|slot| std::cmp::Reverse((self.slots[*slot].cost, *slot)));
            for slot in slots {
                if self.fits() {
                    return;
                }
                // What cannot be spared now cannot be spared later: leaving out makes others only more needed.
                if self.reaches.can_spare(slot) {
                    self.leave_out(slot, Step::Crossed);
                }
            }
        }
    }

    fn leave_out_tests(&mut self) {
        let mut alive: Vec<usize> = (0..self.tests.len())
            .filter(|test| !self.kept(*test).is_empty())
            .collect();
        while !self.fits() && alive.len() > 1 {
            let of_tests: Vec<Vec<usize>> = alive.iter().map(|test| self.kept(*test)).collect();
            let spared = of_tests
                .iter()
                .rposition(|slots| self.reaches.others_reach_all_of(slots))
                .unwrap_or(alive.len() - 1);
            alive.remove(spared);
            for slot in &of_tests[spared] {
                self.leave_out(*slot, Step::Test);
            }
        }
    }

    /// Keeps what fits of the last test, one measurement after the other, so that what is kept can be compared.
    fn leave_out_the_rest(&mut self) {
        if self.fits() {
            return;
        }
        let mut kept: Vec<usize> = (0..self.slots.len())
            .filter(|slot| self.slots[*slot].left_out.is_none())
            .collect();
        kept.sort_by_key(|slot| (self.reaches.first_measurement_of(*slot), *slot));
        let first = kept.first().copied();
        let mut time = Nanos(0);
        for slot in &kept {
            let with_it = time + self.slots[*slot].cost;
            if with_it <= self.available || Some(*slot) == first {
                time = with_it;
            } else {
                self.leave_out(*slot, Step::Rest);
            }
        }
        let lonely: Vec<usize> = kept
            .iter()
            .copied()
            .filter(|slot| self.slots[*slot].left_out.is_none() && self.reaches.lacks_peers(*slot))
            .collect();
        for slot in lonely.into_iter().filter(|slot| Some(*slot) != first) {
            self.leave_out(slot, Step::Rest);
        }
    }
}

fn ratio(low: Bytes, high: Bytes) -> f64 {
    (high.0 as f64 + 1.0) / (low.0 as f64 + 1.0)
}

fn is_judged_by_peers(test: &TestRecord) -> bool {
    let by_peers = |reference: &Reference| matches!(reference, Reference::Peers { .. });
    test.references.iter().any(by_peers)
}
