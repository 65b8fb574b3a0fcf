//! What a module measures of itself: temperature, light received and sent, current of its lasers, and the bounds that its maker set for each.
//!
//! Values are those of the moment in which the memory was read, one per lane. Bounds are in the order of the scale: low alarm, low warning, high
//! warning, high alarm. A module that does not measure something lacks the fact. Modules that leave the conversion to their reader (SFF-8472,
//! external calibration) are unreadable, and so are pages that the driver did not return.

use std::collections::BTreeMap;

use super::field::unreadable;
use super::{Standard, kind_of};
use record::Fact;

/// Facts of measurements; each has one with its bounds, too.
pub(super) const NAMES: [(&str, &str, Unit); 4] = [
    ("temperature", "temperature-bounds", Unit::Celsius),
    ("rx-power", "rx-power-bounds", Unit::Dbm),
    ("tx-power", "tx-power-bounds", Unit::Dbm),
    ("tx-bias", "tx-bias-bounds", Unit::Milliamperes),
];

/// What is read as no light: there is no logarithm of nothing.
const DARK: f64 = -40.0;

/// How a pair of bytes becomes a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    /// Signed 256ths of a degree.
    Celsius,
    /// Tenths of a microwatt.
    Dbm,
    /// Two microamperes each.
    Milliamperes,
}

/// Where a standard keeps one measurement: values, how many of them, and the four bounds as the memory orders them (high alarm, low alarm, high
/// warning, low warning).
#[derive(Clone, Copy)]
struct Place {
    values: usize,
    lanes: usize,
    bounds: usize,
}

/// Everything that is measured, in the order of the names.
type Places = [Option<Place>; 4];

/// Adds what a module measures.
pub(super) fn add(memory: &[u8], facts: &mut BTreeMap<String, Fact>) {
    let places = match kind_of(memory) {
        Some((_, Standard::Sff8472)) => sff8472(memory),
        Some((_, Standard::Sff8636)) => sff8636(memory),
        Some((_, Standard::Cmis)) => cmis(memory),
        None => Err(unreadable("the kind of the module is not known")),
    };
    let scale = match kind_of(memory) {
        Some((_, Standard::Cmis)) => bias_scale(memory),
        _ => 1.0,
    };
    for (index, (name, bounds_name, unit)) in NAMES.into_iter().enumerate() {
        let scale = if unit == Unit::Milliamperes { scale } else { 1.0 };
        let (value, bounds) = match &places {
            Ok(places) => match places[index] {
                Some(place) => (
                    in_words(memory, (place.values, place.lanes), unit, scale),
                    bounds(memory, place.bounds, unit, scale),
                ),
                None => (Fact::Absent, Fact::Absent),
            },
            Err(why) => (why.clone(), why.clone()),
        };
        facts.insert(name.to_string(), value);
        facts.insert(bounds_name.to_string(), bounds);
    }
}

fn too_little() -> Fact {
    unreadable("the module gave out too little of its memory")
}

fn byte(memory: &[u8], at: usize) -> Result<u8, Fact> {
    memory.get(at).copied().ok_or_else(too_little)
}

fn number(memory: &[u8], at: usize, unit: Unit, scale: f64) -> Option<f64> {
    let pair: [u8; 2] = memory.get(at..at + 2)?.try_into().ok()?;
    let whole = u16::from_be_bytes(pair);
    Some(match unit {
        Unit::Celsius => f64::from(i16::from_be_bytes(pair)) / 256.0,
        Unit::Dbm if whole == 0 => DARK,
        Unit::Dbm => (10.0 * (f64::from(whole) * 1e-4).log10()).max(DARK),
        Unit::Milliamperes => f64::from(whole) * 2e-3 * scale,
    })
}

fn in_words(memory: &[u8], (at, lanes): (usize, usize), unit: Unit, scale: f64) -> Fact {
    let values = (0..lanes).map(|lane| number(memory, at + 2 * lane, unit, scale));
    let Some(values) = values.collect::<Option<Vec<f64>>>() else {
        return too_little();
    };
    Fact::Value(written(&values, unit))
}

fn bounds(memory: &[u8], at: usize, unit: Unit, scale: f64) -> Fact {
    let read = |place: usize| number(memory, at + place, unit, scale);
    let (Some(high_alarm), Some(low_alarm), Some(high), Some(low)) = (read(0), read(2), read(4), read(6))
    else {
        return too_little();
    };
    let all_zero = memory
        .get(at..at + 8)
        .is_some_and(|bytes| bytes.iter().all(|byte| *byte == 0));
    match all_zero {
        // The maker set none.
        true => Fact::Absent,
        false => Fact::Value(written(&[low_alarm, low, high, high_alarm], unit)),
    }
}

/// `-2.1 -2.3 dBm`.
fn written(values: &[f64], unit: Unit) -> String {
    let unit = match unit {
        Unit::Celsius => "C",
        Unit::Dbm => "dBm",
        Unit::Milliamperes => "mA",
    };
    let values: Vec<String> = values
        .iter()
        .map(|value| format!("{:.1}", (value * 10.0).round() / 10.0 + 0.0))
        .collect();
    format!("{} {unit}", values.join(" "))
}

/// SFP: the page at address A2h behind the first 256 bytes.
fn sff8472(memory: &[u8]) -> Result<Places, Fact> {
    const HAS_MONITORS: u8 = 0x40;
    const CALIBRATED_ELSEWHERE: u8 = 0x10;
    const PAGE: usize = 256;
    let diagnostics = byte(memory, 92)?;
    if diagnostics & HAS_MONITORS == 0 {
        return Ok([None; 4]);
    }
    if diagnostics & CALIBRATED_ELSEWHERE != 0 {
        return Err(unreadable("the module leaves calibration to its reader"));
    }
    let place = |values: usize, bounds: usize| {
        Some(Place {
            values: PAGE + values,
            lanes: 1,
            bounds: PAGE + bounds,
        })
    };
    Ok([place(96, 0), place(104, 32), place(102, 24), place(100, 16)])
}

/// QSFP: values in the lower half, bounds in page 03h. That is the third half behind the first two where it was asked for by page, the last of five
/// where a driver returned all at once.
fn sff8636(memory: &[u8]) -> Result<Places, Fact> {
    const LANES: usize = 4;
    let technology = byte(memory, 147)? >> 4;
    if (0x0a..=0x0b).contains(&technology) {
        return Ok([None; 4]); // a wire measures nothing
    }
    if byte(memory, 2)? & super::IS_FLAT_QSFP != 0 {
        return Ok([None; 4]);
    }
    let page = match memory.len() {
        640.. => 512 - 128,
        _ => 256 - 128,
    };
    let place = |values: usize, lanes: usize, bounds: usize| {
        Some(Place {
            values,
            lanes,
            bounds: page + bounds,
        })
    };
    Ok([
        place(22, 1, 128),
        place(34, LANES, 176),
        place(50, LANES, 192),
        place(42, LANES, 184),
    ])
}

/// Where pages of a CMIS module lie behind each other: 01h, 02h, 11h.
const CMIS_PAGE_TWO: usize = 384 - 128;
const CMIS_LANES_PAGE: usize = 512 - 128;

/// QSFP-DD, OSFP and their kin: what is measured is told in page 01h, bounds are in page 02h, lanes in page 11h.
fn cmis(memory: &[u8]) -> Result<Places, Fact> {
    const LANES: usize = 8;
    const OF_MODULE: usize = 128 + 159;
    const OF_LANES: usize = 128 + 160;
    if !super::cmis::has_page_one(memory) {
        byte(memory, 2)?;
        return Ok([None; 4]);
    }
    let (module, lanes) = (byte(memory, OF_MODULE)?, byte(memory, OF_LANES)?);
    let place = |is_there: bool, values: usize, lanes: usize, bounds: usize| {
        is_there.then_some(Place {
            values,
            lanes,
            bounds: CMIS_PAGE_TWO + bounds,
        })
    };
    Ok([
        place(module & 0x01 != 0, 14, 1, 128),
        place(lanes & 0x04 != 0, CMIS_LANES_PAGE + 186, LANES, 192),
        place(lanes & 0x02 != 0, CMIS_LANES_PAGE + 154, LANES, 176),
        place(lanes & 0x01 != 0, CMIS_LANES_PAGE + 170, LANES, 184),
    ])
}

/// What one step of a laser's current stands for, as a multiple of 2 uA.
fn bias_scale(memory: &[u8]) -> f64 {
    match byte(memory, 128 + 160).map(|told| told >> 3 & 0x03) {
        Ok(1) => 2.0,
        Ok(2) => 4.0,
        _ => 1.0,
    }
}
