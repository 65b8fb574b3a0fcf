//! A line with a sample, as this program writes it, read without a JSON parser. Nearly every line of a record is one, and reading them takes
//! most of the time of reading a run. A line that is written in any other way is left to the parser, which has the last word.

use crate::Sample;

/// The sample of a line, if it is written exactly as `Event::to_json` writes it.
pub(crate) fn sample_of_line(line: &[u8]) -> Option<Sample> {
    let mut rest = line;
    let sample = Sample {
        cell: number(&mut rest, b"{\"sample\":{\"cell\":")?.try_into().ok()?,
        round: number(&mut rest, b",\"round\":")?.try_into().ok()?,
        iter: number(&mut rest, b",\"iter\":")?.try_into().ok()?,
        rank: number(&mut rest, b",\"rank\":")?.try_into().ok()?,
        ns: number(&mut rest, b",\"ns\":")?,
        wait_ns: number(&mut rest, b",\"wait_ns\":")?,
        late_ns: number(&mut rest, b",\"late_ns\":")?,
    };
    (rest == b"}}").then_some(sample)
}

/// The whole number after `key`, and what follows it. JSON has no leading zeros.
fn number(rest: &mut &[u8], key: &[u8]) -> Option<u64> {
    let digits = rest.strip_prefix(key)?;
    let mut value = 0u64;
    let mut at = 0;
    while let Some(digit) = digits
        .get(at)
        .map(|byte| byte.wrapping_sub(b'0'))
        .filter(|digit| *digit < 10)
    {
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
        at += 1;
    }
    if at == 0 || (at > 1 && digits[0] == b'0') {
        return None;
    }
    *rest = &digits[at..];
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Event;
    use proptest::prelude::*;

    fn any_sample() -> impl Strategy<Value = Sample> {
        let ids = (any::<u32>(), any::<u16>(), any::<u32>(), any::<u32>());
        (ids, any::<u64>(), any::<u64>(), any::<u64>()).prop_map(
            |((cell, round, iter, rank), ns, wait_ns, late_ns)| Sample {
                cell,
                round,
                iter,
                rank,
                ns,
                wait_ns,
                late_ns,
            },
        )
    }

    proptest! {
        #[test]
        fn a_written_sample_is_read_as_it_was(sample in any_sample()) {
            let line = Event::Sample(sample).to_json().unwrap();
            prop_assert_eq!(sample_of_line(line.as_bytes()), Some(sample));
        }

        /// Whatever happens to a line: what is read here, the JSON parser reads as well.
        #[test]
        fn nothing_is_read_that_the_parser_reads_otherwise(sample in any_sample(), at in any::<prop::sample::Index>(), byte in any::<u8>(), how in 0..3) {
            let mut line = Event::Sample(sample).to_json().unwrap().into_bytes();
            let at = at.index(line.len());
            match how {
                0 => line[at] = byte,
                1 => line.insert(at, byte),
                _ => line.truncate(at),
            }
            if let Some(read) = sample_of_line(&line) {
                prop_assert_eq!(Event::from_json(&line).unwrap(), Event::Sample(read));
            }
        }
    }

    #[test]
    fn other_spellings_are_left_to_the_parser() {
        let line = r#"{"sample":{"cell":1,"round":0,"iter":2,"rank":3,"ns":4,"wait_ns":5,"late_ns":6}}"#;
        assert!(sample_of_line(line.as_bytes()).is_some());
        for (from, to) in [
            ("\"cell\":1", "\"cell\": 1"),
            ("4", "04"),
            ("4", "-4"),
            ("4", "4.0"),
            ("4", "4e1"),
            ("4", "18446744073709551616"),
            ("0", "65536"),
            ("}}", "},\"x\":1}"),
        ] {
            assert_eq!(
                sample_of_line(line.replacen(from, to, 1).as_bytes()),
                None,
                "{to}"
            );
        }
    }
}
