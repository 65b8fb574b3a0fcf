//! What is particular to cells over RDMA: the terms of their queue pairs, and where their data lies.

use serde::{Deserialize, Serialize};

/// Where the NIC finds the payload.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Default,
    Serialize,
    Deserialize,
    strum::Display,
    strum::EnumString,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum MemoryPath {
    /// In memory of the CPU, where the ranks' data lies.
    #[default]
    Host,
    /// In memory of the GPU, which the NIC reads and writes itself.
    #[serde(rename = "gpudirect")]
    #[strum(serialize = "gpudirect")]
    GpuDirect,
    /// In pinned memory of the CPU, through which the GPU's data is passed.
    Staged,
}

impl MemoryPath {
    /// As people say it.
    pub fn in_words(self) -> &'static str {
        match self {
            MemoryPath::Host => "host memory",
            MemoryPath::GpuDirect => "gpudirect",
            MemoryPath::Staged => "staged through host memory",
        }
    }
}

/// How a rank learns that something was sent or has arrived.
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
    strum::EnumString,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Completion {
    /// It looks again and again: lowest latency, one core per rank.
    Poll,
    /// It sleeps until the NIC wakes it.
    Event,
}

/// The terms of a cell's queue pairs. What is not said is chosen by each pair of ranks, the same at both ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct VerbsTerms {
    /// Where the NIC finds the payload.
    pub memory: MemoryPath,
    /// Service level (InfiniBand) or priority.
    pub service_level: u8,
    /// Traffic class of the packets' IP header: DSCP in the upper six bits.
    pub traffic_class: u8,
    /// Largest packet payload in bytes; the largest that both ports allow when it is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_mtu: Option<u16>,
    /// Which of the port's addresses; a routable one of RoCE v2 where there is one when it is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gid_index: Option<u8>,
    /// How completions are noticed; by events where cores are few when it is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion: Option<Completion>,
}

/// A port of an RDMA device, as the kernel shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RdmaPort {
    /// Device, as `ibv_devices` lists it.
    pub device: String,
    /// Port of the device, from 1.
    pub port: u8,
    /// `Ethernet` or `InfiniBand`.
    pub link_layer: String,
    /// `ACTIVE`, `DOWN`, ... when the run began, as the kernel said it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
}

/// How an error ends that says that a rank's own device is not there any more.
pub const DEVICE_GONE: &str = "it was removed or reset";

/// What a queue pair was called on the wire, so that its path through the switches can be worked out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FlowRecord {
    /// Sending world rank.
    pub from: u32,
    /// Receiving world rank.
    pub to: u32,
    /// Rail by name.
    pub rail: String,
    /// Number of the flow between these two on this rail.
    pub flow: u16,
    /// Queue pair of the sender.
    pub queue_pair: u32,
    /// Queue pair of the receiver.
    pub to_queue_pair: u32,
    /// Source address of the packets, when they have an IP header.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<std::net::IpAddr>,
    /// Destination address, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination: Option<std::net::IpAddr>,
    /// Flow label asked for; 0 when the choice was left to the provider.
    pub flow_label: u32,
    /// UDP source port of its packets; none on InfiniBand, which has no such thing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_port: Option<u16>,
    /// How the port is known.
    pub known: PortKnowledge,
}

/// How sure a source port is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, strum::Display)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum PortKnowledge {
    /// Set by the flow label asked for.
    FlowLabel,
    /// Set on the queue pair by the provider's own call.
    Provider,
    /// Not asked for: what the kernel makes of the two queue pairs' numbers.
    Predicted,
    /// The link has no source ports.
    None,
}
