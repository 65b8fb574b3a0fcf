//! What carries out a cell on one rank: the CPU, a GPU, or a library.
//!
//! An engine has the rank's memory and its ways to the others, and is made ready when the cell is prepared. It is told to
//! fill its input, to run at an instant, to check its output; when, and what is made of it, is the task's business. Every
//! wait inside an engine ends with the conditions' deadline or abort.

mod cuda;
mod host;
mod nccl;
mod streams;

pub(super) use cuda::OnGpu;
pub(super) use host::OnHost;
pub(super) use nccl::ByNccl;
pub(super) use streams::ByStreams;

use crate::collective::{Conditions, Mismatch, Stopped, Took};
use crate::device::telemetry::GpuName;
use crate::transport::{Backlog, Channel};
use record::units::{Bytes, Nanos};
use record::{Moved, StreamRecord, Stuck};

/// One rank's part of a cell, ready to run any number of times.
pub(super) trait Engine: Send {
    /// Puts the input of pattern `pattern` in place; whether it is there now.
    fn fill(&mut self, pattern: u64) -> bool;

    /// Waits for the instant `at`, runs the collective `times` times without a pause, and says how long one of them took.
    /// `iteration` is the number of a timed iteration, none for warm-up.
    fn run(
        &mut self,
        at: Nanos,
        iteration: Option<u32>,
        times: u16,
        conditions: &Conditions<'_>,
    ) -> Result<Took, Stopped>;

    /// Whether the output is what the inputs of pattern `pattern` must yield; none when it could not be looked at, which
    /// must not count as checked.
    fn check(&mut self, pattern: u64) -> Option<Result<(), Mismatch>>;

    /// Ways on which packets do not get through.
    fn stuck(&self) -> Vec<Stuck>;

    /// The GPU it runs on, whose sensors are read around the cell.
    fn gpu(&self) -> Option<GpuName> {
        None
    }

    /// What its streams came to, where it has any.
    fn streams(&mut self) -> Vec<StreamRecord> {
        Vec::new()
    }

    /// What this rank has sent over all its runs, and the connections for whoever needs them next.
    fn finish(self: Box<Self>) -> (Vec<Moved>, Vec<Channel>);
}

/// Ways on which packets do not get through, as they are recorded.
fn as_recorded(stuck: Vec<(u32, String, Backlog)>) -> Vec<Stuck> {
    let one = |(to, rail, backlog): (u32, String, Backlog)| Stuck {
        to,
        rail,
        bytes: Bytes(backlog.bytes),
        retransmits: backlog.retransmits,
    };
    stuck.into_iter().map(one).collect()
}

/// What `channels` have sent, as rank `from` counts it.
fn moved_over<'a>(from: u32, channels: impl Iterator<Item = &'a Channel>) -> Vec<Moved> {
    let mut moved = Vec::new();
    for channel in channels {
        let to = channel.peer();
        let sent = channel.moved().into_iter().filter(|(_, bytes)| *bytes > 0);
        moved.extend(sent.map(|(rail, bytes)| Moved {
            from,
            to,
            rail,
            bytes: Bytes(bytes),
        }));
    }
    moved
}
