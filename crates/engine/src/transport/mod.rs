//! Moving bytes between two ranks.
//!
//! A *link* is one in-order, full-duplex path to one peer: a socket, or a queue of memory leases. A *channel* is all links
//! to one peer that a cell uses (rails x flows), with chunks striped over them in turn. Nothing here blocks: a link takes
//! or delivers what it can now, and the executor decides when to retry, when to give up and what to report. Moved bytes are
//! counted here.

mod channel;
mod connect;
mod cross_rail;
mod endpoint;
mod inject;
mod link;
mod liveness;
mod mesh;
mod probes;
mod route;
pub mod shm;
mod streams;
pub mod tcp;
mod trace;
pub mod verbs;

pub use channel::Channel;
pub use connect::{ConnectError, Wanted};
pub use cross_rail::CrossRailPath;
pub use endpoint::{Endpoint, GpuEndpoint, all_direct, reach_records};
pub use inject::{BadFault, Fault, Flip};
pub use link::{
    ArrivedChunk, Backlog, DirectLink, GpuRange, Link, LinkError, Received, Sink, TcpCounts, Waitable,
};
pub use liveness::Liveness;
pub use mesh::Mesh;
pub use probes::{ProbePacket, ProbeSockets};
pub use route::Route;
pub use streams::{StreamLink, Streams};
pub use trace::{PathQuestion, TraceWanted, TracedBurst, TracedFlow};
