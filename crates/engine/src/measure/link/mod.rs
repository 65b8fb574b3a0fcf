//! One link measured by itself, the way perftest does it: two ranks, one rail, queue pairs of their own.
//!
//! The coordinator tells two ranks what to measure (`job`), hears what each saw (`job` again), and puts both together
//! (`row`). The ranks agree between themselves when a trial starts and ends; nothing passes over the control link meanwhile
//! but signs of life. `rank` is a rank's side, `conduct` the coordinator's.

mod conduct;
mod job;
mod rank;
mod row;

pub use conduct::{LinkObserver, LinkResult};
pub use job::Job;
pub(super) use job::Report;
pub(super) use rank::LinkRun;
pub use row::{Bandwidth, Latency, Row};
