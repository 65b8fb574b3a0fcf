//! Inventories made to order, for tests.

use record::{Fact, Inventory, InventoryPart, NodeInventory, PartAt, PartClass, SCHEMA};

/// A part with these facts.
pub fn part(class: PartClass, name: &str, facts: &[(&str, &str)]) -> InventoryPart {
    facts
        .iter()
        .fold(InventoryPart::new(class, name), |part, (name, value)| {
            part.with(name, Fact::Value(value.to_string()))
        })
}

/// A node of these parts.
pub fn node(name: &str, parts: Vec<InventoryPart>) -> NodeInventory {
    NodeInventory {
        node: name.to_string(),
        parts,
    }
}

/// An inventory of these nodes.
pub fn inventory(nodes: Vec<NodeInventory>) -> Inventory {
    Inventory {
        schema: SCHEMA,
        version: "0.1.0".into(),
        taken: "2026-11-14T23:50:12Z".into(),
        nodes,
        ..Inventory::default()
    }
}

/// Hosts `n0`, `n1`, ... each with the NIC `mlx5_0` of one board and the firmware given.
pub fn nics(firmware: &[&str]) -> Inventory {
    let nodes = firmware.iter().enumerate().map(|(number, firmware)| {
        let facts = [("board", "MT_0000000838"), ("firmware", firmware)];
        node(
            &format!("n{number}"),
            vec![part(PartClass::Nic, "mlx5_0", &facts)],
        )
    });
    inventory(nodes.collect())
}

/// A part of a node by name.
pub fn at(node: &str, part: &str) -> PartAt {
    PartAt {
        node: node.to_string(),
        part: part.to_string(),
    }
}
