//! Faults of hosts: frozen, killed, other firmware, another clock.

use std::process::Stdio;

use crate::harness::{TestLab, command, labs_can_be_made, until};

fn state_of(pid: u32) -> char {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(") ").unwrap().1.chars().next().unwrap()
}

#[test]
fn a_frozen_host_stands_still_and_goes_on_when_healed_and_a_killed_one_is_dead() {
    if !labs_can_be_made() {
        return;
    }
    let lab = TestLab::up(&["2x1"]);
    let start = |host: &str| {
        let mut command = command(&["exec", "--name", &lab.name, host, "--", "sleep", "1000"]);
        command.stdin(Stdio::null()).spawn().unwrap()
    };
    let (mut frozen, mut other) = (start("h0"), start("h1"));
    until("both run", || lab.does("status", &[]).contains("h0: 1, h1: 1"));
    lab.does("fault", &["freeze:h0"]);
    until("h0 stands still", || state_of(frozen.id()) == 'T');
    assert_eq!(state_of(other.id()), 'S', "its neighbour does not");
    lab.does("heal", &["freeze:h0"]);
    until("h0 goes on", || state_of(frozen.id()) == 'S');
    lab.does("fault", &["kill:h0"]);
    assert!(!frozen.wait().unwrap().success());
    assert!(other.try_wait().unwrap().is_none(), "its neighbour lives");
    assert!(
        lab.does("status", &[]).contains("no faults"),
        "a kill is over when it is done"
    );
    other.kill().unwrap();
    other.wait().unwrap();
}

#[test]
fn firmware_drift_shows_on_its_device_only() {
    if !labs_can_be_made() {
        return;
    }
    let lab = TestLab::up(&["2x2"]);
    let read = |host: &str| {
        lab.on(
            host,
            "cat /sys/class/infiniband/mlx5_0/fw_ver /sys/class/infiniband/mlx5_1/fw_ver",
        )
    };
    let usual = read("h0");
    assert_eq!(read("h1"), usual);
    lab.does("fault", &["firmware:h1=28.39.1002,device=mlx5_1"]);
    assert_eq!(read("h0"), usual);
    let drifted = read("h1");
    assert!(
        drifted.ends_with("\n28.39.1002\n") && drifted.lines().next() == usual.lines().next(),
        "{drifted}"
    );
    lab.does("heal", &["firmware:h1,device=mlx5_1"]);
    assert_eq!(read("h1"), usual);
}

#[test]
fn a_clock_is_off_on_its_host_only_even_for_what_that_host_starts_elsewhere() {
    if !labs_can_be_made() {
        return;
    }
    let lab = TestLab::up(&["2x1"]);
    let seconds = |text: &str| text.split('.').next().unwrap().trim().parse::<i64>().unwrap();
    let uptime = |host: &str| seconds(&lab.on(host, "cat /proc/uptime"));
    lab.does("fault", &["clock:h0=+5000s", "clock:h1=-100s"]);
    let here = seconds(&std::fs::read_to_string("/proc/uptime").unwrap());
    assert!((4990..5100).contains(&(uptime("h0") - here)));
    assert!((-110..-50).contains(&(uptime("h1") - here)));
    let program = env!("CARGO_BIN_EXE_railgauge");
    let through = lab.on(
        "h0",
        &format!("{program} lab agent {} h1 cat /proc/uptime", lab.name),
    );
    assert!((-110..-50).contains(&(seconds(&through) - here)), "{through}");
    lab.does("heal", &["clock:h1"]);
    let through = lab.on(
        "h0",
        &format!("{program} lab agent {} h1 cat /proc/uptime", lab.name),
    );
    assert!((-1..60).contains(&(seconds(&through) - here)), "{through}");
}
