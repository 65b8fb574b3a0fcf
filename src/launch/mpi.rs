//! Processes started by mpirun or srun tell each other where to meet, through MPI.
//!
//! MPI carries one small message of fixed size, once: addresses, port and token, from rank 0 to all. Everything after that
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

/// Addresses of rank 0 that are offered at most.
const MOST_ADDRESSES: usize = 8;
/// Bytes of an invitation: how many addresses, those, the port, the token.
const INVITATION: usize = 1 + 16 * MOST_ADDRESSES + 2 + Token::LEN;
/// Bytes of a host's name that are compared.
const HOST: usize = 64;

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
    /// Addresses of rank 0, the likeliest first.
    pub addresses: Vec<SocketAddr>,
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
            Some((ranks, said)) if ranks > 1 && world.size() == 1 => {
                let version = mpi::environment::library_version().unwrap_or_default();
                let library = version
                    .split([',', '\n'])
                    .next()
                    .unwrap_or_default()
                    .trim()
                    .to_string();
                Err(MpiError::Singleton { said, library })
            }
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

    /// The host of every rank, from each rank's own word.
    pub fn hosts(&self, own: &str) -> Vec<String> {
        let mut mine = [0u8; HOST];
        let bytes = own.as_bytes();
        let length = bytes.len().min(HOST);
        mine[..length].copy_from_slice(&bytes[..length]);
        let mut all = vec![0u8; HOST * self.size() as usize];
        self.communicator.all_gather_into(&mine[..], &mut all[..]);
        let name = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end_matches('\0').to_string();
        all.chunks(HOST).map(name).collect()
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
        let addresses = &self.addresses[..self.addresses.len().min(MOST_ADDRESSES)];
        bytes[0] = addresses.len() as u8;
        for (index, address) in addresses.iter().enumerate() {
            let ip = match address.ip() {
                IpAddr::V4(ip) => ip.to_ipv6_mapped(),
                IpAddr::V6(ip) => ip,
            };
            bytes[1 + 16 * index..17 + 16 * index].copy_from_slice(&ip.octets());
            bytes[1 + 16 * MOST_ADDRESSES..][..2].copy_from_slice(&address.port().to_le_bytes());
        }
        bytes[INVITATION - Token::LEN..].copy_from_slice(self.token.as_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8; INVITATION]) -> Option<Invitation> {
        let count = usize::from(bytes[0]).min(MOST_ADDRESSES);
        let at = 1 + 16 * MOST_ADDRESSES;
        let port = u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let address = |index: usize| {
            let mut octets = [0; 16];
            octets.copy_from_slice(&bytes[1 + 16 * index..17 + 16 * index]);
            SocketAddr::new(Ipv6Addr::from(octets).to_canonical(), port)
        };
        let mut token = [0; Token::LEN];
        token.copy_from_slice(&bytes[INVITATION - Token::LEN..]);
        (count > 0).then(|| Invitation {
            addresses: (0..count).map(address).collect(),
            token: Token::from_bytes(token),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invitation_arrives_as_it_was_sent() {
        let invitation = Invitation {
            addresses: vec![
                "10.0.0.1:4711".parse().unwrap(),
                "[fd00::1]:4711".parse().unwrap(),
            ],
            token: Token::generate().unwrap(),
        };
        let read = Invitation::from_bytes(&invitation.to_bytes()).unwrap();
        assert_eq!(read.addresses, invitation.addresses);
        assert!(read.token.matches(invitation.token.as_bytes()));
        assert!(Invitation::from_bytes(&[0; INVITATION]).is_none());
    }
}
