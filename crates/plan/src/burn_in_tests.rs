//! The suite of a burn-in, planned: every cable is loaded in every cycle, what is not is listed, and a cycle is short enough to place a change in time.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::*;
use crate::schedule::crossed;
use crate::twin::{Shape, clos};
use topology::suite::Suite;

/// The built-in suite on a fabric of that shape, with or without its topology and its paths, in a cycle of that seed.
fn planned(shape: &str, has_topology: bool, paths: PathTable, seed: u64) -> (Plan, Arc<Graph>) {
    let shape: Shape = shape.parse().unwrap();
    let (topology, ranks) = clos(&shape);
    let graph = Arc::new(Graph::of(&topology, &ranks).unwrap());
    let fabric = Fabric {
        ranks,
        ..Fabric::of(&topology)
    };
    let mut suite = Suite::load("burn-in").unwrap();
    suite.run.seed = Some(seed);
    let choices = Choices {
        transport: Some(TransportChoice::Tcp),
        known: FabricKnowledge {
            graph: has_topology.then(|| graph.clone()),
            paths: Arc::new(paths),
            ..FabricKnowledge::default()
        },
        topology: has_topology.then_some(topology),
        ..Choices::default()
    };
    (Plan::new(&suite, &fabric, &choices).unwrap(), graph)
}

/// What is left out of a test.
fn left_out<'p>(plan: &'p Plan, test: &str) -> Vec<&'p Untested> {
    let of = format!("test `{test}`");
    plan.untested
        .iter()
        .filter(|one| one.what.starts_with(&of))
        .collect()
}

#[test]
fn every_cable_is_crossed_in_each_direction_in_every_cycle_by_the_same_flows() {
    for shape in ["4x2", "6x3", "16x2", "128x8"] {
        let cables = |seed: u64| {
            let (plan, graph) = planned(shape, true, PathTable::assuming(), seed);
            let cells: Vec<Cell> = plan
                .cells
                .iter()
                .filter(|cell| cell.test == "cables")
                .cloned()
                .collect();
            let crossed = crossed(&graph, cells.iter());
            for (id, _) in graph.links() {
                assert!(crossed[id.index()], "{shape}: nothing crosses {}", graph.name(id));
            }
            let flow = |cell: Cell| (cell.ranks, cell.rails, cell.path, cell.size);
            cells.into_iter().map(flow).collect::<BTreeSet<_>>()
        };
        assert_eq!(cables(1), cables(2), "{shape}: a cable is compared with itself");
    }
}

#[test]
fn what_cannot_be_loaded_is_listed() {
    let (plan, _) = planned("4x2", false, PathTable::default(), 1);
    let why = |test: &str| {
        left_out(&plan, test)
            .iter()
            .map(|one| one.why.clone())
            .collect::<Vec<_>>()
            .join("; ")
    };
    assert!(why("cables").contains("--topology"), "{:?}", plan.untested);
    assert!(
        why("gpu-collectives").contains("NCCL runs on GPUs only"),
        "{:?}",
        plan.untested
    );
    assert!(
        why("gpu-copies").contains("copy engines move data between GPUs"),
        "{:?}",
        plan.untested
    );
    for test in ["partners", "rails", "collectives", "all-to-all", "tails"] {
        assert!(
            plan.cells.iter().any(|cell| cell.test == test),
            "{test} needs no topology"
        );
    }
    // A topology without a way to choose paths: cables of hosts are crossed, those between switches only perhaps.
    let (plan, graph) = planned("4x2", true, PathTable::default(), 1);
    assert!(
        plan.untested
            .iter()
            .any(|one| one.what.contains("every path between leaves of rail0")),
        "{:?}",
        plan.untested
    );
    let crossed = crossed(&graph, plan.cells.iter().filter(|cell| cell.test == "cables"));
    for (id, link) in graph.links() {
        assert_eq!(crossed[id.index()], link.is_host, "{}", graph.name(id));
    }
}

#[test]
fn all_rails_run_together_and_the_data_of_every_test_is_checked() {
    let (plan, _) = planned("4x2", true, PathTable::assuming(), 1);
    let together = |slot: &[Cell]| {
        let rails: BTreeSet<&String> = slot.iter().flat_map(|cell| &cell.rails).collect();
        slot[0].test == "rails" && rails.len() == 2
    };
    assert!(plan.slots().any(together));
    // Probes are counted and carry no data.
    let has_data = |name: &str| {
        plan.cells
            .iter()
            .any(|cell| cell.test == name && cell.probes.is_none())
    };
    let with_data = plan.tests.iter().filter(|test| has_data(&test.name));
    let checked = with_data.clone().all(|test| (1..=4).contains(&test.verify_every));
    assert!(checked && with_data.count() >= 4, "{:?}", plan.tests);
}

#[test]
fn a_cycle_takes_about_a_minute_on_a_small_fabric_and_ten_on_a_large_one() {
    let minutes = |shape: &str| {
        let (plan, _) = planned(shape, true, PathTable::assuming(), 1);
        plan.estimate().at_most.as_secs_f64() / 60.0
    };
    let (small, large) = (minutes("4x2"), minutes("128x8"));
    assert!(
        (0.5..1.5).contains(&small),
        "{small} minutes for 4 hosts with 2 rails"
    );
    assert!(
        (3.0..10.0).contains(&large),
        "{large} minutes for 128 hosts with 8 rails"
    );
}
