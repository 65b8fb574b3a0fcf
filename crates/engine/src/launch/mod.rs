//! Ranks meeting each other: who takes part in this run, and how orders and answers travel between the coordinator and
//! the ranks.
//!
//! One process holds the coordinator; every rank is a *member* with one link to it. The link carries control only, over
//! the management network (or a channel when the rank is a thread of the same process), never measured traffic. Nobody
//! joins without the run's secret token, every wait has a deadline, and a link that breaks is reported by rank.

pub mod clock;
mod door;
pub mod env;
mod frame;
mod greeting;
pub mod hosts;
mod join;
mod link;
mod local;
mod local_rank;
mod meet_error;
pub mod meeting;
#[cfg(feature = "mpi")]
pub mod mpi;

mod processes;
mod pulse;
mod rendezvous;
mod returning;
pub mod secret;
mod token;
mod wire;

pub use join::{JoinAddress, JoinError, join, join_again};
pub use link::{Answering, Coordinator, Gone, Incoming, Member};
pub use local::threads;
pub use local_rank::local_rank;
pub use meet_error::MeetError;
pub use processes::{Children, spawn};
pub use rendezvous::{GiveUp, Rendezvous};
pub use token::Token;

pub use topology::nodelist::MOST_RANKS;

/// What a rank must know to join a run, as environment variables. The token never stands on a command line.
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
