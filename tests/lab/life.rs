//! A lab comes up whole and goes without a trace.

use std::process::Stdio;
use std::time::Duration;

use crate::harness::{TestLab, command, lab, labs_can_be_made, name};

const HOSTS: [&str; 4] = ["h0", "h1", "h2", "h3"];

#[test]
fn every_host_reaches_every_other_on_every_network_and_nothing_is_left_afterwards() {
    if !labs_can_be_made() {
        return;
    }
    let lab = TestLab::up(&["4x2", "--leaves", "2", "--spines", "2", "--rate", "200mbit"]);
    for network in ["rail0", "rail1", "mg0"] {
        for from in HOSTS {
            for to in HOSTS.into_iter().filter(|to| *to != from) {
                let reached = lab.connect(from, to, network);
                assert!(reached.is_ok(), "{from} -> {to} on {network}: {reached:?}");
            }
        }
    }
    let mut lingering = command(&["exec", "--name", &lab.name, "h2", "--", "sleep", "1000"])
        .spawn()
        .unwrap();
    crate::harness::until("a process runs on h2", || {
        lab.does("status", &[]).contains("h2: 1")
    });
    lab.does("fault", &["flap:h0-rail0-leaf0,period=100ms"]);
    lab.does("down", &[]);
    assert_eq!(lab.remains(), [""; 0]);
    assert!(!lingering.wait().unwrap().success(), "it was killed");
    lab.does("down", &[]);
}

#[test]
fn the_traffic_of_a_rail_stays_on_its_rail() {
    if !labs_can_be_made() {
        return;
    }
    let lab = TestLab::up(&["2x2"]);
    let sent = |port: &str| lab.counter(&format!("{port}-leaf0"), "p0", "rx_bytes");
    let management = || {
        let text = lab.on("mgmt", "cat /sys/class/net/h0/statistics/rx_bytes");
        text.trim().parse::<u64>().unwrap()
    };
    let before = (sent("rail0"), sent("rail1"), management());
    assert_eq!(lab.datagrams("h0", "h1", "rail1", 10, 20), 200);
    let after = (sent("rail0"), sent("rail1"), management());
    assert!(after.1 - before.1 >= 200_000, "the rail that was used");
    assert!(
        after.0 - before.0 < 1000,
        "the other rail carried {}",
        after.0 - before.0
    );
    assert!(
        after.2 - before.2 < 1000,
        "management carried {}",
        after.2 - before.2
    );
}

#[test]
fn two_labs_do_not_know_of_each_other_even_when_one_name_begins_with_the_other() {
    if !labs_can_be_made() {
        return;
    }
    let name = name();
    let first = TestLab::named(&name, &["2x1", "--leaves", "1", "--spines", "1"]);
    let second = TestLab::named(&format!("{name}-b"), &["2x1", "--leaves", "1", "--spines", "1"]);
    first.does("fault", &["cut:h0-rail0-leaf0"]);
    assert!(first.connect("h0", "h1", "rail0").is_err());
    assert!(second.connect("h0", "h1", "rail0").is_ok());
    first.does("down", &[]);
    assert_eq!(first.remains(), [""; 0]);
    assert!(
        second.connect("h0", "h1", "rail0").is_ok(),
        "the other lab lives on"
    );
}

#[test]
fn of_two_that_bring_up_the_same_lab_one_is_refused_and_the_lab_is_whole() {
    if !labs_can_be_made() {
        return;
    }
    let lab = TestLab { name: name() };
    let start = || {
        let mut command = command(&["up", "2x1", "--name", &lab.name]);
        command
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let outputs = [start(), start()].map(|child| child.wait_with_output().unwrap());
    let mut codes = outputs.clone().map(|output| output.status.code());
    codes.sort();
    assert_eq!(codes, [Some(0), Some(3)], "{outputs:?}");
    let refused = outputs.iter().find(|output| !output.status.success()).unwrap();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(
        said.contains("is up already") && said.contains("lab down --name"),
        "{said}"
    );
    assert!(lab.connect("h0", "h1", "rail0").is_ok());
}

#[test]
fn a_lab_whose_building_was_killed_can_be_removed() {
    if !labs_can_be_made() {
        return;
    }
    for delay in [3, 30, 80, 200] {
        let lab = TestLab { name: name() };
        let mut up = command(&[
            "up", "16x4", "--leaves", "4", "--spines", "4", "--name", &lab.name,
        ]);
        let mut up = up.stdout(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(delay));
        up.kill().unwrap();
        up.wait().unwrap();
        lab.does("down", &[]);
        assert_eq!(lab.remains(), [""; 0], "killed after {delay} ms");
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(lab.remains(), [""; 0], "something came back after {delay} ms");
    }
}

#[test]
fn a_lab_that_lost_its_folder_can_be_removed() {
    if !labs_can_be_made() {
        return;
    }
    let lab = TestLab::up(&["2x1"]);
    let folder = format!("/run/railgauge/labs/{}", lab.name);
    std::fs::remove_file(format!("{folder}/state.json")).unwrap();
    let said = lab.run("status", &[]);
    assert_eq!(said.status.code(), Some(3));
    assert!(
        String::from_utf8_lossy(&said.stderr).contains("lab down"),
        "{said:?}"
    );
    lab.does("down", &[]);
    assert_eq!(lab.remains(), [""; 0]);
}

#[test]
fn the_demo_leaves_nothing_when_it_is_interrupted() {
    if !labs_can_be_made() {
        return;
    }
    let demo = command(&["demo"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let made = TestLab {
        name: format!("demo-{}", demo.id()),
    };
    crate::harness::until("the demo has a lab", || !made.remains().is_empty());
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(demo.id() as i32),
        nix::sys::signal::Signal::SIGTERM,
    )
    .unwrap();
    let mut demo = demo;
    demo.wait().unwrap();
    assert_eq!(made.remains(), [""; 0]);
    assert!(!String::from_utf8_lossy(&lab(&["status"]).stderr).contains(&made.name));
}
