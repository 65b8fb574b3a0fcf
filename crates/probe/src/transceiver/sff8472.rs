//! SFP modules and cables (SFF-8472): the first 128 bytes of address A0h.

use super::field::{Fields, byte, checksum, date, length, text, unreadable};
use record::Fact;

/// Lengths by the byte that tells them and what one of it is, in tenths of a metre: single mode, then the kinds of multimode.
const FIBRES: [(usize, u64); 6] = [
    (14, 10_000),
    (15, 1000),
    (18, 100),
    (19, 100),
    (16, 100),
    (17, 100),
];
/// The byte that tells a cable's length in metres, where it is one.
const COPPER: usize = 18;

/// What a module says.
pub(super) fn fields(memory: &[u8]) -> Fields {
    let cable = byte(memory, 8).map(|technology| technology & 0x0c);
    let medium = match &cable {
        Ok(0x04) => Fact::Value("passive copper".to_string()),
        Ok(0x08) | Ok(0x0c) => Fact::Value("active cable".to_string()),
        Ok(_) => Fact::Value("optical".to_string()),
        Err(fact) => fact.clone(),
    };
    Fields {
        vendor: text(memory, 20..36),
        part_number: text(memory, 40..56),
        serial: text(memory, 68..84),
        revision: text(memory, 56..60),
        date: date(memory, 84..92),
        length: reach(memory, cable != Ok(0)),
        firmware: Fact::Absent,
        medium,
        checksum: checksum(memory, [0..63, 64..95]),
    }
}

fn reach(memory: &[u8], is_cable: bool) -> Fact {
    if is_cable {
        return byte(memory, COPPER).map_or_else(|fact| fact, |metres| length(u64::from(metres) * 10));
    }
    if memory.len() <= 19 {
        return unreadable("the module gave out too little of its memory");
    }
    let lengths = FIBRES.iter().map(|(at, unit)| u64::from(memory[*at]) * unit);
    length(lengths.max().unwrap_or(0))
}
