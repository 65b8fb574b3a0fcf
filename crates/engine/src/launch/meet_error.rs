//! Why ranks did not meet, in words an operator can act on.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Ranks did not meet.
#[derive(Debug, thiserror::Error)]
pub enum MeetError {
    /// The management address cannot be used.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The name has no address.
    #[error("the name {host} of the rendezvous cannot be resolved on rank 0's machine: {source}")]
    Unresolved {
        /// The name.
        host: String,
        /// What the system said.
        source: io::Error,
    },
    /// The meeting place is on another machine.
    #[error("{address} is not an address of this machine: rank 0 must run on {host}")]
    Elsewhere {
        /// What the name stands for.
        address: IpAddr,
        /// The name.
        host: String,
    },
    /// Somebody else listens there.
    #[error("port taken: {address}: {holder}")]
    PortTaken {
        /// The address.
        address: SocketAddr,
        /// Who that is, as far as it can be known.
        holder: String,
    },
    /// Some ranks did not arrive in time.
    #[error("rank {} of {world} did not join within {} s", missing.join(", "), deadline.as_secs())]
    Missing {
        /// Who is missing, with their hosts where known.
        missing: Vec<String>,
        /// Ranks in the run.
        world: u32,
        /// The deadline that passed.
        deadline: Duration,
    },
    /// Some ranks did not arrive, and others knocked that count differently.
    #[error(
        "rank {} of {world} did not join within {} s, but {}: these are separate worlds that should be one; give every \
process the same world size and a rank of its own",
        missing.join(", "),
        deadline.as_secs(),
        evidence.join("; ")
    )]
    Separate {
        /// Who is missing, with their hosts where known.
        missing: Vec<String>,
        /// Ranks in the run.
        world: u32,
        /// The deadline that passed.
        deadline: Duration,
        /// Who knocked.
        evidence: Vec<String>,
    },
    /// The operator asked to stop.
    #[error("interrupted while waiting for ranks to join")]
    Interrupted,
}
