//! `ibdiagnet2.db_csv`: the whole InfiniBand subnet in one file of many tables, two of which are read.
//!
//! ```text
//! START_NODES
//! NodeDesc,NumPorts,NodeType,...,NodeGUID,...
//! "MF0;leaf1:MQM9700/U1",65,2,...,0x0002c90200423e70,...
//! END_NODES
//! START_PM_INFO
//! NodeGUID,PortGUID,PortNumber,PortXmitDataExtended,PortRcvDataExtended,...
//! 0x0002c90200423e70,0x0002c90200423e70,1,123456,654321,...
//! END_PM_INFO
//! ```
//!
//! Data is counted in words of four bytes. Where a device has no 64-bit counters the 32-bit ones are used, which saturate instead
//! of wrapping: then they are unknown. Nodes and ports are named as an imported `ibnetdiscover` names them.

use std::collections::HashMap;

use super::tables::{NODES, Node, Row, Table, id_of, nodes_in, table};
use super::{PortBytes, PortTable, TextError, Width, number};

const BYTES_PER_WORD: u64 = 4;
const COUNTERS: &str = "PM_INFO";
/// The two highest values mean that a device does not have the counter.
const NOT_SUPPORTED: u64 = u64::MAX - 1;

pub(super) fn recognises(text: &str) -> bool {
    text.lines()
        .any(|line| line.trim_end() == "START_PM_INFO" || line.trim_end() == "START_NODES")
}

pub(super) fn read(text: &str) -> Result<PortTable, TextError> {
    let nodes = match table(text, NODES)? {
        Some(nodes) => nodes_in(&nodes)?,
        None => HashMap::new(),
    };
    let Some(counters) = table(text, COUNTERS)? else {
        return Err(TextError::whole_text(
            "table PM_INFO is missing; run ibdiagnet with port counters",
        ));
    };
    let (guid, port) = (counters.column("NodeGUID")?, counters.column("PortNumber")?);
    let sent = either(&counters, "PortXmitDataExtended", "PortXmitData")?;
    let received = either(&counters, "PortRcvDataExtended", "PortRcvData")?;
    let mut ports = PortTable::default();
    for row in &counters.rows {
        let id = id_of(row.get(guid));
        let name = match nodes.get(&id) {
            Some(Node::Adapter { .. } | Node::Other) => continue,
            Some(Node::Switch(name)) => name.clone(),
            None => id,
        };
        let number = row.get(port).trim();
        let bytes = PortBytes {
            tx_bytes: sent.bytes(row),
            rx_bytes: received.bytes(row),
            width: Width::Bits64,
        };
        let put = ports.put(&name, &format!("p{number}"), bytes);
        put.map_err(|problem| TextError::at(row.line, problem))?;
    }
    Ok(ports)
}

/// A column of data in words of four bytes, and the value at which it saturates.
struct WordCounter {
    column: usize,
    saturates_at: u64,
}

impl WordCounter {
    fn bytes(&self, row: &Row<'_>) -> Option<u64> {
        let words = number::of_text(row.get(self.column))?;
        (words < self.saturates_at).then(|| words.checked_mul(BYTES_PER_WORD))?
    }
}

/// The 64-bit counter, or else the 32-bit one.
fn either(table: &Table<'_>, wide: &str, narrow: &str) -> Result<WordCounter, TextError> {
    if let Some(column) = table.find(wide) {
        return Ok(WordCounter {
            column,
            saturates_at: NOT_SUPPORTED,
        });
    }
    let column = table.column(narrow).map_err(|_| {
        let message = format!("table {} has neither `{wide}` nor `{narrow}`", table.name);
        TextError::at(table.line, message)
    })?;
    Ok(WordCounter {
        column,
        saturates_at: u64::from(u32::MAX),
    })
}
