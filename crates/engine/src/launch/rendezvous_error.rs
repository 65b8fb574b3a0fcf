//! Why the rendezvous of ranks failed.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// The rendezvous failed.
#[derive(Debug, thiserror::Error)]
pub enum RendezvousError {
    /// The management address cannot be used.
    #[error("cannot listen on {address}: {source}; name another address or port with --rendezvous")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// The host name does not resolve.
    #[error(
        "the rendezvous host {host} cannot be resolved on rank 0's machine: {source}; name a host or address it knows"
    )]
    Unresolved {
        /// The name.
        host: String,
        /// The system's error.
        source: io::Error,
    },
    /// The rendezvous address belongs to another machine.
    #[error("{address} is not an address of this machine: rank 0 must run on {host}")]
    OtherMachine {
        /// What the name resolves to.
        address: IpAddr,
        /// The name.
        host: String,
    },
    /// Another process listens there.
    #[error("port taken: {address}: {holder}")]
    PortTaken {
        /// The address.
        address: SocketAddr,
        /// Who that is, as far as it is known.
        holder: String,
    },
    /// Some ranks did not join in time.
    #[error("rank {} of {world} did not join within {} s", missing.join(", "), deadline.as_secs())]
    Missing {
        /// Who is missing, with their hosts where known.
        missing: Vec<String>,
        /// Ranks in the run.
        world: u32,
        /// The deadline that passed.
        deadline: Duration,
    },
    /// Some ranks did not join, and processes with another rank or world size tried to.
    #[error(
        "rank {} of {world} did not join within {} s, but {}: these are separate worlds that should be one; give every \
process the same world size and a rank of its own",
        missing.join(", "),
        deadline.as_secs(),
        conflicts.join("; ")
    )]
    SeparateWorlds {
        /// Who is missing, with their hosts where known.
        missing: Vec<String>,
        /// Ranks in the run.
        world: u32,
        /// The deadline that passed.
        deadline: Duration,
        /// Processes that could not join.
        conflicts: Vec<String>,
    },
    /// The operator asked to stop.
    #[error("interrupted while waiting for ranks to join")]
    Interrupted,
}
