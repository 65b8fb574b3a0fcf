//! The path of a flow, asked from its own end, is the one its routers choose and the one its data takes.

use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use engine::launch::Token;
use engine::transport::shm::Hub;
use engine::transport::tcp::{self, LocalRail};
use engine::transport::{Endpoint, Mesh, TraceWanted, TracedFlow};
use record::TransportKind;
use topology::{Port, Topology};

use crate::harness::{HANGS, TestLab, labs_can_be_made};

const RAIL: &str = "rail0";
/// Ports of every pair of hosts.
const PORTS: u16 = 12;
const FIRST_PORT: u16 = 21_000;
/// The first of them over RDMA.
const ROCE_PORTS: u16 = 50_000;
/// Bytes of data whose way is looked up in the switches' counters.
const DATA: usize = 200_000;

fn topology(lab: &TestLab) -> Topology {
    Topology::read(Path::new(&format!(
        "/run/railgauge/labs/{}/topology.toml",
        lab.name
    )))
    .unwrap()
}

/// A rank on a host, in that host's namespace.
fn rank(lab: &TestLab, number: u32, token: Token) -> Mesh {
    let address = lab.address(&format!("h{number}"), RAIL);
    let local = LocalRail {
        interface: Some(RAIL.to_string()),
        ..LocalRail::from(address)
    };
    lab.inside(&format!("h{number}"), || {
        Mesh::open(
            number,
            vec![(RAIL.to_string(), local)],
            token,
            Hub::new(),
            Vec::new(),
        )
        .unwrap()
    })
}

/// One rank on every host; all know each other.
fn ranks(lab: &TestLab, count: u32) -> Vec<Mesh> {
    let token = Token::generate().unwrap();
    let mut ranks: Vec<Mesh> = (0..count).map(|number| rank(lab, number, token)).collect();
    let ends: Vec<Endpoint> = ranks.iter().map(Mesh::endpoint).collect();
    ranks.iter_mut().for_each(|rank| rank.set_peers(ends.clone()));
    ranks
}

fn flows(from: u32, to: &[u32]) -> Vec<TraceWanted> {
    flows_over(TransportKind::Tcp, from, to)
}

fn flows_over(transport: TransportKind, from: u32, to: &[u32]) -> Vec<TraceWanted> {
    let flow = |to: u32, port: u16| TraceWanted {
        from,
        to,
        rail: RAIL.to_string(),
        port: port
            + if transport == TransportKind::Tcp {
                FIRST_PORT
            } else {
                ROCE_PORTS
            },
        transport,
    };
    to.iter()
        .flat_map(|to| (0..PORTS).map(move |port| flow(*to, port)))
        .collect()
}

fn trace(lab: &TestLab, rank: &mut Mesh, wanted: &[TraceWanted]) -> Vec<TracedFlow> {
    let host = format!("h{}", rank.endpoint().rank);
    lab.inside(&host, || {
        rank.trace(wanted, true, Instant::now() + Duration::from_secs(20))
    })
}

/// The port at the other end of the cable in `port`.
fn across(topology: &Topology, port: &Port) -> Port {
    let link = topology.link_of(&port.node, &port.interface).unwrap();
    link.ends.iter().find(|end| *end != port).unwrap().clone()
}

/// The ports through which the routers say a flow leaves, from its host to the last switch.
fn predicted(lab: &TestLab, topology: &Topology, flow: &TraceWanted, door: SocketAddr) -> Vec<Port> {
    let source = lab.address(&format!("h{}", flow.from), RAIL);
    let mut ports = vec![Port {
        node: format!("h{}", flow.from),
        interface: RAIL.to_string(),
    }];
    loop {
        let inbound = across(topology, &ports[ports.len() - 1]);
        if inbound.node == format!("h{}", flow.to) {
            return ports;
        }
        let (protocol, target) = match flow.transport {
            TransportKind::Tcp => ("tcp", door.port()),
            _ => ("udp", 4791),
        };
        let question = format!(
            "ip route get {} from {source} iif {} ipproto {protocol} sport {} dport {target}",
            door.ip(),
            inbound.interface,
            flow.port,
        );
        let answer = lab.on(&inbound.node, &question);
        let mut words = answer.split_whitespace().skip_while(|word| *word != "dev");
        let interface = words.nth(1).unwrap_or_else(|| panic!("{question}: {answer}"));
        ports.push(Port {
            node: inbound.node,
            interface: interface.to_string(),
        });
        assert!(ports.len() < 6, "{flow:?}: {ports:?}");
    }
}

/// The switch ports by which a flow that leaves through `ports` comes in.
fn inbound(lab: &TestLab, topology: &Topology, ports: &[Port]) -> Vec<Option<IpAddr>> {
    let switches = ports
        .iter()
        .map(|port| across(topology, port))
        .take(ports.len() - 1);
    switches
        .map(|port| Some(lab.address(&port.node, &port.interface)))
        .collect()
}

#[test]
fn a_traced_path_is_the_one_that_the_routers_choose_for_tens_of_flows_over_tcp_and_rdma() {
    if !labs_can_be_made() {
        return;
    }
    let lab = TestLab::up(&["4x1", "--leaves", "2", "--spines", "2", "--trunk", "2"]);
    let (mut ranks, topology) = (ranks(&lab, 4), topology(&lab));
    let mut paths = HashSet::new();
    for from in [0, 3] {
        let others: Vec<u32> = (0..4).filter(|to| *to != from).collect();
        let mut wanted = flows(from, &others);
        wanted.extend(flows_over(TransportKind::Verbs, from, &others));
        for traced in trace(&lab, &mut ranks[from as usize], &wanted) {
            let door = ranks[traced.flow.to as usize].endpoint().listeners[0];
            let ports = predicted(&lab, &topology, &traced.flow, door);
            assert_eq!(
                traced.hops,
                inbound(&lab, &topology, &ports),
                "{:?}: {ports:?}",
                traced.flow
            );
            paths.insert(ports.iter().map(Port::to_string).collect::<Vec<_>>().join(" "));
        }
    }
    // Each of the two hosts: one neighbour, and two far hosts by up to 2 x 2 x 2 ways.
    assert!(paths.len() > 16, "{paths:#?}");
    for rank in &ranks {
        assert_eq!(
            rank.rejected_callers(),
            Vec::<String>::new(),
            "nobody minds being asked"
        );
    }
}

/// A server on h1's rail: it answers a greeting with one byte and discards data, for as long as the test runs.
fn sink(lab: &TestLab) -> SocketAddr {
    let address = lab.address("h1", RAIL);
    let door = lab.inside("h1", || TcpListener::bind((address, 0)).unwrap());
    let there = door.local_addr().unwrap();
    std::thread::spawn(move || {
        for caller in door.incoming() {
            let (mut caller, mut bytes, mut taken) = (caller.unwrap(), vec![0; 64 << 10], 0);
            while let Ok(count @ 1..) = caller.read(&mut bytes) {
                taken += count;
                // What is shorter than any data is a greeting.
                if taken < 1000 {
                    let _ = caller.write_all(&[1]);
                    break;
                }
            }
        }
    });
    there
}

/// Sends data from a port of h0's rail, and waits until it has arrived.
fn send(lab: &TestLab, port: u16, door: SocketAddr) {
    let from = SocketAddr::new(lab.address("h0", RAIL), port);
    lab.inside("h0", || {
        let socket = tcp::bind(from).unwrap();
        socket.connect(&door.into()).unwrap();
        let mut stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(HANGS)).unwrap();
        stream.write_all(&vec![7; DATA]).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(
            stream.read(&mut [0]).unwrap(),
            0,
            "the other end closes when it has everything"
        );
    });
}

#[test]
fn data_takes_the_path_that_was_traced() {
    if !labs_can_be_made() {
        return;
    }
    let lab = TestLab::up(&["2x1", "--leaves", "2", "--spines", "3"]);
    let (mut ranks, topology, door) = (ranks(&lab, 2), topology(&lab), sink(&lab));
    let far = Endpoint {
        listeners: vec![door],
        ..ranks[1].endpoint()
    };
    let ends = vec![ranks[0].endpoint(), far];
    ranks[0].set_peers(ends);
    let uplinks = ["u0", "u1", "u2"];
    let sent = || uplinks.map(|port| lab.counter("rail0-leaf0", port, "tx_bytes"));
    let mut used = HashSet::new();
    for traced in trace(&lab, &mut ranks[0], &flows(0, &[1])) {
        let before = sent();
        send(&lab, traced.flow.port, door);
        let after = sent();
        let busy: Vec<usize> = (0..3)
            .filter(|up| after[*up] - before[*up] > DATA as u64)
            .collect();
        assert_eq!(busy.len(), 1, "{before:?} {after:?}");
        let uplink = Port {
            node: "rail0-leaf0".to_string(),
            interface: uplinks[busy[0]].to_string(),
        };
        let spine = across(&topology, &uplink);
        assert_eq!(traced.hops.len(), 3, "{traced:?}");
        assert_eq!(
            traced.hops[1],
            Some(lab.address(&spine.node, &spine.interface)),
            "{traced:?}"
        );
        used.insert(busy[0]);
    }
    assert!(used.len() > 1, "flows take different ways");
}

#[test]
fn switches_that_say_nothing_leave_a_gap_and_the_rest_is_known() {
    if !labs_can_be_made() {
        return;
    }
    let lab = TestLab::up(&["2x1", "--leaves", "2", "--spines", "1"]);
    let mut ranks = ranks(&lab, 2);
    let whole = trace(&lab, &mut ranks[0], &flows(0, &[1])[..1])[0].hops.clone();
    assert_eq!(whole.len(), 3, "{whole:?}");
    let mute = "nft 'add table ip t; add chain ip t o { type filter hook output priority 0; }; add rule ip t o icmp type time-exceeded drop'";
    lab.on("rail0-spine0", mute);
    let gap = trace(&lab, &mut ranks[0], &flows(0, &[1])[..1])[0].hops.clone();
    assert_eq!(gap, [whole[0], None, whole[2]]);
    for switch in ["rail0-leaf0", "rail0-leaf1"] {
        lab.on(switch, mute);
    }
    let silent = trace(&lab, &mut ranks[0], &flows(0, &[1])[..1])[0].hops.clone();
    assert_eq!(silent, [], "nobody answers: nothing is known, and nothing fails");
}

#[test]
fn a_path_that_ends_in_a_dead_hop_is_known_up_to_there() {
    if !labs_can_be_made() {
        return;
    }
    let lab = TestLab::up(&["2x1", "--leaves", "2", "--spines", "1"]);
    let mut ranks = ranks(&lab, 2);
    let wanted = &flows(0, &[1])[..1];
    let whole = trace(&lab, &mut ranks[0], wanted)[0].hops.clone();
    lab.does("fault", &["dead-hop:rail0-spine0->rail0-leaf1"]);
    assert_eq!(trace(&lab, &mut ranks[0], wanted)[0].hops, whole[..2]);
}

#[test]
fn a_door_that_is_gone_is_the_end_of_a_path_like_any_other() {
    if !labs_can_be_made() {
        return;
    }
    let lab = TestLab::up(&["2x1", "--leaves", "2", "--spines", "1"]);
    let mut ranks = ranks(&lab, 2);
    let address = lab.address("h1", RAIL);
    let closed = lab.inside("h1", || {
        TcpListener::bind((address, 0)).unwrap().local_addr().unwrap()
    });
    let gone = Endpoint {
        listeners: vec![closed],
        ..ranks[1].endpoint()
    };
    let ends = vec![ranks[0].endpoint(), gone];
    ranks[0].set_peers(ends);
    assert_eq!(trace(&lab, &mut ranks[0], &flows(0, &[1])[..1])[0].hops.len(), 3);
}
