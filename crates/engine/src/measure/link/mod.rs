//! One link measured by itself, as perftest does: two ranks, one rail, queue pairs of their own.
//!
//! The coordinator sends two ranks a job and receives their reports (`job`), from which it makes rows (`row`). The ranks agree
//! between themselves when a trial starts and ends; only heartbeats pass over the control connection meanwhile. `rank` is a
//! rank's side, `coordinate` the coordinator's.

mod coordinate;
mod job;
mod rank;
mod row;

pub use coordinate::{LinkObserver, LinkResult};
pub use job::LinkJob;
pub(super) use job::LinkReport;
pub(super) use rank::LinkRun;
pub use row::{Bandwidth, LatencySummary, LinkRow};
