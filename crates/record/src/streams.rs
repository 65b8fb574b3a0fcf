//! Cells of many streams: where each was sent from, which way it takes, and what it delivered.

use serde::{Deserialize, Serialize};

use crate::TrafficPattern;
use crate::units::Nanos;

/// What is particular to a cell of many streams.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StreamTerms {
    /// Which set of source ports, counted from 0. Every set has other ports, and sends to another leaf where there is one.
    pub set: u16,
    /// How long streams are watched in one iteration, after they have found their pace.
    pub window: Nanos,
    /// Whether all streams come from one source port, as of a sender that does not vary it. Over TCP there is one connection
    /// then, which all of them share.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub one_port: bool,
    /// Whether the cells of the slot send to one rank: what share each of them gets counts, and not which way it takes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub into_one: bool,
    /// The pattern that the cells of the slot make up together, where what that delivers is asked, and not how streams are spread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<TrafficPattern>,
    /// Source ports in the order of streams, where these repeat some of a cell because their paths are known: they show what links carry, and
    /// nothing about how a hash spreads. Empty where ports follow each other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<u16>,
    /// 0 for planned streams; 1 and up for those that repeat them from fresh source ports, to confirm what looked wrong.
    #[serde(default, skip_serializing_if = "is_first")]
    pub round: u16,
    /// What was seen of the way of each stream, in their order; empty when the fabric was not asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ways: Vec<StreamPath>,
}

/// Streams of a slot say what links carry when no more of them than this, relative to the others, took an unknown path.
pub const MOST_UNKNOWN_PATHS: f64 = 0.1;

impl StreamTerms {
    /// Whether its streams were chosen for their paths.
    pub fn is_chosen(&self) -> bool {
        !self.ports.is_empty()
    }

    /// How long streams send before they are watched: long enough to find their pace.
    pub fn settling(&self) -> Nanos {
        Nanos(self.window.0 / 3)
    }

    /// How long one iteration takes.
    pub fn span(&self) -> Nanos {
        self.settling() + self.window
    }
}

fn is_first(round: &u16) -> bool {
    *round == 0
}

/// What was seen of the way that one stream takes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "StreamWay"))]
pub struct StreamPath {
    /// The directed links it crosses, in order, each as `h2/rail1->rail1-leaf1/p0`: all of them when `whole`, otherwise those up
    /// to the last switch that answered.
    pub links: Vec<String>,
    /// Whether it is known from end to end.
    pub whole: bool,
    /// Whether the same was seen when the fabric was asked again; none when it was asked once, or one of the answers was not whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steady: Option<bool>,
}

/// What one stream of a cell delivered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StreamRecord {
    /// Which, counted from 0.
    pub stream: u16,
    /// The source port of its packets, when it has one and it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Payload that arrived within the window of every timed iteration, in their order.
    pub bytes: Vec<u64>,
    /// Why it carried nothing, when it could not be connected, broke, or nothing ever arrived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// A counter of a switch port, read before and after the cells of a slot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortDelta {
    /// The slot.
    pub slot: u32,
    /// Measurement round.
    pub round: u16,
    /// The port, as the topology names it: `rail0-leaf0/u1`.
    pub port: String,
    /// The counter: `tx_bytes`, `rx_bytes`.
    pub name: String,
    /// Value before; none when absent or unreadable.
    pub before: Option<u64>,
    /// Value after; none when absent or unreadable.
    pub after: Option<u64>,
}
