//! QSFP modules and cables (SFF-8636): the upper half of page 00h.

use super::field::{Fields, byte, checksum, date, length, text, unreadable};
use record::Fact;

/// Lengths by the byte that tells them and what one of it is, in tenths of a metre: single mode, then the kinds of multimode.
const FIBRES: [(usize, u64); 5] = [(142, 10_000), (143, 20), (144, 10), (145, 10), (146, 20)];
/// The byte that tells a cable's length in metres, where it is one.
const COPPER: usize = 146;
/// Transmitters from here on are wires.
const FIRST_COPPER: u8 = 0x0a;
/// Wires from here on have electronics.
const FIRST_ACTIVE: u8 = 0x0c;

/// What a module says.
pub(super) fn fields(memory: &[u8]) -> Fields {
    let technology = byte(memory, 147).map(|technology| technology >> 4);
    let medium = match &technology {
        Ok(technology) if *technology >= FIRST_ACTIVE => Fact::Value("active cable".to_string()),
        Ok(technology) if *technology >= FIRST_COPPER => Fact::Value("passive copper".to_string()),
        Ok(_) => Fact::Value("optical".to_string()),
        Err(fact) => fact.clone(),
    };
    Fields {
        vendor: text(memory, 148..164),
        part_number: text(memory, 168..184),
        serial: text(memory, 196..212),
        revision: text(memory, 184..186),
        date: date(memory, 212..220),
        length: reach(
            memory,
            technology.is_ok_and(|technology| technology >= FIRST_COPPER),
        ),
        firmware: Fact::Absent,
        medium,
        checksum: checksum(memory, [128..191, 192..223]),
    }
}

fn reach(memory: &[u8], is_cable: bool) -> Fact {
    if memory.len() <= COPPER {
        return unreadable("the module gave out too little of its memory");
    }
    if is_cable {
        return length(u64::from(memory[COPPER]) * 10);
    }
    let lengths = FIBRES.iter().map(|(at, unit)| u64::from(memory[*at]) * unit);
    length(lengths.max().unwrap_or(0))
}
