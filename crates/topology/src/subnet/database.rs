//! The tables of `ibdiagnet2.db_csv`: nodes, ports, links, and which switches route adaptively, each between `START_NAME` and `END_NAME` with a line of column names.

use std::collections::HashMap;

use super::{Subnet, SubnetPort};
use crate::text_error::TextError;
use record::units::Rate;

/// A table: its columns by name, and its rows with their lines.
struct Section<'t> {
    columns: HashMap<&'t str, usize>,
    rows: Vec<(usize, Vec<&'t str>)>,
}

impl<'t> Section<'t> {
    /// The value of a column in a row.
    fn value(&self, row: &[&'t str], column: &str) -> Option<&'t str> {
        let value = row.get(*self.columns.get(column)?)?;
        Some(value.trim().trim_matches('"'))
    }

    /// The same as a number, in decimal or with `0x`; none for `N/A`.
    fn number(&self, row: &[&'t str], column: &str) -> Option<u64> {
        let value = self.value(row, column)?;
        match value.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => value.parse().ok(),
        }
    }
}

/// Whether a text is such a file.
pub fn is_database(text: &str) -> bool {
    text.lines().any(|line| line.trim() == "START_NODES")
}

impl Subnet {
    /// The subnet that a file describes.
    pub fn of_database(text: &str) -> Result<Subnet, TextError> {
        let mut subnet = Subnet::default();
        let missing = |what: &str| TextError::at(1, format!("the section {what} is missing"));
        let nodes = section(text, "NODES").ok_or_else(|| missing("NODES"))?;
        for (line, row) in &nodes.rows {
            let bad = |what: &str| TextError::at(*line, format!("a node without {what}"));
            let guid = nodes.number(row, "NodeGUID").ok_or_else(|| bad("NodeGUID"))?;
            let kind = nodes.number(row, "NodeType").ok_or_else(|| bad("NodeType"))?;
            subnet.add_node(
                guid,
                nodes.value(row, "NodeDesc").unwrap_or_default(),
                kind == 2,
                *line,
            );
        }
        let ports = section(text, "PORTS").ok_or_else(|| missing("PORTS"))?;
        let mut rates: HashMap<SubnetPort, Rate> = HashMap::new();
        for (line, row) in &ports.rows {
            let bad = |what: String| TextError::at(*line, what);
            let (Some(guid), Some(port)) = (ports.number(row, "NodeGuid"), ports.number(row, "PortNum"))
            else {
                return Err(bad("a port without NodeGuid or PortNum".to_string()));
            };
            let node = subnet
                .node(guid)
                .ok_or_else(|| bad(format!("a port of {guid:#018x}, which is not among the nodes")))?;
            let lid = ports
                .number(row, "LID")
                .and_then(|lid| u16::try_from(lid).ok())
                .unwrap_or(0);
            let lmc = ports.number(row, "LMC").map_or(0, |lmc| lmc.min(7) as u8);
            let port = port_number(port).ok_or_else(|| bad(format!("port {port} is beyond 254")))?;
            let (width, speed) = (
                ports.number(row, "LinkWidthActv"),
                ports.number(row, "LinkSpeedActv"),
            );
            if let Some(rate) = width.zip(speed).and_then(|(width, speed)| rate_of(width, speed)) {
                rates.insert((node, port), rate);
            }
            // Of a switch, all ports have the LID of port 0.
            let port = if subnet.nodes()[node].is_switch { 0 } else { port };
            if lid != 0 && !subnet.add_lids((node, port), lid, lmc) {
                return Err(bad(format!("LID {lid} belongs to two ports")));
            }
        }
        let links = section(text, "LINKS").ok_or_else(|| missing("LINKS"))?;
        for (line, row) in &links.rows {
            let end = |number: u8| {
                let guid = links.number(row, &format!("NodeGuid{number}"))?;
                let port = port_number(links.number(row, &format!("PortNum{number}"))?)?;
                Some((subnet.node(guid)?, port))
            };
            let (Some(one), Some(other)) = (end(1), end(2)) else {
                return Err(TextError::at(
                    *line,
                    "a link without two ports of known nodes".to_string(),
                ));
            };
            let rate = rates.get(&one).or_else(|| rates.get(&other)).copied();
            if !subnet.add_cable([one, other], rate.unwrap_or(Rate(0.0)), *line) {
                return Err(TextError::at(*line, "a port with two cables".to_string()));
            }
        }
        if let Some(adaptive) = section(text, "AR_INFO") {
            for (_, row) in &adaptive.rows {
                let switch = adaptive
                    .number(row, "NodeGUID")
                    .and_then(|guid| subnet.node(guid));
                // `e`: enabled.
                if let Some(switch) = switch.filter(|_| adaptive.number(row, "e") == Some(1)) {
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

/// The section of that name.
fn section<'t>(text: &'t str, name: &str) -> Option<Section<'t>> {
    let mut lines = (1..)
        .zip(text.lines())
        .map(|(number, line)| (number, line.trim()));
    lines.find(|(_, line)| line.strip_prefix("START_") == Some(name))?;
    let (_, head) = lines.next()?;
    let columns = head.split(',').map(str::trim).enumerate();
    let rows = lines
        .take_while(|(_, line)| line.strip_prefix("END_") != Some(name))
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    Some(Section {
        columns: columns.map(|(place, column)| (column, place)).collect(),
        rows: rows.map(|(number, line)| (number, cells(line))).collect(),
    })
}

/// The cells of a line; commas within quotes are text.
fn cells(line: &str) -> Vec<&str> {
    let mut cells = Vec::new();
    let (mut start, mut is_quoted) = (0, false);
    for (place, byte) in line.bytes().enumerate() {
        match byte {
            b'"' => is_quoted = !is_quoted,
            b',' if !is_quoted => {
                cells.push(&line[start..place]);
                start = place + 1;
            }
            _ => {}
        }
    }
    cells.push(&line[start..]);
    cells
}
