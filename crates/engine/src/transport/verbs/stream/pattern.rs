//! The data of messages, chosen so that a missing or wrong message differs in every byte.
//!
//! A message has one of two contents: that of the last message into its slot, and that of all before it. They differ in every byte,
//! and the receive buffer is filled with data that differs from both in every byte before the trial starts.

/// Which content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// Of the last message into a slot.
    Last,
    /// Of all messages before the last.
    Before,
    /// Of memory that no message has reached.
    Untouched,
}

impl Content {
    fn mask(self) -> u8 {
        match self {
            Content::Last => 0,
            Content::Before => 0xa5,
            Content::Untouched => 0xff,
        }
    }
}

/// Identifies a message; both ends derive the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageId {
    /// Seed of the trial.
    pub seed: u64,
    /// Rank whose data it is.
    pub from: u32,
    /// Queue pair.
    pub queue_pair: u16,
    /// Slot of the message, or its number.
    pub slot: u64,
}

impl MessageId {
    /// The bytes of the message, eight at a time.
    fn words(self, content: Content) -> impl Iterator<Item = [u8; 8]> {
        let mut state = mixed(self.seed)
            ^ mixed(u64::from(self.from) << 32 | u64::from(self.queue_pair))
            ^ mixed(!self.slot);
        let mask = u64::from_le_bytes([content.mask(); 8]);
        std::iter::repeat_with(move || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            (mixed(state) ^ mask).to_le_bytes()
        })
    }

    /// Fills a message.
    pub fn fill(self, content: Content, message: &mut [u8]) {
        for (to, word) in message.chunks_mut(8).zip(self.words(content)) {
            to.copy_from_slice(&word[..to.len()]);
        }
    }

    /// How many bytes of a message are wrong, and the first of them with what it is and should be.
    pub fn compare(self, content: Content, message: &[u8]) -> (u64, Option<(usize, u8, u8)>) {
        let mut wrong = 0;
        let mut first = None;
        for (number, (found, word)) in message.chunks(8).zip(self.words(content)).enumerate() {
            let expected = &word[..found.len()];
            if found == expected {
                continue;
            }
            for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
                if found != expected {
                    wrong += 1;
                    first = first.or(Some((number * 8 + at, *found, *expected)));
                }
            }
        }
        (wrong, first)
    }
}

/// A hash (the finaliser of splitmix64).
fn mixed(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn place(slot: u64) -> MessageId {
        MessageId {
            seed: 7,
            from: 1,
            queue_pair: 2,
            slot,
        }
    }

    proptest! {
        #[test]
        fn data_that_did_not_arrive_differs_in_every_byte(len in 1usize..300, slot in 0u64..100) {
            let mut message = vec![0; len];
            for content in [Content::Before, Content::Untouched] {
                place(slot).fill(content, &mut message);
                prop_assert_eq!(place(slot).compare(Content::Last, &message).0, len as u64);
                prop_assert_eq!(place(slot).compare(content, &message).0, 0);
            }
        }

        #[test]
        fn a_flipped_bit_is_named(len in 1usize..300, at in 0usize..300, bit in 0u32..8) {
            let at = at % len;
            let mut message = vec![0; len];
            place(3).fill(Content::Last, &mut message);
            let was = message[at];
            message[at] ^= 1 << bit;
            let found = place(3).compare(Content::Last, &message);
            prop_assert_eq!(found, (1, Some((at, was ^ 1 << bit, was))));
        }
    }

    #[test]
    fn messages_of_different_places_differ() {
        let take = |place: MessageId| place.words(Content::Last).take(4).collect::<Vec<_>>();
        let others = [
            place(4),
            MessageId { seed: 8, ..place(3) },
            MessageId { from: 2, ..place(3) },
            MessageId {
                queue_pair: 3,
                ..place(3)
            },
        ];
        for other in others {
            assert_ne!(take(place(3)), take(other));
        }
    }
}
