//! Tracing RoCE flows: datagrams with the same addresses and ports.
//!
//! They are too short for RoCE packets, so the receiving device or kernel drops them silently. The receiver is therefore not seen;
//! it lies behind the last switch that answered.

use std::io;
use std::net::{IpAddr, SocketAddr};
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

    /// Sends `count` at once with a TTL of `hops`; who answered each of them, in any order, and whether one arrived.
    pub fn burst(&self, hops: u8, count: usize, patience: Duration) -> (Vec<IpAddr>, bool) {
        let mut answers = (Vec::new(), false);
        if let Err(error) = self.attempt_burst(hops, count, patience, &mut answers) {
            tracing::debug!(target = %self.target, %error, "packets of a flow cannot be traced");
        }
        answers
    }

    fn attempt_burst(
        &self,
        hops: u8,
        count: usize,
        patience: Duration,
        (answers, arrived): &mut (Vec<IpAddr>, bool),
    ) -> io::Result<()> {
        icmp::set_ttl(&self.socket, self.target.ip(), hops)?;
        while icmp::next(&self.socket).is_some() {}
        self.socket.take_error()?;
        for _ in 0..count {
            // An error that has come meanwhile is one of the answers.
            if self.socket.send(&[hops]).is_err() {
                self.socket.take_error()?;
                self.socket.send(&[hops])?;
            }
        }
        let until = Instant::now() + patience;
        while answers.len() < count && icmp::wait(&self.socket, PollFlags::empty(), until) {
            self.socket.take_error()?;
            while let Some(icmp) = icmp::next(&self.socket) {
                if icmp.carried.first().is_some_and(|of| *of != hops) {
                    continue;
                }
                match icmp.by == self.target.ip() {
                    true => *arrived = true,
                    false if icmp.ttl_exceeded => answers.push(icmp.by),
                    false => {}
                }
            }
            if *arrived {
                break;
            }
        }
        Ok(())
    }
}
