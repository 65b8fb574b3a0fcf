//! Processes started by mpirun or srun tell each other where to meet, through MPI.
//!
//! MPI carries one small message of fixed size, once: address, port and token, from rank 0 to all. Everything after that
//! goes over sockets of our own, because MPI can neither say which rank is lost nor end without it. For the same reason MPI
//! is ended properly only after a clean run; otherwise the process leaves without it, and the launcher cleans up.
//!
//! All calls are made on the main thread. MPI's own errors end the process.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use mpi::collective::{CommunicatorCollectives, Root};
use mpi::environment::Universe;
use mpi::topology::{Communicator, SimpleCommunicator};

use super::Token;
use super::env::{self, Look};

/// Bytes of an invitation: address, port, token.
const INVITATION: usize = 16 + 2 + Token::LEN;
/// Bytes that every rank may say about its host.
const WORDS: usize = 128;

/// MPI cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum MpiError {
    /// MPI was started already in this process, or does not start.
    #[error("MPI does not start")]
    NoStart,
    /// The launcher and the library do not know each other.
    #[error(
        "MPI says this process is alone, but {said}: the launcher and the MPI library of this binary do not match, and every \
process would be a world of its own. Start it with the mpirun of the MPI it was built with ({library}), or with srun \
--mpi=pmix where that MPI has PMIx, or use --launch env"
    )]
    Singleton {
        /// The variable that says otherwise.
        said: String,
        /// The library.
        library: String,
    },
}

/// The processes that MPI knows of.
pub struct World {
    communicator: SimpleCommunicator,
    /// Ends MPI when it is dropped; none after [`World::leave`].
    universe: Option<Universe>,
}

/// Where to meet, and the run's secret.
#[derive(Debug, Clone)]
pub struct Invitation {
    /// Where rank 0 listens.
    pub address: SocketAddr,
    /// The secret.
    pub token: Token,
}

impl World {
    /// Starts MPI. A process that is alone although its launcher started several is an error.
    pub fn start(look: Look<'_>) -> Result<World, MpiError> {
        let universe = mpi::initialize().ok_or(MpiError::NoStart)?;
        let world = World {
            communicator: universe.world(),
            universe: Some(universe),
        };
        match env::most_ranks_said(look) {
            Some((ranks, said)) if ranks > 1 && world.size() == 1 => Err(MpiError::Singleton {
                said,
                library: World::library(),
            }),
            _ => Ok(world),
        }
    }

    /// This process's rank.
    pub fn rank(&self) -> u32 {
        self.communicator.rank().unsigned_abs()
    }

    /// Processes.
    pub fn size(&self) -> u32 {
        self.communicator.size().unsigned_abs()
    }

    /// What every rank says, cut to 128 bytes.
    pub fn gather(&self, own: &str) -> Vec<String> {
        let mut mine = [0u8; WORDS];
        let length = own.len().min(WORDS);
        mine[..length].copy_from_slice(&own.as_bytes()[..length]);
        let mut all = vec![0u8; WORDS * self.size() as usize];
        self.communicator.all_gather_into(&mine[..], &mut all[..]);
        let words = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end_matches('\0').to_string();
        all.chunks(WORDS).map(words).collect()
    }

    /// The library in words.
    pub fn library() -> String {
        let version = mpi::environment::library_version().unwrap_or_default();
        version
            .split([',', '\n'])
            .next()
            .unwrap_or_default()
            .trim()
            .to_string()
    }

    /// Rank 0 tells all others where to meet; nobody goes on before it has. None when rank 0 cannot invite anybody.
    pub fn invite(&self, invitation: Option<&Invitation>) -> Option<Invitation> {
        let mut bytes = match invitation {
            Some(invitation) => invitation.to_bytes(),
            None => [0; INVITATION],
        };
        self.communicator
            .process_at_rank(0)
            .broadcast_into(&mut bytes[..]);
        Invitation::from_bytes(&bytes)
    }

    /// Leaves MPI: properly after a clean end; otherwise not at all, since MPI would wait for whoever is lost.
    pub fn leave(mut self, clean: bool) {
        match self.universe.take() {
            Some(universe) if clean => drop(universe),
            universe => std::mem::forget(universe),
        }
    }
}

impl Drop for World {
    /// Whoever did not say that the end was clean does not wait for the others.
    fn drop(&mut self) {
        std::mem::forget(self.universe.take());
    }
}

impl Invitation {
    fn to_bytes(&self) -> [u8; INVITATION] {
        let mut bytes = [0; INVITATION];
        let ip = match self.address.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        bytes[..16].copy_from_slice(&ip.octets());
        bytes[16..18].copy_from_slice(&self.address.port().to_le_bytes());
        bytes[18..].copy_from_slice(self.token.as_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8; INVITATION]) -> Option<Invitation> {
        let mut octets = [0; 16];
        octets.copy_from_slice(&bytes[..16]);
        let port = u16::from_le_bytes([bytes[16], bytes[17]]);
        let mut token = [0; Token::LEN];
        token.copy_from_slice(&bytes[18..]);
        (port != 0).then(|| Invitation {
            address: SocketAddr::new(Ipv6Addr::from(octets).to_canonical(), port),
            token: Token::from_bytes(token),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invitation_arrives_as_it_was_sent() {
        for address in ["10.0.0.1:4711", "[fd00::1]:65535"] {
            let invitation = Invitation {
                address: address.parse().unwrap(),
                token: Token::generate().unwrap(),
            };
            let read = Invitation::from_bytes(&invitation.to_bytes()).unwrap();
            assert_eq!(read.address, invitation.address);
            assert!(read.token.matches(invitation.token.as_bytes()));
        }
        assert!(Invitation::from_bytes(&[0; INVITATION]).is_none());
    }
}
