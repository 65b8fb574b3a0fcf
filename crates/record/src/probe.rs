//! Cells of probes: which small packets are sent between whom, and what became of them.

use serde::{Deserialize, Serialize};

use crate::StreamPath;
use crate::units::{Bytes, Nanos};

/// What is particular to a cell of probes: small packets between many ranks at the same time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProbeTerms {
    /// Which set of partners and source ports, counted from 0.
    pub set: u16,
    /// How long probes are sent in one iteration.
    pub window: Nanos,
    /// A packet that waited longer met a queue; one that is lost beside it may have been dropped there.
    pub queue: Nanos,
    /// What a packet takes on a cable, headers and gaps included.
    pub wire: Bytes,
    /// The most of a link that they may take, in parts per million.
    pub share_ppm: u32,
    /// The most packets that a rank sends on a rail in a second.
    pub most_per_second: u32,
    /// The flows, in order.
    pub flows: Vec<ProbeFlow>,
}

/// Packets from one rank to another from one source port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProbeFlow {
    /// Sending world rank.
    pub from: u32,
    /// Receiving world rank.
    pub to: u32,
    /// Rail by name.
    pub rail: String,
    /// Source port of its packets.
    pub port: u16,
    /// Packets that it sends in one iteration, evenly spread.
    pub packets: u32,
    /// What was seen of the way it takes; none when the fabric was not asked or has only one way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub way: Option<StreamPath>,
}

impl ProbeTerms {
    /// How long an iteration takes: packets that are late have time to come.
    pub fn span(&self) -> Nanos {
        self.window + ProbeTerms::PATIENCE
    }

    /// A packet that has not come so long after the last one was sent is lost.
    pub const PATIENCE: Nanos = Nanos(150_000_000);
}

/// What became of the packets of one flow, iteration by iteration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProbeCounts {
    /// Position of the flow in the cell.
    pub flow: u32,
    /// Packets sent.
    pub sent: Vec<u32>,
    /// Those of them that did not arrive, and that no queue nor the receiver's own socket explains.
    pub lost: Vec<u32>,
    /// Those that did not arrive while others of the flow waited in a queue.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost_in_queue: Vec<u32>,
    /// Those that arrived twice.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub duplicated: u64,
    /// Those that arrived after a later one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub reordered: u64,
    /// Packets that the receiver's socket dropped, of all flows to it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub dropped_at_receiver: u64,
    /// How much longer than the fastest packet of an iteration the middle one took.
    pub typical_ns: Vec<u64>,
    /// The same of the slowest one.
    pub worst_ns: Vec<u64>,
}

impl ProbeCounts {
    /// Packets sent in all iterations.
    pub fn packets(&self) -> u64 {
        self.sent.iter().copied().map(u64::from).sum()
    }

    /// Packets lost in all iterations, but for those in queues.
    pub fn losses(&self) -> u64 {
        self.lost.iter().copied().map(u64::from).sum()
    }
}

/// What became of all probes of a rail.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProbeSummary {
    /// Name of the test.
    pub test: String,
    /// Rail by name.
    pub rail: String,
    /// Flows: sender, receiver and source port.
    pub flows: u32,
    /// Directed links that they are known to have crossed; 0 where no path is known.
    pub links: u32,
    /// Packets sent.
    pub sent: u64,
    /// Those of them that did not arrive, and that no queue nor a receiver's own socket explains.
    pub lost: u64,
    /// Those that did not arrive while others of their flow waited in a queue.
    pub lost_in_queue: u64,
    /// Packets that came twice.
    pub duplicated: u64,
    /// Packets that came after a later one of their flow.
    pub reordered: u64,
    /// Packets that receivers' sockets dropped.
    pub dropped_at_receiver: u64,
    /// How much longer than the fastest packet of a second the middle one took: the median over all seconds of all flows.
    pub typical: Nanos,
    /// The same of the slowest packet of a second.
    pub worst: Nanos,
    /// The longest that any packet waited.
    pub longest: Nanos,
    /// Sets during which others' traffic was on the rail, so that it was not judged who holds packets up; and all sets.
    pub loaded: (u32, u32),
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_written_without_what_did_not_happen_and_read_again() {
        let counts = ProbeCounts {
            flow: 3,
            sent: vec![250, 249],
            lost: vec![0, 2],
            typical_ns: vec![900, 1000],
            worst_ns: vec![40_000, 52_000],
            ..ProbeCounts::default()
        };
        let text = serde_json::to_string(&counts).unwrap();
        assert!(!text.contains("queue") && !text.contains("duplicated"), "{text}");
        let again: ProbeCounts = serde_json::from_str(&text).unwrap();
        assert_eq!(again, counts);
        assert_eq!((again.packets(), again.losses()), (499, 2));
    }
}
