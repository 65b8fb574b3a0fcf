//! The nodes that the table NODES of ibdiagnet's `db_csv` tells of.

use std::collections::HashMap;

use super::number;
use topology::import::{adapter_in_description, name_in_description};
use topology::text_error::TextError;

pub(super) use topology::subnet::{Row, Table, table};

/// The table of all nodes.
pub(super) const NODES: &str = "NODES";
/// The `NodeType` of adapters and of switches.
const ADAPTER: u64 = 1;
const SWITCH: u64 = 2;

/// A node as `ibnetdiscover` calls a switch without a name. GUIDs are written with and without leading zeros.
pub(super) fn id_of(text: &str) -> String {
    match number::of_text(text).filter(|_| text.trim_start().starts_with("0x")) {
        Some(guid) => format!("S-{guid:016x}"),
        None => text.trim().to_string(),
    }
}

/// What is known of a node.
pub(super) enum Node {
    /// A switch, and its name.
    Switch(String),
    /// An adapter: its host, and what it is called there.
    Adapter {
        /// The host.
        host: String,
        /// The device.
        adapter: String,
    },
    /// A router, or an adapter inside a switch.
    Other,
}

/// All nodes by their ids. Two switches that describe themselves alike go by their ids.
pub(super) fn nodes_in(table: &Table<'_>) -> Result<HashMap<String, Node>, TextError> {
    let (guid, description) = (table.column("NodeGUID")?, table.column("NodeDesc")?);
    let kind = table.find("NodeType");
    let kind_of = |row: &Row<'_>| kind.map_or(Some(SWITCH), |kind| number::of_text(row.get(kind)));
    let name_of = |row: &Row<'_>| name_in_description(row.get(description));
    let mut uses: HashMap<String, usize> = HashMap::new();
    let switches = table.rows.iter().filter(|row| kind_of(row) == Some(SWITCH));
    for name in switches.filter_map(name_of) {
        *uses.entry(name).or_default() += 1;
    }
    let node = |row: &Row<'_>| {
        let id = id_of(row.get(guid));
        let node = match kind_of(row) {
            Some(SWITCH) => {
                let own = name_of(row).filter(|name| uses.get(name) == Some(&1));
                Node::Switch(own.unwrap_or_else(|| id.clone()))
            }
            Some(ADAPTER) => match adapter_in_description(row.get(description)) {
                Some((host, adapter)) => Node::Adapter { host, adapter },
                None => Node::Other,
            },
            _ => Node::Other,
        };
        (id, node)
    };
    Ok(table.rows.iter().map(node).collect())
}
