//! Facts about a NIC's board, from devlink and from the vital product data (VPD) of its PCI device, which needs root.

use std::collections::BTreeMap;

use super::super::devlink::Device;
use super::super::ethtool::Unavailable;
use super::driver_answers::DriverAnswers;
use super::read::unreadable;
use super::tree::Tree;
use record::{Fact, InventoryPart};

/// The longest VPD.
const LONGEST: u64 = 32 << 10;
/// What a large item of product data begins with: its kind, with this bit set.
const IS_LARGE: u8 = 0x80;
const NAME: u8 = 0x82;
const READ_ONLY: u8 = 0x90;
const END: u8 = 0x78;

/// The part, completed by what is known of the board at its PCI address.
pub(super) fn completed(tree: &Tree, mut part: InventoryPart, answers: &DriverAnswers) -> InventoryPart {
    let Some(address) = part.value("pci").map(str::to_string) else {
        return part;
    };
    let device = answers.device(&address);
    for (name, fact) in [
        ("firmware", running(&device)),
        ("board", fixed(&device, &["fw.psid"])),
    ] {
        // An unreadable fact stays unreadable.
        let is_absent = part.facts.get(name).is_none_or(|fact| *fact == Fact::Absent);
        if is_absent && fact.value().is_some() {
            part = part.with(name, fact);
        }
    }
    let serial = reported(&device, |device| device.board_serial.clone());
    let number = fixed(&device, &["board.part_number", "board.id"]);
    // Reading product data takes milliseconds: only for facts without another source.
    let (serial, number) = match (serial.value(), number.value()) {
        (Some(_), Some(_)) => (serial, number),
        _ => {
            let data = tree.bytes(format!("sys/bus/pci/devices/{address}/vpd"), LONGEST);
            let field = |name: &str| match &data {
                Ok(data) => product_data(data)
                    .map(|fields| fields.get(name).cloned().map_or(Fact::Absent, Fact::Value)),
                Err(fact) => Err(fact.clone()),
            };
            let or_field = |fact: Fact, name: &str| match (&fact, field(name).unwrap_or_else(|fact| fact)) {
                (Fact::Value(_), _) | (_, Fact::Absent) => fact,
                (_, found) => found,
            };
            part = part.with("product", field("name").unwrap_or_else(|fact| fact));
            (or_field(serial, "SN"), or_field(number, "PN"))
        }
    };
    let stored = reported(&device, |device| version(&device.stored));
    part.with("serial", serial)
        .with("part-number", number)
        .with("firmware-stored", stored)
}

/// The firmware among versions; drivers name it one way or the other.
fn version(versions: &BTreeMap<String, String>) -> Option<String> {
    versions.get("fw.version").or_else(|| versions.get("fw")).cloned()
}

fn running(device: &Result<&Device, Unavailable>) -> Fact {
    reported(device, |device| version(&device.running))
}

/// The first of these that is fixed.
fn fixed(device: &Result<&Device, Unavailable>, names: &[&str]) -> Fact {
    reported(device, |device| {
        names.iter().find_map(|name| device.fixed.get(*name)).cloned()
    })
}

fn reported(device: &Result<&Device, Unavailable>, what: impl Fn(&Device) -> Option<String>) -> Fact {
    match device {
        Ok(device) => what(device).map_or(Fact::Absent, Fact::Value),
        Err(missing) => missing.clone().into(),
    }
}

/// The fields of vital product data by their keywords (`PN`, `SN`, `EC`), and the product's name as `name`.
fn product_data(mut data: &[u8]) -> Result<BTreeMap<String, String>, Fact> {
    let malformed = || unreadable("malformed vital product data");
    let mut found = BTreeMap::new();
    loop {
        let kind = *data.first().ok_or_else(malformed)?;
        if kind == END {
            return Ok(found);
        }
        if kind & IS_LARGE == 0 {
            let len = usize::from(kind & 7);
            data = data.get(1 + len..).ok_or_else(malformed)?;
            continue;
        }
        let len = match data.get(1..3) {
            Some(len) => usize::from(u16::from_le_bytes([len[0], len[1]])),
            None => return Err(malformed()),
        };
        let content = data.get(3..3 + len).ok_or_else(malformed)?;
        data = &data[3 + len..];
        match kind {
            NAME => found.extend(text(content).map(|text| ("name".to_string(), text))),
            READ_ONLY => found.extend(fields(content)),
            _ => {}
        }
    }
}

/// Keywords of two letters, each with the length of what follows.
fn fields(mut content: &[u8]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    while let Some(&[first, second, len]) = content.get(..3) {
        let Some(value) = content.get(3..3 + usize::from(len)) else {
            break;
        };
        let keyword = String::from_utf8_lossy(&[first, second]).into_owned();
        found.extend(text(value).map(|value| (keyword, value)));
        content = &content[3 + usize::from(len)..];
    }
    found
}

/// Printable text without what fills it up; none of anything else.
fn text(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok()?;
    let text = text.trim_matches([' ', '\0']);
    let is_printable = !text.is_empty() && text.chars().all(|c| (' '..='~').contains(&c));
    is_printable.then(|| text.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn item(kind: u8, content: &[u8]) -> Vec<u8> {
        [&[kind][..], &(content.len() as u16).to_le_bytes(), content].concat()
    }

    #[test]
    fn part_and_serial_numbers_are_found_among_product_data() {
        let content = [
            &b"PN\x0cMCX75310AASX"[..],
            b"EC\x02A5",
            b"SN\x0cMT2303XZ0N9L",
            b"RV\x01\xf3",
        ]
        .concat();
        let data = [
            item(NAME, b"ConnectX-7 400G"),
            item(READ_ONLY, &content),
            vec![END],
        ]
        .concat();
        let found = product_data(&data).unwrap();
        assert_eq!(found["name"], "ConnectX-7 400G");
        assert_eq!(found["PN"], "MCX75310AASX");
        assert_eq!(found["SN"], "MT2303XZ0N9L");
        assert!(!found.contains_key("RV"), "a checksum is not text");
        assert!(product_data(&data[..20]).is_err());
        assert!(product_data(&[]).is_err());
    }

    proptest! {
        #[test]
        fn no_product_data_makes_a_reader_fail(data in proptest::collection::vec(any::<u8>(), 0..200)) {
            for value in product_data(&data).unwrap_or_default().values() {
                prop_assert!(!value.is_empty() && value.is_ascii());
            }
        }
    }
}
