//! The routes of every node, as a routing protocol would have agreed on them: cut cables are avoided where there is
//! another way, and where there is none packets are dropped at once.

use super::faults::Faults;
use super::wiring::{leaf_net, rail_net};
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
                    "route replace {} via {gateway} dev {}",
                    rail_net(cable.rail),
                    port.interface
                )
            })
            .collect(),
        Node::Leaf { rail, leaf } => (0..shape.leaves)
            .filter(|other| *other != leaf)
            .map(|other| {
                let hops = usable(wiring, faults, rail, leaf)
                    .filter(|(spine, _)| usable(wiring, faults, rail, other).any(|(also, _)| also == *spine))
                    .map(|(spine, cable)| hop(cable, 0, faults.weight(node, spine)))
                    .collect();
                route(leaf_net(rail, other), hops)
            })
            .collect(),
        Node::Spine { rail, spine } => (0..shape.leaves)
            .map(|leaf| {
                let hops = usable(wiring, faults, rail, leaf)
                    .filter(|(of, _)| *of == spine)
                    .map(|(_, cable)| hop(cable, 1, 1))
                    .collect();
                route(leaf_net(rail, leaf), hops)
            })
            .collect(),
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
        "nexthop via {gateway} dev {} weight {weight}",
        cable.ends[from].interface
    )
}

fn route(net: String, hops: Vec<String>) -> String {
    match hops.len() {
        0 => format!("route replace blackhole {net}"),
        _ => format!("route replace {net} {}", hops.join(" ")),
    }
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
    fn weights_are_those_of_the_leaf_they_were_given_for() {
        let faults = ["weights:rail0-leaf0=3:1"];
        assert!(
            of("rail0-leaf0", &faults)[0].contains("dev u0 weight 3 nexthop via 10.0.128.6 dev u1 weight 1")
        );
        assert!(!of("rail0-leaf1", &faults)[0].contains("weight 3"));
    }
}
