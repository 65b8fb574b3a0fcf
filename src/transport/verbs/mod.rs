//! Moving bytes by RDMA: verbs, opened at run time.
//!
//! `context`, `memory`, `completion` and `queue_pair` are the objects of the verbs interface, each holding what it was made
//! from, so that they are given back in the right order whatever happens. `link` is the transport built on them.
#![allow(unsafe_code)]

pub mod entropy;
mod missing;

#[cfg(feature = "rdma")]
mod completion;
#[cfg(feature = "rdma")]
mod context;
#[cfg(feature = "rdma")]
mod memory;
#[cfg(feature = "rdma")]
mod queue_pair;

pub use missing::{VerbsMissing, probe};
