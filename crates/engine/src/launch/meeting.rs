//! Where ranks meet, as people write it: `HOST:PORT`, `[IPV6]:PORT`, and the halves `HOST` and `:PORT`.
//!
//! A host is a name or an address of one machine; "every address" (`0.0.0.0`, `::`) is refused, because a door that is open
//! everywhere is open to strangers.

use std::fmt;
use std::io;
use std::net::{Ipv6Addr, SocketAddr, ToSocketAddrs};
use topology::nodelist::check_host;

/// The port when none is named.
pub const DEFAULT_PORT: u16 = 29_400;
/// A name with more addresses than this is not the name of one machine.
const MOST_ADDRESSES: usize = 16;

/// A text that does not say where to meet.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not HOST:PORT: {problem}")]
pub struct BadMeeting {
    text: String,
    problem: &'static str,
}

/// A host and a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meeting {
    /// Name or address.
    pub host: String,
    /// Port.
    pub port: u16,
}

/// What was said about a meeting place; either half may be missing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Halves {
    /// Name or address.
    pub host: Option<String>,
    /// Port.
    pub port: Option<u16>,
}

impl Meeting {
    /// The addresses behind it, as the system's resolver says now.
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

impl From<SocketAddr> for Meeting {
    fn from(address: SocketAddr) -> Meeting {
        Meeting {
            host: address.ip().to_string(),
            port: address.port(),
        }
    }
}

impl fmt::Display for Meeting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl Halves {
    /// Reads `HOST:PORT`, `HOST`, `:PORT`, `[IPV6]:PORT` or `[IPV6]`.
    pub fn parse(text: &str) -> Result<Halves, BadMeeting> {
        let text = text.trim();
        let bad = |problem| BadMeeting {
            text: text.chars().take(80).collect(),
            problem,
        };
        if text.is_empty() {
            return Err(bad("it is empty"));
        }
        let (host, port) = if let Some(rest) = text.strip_prefix('[') {
            let (host, rest) = rest.split_once(']').ok_or_else(|| bad("`]` is missing"))?;
            if host.parse::<Ipv6Addr>().is_err() {
                return Err(bad("what stands in brackets is no IPv6 address"));
            }
            match (rest, rest.strip_prefix(':')) {
                ("", _) => (host, None),
                (_, Some(port)) => (host, Some(port)),
                _ => return Err(bad("a port follows `]:`")),
            }
        } else if text.matches(':').count() > 1 {
            return Err(bad("an IPv6 address stands in brackets, as in [fd00::1]:29400"));
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
        Ok(Halves {
            host: (!host.is_empty()).then(|| host.to_string()),
            port,
        })
    }

    /// What is missing here, taken from `weaker`.
    pub fn or(self, weaker: Halves) -> Halves {
        Halves {
            host: self.host.or(weaker.host),
            port: self.port.or(weaker.port),
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

    fn halves(host: Option<&str>, port: Option<u16>) -> Halves {
        Halves {
            host: host.map(String::from),
            port,
        }
    }

    #[test]
    fn a_meeting_place_is_read_as_people_write_it() {
        for (text, host, port) in [
            ("h0:29400", Some("h0"), Some(29_400)),
            (" node-1.cluster.local:1 ", Some("node-1.cluster.local"), Some(1)),
            ("10.0.0.1:65535", Some("10.0.0.1"), Some(65_535)),
            ("[fd00::1]:80", Some("fd00::1"), Some(80)),
            ("[fd00::1]", Some("fd00::1"), None),
            ("h0", Some("h0"), None),
            (":29400", None, Some(29_400)),
        ] {
            assert_eq!(Halves::parse(text), Ok(halves(host, port)), "{text}");
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
            assert!(Halves::parse(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn anything_is_read_or_refused_and_what_is_read_is_written_back(text in "\\PC{0,40}") {
            if let Ok(Halves { host: Some(host), port: Some(port) }) = Halves::parse(&text) {
                let meeting = Meeting { host: host.clone(), port };
                prop_assert_eq!(Halves::parse(&meeting.to_string()), Ok(halves(Some(&host), Some(port))));
            }
        }

        #[test]
        fn every_address_is_read_back(bits in any::<u128>(), v4 in any::<u32>(), port in 1u16..) {
            for ip in [IpAddr::V6(bits.into()), IpAddr::V4(v4.into())] {
                prop_assume!(!ip.is_unspecified());
                let meeting = Meeting::from(SocketAddr::new(ip, port));
                let read = Halves::parse(&meeting.to_string()).unwrap();
                prop_assert_eq!(read.host.unwrap().parse::<IpAddr>().unwrap(), ip);
                prop_assert_eq!(read.port, Some(port));
            }
        }
    }
}
