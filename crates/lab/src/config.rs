//! What a node should look like: a pure function of the wiring and the faults in force.
//!
//! Every line states a wish that can be repeated (`replace`, `set`), so applying the lines that differ between two
//! configurations leads from one to the other, and back.

use std::net::Ipv4Addr;

use super::fault::Answers;
use super::faults::Faults;
use super::routes::{choices, routes};
use super::wiring::{MANAGEMENT_SWITCH, management_address, own_address};
use super::{Cable, Node, Port, Wiring, guest, packets};
use record::units::Rate;

/// The interface of a host on the management network.
pub const MANAGEMENT: &str = "mg0";
/// The management switch's bridge.
pub const BRIDGE: &str = "br0";
/// The hash seed, which older kernels do not have.
pub const HASH_SEED: &str = "net/ipv4/fib_multipath_hash_seed";

/// Milliseconds between two answers to the same asker, and the kinds of answers that are limited: the kernel's defaults.
const ANSWER_INTERVAL_MS: &str = "1000";
const LIMITED_KINDS: &str = "6168";

/// What a switch's hash looks at: both addresses, the protocol, both ports.
const FIVE_TUPLE: &str = "55";

/// A kernel setting of a namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sysctl {
    /// Below `/proc/sys`.
    pub path: &'static str,
    /// What it should be.
    pub value: String,
    /// Whether a kernel without it will do.
    pub optional: bool,
}

/// Everything that is set in a node's namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeConfig {
    /// Kernel settings, which come before interfaces.
    pub sysctls: Vec<Sysctl>,
    /// `ip` lines: addresses and the state of links.
    pub links: Vec<String>,
    /// `ip` lines: routes.
    pub routes: Vec<String>,
    /// `tc` lines: rates.
    pub rates: Vec<String>,
    /// Interfaces whose offloads are off, so that packets on the wire are as large as packets counted.
    pub plain: Vec<String>,
    /// The whole packet filter; empty when there is none.
    pub filter: Vec<String>,
}

/// The lines for `ip`, in the root namespace, that make all namespaces.
pub fn namespaces(wiring: &Wiring, namespace: &dyn Fn(Node) -> String) -> Vec<String> {
    let nodes = wiring.shape.nodes().into_iter();
    nodes
        .map(|node| format!("netns add {}", namespace(node)))
        .collect()
}

/// The lines for `ip`, in the root namespace, that plug all cables. Both ends are born inside their namespaces.
///
/// The two ends of a cable must not have the same index: the kernel then takes them for one ordinary interface and may
/// take a second to say that it is up.
pub fn cables(wiring: &Wiring, namespace: &dyn Fn(Node) -> String) -> Vec<String> {
    let rails = rail_cables(wiring, namespace).into_iter();
    let switch = namespace(Node::Management);
    let management = (0..wiring.shape.hosts).map(|host| {
        let (node, here, there) = (namespace(Node::Host(host)), index_of(MANAGEMENT), 1000 + host);
        format!(
            "link add name {MANAGEMENT} index {here} netns {node} type veth peer name h{host} index {there} netns {switch}"
        )
    });
    let bridge = format!("link add name {BRIDGE} netns {switch} type bridge");
    let guests = match wiring.shape.guests {
        Some(_) => wiring.shape.hosts,
        None => 0,
    };
    let control = (0..guests).map(|host| guest::control_cable(&namespace(Node::Host(host))));
    rails.chain([bridge]).chain(management).chain(control).collect()
}

/// The same for the cables of rails alone.
pub fn rail_cables(wiring: &Wiring, namespace: &dyn Fn(Node) -> String) -> Vec<String> {
    let mtu = wiring.shape.mtu;
    let end = |port: &Port| {
        let index = index_of(&port.interface);
        format!(
            "name {} index {index} mtu {mtu} netns {}",
            port.interface,
            namespace(port.node)
        )
    };
    let plug = |cable: &Cable| {
        let [low, high] = &cable.ends;
        format!("link add {} type veth peer {}", end(low), end(high))
    };
    wiring.cables.iter().map(plug).collect()
}

/// The index of an interface, fixed by its name: each kind has a range of its own.
fn index_of(interface: &str) -> u16 {
    let start = interface.trim_end_matches(|c: char| c.is_ascii_digit());
    let number: u16 = interface[start.len()..].parse().unwrap_or(0);
    number
        + match start {
            "rail" => 10,
            "p" => 100,
            "u" => 200,
            "d" => 400,
            _ => 50,
        }
}

/// What `node` should look like.
pub fn config(wiring: &Wiring, faults: Faults<'_>, node: Node) -> NodeConfig {
    // What a guest has inside, its namespace must not have: it would answer in its place.
    let has_guest = wiring.shape.guests.is_some() && matches!(node, Node::Host(_));
    let mut config = NodeConfig {
        sysctls: sysctls(wiring, faults, node),
        links: vec!["link set dev lo up".to_string()],
        routes: match has_guest {
            true => Vec::new(),
            false => routes(wiring, faults, node),
        },
        ..NodeConfig::default()
    };
    let silence = match faults.answers(node) {
        Answers::Silent => Some(silence_rule(wiring, node)),
        _ => None,
    };
    for (port, cable) in wiring.ports_of(node) {
        let interface = &port.interface;
        let is_down = faults.is_cut(cable) && cable.ends[1] == *port;
        if !has_guest {
            config
                .links
                .push(format!("addr replace {}/30 dev {interface}", port.address));
        }
        config.links.push(format!(
            "link set dev {interface} {}",
            if is_down { "down" } else { "up" }
        ));
        let rate = Rate(cable.rate.0 * faults.share(port, cable));
        let (mtu, buffer) = (wiring.shape.mtu, faults.buffer(port));
        config.rates.push(packets::shaper(interface, rate, mtu, buffer));
        config.plain.push(interface.clone());
        // A host that drops what it sends tells its own TCP, which a cable cannot: that is lost where it arrives.
        let is_sent_by_host = |port: &Port| matches!(port.node, Node::Host(_));
        let loss = drop_rule(faults.lost_ppm(port, cable)).filter(|_| !is_sent_by_host(port));
        let sender = cable
            .ends
            .iter()
            .find(|end| end.node != node && is_sent_by_host(end));
        if let Some(rule) = sender.and_then(|sender| drop_rule(faults.lost_ppm(sender, cable))) {
            config.filter.push(format!(
                "chain lost-{interface} {{ type filter hook ingress device \"{interface}\" priority -1; policy accept; {rule}; }}"
            ));
        }
        let marks = faults
            .marks_above(port)
            .map(|above| packets::mark_rule(above, rate, mtu));
        let copies = packets::copy_rule(faults.copied_ppm(port), interface);
        let rules: Vec<String> = loss
            .into_iter()
            .chain(silence.clone())
            .chain(marks)
            .chain(copies)
            .collect();
        if !rules.is_empty() {
            // What was drawn once for this port is not drawn again when it comes back.
            let returned = Some(packets::returned_rule()).filter(|_| !faults.disturbance(port).is_none());
            let rules: Vec<String> = returned.into_iter().chain(rules).collect();
            config.filter.push(format!(
                "chain {interface} {{ type filter hook egress device \"{interface}\" priority 0; policy accept; {}; }}",
                rules.join("; ")
            ));
        }
    }
    if faults.is_spraying(node) {
        config.filter.extend(spray_chains(wiring, faults, node));
    }
    if let Some(address) = own_address(node) {
        config.links.push(format!("addr replace {address}/32 dev lo"));
    }
    match node {
        Node::Host(_) if has_guest => {
            config.links.extend(guest::control_links());
            config.links.push(format!("link set dev {MANAGEMENT} up"));
        }
        Node::Host(host) => {
            config.links.push(format!(
                "addr replace {}/24 dev {MANAGEMENT}",
                management_address(host)
            ));
            config.links.push(format!("link set dev {MANAGEMENT} up"));
        }
        Node::Management => config.links.extend(management_switch(wiring, faults)),
        Node::Leaf { .. } | Node::Spine { .. } => {}
    }
    config
}

/// The rule that loses this many of a million packets; ARP stays, so that routes keep pointing where packets vanish.
fn drop_rule(ppm: u32) -> Option<String> {
    (ppm > 0).then(|| format!("{}drop", packets::drawn(ppm)))
}

/// The rule that keeps a switch's own answers to traces back; those of others pass.
fn silence_rule(wiring: &Wiring, node: Node) -> String {
    let ports = wiring.ports_of(node).map(|(port, _)| port.address);
    let own: Vec<String> = ports
        .chain(own_address(node))
        .map(|address| address.to_string())
        .collect();
    format!("ip saddr {{ {} }} icmp type time-exceeded drop", own.join(", "))
}

/// The chains that send every packet over one of the equal next hops, drawn anew. A packet whose time to live ends here is left to
/// the kernel, which answers it.
fn spray_chains(wiring: &Wiring, faults: Faults<'_>, node: Node) -> Vec<String> {
    let nets = choices(wiring, faults, node);
    let mut hops: Vec<&(Ipv4Addr, String)> = nets.iter().flat_map(|(_, hops)| hops).collect();
    hops.sort();
    hops.dedup();
    let send = hops.iter().map(|(gateway, interface)| {
        format!("chain to-{interface} {{ fwd ip to {gateway} device \"{interface}\"; }}")
    });
    let rules: Vec<String> = nets
        .iter()
        .map(|(net, hops)| {
            let draws: Vec<String> = (0..)
                .zip(hops)
                .map(|(number, (_, interface)): (usize, _)| format!("{number} : goto to-{interface}"))
                .collect();
            let draw = format!("numgen random mod {} vmap {{ {} }}", hops.len(), draws.join(", "));
            format!("ip daddr {net} ip ttl > 1 {draw}")
        })
        .collect();
    let ports = wiring.ports_of(node).map(|(port, _)| &port.interface);
    let spray = ports.map(|interface| {
        format!(
            "chain spray-{interface} {{ type filter hook ingress device \"{interface}\" priority 0; policy accept; {}; }}",
            rules.join("; ")
        )
    });
    match rules.is_empty() {
        true => Vec::new(),
        false => send.chain(spray).collect(),
    }
}

/// The lines that plug all hosts into the management bridge.
fn management_switch(wiring: &Wiring, faults: Faults<'_>) -> Vec<String> {
    let mut lines = vec![
        format!("addr replace {MANAGEMENT_SWITCH}/24 dev {BRIDGE}"),
        format!("link set dev {BRIDGE} up"),
    ];
    for host in 0..wiring.shape.hosts {
        let state = if faults.management_cut(host) { "down" } else { "up" };
        lines.push(format!("link set dev h{host} master {BRIDGE}"));
        lines.push(format!("link set dev h{host} {state}"));
    }
    lines
}

fn sysctls(wiring: &Wiring, faults: Faults<'_>, node: Node) -> Vec<Sysctl> {
    let set = |path, value: &str| Sysctl {
        path,
        value: value.to_string(),
        optional: false,
    };
    let maybe = |path, value: &str| Sysctl {
        optional: true,
        ..set(path, value)
    };
    let mut sysctls = vec![
        maybe("net/ipv6/conf/all/disable_ipv6", "1"),
        maybe("net/ipv6/conf/default/disable_ipv6", "1"),
        set("net/ipv4/conf/all/rp_filter", "0"),
        set("net/ipv4/conf/default/rp_filter", "0"),
        set("net/ipv4/ip_forward", if node.is_switch() { "1" } else { "0" }),
    ];
    if matches!(node, Node::Host(_)) {
        // The kernel's own choice is 2: marks are agreed on when the other side asks for them, which nobody then does.
        sysctls.push(set(
            "net/ipv4/tcp_ecn",
            if faults.uses_marks() { "1" } else { "2" },
        ));
    }
    if node.is_switch() {
        let answers = faults.answers(node);
        // Policy 1 would do, but takes the hash that the sending socket, in the same kernel, has left with the packet: a
        // random one, whatever its ports. Policy 3 looks at the packet.
        let policy = match (faults.hashes_l3(node), faults.is_unpinned(node)) {
            (true, _) => "0",
            // Packets of the same machine are then spread by a number that the sending socket draws.
            (false, true) => "1",
            (false, false) => "3",
        };
        sysctls.extend([
            set("net/ipv4/fib_multipath_hash_policy", policy),
            set("net/ipv4/fib_multipath_hash_fields", FIVE_TUPLE),
            // A next hop whose address is just being asked for would be passed over, and the flow would take another path for a moment.
            // Which cables are down is known by their carrier.
            set("net/ipv4/fib_multipath_use_neigh", "0"),
            set("net/ipv4/conf/all/ignore_routes_with_linkdown", "1"),
            set("net/ipv4/conf/default/ignore_routes_with_linkdown", "1"),
            // Unless told otherwise, a trace gets an answer from every switch, with the address of the ingress port.
            set(
                "net/ipv4/icmp_errors_use_inbound_ifaddr",
                match answers {
                    Answers::Egress | Answers::Loopback => "0",
                    Answers::Inbound | Answers::Limited | Answers::Silent => "1",
                },
            ),
            set(
                "net/ipv4/icmp_ratelimit",
                if answers == Answers::Limited {
                    ANSWER_INTERVAL_MS
                } else {
                    "0"
                },
            ),
            set(
                "net/ipv4/icmp_ratemask",
                if answers == Answers::Limited {
                    LIMITED_KINDS
                } else {
                    "0"
                },
            ),
            maybe(
                HASH_SEED,
                &hash_seed(wiring.shape.seed, faults.polarised(), node).to_string(),
            ),
        ]);
    }
    sysctls
}

/// The seed of a switch's hash: fixed, so that placement is repeatable, and different for every switch, so that the choice
/// of one tier says nothing about the choice of the next. A polarised fabric has one seed for all.
fn hash_seed(seed: u64, polarised: bool, node: Node) -> u32 {
    let place = match node {
        _ if polarised => 0,
        Node::Leaf { rail, leaf } => 1 + (u64::from(rail) << 16 | u64::from(leaf)),
        Node::Spine { rail, spine } => (1 << 40) + (u64::from(rail) << 16 | u64::from(spine)),
        Node::Host(_) | Node::Management => 0,
    };
    // The finaliser of SplitMix64: every bit of the input decides every bit of the output.
    let mut mixed = seed.wrapping_add(place.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    (((mixed ^ (mixed >> 31)) & 0x7fff_ffff) as u32).max(1)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::{Cable, Fault, Shape};

    fn wiring() -> Wiring {
        Wiring::new(&Shape {
            trunk: 2,
            ..Shape::parse("4x2").unwrap()
        })
    }

    fn of(node: &str, faults: &[&str]) -> NodeConfig {
        let faults: Vec<Fault> = faults.iter().map(|fault| fault.parse().unwrap()).collect();
        config(&wiring(), Faults(&faults), node.parse().unwrap())
    }

    /// The lines of a node that a fault changes.
    fn changed(node: &str, fault: &str) -> Vec<String> {
        let lines = |config: NodeConfig| -> Vec<String> {
            let sysctls = config
                .sysctls
                .into_iter()
                .map(|sysctl| format!("{}={}", sysctl.path, sysctl.value));
            [
                sysctls.collect(),
                config.links,
                config.routes,
                config.rates,
                config.filter,
            ]
            .concat()
        };
        let healthy = lines(of(node, &[]));
        lines(of(node, &[fault]))
            .into_iter()
            .filter(|line| !healthy.contains(line))
            .collect()
    }

    #[test]
    fn a_slow_port_is_slow_in_its_direction_only() {
        let slow = ["qdisc replace dev rail0 root tbf rate 120000000bit burst 128k latency 20ms"];
        assert_eq!(changed("h1", "slow:h1/rail0=60%"), slow);
        assert!(changed("rail0-leaf0", "slow:h1/rail0=60%").is_empty());
        assert_eq!(changed("h1", "slow-cable:h1-rail0-leaf0=60%"), slow);
        assert_eq!(changed("rail0-leaf0", "slow-cable:h1-rail0-leaf0=60%").len(), 1);
    }

    #[test]
    fn a_cut_takes_the_switch_side_down() {
        assert_eq!(
            changed("rail0-leaf0", "cut:h1-rail0-leaf0"),
            ["link set dev p1 down"]
        );
        assert!(changed("h1", "cut:h1-rail0-leaf0").is_empty());
        assert_eq!(changed("mgmt", "management-cut:h2"), ["link set dev h2 down"]);
    }

    #[test]
    fn a_dead_hop_drops_all_and_loss_drops_some_and_no_route_changes() {
        // What a host sends is lost where it arrives: its own TCP would notice a drop at its own port.
        assert!(changed("h0", "loss:h0/rail1=0.1%").is_empty());
        let at_leaf = changed("rail1-leaf0", "loss:h0/rail1=0.1%");
        assert!(
            at_leaf.len() == 1
                && at_leaf[0].contains("hook ingress device \"p0\"")
                && at_leaf[0].contains("< 1000 drop"),
            "{at_leaf:?}"
        );
        let to_host = changed("rail1-leaf0", "loss:rail1-leaf0/p0=0.1%");
        assert!(
            to_host.len() == 1
                && to_host[0].contains("hook egress device \"p0\"")
                && to_host[0].contains("< 1000 drop"),
            "{to_host:?}"
        );
        let dead = changed("rail0-leaf0", "dead-hop:rail0-leaf0->rail0-spine1");
        assert_eq!(dead.len(), 2, "both cables of the trunk: {dead:?}");
        assert!(
            dead.iter().all(|line| line.contains("meta protocol ip drop;")),
            "{dead:?}"
        );
        assert!(changed("rail0-spine1", "dead-hop:rail0-leaf0->rail0-spine1").is_empty());
    }

    #[test]
    fn what_is_done_to_packets_changes_the_filter_of_their_port_only() {
        let twice = changed("h1", "duplicate:h1/rail0=1%");
        assert!(
            twice.len() == 1
                && twice[0].contains("egress device \"rail0\"")
                && twice[0].contains("< 10000 dup to \"rail0\""),
            "{twice:?}"
        );
        assert!(changed("rail0-leaf0", "duplicate:h1/rail0=1%").is_empty());
        for by_a_process in [
            "corrupt:h1/rail0=1%",
            "reorder:h1/rail0=1%",
            "jitter:h1/rail0=1ms",
        ] {
            assert!(changed("h1", by_a_process).is_empty(), "{by_a_process}");
        }
        // What comes back from the process was drawn before.
        let both = of("h1", &["duplicate:h1/rail0=1%", "jitter:h1/rail0=1ms"]);
        let place = |text: &str| both.filter[0].find(text).unwrap();
        assert!(place("meta mark") < place("dup to"), "{:?}", both.filter);
    }

    #[test]
    fn a_small_buffer_is_that_of_one_port_and_goes_with_a_slow_one() {
        assert_eq!(
            changed("rail0-leaf0", "buffer:rail0-leaf0/p1=60kB"),
            ["qdisc replace dev p1 root tbf rate 200000000bit burst 30000 limit 30000"]
        );
        let both = of(
            "rail0-leaf0",
            &["buffer:rail0-leaf0/p1=60kB", "slow:rail0-leaf0/p1=50%"],
        );
        assert!(
            both.rates
                .iter()
                .any(|line| line.ends_with("p1 root tbf rate 100000000bit burst 30000 limit 30000")),
            "{:?}",
            both.rates
        );
    }

    #[test]
    fn switches_that_mark_do_so_at_all_their_ports_but_those_that_do_not_and_hosts_ask_for_it() {
        let ports = changed("rail0-leaf0", "ecn:all=on,above=30kB");
        assert_eq!(
            ports.len(),
            6,
            "two hosts, two spines with two cables each: {ports:?}"
        );
        assert!(
            ports
                .iter()
                .all(|line| line.contains("burst 4 packets ip ecn set ce"))
        );
        assert_eq!(changed("h0", "ecn:all=on"), ["net/ipv4/tcp_ecn=1"]);
        let but_one = of("rail0-leaf0", &["ecn:all=on", "ecn:rail0-leaf0/p1=off"]);
        assert_eq!(but_one.filter.len(), 5);
        assert!(but_one.filter.iter().all(|line| !line.contains("\"p1\"")));
        let one = of(
            "rail0-leaf0",
            &["ecn:rail0-leaf0/p1=on", "slow:rail0-leaf0/p1=50%"],
        );
        assert!(one.filter[0].contains("over 1359/second"), "{:?}", one.filter);
        assert!(changed("h0", "ecn:rail0-leaf0/p1=off").is_empty());
    }

    #[test]
    fn faults_of_the_hash_change_the_hash_only() {
        assert_eq!(
            changed("rail0-leaf0", "hash-l3:all"),
            ["net/ipv4/fib_multipath_hash_policy=0"]
        );
        assert!(changed("rail0-leaf1", "hash-l3:rail0-leaf0").is_empty());
        assert_eq!(
            changed("rail0-leaf0", "unpinned:rail0-leaf0"),
            ["net/ipv4/fib_multipath_hash_policy=1"]
        );
        let seeds = |faults: &[&str]| -> HashSet<String> {
            let switches = wiring()
                .shape
                .switches()
                .map(|node| of(&node.to_string(), faults));
            let seeds = switches
                .flat_map(|config| config.sysctls)
                .filter(|sysctl| sysctl.path == HASH_SEED);
            seeds.map(|sysctl| sysctl.value).collect()
        };
        assert_eq!(seeds(&[]).len(), 8, "every switch has its own");
        assert_eq!(seeds(&["polarised"]).len(), 1);
    }

    #[test]
    fn answers_change_the_settings_of_their_switch_only() {
        assert_eq!(
            changed("rail0-leaf0", "answers:all=egress"),
            ["net/ipv4/icmp_errors_use_inbound_ifaddr=0"]
        );
        assert_eq!(
            changed("rail0-leaf0", "answers:rail0-leaf0=limited"),
            ["net/ipv4/icmp_ratelimit=1000", "net/ipv4/icmp_ratemask=6168"]
        );
        assert!(changed("rail0-leaf1", "answers:rail0-leaf0=silent").is_empty());
        let silent = changed("rail0-leaf1", "answers:rail0-leaf1=silent");
        assert!(
            !silent.is_empty()
                && silent
                    .iter()
                    .all(|line| line.contains("icmp type time-exceeded drop"))
        );
        let loopback = changed("rail0-leaf1", "answers:all=loopback");
        assert!(
            loopback
                .iter()
                .any(|line| line.starts_with("route replace 10.0.0.0/24 src 10.254.0.1 nexthop")),
            "{loopback:?}"
        );
    }

    #[test]
    fn a_leaf_that_sprays_draws_among_all_its_cables_and_leaves_traces_to_the_kernel() {
        let spray = changed("rail0-leaf0", "spray:all");
        let sends: Vec<&String> = spray
            .iter()
            .filter(|line| line.starts_with("chain to-u"))
            .collect();
        assert_eq!(sends.len(), 4, "two spines, two cables each: {spray:?}");
        let draws = spray.iter().filter(|line| line.starts_with("chain spray-"));
        assert!(
            draws
                .clone()
                .all(|line| line.contains("ip ttl > 1 numgen random mod 4 vmap")),
            "{spray:?}"
        );
        assert_eq!(draws.count(), 2 + 4);
        // A spine of a lab with trunks has a choice, too.
        assert!(!changed("rail0-spine0", "spray:rail0-spine0").is_empty());
        assert!(changed("h0", "spray:all").is_empty());
    }

    #[test]
    fn a_slow_switch_is_slow_on_both_ends_of_its_cables() {
        assert_eq!(changed("rail0-spine1", "slow-switch:rail0-spine1=50%").len(), 4);
        assert_eq!(changed("rail0-leaf0", "slow-switch:rail0-spine1=50%").len(), 2);
        assert!(changed("h0", "slow-switch:rail0-spine1=50%").is_empty());
    }

    #[test]
    fn faults_combine_by_the_worst() {
        let both = of("h1", &["slow:h1/rail0=60%", "slow-cable:h1-rail0-leaf0=30%"]);
        assert!(both.rates[0].contains("rate 60000000bit"), "{:?}", both.rates);
        assert!(both.rates[1].contains("rate 200000000bit"), "{:?}", both.rates);
    }

    #[test]
    fn cables_are_born_inside_their_namespaces_so_the_machine_never_sees_them() {
        let namespace = |node: Node| format!("rg-x-{node}");
        let lines = cables(&wiring(), &namespace);
        assert_eq!(
            lines[0],
            "link add name rail0 index 10 mtu 9000 netns rg-x-h0 type veth \
             peer name p0 index 100 mtu 9000 netns rg-x-rail0-leaf0"
        );
        let wired = wiring();
        let indices = |cable: &Cable| cable.ends.clone().map(|port| index_of(&port.interface));
        assert!(wired.cables.iter().map(indices).all(|[low, high]| low != high));
        let ends = lines.iter().map(|line| line.matches(" netns rg-x-").count());
        assert_eq!(
            ends.sum::<usize>(),
            2 * (wiring().cables.len() + 4) + 1,
            "two ends each, and one bridge"
        );
        assert_eq!(lines.len(), wiring().cables.len() + 5);
        assert_eq!(namespaces(&wiring(), &namespace).len(), 4 + 8 + 1);
    }
}
