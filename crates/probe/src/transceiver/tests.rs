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

/// A pair of bytes, as memories have them.
fn pair(at: usize, number: u16) -> [(usize, u8); 2] {
    let [high, low] = number.to_be_bytes();
    [(at, high), (at + 1, low)]
}

#[test]
fn an_osfp_transceiver_says_how_much_light_each_lane_gets_and_what_its_maker_allows() {
    let mut bytes = vec![(0, 0x19), (85, 1), (128 + 159, 0x01), (128 + 160, 0x0f)];
    bytes.extend(pair(14, 52 * 256 + 128)); // 52.5 degrees
    for (place, number) in [75u16, (-5i16) as u16, 70, 0].into_iter().enumerate() {
        bytes.extend(pair(384 + 2 * place, number.wrapping_mul(256)));
    }
    let (page_two, page_lanes) = (384 - 128, 512 - 128);
    // High alarm, low alarm, high warning, low warning: 3, -10, 2, -8 dBm.
    for (place, number) in [19_953u16, 1_000, 15_849, 1_585].into_iter().enumerate() {
        bytes.extend(pair(page_two + 192 + 2 * place, number));
    }
    for lane in 0..8 {
        bytes.extend(pair(
            page_lanes + 186 + 2 * lane,
            if lane == 2 { 490 } else { 10_000 },
        ));
        bytes.extend(pair(page_lanes + 170 + 2 * lane, 2_000));
    }
    let optics = facts(&memory(640, &[(129, "NVIDIA          ")], &bytes, Some(128..222)));
    assert_eq!(value(&optics, "temperature"), Some("52.5 C"));
    assert_eq!(value(&optics, "temperature-bounds"), Some("-5.0 0.0 70.0 75.0 C"));
    assert_eq!(
        value(&optics, "rx-power"),
        Some("0.0 0.0 -13.1 0.0 0.0 0.0 0.0 0.0 dBm")
    );
    assert_eq!(value(&optics, "rx-power-bounds"), Some("-10.0 -8.0 2.0 3.0 dBm"));
    // Steps of 4 uA: scaled by what page 01h says.
    assert_eq!(
        value(&optics, "tx-bias"),
        Some("8.0 8.0 8.0 8.0 8.0 8.0 8.0 8.0 mA")
    );
    assert_eq!(optics["tx-bias-bounds"], Fact::Absent, "its maker set none");
    // A driver that returns two pages only leaves out what is in the others, and says so.
    let older = facts(&memory(384, &[], &bytes[..6], Some(128..222)));
    assert!(matches!(older["rx-power"], Fact::Unreadable { .. }));
    assert!(matches!(older["rx-power-bounds"], Fact::Unreadable { .. }));
    let cable = facts(&osfp_cable());
    assert_eq!(cable["rx-power"], Fact::Absent, "copper measures nothing");
}

#[test]
fn qsfp_and_sfp_modules_tell_what_they_measure_in_the_same_words() {
    // 10 % of a milliwatt on each lane; bounds in page 03h, right behind the first two halves or as the last of five.
    for (len, page) in [(384, 256 - 128), (640, 512 - 128)] {
        let mut bytes = vec![(0, 0x11), (128, 0x11), (147, 0x00)];
        bytes.extend((0..4).flat_map(|lane| pair(34 + 2 * lane, 1_000)));
        for (place, number) in [20_000u16, 500, 15_000, 1_001].into_iter().enumerate() {
            bytes.extend(pair(page + 176 + 2 * place, number));
        }
        bytes.extend(pair(22, (-3i16 * 256) as u16));
        let qsfp = facts(&memory(len, &[], &bytes, [128..191, 192..223]));
        assert_eq!(
            value(&qsfp, "rx-power"),
            Some("-10.0 -10.0 -10.0 -10.0 dBm"),
            "{len}"
        );
        assert_eq!(
            value(&qsfp, "rx-power-bounds"),
            Some("-13.0 -10.0 1.8 3.0 dBm"),
            "{len}"
        );
        assert_eq!(value(&qsfp, "temperature"), Some("-3.0 C"));
    }
    let sfp = |diagnostics: u8| {
        let mut bytes = vec![(0, 0x03), (92, diagnostics)];
        bytes.extend(pair(256 + 104, 0));
        bytes.extend(pair(256 + 102, 5_000));
        facts(&memory(512, &[], &bytes, [0..63, 64..95]))
    };
    let inner = sfp(0x60);
    assert_eq!(value(&inner, "rx-power"), Some("-40.0 dBm"), "no light at all");
    assert_eq!(value(&inner, "tx-power"), Some("-3.0 dBm"));
    assert!(matches!(sfp(0x50)["rx-power"], Fact::Unreadable { .. }));
    assert_eq!(sfp(0)["rx-power"], Fact::Absent);
}

#[test]
fn what_is_asked_of_a_module_is_what_it_has() {
    let pages = |memory: &[u8]| {
        more_pieces(memory)
            .iter()
            .map(|piece| piece.page)
            .collect::<Vec<u8>>()
    };
    assert_eq!(pages(&osfp_optics()), [0x01, 0x02, 0x11]);
    assert_eq!(pages(&osfp_cable()), [0u8; 0]);
    assert_eq!(pages(&memory(256, &[], &[(0, 0x11)], None)), [0x03]);
    assert_eq!(pages(&memory(256, &[], &[(0, 0x11), (2, 0x04)], None)), [0u8; 0]);
    let sfp = memory(256, &[], &[(0, 0x03), (92, 0x68)], None);
    assert_eq!(
        more_pieces(&sfp)
            .iter()
            .map(|piece| piece.address)
            .collect::<Vec<u8>>(),
        [0x51]
    );
    assert_eq!(pages(&[]), [0u8; 0]);
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
        let measured = monitors::NAMES.iter().flat_map(|(name, bounds, _)| [name, bounds]);
        for word in NAMES.iter().chain(&["kind", "checksum"]).chain(measured) {
            prop_assert!(facts.contains_key(*word), "{word}");
        }
        more_pieces(&memory);
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
