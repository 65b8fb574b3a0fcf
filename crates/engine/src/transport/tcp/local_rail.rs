//! This host's end of a rail: the address sockets are bound to, the listen port, and the interface they stay on.
//!
//! An address alone does not keep traffic on its rail: the kernel routes by destination and may send a rail's packets out of
//! another interface. A socket bound to the interface cannot. Peers on this very host are the exception: the kernel carries
//! that traffic over loopback whatever the address, and a bound socket would never be reached.

use std::net::{IpAddr, SocketAddr};

use socket2::SockRef;

use probe::rails;
use record::RdmaPort;

/// This host's end of a rail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalRail {
    /// Where sockets are bound.
    pub address: IpAddr,
    /// The interface behind the address, where it is known.
    pub interface: Option<String>,
    /// The listen port; 0 for any free one.
    pub port: u16,
    /// The port of an RDMA device behind the interface, where there is one.
    pub rdma: Option<RdmaPort>,
}

impl From<IpAddr> for LocalRail {
    fn from(address: IpAddr) -> LocalRail {
        LocalRail {
            address,
            interface: None,
            port: 0,
            rdma: None,
        }
    }
}

impl LocalRail {
    /// The listen address.
    pub fn listen_address(&self) -> SocketAddr {
        SocketAddr::new(self.address, self.port)
    }

    /// Keeps `socket`, which talks to `peer`, on the rail's interface where that is possible.
    pub fn confine(&self, socket: SockRef<'_>, peer: IpAddr) {
        let Some(interface) = &self.interface else { return };
        if self.address.is_loopback() || is_here(peer) {
            return;
        }
        if let Err(error) = socket.bind_device(Some(interface.as_bytes())) {
            tracing::debug!(interface, %error, "a data socket is bound to its address only");
        }
    }
}

/// Whether `peer` is an address of this host.
fn is_here(peer: IpAddr) -> bool {
    let held = rails::addresses_here().unwrap_or_default();
    peer.is_loopback() || held.iter().any(|entry| entry.address == Some(peer))
}
