//! Which cable connects which ports, and the address of every port.
//!
//! Rail `r` is 10.r.0.0/16: the hosts of leaf `l` lie in 10.r.l.0/24, one /30 per cable; cables between switches come from
//! 10.r.128.0/17. Management is 10.255.0.0/24. Names here are the ones of the topology file and of every fault.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

use super::suggest::suggestion;
use super::{Fault, LabError, Node, Shape};
use record::PortName;
use record::units::Rate;
use topology::{self, Link, Switch, Tier, Topology};

/// One end of a cable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// Where it is.
    pub node: Node,
    /// The interface there.
    pub interface: String,
    /// Its address; the net is a /30.
    pub address: Ipv4Addr,
}

/// A cable of a rail: the lower end (host or leaf) and the upper one (leaf or spine).
#[derive(Debug, Clone, PartialEq)]
pub struct Cable {
    /// `h1-rail0-leaf0` or `rail0-leaf0-spine1`.
    pub name: String,
    /// Its rail.
    pub rail: u16,
    /// Lower and upper end.
    pub ends: [Port; 2],
    /// What it carries in each direction.
    pub rate: Rate,
}

impl Cable {
    /// Whether its two ports are of one net. They are not when cables were swapped.
    pub fn is_one_net(&self) -> bool {
        let [lower, upper] = self.ends.each_ref().map(|end| u32::from(end.address) >> 2);
        lower == upper
    }
}

/// All cables of a lab.
#[derive(Debug, Clone)]
pub struct Wiring {
    /// What it was made from.
    pub shape: Shape,
    /// Every cable of every rail.
    pub cables: Vec<Cable>,
}

impl Wiring {
    /// Wires a shape that was checked.
    pub fn new(shape: &Shape) -> Wiring {
        let mut cables = Vec::new();
        for rail in 0..shape.rails {
            for leaf in 0..shape.leaves {
                for (position, host) in (0u16..).zip(shape.hosts_of(leaf)) {
                    cables.push(host_cable(shape, rail, leaf, position, host));
                }
            }
            for leaf in 0..shape.leaves {
                for spine in 0..shape.spines {
                    cables
                        .extend((0..shape.trunk).map(|strand| trunk_cable(shape, rail, leaf, spine, strand)));
                }
            }
        }
        Wiring {
            shape: shape.clone(),
            cables,
        }
    }

    /// The cables as they are plugged: with swapped ones where they really are.
    pub fn plugged(&self, faults: &[Fault]) -> Wiring {
        let mut wiring = self.clone();
        for fault in faults {
            let Fault::Swap { cables } = fault else {
                continue;
            };
            let place = |name: &String| wiring.cables.iter().position(|cable| cable.name == *name);
            if let (Some(one), Some(other)) = (place(&cables[0]), place(&cables[1])) {
                let upper = wiring.cables[one].ends[1].clone();
                wiring.cables[one].ends[1] = wiring.cables[other].ends[1].clone();
                wiring.cables[other].ends[1] = upper;
            }
        }
        wiring
    }

    /// A cable by its name, or by the names of the two nodes it joins.
    pub fn cable(&self, name: &str) -> Result<&Cable, LabError> {
        let by_ends = |cable: &Cable| {
            let [a, b] = &cable.ends;
            format!("{}-{}", a.node, b.node) == name || format!("{}-{}", b.node, a.node) == name
        };
        let found = self
            .cables
            .iter()
            .find(|cable| cable.name == name || by_ends(cable));
        found.ok_or_else(|| {
            self.unknown(
                "cable",
                name,
                self.cables.iter().map(|cable| cable.name.clone()).collect(),
            )
        })
    }

    /// A port by its name, `h1/rail0`.
    pub fn port(&self, name: &str) -> Result<&Port, LabError> {
        let found = self.ports().find(|port| port.to_string() == name);
        found.ok_or_else(|| self.unknown("port", name, self.ports().map(Port::to_string).collect()))
    }

    /// A node that exists and is of the kind wanted.
    pub fn node(
        &self,
        kind: &'static str,
        name: &str,
        wanted: impl Fn(Node) -> bool,
    ) -> Result<Node, LabError> {
        let nodes = || self.shape.nodes().into_iter().filter(|node| wanted(*node));
        let found = nodes().find(|node| node.to_string() == name);
        found.ok_or_else(|| self.unknown(kind, name, nodes().map(|node| node.to_string()).collect()))
    }

    /// A host by its name.
    pub fn host(&self, name: &str) -> Result<u16, LabError> {
        match self.node("host", name, |node| matches!(node, Node::Host(_)))? {
            Node::Host(host) => Ok(host),
            _ => unreachable!("only hosts were looked through"),
        }
    }

    /// All ports of all rails.
    pub fn ports(&self) -> impl Iterator<Item = &Port> {
        self.cables.iter().flat_map(|cable| &cable.ends)
    }

    /// The ports of a node with their cables.
    pub fn ports_of(&self, node: Node) -> impl Iterator<Item = (&Port, &Cable)> {
        self.cables
            .iter()
            .flat_map(|cable| cable.ends.iter().map(move |port| (port, cable)))
            .filter(move |(port, _)| port.node == node)
    }

    /// As a topology file says it.
    pub fn topology(&self) -> Topology {
        let switch = |node: Node| {
            let (tier, rail) = match node {
                Node::Leaf { rail, .. } => (Tier::Leaf, rail),
                Node::Spine { rail, .. } => (Tier::Spine, rail),
                Node::Host(_) | Node::Management => return None,
            };
            Some(Switch {
                name: node.to_string(),
                tier,
                rail: Some(format!("rail{rail}")),
                address: own_address(node).map(IpAddr::from),
            })
        };
        Topology {
            hosts: self
                .shape
                .host_nodes()
                .map(|node| topology::Host {
                    name: node.to_string(),
                })
                .collect(),
            switches: self.shape.nodes().into_iter().filter_map(switch).collect(),
            links: self
                .cables
                .iter()
                .map(|cable| Link {
                    name: cable.name.clone(),
                    ends: cable.ends.clone().map(|port| topology::Port {
                        node: port.node.to_string(),
                        interface: port.interface,
                    }),
                    rate: cable.rate,
                    rail: Some(format!("rail{}", cable.rail)),
                    addresses: Some(cable.ends.clone().map(|port| IpAddr::V4(port.address))),
                })
                .collect(),
            ..Topology::default()
        }
    }

    fn unknown(&self, kind: &'static str, given: &str, known: Vec<String>) -> LabError {
        LabError::Unknown {
            kind,
            given: given.chars().take(64).collect(),
            hint: suggestion(given, &known),
        }
    }
}

/// The management address of a host.
pub fn management_address(host: u16) -> Ipv4Addr {
    Ipv4Addr::new(10, 255, 0, host as u8 + 1)
}

/// The management switch's own address.
pub const MANAGEMENT_SWITCH: Ipv4Addr = Ipv4Addr::new(10, 255, 0, 254);

/// The net of all hosts of a leaf.
pub fn leaf_net(rail: u16, leaf: u16) -> String {
    format!("10.{rail}.{leaf}.0/24")
}

/// The address of a switch itself, which belongs to none of its ports.
pub fn own_address(node: Node) -> Option<Ipv4Addr> {
    match node {
        Node::Leaf { rail, leaf } => Some(Ipv4Addr::new(10, 254, rail as u8, leaf as u8)),
        Node::Spine { rail, spine } => Some(Ipv4Addr::new(10, 255, rail as u8, spine as u8)),
        Node::Host(_) | Node::Management => None,
    }
}

/// The net of a whole rail.
pub fn rail_net(rail: u16) -> String {
    format!("10.{rail}.0.0/16")
}

fn host_cable(shape: &Shape, rail: u16, leaf: u16, position: u16, host: u16) -> Cable {
    let address = |last: u16| Ipv4Addr::new(10, rail as u8, leaf as u8, (4 * position + last) as u8);
    let host_end = Port {
        node: Node::Host(host),
        interface: format!("rail{rail}"),
        address: address(2),
    };
    let leaf_end = Port {
        node: Node::Leaf { rail, leaf },
        interface: format!("p{position}"),
        address: address(1),
    };
    Cable {
        name: format!("h{host}-rail{rail}-leaf{leaf}"),
        rail,
        ends: [host_end, leaf_end],
        rate: shape.rate,
    }
}

fn trunk_cable(shape: &Shape, rail: u16, leaf: u16, spine: u16, strand: u16) -> Cable {
    let index = (leaf * shape.spines + spine) * shape.trunk + strand;
    let address = |last: u16| {
        let third = 128 + index / 64;
        Ipv4Addr::new(10, rail as u8, third as u8, (4 * (index % 64) + last) as u8)
    };
    let leaf_end = Port {
        node: Node::Leaf { rail, leaf },
        interface: format!("u{}", spine * shape.trunk + strand),
        address: address(1),
    };
    let spine_end = Port {
        node: Node::Spine { rail, spine },
        interface: format!("d{}", leaf * shape.trunk + strand),
        address: address(2),
    };
    let suffix = if shape.trunk > 1 {
        format!("-{strand}")
    } else {
        String::new()
    };
    Cable {
        name: format!("rail{rail}-leaf{leaf}-spine{spine}{suffix}"),
        rail,
        ends: [leaf_end, spine_end],
        rate: shape.uplink,
    }
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = PortName {
            node: &self.node.to_string(),
            port: &self.interface,
        };
        f.pad(&name.to_string())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_two_ports_share_a_name_an_address_or_a_net_in_any_shape() {
        for (text, leaves, spines, trunk) in [
            ("4x2", 2, 2, 1),
            ("16x4", 4, 4, 2),
            ("128x8", 16, 16, 4),
            ("2x1", 1, 1, 1),
        ] {
            let shape = Shape {
                leaves,
                spines,
                trunk,
                ..Shape::parse(text).unwrap()
            };
            shape.check().unwrap();
            let wiring = Wiring::new(&shape);
            let ports = wiring.ports().count();
            let names: HashSet<String> = wiring.ports().map(Port::to_string).collect();
            let addresses: HashSet<Ipv4Addr> = wiring.ports().map(|port| port.address).collect();
            let cables: HashSet<&str> = wiring.cables.iter().map(|cable| cable.name.as_str()).collect();
            assert_eq!(
                (names.len(), addresses.len(), 2 * cables.len()),
                (ports, ports, ports),
                "{text}"
            );
            let net = |address: Ipv4Addr| u32::from(address) & !3;
            assert!(
                wiring
                    .cables
                    .iter()
                    .all(|cable| net(cable.ends[0].address) == net(cable.ends[1].address))
            );
            assert!(
                wiring.ports().all(|port| port.interface.len() <= 15),
                "the kernel's limit"
            );
        }
    }

    #[test]
    fn cables_and_ports_are_found_by_the_names_of_the_topology_file() {
        let wiring = Wiring::new(&Shape::parse("4x2").unwrap());
        assert_eq!(
            wiring.cable("h1-rail0-leaf0").unwrap().ends[1].to_string(),
            "rail0-leaf0/p1"
        );
        let trunk = wiring.cable("rail0-leaf0-spine1").unwrap();
        assert_eq!(
            wiring.cable("rail0-leaf0-rail0-spine1").unwrap(),
            trunk,
            "by its ends"
        );
        assert_eq!(
            wiring.port("h3/rail1").unwrap().address,
            Ipv4Addr::new(10, 1, 1, 6)
        );
        let error = wiring.port("h3/rial1").unwrap_err().to_string();
        assert_eq!(error, "the lab has no port `h3/rial1`; did you mean `h3/rail1`?");
        assert!(wiring.host("rail0-leaf0").is_err());
    }

    #[test]
    fn the_exported_topology_is_one_the_product_accepts() {
        let wiring = Wiring::new(&Shape {
            trunk: 2,
            ..Shape::parse("4x2").unwrap()
        });
        let topology = wiring.topology();
        let again = Topology::parse("lab", &topology.to_toml()).unwrap();
        assert_eq!(again, topology);
        assert_eq!(again.rate_of("h2", "rail1"), Some(wiring.shape.rate));
        let addresses = again.link_of("h1", "rail0").unwrap().addresses.unwrap();
        assert_eq!(
            addresses.map(|address| address.to_string()),
            ["10.0.0.6", "10.0.0.5"]
        );
    }
}
