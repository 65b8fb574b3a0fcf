//! Hosts with kernels of their own: what a command there sees, and that a host is a machine that can be lost.

use std::process::Stdio;
use std::time::{Duration, Instant};

use super::harness::{command, guests, said, until};
use crate::harness::HANGS;

#[test]
fn a_command_on_a_guest_sees_that_host_its_rails_and_an_rdma_device_on_each() {
    let Some(lab) = guests(&["2x2", "--leaves", "1", "--spines", "1"]) else {
        return;
    };
    assert_eq!(lab.on("h1", "hostname").trim(), "h1");
    assert_eq!(
        lab.on("h1", "ls /sys/class/net")
            .split_whitespace()
            .collect::<Vec<_>>(),
        ["lo", "mg0", "rail0", "rail1"],
        "the cable over which it is told what to do is out of sight"
    );
    let links = lab.on("h1", "rdma link");
    assert!(
        links.contains("link rxe0/1 state ACTIVE") && links.contains("netdev rail1"),
        "{links}"
    );
    assert_eq!(
        lab.on("h1", "cat /sys/class/infiniband/rxe1/ports/1/state")
            .trim(),
        "4: ACTIVE"
    );
    assert_eq!(lab.on("h1", "cat /sys/class/net/rail0/mtu").trim(), "9000");
    let here = std::env::current_dir().unwrap();
    assert_eq!(lab.on("h1", "pwd").trim(), here.to_str().unwrap());
    assert!(lab.on("h1", "cat /etc/hosts").contains(" h0\n"));
    let file = tempfile::NamedTempFile::new().unwrap();
    lab.on("h1", &format!("echo written > {}", file.path().display()));
    assert_eq!(
        std::fs::read_to_string(file.path()).unwrap(),
        "written\n",
        "files are the machine's"
    );
    let ended = lab.run("exec", &["h1", "--", "sh", "-c", "echo no >&2; exit 37"]);
    assert_eq!((ended.status.code(), said(&ended).as_str()), (Some(37), "no\n"));
    let missing = lab.run("exec", &["h1", "--", "/no/such/program"]);
    assert!(
        said(&missing).contains("h1: cannot run /no/such/program"),
        "{missing:?}"
    );
    let clock = lab.run("fault", &["clock:h1=+250ms"]);
    assert_eq!(clock.status.code(), Some(2), "{clock:?}");
    let mut cat = command(&["exec", "--name", &lab.name, "h1", "--", "cat"]);
    let mut cat = cat.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut cat.stdin.take().unwrap(), b"through\n").unwrap();
    assert_eq!(cat.wait_with_output().unwrap().stdout, b"through\n");
}

#[test]
fn a_killed_host_is_gone_and_the_next_command_starts_it_anew() {
    let Some(lab) = guests(&["2x1", "--leaves", "1", "--spines", "1"]) else {
        return;
    };
    lab.on("h0", "echo before > /dev/shm/mark");
    assert_eq!(
        lab.on("h0", "cat /dev/shm/mark"),
        "before\n",
        "a host stays up between commands"
    );
    let mut busy = command(&["exec", "--name", &lab.name, "h0", "--", "sleep", "1000"]);
    let busy = busy.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    until("the command runs", || {
        lab.on("h0", "pgrep -c sleep || true").trim() == "1"
    });
    lab.does("fault", &["kill:h0"]);
    let started = Instant::now();
    let ended = busy.wait_with_output().unwrap();
    assert!(!ended.status.success() && started.elapsed() < HANGS, "{ended:?}");
    let started = Instant::now();
    assert_eq!(lab.on("h0", "ls /dev/shm"), "", "started anew");
    assert!(started.elapsed() < HANGS, "{:?}", started.elapsed());
    assert_eq!(lab.on("h1", "hostname").trim(), "h1");
}

#[test]
fn a_cable_that_is_cut_outside_is_noticed_inside_and_a_frozen_host_goes_on_when_healed() {
    let Some(lab) = guests(&["2x1", "--leaves", "1", "--spines", "1"]) else {
        return;
    };
    let state = || {
        lab.on("h0", "cat /sys/class/infiniband/rxe0/ports/1/state")
            .trim()
            .to_string()
    };
    let changes = || {
        lab.on("h0", "cat /sys/class/net/rail0/carrier_changes")
            .trim()
            .parse::<u32>()
            .unwrap()
    };
    assert_eq!(state(), "4: ACTIVE");
    let before = changes();
    lab.does("fault", &["cut:h0-rail0-leaf0"]);
    until("the device is down", || state() == "1: DOWN");
    lab.does("heal", &["--all"]);
    until("the device is up", || state() == "4: ACTIVE");
    assert_eq!(changes() - before, 2);
    lab.on("h0", "echo kept > /dev/shm/mark");
    lab.does("fault", &["freeze:h0"]);
    std::thread::sleep(Duration::from_millis(300));
    lab.does("heal", &["--all"]);
    assert_eq!(lab.on("h0", "cat /dev/shm/mark"), "kept\n");
}

#[test]
fn nothing_of_a_guest_is_left_when_its_lab_is_gone() {
    let Some(lab) = guests(&["2x1", "--leaves", "1", "--spines", "1"]) else {
        return;
    };
    lab.on("h0", "true");
    lab.on("h1", "true");
    let processes = || {
        let mark = format!("umid=rg-{}-", lab.name).into_bytes();
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        let lines = entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
        lines
            .filter(|line| line.windows(mark.len()).any(|part| part == mark))
            .count()
    };
    assert!(processes() >= 2, "{}", processes());
    lab.does("down", &[]);
    assert_eq!(processes(), 0);
    assert_eq!(lab.remains(), Vec::<String>::new());
}
