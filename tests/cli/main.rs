//! The real binary, from the command line to the files it leaves behind.

mod all_reduce;
mod bad_input;
mod budget;
mod burn_in;
mod compare;
mod counters;
mod ecmp_plan;
mod harness;
mod interrupted;
mod inventory;
mod lost_ranks;
mod negative_controls;
mod nights;
mod output;
mod rdma;
mod report;
mod simulate;
mod strangers;
mod trend;
mod webhook;
mod whole_run;
