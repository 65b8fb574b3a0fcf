//! Flows, their traced paths, and the replies to trace packets.

use std::collections::HashMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use record::TransportKind;

/// A flow whose path is asked for.
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

/// What is known of a flow's path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TracedFlow {
    /// The flow.
    pub flow: TraceWanted,
    /// The address that answered for every hop, none where nobody did. Only switches: the receiver is not among them. Empty
    /// when nobody answered at all. Over RDMA, silent switches before the receiver are missing at the end.
    pub hops: Vec<Option<IpAddr>>,
}

/// Who answered along a path.
pub(super) type Hops = Vec<Option<IpAddr>>;

/// What was seen of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PartialPath {
    pub hops: Hops,
    /// Whether its end was seen, too.
    pub whole: bool,
}

/// The paths this rank has seen: a flow whose connection is open cannot be followed again.
pub(in crate::transport) type KnownPaths = HashMap<TraceWanted, Vec<Option<IpAddr>>>;

/// What came of one packet.
#[derive(Debug)]
pub(super) enum ProbeReply {
    /// A switch says that it ended there.
    Switch(IpAddr),
    /// A switch says that it goes nowhere from there.
    End(IpAddr),
    /// It arrived.
    Arrived,
    /// Nobody said anything.
    Silence,
    /// It could not be sent: the connection it would be part of is there already.
    Taken,
}
