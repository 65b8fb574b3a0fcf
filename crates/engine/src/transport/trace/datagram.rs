//! Tracing RoCE flows: datagrams with the same addresses and ports.
//!
//! They are too short for RoCE packets, so the receiving device or kernel drops them silently. The receiver is therefore not seen;
//! it lies behind the last switch that answered.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use nix::poll::PollFlags;
use socket2::{Domain, Protocol, SockRef, Socket, Type};

use super::super::tcp::LocalRail;
use super::flow::ProbeReply;
use super::icmp;

/// A socket whose datagrams take the path of a flow.
pub(super) struct Datagrams {
    socket: Socket,
    target: SocketAddr,
}

impl Datagrams {
    /// From `source`, this host's end of the rail `local`, to `target`.
    pub fn new(source: SocketAddr, local: &LocalRail, target: SocketAddr) -> io::Result<Datagrams> {
        let socket = Socket::new(Domain::for_address(source), Type::DGRAM, Some(Protocol::UDP))?;
        socket.set_reuse_address(true)?;
        socket.bind(&source.into())?;
        local.confine(SockRef::from(&socket), target.ip());
        icmp::listen(&socket, target.ip())?;
        socket.set_nonblocking(true)?;
        // Flows to other hosts may have the same port: answers must not go to their sockets.
        socket.connect(&target.into())?;
        Ok(Datagrams { socket, target })
    }

    /// Sends one with a TTL of `hops`.
    pub fn probe(&self, hops: u8, patience: Duration) -> ProbeReply {
        self.attempt(hops, patience).unwrap_or_else(|error| {
            tracing::debug!(target = %self.target, %error, "a path cannot be traced");
            ProbeReply::Silence
        })
    }

    fn attempt(&self, hops: u8, patience: Duration) -> io::Result<ProbeReply> {
        icmp::set_ttl(&self.socket, self.target.ip(), hops)?;
        // Errors of an earlier datagram must not be reported for this one.
        while icmp::next(&self.socket).is_some() {}
        self.socket.take_error()?;
        self.socket.send(&[hops])?;
        let until = Instant::now() + patience;
        while icmp::wait(&self.socket, PollFlags::empty(), until) {
            self.socket.take_error()?;
            while let Some(icmp) = icmp::next(&self.socket) {
                // Not every switch repeats the payload.
                if icmp.carried.first().is_some_and(|of| *of != hops) {
                    continue;
                }
                return Ok(match icmp.by == self.target.ip() {
                    true => ProbeReply::Arrived,
                    false => icmp.reply(),
                });
            }
        }
        Ok(ProbeReply::Silence)
    }
}
