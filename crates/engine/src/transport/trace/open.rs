//! Tracing a TCP connection that is open: which switches the very connection crosses, whatever would become of another one.
//!
//! A connection whose repair mode is left sends an empty segment at once. With a small TTL it expires on the path of the data, since
//! whatever the socket or a switch has drawn for this connection holds for it too. Nothing is lost: the segment carries nothing, and
//! repeats a sequence number that was acknowledged. ICMP errors of open connections are not queued for their sockets, so a raw
//! socket listens for them. Both need privileges (CAP_NET_ADMIN, CAP_NET_RAW); without them nothing is known.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::{Duration, Instant};

use nix::poll::PollFlags;
use nix::sys::socket::sockopt::{Ipv4Ttl, Ipv6Ttl, ReuseAddr, TcpRepair};
use nix::sys::socket::{MsgFlags, SockaddrStorage, recvmsg, setsockopt};
use socket2::{Domain, Protocol, SockRef, Socket, Type};

use super::super::mesh::Mesh;
use super::super::route::LinkKey;
use super::flow::Hops;
use super::{PathQuestion, TraceWanted, TracedFlow, icmp};

/// What sockets send with unless told otherwise.
const USUAL_TTL: i32 = 64;
/// How long a switch may take to answer.
const PATIENCE: Duration = Duration::from_millis(200);
/// "Time exceeded" in ICMP and ICMPv6.
const TIME_EXCEEDED: (u8, u8) = (11, 3);
/// TCP as the protocol of an IP packet.
const TCP: u8 = 6;

/// What a switch repeats of a segment that expired: its receiver, and the ports it left from and went to.
type Quoted = (IpAddr, u16, u16);

impl Mesh {
    /// Traces connections of this rank that are open, all at once. Switches that were not asked or did not answer are missing; all are
    /// where the connection is not open, or this process may not ask.
    pub fn trace_open(&self, wanted: &[PathQuestion], until: Instant) -> Vec<TracedFlow> {
        let mut hops: Vec<Hops> = vec![Hops::new(); wanted.len()];
        let open: Vec<(usize, Open<'_>)> = wanted
            .iter()
            .enumerate()
            .filter_map(|(number, wanted)| Some((number, self.open_connection(&wanted.flow)?)))
            .collect();
        for is_v4 in [true, false] {
            let of_family = open.iter().filter(|(_, open)| open.peer.is_ipv4() == is_v4);
            let of_family: Vec<&(usize, Open<'_>)> = of_family.collect();
            if of_family.is_empty() {
                continue;
            }
            if let Err(error) = ask(wanted, &of_family, is_v4, until, &mut hops) {
                tracing::debug!(%error, "open connections cannot be traced");
            }
        }
        let traced = wanted.iter().zip(hops).map(|(wanted, hops)| TracedFlow {
            flow: wanted.flow.clone(),
            hops,
            arrived: false,
        });
        traced.collect()
    }

    /// The socket of a flow, where it is open and dialled by this rank.
    fn open_connection(&self, flow: &TraceWanted) -> Option<Open<'_>> {
        let is_it = |key: &LinkKey| {
            matches!(key, LinkKey::Tcp(connection)
                if (connection.from, connection.to, connection.source_port) == (self.me, flow.to, flow.port)
                    && self.rails[usize::from(connection.rail)].0 == flow.rail)
        };
        let (_, link) = self.kept.iter().find(|(key, _)| is_it(key))?;
        let socket = link.as_ref()?.waitable()?.fd;
        let address = SockRef::from(&socket).peer_addr().ok()?;
        Some(Open {
            socket,
            port: flow.port,
            peer: address.as_socket()?,
        })
    }
}

/// An open connection.
struct Open<'m> {
    socket: BorrowedFd<'m>,
    port: u16,
    peer: SocketAddr,
}

impl Open<'_> {
    /// Sends an empty segment with a TTL, and leaves the socket as it was.
    fn probe(&self, ttl: u8) -> nix::Result<()> {
        set_ttl(self.socket, self.peer, i32::from(ttl))?;
        let sent =
            setsockopt(&self.socket, TcpRepair, &1).and_then(|()| setsockopt(&self.socket, TcpRepair, &0));
        set_ttl(self.socket, self.peer, USUAL_TTL)?;
        // Leaving the repair mode forgets that the port may be shared.
        setsockopt(&self.socket, ReuseAddr, &true)?;
        sent
    }
}

fn set_ttl(socket: BorrowedFd<'_>, peer: SocketAddr, ttl: i32) -> nix::Result<()> {
    match peer {
        SocketAddr::V4(_) => setsockopt(&socket, Ipv4Ttl, &ttl),
        SocketAddr::V6(_) => setsockopt(&socket, Ipv6Ttl, &ttl),
    }
}

/// Asks the switches with one TTL after the other, for all connections at once.
fn ask(
    wanted: &[PathQuestion],
    open: &[&(usize, Open<'_>)],
    is_v4: bool,
    until: Instant,
    hops: &mut [Hops],
) -> io::Result<()> {
    let listener = match is_v4 {
        true => Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::ICMPV4))?,
        false => Socket::new(Domain::IPV6, Type::RAW, Some(Protocol::ICMPV6))?,
    };
    listener.set_nonblocking(true)?;
    let last = wanted.iter().flat_map(|wanted| wanted.ttls.iter().copied()).max();
    for ttl in 1..=last.unwrap_or(0) {
        let mut asked: HashMap<Quoted, usize> = HashMap::new();
        for (number, open) in open
            .iter()
            .filter(|(number, _)| wanted[*number].ttls.contains(&ttl))
        {
            open.probe(ttl)?;
            asked.insert((open.peer.ip(), open.port, open.peer.port()), *number);
        }
        let patience = until.min(Instant::now() + PATIENCE);
        while !asked.is_empty() && icmp::wait(listener.as_fd(), PollFlags::POLLIN, patience) {
            while let Some((by, quoted)) = next(&listener, is_v4) {
                if let Some(number) = asked.remove(&quoted) {
                    let hops = &mut hops[number];
                    hops.resize(hops.len().max(usize::from(ttl)), None);
                    hops[usize::from(ttl) - 1] = Some(by);
                }
            }
        }
    }
    Ok(())
}

/// The next segment that expired, and who says so; none when nothing more is there.
fn next(listener: &Socket, is_v4: bool) -> Option<(IpAddr, Quoted)> {
    loop {
        let mut packet = [0; 256];
        let flags = MsgFlags::MSG_DONTWAIT;
        let (length, by) = {
            let mut pieces = [io::IoSliceMut::new(&mut packet)];
            let message = recvmsg::<SockaddrStorage>(listener.as_raw_fd(), &mut pieces, None, flags).ok()?;
            (message.bytes, message.address?)
        };
        let packet = &packet[..length.min(256)];
        let quoted = match is_v4 {
            true => quoted_v4(packet),
            false => quoted_v6(packet),
        };
        let by = match (by.as_sockaddr_in(), by.as_sockaddr_in6()) {
            (Some(v4), _) => IpAddr::from(v4.ip()),
            (None, Some(v6)) => v6.ip().into(),
            (None, None) => continue,
        };
        if let Some(quoted) = quoted {
            return Some((by, quoted));
        }
    }
}

/// What an ICMP packet, with its IP header, says about an expired TCP segment.
fn quoted_v4(packet: &[u8]) -> Option<Quoted> {
    let icmp = packet.get(usize::from(packet.first()? & 0xf) * 4..)?;
    let segment = icmp.get(8..).filter(|_| icmp[0] == TIME_EXCEEDED.0)?;
    let header = usize::from(segment.first()? & 0xf) * 4;
    let to: [u8; 4] = segment.get(16..20)?.try_into().ok()?;
    let is_tcp = segment[9] == TCP;
    ports(segment.get(header..)?)
        .filter(|_| is_tcp && header >= 20)
        .map(|(from, port)| (Ipv4Addr::from(to).into(), from, port))
}

/// The same for an ICMPv6 packet, which comes without its IP header.
fn quoted_v6(packet: &[u8]) -> Option<Quoted> {
    let segment = packet.get(8..).filter(|_| packet[0] == TIME_EXCEEDED.1)?;
    let to: [u8; 16] = segment.get(24..40)?.try_into().ok()?;
    let is_tcp = segment[6] == TCP;
    ports(segment.get(40..)?)
        .filter(|_| is_tcp)
        .map(|(from, port)| (Ipv6Addr::from(to).into(), from, port))
}

/// The ports at the beginning of a TCP segment.
fn ports(segment: &[u8]) -> Option<(u16, u16)> {
    let both: [u8; 4] = segment.get(..4)?.try_into().ok()?;
    let [a, b, c, d] = both;
    Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An ICMP error with its IP header, about a segment from port 24000 to 10.0.1.6, port 7000.
    fn expired() -> Vec<u8> {
        let mut packet = vec![0x45; 1];
        packet.resize(20, 0);
        packet.extend([TIME_EXCEEDED.0, 0, 0, 0, 0, 0, 0, 0]);
        let mut segment = vec![0; 28];
        segment[0] = 0x45;
        segment[9] = TCP;
        segment[16..20].copy_from_slice(&[10, 0, 1, 6]);
        segment[20..22].copy_from_slice(&24_000_u16.to_be_bytes());
        segment[22..24].copy_from_slice(&7000_u16.to_be_bytes());
        packet.extend(segment);
        packet
    }

    #[test]
    fn an_expired_segment_is_known_by_its_receiver_and_ports() {
        let to = IpAddr::from([10, 0, 1, 6]);
        assert_eq!(quoted_v4(&expired()), Some((to, 24_000, 7000)));
        let with = |place: usize, byte: u8| {
            let mut packet = expired();
            packet[place] = byte;
            quoted_v4(&packet)
        };
        assert_eq!(with(20, 3), None, "unreachable");
        assert_eq!(with(28 + 9, 17), None, "a datagram");
        assert_eq!(with(28, 0x41), None, "an IP header of four bytes");
        assert_eq!(with(0, 0x4f), None, "options that are not there");
        for length in 0..expired().len() - 4 {
            assert_eq!(quoted_v4(&expired()[..length]), None, "{length} bytes");
        }
    }

    #[test]
    fn an_expired_segment_of_ipv6_is_known_as_well() {
        let to: Ipv6Addr = "fd00::6".parse().unwrap();
        let mut packet = vec![0; 8 + 44];
        packet[0] = TIME_EXCEEDED.1;
        packet[8 + 6] = TCP;
        packet[8 + 24..8 + 40].copy_from_slice(&to.octets());
        packet[8 + 40..].copy_from_slice(&[0x5d, 0xc0, 0x1b, 0x58]);
        assert_eq!(quoted_v6(&packet), Some((to.into(), 24_000, 7000)));
        for length in 0..packet.len() {
            assert_eq!(quoted_v6(&packet[..length]), None, "{length} bytes");
        }
    }
}
