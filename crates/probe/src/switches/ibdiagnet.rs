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
//! Data is counted in words of four bytes. Where a device has no wide counters the narrow ones are taken, which stop at their end
//! instead of going round: then they are unknown. Nodes and ports are named as an imported `ibnetdiscover` names them.

use std::collections::HashMap;

use super::tables::{NODES, Node, Row, Table, id_of, nodes_in, table};
use super::{PortBytes, PortTable, TextError, Width, number};

const BYTES_PER_WORD: u64 = 4;
const COUNTERS: &str = "PM_INFO";
/// How columns say that a device does not have them: the two highest values.
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
            "there is no table PM_INFO: the counters of ports were not collected",
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

/// A column of data in words, and the value at which it has stopped to count.
struct Words {
    column: usize,
    stuck_at: u64,
}

impl Words {
    fn bytes(&self, row: &Row<'_>) -> Option<u64> {
        let words = number::of_text(row.get(self.column))?;
        (words < self.stuck_at).then(|| words.checked_mul(BYTES_PER_WORD))?
    }
}

/// The wide counter, or the narrow one where there is no other.
fn either(table: &Table<'_>, wide: &str, narrow: &str) -> Result<Words, TextError> {
    if let Some(column) = table.find(wide) {
        return Ok(Words {
            column,
            stuck_at: NOT_SUPPORTED,
        });
    }
    let column = table.column(narrow).map_err(|_| {
        let message = format!("table {} has neither `{wide}` nor `{narrow}`", table.name);
        TextError::at(table.line, message)
    })?;
    Ok(Words {
        column,
        stuck_at: u64::from(u32::MAX),
    })
}
