//! Trials on a stream, and their results.

use serde::{Deserialize, Serialize};

use record::VerbsTerms;
use record::units::{Bytes, Nanos};

/// Bytes within which small messages move on from one to the next, so that they do not all hit the same cache line.
const LAP: usize = 4096;
/// Apart at least so much.
const STRIDE: usize = 64;
/// Bytes between completions that are asked for: seldom enough to cost nothing, often enough to keep the queue full.
const BETWEEN_COMPLETIONS: u64 = 256 << 10;
/// The largest message.
pub const LARGEST: Bytes = Bytes(256 << 20);
/// Offsets stay below this.
pub const OFFSETS: u32 = 4096;

/// What moves the data.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, strum::Display, strum::EnumString,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Operation {
    /// RDMA write: the first end writes into the second one's memory.
    #[default]
    Write,
    /// Send: the first end sends into receives that the second one has posted.
    Send,
    /// RDMA read: the first end reads from the second one's memory.
    Read,
}

/// What a trial measures.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, strum::Display, strum::EnumString,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum TrialKind {
    /// Bandwidth from the first end to the second.
    #[default]
    Bandwidth,
    /// Bandwidth in both directions at once.
    Bidirectional,
    /// Latency of one message at a time.
    Latency,
}

/// How much is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Extent {
    /// So many messages on every queue pair.
    Iterations(u64),
    /// As many as complete in this time.
    Lasting(Nanos),
}

/// Which data is checked.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, strum::Display, strum::EnumString,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Check {
    /// What the last messages left behind, after the clock was stopped.
    #[default]
    Last,
    /// Every message, by both ends, before it is answered: times include it.
    Every,
}

/// The configuration of a stream's queue pairs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamConfig {
    /// How many.
    pub queue_pairs: u16,
    /// Requests in flight on each.
    pub depth: u32,
    /// Largest inlined message.
    pub inline: u32,
    /// UDP source port of the first queue pair of the lower rank; the others follow.
    pub source_port: Option<u16>,
    /// Settings of every queue pair.
    pub verbs: VerbsTerms,
    /// The largest message.
    pub largest: Bytes,
    /// Where messages begin within their memory.
    pub offset: u32,
    /// Limit of every wait.
    pub deadline: Nanos,
}

/// One measurement on a link: a row of the table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trial {
    /// What moves the data.
    pub operation: Operation,
    /// What is asked.
    pub question: TrialKind,
    /// Bytes of a message.
    pub size: Bytes,
    /// How much.
    pub extent: Extent,
    /// What is checked.
    pub check: Check,
    /// Seed of its data.
    pub seed: u64,
}

impl StreamConfig {
    /// The UDP source port of a rank's queue pair: every sender has ports of its own.
    pub fn source_port(&self, is_higher_rank: bool, queue_pair: u16) -> Option<u16> {
        let base = self.source_port?;
        let number = u16::from(is_higher_rank) * self.queue_pairs + queue_pair;
        base.checked_add(number)
    }

    /// Bytes of one of the areas of memory that every queue pair has.
    pub fn area(&self) -> usize {
        (self.largest.as_usize().max(LAP) + self.offset as usize).next_multiple_of(LAP)
    }
}

impl Trial {
    /// Slots that messages take in turn.
    pub fn slots(&self) -> usize {
        match self.operation {
            // All receives use the same slot.
            Operation::Send => 1,
            Operation::Write | Operation::Read => (LAP / self.stride()).clamp(1, LAP / STRIDE),
        }
    }

    /// Bytes from one slot to the next.
    pub fn stride(&self) -> usize {
        self.size.as_usize().next_multiple_of(STRIDE)
    }

    /// One in so many requests is signalled.
    pub fn requests_per_completion(&self, depth: u32) -> u64 {
        let by_size = BETWEEN_COMPLETIONS / self.size.0.max(1);
        by_size.clamp(1, u64::from((depth / 4).max(1)))
    }
}

/// What one end measured.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct TrialResult {
    /// What it sent or read, if it did.
    pub sent: Option<SendResult>,
    /// Latency of every message: half a round trip (a whole one for reads), at the end that measures it.
    pub samples: Vec<u64>,
    /// The check of the data that arrived here; none where nothing arrives.
    pub checked: Option<CheckResult>,
}

/// What was sent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SendResult {
    /// Messages, over all queue pairs.
    pub messages: u64,
    /// From the first request to the last completion.
    pub took: Nanos,
    /// Peak messages per second, over any interval from a post to a completion.
    pub peak: f64,
}

/// The result of checking data.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CheckResult {
    /// Messages checked.
    pub messages: u64,
    /// Bytes that were not what they should be.
    pub wrong: u64,
    /// The first of them, in words.
    pub first: Option<String>,
}

impl CheckResult {
    /// Both.
    pub fn and(self, other: CheckResult) -> CheckResult {
        CheckResult {
            messages: self.messages + other.messages,
            wrong: self.wrong + other.wrong,
            first: self.first.or(other.first),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms() -> StreamConfig {
        StreamConfig {
            queue_pairs: 4,
            depth: 128,
            inline: 0,
            source_port: Some(50_000),
            verbs: VerbsTerms::default(),
            largest: Bytes(8),
            offset: 3,
            deadline: Nanos::from_secs(1),
        }
    }

    fn trial(operation: Operation, size: u64) -> Trial {
        Trial {
            operation,
            question: TrialKind::Bandwidth,
            size: Bytes(size),
            extent: Extent::Iterations(1),
            check: Check::Last,
            seed: 1,
        }
    }

    #[test]
    fn every_sender_and_queue_pair_has_a_source_port_of_its_own() {
        let all: Vec<u16> = [false, true]
            .iter()
            .flat_map(|higher| (0..4).filter_map(|pair| terms().source_port(*higher, pair)))
            .collect();
        assert_eq!(all, (50_000..50_008).collect::<Vec<u16>>());
        let beyond = StreamConfig {
            source_port: Some(65_533),
            ..terms()
        };
        assert_eq!(beyond.source_port(true, 0), None);
    }

    #[test]
    fn all_places_of_a_message_lie_within_its_area() {
        for size in [1, 2, 63, 64, 65, 1000, 4096, 4097, 65_536, 16 << 20] {
            for offset in [0, 1, 63, 4095] {
                let terms = StreamConfig {
                    largest: Bytes(size),
                    offset,
                    ..terms()
                };
                for operation in [Operation::Write, Operation::Send, Operation::Read] {
                    let trial = trial(operation, size);
                    let last = offset as usize + (trial.slots() - 1) * trial.stride();
                    assert!(last + size as usize <= terms.area(), "{size} {offset}");
                }
            }
        }
    }

    #[test]
    fn completions_are_asked_for_before_the_queue_is_full() {
        for depth in [1, 2, 3, 16, 128, 8192] {
            for size in [1, 4096, 65_536, 1 << 20, 16 << 20] {
                let every = trial(Operation::Write, size).requests_per_completion(depth);
                assert!(every >= 1 && every <= u64::from(depth), "{depth} {size}");
            }
        }
    }
}
