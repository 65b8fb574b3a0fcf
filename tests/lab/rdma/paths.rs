//! Queue pairs take the paths that were planned for them: for every one, the router's own prediction is where its packets
//! are seen.

use std::collections::{HashMap, HashSet};
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, setsockopt, socket, sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike};
use record::{Event, FlowRecord, Recorded};

use super::harness::{TestLab, guests, said};
use super::runs::run;

/// Queue pairs in each direction.
const QUEUE_PAIRS: usize = 64;
/// The port that RoCE v2 packets go to.
const ROCE: u16 = 4791;

const SUITE: &str = r#"
name = "entropy"
[run]
transport = "verbs"
deadline = "20s"
[rule]
remeasure = 0
straggler_factor = 1000
[[test]]
name = "pairs"
kind = "pairs"
sizes = ["4M"]
directions = "one-way"
flows = 64
source_port = 50000
warmup = 0
iterations = 2
budget = "20s"
"#;

/// Source address and port of every RoCE packet that `switch` sees until `over`.
fn watch(lab: &TestLab, switch: &str, over: &AtomicBool) -> HashSet<(Ipv4Addr, u16)> {
    lab.inside(switch, || {
        let ear = socket(
            AddressFamily::Packet,
            SockType::Raw,
            SockFlag::empty(),
            SockProtocol::EthAll,
        )
        .unwrap();
        setsockopt(&ear, sockopt::ReceiveTimeout, &TimeVal::milliseconds(100)).unwrap();
        let mut seen = HashSet::new();
        let mut frame = [0; 128];
        while !over.load(Ordering::Relaxed) {
            let count = recv(ear.as_raw_fd(), &mut frame, MsgFlags::empty()).unwrap_or(0);
            seen.extend(sender(&frame[..count.min(frame.len())]));
        }
        seen
    })
}

/// Who sent a RoCE packet: Ethernet, IPv4 without options, UDP.
fn sender(frame: &[u8]) -> Option<(Ipv4Addr, u16)> {
    let port = |at: usize| Some(u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]));
    let is_roce = port(12)? == 0x0800
        && frame.get(14) == Some(&0x45)
        && frame.get(23) == Some(&17)
        && port(36)? == ROCE;
    let address = frame.get(26..30)?;
    is_roce.then_some((
        Ipv4Addr::new(address[0], address[1], address[2], address[3]),
        port(34)?,
    ))
}

/// The spine that the sender's leaf says it will send a flow to.
fn predicted(lab: &TestLab, leaf: &str, flow: &FlowRecord) -> String {
    let (source, destination) = (flow.source.unwrap(), flow.destination.unwrap());
    let question = format!(
        "ip route get {destination} from {source} iif p0 ipproto udp sport {} dport {ROCE}",
        flow.source_port.unwrap()
    );
    let answer = lab.on(leaf, &question);
    let mut words = answer.split_whitespace().skip_while(|word| *word != "dev");
    let uplink = words.nth(1).unwrap_or_else(|| panic!("{question}: {answer}"));
    format!("rail0-spine{}", uplink.strip_prefix('u').unwrap())
}

#[test]
fn sixty_four_queue_pairs_go_where_the_routers_say_they_will() {
    let Some(lab) = guests(&["2x1", "--leaves", "2", "--spines", "2"]) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let over = AtomicBool::new(false);
    let (seen, recorded) = std::thread::scope(|scope| {
        let spines = ["rail0-spine0", "rail0-spine1"];
        let (lab, over) = (&lab, &over);
        let watchers = spines.map(|spine| (spine, scope.spawn(move || watch(lab, spine, over))));
        let (output, recorded, _) = run(lab, folder.path(), SUITE, &[]);
        over.store(true, Ordering::Relaxed);
        assert!(matches!(output.status.code(), Some(0 | 20)), "{}", said(&output));
        let seen: HashMap<&str, _> = watchers
            .map(|(spine, watcher)| (spine, watcher.join().unwrap()))
            .into();
        (seen, recorded)
    });
    let flows = recorded.events.iter().filter_map(|event| match event {
        Event::CellDone(done) => Some(&done.flows),
        _ => None,
    });
    let flows: Vec<&FlowRecord> = flows.flatten().filter(|flow| flow.from == 0).collect();
    let ports: HashSet<u16> = flows.iter().filter_map(|flow| flow.source_port).collect();
    assert_eq!(
        ports,
        (50_000..50_000 + QUEUE_PAIRS as u16).collect(),
        "as planned"
    );
    let mut spread: HashMap<String, usize> = HashMap::new();
    for flow in flows.iter().take(QUEUE_PAIRS) {
        let spine = predicted(&lab, "rail0-leaf0", flow);
        let name = (Ipv4Addr::new(10, 0, 0, 2), flow.source_port.unwrap());
        for (other, seen) in &seen {
            assert_eq!(
                seen.contains(&name),
                *other == spine,
                "{flow:?}: {spine} was predicted; {other}"
            );
        }
        *spread.entry(spine).or_default() += 1;
    }
    assert_eq!(spread.values().sum::<usize>(), QUEUE_PAIRS);
    assert!(
        spread.len() == 2 && spread.values().all(|count| *count > QUEUE_PAIRS / 4),
        "{spread:?}"
    );
}

#[test]
fn the_paths_that_switches_tell_are_the_ones_that_queue_pairs_take() {
    let Some(lab) = guests(&["2x1", "--leaves", "2", "--spines", "2"]) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let words = [
        "--",
        "diagnose",
        "--transport",
        "verbs",
        "--deadline",
        "20s",
        "--out",
        out.to_str().unwrap(),
    ];
    let output = lab.run("run", &words);
    let recorded = Recorded::read(&out).unwrap_or_else(|error| panic!("{error}: {}", said(&output)));
    let mut spines = HashSet::new();
    for event in &recorded.events {
        let Event::CellDone(done) = event else { continue };
        let cell = recorded
            .run
            .cells
            .iter()
            .find(|cell| cell.id == done.cell)
            .unwrap();
        let flow = done.flows.iter().find(|flow| flow.from == cell.ranks[0]).unwrap();
        let leaf = format!("rail0-leaf{}", flow.from);
        let spine = predicted(&lab, &leaf, flow);
        assert!(
            cell.path.len() == 4 && cell.path[1].contains(&format!("->{spine}/")),
            "{flow:?}: {spine} was predicted; {:?}",
            cell.path
        );
        spines.insert(spine);
    }
    assert_eq!(spines.len(), 2, "both ways are used: {}", said(&output));
}
