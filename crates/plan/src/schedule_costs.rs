//! What each schedule would cost and cover: rounds, measurements, time, links.

use record::TestKind;
use serde::Serialize;

use super::estimate::Estimate;
use super::schedule::crossed;
use super::{Choices, Plan};
use topology::Fabric;
use topology::suite::{Schedule, Suite};

/// One schedule and its cost.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ScheduleOutline {
    /// How a suite says it.
    pub schedule: String,
    /// Its cost, or why it cannot be planned.
    pub outcome: Result<ScheduleCost, String>,
}

/// The cost and coverage of a schedule.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FabricKnowledge;
    use crate::flow::PathTable;
    use std::sync::Arc;
    use topology::Topology;
    use topology::graph::Graph;
    use topology::suite::SuiteFile;

    /// Four hosts on two leaves under two spines.
    const TOPOLOGY: &str = r#"
host = [{ name = "h0" }, { name = "h1" }, { name = "h2" }, { name = "h3" }]
switch = [{ name = "l0", tier = "leaf" }, { name = "l1", tier = "leaf" }, { name = "s0", tier = "spine" }, { name = "s1", tier = "spine" }]
link = [
  { name = "c0", ends = ["h0/rail0", "l0/p0"], rate = "200 Mb/s", rail = "rail0" },
  { name = "c1", ends = ["h1/rail0", "l0/p1"], rate = "200 Mb/s", rail = "rail0" },
  { name = "c2", ends = ["h2/rail0", "l1/p0"], rate = "200 Mb/s", rail = "rail0" },
  { name = "c3", ends = ["h3/rail0", "l1/p1"], rate = "200 Mb/s", rail = "rail0" },
  { name = "u0", ends = ["l0/u0", "s0/d0"], rate = "200 Mb/s", rail = "rail0" },
  { name = "u1", ends = ["l0/u1", "s1/d0"], rate = "200 Mb/s", rail = "rail0" },
  { name = "u2", ends = ["l1/u0", "s0/d1"], rate = "200 Mb/s", rail = "rail0" },
  { name = "u3", ends = ["l1/u1", "s1/d1"], rate = "200 Mb/s", rail = "rail0" },
]
"#;

    #[test]
    fn each_schedule_says_what_it_costs_and_which_cables_it_is_sure_to_cross() {
        let text = "name = \"s\"\n[[test]]\nname = \"t\"\nkind = \"pairs\"\ndirections = \"one-way\"\nsizes = [\"2M\"]\n";
        let suite = SuiteFile::parse(text, "x.toml").unwrap().check().unwrap();
        let topology = Topology::parse("t.toml", TOPOLOGY).unwrap();
        let fabric = Fabric::of(&topology);
        let choices = Choices {
            known: FabricKnowledge {
                graph: Some(Arc::new(Graph::of(&topology, &fabric.ranks).unwrap())),
                paths: Arc::new(PathTable::assuming()),
                ..FabricKnowledge::default()
            },
            ..Choices::default()
        };
        let offered = schedules(&suite, &fabric, &choices);
        let cost = |name: &str| {
            let found = offered.iter().find(|choice| choice.schedule.starts_with(name));
            found.unwrap().outcome.clone().unwrap()
        };
        // Which spine a tournament's flows take is up to the switches.
        let tournament = cost("tournament");
        assert_eq!(
            (
                tournament.measurements,
                tournament.links_crossed,
                tournament.links
            ),
            (12, 8, 16)
        );
        assert_eq!(cost("random").measurements, 2 * 2 * 2);
        assert_eq!(cost("topology").links_crossed, 16);
        assert_eq!(cost("adaptive").links_crossed, 16);
        // Ten and three iterations of 2 MiB at 25 MB/s.
        let round = tournament.time.expected.0 / tournament.rounds as u64;
        assert!(
            (1_000_000_000..2_000_000_000).contains(&round),
            "{round} ns a round"
        );
        assert!(
            schedules(&suite, &fabric, &Choices::default()).is_empty(),
            "without a topology"
        );
    }
}
