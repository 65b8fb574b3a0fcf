//! A plan for people and scripts: what `railgauge plan` prints.

use std::collections::BTreeSet;
use std::fmt::Display;

use serde::Serialize;

use super::Plan;
use super::estimate::{Estimate, assumptions, of_slot};
use record::TestKind;
use record::units::{Bytes, Nanos};
use record::{Cell, Reference, TestRecord, Untested};

/// A plan in short.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outline {
    /// One entry per test.
    pub tests: Vec<TestOutline>,
    /// Cells of all tests.
    pub cells: usize,
    /// Time for all tests.
    pub time: Estimate,
    /// What that time assumes.
    pub assumptions: String,
    /// Longest the run may take, if it is bounded.
    pub budget: Option<Nanos>,
    /// Said when the run will not fit its budget.
    pub warning: Option<String>,
    /// What stays untested, and why.
    pub untested: Vec<Untested>,
}

/// A test in short.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TestOutline {
    /// Name.
    pub name: String,
    /// Kind.
    pub kind: TestKind,
    /// Cells.
    pub cells: usize,
    /// Different sizes, smallest first.
    pub sizes: Vec<Bytes>,
    /// Transports.
    pub transports: Vec<String>,
    /// Rails.
    pub rails: Vec<String>,
    /// What its speed is compared with, in words.
    pub references: Vec<String>,
    /// References asked for and not to be had, and why.
    pub missing_references: Vec<String>,
    /// Time for its cells.
    pub time: Estimate,
}

impl Plan {
    /// The plan in short.
    pub fn describe(&self) -> Outline {
        let time = self.estimate();
        let warning = self.budget.filter(|budget| time.expected > *budget).map(|budget| {
            format!(
                "the run is expected to take {} but may take {budget}; what does not fit will be reported as not measured",
                time.expected
            )
        });
        Outline {
            tests: self.tests.iter().map(|test| self.describe_test(test)).collect(),
            cells: self.cells.len(),
            time,
            assumptions: assumptions(self.wire),
            budget: self.budget,
            warning,
            untested: self.untested.clone(),
        }
    }

    fn describe_test(&self, test: &TestRecord) -> TestOutline {
        let cells: Vec<&Cell> = self.cells.iter().filter(|cell| cell.test == test.name).collect();
        let sizes: BTreeSet<Bytes> = cells.iter().map(|cell| cell.size).collect();
        let slots = self.slots().filter(|slot| slot[0].test == test.name);
        TestOutline {
            name: test.name.clone(),
            kind: test.kind,
            cells: cells.len(),
            sizes: sizes.into_iter().collect(),
            transports: each_once(cells.iter().map(|cell| cell.transport)),
            rails: each_once(cells.iter().flat_map(|cell| &cell.rails)),
            references: test.references.iter().map(reference_in_words).collect(),
            missing_references: test.missing_references.clone(),
            time: slots.map(|slot| of_slot(slot, &self.tests, self.wire)).sum(),
        }
    }
}

impl TestOutline {
    /// The headings of [`TestOutline::row`].
    pub const HEADINGS: [&str; 7] = [
        "test",
        "kind",
        "cells",
        "sizes",
        "transport",
        "compared with",
        "time",
    ];

    /// The test as a row of a table.
    pub fn row(&self) -> [String; 7] {
        let mut transport = self.transports.join(", ");
        if !self.rails.is_empty() {
            transport = format!("{transport} on {}", self.rails.join(", "));
        }
        let compared = match self.references.as_slice() {
            [] if self.kind == TestKind::Ecmp => "what a fair hash does".to_string(),
            [] if self.kind == TestKind::Permutation => "what the topology should carry".to_string(),
            [] if self.kind == TestKind::Fairness => "what other senders get".to_string(),
            [] => "nothing: inconclusive".to_string(),
            references => references.join("; "),
        };
        [
            self.name.clone(),
            self.kind.to_string(),
            self.cells.to_string(),
            sizes_in_words(&self.sizes),
            transport,
            compared,
            format!("{}, at most {}", self.time.expected, self.time.at_most),
        ]
    }
}

fn sizes_in_words(sizes: &[Bytes]) -> String {
    match sizes {
        [] => "none".to_string(),
        [one] => one.to_string(),
        [a, b] => format!("{a}, {b}"),
        [first, .., last] => format!("{} from {first} to {last}", sizes.len()),
    }
}

fn reference_in_words(reference: &Reference) -> String {
    match reference {
        Reference::Spec(row) => format!("{} -{:.0}% ({})", row.rate, row.tolerance * 100.0, row.id),
        Reference::Peers { margin } => format!("peers -{:.0}%", margin * 100.0),
        Reference::Baseline { run, margin, rates } => {
            format!("{} cells of {run} -{:.0}%", rates.len(), margin * 100.0)
        }
    }
}

/// The items as texts, each once, in the order of their names.
fn each_once(items: impl Iterator<Item = impl Display>) -> Vec<String> {
    let texts: BTreeSet<String> = items.map(|item| item.to_string()).collect();
    texts.into_iter().collect()
}
