//! The routes of every node, as a routing protocol would have agreed on them: cut cables are avoided where there is
//! another way, and where there is none packets are dropped at once.

use std::net::Ipv4Addr;

use super::fault::Answers;
use super::faults::Faults;
use super::wiring::{leaf_net, own_address, rail_net};
use super::{Cable, Node, Wiring};

/// The `route replace` lines of a node. There is always one line per destination, whatever the faults.
pub fn routes(wiring: &Wiring, faults: Faults<'_>, node: Node) -> Vec<String> {
    let shape = &wiring.shape;
    match node {
        Node::Management => Vec::new(),
        Node::Host(_) => wiring
            .ports_of(node)
            .map(|(port, cable)| {
                let gateway = cable.ends[1].address;
                format!(
                    "route replace {} via {gateway} dev {}{}",
                    rail_net(cable.rail),
                    port.interface,
                    on_link(cable)
                )
            })
            .collect(),
        Node::Leaf { rail, leaf } => {
            let to_leaf = |other: u16| {
                let hops = usable(wiring, faults, rail, leaf)
                    .filter(|(spine, _)| usable(wiring, faults, rail, other).any(|(also, _)| also == *spine));
                hops.map(|(spine, cable)| hop(cable, 0, faults.weight(node, spine)))
                    .collect::<Vec<_>>()
            };
            let others = (0..shape.leaves).filter(|other| *other != leaf);
            let nets = others.map(|other| route(leaf_net(rail, other), source(faults, node), to_leaf(other)));
            let hosts = displaced(wiring, rail).map(|(host, here, port)| match here == leaf {
                true => format!("route replace {host}/32 dev {port} proto {DISPLACED}"),
                false => host_route(host, source(faults, node), to_leaf(here)),
            });
            nets.chain(hosts).collect()
        }
        Node::Spine { rail, spine } => {
            let to_leaf = |leaf: u16| {
                let hops = usable(wiring, faults, rail, leaf).filter(|(of, _)| *of == spine);
                hops.map(|(_, cable)| hop(cable, 1, 1)).collect::<Vec<_>>()
            };
            let nets = (0..shape.leaves)
                .map(|leaf| route(leaf_net(rail, leaf), source(faults, node), to_leaf(leaf)));
            let hosts = displaced(wiring, rail)
                .map(|(host, here, _)| host_route(host, source(faults, node), to_leaf(here)));
            nets.chain(hosts).collect()
        }
    }
}

/// The protocol number of routes to hosts that are on another port than their net, so that they can be taken away together.
pub const DISPLACED: u8 = 188;

/// The hosts of a rail that are on another port than their net: address, leaf and port.
fn displaced(wiring: &Wiring, rail: u16) -> impl Iterator<Item = (Ipv4Addr, u16, &str)> {
    let cables = wiring.cables.iter().filter(move |cable| cable.rail == rail);
    cables.filter(|cable| !cable.is_one_net()).filter_map(|cable| {
        match (cable.ends[0].node, cable.ends[1].node) {
            (Node::Host(_), Node::Leaf { leaf, .. }) => {
                Some((cable.ends[0].address, leaf, cable.ends[1].interface.as_str()))
            }
            _ => None,
        }
    })
}

/// What makes the kernel believe that an address of another net is at the other end of a cable.
fn on_link(cable: &Cable) -> &'static str {
    match cable.is_one_net() {
        true => "",
        false => " onlink",
    }
}

/// The cables of a leaf to its spines that are not cut, with the spine, in the order of the spines.
fn usable<'w>(
    wiring: &'w Wiring,
    faults: Faults<'w>,
    rail: u16,
    leaf: u16,
) -> impl Iterator<Item = (u16, &'w Cable)> {
    wiring
        .ports_of(Node::Leaf { rail, leaf })
        .map(|(_, cable)| cable)
        .filter_map(|cable| match cable.ends[1].node {
            Node::Spine { spine, .. } => Some((spine, cable)),
            _ => None,
        })
        .filter(move |(_, cable)| !faults.is_cut(cable))
}

/// A next hop over `cable`, seen from its end number `from`.
fn hop(cable: &Cable, from: usize, weight: u16) -> String {
    let gateway = cable.ends[1 - from].address;
    format!(
        "nexthop via {gateway} dev {} weight {weight}{}",
        cable.ends[from].interface,
        on_link(cable)
    )
}

fn route(net: String, source: String, hops: Vec<String>) -> String {
    match hops.len() {
        0 => format!("route replace blackhole {net}"),
        _ => format!("route replace {net} {source}{}", hops.join(" ")),
    }
}

/// The route to a host that is on another port than its net.
fn host_route(host: Ipv4Addr, source: String, hops: Vec<String>) -> String {
    match hops.len() {
        0 => format!("route replace blackhole {host}/32 proto {DISPLACED}"),
        _ => route(format!("{host}/32"), format!("proto {DISPLACED} {source}"), hops),
    }
}

/// The address from which a switch speaks for itself, where it is not that of a port.
fn source(faults: Faults<'_>, node: Node) -> String {
    match (faults.answers(node), own_address(node)) {
        (Answers::Loopback, Some(address)) => format!("src {address} "),
        _ => String::new(),
    }
}

/// Where the switches that a switch may choose from are reached: per net of hosts the next hops' addresses and interfaces. Only
/// nets with several.
pub fn choices(wiring: &Wiring, faults: Faults<'_>, node: Node) -> Vec<(String, Vec<(Ipv4Addr, String)>)> {
    let next =
        |cable: &Cable, from: usize| (cable.ends[1 - from].address, cable.ends[from].interface.clone());
    let leaves = 0..wiring.shape.leaves;
    let mut nets: Vec<(String, Vec<(Ipv4Addr, String)>)> = match node {
        Node::Leaf { rail, leaf } => leaves
            .filter(|other| *other != leaf)
            .map(|other| {
                let both = usable(wiring, faults, rail, leaf)
                    .filter(|(spine, _)| usable(wiring, faults, rail, other).any(|(also, _)| also == *spine));
                (
                    leaf_net(rail, other),
                    both.map(|(_, cable)| next(cable, 0)).collect(),
                )
            })
            .collect(),
        Node::Spine { rail, spine } => leaves
            .map(|leaf| {
                let own = usable(wiring, faults, rail, leaf).filter(|(of, _)| *of == spine);
                (
                    leaf_net(rail, leaf),
                    own.map(|(_, cable)| next(cable, 1)).collect(),
                )
            })
            .collect(),
        Node::Host(_) | Node::Management => Vec::new(),
    };
    nets.retain(|(_, hops)| hops.len() > 1);
    nets
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fault, Shape};

    fn wiring() -> Wiring {
        Wiring::new(&Shape::parse("4x2").unwrap())
    }

    fn of(node: &str, faults: &[&str]) -> Vec<String> {
        let faults: Vec<Fault> = faults.iter().map(|fault| fault.parse().unwrap()).collect();
        routes(&wiring(), Faults(&faults), node.parse().unwrap())
    }

    #[test]
    fn a_host_reaches_each_rail_through_that_rail_only() {
        assert_eq!(
            of("h1", &[]),
            [
                "route replace 10.0.0.0/16 via 10.0.0.5 dev rail0",
                "route replace 10.1.0.0/16 via 10.1.0.5 dev rail1"
            ]
        );
    }

    #[test]
    fn a_leaf_spreads_over_all_spines_and_a_spine_knows_every_leaf() {
        assert_eq!(
            of("rail0-leaf0", &[]),
            [
                "route replace 10.0.1.0/24 nexthop via 10.0.128.2 dev u0 weight 1 nexthop via 10.0.128.6 dev u1 weight 1"
            ]
        );
        assert_eq!(
            of("rail0-spine1", &[]),
            [
                "route replace 10.0.0.0/24 nexthop via 10.0.128.5 dev d0 weight 1",
                "route replace 10.0.1.0/24 nexthop via 10.0.128.13 dev d1 weight 1"
            ]
        );
    }

    #[test]
    fn a_cut_cable_is_avoided_from_both_sides() {
        let cut = ["cut:rail0-leaf0-spine1"];
        let near = ["route replace 10.0.1.0/24 nexthop via 10.0.128.2 dev u0 weight 1"];
        assert_eq!(of("rail0-leaf0", &cut), near);
        assert!(
            !of("rail0-leaf1", &cut)[0].contains("u1"),
            "the far leaf must not send there either"
        );
        assert_eq!(of("rail0-spine1", &cut)[0], "route replace blackhole 10.0.0.0/24");
        let both = ["cut:rail0-leaf0-spine1", "cut:rail0-leaf1-spine0"];
        assert_eq!(of("rail0-leaf0", &both), ["route replace blackhole 10.0.1.0/24"]);
    }

    #[test]
    fn a_host_on_another_leaf_is_reached_there_and_its_net_stays() {
        let swap = ["swap:h0-rail0-leaf0,h2-rail0-leaf1"];
        let faults: Vec<Fault> = swap.iter().map(|fault| fault.parse().unwrap()).collect();
        let plugged = wiring().plugged(&faults);
        let of = |node: &str| routes(&plugged, Faults(&faults), node.parse().unwrap());
        assert_eq!(
            of("h0")[0],
            "route replace 10.0.0.0/16 via 10.0.1.1 dev rail0 onlink"
        );
        let leaf = of("rail0-leaf1");
        assert!(
            leaf.contains(&"route replace 10.0.0.2/32 dev p0 proto 188".to_string()),
            "{leaf:?}"
        );
        assert!(
            leaf.iter()
                .any(|line| line.starts_with("route replace 10.0.1.2/32 proto 188 nexthop via ")),
            "{leaf:?}"
        );
        assert_eq!(of("rail0-spine0").len(), 4, "two nets and two hosts");
        assert_eq!(of("rail1-spine0").len(), 2, "the other rail is as it was");
    }

    #[test]
    fn weights_are_those_of_the_leaf_they_were_given_for() {
        let faults = ["weights:rail0-leaf0=3:1"];
        assert!(
            of("rail0-leaf0", &faults)[0].contains("dev u0 weight 3 nexthop via 10.0.128.6 dev u1 weight 1")
        );
        assert!(!of("rail0-leaf1", &faults)[0].contains("weight 3"));
    }
}
