//! Rails as given by the operator, resolved to addresses and interfaces of this host.
//!
//! A rail is written `NAME=ADDRESS`, `NAME=SUBNET`, `NAME=INTERFACE`, `NAME=DEVICE`, or without its name. A subnet
//! (`10.0.0.0/16`) stands for this host's address in it, so that one command line fits all hosts. A device is one for RDMA, with
//! or without its port (`mlx5_0`, `mlx5_1:2`). Names must be the same on all hosts; an address or subnet without a name is
//! called after its position (`rail0`, `rail1`, ...), an interface or device after itself.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use super::rdma::{self, Port};
use super::subnet::Subnet;
use super::sysfs;
use record::RailEnd;

/// The rails of a local run when none is named: two loopback addresses, because ranks of one machine reach each other over
/// loopback whatever address they use, and two rails are the fewest that can be compared.
pub const LOOPBACK_RAILS: [&str; 2] = ["loop0=127.0.1.1", "loop1=127.0.1.2"];

/// The longest name of a rail; it becomes part of tables and of `--only`.
const LONGEST_NAME: usize = 32;

/// What is wrong with a rail.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RailError {
    /// It is malformed.
    #[error("rail `{0}`: {1}; write NAME=ADDRESS, NAME=SUBNET, ADDRESS, an interface or an RDMA device")]
    Unreadable(String, &'static str),
    /// Two rails have one name.
    #[error("rail `{0}` is named twice")]
    Twice(String),
    /// The interface does not exist.
    #[error("rail `{rail}`: this host has no interface or RDMA device `{interface}`; it has {}", .present.join(", "))]
    NoInterface {
        /// Rail.
        rail: String,
        /// What was asked for.
        interface: String,
        /// What there is.
        present: Vec<String>,
    },
    /// The interface has no address to bind to.
    #[error("rail `{rail}`: interface `{interface}` has no IP address to bind to")]
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
        /// RDMA devices, and interfaces that have addresses.
        present: Vec<String>,
    },
    /// The addresses of the host cannot be listed.
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

/// The interfaces and RDMA ports of the host that rails are resolved on.
#[derive(Debug, Clone)]
pub struct HostNetwork<'a> {
    /// Addresses of its interfaces.
    pub addresses: Vec<InterfaceAddress>,
    /// Its RDMA ports.
    pub ports: Vec<Port>,
    /// Its management address, by which ranks set up a rail that has no address of its own.
    pub management: IpAddr,
    /// The root of sysfs, for link speeds.
    pub root: &'a Path,
}

impl HostNetwork<'static> {
    /// This host; `management` is its address there, none when all ranks are on this machine.
    pub fn here(management: Option<IpAddr>) -> Result<HostNetwork<'static>, RailError> {
        let root = Path::new(sysfs::SYS);
        Ok(HostNetwork {
            addresses: addresses_here()?,
            ports: rdma::ports(root),
            management: management.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            root,
        })
    }
}

/// The rails named in `specs`, resolved on this host; `management` is its address there, none when all ranks are on this
/// machine.
pub fn resolve_here(specs: &[String], management: Option<IpAddr>) -> Result<Vec<RailEnd>, RailError> {
    resolve(specs, &HostNetwork::here(management)?)
}

/// The loopback rails of a local run for which none was named.
pub fn loopback() -> Result<Vec<RailEnd>, RailError> {
    resolve_here(&LOOPBACK_RAILS.map(String::from), None)
}

/// The address of this host that an interface, address or subnet stands for.
pub fn address_here(spec: &str) -> Result<IpAddr, RailError> {
    let network = HostNetwork {
        ports: Vec::new(),
        ..HostNetwork::here(None)?
    };
    let end = resolve_one(&format!("management={spec}"), 0, &network)?;
    let bad = || RailError::Unreadable(end.address.clone(), "no address");
    end.address.parse().map_err(|_| bad())
}

/// The rails named in `specs`, resolved on a host.
pub fn resolve(specs: &[String], network: &HostNetwork<'_>) -> Result<Vec<RailEnd>, RailError> {
    let mut names = HashSet::new();
    let mut rails = Vec::new();
    for (position, spec) in specs.iter().enumerate() {
        let rail = resolve_one(spec, position, network)?;
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

fn resolve_one(spec: &str, position: usize, network: &HostNetwork<'_>) -> Result<RailEnd, RailError> {
    let (name, target) = split(spec, position)?;
    let addresses = &network.addresses;
    let (interface, address, named) = match (target.parse::<IpAddr>(), target.parse::<Subnet>()) {
        (Ok(address), _) => (holder(&name, address, addresses)?, address, None),
        (_, Ok(subnet)) => {
            let (interface, address) = address_in(&name, subnet, addresses)?;
            (interface, address, None)
        }
        _ => match rdma::named(&network.ports, target).filter(|_| !is_interface(target, network)) {
            Some(port) => {
                let (interface, address) = setup_address(port, network);
                (interface, address, Some(port))
            }
            None => {
                let address = address_of(&name, target, network)?;
                (Some(target.to_string()), address, None)
            }
        },
    };
    let behind = |interface: &String| rdma::behind(&network.ports, interface);
    let port = named.or_else(|| interface.as_ref().and_then(behind));
    let speed = |interface: &String| sysfs::speed_mbit(network.root, interface);
    Ok(RailEnd {
        speed_mbit: interface.as_ref().and_then(speed).or_else(|| port_speed(port?)),
        address: address.to_string(),
        rail: name,
        rdma: port.map(Port::record),
        interface,
    })
}

/// The speed of an InfiniBand port. On Ethernet the interface has it, and software devices invent one.
fn port_speed(port: &Port) -> Option<u64> {
    port.rate_mbit.filter(|_| port.link_layer == "InfiniBand")
}

/// The interface and address by which connections of an RDMA port are set up: its own where it has one.
fn setup_address(port: &Port, network: &HostNetwork<'_>) -> (Option<String>, IpAddr) {
    let own = port.interfaces.iter().find_map(|interface| {
        let address = bindable(interface, &network.addresses)?;
        Some((Some(interface.clone()), address))
    });
    own.unwrap_or((None, network.management))
}

fn is_interface(name: &str, network: &HostNetwork<'_>) -> bool {
    let listed = network.addresses.iter().any(|entry| entry.interface == name);
    listed || sysfs::interface(network.root, name).is_some()
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
        // `mlx5_1:2` is not a valid name as it is.
        None => (spec.replace(':', "-"), spec),
    };
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || name.len() > LONGEST_NAME || !name.chars().all(fits) {
        return Err(unreadable("a name is 1 to 32 letters, digits, `-`, `_` and `.`"));
    }
    if target.is_empty() {
        return Err(unreadable("nothing follows `=`"));
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
fn bindable(interface: &str, addresses: &[InterfaceAddress]) -> Option<IpAddr> {
    let needs_scope = |address: &IpAddr| matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local());
    let of_interface = addresses.iter().filter(|entry| entry.interface == interface);
    let mut held = of_interface.filter_map(|entry| entry.address);
    held.find(|address| !needs_scope(address))
}

fn address_of(rail: &str, interface: &str, network: &HostNetwork<'_>) -> Result<IpAddr, RailError> {
    if !is_interface(interface, network) {
        let names = network.addresses.iter().map(|entry| entry.interface.clone());
        let mut present: Vec<String> = names.collect();
        present.sort();
        present.dedup();
        let devices = network.ports.iter().map(|port| port.device.clone());
        present.extend(devices);
        present.dedup();
        return Err(RailError::NoInterface {
            rail: rail.to_string(),
            interface: interface.to_string(),
            present,
        });
    }
    bindable(interface, &network.addresses).ok_or_else(|| RailError::NoAddress {
        rail: rail.to_string(),
        interface: interface.to_string(),
    })
}

#[cfg(test)]
#[path = "rails_tests.rs"]
mod tests;
