//! What a load does to those who take no part in it, and what is done against it.

use serde::{Deserialize, Serialize};

use super::{Collective, Interval};
use crate::units::{Bytes, Nanos};

/// A victim alone and under load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Congestion {
    /// Name of the test.
    pub test: String,
    /// Rail of the victim by name.
    pub rail: String,
    /// Rail of the load, where that is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_rail: Option<String>,
    /// What the load was: `incast` or `all-to-all`.
    pub load: Collective,
    /// Ranks that made the load; the receiver first, in an incast.
    pub loaders: Vec<u32>,
    /// Payload of the load.
    pub load_size: Bytes,
    /// Sender and receiver of the victim.
    pub victim: Vec<u32>,
    /// What the victim did: a flow (`point-to-point`) or round trips of small messages.
    pub measured_by: Collective,
    /// The cell that was alone.
    pub alone_cell: u32,
    /// The same under load.
    pub under_cell: u32,
    /// The cell of the load.
    pub load_cell: u32,
    /// Time alone.
    pub alone: Interval<Nanos>,
    /// Time under load.
    pub under: Interval<Nanos>,
    /// 99th percentile alone.
    pub alone_p99: Nanos,
    /// 99th percentile under load.
    pub under_p99: Nanos,
    /// The congestion impact factor: median time under load over that alone. 1 is no impact.
    pub impact: f64,
}

/// What is asked about a rail under load.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    strum::Display,
    strum::EnumIter,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum UnderLoadQuestion {
    /// Where pauses are to prevent losses: are packets thrown away all the same?
    Lossless,
    /// Are senders slowed down by marks before they are paused?
    MarksFirst,
    /// Does a receiver pause the fabric?
    Pauses,
    /// Does a load on another rail slow this one down?
    RailsApart,
}

/// What is known about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, strum::Display)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum UnderLoadAnswer {
    /// As it should be.
    Fine,
    /// There is a finding.
    Fault,
    /// Something was seen that could be chance, or something else.
    Open,
    /// It was not seen: there are no such counters, nothing was paused, no other rail was loaded.
    NotSeen,
}

/// An answer about one rail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UnderLoad {
    /// Rail by name.
    pub rail: String,
    /// What is asked.
    pub question: UnderLoadQuestion,
    /// What is known.
    pub answer: UnderLoadAnswer,
    /// What was seen, in words.
    pub seen: String,
}
