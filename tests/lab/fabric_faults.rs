//! Faults of cables and ports show with real traffic, where they should and nowhere else, and are gone when healed.

use crate::harness::{TestLab, labs_can_be_made, until};

const SMALL: [&str; 5] = ["2x2", "--leaves", "1", "--spines", "1"];

/// Everything the kernel was told about every node, without what changes by itself.
fn snapshot(lab: &TestLab, nodes: &[&str]) -> String {
    let script = "ip -o link show | sed 's/qdisc tbf [0-9a-f]*:/tbf/; s/ link-netns.*//; /: br0:/s/state [A-Z]*//'; ip -o -4 addr show; \
         ip route show; tc qdisc show | sed 's/tbf [0-9a-f]*:/tbf/'; nft list ruleset; \
         cat /proc/sys/net/ipv4/fib_multipath_hash_policy /proc/sys/net/ipv4/fib_multipath_hash_seed 2>&1";
    nodes
        .iter()
        .map(|node| format!("{node}\n{}", lab.on(node, script)))
        .collect()
}

#[test]
fn a_slow_port_is_shaped_in_its_direction_only_and_a_slow_cable_in_both() {
    if !labs_can_be_made() {
        return;
    }
    let lab = TestLab::up(&[&SMALL[..], &["--rate", "100mbit"]].concat());
    let shape = |node: &str, port: &str| {
        let said = lab.on(node, &format!("tc qdisc show dev {port}"));
        let mut words = said.split_whitespace().skip_while(|word| *word != "rate");
        words.nth(1).expect("a port is shaped").to_string()
    };
    let all = || {
        [
            shape("h0", "rail0"),
            shape("rail0-leaf0", "p0"),
            shape("h0", "rail1"),
            shape("h1", "rail0"),
        ]
    };
    let healthy = all();
    assert!(healthy.iter().all(|rate| *rate == healthy[0]), "{healthy:?}");
    lab.does("fault", &["slow:h0/rail0=60%"]);
    assert_ne!(all()[0], healthy[0]);
    assert_eq!(all()[1..], healthy[1..], "only that port");
    lab.does("heal", &["slow:h0/rail0"]);
    assert_eq!(all(), healthy);
    lab.does("fault", &["slow-cable:h0-rail0-leaf0=50%"]);
    let [out, back, ..] = all();
    assert!(out == back && out != healthy[0], "{out} {back}");
    assert_eq!(all()[2..], healthy[2..], "only that cable");
}

#[test]
fn packet_loss_loses_about_its_share_on_its_port_only() {
    if !labs_can_be_made() {
        return;
    }
    let lab = TestLab::up(&SMALL);
    lab.does("fault", &["loss:h0/rail0=30%"]);
    let arrived = lab.datagrams("h0", "h1", "rail0", 40, 25);
    assert!((550..850).contains(&arrived), "{arrived} of 1000");
    assert_eq!(
        lab.datagrams("h0", "h1", "rail1", 40, 25),
        1000,
        "the other rail loses nothing"
    );
    lab.does("heal", &["--all"]);
    assert_eq!(lab.datagrams("h0", "h1", "rail0", 40, 25), 1000, "healed");
}

#[test]
fn a_cut_cable_carries_nothing_until_it_is_healed() {
    if !labs_can_be_made() {
        return;
    }
    let lab = TestLab::up(&SMALL);
    lab.does("fault", &["cut:h1-rail0-leaf0", "management-cut:h0"]);
    let carrier =
        |interface: &str, host: &str| lab.on(host, &format!("cat /sys/class/net/{interface}/carrier"));
    assert_eq!(
        (carrier("rail0", "h1").trim(), carrier("mg0", "h0").trim()),
        ("0", "0")
    );
    assert!(lab.connect("h0", "h1", "rail0").is_err());
    assert!(lab.connect("h0", "h1", "rail1").is_ok());
    assert!(lab.connect("h1", "h0", "mg0").is_err());
    lab.does("heal", &["--all"]);
    assert!(lab.connect("h0", "h1", "rail0").is_ok());
    assert!(lab.connect("h1", "h0", "mg0").is_ok());
}

#[test]
fn a_flapping_cable_flaps_until_it_is_healed_and_nobody_flaps_it_afterwards() {
    if !labs_can_be_made() {
        return;
    }
    let lab = TestLab::up(&["2x2"]);
    // Towards a spine, where the routes of the switch go down with the cable.
    lab.does("fault", &["flap:rail0-leaf0-spine0,period=120ms,duty=50%"]);
    let changes = || lab.counter("rail0-leaf0", "u0", "carrier_changes");
    let before = changes();
    until("the cable flaps", || changes() >= before + 6);
    lab.does("fault", &["slow:h0/rail0=60%"]);
    let more = changes();
    until("it flaps on beside another fault", || changes() >= more + 4);
    lab.does("heal", &["flap:rail0-leaf0-spine0"]);
    let after = changes();
    std::thread::sleep(std::time::Duration::from_millis(400));
    assert_eq!(changes(), after, "it stands still");
    assert_eq!(
        lab.datagrams("h0", "h1", "rail0", 30, 2),
        60,
        "both spines carry again"
    );
}

#[test]
fn healing_restores_exactly_what_was() {
    if !labs_can_be_made() {
        return;
    }
    let lab = TestLab::up(&["2x1", "--trunk", "2"]);
    let nodes = [
        "h0",
        "h1",
        "rail0-leaf0",
        "rail0-leaf1",
        "rail0-spine0",
        "rail0-spine1",
        "mgmt",
    ];
    let healthy = snapshot(&lab, &nodes);
    let faults = [
        "slow:h0/rail0=60%",
        "slow-cable:rail0-leaf0-spine0-1=10%",
        "cut:rail0-leaf1-spine1-0",
        "cut:h1-rail0-leaf1",
        "loss:rail0-spine0/d0=0.1%",
        "hash-l3:all",
        "weights:rail0-leaf0=3:1",
        "polarised",
        "dead-hop:rail0-spine0->rail0-leaf1",
        "management-cut:h1",
    ];
    lab.does("fault", &faults);
    let sick = snapshot(&lab, &nodes);
    assert_ne!(sick, healthy);
    assert_eq!(lab.does("status", &[]).matches("fault: ").count(), faults.len());
    for fault in faults {
        lab.does("heal", &[fault]);
    }
    assert_eq!(snapshot(&lab, &nodes), healthy, "healed one by one");
    lab.does("fault", &faults);
    assert_eq!(snapshot(&lab, &nodes), sick, "the same faults again");
    lab.does("heal", &["--all"]);
    assert_eq!(snapshot(&lab, &nodes), healthy, "healed at once");
}
