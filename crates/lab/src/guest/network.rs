//! The interfaces of a guest: which one inside is which one outside, and the cable over which it is told what to do.
//!
//! Pure. Inside, the first interface leads to the agent and is out of sight of every command; then come management and the
//! rails, under their own names and with the addresses that the namespace would have had.

use std::net::{Ipv4Addr, SocketAddr};

use super::super::config::{MANAGEMENT, NodeConfig, config};
use super::super::faults::Faults;
use super::super::{Node, Shape, Wiring};

/// The outer end of the control cable, with the address a client comes from.
const CONTROL: &str = "ctl0";
/// Its inner end, which the kernel takes.
const CONTROL_PEER_NAME: &str = "ctl1";
const CONTROL_HERE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const CONTROL_THERE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
/// Both ends know each other's hardware address, so that no ARP is needed while the other is not up yet.
const CONTROL_MAC: [&str; 2] = ["02:72:67:ff:00:01", "02:72:67:ff:00:02"];
/// Where the agent listens. Every host has the same: the cable leads nowhere else.
pub const CONTROL_PEER: SocketAddr = SocketAddr::V4(std::net::SocketAddrV4::new(CONTROL_THERE, 1));
/// The interface inside that the control cable ends at.
pub const CONTROL_INSIDE: &str = "vec0";

/// The line for `ip`, in the root namespace, that plugs a host's control cable.
pub fn control_cable(namespace: &str) -> String {
    let [here, there] = CONTROL_MAC;
    format!(
        "link add name {CONTROL} index 60 address {here} netns {namespace} type veth peer name {CONTROL_PEER_NAME} index 61 \
         address {there} netns {namespace}"
    )
}

/// The lines for `ip`, in a host's namespace, that bring its control cable up.
pub fn control_links() -> [String; 4] {
    [
        format!("addr replace {CONTROL_HERE}/30 dev {CONTROL}"),
        format!("link set dev {CONTROL} up"),
        format!("link set dev {CONTROL_PEER_NAME} up"),
        format!(
            "neigh replace {CONTROL_THERE} lladdr {} dev {CONTROL} nud permanent",
            CONTROL_MAC[1]
        ),
    ]
}

/// The same for the inner end, in the agent's own namespace inside the guest.
pub fn control_links_inside() -> [String; 4] {
    [
        "link set dev lo up".to_string(),
        format!("addr replace {CONTROL_THERE}/30 dev {CONTROL_INSIDE}"),
        format!("link set dev {CONTROL_INSIDE} up"),
        format!(
            "neigh replace {CONTROL_HERE} lladdr {} dev {CONTROL_INSIDE} nud permanent",
            CONTROL_MAC[0]
        ),
    ]
}

/// The interfaces of a guest, management first, as named both outside and inside, with the name they are born with.
pub fn interfaces(shape: &Shape) -> Vec<(String, String)> {
    let rails = (0..shape.rails).map(|rail| format!("rail{rail}"));
    let all = [MANAGEMENT.to_string()].into_iter().chain(rails);
    (1..)
        .zip(all)
        .map(|(index, name)| (name, format!("vec{index}")))
        .collect()
}

/// The kernel's arguments that give it its interfaces.
pub fn vectors(shape: &Shape, host: u16) -> Vec<String> {
    let vector = |born: &str, interface: &str, mtu: u32, mac: &str| {
        format!("{born}:transport=raw,ifname={interface},depth=128,mtu={mtu},mac={mac}")
    };
    let mut arguments = vec![vector(CONTROL_INSIDE, CONTROL_PEER_NAME, 1500, CONTROL_MAC[1])];
    for (index, (name, born)) in (0u16..).zip(interfaces(shape)) {
        let mtu = if name == MANAGEMENT { 1500 } else { shape.mtu };
        let mac = format!("02:72:67:{:02x}:{:02x}:{index:02x}", host >> 8, host & 0xff);
        arguments.push(vector(&born, &name, mtu, &mac));
    }
    arguments
}

/// The RDMA device on every rail, and its rail's interface.
pub fn devices(shape: &Shape) -> impl Iterator<Item = (String, String)> + use<> {
    (0..shape.rails).map(|rail| (format!("rxe{rail}"), format!("rail{rail}")))
}

/// What a guest configures inside: what its namespace would have had, less what stays with the cables outside.
pub fn guest_config(wiring: &Wiring, node: Node) -> NodeConfig {
    let mut plain = wiring.clone();
    plain.shape.guests = None;
    NodeConfig {
        rates: Vec::new(),
        filter: Vec::new(),
        ..config(&plain, Faults(&[]), node)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn shape() -> Shape {
        Shape {
            guests: Some("/k".into()),
            ..Shape::parse("4x2").unwrap()
        }
    }

    #[test]
    fn every_interface_of_the_namespace_is_one_of_the_guest() {
        let lines = vectors(&shape(), 3);
        assert_eq!(
            lines[0],
            "vec0:transport=raw,ifname=ctl1,depth=128,mtu=1500,mac=02:72:67:ff:00:02"
        );
        assert_eq!(
            lines[1],
            "vec1:transport=raw,ifname=mg0,depth=128,mtu=1500,mac=02:72:67:00:03:00"
        );
        assert_eq!(
            lines[3],
            "vec3:transport=raw,ifname=rail1,depth=128,mtu=9000,mac=02:72:67:00:03:02"
        );
        assert_eq!(lines.len(), 4);
        let macs: HashSet<String> = (0..4)
            .flat_map(|host| vectors(&shape(), host).split_off(1))
            .collect();
        assert_eq!(macs.len(), 12, "no two interfaces of a lab look alike");
    }

    #[test]
    fn addresses_and_routes_move_into_the_guest_and_rates_stay_outside() {
        let (wiring, h3) = (Wiring::new(&shape()), Node::Host(3));
        let (inside, outside) = (guest_config(&wiring, h3), config(&wiring, Faults(&[]), h3));
        assert!(
            inside
                .links
                .contains(&"addr replace 10.1.1.6/30 dev rail1".to_string())
        );
        assert!(
            inside
                .links
                .contains(&"addr replace 10.255.0.4/24 dev mg0".to_string())
        );
        assert_eq!(inside.routes.len(), 2);
        assert!(inside.rates.is_empty() && outside.rates.len() == 2);
        assert!(outside.routes.is_empty(), "{:?}", outside.routes);
        let addresses = |config: &NodeConfig| {
            config
                .links
                .iter()
                .filter(|line| line.starts_with("addr"))
                .count()
        };
        assert_eq!(
            (addresses(&inside), addresses(&outside)),
            (3, 1),
            "outside: control only"
        );
    }
}
