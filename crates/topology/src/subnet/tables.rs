//! Forwarding tables as `ibroute`, `dump_lfts.sh` and `ibdiagnet2.fdbs` have them.
//!
//! ```text
//! Unicast lids [0x0-0x1e] of switch Lid 6 guid 0x0002c902ffff0a50 (leaf1):
//!   Lid  Out   Destination
//!        Port     Info
//! 0x0003 021 : (Channel Adapter portguid 0x0002c9030000942b: 'gpu001 mlx5_0')
//!
//! osm_ucast_mgr_dump_ucast_routes: Switch 0x0002c9030068ec10
//! LID    : Port : Hops : Optimal
//! 0x0001 : UNREACHABLE
//! 0x0002 : 003  : 00   : yes
//! ```

use std::collections::HashMap;

use crate::text_error::TextError;

/// The port that stands for "nowhere".
const NO_PORT: u8 = 255;

/// The forwarding table of a switch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ForwardingTable {
    /// The switch's GUID.
    pub switch: u64,
    /// The line where it begins.
    pub line: usize,
    /// The ports by which packets to a LID may leave: several with adaptive routing.
    ports: HashMap<u16, Vec<u8>>,
}

impl ForwardingTable {
    /// The ports by which packets to a LID may leave; none where they have no way.
    pub fn ports(&self, lid: u16) -> &[u8] {
        self.ports.get(&lid).map_or(&[], Vec::as_slice)
    }

    /// How many LIDs it has a port for.
    pub fn lids(&self) -> usize {
        self.ports.len()
    }

    /// Adds a port for a LID; false where it has another one already.
    fn add(&mut self, lid: u16, port: u8) -> bool {
        if port == NO_PORT {
            return true;
        }
        *self.ports.entry(lid).or_insert_with(|| vec![port]) == [port]
    }
}

/// All tables of a text; an error where it has none, or a line is not one of a table.
pub fn read_tables(text: &str) -> Result<Vec<ForwardingTable>, TextError> {
    let mut tables: Vec<ForwardingTable> = Vec::new();
    // Within tables of multicast, and private tables beyond the first, nothing is read.
    let mut is_skipped = false;
    for (line, content) in (1..).zip(text.lines()) {
        let content = content.trim();
        if let Some(head) = head_of(content) {
            is_skipped = head.is_none();
            if let Some(switch) = head {
                if tables.iter().any(|table| table.switch == switch) {
                    return Err(TextError::at(
                        line,
                        format!("switch {switch:#018x} has two tables"),
                    ));
                }
                tables.push(ForwardingTable {
                    switch,
                    line,
                    ports: HashMap::new(),
                });
            }
            continue;
        }
        if let Some(number) = content.strip_prefix("PLFT_NUM:") {
            is_skipped = number.trim() != "0";
            continue;
        }
        if is_skipped || !content.starts_with("0x") {
            continue;
        }
        let bad = |what: &str| TextError::at(line, format!("{what}: `{}`", shown(content)));
        let Some(table) = tables.last_mut() else {
            return Err(bad("a LID before the first switch"));
        };
        let mut words = content.split([' ', '\t', ':']).filter(|word| !word.is_empty());
        let (Some(lid), Some(port)) = (words.next(), words.next()) else {
            return Err(bad("not a LID and its port"));
        };
        let lid = lid
            .strip_prefix("0x")
            .and_then(|digits| u16::from_str_radix(digits, 16).ok());
        let lid = lid.ok_or_else(|| bad("not a LID"))?;
        if port.eq_ignore_ascii_case("UNREACHABLE") {
            continue;
        }
        let port: u8 = port.parse().map_err(|_| bad("not a port"))?;
        if !table.add(lid, port) {
            return Err(bad("this LID has another port already"));
        }
    }
    match tables.is_empty() {
        true => Err(TextError::at(1, "no forwarding table".to_string())),
        false => Ok(tables),
    }
}

/// Whether a text holds forwarding tables.
pub fn is_tables(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim);
    lines.any(|line| head_of(line).is_some())
}

/// The switch of a line that begins a table; inside none for a table that is not read.
fn head_of(line: &str) -> Option<Option<u64>> {
    if line.starts_with("Multicast mlids") {
        return Some(None);
    }
    let rest = match line.strip_prefix("Unicast lids") {
        Some(rest) => rest.split_once(" guid 0x")?.1,
        None => {
            line.strip_prefix("osm_ucast_mgr_dump_ucast_routes:")?
                .split_once("Switch 0x")?
                .1
        }
    };
    let digits: String = rest.chars().take_while(char::is_ascii_hexdigit).collect();
    Some(Some(u64::from_str_radix(&digits, 16).ok()?))
}

fn shown(text: &str) -> String {
    text.chars().take(60).flat_map(char::escape_default).collect()
}
