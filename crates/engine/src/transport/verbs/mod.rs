//! Moving bytes by RDMA: verbs, opened at run time.
//!
//! `context`, `memory`, `completion` and `queue_pair` are the objects of the verbs interface, each holding what it was made
//! from, so that they are given back in the right order whatever happens. `link` is the transport built on them.
#![allow(unsafe_code)]

#[cfg(not(feature = "rdma"))]
mod absent;
pub mod entropy;
mod introduction;
mod missing;
pub mod stream;

#[cfg(feature = "rdma")]
mod card;
#[cfg(feature = "rdma")]
mod completion;
#[cfg(feature = "rdma")]
mod connect;
#[cfg(feature = "rdma")]
mod context;
#[cfg(all(test, feature = "rdma"))]
mod device_tests;
#[cfg(feature = "rdma")]
mod direct;
#[cfg(feature = "rdma")]
mod failure;
#[cfg(feature = "rdma")]
mod landing;
#[cfg(feature = "rdma")]
mod link;
#[cfg(feature = "rdma")]
mod memory;
#[cfg(feature = "rdma")]
mod nic;
#[cfg(feature = "rdma")]
mod nics;
#[cfg(feature = "rdma")]
mod queue_pair;
#[cfg(feature = "rdma")]
mod wire;

#[cfg(not(feature = "rdma"))]
pub use absent::{Meeting, Nics, Pending};
pub use introduction::Introduction;
pub use missing::{VerbsMissing, probe};
#[cfg(feature = "rdma")]
pub use {
    connect::{Meeting, Pending},
    nics::Nics,
};
