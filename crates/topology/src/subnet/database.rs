//! The tables of `ibdiagnet2.db_csv`: nodes, ports, links, and which switches route adaptively, each between `START_NAME` and `END_NAME` with a line of column names.

use std::collections::HashMap;

use super::csv::{Row, Table, table};
use super::{Subnet, SubnetPort};
use crate::text_error::TextError;
use record::units::Rate;

/// A table that the file must have, with all its rows whole.
fn needed<'t>(text: &'t str, name: &'static str) -> Result<Table<'t>, TextError> {
    let table =
        table(text, name)?.ok_or_else(|| TextError::whole_text(format!("table {name} is missing")))?;
    let cut_off = table.cut_off().next();
    cut_off.map_or(Ok(table), Err)
}

/// A number, in decimal or with `0x`; none for `N/A`.
fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// The number in a column that a table may have.
fn number_in(table: &Table<'_>, row: &Row<'_>, column: &str) -> Option<u64> {
    number(row.get(table.find(column)?))
}

/// Whether a text is such a file.
pub fn is_database(text: &str) -> bool {
    text.lines().any(|line| line.trim_end() == "START_NODES")
}

impl Subnet {
    /// The subnet that a file describes.
    pub fn of_database(text: &str) -> Result<Subnet, TextError> {
        let mut subnet = Subnet::default();
        let nodes = needed(text, "NODES")?;
        let (guid, kind) = (nodes.column("NodeGUID")?, nodes.column("NodeType")?);
        let description = nodes.find("NodeDesc");
        for row in &nodes.rows {
            let bad = |what: &str| TextError::at(row.line, format!("a node without {what}"));
            let guid = number(row.get(guid)).ok_or_else(|| bad("NodeGUID"))?;
            let kind = number(row.get(kind)).ok_or_else(|| bad("NodeType"))?;
            let description = description.map_or("", |column| row.get(column));
            subnet.add_node(guid, description, kind == 2, row.line);
        }
        let ports = needed(text, "PORTS")?;
        let mut rates: HashMap<SubnetPort, Rate> = HashMap::new();
        for row in &ports.rows {
            let bad = |what: String| TextError::at(row.line, what);
            let of_row = |column: &str| number_in(&ports, row, column);
            let (Some(guid), Some(port)) = (of_row("NodeGuid"), of_row("PortNum")) else {
                return Err(bad("a port without NodeGuid or PortNum".to_string()));
            };
            let node = subnet
                .node(guid)
                .ok_or_else(|| bad(format!("a port of {guid:#018x}, which is not among the nodes")))?;
            let lid = of_row("LID").and_then(|lid| u16::try_from(lid).ok()).unwrap_or(0);
            let lmc = of_row("LMC").map_or(0, |lmc| lmc.min(7) as u8);
            let port = port_number(port).ok_or_else(|| bad(format!("port {port} is beyond 254")))?;
            let codes = of_row("LinkWidthActv").zip(of_row("LinkSpeedActv"));
            if let Some(rate) = codes.and_then(|(width, speed)| rate_of(width, speed)) {
                rates.insert((node, port), rate);
            }
            // Of a switch, all ports have the LID of port 0.
            let port = if subnet.nodes()[node].is_switch { 0 } else { port };
            if lid != 0 && !subnet.add_lids((node, port), lid, lmc) {
                return Err(bad(format!("LID {lid} belongs to two ports")));
            }
        }
        let links = needed(text, "LINKS")?;
        for row in &links.rows {
            let end = |end: u8| {
                let guid = number_in(&links, row, &format!("NodeGuid{end}"))?;
                let port = port_number(number_in(&links, row, &format!("PortNum{end}"))?)?;
                Some((subnet.node(guid)?, port))
            };
            let (Some(one), Some(other)) = (end(1), end(2)) else {
                return Err(TextError::at(
                    row.line,
                    "a link without two ports of known nodes".to_string(),
                ));
            };
            let rate = rates.get(&one).or_else(|| rates.get(&other)).copied();
            if !subnet.add_cable([one, other], rate.unwrap_or(Rate(0.0)), row.line) {
                return Err(TextError::at(row.line, "a port with two cables".to_string()));
            }
        }
        if let Some(adaptive) = table(text, "AR_INFO")? {
            for row in &adaptive.rows {
                let switch = number_in(&adaptive, row, "NodeGUID").and_then(|guid| subnet.node(guid));
                // `e`: enabled.
                if let Some(switch) = switch.filter(|_| number_in(&adaptive, row, "e") == Some(1)) {
                    subnet.set_adaptive(switch);
                }
            }
        }
        Ok(subnet)
    }
}

/// What a port carries, by the codes of its width and speed.
fn rate_of(width: u64, speed: u64) -> Option<Rate> {
    let lanes = match width {
        1 => 1.0,
        2 => 4.0,
        4 => 8.0,
        8 => 12.0,
        16 => 2.0,
        _ => return None,
    };
    let gbit = match speed {
        0x1 => 2.5,
        0x2 => 5.0,
        0x4 | 0x1_0000 => 10.0,
        0x100 => 14.0,
        0x200 => 25.0,
        0x400 => 50.0,
        0x800 => 100.0,
        0x1000 => 200.0,
        _ => return None,
    };
    Some(Rate(lanes * gbit * 125e6))
}

fn port_number(port: u64) -> Option<u8> {
    u8::try_from(port).ok().filter(|port| *port < 255)
}
