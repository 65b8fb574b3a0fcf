//! What a process on a lab host sees, and what the lab shows to everybody else.

use record::units::Rate;
use topology::Topology;

use crate::harness::{TestLab, labs_can_be_made};

#[test]
fn a_process_on_a_lab_host_sees_that_host_and_its_own_working_directory() {
    if !labs_can_be_made() {
        return;
    }
    let lab = TestLab::up(&["4x2"]);
    assert_eq!(lab.on("h3", "hostname").trim(), "h3");
    assert_eq!(
        lab.on("h3", "ls /sys/class/net")
            .split_whitespace()
            .collect::<Vec<_>>(),
        ["lo", "mg0", "rail0", "rail1"]
    );
    assert_eq!(
        lab.on("h3", "ls /sys/class/infiniband")
            .split_whitespace()
            .collect::<Vec<_>>(),
        ["mlx5_0", "mlx5_1"]
    );
    assert_eq!(
        lab.on("h3", "cat /sys/class/infiniband/mlx5_1/ports/1/state")
            .trim(),
        "4: ACTIVE"
    );
    assert_eq!(lab.on("h3", "cat /sys/class/net/rail0/operstate").trim(), "up");
    assert!(
        lab.on("h3", "ls /sys/class").split_whitespace().count() > 3,
        "the rest of /sys/class is there"
    );
    for host in ["h0", "h1", "h2", "h3"] {
        assert!(lab.on("h3", "cat /etc/hosts").contains(&format!(" {host}\n")));
    }
    let here = std::env::current_dir().unwrap();
    assert_eq!(lab.on("h3", "pwd").trim(), here.to_str().unwrap());
    assert!(lab.on("h3", "echo $TMPDIR").contains("/h3/"));
    lab.on("h3", "echo secret > /dev/shm/x");
    assert_eq!(lab.on("h3", "ls /dev/shm"), "", "every process has its own");
    assert_eq!(
        lab.run("exec", &["h3", "--", "sh", "-c", "exit 37"])
            .status
            .code(),
        Some(37)
    );
    let missing = lab.run("exec", &["h3", "--", "/no/such/program"]);
    assert!(
        String::from_utf8_lossy(&missing.stderr).contains("h3: cannot run /no/such/program"),
        "{missing:?}"
    );
    assert_eq!(
        std::fs::read_to_string("/etc/hosts")
            .unwrap_or_default()
            .matches(" h3\n")
            .count(),
        0
    );
}

#[test]
fn switch_counters_are_live_trees_that_the_product_reads_from_anywhere() {
    if !labs_can_be_made() {
        return;
    }
    let lab = TestLab::up(&["2x1", "--leaves", "1", "--spines", "1"]);
    let before = lab.counter("rail0-leaf0", "p1", "tx_bytes");
    assert_eq!(lab.datagrams("h0", "h1", "rail0", 4, 25), 100);
    let grown = lab.counter("rail0-leaf0", "p1", "tx_bytes") - before;
    assert!((100_000..120_000).contains(&grown), "{grown}");
    let listed: serde_json::Value = serde_json::from_str(&lab.does("counters", &["--json"])).unwrap();
    assert_eq!(listed["switch_counters"], 1);
    let ports: Vec<String> = listed["ports"]
        .as_array()
        .unwrap()
        .iter()
        .map(|port| {
            format!(
                "{}/{}",
                port["switch"].as_str().unwrap(),
                port["port"].as_str().unwrap()
            )
        })
        .collect();
    assert_eq!(
        ports,
        [
            "rail0-leaf0/p0",
            "rail0-leaf0/p1",
            "rail0-leaf0/u0",
            "rail0-spine0/d0"
        ]
    );
    assert!(
        lab.does("counters", &[])
            .contains("rail0-leaf0/p1: carrier_changes=")
    );
}

#[test]
fn the_topology_file_names_what_the_kernel_has() {
    if !labs_can_be_made() {
        return;
    }
    let lab = TestLab::up(&["3x2", "--leaves", "2", "--spines", "1", "--rate", "100mbit"]);
    let printed = Topology::parse("printed", &lab.does("topology", &[])).unwrap();
    let file = format!("/run/railgauge/labs/{}/topology.toml", lab.name);
    assert_eq!(Topology::read(file.as_ref()).unwrap(), printed);
    assert_eq!(printed.rate_of("h2", "rail1"), Some(Rate(12.5e6)));
    for link in &printed.links {
        for end in &link.ends {
            let there = lab.on(
                &end.node,
                &format!("cat /sys/class/net/{}/operstate", end.interface),
            );
            assert_eq!(there.trim(), "up", "{end}");
        }
    }
}
