//! Faults of path choice show in the counters that switches export.

use crate::harness::{TestLab, labs_can_be_made};

const FLOWS: usize = 64;

/// The share of each port of what several ports of a switch sent while `FLOWS` flows went from h0 to h1; how many arrived.
fn shares(lab: &TestLab, switch: &str, ports: &[&str]) -> (Vec<f64>, usize) {
    let look = || -> Vec<u64> {
        ports
            .iter()
            .map(|port| lab.counter(switch, port, "tx_bytes"))
            .collect()
    };
    let before = look();
    let arrived = lab.datagrams("h0", "h1", "rail0", FLOWS, 1);
    let sent: Vec<f64> = look()
        .iter()
        .zip(&before)
        .map(|(after, before)| (after - before) as f64)
        .collect();
    let total: f64 = sent.iter().sum();
    (sent.iter().map(|bytes| bytes / total).collect(), arrived)
}

#[test]
fn hashing_addresses_only_puts_all_flows_on_one_spine() {
    if !labs_can_be_made() {
        return;
    }
    let lab = TestLab::up(&["2x1"]);
    let spread = || shares(&lab, "rail0-leaf0", &["u0", "u1"]).0;
    let healthy = spread();
    assert!(healthy.iter().all(|share| *share > 0.2), "{healthy:?}");
    lab.does("fault", &["hash-l3:rail0-leaf0"]);
    let one = spread();
    assert!(one.iter().any(|share| *share > 0.95), "{one:?}");
    lab.does("heal", &["--all"]);
    let healed = spread();
    assert!(
        (healed[0] - healthy[0]).abs() < 0.05,
        "placement is repeatable: {healthy:?} {healed:?}"
    );
}

#[test]
fn unequal_weights_shift_flows_to_the_heavier_spine() {
    if !labs_can_be_made() {
        return;
    }
    let lab = TestLab::up(&["2x1"]);
    lab.does("fault", &["weights:rail0-leaf0=1:9"]);
    let (shares, arrived) = shares(&lab, "rail0-leaf0", &["u0", "u1"]);
    assert!(shares[1] > 0.7, "{shares:?}");
    assert_eq!(arrived, FLOWS);
}

#[test]
fn polarised_tiers_leave_cables_idle_that_healthy_ones_use() {
    if !labs_can_be_made() {
        return;
    }
    if !std::path::Path::new("/proc/sys/net/ipv4/fib_multipath_hash_seed").exists() {
        crate::skip::skip("lab", "this kernel has no hash seed per namespace");
        return;
    }
    let lab = TestLab::up(&["2x1", "--trunk", "2"]);
    // The two cables of each spine to the second leaf.
    let least = |spine: &str| {
        let (shares, _) = shares(&lab, spine, &["d2", "d3"]);
        shares[0].min(shares[1])
    };
    assert!(least("rail0-spine0") > 0.1 && least("rail0-spine1") > 0.1);
    lab.does("fault", &["polarised"]);
    assert!(least("rail0-spine0") < 0.05 && least("rail0-spine1") < 0.05);
    lab.does("heal", &["polarised"]);
    assert!(least("rail0-spine0") > 0.1);
}

#[test]
fn a_dead_hop_swallows_the_flows_that_are_routed_there() {
    if !labs_can_be_made() {
        return;
    }
    let lab = TestLab::up(&["2x1"]);
    assert_eq!(lab.datagrams("h0", "h1", "rail0", FLOWS, 1), FLOWS);
    let routes = lab.on("rail0-leaf0", "ip route");
    lab.does("fault", &["dead-hop:rail0-leaf0->rail0-spine1"]);
    let arrived = lab.datagrams("h0", "h1", "rail0", FLOWS, 1);
    assert!(
        (FLOWS / 5..FLOWS * 4 / 5).contains(&arrived),
        "{arrived} of {FLOWS}"
    );
    assert_eq!(
        lab.on("rail0-leaf0", "ip route"),
        routes,
        "the route still points there"
    );
    lab.does("heal", &["--all"]);
    assert_eq!(lab.datagrams("h0", "h1", "rail0", FLOWS, 1), FLOWS);
}

#[test]
fn a_cut_towards_a_spine_moves_its_flows_to_the_other() {
    if !labs_can_be_made() {
        return;
    }
    let lab = TestLab::up(&["2x1"]);
    for cable in ["rail0-leaf0-spine0", "rail0-leaf1-spine0"] {
        lab.does("fault", &[&format!("cut:{cable}")]);
        let (shares, arrived) = shares(&lab, "rail0-leaf0", &["u0", "u1"]);
        assert_eq!(arrived, FLOWS, "{cable}: there is another way");
        assert!(shares[1] > 0.95, "{cable}: {shares:?}");
        lab.does("heal", &["--all"]);
    }
}
