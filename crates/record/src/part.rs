//! The names of parts: what a finding accuses, what a reading is about, what a burn-in decides on.
//!
//! Every part has one printed form, written here and read here and nowhere else:
//!
//! | part | printed as |
//! |---|---|
//! | port of a node | `h2/rail1` |
//! | directed link | `h2/rail1->leaf1/p0` |
//! | host's end of a rail | `h2/rail1 out`, `h2/rail1 in`, `h2/rail1` for both |
//! | host, switch, cable, rail, GPU | its name |
//! | NIC of a host | `h2/mlx5_0` |
//! | fabric | `the whole fabric` |
//!
//! A name alone does not say whether it is a host's or a switch's, so parsing a [`Part`] needs its [`PartKind`]; links and rail
//! ends are recognised by their form. Names borrow from the text they were read from: reading one allocates nothing.

use std::fmt;

use super::PartKind;

/// What separates the two ends of a directed link.
const ARROW: &str = "->";

/// A port of a host or a switch: `leaf1/p0`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortName<'a> {
    /// The host or switch.
    pub node: &'a str,
    /// The port there.
    pub port: &'a str,
}

/// A cable in one direction: `h2/rail1->leaf1/p0`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkName<'a> {
    /// Where data enters the cable.
    pub from: PortName<'a>,
    /// Where data leaves it.
    pub to: PortName<'a>,
}

/// Which way data crosses a host's end of a rail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EndDirection {
    /// From the host into the fabric.
    Out,
    /// From the fabric into the host.
    In,
}

/// A host's end of a rail, in one direction (`h2/rail1 out`) or both (`h2/rail1`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RailEndName<'a> {
    /// The host.
    pub host: &'a str,
    /// The rail.
    pub rail: &'a str,
    /// Which way data crosses it; none when both are meant, as a round trip does.
    pub direction: Option<EndDirection>,
}

/// A part of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part<'a> {
    /// A host with all it has.
    Host(&'a str),
    /// A host's end of a rail.
    RailEnd(RailEndName<'a>),
    /// A cable, in both directions.
    Cable(&'a str),
    /// A cable in one direction.
    Link(LinkName<'a>),
    /// A switch.
    Switch(&'a str),
    /// A GPU, by its lasting name.
    Gpu(&'a str),
    /// A NIC of a host.
    Nic {
        /// The host.
        host: &'a str,
        /// The device there.
        device: &'a str,
    },
    /// A rail: the ports of one index on all hosts.
    Rail(&'a str),
    /// Everything.
    Fabric,
    /// A measurement rather than a part: a pair, a collective, a test.
    Measurement(&'a str),
}

/// The printed form of [`Part::Fabric`].
const FABRIC: &str = "the whole fabric";

impl<'a> PortName<'a> {
    /// Reads `leaf1/p0`; none when it has no node or no port.
    pub fn parse(text: &'a str) -> Option<PortName<'a>> {
        let (node, port) = text.split_once('/')?;
        (!node.is_empty() && !port.is_empty()).then_some(PortName { node, port })
    }

    /// The node of what may be a port or just a node: `leaf1` of `leaf1/p0` and of `leaf1`.
    pub fn node_of(text: &'a str) -> &'a str {
        text.split_once('/').map_or(text, |(node, _)| node)
    }
}

impl<'a> LinkName<'a> {
    /// Reads `h2/rail1->leaf1/p0`.
    pub fn parse(text: &'a str) -> Option<LinkName<'a>> {
        let (from, to) = text.split_once(ARROW)?;
        Some(LinkName {
            from: PortName::parse(from)?,
            to: PortName::parse(to)?,
        })
    }

    /// The name of a link between two ends, whatever they are called.
    pub fn between(from: impl fmt::Display, to: impl fmt::Display) -> String {
        format!("{from}{ARROW}{to}")
    }

    /// The hosts and switches at the ends of what is written as a link, with ports or without; one for the name of a port.
    pub fn nodes_of(text: &'a str) -> impl Iterator<Item = &'a str> {
        text.split(ARROW).map(PortName::node_of)
    }

    /// Both ends, where data enters first.
    pub fn ends(&self) -> [PortName<'a>; 2] {
        [self.from, self.to]
    }

    /// The same cable in the other direction.
    pub fn reversed(&self) -> LinkName<'a> {
        LinkName {
            from: self.to,
            to: self.from,
        }
    }

    /// Whether one of its ends is at that host or switch.
    pub fn touches(&self, node: &str) -> bool {
        self.from.node == node || self.to.node == node
    }
}

impl<'a> RailEndName<'a> {
    /// Reads `h2/rail1 out`, `h2/rail1 in` and `h2/rail1`.
    pub fn parse(text: &'a str) -> Option<RailEndName<'a>> {
        let (end, direction) = match text.rsplit_once(' ') {
            Some((end, "out")) => (end, Some(EndDirection::Out)),
            Some((end, "in")) => (end, Some(EndDirection::In)),
            _ => (text, None),
        };
        let PortName { node, port } = PortName::parse(end).filter(|_| !end.contains(ARROW))?;
        Some(RailEndName {
            host: node,
            rail: port,
            direction,
        })
    }

    /// Where data leaves the host.
    pub fn out(host: &'a str, rail: &'a str) -> RailEndName<'a> {
        let direction = Some(EndDirection::Out);
        RailEndName {
            host,
            rail,
            direction,
        }
    }

    /// Where data enters the host.
    pub fn into(host: &'a str, rail: &'a str) -> RailEndName<'a> {
        let direction = Some(EndDirection::In);
        RailEndName {
            host,
            rail,
            direction,
        }
    }

    /// Both directions of it.
    pub fn both(host: &'a str, rail: &'a str) -> RailEndName<'a> {
        let direction = None;
        RailEndName {
            host,
            rail,
            direction,
        }
    }

    /// Its host and rail as a port.
    pub fn port(&self) -> PortName<'a> {
        PortName {
            node: self.host,
            port: self.rail,
        }
    }
}

impl<'a> Part<'a> {
    /// Reads the name of a part of that kind; none when it is not written as such a part is.
    pub fn parse(kind: PartKind, text: &'a str) -> Option<Part<'a>> {
        Some(match kind {
            PartKind::Link => Part::Link(LinkName::parse(text)?),
            PartKind::RailEnd => Part::RailEnd(RailEndName::parse(text)?),
            PartKind::Rail => Part::Rail(text),
            PartKind::Node => Part::Host(text),
            PartKind::Gpu => Part::Gpu(text),
            PartKind::Collective => Part::Measurement(text),
        })
    }

    /// The ports in its name: both ends of a link, the one of a rail's end.
    pub fn ports(self) -> impl Iterator<Item = PortName<'a>> {
        let (first, second) = match self {
            Part::Link(link) => (Some(link.from), Some(link.to)),
            Part::RailEnd(end) => (Some(end.port()), None),
            _ => (None, None),
        };
        first.into_iter().chain(second)
    }

    /// Whether it is at that host or switch, as far as its name tells.
    pub fn touches(&self, node: &str) -> bool {
        match self {
            Part::Host(name) | Part::Switch(name) => *name == node,
            Part::Nic { host, .. } => *host == node,
            _ => self.ports().any(|port| port.node == node),
        }
    }
}

impl fmt::Display for PortName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.node, self.port)
    }
}

impl fmt::Display for LinkName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{ARROW}{}", self.from, self.to)
    }
}

impl fmt::Display for EndDirection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            EndDirection::Out => "out",
            EndDirection::In => "in",
        })
    }
}

impl fmt::Display for RailEndName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.direction {
            Some(direction) => write!(f, "{} {direction}", self.port()),
            None => self.port().fmt(f),
        }
    }
}

impl fmt::Display for Part<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Part::Host(name)
            | Part::Cable(name)
            | Part::Switch(name)
            | Part::Gpu(name)
            | Part::Rail(name) => f.write_str(name),
            Part::RailEnd(end) => end.fmt(f),
            Part::Link(link) => link.fmt(f),
            Part::Nic { host, device } => write!(f, "{host}/{device}"),
            Part::Fabric => f.write_str(FABRIC),
            Part::Measurement(name) => f.write_str(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KINDS: [PartKind; 6] = [
        PartKind::Link,
        PartKind::RailEnd,
        PartKind::Rail,
        PartKind::Node,
        PartKind::Gpu,
        PartKind::Collective,
    ];

    #[test]
    fn a_link_and_a_rail_end_are_read_as_they_are_printed() {
        let link = LinkName::parse("h2/rail1->leaf1/p0").unwrap();
        assert_eq!((link.from.node, link.from.port), ("h2", "rail1"));
        assert_eq!((link.to.node, link.to.port), ("leaf1", "p0"));
        assert_eq!(link.to_string(), "h2/rail1->leaf1/p0");
        assert_eq!(link.reversed().to_string(), "leaf1/p0->h2/rail1");
        assert!(link.touches("leaf1") && link.touches("h2") && !link.touches("p0"));
        let end = RailEndName::parse("h2/rail1 in").unwrap();
        assert_eq!(
            (end.host, end.rail, end.direction),
            ("h2", "rail1", Some(EndDirection::In))
        );
        assert_eq!(end.to_string(), "h2/rail1 in");
        assert_eq!(
            RailEndName::parse("h2/rail1"),
            Some(RailEndName::both("h2", "rail1"))
        );
        assert_eq!(RailEndName::out("h2", "rail1").to_string(), "h2/rail1 out");
    }

    #[test]
    fn other_text_is_not_read_as_a_link_or_rail_end() {
        for text in [
            "",
            "h2",
            "h2/rail1",
            "h2->leaf1",
            "->",
            "/->/",
            "h2/->leaf1/p0",
            "h2/rail1 out",
        ] {
            assert_eq!(LinkName::parse(text), None, "{text}");
        }
        for text in ["", "h2 out", "/ out", "h2/rail1->leaf1/p0"] {
            assert_eq!(RailEndName::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_part_is_at_the_nodes_its_name_tells_of() {
        let touches = |kind, text, node| Part::parse(kind, text).unwrap().touches(node);
        assert!(touches(PartKind::Link, "h2/rail1->leaf1/p0", "leaf1"));
        assert!(touches(PartKind::RailEnd, "h2/rail1 out", "h2"));
        assert!(touches(PartKind::Node, "h2", "h2"));
        assert!(!touches(PartKind::Rail, "h2", "h2"));
        let nic = Part::Nic {
            host: "h2",
            device: "mlx5_0",
        };
        assert!(nic.touches("h2") && !Part::Cable("h2").touches("h2") && !Part::Fabric.touches("h2"));
        assert_eq!(
            (nic.to_string(), Part::Fabric.to_string()),
            ("h2/mlx5_0".into(), FABRIC.into())
        );
        let nodes = |text| LinkName::nodes_of(text).collect::<Vec<_>>();
        assert_eq!(
            (nodes("h2/rail1->leaf1/p0"), nodes("h2/rail1 out")),
            (vec!["h2", "leaf1"], vec!["h2"])
        );
        assert_eq!(PortName::node_of("leaf1/p0"), "leaf1");
        assert_eq!(PortName::node_of("leaf1"), "leaf1");
    }

    proptest! {
        #[test]
        fn whatever_is_read_is_printed_as_it_was_written(text in "[a-z0-9/> -]{0,24}|[a-z0-9]{1,4}/[a-z0-9]{1,4}( out| in|->[a-z]{1,3}/[0-9])") {
            for kind in KINDS {
                if let Some(part) = Part::parse(kind, &text) {
                    prop_assert_eq!(part.to_string(), text.clone());
                }
            }
        }
    }
}
