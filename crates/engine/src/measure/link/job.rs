//! The job of measuring a link, and the reports of its two ends.

use serde::{Deserialize, Serialize};

use super::row::TrialResult;
use crate::transport::verbs::stream::{StreamConfig, StreamError, Trial};
use record::FlowRecord;

/// The measurements of one link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkJob {
    /// Rail by name.
    pub rail: String,
    /// The rank that sends, or measures the latency.
    pub first: u32,
    /// The other.
    pub second: u32,
    /// Terms of the queue pairs.
    pub terms: StreamConfig,
    /// The measurements, one after the other.
    pub trials: Vec<Trial>,
}

impl LinkJob {
    /// The other end, as a rank that is one sees it.
    pub(super) fn peer_of(&self, rank: u32) -> Option<u32> {
        match rank {
            rank if rank == self.first => Some(self.second),
            rank if rank == self.second => Some(self.first),
            _ => None,
        }
    }
}

/// A report of one end while it works.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(in super::super) enum LinkReport {
    /// The queue pairs are connected.
    Connected(Vec<FlowRecord>),
    /// Messages move.
    Moving,
    /// A trial is over.
    #[serde(rename = "Seen")]
    Trial {
        trial: usize,
        #[serde(rename = "seen")]
        result: TrialResult,
    },
    /// All trials are over.
    Finished,
    /// It could not continue.
    Failed {
        /// Why.
        reason: String,
        /// Whether it only reports that the other end failed.
        secondhand: bool,
    },
}

impl LinkReport {
    pub(super) fn of(error: &StreamError, job: &LinkJob, me: u32) -> LinkReport {
        let (reason, secondhand) = match error {
            StreamError::Failed(reason) => (reason.clone(), false),
            StreamError::Peer(_) | StreamError::Stopped => {
                let LinkJob {
                    rail, first, second, ..
                } = job;
                let text =
                    format!("{rail} between rank {first} and rank {second}, as rank {me} sees it: {error}");
                (text, true)
            }
        };
        LinkReport::Failed { reason, secondhand }
    }
}
