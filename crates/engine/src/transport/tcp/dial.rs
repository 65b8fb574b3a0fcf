//! Dialling a peer from a rail's own address, so that the kernel cannot choose another interface.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, SockRef, Socket, Type};

use super::handshake::{self, Connection};
use super::local_rail::LocalRail;
use crate::launch::Token;

/// How long to wait for a missing route.
const NO_ROUTE_TIMEOUT: Duration = Duration::from_secs(3);
/// Time between two attempts without a route.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// A data connection could not be made.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// The local end cannot be bound.
    #[error("cannot bind to {local} on this host: {source}")]
    Bind {
        /// The rail's address and source port.
        local: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The other end cannot be reached.
    #[error("cannot connect from {local} to {peer}: {source}")]
    Connect {
        /// The rail's address and source port.
        local: SocketAddr,
        /// The peer's listen address.
        peer: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The peer did not complete the handshake.
    #[error("{peer} did not accept the connection: {source}")]
    Refused {
        /// The peer's listen address.
        peer: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
}

/// Connects to `peer` from this host's end of the rail, `local`, presents the token, and waits for the reply.
pub fn dial(
    connection: &Connection,
    local: &LocalRail,
    peer: SocketAddr,
    token: &Token,
    deadline: Instant,
) -> Result<TcpStream, DialError> {
    let left = || {
        deadline
            .saturating_duration_since(Instant::now())
            .max(Duration::from_millis(1))
    };
    let waited_out = deadline.min(Instant::now() + NO_ROUTE_TIMEOUT);
    let from = SocketAddr::new(local.address, connection.source_port);
    let socket = loop {
        let socket = bind(from).map_err(|source| DialError::Bind { local: from, source })?;
        local.confine(SockRef::from(&socket), peer.ip());
        match socket.connect_timeout(&peer.into(), left()) {
            Ok(()) => break socket,
            Err(error) if has_no_route(&error) && Instant::now() < waited_out => {
                std::thread::sleep(RETRY_INTERVAL);
            }
            Err(source) => {
                let local = from;
                return Err(DialError::Connect { local, peer, source });
            }
        }
    };
    let mut stream = TcpStream::from(socket);
    send_handshake(&mut stream, connection, token, left())
        .map_err(|source| DialError::Refused { peer, source })?;
    Ok(stream)
}

/// Whether there is no route right now: a link that goes down removes its routes and restores them later.
fn has_no_route(error: &io::Error) -> bool {
    use io::ErrorKind::{HostUnreachable, NetworkDown, NetworkUnreachable};
    matches!(error.kind(), HostUnreachable | NetworkDown | NetworkUnreachable)
}

/// Presents the token on `stream` and waits for the reply.
pub fn send_handshake(
    stream: &mut TcpStream,
    connection: &Connection,
    token: &Token,
    patience: Duration,
) -> io::Result<()> {
    stream.set_read_timeout(Some(patience))?;
    stream.write_all(&handshake::write(connection, token))?;
    let mut reply = [0];
    stream.read_exact(&mut reply)?;
    match reply[0] {
        handshake::ACCEPTED => Ok(()),
        _ => Err(io::Error::other("unexpected handshake reply")),
    }
}

/// A socket that is bound to a rail's address and, unless it is 0, a port of it.
pub fn bind(local: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(local), Type::STREAM, Some(Protocol::TCP))?;
    // A pinned port must be usable again at once, and for several peers at a time.
    socket.set_reuse_address(true)?;
    socket.bind(&local.into())?;
    Ok(socket)
}
