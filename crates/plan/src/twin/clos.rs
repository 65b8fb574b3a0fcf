//! Two-tier fabrics made to order: every host has a cable of every rail to a leaf, every leaf one to every spine of its rail.

use std::net::Ipv4Addr;
use std::str::FromStr;

use record::RankRecord;
use record::units::Rate;
use topology::Fabric;
use topology::{Host, Link, Port, Switch, Tier, Topology};

/// The largest fabric that is made.
const MOST_HOSTS: u32 = 8192;
const MOST_RAILS: u32 = 64;
/// Cables of one kind and rail that have addresses, four to each.
const MOST_ADDRESSES: u32 = 8192;

/// How large a fabric is. `1024x8` is 1,024 hosts with 8 rails, with as many spines as a leaf has hosts.
#[derive(Debug, Clone, PartialEq)]
pub struct Shape {
    /// Hosts.
    pub hosts: u32,
    /// Rails of every host.
    pub rails: u32,
    /// Hosts on one leaf.
    pub hosts_per_leaf: u32,
    /// Spines of every rail.
    pub spines: u32,
    /// What every cable carries.
    pub rate: Rate,
}

impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Shape, String> {
        let bad = || {
            format!(
                "`{text}` is not a fabric; write HOSTSxRAILS such as 1024x8, at most {MOST_HOSTS}x{MOST_RAILS}"
            )
        };
        let (hosts, rails) = text.split_once('x').ok_or_else(bad)?;
        let number = |text: &str, most: u32| text.parse().ok().filter(|n| (1..=most).contains(n));
        let hosts = number(hosts, MOST_HOSTS)
            .filter(|hosts| *hosts > 1)
            .ok_or_else(bad)?;
        let rails = number(rails, MOST_RAILS).ok_or_else(bad)?;
        // The power of two next to the root: leaves and spines grow alike.
        let size = (1..=6)
            .map(|power| 1 << power)
            .take_while(|size| size * size <= hosts)
            .last();
        let size = size.unwrap_or(1);
        Ok(Shape {
            hosts,
            rails,
            hosts_per_leaf: size,
            spines: size,
            rate: Rate(50e9),
        })
    }
}

/// The fabric of that shape, one rank on every host.
pub fn clos(shape: &Shape) -> (Topology, Vec<RankRecord>) {
    let per_leaf = shape.hosts_per_leaf.max(1);
    let leaves = shape.hosts.div_ceil(per_leaf);
    let mut topology = Topology {
        hosts: (0..shape.hosts)
            .map(|host| Host {
                name: format!("h{host}"),
            })
            .collect(),
        ..Topology::default()
    };
    for rail in 0..shape.rails {
        let named = format!("rail{rail}");
        let switches = (0..leaves).map(|leaf| (format!("{named}-leaf{leaf}"), Tier::Leaf));
        let spines = (0..shape.spines).map(|spine| (format!("{named}-spine{spine}"), Tier::Spine));
        topology
            .switches
            .extend(switches.chain(spines).map(|(name, tier)| Switch {
                name,
                tier,
                rail: Some(named.clone()),
                address: None,
            }));
        for host in 0..shape.hosts {
            let (leaf, position) = (host / per_leaf, host % per_leaf);
            topology.links.push(Link {
                name: format!("h{host}-{named}-leaf{leaf}"),
                ends: [
                    port(format!("h{host}"), named.clone()),
                    port(format!("{named}-leaf{leaf}"), format!("p{position}")),
                ],
                rate: shape.rate,
                rail: Some(named.clone()),
                addresses: addresses(rail, 0, host).map(|[one, two]| [two.into(), one.into()]),
            });
        }
        for (leaf, spine) in (0..leaves).flat_map(|leaf| (0..shape.spines).map(move |spine| (leaf, spine))) {
            topology.links.push(Link {
                name: format!("{named}-leaf{leaf}-spine{spine}"),
                ends: [
                    port(format!("{named}-leaf{leaf}"), format!("u{spine}")),
                    port(format!("{named}-spine{spine}"), format!("d{leaf}")),
                ],
                rate: shape.rate,
                rail: Some(named.clone()),
                addresses: addresses(rail, 128, leaf * shape.spines + spine).map(|both| both.map(Into::into)),
            });
        }
    }
    let ranks = Fabric::of(&topology).ranks;
    (topology, ranks)
}

/// The two addresses of the net of four that a cable has; none when a fabric has more cables than that.
fn addresses(rail: u32, first: u32, index: u32) -> Option<[Ipv4Addr; 2]> {
    let address = |last: u32| {
        let third = first + index / 64;
        Ipv4Addr::new(10, rail as u8, third as u8, (4 * (index % 64) + last) as u8)
    };
    (index < MOST_ADDRESSES).then(|| [address(1), address(2)])
}

fn port(node: String, interface: String) -> Port {
    Port { node, interface }
}

#[cfg(test)]
mod tests {
    use super::*;
    use topology::graph::Graph;

    #[test]
    fn a_fabric_made_to_order_is_one_the_product_accepts() {
        for (text, leaves, spines) in [("8x2", 4, 2), ("2x1", 2, 1), ("100x3", 13, 8), ("1024x8", 32, 32)] {
            let shape: Shape = text.parse().unwrap();
            let (topology, ranks) = clos(&shape);
            let again = Topology::parse("made", &topology.to_toml()).unwrap();
            assert_eq!(again, topology);
            let graph = Graph::of(&again, &ranks).unwrap();
            assert_eq!(
                topology.links.len() as u32,
                shape.rails * (shape.hosts + leaves * spines)
            );
            let last = shape.hosts - 1;
            assert_eq!(graph.paths(0, last, "rail0").len() as u32, spines, "{text}");
        }
        for text in ["", "8", "1x1", "8x0", "9999x8", "8x65", "-8x2", "axb"] {
            assert!(text.parse::<Shape>().is_err(), "{text}");
        }
    }
}
