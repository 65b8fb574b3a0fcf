//! Bandwidth and latency over dedicated queue pairs, measured like perftest.
//!
//! Two ranks open a stream over an out-of-band connection and run the same trials on it: prepare, report ready over the connection,
//! start when the peer is ready too, and report when the last message has completed. The memory is compared with what was sent after
//! the clock was stopped. Every wait ends: when nothing moves for the deadline, when the peer gives up, or on request.
//!
//! `trial` defines trials and their results; `pattern` and `peak_rate` are the data and the arithmetic; `buffers`, `stream_qp` and
//! `control` are the parts of a stream; `bandwidth` and `latency` are the two engines.

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
    /// Whether this is the first end: the one that sends, or that measures the time.
    pub is_first: bool,
    /// Rail by name.
    pub rail: String,
}

/// A stream failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// Something failed here; both ends and the likely causes are named.
    #[error("{0}")]
    Failed(String),
    /// The peer gave up, and why.
    #[error("the peer gave up: {0}")]
    Peer(String),
    /// This end was asked to stop.
    #[error("stopped")]
    Stopped,
}
