//! QSFP-DD, OSFP and their kin (CMIS): the lower half, page 00h, and page 01h of modules that have more than one.

use super::field::{Fields, byte, checksum, date, length, text, unreadable};
use super::{Standard, kind_of};
use record::Fact;

/// Set when a module has no pages but the first.
const IS_FLAT: u8 = 0x80;
/// Where page 01h begins in what is read of a module, less where it begins in its own count.
const PAGE_ONE: usize = 256 - 128;
/// Media by number.
const MEDIA: [&str; 6] = [
    "unknown",
    "optical",
    "optical",
    "passive copper",
    "active cable",
    "copper",
];
/// Cables may be as long as their length can say, or longer.
const LONGER: u8 = 0xff;

/// Whether there is a page 01h to ask for, by the lower half.
pub fn has_page_one(memory: &[u8]) -> bool {
    let is_cmis = kind_of(memory).is_some_and(|(_, standard)| standard == Standard::Cmis);
    is_cmis && memory.get(2).is_some_and(|flags| flags & IS_FLAT == 0)
}

/// What a module says.
pub(super) fn fields(memory: &[u8]) -> Fields {
    let medium = byte(memory, 85).map(|medium| match MEDIA.get(usize::from(medium)) {
        Some(&"unknown") => unreadable("the module does not say"),
        Some(medium) => Fact::Value(medium.to_string()),
        None => Fact::Value(format!("kind {medium}")),
    });
    Fields {
        vendor: text(memory, 129..145),
        part_number: text(memory, 148..164),
        serial: text(memory, 166..182),
        revision: text(memory, 164..166),
        date: date(memory, 182..190),
        length: reach(memory),
        firmware: firmware(memory),
        medium: medium.unwrap_or_else(|fact| fact),
        checksum: checksum(memory, Some(128..222)),
    }
}

/// The firmware that runs. Modules without a processor have none.
fn firmware(memory: &[u8]) -> Fact {
    match (byte(memory, 39), byte(memory, 40)) {
        (Ok(0), Ok(0)) => Fact::Absent,
        (Ok(0xff), Ok(0xff)) => unreadable("the module says that its firmware is not valid"),
        (Ok(major), Ok(minor)) => Fact::Value(format!("{major}.{minor}")),
        (Err(fact), _) | (_, Err(fact)) => fact,
    }
}

/// The length of a cable, or how far a module reaches.
fn reach(memory: &[u8]) -> Fact {
    let cable = match byte(memory, 202) {
        Ok(LONGER) => return Fact::Value("more than 6300 m".to_string()),
        Ok(cable) => cable,
        Err(fact) => return fact,
    };
    let tenths = scaled(cable, [1, 10, 100, 1000]);
    if tenths > 0 || !has_page_one(memory) {
        return length(tenths);
    }
    let fibre = |at: usize| byte(memory, PAGE_ONE + at);
    let single = fibre(132).map(|single| scaled(single, [1000, 10_000, 10_000, 10_000]));
    let multi = [(133, 20), (134, 20), (135, 20), (136, 10)]
        .map(|(at, unit)| fibre(at).map(|it| u64::from(it) * unit));
    let all: Result<Vec<u64>, Fact> = multi.into_iter().chain([single]).collect();
    all.map_or_else(|fact| fact, |all| length(all.into_iter().max().unwrap_or(0)))
}

/// Six bits times what the two above them stand for.
fn scaled(byte: u8, units: [u64; 4]) -> u64 {
    u64::from(byte & 0x3f) * units[usize::from(byte >> 6)]
}
