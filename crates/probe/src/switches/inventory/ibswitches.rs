//! What `ibswitches` prints: one line per switch of an InfiniBand subnet. It knows no firmware.
//!
//! ```text
//! Switch  : 0xfc6a1c0300d00100 ports 65 "MF0;leaf1:MQM9700/U1" enhanced port 0 lid 3 lmc 0
//! ```

use std::collections::HashMap;

use super::parsed::{ParsedInventory, put, switch_part};
use crate::switches::tables::id_of;
use topology::import::name_in_description;
use topology::text_error::TextError;

/// One line.
struct Line<'t> {
    guid: &'t str,
    ports: &'t str,
    description: &'t str,
    lid: Option<&'t str>,
}

pub(super) fn recognises(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim);
    let first = lines.find(|line| !line.is_empty() && !line.starts_with('#'));
    first.is_some_and(|line| after_the_word(line).is_some())
}

pub(super) fn read(text: &str) -> ParsedInventory {
    let mut parsed = ParsedInventory::default();
    let mut lines = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        match line.trim() {
            "" => {}
            comment if comment.starts_with('#') => {}
            line => match parse(line) {
                Some(line) => lines.push(line),
                None => {
                    let shown: String = line.chars().take(60).flat_map(char::escape_default).collect();
                    let message = format!("not a line of ibswitches: `{shown}`");
                    parsed.errors.push(TextError::at(number, message));
                }
            },
        }
    }
    let mut uses: HashMap<String, usize> = HashMap::new();
    for name in lines
        .iter()
        .filter_map(|line| name_in_description(line.description))
    {
        *uses.entry(name).or_default() += 1;
    }
    for line in &lines {
        // Two switches that describe themselves alike go by their GUIDs.
        let own = name_in_description(line.description).filter(|name| uses.get(name) == Some(&1));
        let name = own.unwrap_or_else(|| id_of(line.guid));
        let mut part = switch_part(&name);
        put(&mut part, "guid", Some(line.guid));
        put(&mut part, "description", Some(line.description));
        put(&mut part, "type", type_in_description(line.description));
        put(&mut part, "ports", Some(line.ports));
        put(&mut part, "lid", line.lid);
        parsed.part(&name, part);
    }
    parsed
}

/// `MF0;leaf1:MQM9700/U1` is an MQM9700, `Quantum-2 Mellanox Technologies` a Quantum-2.
pub(super) fn type_in_description(description: &str) -> Option<&str> {
    let model = match description.strip_prefix("MF0;") {
        Some(managed) => managed.split_once(':')?.1.split('/').next()?,
        None => description.strip_suffix("Mellanox Technologies")?,
    };
    Some(model.trim()).filter(|model| !model.is_empty())
}

fn after_the_word(line: &str) -> Option<&str> {
    line.strip_prefix("Switch")?.trim_start().strip_prefix(':')
}

fn parse(line: &str) -> Option<Line<'_>> {
    let (head, rest) = after_the_word(line)?.split_once('"')?;
    let (description, tail) = rest.rsplit_once('"')?;
    let mut words = head.split_whitespace();
    let guid = words.next().filter(|guid| guid.starts_with("0x"))?;
    let ports = words.next().filter(|word| *word == "ports").and(words.next())?;
    let mut tail = tail.split_whitespace();
    let lid = tail.find(|word| *word == "lid").and(tail.next());
    Some(Line {
        guid,
        ports,
        description: description.trim(),
        lid,
    })
}
