//! The memory of transceivers and cables: one standard per file, with the same facts for all.
//!
//! The first byte selects the standard. Memory that is too short, of an unknown kind, or without text where text should be is
//! unreadable; nothing in it makes a reader fail.

mod cmis;
mod field;
mod monitors;
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

/// Set in byte 2 of a QSFP module that has no pages but the first.
const IS_FLAT_QSFP: u8 = 0x04;

/// A piece of a module's memory: page, I2C address, and where it begins there. Each has 128 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Page.
    pub page: u8,
    /// I2C address.
    pub address: u8,
    /// Its first byte.
    pub offset: u8,
}

/// What is worth asking for behind the first 256 bytes of a module, in the order in which it is kept: pages that say what the module measures.
pub fn more_pieces(memory: &[u8]) -> Vec<Piece> {
    const MODULE: u8 = 0x50;
    const DIAGNOSTICS: u8 = 0x51;
    let upper = |page: u8| Piece {
        page,
        address: MODULE,
        offset: 128,
    };
    let byte = |at: usize| memory.get(at).copied().unwrap_or(0);
    match kind_of(memory) {
        Some((_, Standard::Cmis)) if has_page_one(memory) => vec![upper(0x01), upper(0x02), upper(0x11)],
        Some((_, Standard::Sff8636)) if byte(2) & IS_FLAT_QSFP == 0 => vec![upper(0x03)],
        Some((_, Standard::Sff8472)) if byte(92) & 0x40 != 0 => vec![Piece {
            page: 0,
            address: DIAGNOSTICS,
            offset: 0,
        }],
        _ => Vec::new(),
    }
}

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
    monitors::add(memory, &mut facts);
    facts
}

#[cfg(test)]
mod tests;
