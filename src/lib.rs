//! railgauge measures what a GPU fabric delivers, compares it with what it should deliver, and names the part at fault.
//!
//! The way data flows: a suite file becomes a plan, ranks meet, cells are measured, samples are recorded as they arrive,
//! statistics and detectors judge the record, reports render the judgement. `docs/architecture.md` shows which module may
//! use which; `tests/layering` fails when an edge is not in that table.

pub mod burn_in;
pub mod cli;
pub mod collective;
pub mod command;
pub mod device;
pub mod diagnose;
pub mod fabric;
pub mod findings;
pub mod history;
pub mod lab;
pub mod launch;
pub mod measure;
pub mod notify;
pub mod plan;
pub mod record;
pub mod report;
pub mod stats;
pub mod suite;
pub mod transport;
pub mod twin;
pub mod units;
