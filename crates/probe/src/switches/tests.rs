//! What a reader of counters would lose, each format by what its switches print.

use std::path::Path;
use std::time::Duration;

use proptest::prelude::*;

use super::*;

const PATIENCE: Duration = Duration::from_secs(20);

fn bytes(tx: u64, rx: u64) -> Option<PortBytes> {
    Some(PortBytes {
        tx_bytes: Some(tx),
        rx_bytes: Some(rx),
        width: Width::Bits64,
    })
}

fn read(text: &str, switch: &str) -> PortTable {
    read_text(text, Some(switch)).unwrap()
}

fn complaint(text: &str) -> String {
    let TextError { line, message } = read_text(text, Some("leaf1")).unwrap_err();
    format!(
        "{}: {message}",
        line.map_or("-".to_string(), |line| line.to_string())
    )
}

const OWN: &str = r#"{"switch_counters": 1, "ports": [
    {"switch": "rail0-leaf0", "port": "u0", "counters": {"tx_bytes": 12, "rx_bytes": 0, "carrier_changes": 2}},
    {"switch": "rail0-leaf0", "port": "u1", "bits": 32, "counters": {"tx_bytes": null}}]}"#;

#[test]
fn our_own_format_keeps_what_is_absent_apart_from_zero() {
    let table = read(OWN, "elsewhere");
    assert_eq!(table.get("rail0-leaf0/u0"), bytes(12, 0));
    let narrow = PortBytes {
        width: Width::Bits32,
        ..PortBytes::default()
    };
    assert_eq!(table.get("rail0-leaf0/u1"), Some(narrow));
    assert_eq!(table.get("rail0-leaf0/u2"), None);
}

#[test]
fn what_is_written_is_what_is_read() {
    let port = PortEntry {
        switch: "s".to_string(),
        port: "p".to_string(),
        bits: None,
        counters: [("tx_bytes".to_string(), Some(3)), ("rx_bytes".to_string(), None)].into(),
    };
    let text = serde_json::to_string(&CounterFile::of(vec![port])).unwrap();
    let read = read(&text, "elsewhere").get("s/p").unwrap();
    assert_eq!((read.tx_bytes, read.rx_bytes), (Some(3), None));
}

#[test]
fn a_mistake_in_our_own_format_is_named() {
    for (text, said) in [
        (r#"{"switch_counters": 2, "ports": []}"#, "reads version 1"),
        (r#"{"switch_counters": 1}"#, "`ports` is missing"),
        (
            r#"{"switch_counters": 1, "ports": [{"port": "u0", "counters": {}}]}"#,
            "`ports[0].switch`",
        ),
        (
            r#"{"switch_counters": 1, "ports": [{"switch": "s", "port": "u0"}]}"#,
            "`ports[0].counters`",
        ),
        (
            r#"{"switch_counters": 1, "ports": [{"switch": "s", "port": "u0", "bits": 16, "counters": {}}]}"#,
            "`ports[0].bits` must be 32 or 64",
        ),
        (
            r#"{"switch_counters": 1, "ports": [{"switch": "s", "port": "u0", "counters": {"tx_bytes": 1}},
                {"switch": "s", "port": "u0", "counters": {"tx_bytes": 1}}]}"#,
            "port `s/u0` is listed twice",
        ),
        (
            r#"{"switch_counters": 1, "ports": []}"#,
            "no port has a byte counter",
        ),
        ("{\n\"switch_counters\": 1,\n", "3: "),
        ("{\"some\": \"thing\"}", "of railgauge, SONiC or NVUE"),
        ("tx_bytes 7", "unknown format"),
    ] {
        assert!(complaint(text).contains(said), "{text}: {}", complaint(text));
    }
}

#[test]
fn sonic_is_read_by_name_and_from_a_dump_of_its_database() {
    let by_name = r#"{"Ethernet0": {"RX_OK": "8", "TX_OK": "9", "SAI_PORT_STAT_IF_OUT_OCTETS": "61,088", "SAI_PORT_STAT_IF_IN_OCTETS": 5},
        "Ethernet4": {"SAI_PORT_STAT_IF_OUT_OCTETS": "N/A", "SAI_PORT_STAT_IF_IN_OCTETS": "7"}}"#;
    let table = read(by_name, "leaf1");
    assert_eq!(table.get("leaf1/Ethernet0"), bytes(61_088, 5));
    let half = table.get("leaf1/Ethernet4").unwrap();
    assert_eq!((half.tx_bytes, half.rx_bytes), (None, Some(7)));
    let dump = r#"{
        "COUNTERS_PORT_NAME_MAP": {"type": "hash", "value": {"Ethernet0": "oid:0x1000000000003"}},
        "COUNTERS:oid:0x1000000000003": {"type": "hash", "value": {"SAI_PORT_STAT_IF_OUT_OCTETS": "10", "SAI_PORT_STAT_IF_IN_OCTETS": "20"}},
        "COUNTERS:oid:0x15000000000234": {"type": "hash", "value": {"SAI_QUEUE_STAT_PACKETS": "4"}}}"#;
    assert_eq!(
        read(dump, "leaf1"),
        in_table("leaf1", vec![("Ethernet0".into(), bytes(10, 20).unwrap())]).unwrap()
    );
}

#[test]
fn packets_are_not_taken_for_bytes() {
    let packets = r#"{"Ethernet0": {"STATE": "U", "RX_OK": "8", "RX_BPS": "0.00 B/s", "TX_OK": "9"}}"#;
    assert!(complaint(packets).contains("no port has a byte counter"));
}

#[test]
fn nvue_is_read_wherever_its_release_has_the_figures() {
    let link = r#"{"swp1": {"link": {"mtu": 9216, "stats": {"in-bytes": 184151, "in-pkts": 2, "out-bytes": 117506}}, "type": "swp"},
        "lo": {"ip": {}}}"#;
    let table = read(link, "leaf1");
    assert_eq!(table.get("leaf1/swp1"), bytes(117_506, 184_151));
    assert_eq!(table.get("leaf1/lo"), None);
    for other in [
        r#"{"swp1": {"counters": {"in-bytes": 2, "out-bytes": 1}}}"#,
        r#"{"swp1": {"in-bytes": "2", "out-bytes": "1"}}"#,
    ] {
        assert_eq!(read(other, "leaf1").get("leaf1/swp1"), bytes(1, 2), "{other}");
    }
}

#[test]
fn many_switches_in_one_object_keep_their_names() {
    let text = r#"{"leaf1": {"swp1": {"link": {"stats": {"in-bytes": 2, "out-bytes": 1}}}},
        "leaf2": {"Ethernet0": {"SAI_PORT_STAT_IF_OUT_OCTETS": 3, "SAI_PORT_STAT_IF_IN_OCTETS": 4}}}"#;
    let table = read_text(text, None).unwrap();
    assert_eq!(table.get("leaf1/swp1"), bytes(1, 2));
    assert_eq!(table.get("leaf2/Ethernet0"), bytes(3, 4));
    let one = r#"{"swp1": {"link": {"stats": {"in-bytes": 2, "out-bytes": 1}}}}"#;
    let nobody = read_text(one, None).unwrap_err();
    assert!(nobody.message.contains("which switch"), "{}", nobody.message);
}

const IBDIAGNET: &str = "# database\nSTART_NODES\nNodeDesc,NumPorts,NodeType,NodeGUID\n\
    \"MF0;leaf1:MQM9700/U1\",65,2,0x2c90200423e70\n\"gpu001 mlx5_0, the first\",1,1,0x0002c903000e0b72\n\
    \"twin\",65,2,0x0a\n\"twin\",65,2,0x0b\nEND_NODES\n\
    START_PM_INFO\nNodeGUID,PortGUID,PortNumber,PortXmitData,PortXmitDataExtended,PortRcvDataExtended\n\
    0x0002c90200423e70,0x0002c90200423e70,1,4294967295,1000,2000\n\
    0x0002c90200423e70,0x0002c90200423e70,2,0,N/A,0xfffffffffffffffe\n\
    0x0002c903000e0b72,0x0002c903000e0b73,1,0,7,7\n\
    0x000000000000000a,0x0a,1,0,1,2\nEND_PM_INFO\n";

#[test]
fn infiniband_counts_words_and_its_switches_are_called_as_in_the_topology() {
    let table = read(IBDIAGNET, "elsewhere");
    assert_eq!(table.get("leaf1/p1"), bytes(4000, 8000));
    assert_eq!(table.get("leaf1/p2"), Some(PortBytes::default()));
    assert_eq!(
        table.get("S-000000000000000a/p1"),
        bytes(4, 8),
        "a description that two share names nobody"
    );
    assert_eq!(table.iter().count(), 3, "adapters are no switches");
}

#[test]
fn a_narrow_infiniband_counter_that_has_stopped_is_unknown() {
    let narrow =
        "START_PM_INFO\nNodeGUID,PortNumber,PortXmitData,PortRcvData\n0x1,1,4294967295,5\nEND_PM_INFO\n";
    let port = read(narrow, "elsewhere").get("S-0000000000000001/p1").unwrap();
    assert_eq!((port.tx_bytes, port.rx_bytes), (None, Some(20)));
}

#[test]
fn a_cut_off_table_is_no_smaller_fabric() {
    let cut = &IBDIAGNET[..IBDIAGNET.len() - 30];
    assert!(
        complaint(cut).contains("`END_PM_INFO` is missing"),
        "{}",
        complaint(cut)
    );
    let without = IBDIAGNET.replace("PortRcvDataExtended", "Elsewhere");
    assert!(complaint(&without).starts_with("10: "), "{}", complaint(&without));
    assert!(complaint(&without).contains("neither `PortRcvDataExtended` nor `PortRcvData`"));
    let none = "START_NODES\nNodeDesc,NodeGUID\nEND_NODES\n";
    assert!(complaint(none).contains("table PM_INFO is missing"));
}

#[test]
fn a_counter_that_went_round_is_counted_on_and_one_that_was_set_back_is_unknown() {
    let round = (1 << 32) - 10;
    assert_eq!(
        unwrap_counter(Some(round), Some(5), Width::Bits32),
        Some((1 << 32) + 5)
    );
    assert_eq!(unwrap_counter(Some(round), Some(5), Width::Bits64), None);
    assert_eq!(
        unwrap_counter(Some(1 << 40), Some(5), Width::Bits32),
        None,
        "it never was that narrow"
    );
    assert_eq!(unwrap_counter(Some(5), Some(5), Width::Bits64), Some(5));
    assert_eq!(unwrap_counter(None, Some(5), Width::Bits64), Some(5));
    assert_eq!(unwrap_counter(Some(5), None, Width::Bits32), None);
}

fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

#[test]
fn a_folder_of_trees_and_files_is_one_table() {
    let root = tempfile::tempdir().unwrap();
    let net = "rail0-leaf0/sys/class/net";
    write(root.path(), &format!("{net}/u0/statistics/tx_bytes"), "100\n");
    write(root.path(), &format!("{net}/u0/statistics/rx_bytes"), "0\n");
    write(root.path(), &format!("{net}/u1/statistics/tx_bytes"), "lots\n");
    write(root.path(), "rail0-leaf1/class/net/u0/statistics/tx_bytes", "7");
    write(
        root.path(),
        "leaf9.json",
        r#"{"swp1": {"link": {"stats": {"in-bytes": 2, "out-bytes": 1}}}}"#,
    );
    write(root.path(), "notes/readme", "not a switch");
    write(root.path(), ".hidden", "not a switch");
    let source: Source = root.path().to_str().unwrap().parse().unwrap();
    let table = source.read(PATIENCE).unwrap();
    assert_eq!(table.get("rail0-leaf0/u0"), bytes(100, 0));
    assert_eq!(table.get("rail0-leaf0/u1"), Some(PortBytes::default()));
    assert_eq!(table.get("rail0-leaf1/u0").unwrap().tx_bytes, Some(7));
    assert_eq!(table.get("leaf9/swp1"), bytes(1, 2));
    assert_eq!(table.iter().count(), 4);
}

#[test]
fn an_error_names_the_file_and_the_line() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "leaf1.json", "{\n\n]");
    let file = root.path().join("leaf1.json").display().to_string();
    let error = Source::Path(root.path().to_path_buf())
        .read(PATIENCE)
        .unwrap_err();
    assert!(error.to_string().starts_with(&format!("{file}:3: ")), "{error}");
    let empty = tempfile::tempdir().unwrap();
    let error = Source::Path(empty.path().to_path_buf())
        .read(PATIENCE)
        .unwrap_err();
    assert!(error.to_string().contains("no switch in it"), "{error}");
    let pipe = empty.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let error = Source::Path(pipe).read(PATIENCE).unwrap_err();
    assert!(error.to_string().contains("not a file or a folder"), "{error}");
}

#[test]
fn a_command_is_read_and_its_complaint_passed_on() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "printed", OWN);
    let run = |words: &[&str]| {
        let words = words.iter().map(|word| word.to_string()).collect();
        Source::Command(words).read(PATIENCE)
    };
    let printed = folder.path().join("printed");
    let table = run(&["cat", printed.to_str().unwrap()]).unwrap();
    assert_eq!(table.get("rail0-leaf0/u0"), bytes(12, 0));
    for (words, said) in [
        (
            &["sh", "-c", "echo 'no route to leaf1' >&2; exit 3"][..],
            "no route to leaf1",
        ),
        (&["sh", "-c", "exit 3"][..], "exit status: 3"),
        (&["/no/such/program"][..], "cannot start it"),
        (&["echo", "hello"][..], "unknown format"),
    ] {
        let error = run(words).unwrap_err().to_string();
        assert!(error.contains(said) && error.starts_with("exec:"), "{error}");
    }
}

#[test]
fn a_command_that_hangs_is_ended_with_whoever_it_started() {
    let words = ["sh", "-c", "sleep 1000 & sleep 1000"]
        .map(str::to_string)
        .to_vec();
    let error = Source::Command(words)
        .read(Duration::from_millis(50))
        .unwrap_err();
    assert!(error.to_string().contains("did not end within"), "{error}");
    let left_behind = ["sh", "-c", "sleep 1000 & echo '{}'"]
        .map(str::to_string)
        .to_vec();
    let error = Source::Command(left_behind).read(PATIENCE).unwrap_err();
    assert!(
        error.to_string().contains("of railgauge, SONiC or NVUE"),
        "{error}"
    );
}

#[test]
fn a_source_without_a_command_is_refused() {
    assert!("exec:".parse::<Source>().is_err());
    assert!(" ".parse::<Source>().is_err());
    let source: Source = "exec:ask --all".parse().unwrap();
    assert_eq!(source, Source::Command(vec!["ask".into(), "--all".into()]));
    assert_eq!(source.to_string(), "exec:ask --all");
}

proptest! {
    #[test]
    fn nothing_that_a_switch_may_print_makes_a_reader_panic(text in ".*") {
        let _ = read_text(&text, Some("leaf1"));
        let _ = read_text(&text, None);
    }

    #[test]
    fn nor_what_is_left_of_a_text_with_a_piece_cut_out(at in 0usize..900, less in 0usize..200, which in 0usize..3) {
        let sonic = r#"{"COUNTERS:oid:0x3": {"value": {"SAI_PORT_STAT_IF_OUT_OCTETS": "10"}}, "COUNTERS_PORT_NAME_MAP": {"E0": "oid:0x3"}}"#;
        let text = [OWN, IBDIAGNET, sonic][which];
        let kept: String = text.chars().take(at).chain(text.chars().skip(at + less)).collect();
        if let Ok(table) = read_text(&kept, Some("leaf1")) {
            prop_assert!(table.iter().any(|(_, bytes)| bytes != PortBytes::default()));
        }
    }

    #[test]
    fn names_are_those_a_topology_may_have(switch in ".{1,200}", port in ".{1,200}") {
        let mut table = PortTable::default();
        table.put(&switch, &port, PortBytes::default()).unwrap();
        let (name, _) = table.iter().next().unwrap();
        prop_assert!(name.len() <= 200 && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.:/".contains(c)), "{name}");
        prop_assert_eq!(name.matches('/').count(), 1);
    }
}
