//! This rank's end of a rail: an opened device, one of its ports, and the address packets leave from.

use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::path::Path;
use std::sync::Arc;

use super::context::{Context, Gid, PortState};
use super::memory::{ProtectionDomain, Registration, Registrations};
use crate::device::Region;
use crate::device::cuda::GpuDirectMemory;
use probe::rdma;
use probe::sysfs;
use record::{DEVICE_GONE, RdmaPort};

/// A device opened for one rail.
pub struct Nic {
    /// Which port of which device.
    pub port: RdmaPort,
    /// Which of the port's addresses.
    pub gid_index: u8,
    /// That address.
    pub gid: Gid,
    /// What the port said when it was opened.
    pub state: PortState,
    domain: Arc<ProtectionDomain>,
    regions: Registrations<Region>,
    gpus: Registrations<GpuDirectMemory>,
}

/// A rail's device cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum NicError {
    /// It cannot be opened.
    #[error("RDMA device {device} cannot be opened: {source}")]
    Open {
        /// The device.
        device: String,
        /// What the system said.
        source: io::Error,
    },
    /// The port does not carry data.
    #[error(
        "port {port} of RDMA device {device} is not active; is its cable plugged in and its interface up?"
    )]
    Down {
        /// The device.
        device: String,
        /// The port.
        port: u8,
    },
    /// None of the port's addresses will do.
    #[error("port {port} of RDMA device {device} has no address to send from (its GID table is empty)")]
    NoAddress {
        /// The device.
        device: String,
        /// The port.
        port: u8,
    },
    /// The address asked for does not exist.
    #[error("port {port} of RDMA device {device} has no address with index {index}: {source}")]
    NoSuchAddress {
        /// The device.
        device: String,
        /// The port.
        port: u8,
        /// The index asked for.
        index: u8,
        /// What the system said.
        source: io::Error,
    },
}

impl Nic {
    /// Opens a rail's device. `address` is the rail's own, by which the port's address is chosen when no index is asked for.
    pub fn open(port: &RdmaPort, address: IpAddr, index: Option<u8>) -> Result<Arc<Nic>, NicError> {
        let device = || port.device.clone();
        let failed = |source| NicError::Open {
            device: device(),
            source,
        };
        let context = Context::open(&port.device).map_err(failed)?;
        let state = context.port(port.port).map_err(failed)?;
        if !state.active {
            return Err(NicError::Down {
                device: device(),
                port: port.port,
            });
        }
        let chosen = || {
            rdma::choose_gid(
                &rdma::gid_table(Path::new(sysfs::SYS), &port.device, port.port),
                Some(address),
            )
        };
        let gid_index = index.or_else(chosen).ok_or_else(|| NicError::NoAddress {
            device: device(),
            port: port.port,
        })?;
        let gid = context.gid(port.port, gid_index);
        let gid = gid
            .ok()
            .filter(|gid| *gid != [0; 16])
            .ok_or_else(|| NicError::NoSuchAddress {
                device: device(),
                port: port.port,
                index: gid_index,
                source: io::Error::from_raw_os_error(nix::libc::ENODATA),
            })?;
        Ok(Arc::new(Nic {
            port: port.clone(),
            gid_index,
            gid,
            state,
            domain: ProtectionDomain::new(&context).map_err(failed)?,
            regions: Registrations::default(),
            gpus: Registrations::default(),
        }))
    }

    /// Whether the device is still there; what it looks like otherwise.
    pub fn answers(&self) -> Result<(), String> {
        let device = &self.port.device;
        if self.context().is_lost() {
            return Err(format!("{device} reports a fatal error: {DEVICE_GONE}"));
        }
        match self.context().port(self.port.port) {
            Ok(_) => Ok(()),
            Err(error) => Err(format!(
                "{device} does not answer any more ({error}): {DEVICE_GONE}"
            )),
        }
    }

    /// The domain of its queue pairs and memory.
    pub fn domain(&self) -> &Arc<ProtectionDomain> {
        &self.domain
    }

    /// The opened device.
    pub fn context(&self) -> &Arc<Context> {
        self.domain.context()
    }

    /// A region registered with it, at the first call for that region. Peers reach it only when they are told its key.
    pub fn register(&self, region: &Arc<Region>) -> io::Result<Arc<Registration>> {
        self.regions
            .of(region, || Registration::of_region(&self.domain, region))
    }

    /// Memory of a GPU registered with it, at the first call for that memory.
    pub fn register_direct(&self, memory: &Arc<GpuDirectMemory>) -> io::Result<Arc<Registration>> {
        self.gpus
            .of(memory, || Registration::of_gpu(&self.domain, memory))
    }
}

/// The IP address that a port's address on Ethernet stands for.
pub fn ip_of(gid: &Gid) -> IpAddr {
    let address = Ipv6Addr::from(*gid);
    match address.to_ipv4_mapped() {
        Some(v4) => IpAddr::V4(v4),
        None => IpAddr::V6(address),
    }
}
