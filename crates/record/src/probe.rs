//! Cells of probes: which small packets are sent between whom, and what became of them.

use serde::{Deserialize, Serialize};

use crate::StreamPath;
use crate::units::Nanos;

/// What is particular to a cell of probes: small packets between many ranks at the same time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProbeTerms {
    /// Which set of partners and source ports, counted from 0.
    pub set: u16,
    /// How long probes are sent in one iteration.
    pub window: Nanos,
    /// Time between two packets of a flow.
    pub gap: Nanos,
    /// A packet that waited longer met a queue; one that is lost beside it may have been dropped there.
    pub queue: Nanos,
    /// The most of a link that they may take, in parts per million.
    pub share_ppm: u32,
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

    /// Packets of a flow in one iteration.
    pub fn packets(&self) -> u32 {
        u32::try_from(self.window.0 / self.gap.0.max(1))
            .unwrap_or(u32::MAX)
            .max(1)
    }
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

fn is_zero(count: &u64) -> bool {
    *count == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_iteration_has_as_many_packets_as_fit_and_one_at_least() {
        let terms = |window: u64, gap: u64| ProbeTerms {
            set: 0,
            window: Nanos(window),
            gap: Nanos(gap),
            queue: Nanos(0),
            share_ppm: 10_000,
            flows: Vec::new(),
        };
        assert_eq!(terms(1_000_000_000, 4_000_000).packets(), 250);
        assert_eq!(terms(1_000, 4_000).packets(), 1);
        assert_eq!(terms(1_000, 0).packets(), 1_000);
    }
}
