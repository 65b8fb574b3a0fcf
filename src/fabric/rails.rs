//! Rails as people name them, resolved to addresses and interfaces of this host.
//!
//! A rail is written `NAME=ADDRESS`, `NAME=SUBNET`, `NAME=INTERFACE`, or without its name. A subnet (`10.0.0.0/16`) stands for
//! this host's address in it, so that one command line fits all hosts. Names must be the same on all hosts; an address or
//! subnet without a name is called after its position (`rail0`, `rail1`, ...), an interface after itself.

use std::collections::HashSet;
use std::net::IpAddr;
use std::path::Path;

use super::subnet::Subnet;
use super::sysfs;
use crate::record::RailEnd;

/// The rails of a local run when none is named: two loopback addresses, because ranks of one machine reach each other over
/// loopback whatever address they use, and two rails are the fewest that can be compared.
pub const LOOPBACK_RAILS: [&str; 2] = ["loop0=127.0.1.1", "loop1=127.0.1.2"];

/// The longest name of a rail; it becomes part of tables and of `--only`.
const LONGEST_NAME: usize = 32;

/// What is wrong with a rail.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RailError {
    /// It is not written as a rail is written.
    #[error("rail `{0}`: {1}; write NAME=ADDRESS, NAME=SUBNET, ADDRESS or an interface name")]
    Unreadable(String, &'static str),
    /// Two rails have one name.
    #[error("rail `{0}` is named twice")]
    Twice(String),
    /// The interface does not exist.
    #[error("rail `{rail}`: this host has no interface `{interface}`; it has {}", .present.join(", "))]
    NoInterface {
        /// Rail.
        rail: String,
        /// What was asked for.
        interface: String,
        /// What there is.
        present: Vec<String>,
    },
    /// The interface has no address to bind to.
    #[error("rail `{rail}`: interface `{interface}` has no IP address traffic could be bound to")]
    NoAddress {
        /// Rail.
        rail: String,
        /// Interface.
        interface: String,
    },
    /// No interface has the address.
    #[error("rail `{rail}`: no interface of this host has the address {address}")]
    NotHere {
        /// Rail.
        rail: String,
        /// Address.
        address: IpAddr,
    },
    /// No interface has an address in the subnet.
    #[error("rail `{rail}`: no interface of this host has an address in {subnet}")]
    NotInSubnet {
        /// Rail.
        rail: String,
        /// Subnet.
        subnet: Subnet,
    },
    /// Nothing on this host looks like a rail.
    #[error(
        "no rails: besides the management address {management} no interface that is up has an IPv4 address of its own; name \
them, for instance --rails {}", .present.first().map_or("eth1", String::as_str)
    )]
    NoneFound {
        /// The management address.
        management: IpAddr,
        /// Interfaces that have addresses.
        present: Vec<String>,
    },
    /// The host does not tell its addresses.
    #[error("the addresses of this host cannot be listed: {0}")]
    NoList(String),
}

/// An address of an interface of this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterfaceAddress {
    /// Interface.
    pub interface: String,
    /// Address; none for an interface that is listed without one.
    pub address: Option<IpAddr>,
}

/// The rails named in `specs`, resolved on this host.
pub fn resolve_here(specs: &[String]) -> Result<Vec<RailEnd>, RailError> {
    resolve(specs, &addresses_here()?, Path::new(sysfs::SYS))
}

/// The loopback rails of a local run for which none was named.
pub fn loopback() -> Result<Vec<RailEnd>, RailError> {
    resolve_here(&LOOPBACK_RAILS.map(String::from))
}

/// The rails of this host when none is named and it is one of several: its interfaces for data.
pub fn discover_here(management: IpAddr) -> Result<Vec<RailEnd>, RailError> {
    if management.is_loopback() {
        // Whoever meets over loopback is on one machine.
        return loopback();
    }
    super::discover::discover(&addresses_here()?, management, Path::new(sysfs::SYS))
}

/// The address of this host that an interface, address or subnet stands for.
pub fn address_here(spec: &str) -> Result<IpAddr, RailError> {
    let end = resolve_one(
        &format!("management={spec}"),
        0,
        &addresses_here()?,
        Path::new(sysfs::SYS),
    )?;
    let bad = || RailError::Unreadable(end.address.clone(), "no address");
    end.address.parse().map_err(|_| bad())
}

/// The rails named in `specs`, resolved with the given addresses; link speeds are read below `root`.
pub fn resolve(
    specs: &[String],
    addresses: &[InterfaceAddress],
    root: &Path,
) -> Result<Vec<RailEnd>, RailError> {
    let mut names = HashSet::new();
    let mut rails = Vec::new();
    for (position, spec) in specs.iter().enumerate() {
        let rail = resolve_one(spec, position, addresses, root)?;
        if !names.insert(rail.rail.clone()) {
            return Err(RailError::Twice(rail.rail));
        }
        rails.push(rail);
    }
    Ok(rails)
}

/// The addresses of this host's interfaces, IPv4 before IPv6, as the kernel lists them.
pub fn addresses_here() -> Result<Vec<InterfaceAddress>, RailError> {
    let list = nix::ifaddrs::getifaddrs().map_err(|error| RailError::NoList(error.to_string()))?;
    let mut addresses: Vec<InterfaceAddress> = list
        .map(|entry| InterfaceAddress {
            address: entry.address.and_then(|address| {
                let v4 = address.as_sockaddr_in().map(|address| IpAddr::V4(address.ip()));
                v4.or_else(|| address.as_sockaddr_in6().map(|address| IpAddr::V6(address.ip())))
            }),
            interface: entry.interface_name,
        })
        .collect();
    addresses.sort_by_key(|entry| entry.address.is_none_or(|address| address.is_ipv6()));
    Ok(addresses)
}

fn resolve_one(
    spec: &str,
    position: usize,
    addresses: &[InterfaceAddress],
    root: &Path,
) -> Result<RailEnd, RailError> {
    let (name, target) = split(spec, position)?;
    let (interface, address) = match (target.parse::<IpAddr>(), target.parse::<Subnet>()) {
        (Ok(address), _) => (holder(&name, address, addresses)?, address),
        (_, Ok(subnet)) => address_in(&name, subnet, addresses)?,
        _ => {
            let address = address_of(&name, target, addresses, root)?;
            (Some(target.to_string()), address)
        }
    };
    Ok(RailEnd {
        speed_mbit: interface
            .as_ref()
            .and_then(|interface| sysfs::speed_mbit(root, interface)),
        address: address.to_string(),
        rail: name,
        rdma: None,
        interface,
    })
}

/// The name of a rail and the address or interface behind it.
fn split(spec: &str, position: usize) -> Result<(String, &str), RailError> {
    let spec = spec.trim();
    let unreadable = |why| RailError::Unreadable(spec.chars().take(64).collect(), why);
    let (name, target) = match spec.split_once('=') {
        Some((name, target)) => (name.trim().to_string(), target.trim()),
        None if spec.parse::<IpAddr>().is_ok() || spec.parse::<Subnet>().is_ok() => {
            (format!("rail{position}"), spec)
        }
        None => (spec.to_string(), spec),
    };
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || name.len() > LONGEST_NAME || !name.chars().all(fits) {
        return Err(unreadable("a name is 1 to 32 letters, digits, `-`, `_` and `.`"));
    }
    if target.is_empty() {
        return Err(unreadable("nothing behind `=`"));
    }
    Ok((name, target))
}

/// The interface that has an address. Every address of the loopback net is an address of the loopback interface.
fn holder(rail: &str, address: IpAddr, addresses: &[InterfaceAddress]) -> Result<Option<String>, RailError> {
    let exact = addresses.iter().find(|entry| entry.address == Some(address));
    let loopback = || {
        addresses
            .iter()
            .find(|entry| entry.address.is_some_and(|held| held.is_loopback()))
    };
    match exact.or_else(|| loopback().filter(|_| address.is_loopback())) {
        Some(entry) => Ok(Some(entry.interface.clone())),
        None if address.is_loopback() => Ok(None),
        None => Err(RailError::NotHere {
            rail: rail.to_string(),
            address,
        }),
    }
}

/// This host's address in a subnet, and the interface that has it.
fn address_in(
    rail: &str,
    subnet: Subnet,
    addresses: &[InterfaceAddress],
) -> Result<(Option<String>, IpAddr), RailError> {
    let found = addresses
        .iter()
        .find_map(|entry| Some((entry, entry.address.filter(|address| subnet.contains(*address))?)));
    let (entry, address) = found.ok_or_else(|| RailError::NotInSubnet {
        rail: rail.to_string(),
        subnet,
    })?;
    Ok((Some(entry.interface.clone()), address))
}

/// The address of an interface that traffic is bound to: the first one that needs no scope.
fn address_of(
    rail: &str,
    interface: &str,
    addresses: &[InterfaceAddress],
    root: &Path,
) -> Result<IpAddr, RailError> {
    let needs_scope = |address: &IpAddr| matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local());
    let mut of_interface = addresses
        .iter()
        .filter(|entry| entry.interface == interface)
        .peekable();
    if of_interface.peek().is_none() && sysfs::interface(root, interface).is_none() {
        let mut present: Vec<String> = addresses.iter().map(|entry| entry.interface.clone()).collect();
        present.sort();
        present.dedup();
        return Err(RailError::NoInterface {
            rail: rail.to_string(),
            interface: interface.to_string(),
            present,
        });
    }
    of_interface
        .filter_map(|entry| entry.address)
        .find(|address| !needs_scope(address))
        .ok_or_else(|| RailError::NoAddress {
            rail: rail.to_string(),
            interface: interface.to_string(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host() -> Vec<InterfaceAddress> {
        [
            ("lo", Some("127.0.0.1")),
            ("eth0", Some("10.0.0.7")),
            ("eth1", Some("fe80::1")),
            ("eth1", Some("fd00::7")),
            ("eth2", None),
        ]
        .map(|(interface, address)| InterfaceAddress {
            interface: interface.to_string(),
            address: address.map(|address| address.parse().unwrap()),
        })
        .to_vec()
    }

    fn resolved(specs: &[&str]) -> Result<Vec<RailEnd>, String> {
        let root = tempfile::tempdir().unwrap();
        let eth0 = root.path().join("class/net/eth0");
        std::fs::create_dir_all(&eth0).unwrap();
        std::fs::write(eth0.join("speed"), "200000\n").unwrap();
        let specs: Vec<String> = specs.iter().map(|spec| spec.to_string()).collect();
        resolve(&specs, &host(), root.path()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_rail_may_be_an_address_an_interface_or_either_with_a_name() {
        let rails = resolved(&["a=10.0.0.7", "b=eth1", "10.0.0.7", "eth0"]).unwrap();
        let found: Vec<_> = rails
            .iter()
            .map(|rail| {
                (
                    rail.rail.as_str(),
                    rail.address.as_str(),
                    rail.interface.as_deref(),
                    rail.speed_mbit,
                )
            })
            .collect();
        assert_eq!(
            found,
            [
                ("a", "10.0.0.7", Some("eth0"), Some(200_000)),
                ("b", "fd00::7", Some("eth1"), None),
                ("rail2", "10.0.0.7", Some("eth0"), Some(200_000)),
                ("eth0", "10.0.0.7", Some("eth0"), Some(200_000)),
            ]
        );
    }

    #[test]
    fn what_is_wrong_with_a_rail_is_said_with_its_name() {
        let cases: [(&[&str], &str); 7] = [
            (
                &["r=eth9"],
                "rail `r`: this host has no interface `eth9`; it has eth0, eth1, eth2, lo",
            ),
            (&["r=eth2"], "rail `r`: interface `eth2` has no IP address"),
            (
                &["r=10.9.9.9"],
                "rail `r`: no interface of this host has the address 10.9.9.9",
            ),
            (&["eth0", "eth0"], "rail `eth0` is named twice"),
            (&["r="], "rail `r=`: nothing behind `=`"),
            (&["a,b=eth0"], "rail `a,b=eth0`: a name is"),
            (&[""], "rail ``: a name is"),
        ];
        for (specs, wanted) in cases {
            let error = resolved(specs).unwrap_err();
            assert!(error.starts_with(wanted), "{error}");
        }
    }

    #[test]
    fn a_machine_without_a_network_still_has_two_rails_to_compare() {
        let rails = loopback().unwrap();
        assert_eq!(rails.len(), 2);
        assert_eq!(rails[0].address, "127.0.1.1");
        assert_eq!(rails[1].speed_mbit, None, "loopback has no link speed");
    }
}
