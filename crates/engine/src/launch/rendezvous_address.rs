//! The address of the rendezvous: `HOST:PORT`, `[IPV6]:PORT`, and the parts `HOST` and `:PORT`.
//!
//! A host is a name or an address of one machine; the wildcard (`0.0.0.0`, `::`) is refused, because it would listen on networks
//! that the run has nothing to do with.

use std::fmt;
use std::io;
use std::net::{Ipv6Addr, SocketAddr, ToSocketAddrs};
use topology::nodelist::check_host;

/// The port when none is named.
pub const DEFAULT_PORT: u16 = 29_400;
/// A name with more addresses than this is not the name of one machine.
const MOST_ADDRESSES: usize = 16;

/// A text that is not a rendezvous address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not HOST:PORT: {problem}")]
pub struct AddressError {
    text: String,
    problem: &'static str,
}

/// A host and a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RendezvousAddress {
    /// Name or address.
    pub host: String,
    /// Port.
    pub port: u16,
}

/// An address of which host or port may be missing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PartialAddress {
    /// Name or address.
    pub host: Option<String>,
    /// Port.
    pub port: Option<u16>,
}

impl RendezvousAddress {
    /// Resolves it now.
    pub fn resolve(&self) -> io::Result<Vec<SocketAddr>> {
        let found: Vec<SocketAddr> = (self.host.as_str(), self.port)
            .to_socket_addrs()?
            .take(MOST_ADDRESSES)
            .collect();
        if found.is_empty() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address"));
        }
        Ok(found)
    }
}

impl From<SocketAddr> for RendezvousAddress {
    fn from(address: SocketAddr) -> RendezvousAddress {
        RendezvousAddress {
            host: address.ip().to_string(),
            port: address.port(),
        }
    }
}

impl fmt::Display for RendezvousAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl PartialAddress {
    /// Reads `HOST:PORT`, `HOST`, `:PORT`, `[IPV6]:PORT` or `[IPV6]`.
    pub fn parse(text: &str) -> Result<PartialAddress, AddressError> {
        let text = text.trim();
        let bad = |problem| AddressError {
            text: text.chars().take(80).collect(),
            problem,
        };
        if text.is_empty() {
            return Err(bad("it is empty"));
        }
        let (host, port) = if let Some(rest) = text.strip_prefix('[') {
            let (host, rest) = rest.split_once(']').ok_or_else(|| bad("`]` is missing"))?;
            if host.parse::<Ipv6Addr>().is_err() {
                return Err(bad("the text in brackets is not an IPv6 address"));
            }
            match (rest, rest.strip_prefix(':')) {
                ("", _) => (host, None),
                (_, Some(port)) => (host, Some(port)),
                _ => return Err(bad("write a port as in [fd00::1]:29400")),
            }
        } else if text.matches(':').count() > 1 {
            return Err(bad("write an IPv6 address in brackets, as in [fd00::1]:29400"));
        } else {
            match text.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            }
        };
        if !host.is_empty() {
            check_host(host).map_err(bad)?;
        }
        let port = match port {
            Some(digits) => Some(read_port(digits).ok_or_else(|| bad("a port is a number from 1 to 65535"))?),
            None => None,
        };
        Ok(PartialAddress {
            host: (!host.is_empty()).then(|| host.to_string()),
            port,
        })
    }

    /// Takes what is missing from `fallback`.
    pub fn or(self, fallback: PartialAddress) -> PartialAddress {
        PartialAddress {
            host: self.host.or(fallback.host),
            port: self.port.or(fallback.port),
        }
    }
}

fn read_port(digits: &str) -> Option<u16> {
    let only_digits = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|port| only_digits && *port != 0)
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use proptest::prelude::*;

    use super::*;

    fn partial(host: Option<&str>, port: Option<u16>) -> PartialAddress {
        PartialAddress {
            host: host.map(String::from),
            port,
        }
    }

    #[test]
    fn an_address_is_read_as_people_write_it() {
        for (text, host, port) in [
            ("h0:29400", Some("h0"), Some(29_400)),
            (" node-1.cluster.local:1 ", Some("node-1.cluster.local"), Some(1)),
            ("10.0.0.1:65535", Some("10.0.0.1"), Some(65_535)),
            ("[fd00::1]:80", Some("fd00::1"), Some(80)),
            ("[fd00::1]", Some("fd00::1"), None),
            ("h0", Some("h0"), None),
            (":29400", None, Some(29_400)),
        ] {
            assert_eq!(PartialAddress::parse(text), Ok(partial(host, port)), "{text}");
        }
        for text in [
            "",
            "h0:",
            "h0:0",
            "h0:65536",
            "h0:+1",
            "fd00::1",
            "fd00::1:80",
            "[h0]:80",
            "[fd00::1",
            "[::1]80",
            "a b:1",
            "-x:1",
            "0.0.0.0:1",
            "[::]:1",
            "h0:1:2",
            "ho/st:1",
        ] {
            assert!(PartialAddress::parse(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn anything_is_read_or_refused_and_what_is_read_is_written_back(text in "\\PC{0,40}") {
            if let Ok(PartialAddress { host: Some(host), port: Some(port) }) = PartialAddress::parse(&text) {
                let address = RendezvousAddress { host: host.clone(), port };
                prop_assert_eq!(PartialAddress::parse(&address.to_string()), Ok(partial(Some(&host), Some(port))));
            }
        }

        #[test]
        fn every_address_is_read_back(bits in any::<u128>(), v4 in any::<u32>(), port in 1u16..) {
            for ip in [IpAddr::V6(bits.into()), IpAddr::V4(v4.into())] {
                prop_assume!(!ip.is_unspecified());
                let address = RendezvousAddress::from(SocketAddr::new(ip, port));
                let read = PartialAddress::parse(&address.to_string()).unwrap();
                prop_assert_eq!(read.host.unwrap().parse::<IpAddr>().unwrap(), ip);
                prop_assert_eq!(read.port, Some(port));
            }
        }
    }
}
