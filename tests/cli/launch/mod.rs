//! Real processes on loopback, started as schedulers start them: they meet as one world or say why not.

mod families;
mod harness;
#[cfg(feature = "mpi")]
mod mpi;
mod refusals;
mod rejoin;
mod tokens;
