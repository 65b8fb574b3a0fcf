//! Launch: which ranks take part in this run, and how orders and answers travel between the coordinator and the ranks.
//!
//! One process holds the coordinator; every rank is a *member* with one control connection to it. That connection carries
//! control messages only, over the management network (or a channel when the rank is a thread of the same process), never
//! measured traffic. No process joins without the run's secret token, every wait has a deadline, and a connection that breaks
//! is reported by rank.

pub mod clock;
pub mod clock_estimate;
mod connection;
mod control;
pub mod env;
mod frame;
mod handshake;
mod heartbeat;
pub mod hosts;
mod join;
mod listener;
mod local;
#[cfg(feature = "mpi")]
pub mod mpi;
mod processes;
mod rejoin;
mod rendezvous;
pub mod rendezvous_address;
mod rendezvous_error;
mod token;
pub mod token_source;

pub use connection::{Disconnected, Incoming};
pub use control::{Coordinator, Member, MessageSender};
pub use env::local_rank;
pub use join::{JoinConfig, JoinError, join, rejoin};
pub use local::in_process;
pub use processes::{RankProcesses, spawn};
pub use rendezvous::{Rendezvous, WaitAbort};
pub use rendezvous_error::RendezvousError;
pub use token::Token;

pub use topology::nodelist::MOST_RANKS;

/// Environment variables from which a rank joins a run. The token is never on a command line.
pub mod variables {
    /// This process's rank.
    pub const RANK: &str = "RAILGAUGE_RANK";
    /// Ranks in the run.
    pub const WORLD: &str = "RAILGAUGE_WORLD";
    /// `ADDRESS:PORT` of the coordinator.
    pub const RENDEZVOUS: &str = "RAILGAUGE_RENDEZVOUS";
    /// The run's secret token in hex.
    pub const TOKEN: &str = "RAILGAUGE_TOKEN";
    /// A file that holds it.
    pub const TOKEN_FILE: &str = "RAILGAUGE_TOKEN_FILE";
    /// Interface, address or subnet of the management network.
    pub const MANAGEMENT: &str = "RAILGAUGE_MANAGEMENT";
}
