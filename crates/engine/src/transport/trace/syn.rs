//! Tracing a TCP connection before it is made: its SYN, with a small TTL.
//!
//! The SYN leaves from the pinned port and goes to the peer's listener, so switches treat it like the data. A switch's answer ends
//! the attempt, so the port is free for the next. When the SYN arrives, the handshake marks the connection as a probe and the
//! listener closes first: then the port is free again on this side.

use std::io::{self, Read};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use nix::poll::PollFlags;
use socket2::{SockRef, Socket};

use super::super::tcp::{Connection, LocalRail, bind, send_handshake};
use super::flow::ProbeReply;
use super::icmp;
use crate::launch::Token;

/// How long the listener may take to answer a probe: its host may be busy.
const REPLY_TIMEOUT: Duration = Duration::from_secs(2);

/// How often a port in use is retried, and the time between two attempts: a process that is being started holds on to the last
/// socket for a moment.
const TRIES: usize = 5;
const RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// Sends the SYN of `connection` to `listener` with a TTL of `hops`.
pub(super) fn probe(
    connection: &Connection,
    local: &LocalRail,
    listener: SocketAddr,
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
    let mut attempted = attempt(from, local, listener, hops, patience);
    for _ in 1..TRIES {
        match &attempted {
            Err(error) if is_taken(error) => std::thread::sleep(RETRY_INTERVAL),
            _ => break,
        }
        attempted = attempt(from, local, listener, hops, patience);
    }
    match attempted {
        Ok(Attempt::Answered(reply)) => reply,
        Ok(Attempt::Connected(socket)) => {
            if let Err(error) = end_probe(socket, connection, token) {
                tracing::debug!(%from, %listener, %error, "a listener did not answer a probe");
            }
            ProbeReply::Arrived
        }
        Err(error) => {
            tracing::debug!(%from, %listener, %error, "a path cannot be traced");
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
    listener: SocketAddr,
    hops: u8,
    patience: Duration,
) -> io::Result<Attempt> {
    let socket = bind(from)?;
    local.confine(SockRef::from(&socket), listener.ip());
    icmp::listen(&socket, listener.ip())?;
    icmp::set_ttl(&socket, listener.ip(), hops)?;
    socket.set_nonblocking(true)?;
    match socket.connect(&listener.into()) {
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

/// Marks the connection as a probe, and waits until the listener has closed it.
fn end_probe(socket: Socket, connection: &Connection, token: &Token) -> io::Result<()> {
    socket.set_nonblocking(false)?;
    socket.set_write_timeout(Some(REPLY_TIMEOUT))?;
    // The port is needed again, whatever goes wrong.
    socket.set_linger(Some(Duration::ZERO))?;
    let mut stream = TcpStream::from(socket);
    send_handshake(&mut stream, connection, token, REPLY_TIMEOUT)?;
    while stream.read(&mut [0; 16])? > 0 {}
    Ok(())
}
