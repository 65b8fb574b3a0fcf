//! Measuring the cells of a plan.
//!
//! The coordinator gives orders, the ranks carry them out, and every iteration is one exchange: *go at this instant* one
//! way, *done, this is what I saw* the other. The exchange is the barrier between iterations, it carries the samples, and
//! it lets the coordinator decide after every iteration whether another one is needed, so all ranks always agree on the
//! count. Orders and answers travel over the management network; only the collective itself is on the rails.
//!
//! `session` is the coordinator's side (with `meeting` for what comes first, `slot` for the loop over iterations, `loss` and
//! `aftermath` for when one does not end, `regroup` for going on without the lost, `readmit` for those who come back, `asking` for questions to many ranks at once, `trace` for the paths of flows, `inventory` for what hosts are made of, `link` for one link measured by itself), `worker` a rank's side (with `cells` for what it has in
//! hand, `task` for one cell on one rank and `engine` for what carries it out), `orders` what passes between them, `sink`
//! where events are written as they arrive, `stop_sign` when it is over, `switches` what the switches counted meanwhile.

mod aftermath;
mod agreement;
mod asking;
mod cells;
mod communicators;
mod counters;
mod inventory;
mod lanes;
mod link;
mod loss;
mod meeting;
mod orders;
mod reach;
mod readmit;
mod regroup;
mod returner;
mod running;
mod session;
mod sink;
mod slot;
mod stop_sign;
mod switches;
mod task;
mod trace;
mod verbs;
mod voice;
mod worker;

pub use inventory::local_inventory;
pub use link::{Bandwidth, Job, Latency, LinkObserver, LinkResult, Row};
pub use orders::{QuitReason, Setup};
pub use readmit::RejoinResult;
pub use session::{CellResult, ExitLookup, MeasureContext, MeasureError, Progress, Session};
pub use sink::{RunFolder, Sink, SinkError};
pub use stop_sign::Cancellation;
pub use switches::SwitchWatch;
pub use worker::{ProcessContext, serve};

pub use crate::transport::{CrossWay, TraceWanted, Traced};
