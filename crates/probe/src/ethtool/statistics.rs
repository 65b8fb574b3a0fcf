//! The counters of a driver, by its own names. No privilege is needed.

use super::ioctl::RequestBuffer;
use super::unavailable::Unavailable;
use super::{number, text};

const SET_INFO: u32 = 0x37;
const STRINGS: u32 = 0x1b;
const STATISTICS: u32 = 0x1d;

/// The string set of the counters.
const COUNTERS: u32 = 1;
/// The length of a name.
const NAME: usize = 32;
/// The most counters; some drivers have dozens for each of hundreds of queues.
const MOST: u32 = 100_000;

/// The counters of an interface's driver and their values, in the driver's order.
pub fn statistics(interface: &str) -> Result<Vec<(String, u64)>, Unavailable> {
    let count = count(interface)?;
    if count == 0 {
        return Ok(Vec::new());
    }
    let mut names = RequestBuffer::new(STRINGS, 12 + NAME * count as usize)?;
    names.put(4, COUNTERS);
    names.put(8, count);
    names.ask(interface)?;
    let mut values = RequestBuffer::new(STATISTICS, 8 + 8 * count as usize)?;
    values.put(4, count);
    values.ask(interface)?;
    joined(names.bytes(), values.bytes())
}

/// How many counters there are.
fn count(interface: &str) -> Result<u32, Unavailable> {
    let mut buffer = RequestBuffer::new(SET_INFO, 24)?;
    // A mask of 64 bits; the answer has the size of the one set requested.
    let mask = (1u64 << COUNTERS).to_ne_bytes();
    for (at, half) in [(8, &mask[..4]), (12, &mask[4..])] {
        buffer.put(at, number(half, 0).unwrap_or(0));
    }
    buffer.ask(interface)?;
    let is_known = buffer.bytes()[8..16].iter().any(|byte| *byte != 0);
    match number(buffer.bytes(), 16) {
        _ if !is_known => Err(Unavailable::Absent),
        Some(count) if count <= MOST => Ok(count),
        _ => Err(Unavailable::because(
            "its driver reports more than 100,000 counters",
        )),
    }
}

/// Names and values as the driver answered them.
fn joined(names: &[u8], values: &[u8]) -> Result<Vec<(String, u64)>, Unavailable> {
    let (named, valued) = (number(names, 8), number(values, 4));
    if named != valued {
        // Queues come and go; the next query may succeed.
        return Err(Unavailable::because("its counters changed while they were read"));
    }
    let names = names.get(12..).unwrap_or_default().chunks_exact(NAME);
    let values = values.get(8..).unwrap_or_default().chunks_exact(8);
    let both = names.zip(values).take(named.unwrap_or(0) as usize);
    let one = |(name, value): (&[u8], &[u8])| Some((text(name)?, u64::from_ne_bytes(value.try_into().ok()?)));
    Ok(both.filter_map(one).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn answers(counters: &[(&str, u64)]) -> (Vec<u8>, Vec<u8>) {
        let count = (counters.len() as u32).to_ne_bytes();
        let (mut names, mut values) = (vec![0; 8], vec![0; 4]);
        names.extend(count);
        values.extend(count);
        for (name, value) in counters {
            let mut field = [0; NAME];
            field[..name.len()].copy_from_slice(name.as_bytes());
            names.extend(field);
            values.extend(value.to_ne_bytes());
        }
        (names, values)
    }

    #[test]
    fn counters_keep_the_names_that_their_driver_gives_them() {
        let (names, values) = answers(&[
            ("rx_discards_phy", 17),
            ("a_name_as_long_as_any_can_be_32b", u64::MAX),
        ]);
        let read = joined(&names, &values).unwrap();
        assert_eq!(read[0], ("rx_discards_phy".to_string(), 17));
        assert_eq!(
            read[1],
            ("a_name_as_long_as_any_can_be_32b".to_string(), u64::MAX)
        );
    }

    #[test]
    fn counters_whose_number_changes_while_they_are_read_are_not_mixed_up() {
        let (names, _) = answers(&[("a", 1), ("b", 2)]);
        let (_, values) = answers(&[("b", 2)]);
        assert!(joined(&names, &values).is_err());
    }

    #[test]
    fn an_interface_without_counters_says_so_and_one_that_is_not_there_says_that() {
        assert_eq!(statistics("lo"), Err(Unavailable::Absent));
        assert!(matches!(
            statistics("nowhere0"),
            Err(Unavailable::Unreadable { .. })
        ));
    }

    proptest! {
        #[test]
        fn no_answer_of_a_driver_makes_a_reader_fail(
            names in proptest::collection::vec(any::<u8>(), 0..200),
            values in proptest::collection::vec(any::<u8>(), 0..64),
            count in 0u32..8,
        ) {
            let (mut names, mut values) = (names, values);
            for (answer, at) in [(&mut names, 8), (&mut values, 4)] {
                if let Some(place) = answer.get_mut(at..at + 4) {
                    place.copy_from_slice(&count.to_ne_bytes());
                }
            }
            if let Ok(read) = joined(&names, &values) {
                prop_assert!(read.len() <= count as usize);
            }
        }
    }
}
