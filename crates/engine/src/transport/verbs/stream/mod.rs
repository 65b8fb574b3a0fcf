//! Messages over queue pairs of their own, the way perftest sends them: as many as go through, or one at a time.
//!
//! Two ranks [`RdmaStream::open`] a stream over a connection they have greeted, then run trials on it, the same at both ends: get
//! ready, say so over the connection, start when the other is ready too, and say over the connection when the last message
//! is through. What is left in memory is compared with what was sent after the clock was stopped. Every wait ends: when
//! nothing moves for the deadline, when the other end says that it gives up, or when this one is told to.
//!
//! `trial` is what is asked and `outcome` what came of it; `pattern` and `peak_rate` are the data and the arithmetic; `memory`,
//! `qp` and `control` are what a stream is made of; `bandwidth` and `latency` are the two engines.

#[cfg(any(feature = "rdma", test))]
mod pattern;
#[cfg(any(feature = "rdma", test))]
mod peak_rate;
mod trial;

#[cfg(feature = "rdma")]
mod bandwidth;
#[cfg(feature = "rdma")]
mod buffers;
#[cfg(feature = "rdma")]
mod control;
#[cfg(feature = "rdma")]
mod latency;
#[cfg(feature = "rdma")]
mod open;
#[cfg(feature = "rdma")]
mod stall_timer;
#[cfg(feature = "rdma")]
mod stream_qp;

#[cfg(not(feature = "rdma"))]
pub use super::without_rdma::RdmaStream;
#[cfg(feature = "rdma")]
pub use open::RdmaStream;
pub use trial::{
    Check, CheckResult, Extent, LARGEST, OFFSETS, Operation, SendResult, StreamConfig, Trial, TrialKind,
    TrialResult,
};

/// Between which ranks a stream runs, and on which rail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamEnds {
    /// This rank.
    pub me: u32,
    /// The other.
    pub peer: u32,
    /// Whether this is the first end: the one that sends, or that takes the time.
    pub is_first: bool,
    /// Rail by name.
    pub rail: String,
}

/// A stream did not carry on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// Something failed here; both ends and the likely causes are named.
    #[error("{0}")]
    Failed(String),
    /// The other end gave up, and why.
    #[error("the other end gave up: {0}")]
    Peer(String),
    /// Somebody told this end to stop.
    #[error("stopped")]
    Stopped,
}
