//! What two ranks are told to measure on the link between them, and what each says about it.

use serde::{Deserialize, Serialize};

use super::row::Latency;
use crate::transport::verbs::stream::{Checked, Sent, StreamError, Terms, Trial};
use record::FlowRecord;

/// What is measured on one link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// Rail by name.
    pub rail: String,
    /// The rank that sends, or takes the time.
    pub first: u32,
    /// The other.
    pub second: u32,
    /// Terms of the queue pairs.
    pub terms: Terms,
    /// The measurements, one after the other.
    pub trials: Vec<Trial>,
}

impl Job {
    /// The other end, as a rank that is one sees it.
    pub(super) fn peer_of(&self, rank: u32) -> Option<u32> {
        match rank {
            rank if rank == self.first => Some(self.second),
            rank if rank == self.second => Some(self.first),
            _ => None,
        }
    }
}

/// What one end saw of a trial.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(in super::super) struct Seen {
    /// What it sent or read.
    pub sent: Option<Sent>,
    /// How long messages took.
    pub latency: Option<Latency>,
    /// Whether what arrived was right.
    pub checked: Option<Checked>,
}

/// What an end says while it works.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(in super::super) enum Report {
    /// Its queue pairs are connected.
    Connected(Vec<FlowRecord>),
    /// Messages move.
    Moving,
    /// A trial is over.
    Seen { trial: usize, seen: Seen },
    /// All trials are over.
    Finished,
    /// It could not go on.
    Failed {
        /// Why.
        reason: String,
        /// Whether it only says that the other end failed.
        secondhand: bool,
    },
}

impl Report {
    pub(super) fn of(error: &StreamError, job: &Job, me: u32) -> Report {
        let (reason, secondhand) = match error {
            StreamError::Failed(reason) => (reason.clone(), false),
            StreamError::Peer(_) | StreamError::Stopped => {
                let Job {
                    rail, first, second, ..
                } = job;
                let text =
                    format!("{rail} between rank {first} and rank {second}, as rank {me} sees it: {error}");
                (text, true)
            }
        };
        Report::Failed { reason, secondhand }
    }
}
