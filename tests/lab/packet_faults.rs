//! Faults of single packets, of queues and of marks, on real packets: what the receiver counts, and that healing leaves nothing behind.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use nix::sys::socket::{setsockopt, sockopt};

use crate::harness::{TestLab, labs_can_be_made};

/// Small enough for faults that a process carries out, and for a few frames to be a queue.
const SHAPE: [&str; 7] = ["2x1", "--leaves", "1", "--spines", "1", "--rate", "200mbit"];
const PACKETS: u32 = 1_000;

/// Numbers of datagrams that h1 received of those that h0 sent, in the order in which they came, each with how long after the first one; one is sent
/// every so often.
fn numbered(lab: &TestLab, every: Duration) -> Vec<(u32, Duration)> {
    let (source, target) = (lab.address("h0", "rail0"), lab.address("h1", "rail0"));
    let receiver = lab.inside("h1", || UdpSocket::bind((target, 19_000)).unwrap());
    let sender = lab.inside("h0", || UdpSocket::bind((source, 19_001)).unwrap());
    // A busy machine reads late, and pauses.
    setsockopt(&receiver, sockopt::RcvBufForce, &(8 << 20)).unwrap();
    receiver
        .set_read_timeout(Some(Duration::from_millis(1500)))
        .unwrap();
    let there = receiver.local_addr().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for number in 0..PACKETS {
                let mut packet = [7; 200];
                packet[..4].copy_from_slice(&number.to_be_bytes());
                sender.send_to(&packet, there).unwrap();
                std::thread::sleep(every);
            }
        });
        let mut arrived = Vec::new();
        let mut buffer = [0; 2048];
        let begun = Instant::now();
        while let Ok(length) = receiver.recv(&mut buffer) {
            assert_eq!(length, 200);
            assert!(
                buffer[4..200].iter().all(|byte| *byte == 7),
                "no wrong bit gets through"
            );
            let number = u32::from_be_bytes(buffer[..4].try_into().unwrap());
            arrived.push((number, begun.elapsed()));
        }
        arrived
    })
}

/// A counter of a host's network stack, such as `UdpInCsumErrors`.
fn stack_counter(lab: &TestLab, host: &str, protocol: &str, name: &str) -> u64 {
    let text = lab.on(host, "cat /proc/net/snmp /proc/net/netstat");
    let mut lines = text
        .lines()
        .filter(|line| line.starts_with(&format!("{protocol}:")));
    while let (Some(names), Some(values)) = (lines.next(), lines.next()) {
        let place = names.split(' ').position(|word| word == name);
        if let Some(value) = place.and_then(|place| values.split(' ').nth(place)) {
            return value.parse().unwrap();
        }
    }
    panic!("{host} has no {protocol} {name}")
}

/// What a node's ports look like: shapers, packet filter, interfaces, how marks are agreed on.
fn state(lab: &TestLab) -> Vec<String> {
    let look =
        "tc qdisc show; nft list ruleset; ip -o link | sed 's/qlen.*//'; cat /proc/sys/net/ipv4/tcp_ecn";
    ["h0", "rail0-leaf0"].map(|node| lab.on(node, look)).to_vec()
}

#[test]
fn corrupted_packets_never_reach_a_program_and_the_receiver_counts_them() {
    if !labs_can_be_made() {
        return;
    }
    let lab = TestLab::up(&SHAPE);
    let before = state(&lab);
    // What a host sends, and what a switch does.
    for port in ["h0/rail0", "rail0-leaf0/p1"] {
        let wrong = stack_counter(&lab, "h1", "Udp", "InCsumErrors");
        lab.does("fault", &[&format!("corrupt:{port}=20%")]);
        let arrived = numbered(&lab, Duration::from_micros(200)).len() as u64;
        let wrong = stack_counter(&lab, "h1", "Udp", "InCsumErrors") - wrong;
        assert!((100..300).contains(&wrong), "{port}: {wrong} of {PACKETS}");
        assert_eq!(arrived + wrong, u64::from(PACKETS), "{port}");
        lab.does("heal", &["--all"]);
        assert_eq!(state(&lab), before, "{port}");
    }
    assert_eq!(numbered(&lab, Duration::from_micros(200)).len(), PACKETS as usize);
}

#[test]
fn duplicated_packets_come_twice() {
    if !labs_can_be_made() {
        return;
    }
    let lab = TestLab::up(&SHAPE);
    let before = state(&lab);
    for port in ["h0/rail0", "rail0-leaf0/p1"] {
        lab.does("fault", &[&format!("duplicate:{port}=10%")]);
        let mut arrived: Vec<u32> = numbered(&lab, Duration::from_micros(200))
            .into_iter()
            .map(|(number, _)| number)
            .collect();
        let came = arrived.len();
        arrived.sort();
        arrived.dedup();
        assert_eq!(arrived.len(), PACKETS as usize, "{port}: none is missing");
        let twice = came - arrived.len();
        assert!((50..200).contains(&twice), "{port}: {twice} of {PACKETS}");
        lab.does("heal", &["--all"]);
        assert_eq!(state(&lab), before, "{port}");
    }
}

#[test]
fn reordered_packets_are_overtaken_and_jitter_keeps_their_order() {
    if !labs_can_be_made() {
        return;
    }
    let lab = TestLab::up(&SHAPE);
    let before = state(&lab);
    let overtaken = |arrived: &[(u32, Duration)]| {
        let mut latest = 0;
        let late = |(number, _): &&(u32, Duration)| {
            let is_late = *number < latest;
            latest = latest.max(*number);
            is_late
        };
        arrived.iter().filter(late).count()
    };
    lab.does("fault", &["reorder:rail0-leaf0/p1=5%,by=5ms"]);
    let arrived = numbered(&lab, Duration::from_micros(200));
    assert_eq!(arrived.len(), PACKETS as usize, "none is lost");
    let late = overtaken(&arrived);
    assert!((20..100).contains(&late), "{late} of {PACKETS}");
    // A fault of another kind on the same port, and then of the first kind alone.
    lab.does("fault", &["jitter:rail0-leaf0/p1=5ms"]);
    assert!(overtaken(&numbered(&lab, Duration::from_micros(200))) > 10);
    lab.does("heal", &["reorder:rail0-leaf0/p1"]);
    let arrived = numbered(&lab, Duration::from_micros(200));
    assert_eq!((arrived.len(), overtaken(&arrived)), (PACKETS as usize, 0));
    // Packets that were held up come together, and others after a gap.
    let gaps = arrived
        .windows(2)
        .filter(|pair| pair[1].1 - pair[0].1 > Duration::from_micros(1500));
    assert!(gaps.count() > 5);
    lab.does("heal", &["--all"]);
    assert_eq!(state(&lab), before);
}

#[test]
fn faults_of_one_port_add_up_and_a_killed_host_does_not_heal_them() {
    if !labs_can_be_made() {
        return;
    }
    let lab = TestLab::up(&SHAPE);
    let before = state(&lab);
    let faults = [
        "corrupt:h0/rail0=10%",
        "duplicate:h0/rail0=10%",
        "buffer:h0/rail0=60kB",
        "loss:h0/rail0=10%",
    ];
    lab.does("fault", &faults);
    // What keeps the fault up is no process of the host.
    lab.does("fault", &["kill:h0"]);
    lab.does("fault", &["freeze:h0"]);
    lab.does("heal", &["freeze:h0"]);
    let wrong = stack_counter(&lab, "h1", "Udp", "InCsumErrors");
    let mut arrived: Vec<u32> = numbered(&lab, Duration::from_micros(200))
        .into_iter()
        .map(|(number, _)| number)
        .collect();
    let came = arrived.len();
    arrived.sort();
    arrived.dedup();
    let wrong = stack_counter(&lab, "h1", "Udp", "InCsumErrors") - wrong;
    assert!(
        wrong > 40 && came - arrived.len() > 40,
        "{wrong} wrong, {came} came"
    );
    let missing = PACKETS as usize - arrived.len();
    assert!((90..330).contains(&missing), "lost or corrupt: {missing}");
    let listed = lab.does("status", &["--json"]);
    assert!(
        faults
            .iter()
            .all(|fault| listed.contains(&fault[..fault.find('=').unwrap()])),
        "{listed}"
    );
    lab.does("heal", &["--all"]);
    assert_eq!(state(&lab), before);
}

#[test]
fn a_small_buffer_drops_what_a_usual_one_holds() {
    if !labs_can_be_made() {
        return;
    }
    let lab = TestLab::up(&SHAPE);
    let before = state(&lab);
    // Bursts of 80 datagrams of 1000 bytes, which the host's own port lets pass at once; the one of which the least arrived, as a busy machine may
    // pause in the middle of one.
    let burst = |lab: &TestLab| {
        let bursts = (0..5).map(|_| {
            std::thread::sleep(Duration::from_millis(20));
            lab.datagrams("h0", "h1", "rail0", 1, 80)
        });
        bursts.min().unwrap()
    };
    assert_eq!(burst(&lab), 80);
    lab.does("fault", &["buffer:rail0-leaf0/p1=30kB"]);
    let arrived = burst(&lab);
    assert!((20..70).contains(&arrived), "{arrived} of 80");
    lab.does("heal", &["buffer:rail0-leaf0/p1"]);
    assert_eq!(burst(&lab), 80);
    assert_eq!(state(&lab), before);
}

#[test]
fn a_switch_that_marks_is_heard_by_tcp_and_one_that_does_not_is_not() {
    if !labs_can_be_made() {
        return;
    }
    let lab = TestLab::up(&SHAPE);
    let before = state(&lab);
    // Marked packets that h1 received while h0 sent as fast as it could for a while.
    let marked = || {
        let count = || stack_counter(&lab, "h1", "IpExt", "InCEPkts");
        let before = count();
        let (mut sender, mut receiver) = lab.connect("h0", "h1", "rail0").unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || std::io::copy(&mut receiver, &mut std::io::sink()));
            for _ in 0..100 {
                std::io::Write::write_all(&mut sender, &[0; 64 << 10]).unwrap();
            }
            drop(sender);
        });
        count() - before
    };
    assert_eq!(marked(), 0, "switches do not mark unless told to");
    // The host's port is as fast as the switch's: a slower one behind it has the queue.
    lab.does("fault", &["ecn:all=on,above=30kB", "slow:rail0-leaf0/p1=50%"]);
    let marks = marked();
    assert!(marks > 5, "{marks}");
    lab.does("fault", &["ecn:rail0-leaf0/p1=off"]);
    assert_eq!(marked(), 0, "the one port with a queue does not mark");
    lab.does("heal", &["--all"]);
    assert_eq!(state(&lab), before);
}

#[test]
fn what_cannot_be_done_is_refused_and_changes_nothing() {
    if !labs_can_be_made() {
        return;
    }
    let lab = TestLab::up(&[
        "2x1", "--leaves", "1", "--spines", "1", "--rate", "10gbit", "--mtu", "1500",
    ]);
    let before = state(&lab);
    for (fault, why) in [
        ("jitter:h0/rail0=1ms", "a process carries every packet"),
        ("buffer:h0/rail0=2kB", "4542 bytes at the least"),
        ("ecn:h0/rail0=on", "name a port of a switch"),
        ("corrupt:h0/rail1=1%", "did you mean `h0/rail0`?"),
    ] {
        let output = lab.run("fault", &[fault]);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{fault}: {error}");
        assert!(error.contains(why), "{fault}: {error}");
    }
    assert_eq!(state(&lab), before);
}
