//! How long a plan will take: enough to decide between lunch and a night, stated with its assumptions.
//!
//! The expected time is warm-up and the fewest iterations of every cell at an assumed rate, cut off by the cell's budget;
//! the upper bound is what the budgets allow. Nothing is measured for it.

use std::iter::Sum;
use std::ops::Add;

use serde::Serialize;

use super::Plan;
use record::units::{Nanos, Rate};
use record::{Cell, Reference, TestRecord};

/// What an iteration is assumed to take beside moving its bytes: start together, agree, record.
pub const OVERHEAD: Nanos = Nanos(200_000);

/// The rate at which bytes are assumed to be checked, and to move where neither the test nor the topology states a rate.
pub const RATE: Rate = Rate(1e9);

/// What a cell is assumed to take beside its iterations: connections, buffers, patterns.
pub const SETUP: Nanos = Nanos(20_000_000);

/// A time with its upper bound.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Estimate {
    /// What it will take under the assumptions.
    pub expected: Nanos,
    /// What the budgets allow, re-measurement of suspects not counted.
    pub at_most: Nanos,
}

impl Add for Estimate {
    type Output = Estimate;
    fn add(self, other: Estimate) -> Estimate {
        Estimate {
            expected: self.expected + other.expected,
            at_most: self.at_most + other.at_most,
        }
    }
}

impl Sum for Estimate {
    fn sum<I: Iterator<Item = Estimate>>(items: I) -> Estimate {
        items.fold(Estimate::default(), Estimate::add)
    }
}

/// The assumptions in one sentence.
pub fn assumptions(wire: Rate) -> String {
    format!(
        "assumes the rate each test is compared with ({wire} where there is none), {OVERHEAD} per iteration and {SETUP} per cell, \
         and the fewest iterations each test allows"
    )
}

/// What one cell of a test takes where links carry `wire`.
pub fn of_cell(cell: &Cell, test: &TestRecord, wire: Rate) -> Estimate {
    let payload = cell.size.0 as f64;
    let moved = payload * cell.collective.bus_factor(cell.world());
    let checked = match test.verify_every {
        0 => 0.0,
        every => payload / f64::from(every),
    };
    let of_spec = test.references.iter().find_map(|reference| match reference {
        Reference::Spec(row) => Some(row.rate.0),
        _ => None,
    });
    let rate = of_spec.filter(|rate| *rate > 0.0).unwrap_or(wire.0);
    let moving = match (&cell.streams, &cell.probes) {
        // These send for as long as they are told to.
        (Some(terms), _) => terms.span().0 as f64,
        (None, Some(terms)) => terms.span().0 as f64,
        (None, None) => (moved / rate + checked / RATE.0) * 1e9,
    };
    let iteration = OVERHEAD.0 as f64 + moving;
    let iterations = f64::from(test.warmup) + f64::from(test.min_iterations);
    let measuring = Nanos((iteration * iterations) as u64);
    Estimate {
        expected: measuring.min(test.budget) + SETUP,
        at_most: test.budget + SETUP,
    }
}

/// What the cells of one slot take: as long as the longest of them.
pub fn of_slot(slot: &[Cell], tests: &[TestRecord], wire: Rate) -> Estimate {
    let mut longest = Estimate::default();
    for cell in slot {
        if let Some(test) = tests.iter().find(|test| test.name == cell.test) {
            let estimate = of_cell(cell, test, wire);
            longest.expected = longest.expected.max(estimate.expected);
            longest.at_most = longest.at_most.max(estimate.at_most);
        }
    }
    longest
}

impl Plan {
    /// What the whole plan takes.
    pub fn estimate(&self) -> Estimate {
        self.slots()
            .map(|slot| of_slot(slot, &self.tests, self.wire))
            .sum()
    }
}
