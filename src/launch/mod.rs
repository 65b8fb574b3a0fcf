//! Ranks meeting each other: who takes part in this run, and how orders and answers travel between the coordinator and
//! the ranks.
//!
//! One process holds the coordinator; every rank is a *member* with one link to it. The link carries control only, over
//! the management network (or a channel when the rank is a thread of the same process), never measured traffic. Nobody
//! joins without the run's secret token, every wait has a deadline, and a link that breaks is reported by rank.

pub mod clock;
mod frame;
mod greeting;
mod join;
mod link;
mod local;
mod processes;
mod pulse;
mod rendezvous;
mod token;

pub use join::{JoinAddress, JoinError, join};
pub use link::{Answering, Coordinator, Gone, Incoming, Member};
pub use local::threads;
pub use processes::{Children, spawn};
pub use rendezvous::{MeetError, Rendezvous};
pub use token::Token;

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
}
