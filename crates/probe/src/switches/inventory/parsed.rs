//! The inventory parsed from one text.

use record::{Cable, Fact, InventoryPart, PartAt, PartClass};
use topology::import::{node_name, port_name};
use topology::text_error::TextError;

/// The longest value.
const LONGEST_VALUE: usize = 1024;
/// Texts that stand for no value.
const NO_VALUE: &[&str] = &[
    "",
    "n/a",
    "na",
    "none",
    "null",
    "unknown",
    "unspecified",
    "not available",
    "-",
    "--",
];

/// The switches and cables of one text, and the errors in it.
#[derive(Debug, Default)]
pub(super) struct ParsedInventory {
    /// Parts, each with the switch it belongs to.
    pub parts: Vec<(String, InventoryPart)>,
    /// Cables.
    pub cables: Vec<Cable>,
    /// Errors in the text.
    pub errors: Vec<TextError>,
}

impl ParsedInventory {
    /// Adds a part of a switch, under the names that topology files use.
    pub fn part(&mut self, switch: &str, part: InventoryPart) {
        self.parts.push((node_name(switch), part));
    }

    /// Both together.
    pub fn and(mut self, other: ParsedInventory) -> ParsedInventory {
        self.parts.extend(other.parts);
        self.cables.extend(other.cables);
        self.errors.extend(other.errors);
        self
    }

    /// Whether there is neither a part, a cable nor an error.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty() && self.cables.is_empty() && self.errors.is_empty()
    }
}

/// The part that is the switch itself.
pub(super) fn switch_part(name: &str) -> InventoryPart {
    InventoryPart::new(PartClass::Switch, node_name(name))
}

/// A port of a switch.
pub(super) fn port_part(name: &str) -> InventoryPart {
    InventoryPart::new(PartClass::Port, port_name(name))
}

/// The module in a port of a switch.
pub(super) fn module_part(port: &str) -> InventoryPart {
    let name = port_name(port);
    let text = Fact::Value(name.clone());
    InventoryPart::new(PartClass::Module, name).with("interface", text)
}

/// The end of a cable at a switch port or a host's interface.
pub(super) fn end(node: &str, port: &str) -> PartAt {
    PartAt {
        node: node_name(node),
        part: port_name(port),
    }
}

/// A cable, named after one of its ends until a topology names it.
pub(super) fn cable(ends: [PartAt; 2]) -> Cable {
    Cable {
        name: format!("{}:{}", ends[0].node, ends[0].part.replace('/', ":")),
        ends,
        facts: Default::default(),
    }
}

/// A value as it was text.
pub(super) fn fact(text: &str) -> Fact {
    let text = text.trim();
    let lower = text.to_ascii_lowercase();
    if NO_VALUE.contains(&lower.as_str()) {
        return Fact::Absent;
    }
    match text.len() > LONGEST_VALUE {
        false => Fact::Value(text.to_string()),
        true => Fact::Unreadable {
            why: "longer than 1024 bytes".to_string(),
            needs: None,
        },
    }
}

/// Adds a fact to a part, if anything was text about it.
pub(super) fn put(part: &mut InventoryPart, name: &str, text: Option<&str>) {
    if let Some(text) = text {
        part.facts.insert(name.to_string(), fact(text));
    }
}

/// A speed in Mbit/s, as kernels tell it: `400G`, `400 Gb/s`, `400gbit` and `400000` are the same. What is none stays as it was text.
pub(super) fn speed(text: &str) -> String {
    let text = text.trim();
    let lower = text.to_ascii_lowercase();
    let digits = lower.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit: String = lower[digits.len()..]
        .chars()
        .filter(|c| !c.is_whitespace())
        .collect();
    let scale = match unit.as_str() {
        "" | "m" | "mb/s" | "mbit" | "mbit/s" | "mbps" => 1,
        "g" | "gb/s" | "gbit" | "gbit/s" | "gbps" | "gb/sec" => 1000,
        "t" | "tb/s" | "tbps" => 1_000_000,
        _ => return text.to_string(),
    };
    let number: Option<u64> = digits.parse().ok();
    match number.and_then(|number| number.checked_mul(scale)) {
        Some(megabits) => megabits.to_string(),
        None => text.to_string(),
    }
}
