//! The real binary, from the command line to the files it leaves behind.

mod all_reduce;
mod bad_input;
mod budget;
mod burn_in;
mod compare;
mod counters;
mod ecmp_plan;
mod gpu;
mod harness;
mod interrupted;
mod inventory;
mod launch;
mod layering;
mod lost_ranks;
mod nccl;
mod negative_controls;
mod nights;
mod output;
mod placement;
mod power;
mod rdma;
mod rejoin;
mod report;
#[path = "../support/shim.rs"]
#[allow(dead_code, reason = "shared with tests of the engine")]
mod shim;
mod simulate;
#[path = "../support/skip.rs"]
mod skip;
mod strangers;
mod topology;
mod trend;
#[path = "../support/verdict.rs"]
#[allow(dead_code, reason = "shared with tests of the lab")]
mod verdict;
mod webhook;
mod whole_run;
