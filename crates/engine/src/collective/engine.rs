//! The one interface of everything that runs a cell on a rank: the CPU, our kernels, a copy engine, NCCL, or streams.
//!
//! An engine owns the rank's memory and its connections to the other ranks, and is ready to run once it was made. It fills its
//! input, runs at an instant and checks its output; the caller decides when. Every wait inside an engine ends at the deadline or
//! at the abort flag of its [`Conditions`].

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::oracle::WrongElement;
use super::probes::ProbeReport;
use crate::device::telemetry::GpuName;
use crate::transport::{Backlog, Channel};
use record::units::{Bytes, Nanos};
use record::{LinkTraffic, StreamRecord, Stuck};

/// One rank's part of a cell, ready to run any number of times.
pub trait CellEngine: Send {
    /// Writes the input of pattern `pattern`; whether it is in place now.
    fn fill(&mut self, pattern: u64) -> bool;

    /// Waits for the instant `at`, runs the collective `times` times without a pause, and returns how long one of them took.
    /// `iteration` is the number of a timed iteration, none for warm-up.
    fn run(
        &mut self,
        at: Nanos,
        iteration: Option<u32>,
        times: u16,
        conditions: &Conditions<'_>,
    ) -> Result<Took, Stopped>;

    /// Compares the output with what the inputs of pattern `pattern` must yield. None when the output could not be read: the
    /// iteration must not count as checked then.
    fn check(&mut self, pattern: u64) -> Option<Result<(), WrongElement>>;

    /// Connections with unacknowledged data.
    fn stuck(&self) -> Vec<Stuck>;

    /// The GPU it runs on, whose sensors are read around the cell.
    fn gpu(&self) -> Option<GpuName> {
        None
    }

    /// The record of each of its streams, where it has any.
    fn streams(&mut self) -> Vec<StreamRecord> {
        Vec::new()
    }

    /// What this rank knows of the probes that it sends or receives, where it has any.
    fn probes(&mut self) -> Vec<ProbeReport> {
        Vec::new()
    }

    /// Assigns what TCP has counted since the last call to an iteration that is over; to none when it was not timed.
    fn note_tcp(&mut self, _iteration: Option<u32>) {}

    /// What this rank has sent over all its runs, and the connections for the next cell that needs them.
    fn finish(self: Box<Self>) -> (Vec<LinkTraffic>, Vec<Channel>);
}

/// How long an iteration took on this rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Took {
    /// When it started, on this host's clock.
    pub started: Nanos,
    /// From start to completion.
    pub total: Nanos,
    /// Of that, spent waiting for a peer or the wire.
    pub waited: Nanos,
}

/// Why an iteration did not complete.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{step}: {problem}")]
pub struct Stopped {
    /// The step, in words.
    pub step: String,
    /// The world rank it waited for.
    pub waiting_for: Option<u32>,
    /// How long nothing had moved.
    pub waited: Nanos,
    /// What was noticed.
    pub problem: String,
    /// Whether the run was being ended anyway, so that this rank only reports where it was.
    pub aborted: bool,
}

/// Limits and conditions of an iteration.
pub struct Conditions<'a> {
    /// The longest time without progress.
    pub deadline: Duration,
    /// Set when the run is being ended.
    pub abort: &'a AtomicBool,
    /// Whether more ranks than cores share this host, so that spinning would take time from a peer.
    pub crowded: bool,
    /// Called at least twice per deadline while data moves: an iteration may take longer than the deadline.
    pub moving: Option<&'a dyn Fn()>,
    /// Factor by which arithmetic is slowed down, for negative controls; 1 changes nothing.
    pub slowdown: f64,
}

/// Connections with unacknowledged data (peer, rail, backlog) as they are recorded.
pub(super) fn stuck_records(stuck: Vec<(u32, String, Backlog)>) -> Vec<Stuck> {
    let one = |(to, rail, backlog): (u32, String, Backlog)| Stuck {
        to,
        rail,
        bytes: Bytes(backlog.bytes),
        retransmits: backlog.retransmits,
    };
    stuck.into_iter().map(one).collect()
}

/// What `channels` have sent, as rank `from` counts it.
pub(super) fn moved_over<'a>(from: u32, channels: impl Iterator<Item = &'a Channel>) -> Vec<LinkTraffic> {
    let mut moved = Vec::new();
    for channel in channels {
        let to = channel.peer();
        let sent = channel.moved().into_iter().filter(|(_, bytes)| *bytes > 0);
        moved.extend(sent.map(|(rail, bytes)| LinkTraffic {
            from,
            to,
            rail,
            bytes: Bytes(bytes),
        }));
    }
    moved
}

/// What `collectives` runs put into the memory of other ranks, where no connection counts it; `sends` is one run's share.
pub(super) fn moved_directly(from: u32, sends: &[(u32, u64)], collectives: u64) -> Vec<LinkTraffic> {
    let moved = sends.iter().map(|(to, bytes)| LinkTraffic {
        from,
        to: *to,
        rail: None,
        bytes: Bytes(bytes * collectives),
    });
    moved.collect()
}
