//! `railgauge link` between lab hosts and on one of them alone: every operation, every size, and what it says when the link
//! breaks under it.

use std::process::Output;
use std::time::{Duration, Instant};

use super::harness::{TestLab, command, guests, objects, said, until};
use crate::harness::HANGS;

/// Runs `railgauge link` on every host; what it came to.
fn link(lab: &TestLab, arguments: &[&str]) -> Output {
    lab.run("run", &[&["--", "link"], arguments].concat())
}

/// The rows of a run that must have succeeded.
fn rows(output: &Output) -> Vec<serde_json::Value> {
    assert_eq!(output.status.code(), Some(0), "{}", said(output));
    let whole: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    whole["rows"].as_array().unwrap().clone()
}

fn nothing_is_left(lab: &TestLab, hosts: &[&str]) {
    for host in hosts {
        until("all queue pairs are given back", || {
            ["qp", "mr", "cq", "pd"]
                .iter()
                .all(|kind| objects(lab, host, kind) == 0)
        });
    }
}

#[test]
fn every_operation_is_measured_between_two_hosts_and_its_data_is_right() {
    let Some(lab) = guests(&["2x1", "--rate", "200mbit"]) else {
        return;
    };
    for operation in ["write", "send", "read"] {
        let sizes = ["-s", "1,4K,64K", "-n", "50", "--offset", "3", "--json"];
        for more in [&[][..], &["--bidirectional"], &["--latency"]] {
            let output = link(&lab, &[&["--op", operation][..], &sizes, more].concat());
            for row in rows(&output) {
                assert_eq!(row["wrong_bytes"], 0, "{row}");
                assert!(row["checked_messages"].as_u64().unwrap() > 0, "{row}");
                assert!(row["iterations"].as_u64().unwrap() >= 50, "{row}");
            }
        }
    }
    nothing_is_left(&lab, &["h0", "h1"]);
}

/// Through one device and back, where no cable sets the pace.
#[test]
fn ten_thousand_messages_of_all_sizes_at_odd_addresses_arrive_without_a_wrong_byte() {
    let Some(lab) = guests(&["2x1", "--rate", "200mbit"]) else {
        return;
    };
    let program = env!("CARGO_BIN_EXE_railgauge");
    let mut looked_at = 0;
    for (sizes, count) in [("1..4K", 250), ("8K..16M,3,4097,65537,1000003", 3)] {
        for operation in ["write", "send"] {
            let how = format!("--latency --check every --offset 61 --op {operation} -s {sizes} -n {count}");
            let text = lab.on("h0", &format!("{program} link --loopback --json {how}"));
            let whole: serde_json::Value = serde_json::from_str(&text).unwrap();
            for row in whole["rows"].as_array().unwrap() {
                assert_eq!(row["wrong_bytes"], 0, "{row}");
                looked_at += row["checked_messages"].as_u64().unwrap();
            }
        }
    }
    assert!(looked_at >= 10_000, "{looked_at}");
}

#[test]
fn a_host_checks_its_own_nic_without_another() {
    let Some(lab) = guests(&["2x1", "--rate", "200mbit"]) else {
        return;
    };
    let program = env!("CARGO_BIN_EXE_railgauge");
    let text = lab.on("h0", &format!("{program} link --loopback -s 4K,1M -n 100 -q 2"));
    assert!(
        text.contains("rank 0 (h0) rxe0 port 1 -> rank 1 (h0) rxe0 port 1"),
        "{text}"
    );
    assert_eq!(
        text.lines().filter(|line| !line.starts_with('#')).count(),
        3,
        "{text}"
    );
    let perftest = lab.on(
        "h0",
        &format!("{program} link --loopback --latency -n 100 --perftest"),
    );
    assert!(perftest.contains("t_typical[usec]"), "{perftest}");
    nothing_is_left(&lab, &["h0"]);
}

#[test]
fn a_source_port_that_was_asked_for_is_the_one_on_the_wire() {
    let Some(lab) = guests(&["2x1", "--rate", "200mbit"]) else {
        return;
    };
    let output = link(&lab, &["--source-port", "50000", "-q", "2", "-n", "20", "--json"]);
    let whole: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let ports = whole["flows"].as_array().unwrap().iter();
    let ports: Vec<u64> = ports.map(|flow| flow["source_port"].as_u64().unwrap()).collect();
    assert_eq!(ports, [50_000, 50_001, 50_002, 50_003], "{}", said(&output));
}

#[test]
fn a_link_that_breaks_ends_with_both_ends_named_and_nothing_left() {
    let Some(lab) = guests(&["2x1", "--rate", "200mbit"]) else {
        return;
    };
    // Guests boot with the first command.
    lab.on("h0", "true");
    lab.on("h1", "true");
    let words = [
        "run",
        "--name",
        &lab.name,
        "--",
        "link",
        "-s",
        "64K",
        "-D",
        "60s",
        "--deadline",
        "10s",
    ];
    let child = command(&words)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    until("queue pairs on h1", || objects(&lab, "h1", "qp") > 0);
    std::thread::sleep(Duration::from_secs(1));
    lab.on("h1", "ip link set rail0 down");
    let begun = Instant::now();
    let output = child.wait_with_output().unwrap();
    let text = said(&output);
    assert_eq!(output.status.code(), Some(21), "{text}");
    assert!(begun.elapsed() < HANGS, "{:?}: {text}", begun.elapsed());
    assert!(
        text.contains("rank 0 (rxe0 port 1") && text.contains("rank 1 (rxe0 port 1"),
        "{text}"
    );
    nothing_is_left(&lab, &["h0"]);
}
