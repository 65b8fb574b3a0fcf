use std::os::unix::fs::symlink;
use std::path::Path;

use proptest::prelude::*;

use super::*;
use record::RdmaPort;

/// A tree with these files below `class`.
fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, content) in files {
        let path = root.path().join("class").join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    root
}

fn end(interface: Option<&str>, device: Option<&str>) -> RailEnd {
    RailEnd {
        rail: "rail0".to_string(),
        address: "10.0.0.1".to_string(),
        interface: interface.map(str::to_string),
        speed_mbit: None,
        rdma: device.map(|device| RdmaPort {
            device: device.to_string(),
            port: 1,
            link_layer: "InfiniBand".to_string(),
            state: None,
        }),
    }
}

fn value(readings: &[Reading], name: &str) -> Option<Value> {
    let mut found = readings.iter().filter(|reading| reading.name == name);
    let value = found.next().map(|reading| reading.value.clone());
    assert!(found.next().is_none(), "{name} is told twice");
    value
}

const AER: &str = "RxErr 3\nBadTLP 0\nBadDLLP 17\nRollover 0\nTimeout 1\nNonFatalErr 0\nTOTAL_ERR_COR 21\n";

#[test]
fn every_source_of_an_end_is_read_and_what_is_missing_says_why() {
    let root = tree(&[
        ("net/ib0/carrier_changes", "2\n"),
        ("net/ib0/statistics/rx_bytes", "0\n"),
        ("infiniband/mlx5_0/ports/1/counters/symbol_error", "65535\n"),
        (
            "infiniband/mlx5_0/ports/1/counters/port_rcv_errors",
            "N/A (no PMA)\n",
        ),
        ("infiniband/mlx5_0/ports/1/counters/link_downed", "3\n"),
        ("infiniband/mlx5_0/ports/1/hw_counters/link_downed", "9\n"),
        ("infiniband/mlx5_0/ports/1/hw_counters/np_cnp_sent", "5\n"),
        ("infiniband/mlx5_0/device/aer_dev_correctable", AER),
    ]);
    let readings = read(root.path(), &end(Some("ib0"), Some("mlx5_0")), DriverQuery::Ask);
    let found = |name: &str| value(&readings, name);
    assert_eq!(found("carrier_changes"), Some(Ok(2)));
    assert_eq!(found("rx_bytes"), Some(Ok(0)));
    assert_eq!(found("tx_bytes"), Some(Err(CounterState::Absent)));
    assert_eq!(found("symbol_error"), Some(Ok(65535)));
    assert_eq!(
        found("port_rcv_errors"),
        Some(Err(CounterState::Unreadable("not a number".to_string())))
    );
    assert_eq!(found("link_downed"), Some(Ok(3)), "as the port counts it");
    assert_eq!(found("np_cnp_sent"), Some(Ok(5)));
    assert_eq!(found("aer_dev_correctable/BadDLLP"), Some(Ok(17)));
    assert_eq!(
        found("aer_dev_fatal/TOTAL_ERR_FATAL"),
        Some(Err(CounterState::Absent))
    );
    assert!(matches!(
        found("ethtool/*"),
        Some(Err(CounterState::Unreadable(_)))
    ));
    let bits = |name: &str| readings.iter().find(|reading| reading.name == name).unwrap().bits;
    assert_eq!(
        (bits("symbol_error"), bits("link_downed"), bits("np_cnp_sent")),
        (Some(16), Some(8), None)
    );
}

#[test]
fn a_software_device_counts_falls_of_its_link_itself() {
    let root = tree(&[("infiniband/rxe0/ports/1/hw_counters/link_downed", "1\n")]);
    let readings = read(root.path(), &end(None, Some("rxe0")), DriverQuery::Ask);
    assert_eq!(value(&readings, "link_downed"), Some(Ok(1)));
    assert_eq!(value(&readings, "port/*"), Some(Err(CounterState::Absent)));
    assert_eq!(
        readings
            .iter()
            .find(|reading| reading.name == "link_downed")
            .unwrap()
            .bits,
        None
    );
}

#[test]
fn sources_that_an_end_does_not_have_take_one_line_each() {
    let root = tree(&[]);
    let readings = read(root.path(), &end(Some("eth9"), Some("mlx5_9")), DriverQuery::Ask);
    let names: Vec<&str> = readings.iter().map(|reading| reading.name.as_str()).collect();
    assert_eq!(
        names,
        ["interface/*", "port/*", "hardware/*", "ethtool/*", "pcie/*"]
    );
    assert_eq!(
        read(root.path(), &end(None, None), DriverQuery::Ask).len(),
        1,
        "of the bus nothing is known"
    );
}

#[test]
fn of_a_drivers_counters_those_that_are_known_are_kept() {
    let statistics = [
        ("rx_prio3_pause_duration", 7),
        ("rx_prio4_pause_duration", 9),
        ("rx9_xdp_drop", 1),
    ];
    let statistics = statistics.map(|(name, value)| (name.to_string(), value));
    let readings = of_statistics(&statistics);
    assert_eq!(value(&readings, "rx_prio4_pause_duration"), Some(Ok(9)));
    assert_eq!(value(&readings, "rx_prio*_pause_duration"), None, "it has them");
    assert_eq!(
        value(&readings, "rx_discards_phy"),
        Some(Err(CounterState::Absent))
    );
    assert_eq!(value(&readings, "rx9_xdp_drop"), None);
    let foreign = of_statistics(&[("peer_ifindex".to_string(), 3)]);
    assert_eq!(foreign.len(), 1, "a driver with none of them takes one line");
}

#[test]
fn a_hostile_tree_yields_reasons_and_no_failure() {
    let huge = "1".repeat(1 << 20);
    let root = tree(&[
        ("net/eth0/statistics/rx_bytes", &huge),
        ("net/eth0/statistics/tx_bytes", "-1"),
        ("net/eth0/statistics/rx_errors/folder", "1"),
        (
            "net/eth0/device/aer_dev_correctable",
            "RxErr\nBadTLP x\nBadDLLP 99999999999999999999\n\n",
        ),
    ]);
    let net = root.path().join("class/net/eth0");
    symlink(net.join("carrier_changes"), net.join("carrier_changes")).unwrap();
    nix::unistd::mkfifo(&net.join("statistics/rx_dropped"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let readings = read(root.path(), &end(Some("eth0"), Some("../..")), DriverQuery::Ask);
    assert!(readings.iter().all(|reading| reading.value.is_err()));
    for name in [
        "rx_bytes",
        "tx_bytes",
        "rx_errors",
        "rx_dropped",
        "carrier_changes",
        "aer_dev_correctable/BadTLP",
    ] {
        let value = value(&readings, name);
        assert!(
            matches!(value, Some(Err(CounterState::Unreadable(_)))),
            "{name}: {value:?}"
        );
    }
    for name in ["..", "", "a/b", "eth0\0"] {
        let readings = read(root.path(), &end(Some(name), None), DriverQuery::Ask);
        assert!(readings.iter().all(|reading| reading.value.is_err()), "{name:?}");
    }
}

#[test]
fn the_machine_itself_can_be_read() {
    let readings = read(Path::new(SYS), &end(Some("lo"), None), DriverQuery::Ask);
    assert!(matches!(value(&readings, "rx_bytes"), Some(Ok(_))));
    assert_eq!(value(&readings, "ethtool/*"), Some(Err(CounterState::Absent)));
}

proptest! {
    #[test]
    fn whatever_a_list_of_errors_holds_it_is_read_or_says_why(text in "\\PC{0,200}", number in any::<u64>()) {
        let root = tree(&[("net/eth0/device/aer_dev_correctable", &format!("{text}\nBadTLP {number}\n"))]);
        let readings = read(root.path(), &end(Some("eth0"), None), DriverQuery::Ask);
        let found = value(&readings, "aer_dev_correctable/BadTLP").unwrap();
        prop_assert!(text.contains("BadTLP") || found == Ok(number));
    }
}
