//! The fabric in a box, with real namespaces, real traffic and real faults.
//!
//! Needs root, `ip`, `tc`, `nft` and `ethtool`; where they are missing every test says so and passes. Labs are named after
//! this process, so that tests running at the same time do not disturb each other.

mod diagnose;
mod ecmp;
mod exec;
mod fabric_faults;
mod fairness;
mod harness;
mod host_faults;
mod inventory;
mod life;
mod liveness;
mod packet_faults;
mod path_faults;
mod paths;
mod probes;
#[cfg(feature = "rdma")]
mod rdma;
mod refusals;
mod respawn;
mod runs;
#[path = "../support/shim.rs"]
#[allow(dead_code, reason = "shared with tests of the engine")]
mod shim;
#[path = "../support/skip.rs"]
mod skip;
mod switch_counters;
mod switch_inventory;
mod under_way;
#[path = "../support/verdict.rs"]
mod verdict;
mod wiring;
mod worst_traffic;
