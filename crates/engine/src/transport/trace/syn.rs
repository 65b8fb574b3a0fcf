//! Following a TCP connection that is yet to be made: its first packet, with little room.
//!
//! The packet leaves from the pinned port and goes to the peer's door, so switches treat it as they will treat the data. A
//! switch's answer ends the attempt, so the port is free for the next. When the packet arrives, the door is told that this
//! was only a knock, and closes first: then the port is free again on this side.

use std::io::{self, Read};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use nix::poll::PollFlags;
use socket2::{SockRef, Socket};

use super::super::tcp::{Connection, LocalRail, bind, send_handshake};
use super::flow::ProbeReply;
use super::icmp;
use crate::launch::Token;

/// How long the door may take to answer a knock: it shares its machine with whatever else is awake there.
const COURTESY: Duration = Duration::from_secs(2);

/// How often a port is tried that is still taken, and how long it may take to become free: where this process starts another
/// one at the same time, that one holds on to the last socket for a moment.
const TRIES: usize = 5;
const A_MOMENT: Duration = Duration::from_millis(20);

/// Sends the first packet of `connection` to `door` with room for `hops` hops.
pub(super) fn probe(
    connection: &Connection,
    local: &LocalRail,
    door: SocketAddr,
    token: &Token,
    hops: u8,
    patience: Duration,
) -> ProbeReply {
    let from = SocketAddr::new(local.address, connection.source_port);
    let is_taken = |error: &io::Error| {
        matches!(
            error.kind(),
            io::ErrorKind::AddrInUse | io::ErrorKind::AddrNotAvailable
        )
    };
    let mut attempted = attempt(from, local, door, hops, patience);
    for _ in 1..TRIES {
        match &attempted {
            Err(error) if is_taken(error) => std::thread::sleep(A_MOMENT),
            _ => break,
        }
        attempted = attempt(from, local, door, hops, patience);
    }
    match attempted {
        Ok(Attempt::Answered(reply)) => reply,
        Ok(Attempt::Connected(socket)) => {
            if let Err(error) = take_leave(socket, connection, token) {
                tracing::debug!(%from, %door, %error, "a door did not answer a knock");
            }
            ProbeReply::Arrived
        }
        Err(error) => {
            tracing::debug!(%from, %door, %error, "a path cannot be asked for");
            match is_taken(&error) {
                true => ProbeReply::Taken,
                false => ProbeReply::Silence,
            }
        }
    }
}

enum Attempt {
    Answered(ProbeReply),
    Connected(Socket),
}

fn attempt(
    from: SocketAddr,
    local: &LocalRail,
    door: SocketAddr,
    hops: u8,
    patience: Duration,
) -> io::Result<Attempt> {
    let socket = bind(from)?;
    local.confine(SockRef::from(&socket), door.ip());
    icmp::listen(&socket, door.ip())?;
    icmp::set_ttl(&socket, door.ip(), hops)?;
    socket.set_nonblocking(true)?;
    match socket.connect(&door.into()) {
        Ok(()) => return Ok(Attempt::Connected(socket)),
        Err(error) if error.raw_os_error() == Some(nix::Error::EINPROGRESS as i32) => {}
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            return Ok(Attempt::Answered(ProbeReply::Arrived));
        }
        Err(error) => return Err(error),
    }
    if !icmp::wait(&socket, PollFlags::POLLOUT, Instant::now() + patience) {
        return Ok(Attempt::Answered(ProbeReply::Silence));
    }
    if let Some(icmp) = icmp::next(&socket) {
        return Ok(Attempt::Answered(icmp.reply()));
    }
    match socket.take_error()? {
        None => Ok(Attempt::Connected(socket)),
        Some(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            Ok(Attempt::Answered(ProbeReply::Arrived))
        }
        Some(_) => Ok(Attempt::Answered(ProbeReply::Silence)),
    }
}

/// Tells the door that nothing will come, and waits until it has closed.
fn take_leave(socket: Socket, connection: &Connection, token: &Token) -> io::Result<()> {
    socket.set_nonblocking(false)?;
    socket.set_write_timeout(Some(COURTESY))?;
    // Whatever goes wrong, the port is needed again.
    socket.set_linger(Some(Duration::ZERO))?;
    let mut stream = TcpStream::from(socket);
    send_handshake(&mut stream, connection, token, COURTESY)?;
    while stream.read(&mut [0; 16])? > 0 {}
    Ok(())
}
