//! Moving bytes by RDMA: verbs, opened at run time.
//!
//! `context`, `memory`, `completion` and `queue_pair` are the objects of the verbs interface, each holding the one it was made
//! from, so that they are released in the right order. `link` and `direct_link` are the transports built on them.
#![allow(unsafe_code)]

mod availability;
pub mod entropy;
mod out_of_band;
mod request;
pub mod stream;
#[cfg(not(feature = "rdma"))]
mod without_rdma;

#[cfg(feature = "rdma")]
mod completion;
#[cfg(feature = "rdma")]
mod connect;
#[cfg(feature = "rdma")]
mod context;
#[cfg(all(test, feature = "rdma"))]
mod device_tests;
#[cfg(feature = "rdma")]
mod direct_link;
#[cfg(feature = "rdma")]
mod failure;
#[cfg(feature = "rdma")]
mod link;
#[cfg(feature = "rdma")]
mod memory;
#[cfg(feature = "rdma")]
mod nic;
#[cfg(feature = "rdma")]
mod nics;
#[cfg(feature = "rdma")]
mod qp_connection;
#[cfg(feature = "rdma")]
mod queue_pair;
#[cfg(feature = "rdma")]
mod queue_pair_info;
#[cfg(feature = "rdma")]
mod receive_slots;

pub use availability::{VerbsUnavailable, probe};
pub use out_of_band::OutOfBand;
pub use request::QueuePairRequest;
#[cfg(not(feature = "rdma"))]
pub use without_rdma::{ConnectedQueuePair, Nics, PendingQueuePair};
#[cfg(feature = "rdma")]
pub use {
    connect::{ConnectedQueuePair, PendingQueuePair},
    nics::Nics,
};
