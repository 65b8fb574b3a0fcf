//! What each schedule would cost and cover: rounds, measurements, time, links.

use serde::Serialize;

use super::estimate::Estimate;
use super::schedule::crossed;
use super::{Choices, Plan};
use crate::fabric::Fabric;
use crate::suite::{Schedule, Suite, TestKind};

/// One way to choose pairs, and what it comes to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ScheduleOutline {
    /// How a suite says it.
    pub schedule: String,
    /// What it comes to, or why it cannot be planned.
    pub outcome: Result<ScheduleCost, String>,
}

/// What a schedule comes to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ScheduleCost {
    /// Slots that run one after another.
    pub rounds: usize,
    /// Cells.
    pub measurements: usize,
    /// Time.
    pub time: Estimate,
    /// Directed links that are crossed for sure.
    pub links_crossed: usize,
    /// Directed links there are.
    pub links: usize,
}

/// Every schedule for the suite's tests of pairs; empty when it has none, or when no topology is known.
pub fn schedules(suite: &Suite, fabric: &Fabric, choices: &Choices) -> Vec<ScheduleOutline> {
    let mut of_pairs = suite.clone();
    of_pairs.tests.retain(|test| test.kind == TestKind::Pairs);
    let Some(graph) = choices
        .known
        .graph
        .as_ref()
        .filter(|_| !of_pairs.tests.is_empty())
    else {
        return Vec::new();
    };
    let few = (fabric.rank_count().max(2) as f64).log2().ceil() as u32;
    let offered = [
        Schedule::Tournament,
        Schedule::Random(few),
        Schedule::Topology,
        Schedule::Adaptive,
    ];
    let outline = |schedule: Schedule| {
        for test in &mut of_pairs.tests {
            test.schedule = schedule;
        }
        let cost = |plan: Plan| {
            let crossed = crossed(graph, plan.cells.iter());
            ScheduleCost {
                rounds: plan.slots().count(),
                measurements: plan.cells.len(),
                time: plan.estimate(),
                links_crossed: crossed.iter().filter(|crossed| **crossed).count(),
                links: crossed.len(),
            }
        };
        ScheduleOutline {
            schedule: schedule.to_string(),
            outcome: Plan::new(&of_pairs, fabric, choices)
                .map(cost)
                .map_err(|error| error.to_string()),
        }
    };
    offered.map(outline).to_vec()
}
