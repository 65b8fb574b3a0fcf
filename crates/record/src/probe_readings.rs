//! What became of the probes of one cycle of a burn-in, flow by flow, in few words: counts of many cycles are added up (docs/loss.md, "Over many cycles").

use serde::{Deserialize, Serialize};

/// All flows of probes of a cycle. Names stand once; flows point to them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProbeReadings {
    /// Hosts by name.
    pub hosts: Vec<String>,
    /// Rails by name.
    pub rails: Vec<String>,
    /// Directed links by name, as `h2/rail1->leaf1/p0`.
    pub links: Vec<String>,
    /// Tests by name, with the size of a packet: flows of one are compared with each other.
    pub tests: Vec<String>,
    /// What became of every flow.
    pub flows: Vec<ProbeReading>,
}

/// What became of one flow, in all windows of a round. Numbers of hosts, rails, links and tests are positions in the lists.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProbeReading {
    /// The test.
    pub test: u32,
    /// When it ran: flows with the same slot and round were sent together.
    pub slot: u32,
    /// Measurement round.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub round: u16,
    /// Sending host.
    pub from: u32,
    /// Receiving host.
    pub to: u32,
    /// The rail.
    pub rail: u32,
    /// Source port.
    pub port: u16,
    /// Links that it certainly crossed.
    pub links: Vec<u32>,
    /// Links that it may have crossed, each with the probability that it did.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub possible: Vec<(u32, f64)>,
    /// Those certain links that only a share of its packets crossed, with that share.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shares: Vec<(u32, f64)>,
    /// Windows in which it was sent.
    pub seconds: u32,
    /// Those of them in which packets were lost.
    pub lossy: u32,
    /// Packets sent.
    pub sent: u64,
    /// Packets lost, but for those in queues.
    pub lost: u64,
}

fn is_zero(round: &u16) -> bool {
    *round == 0
}
