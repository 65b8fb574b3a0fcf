//! The rendezvous address of processes started by mpirun or srun, broadcast through MPI.
//!
//! MPI carries one small message of fixed size, once: address, port and token, from rank 0 to all. Everything after that
//! goes over sockets of our own, because MPI can neither name a lost rank nor end without it. For the same reason MPI
//! is finalized only after a clean run; otherwise the process leaves without it, and the launcher cleans up.
//!
//! All calls are made on the main thread. MPI's own errors end the process.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use mpi::collective::{CommunicatorCollectives, Root};
use mpi::environment::Universe;
use mpi::topology::{Communicator, SimpleCommunicator};

use super::Token;
use super::env::{self, EnvLookup};

/// Bytes of the broadcast: address, port, token.
const INFO_LEN: usize = 16 + 2 + Token::LEN;
/// Bytes of text that every rank may contribute to a gather.
const TEXT_LEN: usize = 128;

/// MPI cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum MpiError {
    /// MPI was initialized already in this process, or fails to.
    #[error("MPI cannot be initialized in this process; start it with mpirun, or use --launch env")]
    NotInitialized,
    /// The launcher and the library do not match.
    #[error(
        "MPI says this process is alone, but {said}: the launcher and the MPI library of this binary do not match, and every \
process would be a world of its own. Start it with the mpirun of the MPI it was built with ({library}), or with srun \
--mpi=pmix where that MPI has PMIx, or use --launch env"
    )]
    Singleton {
        /// The launcher's variable.
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

/// Where rank 0 listens, and the run's token.
#[derive(Debug, Clone)]
pub struct RendezvousInfo {
    /// Address of rank 0.
    pub address: SocketAddr,
    /// Token.
    pub token: Token,
}

impl World {
    /// Starts MPI. A process that is alone although its launcher started several is an error.
    pub fn start(look: EnvLookup<'_>) -> Result<World, MpiError> {
        let universe = mpi::initialize().ok_or(MpiError::NotInitialized)?;
        let world = World {
            communicator: universe.world(),
            universe: Some(universe),
        };
        match env::largest_scheduler_world(look) {
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

    /// Gathers a text of every rank, cut to 128 bytes.
    pub fn gather(&self, own: &str) -> Vec<String> {
        let mut mine = [0u8; TEXT_LEN];
        let length = own.len().min(TEXT_LEN);
        mine[..length].copy_from_slice(&own.as_bytes()[..length]);
        let mut all = vec![0u8; TEXT_LEN * self.size() as usize];
        self.communicator.all_gather_into(&mine[..], &mut all[..]);
        let words = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end_matches('\0').to_string();
        all.chunks(TEXT_LEN).map(words).collect()
    }

    /// Name and version of the library.
    pub fn library() -> String {
        let version = mpi::environment::library_version().unwrap_or_default();
        version
            .split([',', '\n'])
            .next()
            .unwrap_or_default()
            .trim()
            .to_string()
    }

    /// Rank 0 broadcasts where it listens; all others wait for it. None when rank 0 cannot listen.
    pub fn broadcast_rendezvous(&self, info: Option<&RendezvousInfo>) -> Option<RendezvousInfo> {
        let mut bytes = match info {
            Some(info) => info.to_bytes(),
            None => [0; INFO_LEN],
        };
        self.communicator
            .process_at_rank(0)
            .broadcast_into(&mut bytes[..]);
        RendezvousInfo::from_bytes(&bytes)
    }

    /// Finalizes MPI after a clean end; otherwise leaves without it, since MPI would wait for lost ranks.
    pub fn leave(mut self, clean: bool) {
        match self.universe.take() {
            Some(universe) if clean => drop(universe),
            universe => std::mem::forget(universe),
        }
    }
}

impl Drop for World {
    /// Without a clean end, does not wait for the others.
    fn drop(&mut self) {
        std::mem::forget(self.universe.take());
    }
}

impl RendezvousInfo {
    fn to_bytes(&self) -> [u8; INFO_LEN] {
        let mut bytes = [0; INFO_LEN];
        let ip = match self.address.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        bytes[..16].copy_from_slice(&ip.octets());
        bytes[16..18].copy_from_slice(&self.address.port().to_le_bytes());
        bytes[18..].copy_from_slice(self.token.as_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8; INFO_LEN]) -> Option<RendezvousInfo> {
        let mut octets = [0; 16];
        octets.copy_from_slice(&bytes[..16]);
        let port = u16::from_le_bytes([bytes[16], bytes[17]]);
        let mut token = [0; Token::LEN];
        token.copy_from_slice(&bytes[18..]);
        (port != 0).then(|| RendezvousInfo {
            address: SocketAddr::new(Ipv6Addr::from(octets).to_canonical(), port),
            token: Token::from_bytes(token),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rendezvous_info_is_decoded_as_it_was_encoded() {
        for address in ["10.0.0.1:4711", "[fd00::1]:65535"] {
            let info = RendezvousInfo {
                address: address.parse().unwrap(),
                token: Token::generate().unwrap(),
            };
            let read = RendezvousInfo::from_bytes(&info.to_bytes()).unwrap();
            assert_eq!(read.address, info.address);
            assert!(read.token.matches(info.token.as_bytes()));
        }
        assert!(RendezvousInfo::from_bytes(&[0; INFO_LEN]).is_none());
    }
}
