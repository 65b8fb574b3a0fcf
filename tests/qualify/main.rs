//! Comparisons of speed in live labs, and burn-ins: for a machine that has nothing else to do.
//!
//! Not part of `cargo test`: `ci/qualify` runs them, one after the other.

mod burn_in;
mod firmware;
#[path = "../lab/harness.rs"]
#[allow(dead_code, reason = "shared with tests of the lab")]
mod harness;
mod rates;
#[path = "../support/skip.rs"]
mod skip;
