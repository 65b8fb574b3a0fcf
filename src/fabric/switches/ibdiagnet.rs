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

use super::{PortBytes, PortTable, Trouble, Width, number};
use crate::fabric::import::name_in_description;

const BYTES_PER_WORD: u64 = 4;
const NODES: &str = "NODES";
const COUNTERS: &str = "PM_INFO";
/// The `NodeType` of switches.
const SWITCH: u64 = 2;
/// How columns say that a device does not have them: the two highest values.
const NOT_SUPPORTED: u64 = u64::MAX - 1;

pub(super) fn recognises(text: &str) -> bool {
    text.lines()
        .any(|line| line.trim_end() == "START_PM_INFO" || line.trim_end() == "START_NODES")
}

pub(super) fn read(text: &str) -> Result<PortTable, Trouble> {
    let nodes = match section(text, NODES)? {
        Some(nodes) => nodes_in(&nodes)?,
        None => HashMap::new(),
    };
    let Some(counters) = section(text, COUNTERS)? else {
        return Err(Trouble::of_all(
            "there is no table PM_INFO: the counters of ports were not collected",
        ));
    };
    let (guid, port) = (counters.column("NodeGUID")?, counters.column("PortNumber")?);
    let sent = counters.either("PortXmitDataExtended", "PortXmitData")?;
    let received = counters.either("PortRcvDataExtended", "PortRcvData")?;
    let mut table = PortTable::default();
    for row in &counters.rows {
        let id = id_of(row.get(guid));
        let name = match nodes.get(&id) {
            Some(Node::Other) => continue,
            Some(Node::Switch(name)) => name.clone(),
            None => id,
        };
        let number = row.get(port).trim();
        let bytes = PortBytes {
            tx_bytes: sent.bytes(row),
            rx_bytes: received.bytes(row),
            width: Width::Bits64,
        };
        let put = table.put(&name, &format!("p{number}"), bytes);
        put.map_err(|problem| Trouble::at(row.line, problem))?;
    }
    Ok(table)
}

/// A table of the file: its columns and its rows.
struct Section<'t> {
    name: &'static str,
    line: usize,
    columns: Vec<String>,
    rows: Vec<Row<'t>>,
}

struct Row<'t> {
    line: usize,
    cells: Vec<&'t str>,
}

impl Row<'_> {
    fn get(&self, column: usize) -> &str {
        self.cells.get(column).copied().unwrap_or_default()
    }
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

impl Section<'_> {
    fn find(&self, column: &str) -> Option<usize> {
        self.columns.iter().position(|name| name == column)
    }

    fn column(&self, column: &str) -> Result<usize, Trouble> {
        self.find(column)
            .ok_or_else(|| Trouble::at(self.line, format!("table {} has no column `{column}`", self.name)))
    }

    /// The wide counter, or the narrow one where there is no other.
    fn either(&self, wide: &str, narrow: &str) -> Result<Words, Trouble> {
        if let Some(column) = self.find(wide) {
            return Ok(Words {
                column,
                stuck_at: NOT_SUPPORTED,
            });
        }
        let column = self.column(narrow).map_err(|_| {
            let message = format!("table {} has neither `{wide}` nor `{narrow}`", self.name);
            Trouble::at(self.line, message)
        })?;
        Ok(Words {
            column,
            stuck_at: u64::from(u32::MAX),
        })
    }
}

/// One table; none when the file does not have it.
fn section<'t>(text: &'t str, name: &'static str) -> Result<Option<Section<'t>>, Trouble> {
    let (start, end) = (format!("START_{name}"), format!("END_{name}"));
    let mut lines = (1..)
        .zip(text.lines())
        .map(|(number, line)| (number, line.trim_end()));
    let Some((began, _)) = lines.find(|(_, line)| *line == start) else {
        return Ok(None);
    };
    let Some((line, header)) = lines.next() else {
        return Err(Trouble::at(began, format!("table {name} is cut off")));
    };
    let mut rows = Vec::new();
    for (number, line) in lines {
        if line == end {
            return Ok(Some(Section {
                name,
                line: began + 1,
                columns: cells(header).into_iter().map(str::to_string).collect(),
                rows,
            }));
        }
        if !line.is_empty() {
            rows.push(Row {
                line: number,
                cells: cells(line),
            });
        }
    }
    Err(Trouble::at(
        line,
        format!("table {name} is cut off: `{end}` is missing"),
    ))
}

/// The cells of a line, without their quotes. A quoted cell may hold commas.
fn cells(line: &str) -> Vec<&str> {
    let mut cells = Vec::new();
    let (mut from, mut quoted) = (0, false);
    for (at, c) in line.char_indices() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => {
                cells.push(bare(&line[from..at]));
                from = at + 1;
            }
            _ => {}
        }
    }
    cells.push(bare(&line[from..]));
    cells
}

fn bare(cell: &str) -> &str {
    let cell = cell.trim();
    let inner = cell.strip_prefix('"').and_then(|cell| cell.strip_suffix('"'));
    inner.unwrap_or(cell)
}

/// A node as `ibnetdiscover` calls a switch without a name. GUIDs are written with and without leading zeros.
fn id_of(text: &str) -> String {
    match number::of_text(text).filter(|_| text.trim_start().starts_with("0x")) {
        Some(guid) => format!("S-{guid:016x}"),
        None => text.trim().to_string(),
    }
}

/// What is known of a node.
enum Node {
    /// A switch, and its name.
    Switch(String),
    /// An adapter or a router: its ports are no ports of switches.
    Other,
}

/// All nodes by their ids. Two switches that describe themselves alike go by their ids.
fn nodes_in(table: &Section<'_>) -> Result<HashMap<String, Node>, Trouble> {
    let (guid, description) = (table.column("NodeGUID")?, table.column("NodeDesc")?);
    let kind = table.find("NodeType");
    let is_switch = |row: &Row<'_>| kind.is_none_or(|kind| number::of_text(row.get(kind)) == Some(SWITCH));
    let name_of = |row: &Row<'_>| name_in_description(row.get(description));
    let mut uses: HashMap<String, usize> = HashMap::new();
    for name in table.rows.iter().filter(|row| is_switch(row)).filter_map(name_of) {
        *uses.entry(name).or_default() += 1;
    }
    let node = |row: &Row<'_>| {
        let id = id_of(row.get(guid));
        let own = name_of(row).filter(|name| uses.get(name) == Some(&1));
        let node = match is_switch(row) {
            true => Node::Switch(own.unwrap_or_else(|| id.clone())),
            false => Node::Other,
        };
        (id, node)
    };
    Ok(table.rows.iter().map(node).collect())
}
