//! Streams across leaves: every five-tuple is known before anything is measured.

use std::collections::HashSet;
use std::sync::Arc;

use railgauge_plan::FabricKnowledge;
use railgauge_plan::twin::{Shape, clos};
use record::Cell;
use topology::graph::Graph;

use super::*;

/// 8 hosts on 4 leaves, 2 rails, and what is known of them.
fn leaves() -> (Fabric, Choices) {
    let shape = Shape {
        hosts_per_leaf: 2,
        spines: 4,
        ..("8x2".parse().unwrap())
    };
    let (topology, ranks) = clos(&shape);
    let graph = Graph::of(&topology, &ranks).unwrap();
    let choices = Choices {
        topology: Some(topology),
        known: FabricKnowledge {
            graph: Some(Arc::new(graph)),
            ..FabricKnowledge::default()
        },
        ..Choices::default()
    };
    (
        Fabric {
            hosts: Vec::new(),
            ranks,
        },
        choices,
    )
}

fn ports(cell: &Cell) -> Vec<u16> {
    (0..cell.flows)
        .map(|flow| cell.port_of(cell.ranks[0], flow).unwrap())
        .collect()
}

#[test]
fn all_hosts_send_at_once_across_leaves_and_no_five_tuple_is_used_twice() {
    let (fabric, choices) = leaves();
    let suite = suite("kind = \"ecmp\"\nflows = [4, 16]\nsets = 3");
    let plan = Plan::new(&suite, &fabric, &choices).unwrap();
    assert_sound(&plan, &fabric);
    assert_eq!(plan.slots().count(), 2 * 2 * 3, "rails x flows x sets");
    let graph = choices.known.graph.unwrap();
    let mut tuples = HashSet::new();
    for slot in plan.slots() {
        assert_eq!(slot.len(), 8, "every host sends");
        for cell in slot {
            assert_eq!(cell.collective, Collective::Streams);
            let (from, to) = (cell.ranks[0], cell.ranks[1]);
            let rail = &cell.rails[0];
            assert_ne!(graph.leaf_of(from, rail), graph.leaf_of(to, rail));
            for port in ports(cell) {
                assert!(
                    tuples.insert((from, to, rail.clone(), port)),
                    "{}",
                    cell.describe()
                );
            }
        }
    }
    assert_eq!(tuples.len(), 2 * 3 * 8 * (4 + 16));
}

#[test]
fn a_sender_without_entropy_sends_all_from_one_port() {
    let (fabric, choices) = leaves();
    let suite = suite("kind = \"ecmp\"\nflows = 8\nsets = 2\nsource_ports = \"one\"\nsource_port = 30000");
    let plan = Plan::new(&suite, &fabric, &choices).unwrap();
    for cell in &plan.cells {
        let ports: HashSet<u16> = ports(cell).into_iter().collect();
        assert_eq!(ports.len(), 1, "{}", cell.describe());
        assert!(
            ports.iter().all(|port| [30000, 30008].contains(port)),
            "{ports:?}"
        );
    }
}

#[test]
fn what_cannot_be_spread_is_said() {
    let (fabric, choices) = leaves();
    let many = suite("kind = \"ecmp\"\nflows = 1024\nsets = 64");
    let error = Plan::new(&many, &fabric, &choices).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("need 65536 source ports from 16000 on"),
        "{error}"
    );
    assert_eq!(error.exit_code(), 2);
    // One host: nothing to send across.
    let here = super::fabric(4, 1, None);
    let tcp = Choices {
        transport: Some(TransportChoice::Tcp),
        ..Choices::default()
    };
    let plan = Plan::new(&suite("kind = \"ecmp\""), &here, &tcp).unwrap();
    assert!(plan.cells.is_empty());
    assert!(
        untested(&plan).contains("all hosts are behind one leaf"),
        "{}",
        untested(&plan)
    );
}
