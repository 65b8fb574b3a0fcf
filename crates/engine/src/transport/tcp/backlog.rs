//! What a connection has sent and the other end has not acknowledged, as the kernel's connection table tells it.
//!
//! A peer that is merely slow, or frozen, still acknowledges: its kernel does. Bytes that are sent again and again without
//! an answer mean that packets do not get through.

use std::net::{IpAddr, SocketAddr};

use super::super::link::Backlog;

/// The column of the table in which a retransmission timer shows.
const RETRANSMITTING: &str = "01";

/// The backlog of the connection from `local` to `peer` of this process's network namespace; none when it is not found.
pub(super) fn backlog(local: SocketAddr, peer: SocketAddr) -> Option<Backlog> {
    let table = match local {
        SocketAddr::V4(_) => "/proc/thread-self/net/tcp",
        SocketAddr::V6(_) => "/proc/thread-self/net/tcp6",
    };
    find(&std::fs::read_to_string(table).ok()?, local, peer)
}

fn find(table: &str, local: SocketAddr, peer: SocketAddr) -> Option<Backlog> {
    let (local, peer) = (in_hex(local), in_hex(peer));
    let line = table.lines().skip(1).find(|line| {
        let mut columns = line.split_ascii_whitespace().skip(1);
        columns.next() == Some(&local) && columns.next() == Some(&peer)
    })?;
    // sl local remote state tx:rx timer:when retransmits ...
    let mut columns = line.split_ascii_whitespace().skip(4);
    let (unacknowledged, _) = columns.next()?.split_once(':')?;
    let (timer, _) = columns.next()?.split_once(':')?;
    let retransmits = u32::from_str_radix(columns.next()?, 16).ok()?;
    Some(Backlog {
        bytes: u64::from_str_radix(unacknowledged, 16).ok()?,
        retransmits: if timer == RETRANSMITTING { retransmits } else { 0 },
    })
}

/// An address as the table writes it: words of the address in the machine's byte order, then the port.
fn in_hex(address: SocketAddr) -> String {
    let words = |bytes: &[u8]| -> String {
        let word = |four: &[u8]| u32::from_ne_bytes([four[0], four[1], four[2], four[3]]);
        bytes
            .chunks_exact(4)
            .map(|four| format!("{:08X}", word(four)))
            .collect()
    };
    let host = match address.ip() {
        IpAddr::V4(v4) => words(&v4.octets()),
        IpAddr::V6(v6) => words(&v6.octets()),
    };
    format!("{host}:{:04X}", address.port())
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    use super::*;

    const TABLE: &str =
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100000A:B798 0200000A:B799 01 00012345:00000000 01:00000064 00000003     0        0 1 1 0 20 4 0 10 7
   1: 0100000A:B79A 0200000A:B799 01 00012345:00000000 04:00000064 00000003     0        7 1 1 0 20 4 0 10 7
";

    fn of(local: &str) -> Option<Backlog> {
        find(TABLE, local.parse().unwrap(), "10.0.0.2:47001".parse().unwrap())
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn only_a_running_retransmission_timer_means_that_packets_are_lost() {
        let lost = Backlog {
            bytes: 0x12345,
            retransmits: 3,
        };
        assert_eq!(of("10.0.0.1:47000"), Some(lost));
        // A full window: the peer answers, it just takes nothing more.
        assert_eq!(
            of("10.0.0.1:47002"),
            Some(Backlog {
                retransmits: 0,
                ..lost
            })
        );
        assert_eq!(of("10.0.0.1:47004"), None);
    }

    #[test]
    fn a_real_connection_is_found_and_a_frozen_reader_is_no_lost_packet() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(door) = TcpListener::bind(address) else {
                assert!(address.contains("::1"), "every machine has 127.0.0.1");
                continue;
            };
            let mut near = TcpStream::connect(door.local_addr().unwrap()).unwrap();
            let _never_reads = door.accept().unwrap();
            near.set_nonblocking(true).unwrap();
            while near.write(&[0; 65536]).is_ok() {}
            let backlog = backlog(near.local_addr().unwrap(), near.peer_addr().unwrap()).unwrap();
            assert!(backlog.bytes > 0, "{address}");
            assert_eq!(backlog.retransmits, 0, "{address}");
        }
    }

    #[test]
    fn a_table_that_makes_no_sense_tells_nothing() {
        let (local, peer) = (
            "10.0.0.1:47000".parse().unwrap(),
            "10.0.0.2:47001".parse().unwrap(),
        );
        for end in 0..TABLE.len() {
            let _ = find(&TABLE[..end], local, peer);
        }
        assert_eq!(find("", local, peer), None);
    }
}
