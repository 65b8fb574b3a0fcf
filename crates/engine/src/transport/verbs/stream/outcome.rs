//! What one end of a link saw of a trial.

use serde::{Deserialize, Serialize};

use record::units::Nanos;

/// What one end saw.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// What it sent or read, when it did.
    pub sent: Option<Sent>,
    /// Time of every message, there and back halved (there and back for reads), when it was the one to take it.
    pub samples: Vec<u64>,
    /// What came of looking at the data that arrived here; none where nothing arrives.
    pub checked: Option<Checked>,
}

/// What went through.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Sent {
    /// Messages, over all queue pairs.
    pub messages: u64,
    /// From the first request to the last completion.
    pub took: Nanos,
    /// Messages per second at best, over any stretch from a request to a completion.
    pub peak: f64,
}

/// What came of looking at data.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Checked {
    /// Messages looked at.
    pub messages: u64,
    /// Bytes that were not what they should be.
    pub wrong: u64,
    /// The first of them, in words.
    pub first: Option<String>,
}

impl Checked {
    /// Both.
    pub fn and(self, other: Checked) -> Checked {
        Checked {
            messages: self.messages + other.messages,
            wrong: self.wrong + other.wrong,
            first: self.first.or(other.first),
        }
    }
}
