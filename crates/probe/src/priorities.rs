//! How priorities, and maps of DSCPs to them, are written as facts: the same of NICs and of switches, so that they can be compared.

/// `3 4`, or `off` where there are none.
pub(crate) fn list(all: &[u8]) -> String {
    match all.is_empty() {
        true => "off".to_string(),
        false => numbers(all),
    }
}

/// `0 1 2 3`.
pub(crate) fn numbers(all: &[u8]) -> String {
    let all: Vec<String> = all.iter().map(u8::to_string).collect();
    all.join(" ")
}

/// `0-7:0 24-31:3`: runs of keys with the same value, or `none`. Keys are in order.
pub(crate) fn map(map: &[(u8, u8)]) -> String {
    let mut runs: Vec<(u8, u8, u8)> = Vec::new();
    for (key, value) in map {
        match runs.last_mut() {
            Some((_, last, of)) if *of == *value && last.checked_add(1) == Some(*key) => *last = *key,
            _ => runs.push((*key, *key, *value)),
        }
    }
    let run = |(first, last, value): &(u8, u8, u8)| match first == last {
        true => format!("{first}:{value}"),
        false => format!("{first}-{last}:{value}"),
    };
    match runs.is_empty() {
        true => "none".to_string(),
        false => runs.iter().map(run).collect::<Vec<_>>().join(" "),
    }
}

/// Numbers below `end` as people write them: `3,4`, `3-5`, `3 4`. None where the text is something else; no text is no number.
pub(crate) fn parse(text: &str, end: u8) -> Option<Vec<u8>> {
    let mut all = Vec::new();
    for word in text.split([',', ' ']).filter(|word| !word.is_empty()) {
        let (first, last) = word.split_once('-').unwrap_or((word, word));
        let (first, last): (u8, u8) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if first > last || last >= end {
            return None;
        }
        all.extend(first..=last);
    }
    all.sort_unstable();
    all.dedup();
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_off_and_what_is_not_a_priority_are_told_apart() {
        assert_eq!(parse("", 8), Some(Vec::new()));
        assert_eq!(parse("3,4", 8), Some(vec![3, 4]));
        assert_eq!(parse("4-6, 3 ,4", 8), Some(vec![3, 4, 5, 6]));
        assert_eq!(parse("8", 8), None);
        assert_eq!(parse("all", 8), None);
        assert_eq!(list(&[]), "off");
        assert_eq!(map(&[]), "none");
    }

    proptest! {
        #[test]
        fn a_map_says_every_key_once(of in proptest::collection::vec((any::<bool>(), 0u8..8), 64)) {
            let kept: Vec<(u8, u8)> = (0u8..64).zip(&of).filter(|(_, (is_in, _))| *is_in).map(|(key, (_, value))| (key, *value)).collect();
            let mut read = Vec::new();
            for run in map(&kept).split_whitespace().filter(|run| *run != "none") {
                let (keys, value) = run.split_once(':').unwrap();
                let value: u8 = value.parse().unwrap();
                read.extend(parse(keys, 64).unwrap().into_iter().map(|key| (key, value)));
            }
            prop_assert_eq!(read, kept);
        }

        #[test]
        fn what_was_written_is_read_and_no_text_makes_a_reader_fail(bits in any::<u8>(), text in "\\PC{0,30}") {
            let all: Vec<u8> = (0..8).filter(|bit| bits & 1 << bit != 0).collect();
            prop_assert_eq!(parse(&numbers(&all), 8), Some(all));
            for number in parse(&text, 8).unwrap_or_default() {
                prop_assert!(number < 8);
            }
        }
    }
}
