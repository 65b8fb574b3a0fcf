//! The suite of every night: short enough for 128 nodes, the same cells every time, every cable of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use railgauge_plan::flow::PathTable;
use railgauge_plan::twin::{Shape, clos};
use railgauge_plan::{Choices, FabricKnowledge, Plan};
use record::units::Nanos;
use topology::Fabric;
use topology::graph::Graph;
use topology::suite::{Suite, TransportChoice};

use crate::{cluster, untested};

/// The plan of a fabric with two tiers, paths known, as it is measured; and the fabric.
fn planned(shape: &str) -> (Plan, Arc<Graph>) {
    let (topology, _) = clos(&shape.parse::<Shape>().unwrap());
    let fabric = Fabric::of(&topology);
    let graph = Arc::new(Graph::of(&topology, &fabric.ranks).unwrap());
    let choices = Choices {
        transport: Some(TransportChoice::Tcp),
        topology: Some(topology),
        known: FabricKnowledge {
            graph: Some(Arc::clone(&graph)),
            paths: Arc::new(PathTable::assuming()),
            ..FabricKnowledge::default()
        },
        ..Choices::default()
    };
    let mut plan = Plan::new(&Suite::load("nightly").unwrap(), &fabric, &choices).unwrap();
    plan.fit(&fabric, Nanos(0));
    (plan, graph)
}

#[test]
fn a_healthy_fabric_of_128_nodes_with_8_rails_takes_less_than_a_quarter_of_an_hour() {
    let (plan, graph) = planned("128x8");
    let time = plan.estimate();
    println!(
        "128x8: {} cells in {} slots, {time:?}",
        plan.cells.len(),
        plan.slots().count()
    );
    assert!(plan.budget.unwrap() < Nanos::from_secs(15 * 60));
    // Half of what may be planned, even where every cell takes as long as it may: assumptions are only that.
    assert!(time.expected < Nanos::from_secs(60), "{}", time.expected);
    assert!(time.at_most < Nanos::from_secs(6 * 60), "{}", time.at_most);
    assert_eq!(untested(&plan), "", "nothing is left out for lack of time");
    let crossed: BTreeSet<&String> = plan
        .cells
        .iter()
        .filter(|cell| cell.test == "cables")
        .flat_map(|cell| &cell.path)
        .collect();
    assert_eq!(crossed.len(), graph.link_count(), "every cable in each direction");
}

#[test]
fn every_night_measures_the_same_cells() {
    assert_eq!(planned("16x2").0, planned("16x2").0);
}

#[test]
fn without_a_topology_every_test_still_has_cells_and_what_is_not_covered_is_said() {
    let fabric = cluster(6, 2);
    let choices = Choices {
        transport: Some(TransportChoice::Tcp),
        ..Choices::default()
    };
    let plan = Plan::new(&Suite::load("nightly").unwrap(), &fabric, &choices).unwrap();
    for test in &plan.tests {
        assert!(
            plan.cells.iter().any(|cell| cell.test == test.name),
            "{}",
            test.name
        );
    }
    assert_eq!(
        untested(&plan),
        "test `cables`: cables between switches: no topology is known; give one with --topology FILE"
    );
    for rank in 0..6 {
        for rail in ["rail0", "rail1"] {
            let on = |cell: &&record::Cell| cell.test == "cables" && cell.rails == [rail];
            let mut cells = plan.cells.iter().filter(on);
            assert!(
                cells.clone().any(|cell| cell.ranks[0] == rank),
                "rank {rank} sends on {rail}"
            );
            assert!(
                cells.any(|cell| cell.ranks[1] == rank),
                "rank {rank} receives on {rail}"
            );
        }
    }
}
