//! Measuring the cells of a plan.
//!
//! The coordinator gives orders, the ranks execute them, and every iteration is one exchange: *go at this instant* one way,
//! *done, with this result* the other. The exchange is the barrier between iterations, it carries the samples, and the coordinator
//! decides after every iteration whether another one is needed, so all ranks always agree on the count. Orders and answers travel
//! over the management network; only the collective itself is on the rails.
//!
//! `protocol` holds the orders and answers. The coordinator's side, bottom up:
//!
//! | module | what |
//! |---|---|
//! | `session` | state of the run, sending orders, receiving answers |
//! | `rank_setup`, `capabilities` | setup of the ranks, what all of them can do |
//! | `clocks`, `clock_comparison` | what is known of the ranks' clocks, and comparing them |
//! | `loss`, `loss_survey` | what is known when a rank is lost or a collective hangs |
//! | `slot`, `slot_run`, `cell_progress` | the cells that run at the same time: barrier, iterations, results |
//! | `measure_cells` | all cells, slot by slot; `switch_counters` around each |
//! | `exclusion`, `rejoin`, `rejoin_check` | continuing without lost ranks, and taking them back |
//! | `path_queries`, `inventory`, `link` | traces and cross-rail paths, inventories, one link measured by itself |
//!
//! A rank's side: `worker` reads orders, `rank_runtime` executes them, `cell_task` runs one cell; `faulty_clock` is an
//! injected fault of its clock. `sink` writes events as they
//! arrive, `cancellation` ends a run early.

mod cancellation;
mod capabilities;
mod cell_progress;
mod cell_task;
mod clock_comparison;
mod clocks;
mod communicator_cache;
mod counters;
mod error;
mod exclusion;
mod faulty_clock;
mod inventory;
mod link;
mod loss;
mod loss_survey;
mod measure_cells;
mod path_queries;
mod progress;
mod protocol;
mod rank_communicators;
mod rank_runtime;
mod rank_setup;
mod rejoin;
mod rejoin_check;
mod session;
mod sink;
mod slot;
mod slot_run;
mod switch_counters;
mod verbs_support;
mod worker;

pub use cancellation::Cancellation;
pub use error::MeasureError;
pub use inventory::local_inventory;
pub use link::{Bandwidth, LatencySummary, LinkJob, LinkObserver, LinkResult, LinkRow};
pub use measure_cells::MeasureContext;
pub use progress::{CellResult, Progress};
pub use protocol::{QuitReason, Setup};
pub use rejoin::RejoinResult;
pub use session::{ExitLookup, Session};
pub use sink::{RunFolder, Sink, SinkError};
pub use switch_counters::SwitchWatch;
pub use worker::{ProcessContext, serve};

pub use crate::transport::{CrossRailPath, PathQuestion, TraceWanted, TracedBurst, TracedFlow};
