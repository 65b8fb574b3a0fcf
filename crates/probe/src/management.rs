//! The address of this host that control traffic uses when none is given.
//!
//! In this order: the address that the host's own name resolves to, if it is one of this host's; the address of the interface of
//! the default route; the only address there is. With more than one candidate the operator must choose.

use std::net::{IpAddr, ToSocketAddrs};

use super::host;
use super::rails::{InterfaceAddress, RailError, addresses_here};

/// Lines of a routing table that are looked at.
const MOST_ROUTES: usize = 65_536;

/// The management address cannot be determined.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ManagementError {
    /// There is none, or there are several.
    #[error(
        "cannot tell which address of this host is on the management network (candidates: {}); name one with --management or \
RAILGAUGE_MANAGEMENT",
        if .0.is_empty() { "none but loopback".to_string() } else { .0.join(", ") }
    )]
    Unclear(Vec<String>),
    /// The addresses of the host cannot be listed.
    #[error(transparent)]
    Unlisted(#[from] RailError),
}

/// The management address of this host.
pub fn management_here() -> Result<IpAddr, ManagementError> {
    let resolved = (host::here().name.as_str(), 0).to_socket_addrs();
    let resolved: Vec<IpAddr> =
        resolved.map_or_else(|_| Vec::new(), |found| found.map(|found| found.ip()).collect());
    let routes = std::fs::read_to_string("/proc/net/route").unwrap_or_default();
    derive(&resolved, &routes, &addresses_here()?)
}

/// The management address, given the addresses of the host's name, the kernel's IPv4 routes and the host's addresses.
pub fn derive(
    resolved: &[IpAddr],
    routes: &str,
    addresses: &[InterfaceAddress],
) -> Result<IpAddr, ManagementError> {
    let usable = |address: &IpAddr| match address {
        IpAddr::V4(v4) => !v4.is_loopback(),
        IpAddr::V6(v6) => !v6.is_loopback() && !v6.is_unicast_link_local(),
    };
    let local: Vec<(&str, IpAddr)> = addresses
        .iter()
        .filter_map(|entry| Some((entry.interface.as_str(), entry.address.filter(usable)?)))
        .collect();
    let is_local = |address: &&IpAddr| local.iter().any(|(_, local)| local == *address);
    if let Some(address) = resolved.iter().find(is_local) {
        return Ok(*address);
    }
    if let Some(interface) = default_interface(routes)
        && let Some((_, address)) = local.iter().find(|(name, _)| *name == interface)
    {
        return Ok(*address);
    }
    match local.as_slice() {
        [(_, address)] => Ok(*address),
        several => {
            let candidate = |(interface, address): &(&str, IpAddr)| format!("{address} ({interface})");
            Err(ManagementError::Unclear(several.iter().map(candidate).collect()))
        }
    }
}

/// The interface of the default route with the lowest metric, from the text of `/proc/net/route`.
fn default_interface(routes: &str) -> Option<&str> {
    let of_line = |line| {
        let words: Vec<&str> = str::split_whitespace(line).collect();
        let [interface, "00000000", _, _, _, _, metric, "00000000", ..] = words[..] else {
            return None;
        };
        Some((metric.parse::<u64>().ok()?, interface))
    };
    let defaults = routes.lines().take(MOST_ROUTES).filter_map(of_line);
    defaults
        .min_by_key(|(metric, _)| *metric)
        .map(|(_, interface)| interface)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUTES: &str = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n\
        rail0\t0000000A\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n\
        wifi\t00000000\t0100000A\t0003\t0\t0\t600\t00000000\t0\t0\t0\n\
        mg0\t00000000\t0100630A\t0003\t0\t0\t100\t00000000\t0\t0\t0\n";

    fn host(entries: &[(&str, &str)]) -> Vec<InterfaceAddress> {
        let entry = |(interface, address): &(&str, &str)| InterfaceAddress {
            interface: interface.to_string(),
            address: address.parse().ok(),
        };
        entries.iter().map(entry).collect()
    }

    #[test]
    fn the_name_decides_then_the_default_route_then_the_only_address() {
        let addresses = host(&[
            ("lo", "127.0.0.1"),
            ("mg0", "10.99.0.1"),
            ("rail0", "10.0.0.1"),
            ("rail0", "fe80::1"),
        ]);
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let named = derive(&[ip("127.0.1.1"), ip("10.0.0.1")], ROUTES, &addresses);
        assert_eq!(named, Ok(ip("10.0.0.1")));
        // Debian gives a host's name a loopback address; a stale name gives it somebody else's.
        assert_eq!(
            derive(&[ip("127.0.1.1"), ip("9.9.9.9")], ROUTES, &addresses),
            Ok(ip("10.99.0.1"))
        );
        assert_eq!(derive(&[], "", &addresses[..2]), Ok(ip("10.99.0.1")));
        let error = derive(&[], "", &addresses).unwrap_err().to_string();
        assert!(
            error.contains("10.99.0.1 (mg0), 10.0.0.1 (rail0))") && error.contains("--management"),
            "{error}"
        );
        assert!(
            derive(&[], "", &addresses[..1])
                .unwrap_err()
                .to_string()
                .contains("none but loopback")
        );
    }

    #[test]
    fn any_routing_table_is_read_or_ignored() {
        for text in ["", "\n\n", "a b", "mg0\t00000000\tx\tx\tx\tx\tx\t00000000"] {
            assert_eq!(default_interface(text), None);
        }
    }
}
