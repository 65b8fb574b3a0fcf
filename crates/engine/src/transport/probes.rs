//! Probes: small datagrams between many ranks, with the kernel's receive times.
//!
//! A rank has one socket per rail for what it receives, at the address and port number of its TCP listener there, and one per rail and
//! source port for what it sends. Every packet carries a key that only ranks of the run can know: whatever else arrives is ignored.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;

use nix::errno::Errno;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt};
use nix::time::{ClockId, clock_gettime};
use socket2::{Domain, Protocol, SockRef, Socket, Type};

use super::mesh::Mesh;
use super::tcp::LocalRail;
use crate::launch::Token;
use record::units::Nanos;
use record::{Cell, ProbeTerms};

/// Bytes of what a packet says.
const HEADER: usize = 32;
/// The largest packet that is read.
const LARGEST: usize = 2048;
/// Asked of the kernel for what waits to be read: a thread may be held up for a while.
const BUFFER: usize = 4 << 20;

/// One end of a cell of probes.
pub struct ProbeSockets {
    key: u64,
    /// What this rank sends: position of the flow, its socket, and where it goes.
    sends: Vec<Outgoing>,
    /// Positions of the flows that it receives.
    receives: Vec<u32>,
    sockets: Vec<UdpSocket>,
    inboxes: Vec<Inbox>,
    packet: Vec<u8>,
}

struct Outgoing {
    flow: u32,
    socket: usize,
    to: SocketAddr,
}

/// Where packets arrive on one rail.
struct Inbox {
    socket: UdpSocket,
    /// Flows that arrive here.
    flows: Vec<u32>,
    /// Packets that it has dropped so far, as the kernel said last.
    dropped: u32,
}

/// A packet of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProbePacket {
    /// Position of the flow in the cell.
    pub flow: u32,
    /// Number of the iteration, warm-up included.
    pub run: u32,
    /// Number of the packet in it.
    pub number: u32,
    /// When it was sent, on the sender's clock.
    pub sent: Nanos,
}

impl ProbePacket {
    fn write(self, key: u64, packet: &mut [u8]) {
        packet[0..8].copy_from_slice(&key.to_le_bytes());
        packet[8..12].copy_from_slice(&self.flow.to_le_bytes());
        packet[12..16].copy_from_slice(&self.run.to_le_bytes());
        packet[16..20].copy_from_slice(&self.number.to_le_bytes());
        packet[24..32].copy_from_slice(&self.sent.0.to_le_bytes());
    }

    /// What a packet says; none when it is not one of ours.
    fn read(key: u64, packet: &[u8]) -> Option<ProbePacket> {
        let header: &[u8; HEADER] = packet.get(..HEADER)?.try_into().ok()?;
        let word =
            |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        (long(0) == key).then(|| ProbePacket {
            flow: word(8),
            run: word(12),
            number: word(16),
            sent: Nanos(long(24)),
        })
    }
}

/// The clock that packets are stamped with: the one that the kernel stamps arrivals with.
pub fn wall_clock() -> Nanos {
    match clock_gettime(ClockId::CLOCK_REALTIME) {
        Ok(time) => Nanos(time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64),
        Err(_) => Nanos(0),
    }
}

impl Mesh {
    /// This rank's end of a cell of probes.
    pub fn probes(&self, cell: &Cell, terms: &ProbeTerms, round: u16) -> Result<ProbeSockets, String> {
        let mut numbers: BTreeMap<(&str, u16), usize> = BTreeMap::new();
        let (mut sockets, mut sends) = (Vec::new(), Vec::new());
        let mut inboxes: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
        let mut receives = Vec::new();
        for (flow, planned) in (0..).zip(&terms.flows) {
            if planned.from == self.me {
                let rail = self.rail(&planned.rail)?;
                let to = self.inbox_of(planned.to, rail)?;
                let socket = match numbers.get(&(planned.rail.as_str(), planned.port)) {
                    Some(known) => *known,
                    None => {
                        let local = &self.rails[rail].1;
                        let from = SocketAddr::new(local.address, planned.port);
                        let socket = open(from, local, to).map_err(|error| {
                            format!("no probes can be sent from {from} on {}: {error}", planned.rail)
                        })?;
                        sockets.push(socket);
                        numbers.insert((&planned.rail, planned.port), sockets.len() - 1);
                        sockets.len() - 1
                    }
                };
                sends.push(Outgoing { flow, socket, to });
            }
            if planned.to == self.me {
                inboxes.entry(&planned.rail).or_default().push(flow);
                receives.push(flow);
            }
        }
        let inbox = |(name, flows): (&str, Vec<u32>)| {
            let rail = self.rail(name)?;
            let here = self.inbox_of(self.me, rail)?;
            let opened = open_inbox(here, &self.rails[rail].1);
            opened
                .map(|socket| Inbox {
                    socket,
                    flows,
                    dropped: 0,
                })
                .map_err(|error| format!("no probes can be received at {here} on {name}: {error}"))
        };
        let inboxes = inboxes
            .into_iter()
            .map(inbox)
            .collect::<Result<Vec<Inbox>, String>>()?;
        let size = cell.size.as_usize().clamp(HEADER, LARGEST);
        Ok(ProbeSockets {
            key: key(&self.token, cell.id, round),
            sends,
            receives,
            sockets,
            inboxes,
            packet: vec![0; size],
        })
    }

    fn rail(&self, name: &str) -> Result<usize, String> {
        let rail = self.rails.iter().position(|(rail, _)| rail == name);
        rail.ok_or_else(|| format!("this rank has no rail {name}"))
    }

    /// Where a rank receives probes on a rail: where its listener is.
    fn inbox_of(&self, rank: u32, rail: usize) -> Result<SocketAddr, String> {
        let endpoint = self.peers.iter().find(|endpoint| endpoint.rank == rank);
        let address = endpoint.and_then(|endpoint| endpoint.listeners.get(rail));
        address
            .copied()
            .ok_or_else(|| format!("where rank {rank} receives probes is not known"))
    }
}

/// What the packets of a cell are told from all others by.
fn key(token: &Token, cell: u32, round: u16) -> u64 {
    let mut hasher = DefaultHasher::new();
    (token.as_bytes(), "probes", cell, round).hash(&mut hasher);
    hasher.finish()
}

fn open(from: SocketAddr, local: &LocalRail, peer: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(from), Type::DGRAM, Some(Protocol::UDP))?;
    // Traces of the same flow may just have ended.
    socket.set_reuse_address(true)?;
    socket.bind(&from.into())?;
    local.confine(SockRef::from(&socket), peer.ip());
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

fn open_inbox(here: SocketAddr, local: &LocalRail) -> io::Result<UdpSocket> {
    let socket = open(here, local, here)?;
    // Of what is asked for, the kernel gives what an ordinary process may have; a privileged one gets all of it.
    SockRef::from(&socket).set_recv_buffer_size(BUFFER)?;
    let _ = setsockopt(&socket, sockopt::RcvBufForce, &BUFFER);
    setsockopt(&socket, sockopt::ReceiveTimestampns, &true)?;
    setsockopt(&socket, sockopt::RxqOvfl, &1)?;
    Ok(socket)
}

impl ProbeSockets {
    /// Positions of the flows that this rank sends.
    pub fn sends(&self) -> impl Iterator<Item = u32> + '_ {
        self.sends.iter().map(|out| out.flow)
    }

    /// Positions of the flows that this rank receives.
    pub fn receives(&self) -> &[u32] {
        &self.receives
    }

    /// Sends a packet of the `place`th of the flows that this rank sends; whether the kernel took it.
    pub fn send(&mut self, place: usize, run: u32, number: u32) -> bool {
        let out = &self.sends[place];
        let packet = ProbePacket {
            flow: out.flow,
            run,
            number,
            sent: wall_clock(),
        };
        packet.write(self.key, &mut self.packet);
        self.sockets[out.socket].send_to(&self.packet, out.to).is_ok()
    }

    /// Everything that has arrived, each packet with when it did.
    pub fn receive(&mut self, mut each: impl FnMut(ProbePacket, Nanos)) {
        let mut packet = [0; LARGEST];
        let mut control = nix::cmsg_space!(nix::sys::time::TimeSpec, u32);
        for inbox in &mut self.inboxes {
            loop {
                let mut buffers = [IoSliceMut::new(&mut packet)];
                let received = recvmsg::<()>(
                    inbox.socket.as_raw_fd(),
                    &mut buffers,
                    Some(&mut control),
                    MsgFlags::MSG_DONTWAIT,
                );
                let message = match received {
                    Ok(message) => message,
                    Err(Errno::EINTR) => continue,
                    // Nothing is left, or the rail is gone.
                    Err(_) => break,
                };
                let mut at = None;
                for note in message.cmsgs().into_iter().flatten() {
                    match note {
                        ControlMessageOwned::ScmTimestampns(time) => {
                            at = Some(Nanos(
                                time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64,
                            ));
                        }
                        ControlMessageOwned::RxqOvfl(dropped) => inbox.dropped = dropped,
                        _ => {}
                    }
                }
                let length = message.bytes;
                if let Some(one) = ProbePacket::read(self.key, &packet[..length.min(LARGEST)]) {
                    each(one, at.unwrap_or_else(wall_clock));
                }
            }
        }
    }

    /// What the sockets have dropped so far: for each of them the flows that arrive there.
    pub fn dropped(&self) -> impl Iterator<Item = (&[u32], u32)> {
        self.inboxes
            .iter()
            .map(|inbox| (inbox.flows.as_slice(), inbox.dropped))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_says_what_was_written_and_nobody_elses_is_read() {
        let sent = ProbePacket {
            flow: 7,
            run: 3,
            number: 250,
            sent: Nanos(1_763_539_200_123_456_789),
        };
        let mut packet = [0; 64];
        sent.write(42, &mut packet);
        assert_eq!(ProbePacket::read(42, &packet), Some(sent));
        assert_eq!(ProbePacket::read(43, &packet), None);
        assert_eq!(ProbePacket::read(42, &packet[..HEADER - 1]), None);
        let token = Token::from_bytes([1; Token::LEN]);
        assert_ne!(key(&token, 1, 0), key(&token, 1, 1));
        assert_ne!(key(&token, 1, 0), key(&Token::from_bytes([2; Token::LEN]), 1, 0));
    }
}
