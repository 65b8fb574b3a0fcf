//! The memory of transceivers and cables: one standard per file, with the same facts for all.
//!
//! The first byte selects the standard. Memory that is too short, of an unknown kind, or without text where text should be is
//! unreadable; nothing in it makes a reader fail.

mod cmis;
mod field;
mod sff8472;
mod sff8636;

use std::collections::BTreeMap;

pub use cmis::has_page_one;

use field::{Fields, unreadable};
use record::Fact;

/// Kinds of modules by their first byte, and the standard that says what follows.
const KINDS: &[(u8, &str, Standard)] = &[
    (0x03, "SFP", Standard::Sff8472),
    (0x0b, "DWDM-SFP", Standard::Sff8472),
    (0x0c, "QSFP", Standard::Sff8636),
    (0x0d, "QSFP+", Standard::Sff8636),
    (0x11, "QSFP28", Standard::Sff8636),
    (0x18, "QSFP-DD", Standard::Cmis),
    (0x19, "OSFP", Standard::Cmis),
    (0x1b, "DSFP", Standard::Cmis),
    (0x1e, "QSFP112", Standard::Cmis),
    (0x1f, "SFP-DD", Standard::Cmis),
    (0x20, "SFP112", Standard::Cmis),
    (0x21, "OSFP-XD", Standard::Cmis),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Standard {
    Sff8472,
    Sff8636,
    Cmis,
}

/// The names of the facts that every standard has.
const NAMES: [&str; 8] = [
    "vendor",
    "part-number",
    "serial",
    "revision",
    "date-code",
    "length",
    "firmware",
    "medium",
];

/// The kind of a module and the standard of its memory.
fn kind_of(memory: &[u8]) -> Option<(&'static str, Standard)> {
    let first = *memory.first()?;
    let known = KINDS.iter().find(|(byte, ..)| *byte == first)?;
    Some((known.1, known.2))
}

/// The facts in a module's memory, by the names that inventories use.
pub fn facts(memory: &[u8]) -> BTreeMap<String, Fact> {
    let mut facts = BTreeMap::new();
    let fields = match kind_of(memory) {
        Some((kind, standard)) => {
            facts.insert("kind".to_string(), Fact::Value(kind.to_string()));
            match standard {
                Standard::Sff8472 => sff8472::fields(memory),
                Standard::Sff8636 => sff8636::fields(memory),
                Standard::Cmis => cmis::fields(memory),
            }
        }
        None => {
            let why = match memory.first() {
                Some(first) => format!("unknown module type {first:#04x}"),
                None => "the module's memory is empty".to_string(),
            };
            facts.insert("kind".to_string(), unreadable(&why));
            Fields::all_unreadable(&why)
        }
    };
    let named = NAMES.iter().zip(fields.in_order());
    facts.extend(named.map(|(name, fact)| (name.to_string(), fact)));
    facts.insert("checksum".to_string(), fields.checksum);
    facts
}

#[cfg(test)]
mod tests;
