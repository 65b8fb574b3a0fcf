//! The addresses of an RDMA port, and which of them packets are sent from.
//!
//! A port has a table of them. On InfiniBand the first is the port's own; on Ethernet the kernel makes entries from the
//! addresses of the network interface, each once per RoCE version.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// An address as RDMA writes it. One that stands for an IPv4 address is written as IPv6 writes those.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Gid(pub [u8; 16]);

/// What packets sent from an entry look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GidKind {
    /// Of InfiniBand.
    Infiniband,
    /// Ethernet frames, which routers do not forward.
    RoceV1,
    /// UDP over IP.
    RoceV2,
}

/// An entry of a port's table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GidEntry {
    /// Its position in the table, by which queue pairs name it.
    pub index: u8,
    /// The address.
    pub gid: Gid,
    /// How packets are sent.
    pub kind: GidKind,
    /// The network interface it was made for.
    pub interface: Option<String>,
}

impl Gid {
    /// From the kernel's way of writing it: eight groups of four hexadecimal digits.
    pub fn parse(text: &str) -> Option<Gid> {
        Some(Gid(text.parse::<Ipv6Addr>().ok()?.octets()))
    }

    /// Whether the entry is not in use.
    pub fn is_empty(&self) -> bool {
        self.0 == [0; 16]
    }

    /// The IP address it stands for.
    pub fn address(&self) -> IpAddr {
        let six = Ipv6Addr::from(self.0);
        six.to_ipv4_mapped().map_or(IpAddr::V6(six), IpAddr::V4)
    }

    /// Whether it is known on one link only.
    pub fn is_link_local(&self) -> bool {
        Ipv6Addr::from(self.0).is_unicast_link_local()
    }
}

impl fmt::Display for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&Ipv6Addr::from(self.0).to_string())
    }
}

impl fmt::Debug for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Gid({self})")
    }
}

/// Which entry packets of a rail with this address are sent from; none when the table is empty.
///
/// Routable before not: RoCE v2 before RoCE v1, and among these the rail's own address, then other IPv4 addresses, then
/// global IPv6 ones, then those known on one link only. Of equals the first. On InfiniBand the first entry.
pub fn choose_gid(table: &[GidEntry], address: Option<IpAddr>) -> Option<u8> {
    let rank = |entry: &&GidEntry| {
        let version = match entry.kind {
            GidKind::Infiniband => return (0, 0, entry.index),
            GidKind::RoceV2 => 1,
            GidKind::RoceV1 => 2,
        };
        let held = entry.gid.address();
        let reach = match held {
            _ if Some(held) == address => 0,
            IpAddr::V4(_) => 1,
            IpAddr::V6(_) if !entry.gid.is_link_local() => 2,
            IpAddr::V6(_) => 3,
        };
        (version, reach, entry.index)
    };
    let used = table.iter().filter(|entry| !entry.gid.is_empty());
    used.min_by_key(rank).map(|entry| entry.index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use GidKind::{Infiniband, RoceV1, RoceV2};

    fn table(entries: &[(&str, GidKind)]) -> Vec<GidEntry> {
        let entry = |(index, (gid, kind)): (usize, &(&str, GidKind))| GidEntry {
            index: index as u8,
            gid: Gid::parse(gid).unwrap(),
            kind: *kind,
            interface: None,
        };
        entries.iter().enumerate().map(entry).collect()
    }

    fn chosen(entries: &[(&str, GidKind)], address: &str) -> Option<u8> {
        choose_gid(&table(entries), address.parse().ok())
    }

    #[test]
    fn packets_leave_from_the_rails_own_address_over_the_version_that_routers_pass_on() {
        let usual = [
            ("fe80::5054:ff:fe12:3456", RoceV1),
            ("fe80::5054:ff:fe12:3456", RoceV2),
            ("::ffff:10.0.0.7", RoceV1),
            ("::ffff:10.0.0.7", RoceV2),
            ("::ffff:10.8.0.7", RoceV2),
            ("fd00::7", RoceV2),
        ];
        assert_eq!(chosen(&usual, "10.0.0.7"), Some(3));
        assert_eq!(chosen(&usual, "10.8.0.7"), Some(4));
        assert_eq!(chosen(&usual, "fd00::7"), Some(5));
        assert_eq!(chosen(&usual, "192.0.2.1"), Some(3), "another routable address");
        assert_eq!(chosen(&usual, ""), Some(3));
    }

    #[test]
    fn what_is_known_on_one_link_only_is_taken_last() {
        let without_four = [("fe80::1", RoceV2), ("fd00::7", RoceV1), ("fd00::7", RoceV2)];
        assert_eq!(chosen(&without_four, "10.0.0.7"), Some(2));
        assert_eq!(
            chosen(&without_four[..2], "10.0.0.7"),
            Some(0),
            "version 2 before 1"
        );
        let old = [("fe80::1", RoceV1), ("::ffff:10.0.0.7", RoceV1)];
        assert_eq!(chosen(&old, "10.0.0.7"), Some(1));
    }

    #[test]
    fn infiniband_ports_have_their_own_address_first() {
        let port = [("fe80::2:c903:1:2", Infiniband), ("2001:db8::1", Infiniband)];
        assert_eq!(chosen(&port, "2001:db8::1"), Some(0));
    }

    #[test]
    fn entries_that_are_not_in_use_are_not_chosen() {
        assert_eq!(chosen(&[("::", RoceV2), ("fe80::1", RoceV1)], "::"), Some(1));
        assert_eq!(chosen(&[("::", RoceV2)], ""), None);
        assert_eq!(choose_gid(&[], None), None);
    }

    #[test]
    fn an_address_is_told_the_way_people_write_it() {
        let gid = Gid::parse("0000:0000:0000:0000:0000:ffff:0a00:0007").unwrap();
        assert_eq!(gid.address().to_string(), "10.0.0.7");
        assert_eq!(gid.to_string(), "::ffff:10.0.0.7");
        assert_eq!(Gid::parse("10.0.0.7"), None);
    }
}
