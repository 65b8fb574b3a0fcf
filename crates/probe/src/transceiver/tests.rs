use super::*;
use proptest::prelude::*;

/// Memory of so many bytes with text and bytes at their places, and sums that are right.
fn memory(
    len: usize,
    texts: &[(usize, &str)],
    bytes: &[(usize, u8)],
    sums: impl IntoIterator<Item = std::ops::Range<usize>>,
) -> Vec<u8> {
    let mut memory = vec![0; len];
    for (at, text) in texts {
        memory[*at..at + text.len()].copy_from_slice(text.as_bytes());
    }
    for (at, byte) in bytes {
        memory[*at] = *byte;
    }
    for range in sums {
        memory[range.end] = memory[range.clone()]
            .iter()
            .fold(0u8, |sum, byte| sum.wrapping_add(*byte));
    }
    memory
}

/// A copper cable of 1.5 m with OSFP ends.
fn osfp_cable() -> Vec<u8> {
    memory(
        256,
        &[
            (129, "NVIDIA          "),
            (148, "MCP4Y10-N01A    "),
            (164, "A3"),
            (166, "MT2317VS01234   "),
            (182, "230417  "),
        ],
        &[
            (0, 0x19),
            (1, 0x50),
            (2, IS_FLAT),
            (85, 3),
            (128, 0x19),
            (202, 15),
        ],
        Some(128..222),
    )
}

const IS_FLAT: u8 = 0x80;

/// A transceiver with firmware, for 50 m of OM4.
fn osfp_optics() -> Vec<u8> {
    memory(
        384,
        &[
            (129, "NVIDIA          "),
            (148, "MMA4Z00-NS      "),
            (166, "MT2250FT06713   "),
            (182, "221213AB"),
        ],
        &[
            (0, 0x19),
            (85, 1),
            (39, 46),
            (40, 120),
            (128 + 134, 25),
            (128 + 135, 15),
        ],
        Some(128..222),
    )
}

fn value<'f>(facts: &'f BTreeMap<String, Fact>, name: &str) -> Option<&'f str> {
    facts[name].value()
}

#[test]
fn an_osfp_cable_says_who_made_it_and_how_long_it_is() {
    let facts = facts(&osfp_cable());
    assert_eq!(value(&facts, "kind"), Some("OSFP"));
    assert_eq!(value(&facts, "vendor"), Some("NVIDIA"));
    assert_eq!(value(&facts, "part-number"), Some("MCP4Y10-N01A"));
    assert_eq!(value(&facts, "serial"), Some("MT2317VS01234"));
    assert_eq!(value(&facts, "revision"), Some("A3"));
    assert_eq!(value(&facts, "date-code"), Some("2023-04-17"));
    assert_eq!(value(&facts, "length"), Some("1.5 m"));
    assert_eq!(value(&facts, "medium"), Some("passive copper"));
    assert_eq!(facts["firmware"], Fact::Absent, "copper has no firmware");
    assert_eq!(value(&facts, "checksum"), Some("right"));
}

#[test]
fn an_osfp_transceiver_says_its_firmware_and_reach() {
    let facts = facts(&osfp_optics());
    assert_eq!(value(&facts, "firmware"), Some("46.120"));
    assert_eq!(value(&facts, "length"), Some("50 m"));
    assert_eq!(value(&facts, "date-code"), Some("2022-12-13 lot AB"));
}

#[test]
fn a_qsfp28_cable_and_an_sfp_transceiver_are_told_in_the_same_words() {
    let qsfp = memory(
        256,
        &[
            (148, "Mellanox        "),
            (168, "MCP1600-C003    "),
            (184, "A2"),
            (196, "MT1823VS0456    "),
            (212, "180607  "),
        ],
        &[(0, 0x11), (128, 0x11), (146, 3), (147, 0xa0)],
        [128..191, 192..223],
    );
    let qsfp = facts(&qsfp);
    assert_eq!(
        (value(&qsfp, "kind"), value(&qsfp, "part-number")),
        (Some("QSFP28"), Some("MCP1600-C003"))
    );
    assert_eq!(
        (value(&qsfp, "length"), value(&qsfp, "medium")),
        (Some("3 m"), Some("passive copper"))
    );
    let sfp = memory(
        512,
        &[
            (20, "FINISAR CORP.   "),
            (40, "FTLX1471D3BCV   "),
            (56, "A   "),
            (68, "ULT0KQ8         "),
            (84, "150814  "),
        ],
        &[(0, 0x03), (14, 10), (15, 100)],
        [0..63, 64..95],
    );
    let sfp = facts(&sfp);
    assert_eq!(
        (value(&sfp, "vendor"), value(&sfp, "length")),
        (Some("FINISAR CORP."), Some("10 km"))
    );
    assert_eq!(
        (value(&sfp, "serial"), value(&sfp, "checksum")),
        (Some("ULT0KQ8"), Some("right"))
    );
}

#[test]
fn memory_that_does_not_add_up_is_told_and_not_hidden() {
    let mut broken = osfp_cable();
    broken[150] ^= 0x01;
    let facts = facts(&broken);
    assert_eq!(value(&facts, "checksum"), Some("wrong"));
    assert!(value(&facts, "part-number").is_some());
}

#[test]
fn a_module_of_a_kind_that_nobody_knows_is_not_read_as_another() {
    let facts = facts(&[0x7f; 256]);
    assert!(
        facts.values().all(|fact| matches!(fact, Fact::Unreadable { .. })),
        "{facts:?}"
    );
}

proptest! {
    #[test]
    fn no_memory_makes_a_reader_fail_and_every_fact_is_there(
        kind in prop::sample::select(KINDS.iter().map(|(byte, ..)| *byte).collect::<Vec<u8>>()),
        rest in proptest::collection::vec(any::<u8>(), 0..520),
        is_known in any::<bool>(),
    ) {
        let memory = if is_known { [vec![kind], rest].concat() } else { rest };
        let facts = facts(&memory);
        for word in NAMES.iter().chain(&["kind", "checksum"]) {
            prop_assert!(facts.contains_key(*word), "{word}");
        }
        for value in facts.values().filter_map(Fact::value) {
            prop_assert!(value.chars().all(|c| (' '..='~').contains(&c)), "{value:?}");
        }
    }

    #[test]
    fn a_module_that_gives_out_less_says_so_and_nothing_vanishes(len in 1usize..256) {
        let whole = facts(&osfp_cable());
        let part = facts(&osfp_cable()[..len]);
        for (name, fact) in part {
            let is_same = whole[&name] == fact;
            let is_told = matches!(fact, Fact::Unreadable { .. });
            prop_assert!(is_same || is_told, "{name}: {fact:?}");
        }
    }
}
