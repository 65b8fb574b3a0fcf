//! By how much a counter moved between two readings, as far as that can be told.
//!
//! A counter that fell went round once or was set back. It went round when it is of the kind that does, and what it must have
//! counted then is less than half of what it can hold; otherwise what it counted is unknown, and never a huge number. One that
//! stays at its end counted at least what is seen.

use super::{AtItsEnd, Counter};

/// By how much a counter moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Movement {
    /// By exactly this much, or what a wrap makes of it.
    By(u64),
    /// By this much or more: it stands at its end.
    AtLeast(u64),
    /// It was set back between the readings.
    Reset,
    /// It was not read twice.
    Unread,
}

impl Movement {
    /// Between two readings of a counter of this width; what it does at its end is `end`.
    pub fn between(before: Option<u64>, after: Option<u64>, bits: u8, end: AtItsEnd) -> Movement {
        let (Some(before), Some(after)) = (before, after) else {
            return Movement::Unread;
        };
        let last = match bits {
            0 | 64.. => u64::MAX,
            bits => (1 << bits) - 1,
        };
        // A device that counts further than it should is believed.
        let is_wider = before > last || after > last;
        match after.checked_sub(before) {
            Some(by) if end == AtItsEnd::Sticks && after == last => Movement::AtLeast(by),
            Some(by) => Movement::By(by),
            None if end == AtItsEnd::Sticks || is_wider || last == u64::MAX => Movement::Reset,
            None => match last - before + 1 + after {
                by if by <= last / 2 => Movement::By(by),
                _ => Movement::Reset,
            },
        }
    }

    /// The same, of a counter that may be known; `bits` is what the record says of its width. What a counter that is not known
    /// does at its end is not known either.
    pub(crate) fn of(
        before: Option<u64>,
        after: Option<u64>,
        bits: Option<u8>,
        known: Option<&Counter>,
    ) -> Movement {
        match known {
            Some(known) => Movement::between(before, after, bits.unwrap_or(known.bits), known.end),
            None => Movement::between(before, after, u64::BITS as u8, AtItsEnd::Wraps),
        }
    }

    /// How much that is at least; none when nothing is known. A counter that stood at its end all the time tells nothing.
    pub fn at_least(self) -> Option<u64> {
        match self {
            Movement::By(by) => Some(by),
            Movement::AtLeast(by) => Some(by).filter(|by| *by > 0),
            Movement::Reset | Movement::Unread => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use AtItsEnd::{Sticks, Wraps};
    use proptest::prelude::*;

    fn moved(before: u64, after: u64, bits: u8, end: AtItsEnd) -> Movement {
        Movement::between(Some(before), Some(after), bits, end)
    }

    #[test]
    fn a_counter_that_went_round_counted_what_lies_between() {
        assert_eq!(moved(u64::from(u32::MAX) - 4, 5, 32, Wraps), Movement::By(10));
        assert_eq!(moved(u64::from(u32::MAX), 0, 32, Wraps), Movement::By(1));
    }

    #[test]
    fn a_counter_that_was_set_back_is_unknown_and_never_a_huge_number() {
        assert_eq!(moved(4112, 3, 32, Wraps), Movement::Reset);
        assert_eq!(moved(4112, 3, 64, Wraps), Movement::Reset);
        assert_eq!(moved(4112, 3, 16, Sticks), Movement::Reset);
        assert_eq!(moved(65535, 3, 16, Sticks), Movement::Reset);
        assert_eq!(Movement::Reset.at_least(), None);
    }

    #[test]
    fn a_counter_at_its_end_counted_at_least_what_is_seen() {
        assert_eq!(moved(65500, 65535, 16, Sticks), Movement::AtLeast(35));
        assert_eq!(moved(255, 255, 8, Sticks), Movement::AtLeast(0));
        assert_eq!(
            Movement::AtLeast(0).at_least(),
            None,
            "it may have counted anything"
        );
        assert_eq!(moved(10, 12, 8, Sticks), Movement::By(2));
    }

    #[test]
    fn a_device_that_counts_further_than_it_should_is_believed() {
        assert_eq!(moved(70_000, 70_010, 16, Sticks), Movement::By(10));
        assert_eq!(moved(70_000, 3, 16, Wraps), Movement::Reset);
    }

    #[test]
    fn a_counter_that_is_gone_is_unknown() {
        assert_eq!(Movement::between(Some(3), None, 64, Wraps), Movement::Unread);
        assert_eq!(Movement::between(None, Some(3), 64, Wraps), Movement::Unread);
    }

    proptest! {
        #[test]
        fn no_readings_make_it_fail_or_count_more_than_the_counter_holds(
            before in any::<Option<u64>>(), after in any::<Option<u64>>(), bits in any::<u8>(), sticks in any::<bool>(),
        ) {
            let end = if sticks { Sticks } else { Wraps };
            let by = Movement::between(before, after, bits, end).at_least();
            if let (Some(by), Some(before), Some(after)) = (by, before, after) {
                prop_assert!(after >= before && by == after - before || bits < 64 && by < 1 << (bits - 1));
            }
        }
    }
}
