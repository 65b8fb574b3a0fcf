//! ICMP errors from switches, read from a socket's error queue.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

use nix::libc::{SO_EE_ORIGIN_ICMP, SO_EE_ORIGIN_ICMP6, sock_extended_err};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::sockopt::{Ipv4RecvErr, Ipv4Ttl, Ipv6RecvErr, Ipv6Ttl};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, setsockopt};
use socket2::Socket;

use super::flow::ProbeReply;

/// "Time exceeded" in ICMP and ICMPv6.
const TIME_EXCEEDED: (u8, u8) = (11, 3);

/// One ICMP error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct IcmpError {
    /// The address it came from.
    pub by: IpAddr,
    /// Whether the packet's TTL was exceeded.
    pub ttl_exceeded: bool,
    /// The beginning of the packet's payload, where the error repeats it.
    pub carried: Vec<u8>,
}

impl IcmpError {
    /// What it means for the packet.
    pub fn reply(&self) -> ProbeReply {
        match self.ttl_exceeded {
            true => ProbeReply::Expired(self.by),
            false => ProbeReply::Unreachable(self.by),
        }
    }
}

/// Makes the kernel queue ICMP errors for this socket.
pub(super) fn listen(socket: &Socket, peer: IpAddr) -> nix::Result<()> {
    match peer {
        IpAddr::V4(_) => setsockopt(socket, Ipv4RecvErr, &true),
        IpAddr::V6(_) => setsockopt(socket, Ipv6RecvErr, &true),
    }
}

/// Sets the TTL of what is sent from now on.
pub(super) fn set_ttl(socket: &Socket, peer: IpAddr, hops: u8) -> nix::Result<()> {
    match peer {
        IpAddr::V4(_) => setsockopt(socket, Ipv4Ttl, &i32::from(hops)),
        IpAddr::V6(_) => setsockopt(socket, Ipv6Ttl, &i32::from(hops)),
    }
}

/// Waits for one of `events`, or an error; false when `until` comes first.
pub(super) fn wait(socket: impl AsFd, events: PollFlags, until: Instant) -> bool {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        // Rounded up, so that it does not spin in the last millisecond. It polls at least once: a thread that was not
        // scheduled must not mistake that for silence.
        let patience = PollTimeout::try_from(left + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX);
        match poll(&mut [PollFd::new(socket.as_fd(), events)], patience) {
            Ok(count) if count > 0 => return true,
            Ok(_) if left.is_zero() => return false,
            Ok(_) | Err(nix::Error::EINTR) => {}
            Err(_) => return false,
        }
    }
}

/// The next ICMP error, if any.
pub(super) fn next(socket: &Socket) -> Option<IcmpError> {
    loop {
        let mut carried = [0; 64];
        let mut space = nix::cmsg_space!(sock_extended_err, nix::libc::sockaddr_in6);
        let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
        let (length, icmp) = {
            let mut pieces = [std::io::IoSliceMut::new(&mut carried)];
            let message =
                recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut pieces, Some(&mut space), flags).ok()?;
            let icmp = message.cmsgs().ok()?.find_map(understand);
            (message.bytes, icmp)
        };
        if let Some((by, ttl_exceeded)) = icmp {
            return Some(IcmpError {
                by,
                ttl_exceeded,
                carried: carried[..length.min(64)].to_vec(),
            });
        }
    }
}

/// The sender of an ICMP error, and whether the TTL was exceeded; none for other messages.
fn understand(message: ControlMessageOwned) -> Option<(IpAddr, bool)> {
    match message {
        ControlMessageOwned::Ipv4RecvErr(error, Some(by)) if error.ee_origin == SO_EE_ORIGIN_ICMP => {
            let address = Ipv4Addr::from(u32::from_be(by.sin_addr.s_addr));
            Some((address.into(), error.ee_type == TIME_EXCEEDED.0))
        }
        ControlMessageOwned::Ipv6RecvErr(error, Some(by)) if error.ee_origin == SO_EE_ORIGIN_ICMP6 => {
            let address = Ipv6Addr::from(by.sin6_addr.s6_addr);
            Some((address.into(), error.ee_type == TIME_EXCEEDED.1))
        }
        _ => None,
    }
}
