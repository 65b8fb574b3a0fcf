//! What one text told, in the words of the record.

use record::{Cable, Fact, InventoryPart, PartAt, PartClass};
use topology::import::{node_name, port_name};
use topology::text_error::TextError;

/// No value is longer: more is not one.
const LONGEST_VALUE: usize = 1024;
/// How switches and their managers say that they have no value.
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

/// What one text told of switches and cables, and what is wrong with parts of it.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// Parts, each with the switch it belongs to.
    pub parts: Vec<(String, InventoryPart)>,
    /// Cables.
    pub cables: Vec<Cable>,
    /// What could not be understood.
    pub troubles: Vec<TextError>,
}

impl Told {
    /// One more part of a switch, under the names that topology files use.
    pub fn part(&mut self, switch: &str, part: InventoryPart) {
        self.parts.push((node_name(switch), part));
    }

    /// What two tell.
    pub fn and(mut self, other: Told) -> Told {
        self.parts.extend(other.parts);
        self.cables.extend(other.cables);
        self.troubles.extend(other.troubles);
        self
    }

    /// Whether nothing was told, not even that something is wrong.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty() && self.cables.is_empty() && self.troubles.is_empty()
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

/// What is plugged into a port of a switch.
pub(super) fn module_part(port: &str) -> InventoryPart {
    let name = port_name(port);
    let said = Fact::Value(name.clone());
    InventoryPart::new(PartClass::Module, name).with("interface", said)
}

/// The end of a cable at a switch port or a host's interface.
pub(super) fn end(node: &str, port: &str) -> PartAt {
    PartAt {
        node: node_name(node),
        part: port_name(port),
    }
}

/// A cable, called by one of its ends until a topology has a name for it.
pub(super) fn cable(ends: [PartAt; 2]) -> Cable {
    Cable {
        name: format!("{}:{}", ends[0].node, ends[0].part.replace('/', ":")),
        ends,
        facts: Default::default(),
    }
}

/// A value as it was said.
pub(super) fn fact(said: &str) -> Fact {
    let said = said.trim();
    let lower = said.to_ascii_lowercase();
    if NO_VALUE.contains(&lower.as_str()) {
        return Fact::Absent;
    }
    match said.len() > LONGEST_VALUE {
        false => Fact::Value(said.to_string()),
        true => Fact::Unreadable {
            why: "it is longer than anything of its kind".to_string(),
            needs: None,
        },
    }
}

/// Adds a fact to a part, if anything was said about it.
pub(super) fn put(part: &mut InventoryPart, name: &str, said: Option<&str>) {
    if let Some(said) = said {
        part.facts.insert(name.to_string(), fact(said));
    }
}

/// A speed in Mbit/s, as kernels tell it: `400G`, `400 Gb/s`, `400gbit` and `400000` are the same. What is none stays as it was said.
pub(super) fn speed(said: &str) -> String {
    let text = said.trim();
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
