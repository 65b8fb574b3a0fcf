//! Ranks as threads over real channels, GPUs through the CPU shim, rendezvous over real sockets.

mod collectives;
mod cuda;
mod ranks;
mod rendezvous;
#[path = "../../../../tests/support/shim.rs"]
#[allow(dead_code, reason = "shared with tests of the program")]
mod shim;
#[path = "../../../../tests/support/skip.rs"]
#[allow(dead_code, reason = "shared with tests of the program")]
mod skip;
mod streams;
