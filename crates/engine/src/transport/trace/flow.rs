//! Flows, their traced paths, and the replies to trace packets.

use std::collections::HashMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use record::TransportKind;

/// A flow to trace.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TraceWanted {
    /// The rank that sends.
    pub from: u32,
    /// The rank that receives.
    pub to: u32,
    /// Over this rail.
    pub rail: String,
    /// The source port on the wire: TCP's, or that of RoCE's datagrams.
    pub port: u16,
    /// What carries the flow. Only TCP and RDMA have paths.
    pub transport: TransportKind,
}

/// Some of the switches that a flow crosses, to be asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathQuestion {
    /// The flow.
    pub flow: TraceWanted,
    /// Which switches, counted from 1 at the sender.
    pub ttls: Vec<u8>,
}

/// The traced path of a flow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TracedFlow {
    /// The flow.
    pub flow: TraceWanted,
    /// The address that answered for every hop, none for a silent one. Switches only, without the receiver. Empty when no switch
    /// answered. Over RDMA, silent switches before the receiver are missing at the end.
    pub hops: Vec<Option<IpAddr>>,
    /// Whether a packet reached the receiver: then switches that did not answer are silent, and not the end of the path.
    pub arrived: bool,
}

/// Who answered several packets of one connection of a flow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TracedBurst {
    /// The flow.
    pub flow: TraceWanted,
    /// For every hop the addresses that answered, one for each answer. Empty when no switch answered.
    pub hops: Vec<Vec<IpAddr>>,
}

/// The switches that answered along a path.
pub(super) type Hops = Vec<Option<IpAddr>>;

/// A path as far as it was traced.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::transport) struct PartialPath {
    pub hops: Hops,
    /// Whether the receiver was reached.
    pub whole: bool,
}

/// The paths this rank has traced: a flow whose connection is open cannot be traced again.
pub(in crate::transport) type KnownPaths = HashMap<TraceWanted, PartialPath>;

/// The reply to one trace packet.
#[derive(Debug)]
pub(super) enum ProbeReply {
    /// Time exceeded at a switch.
    Expired(IpAddr),
    /// Unreachable, says a switch.
    Unreachable(IpAddr),
    /// It reached the receiver.
    Arrived,
    /// No reply.
    Silence,
    /// It could not be sent: its connection exists already.
    Taken,
}
