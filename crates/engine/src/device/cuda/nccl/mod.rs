//! NCCL as a reference engine: the library that users run, opened at run time, on the same memory as our own kernels.
//!
//! Communicators are blocking ones, as in nccl-tests: with NCCL's non-blocking mode every call starts a thread, which would
//! be timed. A blocking call can hang when a peer is gone, so whoever makes it does so on a thread that can be given up, and
//! [`Communicator::abort`] may be called from another one.

mod communicator;
mod environment;
mod library;
mod operation;

pub use communicator::{Communicator, CommunicatorConfig, UniqueId};
pub use environment::{host_id, set_host_id};
pub use library::{Nccl, NcclError, NcclUnavailable, OLDEST_VERSION, Version};
pub use operation::Operation;
