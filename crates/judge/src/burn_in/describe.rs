//! The phrases of a certificate.

use std::collections::BTreeSet;

use record::Moment;
use record::text::list;

/// More cycles than this are not listed one by one.
const LISTED: usize = 6;

/// `cycle 12 (2026-11-03T04:00:00Z, after 10m under load)`.
pub(super) fn when(moment: &Moment) -> String {
    let after = moment.load_ns.in_words();
    match moment.at.as_str() {
        "" => format!("cycle {}", moment.cycle),
        at => format!("cycle {} ({at}, after {after} under load)", moment.cycle),
    }
}

/// `cycle 3`, `cycles 3, 5 and 9`, `cycles 3 to 9`, `14 cycles from 3 to 40`.
pub(super) fn cycles(numbers: &BTreeSet<u32>) -> String {
    let (Some(first), Some(last)) = (numbers.first(), numbers.last()) else {
        return "no cycle".to_string();
    };
    let count = numbers.len();
    match count {
        1 => format!("cycle {first}"),
        _ if (last - first) as usize + 1 == count && count > 2 => format!("cycles {first} to {last}"),
        _ if count > LISTED => format!("{count} cycles from {first} to {last}"),
        _ => {
            let all: Vec<String> = numbers.iter().map(u32::to_string).collect();
            format!("cycles {}", list(&all))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_read_as_people_say_them() {
        let of = |numbers: &[u32]| cycles(&numbers.iter().copied().collect());
        assert_eq!(of(&[3]), "cycle 3");
        assert_eq!(of(&[3, 5]), "cycles 3 and 5");
        assert_eq!(of(&[3, 4, 5]), "cycles 3 to 5");
        assert_eq!(of(&[1, 3, 5, 7, 9, 11, 13]), "7 cycles from 1 to 13");
    }
}
