//! What a site relies on whose switches print one of these formats; the files are in `tests/data/switches`.

use std::path::PathBuf;
use std::time::Duration;

use super::*;
use crate::switches::Source;
use ::topology::Topology;
use record::{Fact, PartClass};

pub(super) fn data(path: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .join("tests/data")
        .join(path)
}

fn of(path: &str) -> SwitchInventory {
    read(&Source::Path(data(path)), Duration::from_secs(20))
}

fn value<'i>(inventory: &'i SwitchInventory, at: &str, class: PartClass, fact: &str) -> Option<&'i str> {
    let (switch, part) = at.split_once('/').unwrap_or((at, at));
    let node = inventory.switches.iter().find(|node| node.node == switch)?;
    node.part(class, part)?.value(fact)
}

fn switch<'i>(inventory: &'i SwitchInventory, name: &str, fact: &str) -> Option<&'i str> {
    value(inventory, name, PartClass::Switch, fact)
}

/// Cables as `end end`, in order.
fn cables(inventory: &SwitchInventory) -> Vec<String> {
    let mut cables: Vec<String> = inventory
        .cables
        .iter()
        .map(|cable| format!("{} {}", cable.ends[0], cable.ends[1]))
        .collect();
    cables.sort();
    cables
}

fn cable<'i>(inventory: &'i SwitchInventory, port: &str) -> &'i Cable {
    let has = |cable: &&Cable| cable.ends.iter().any(|end| end.to_string() == port);
    inventory.cables.iter().find(has).unwrap()
}

const NONE: [&str; 0] = [];

#[test]
fn ibdiagnet_tells_firmware_ports_cables_and_what_is_plugged_in() {
    let inventory = of("switches/ibdiagnet2.db_csv");
    assert_eq!(inventory.troubles, NONE);
    let names: Vec<&str> = inventory.switches.iter().map(|node| node.node.as_str()).collect();
    assert_eq!(
        names,
        ["S-fc6a1c0300d00300", "S-fc6a1c0300d00400", "leaf-a", "leaf-b"]
    );
    assert_eq!(switch(&inventory, "leaf-a", "firmware"), Some("31.2012.4036"));
    assert_eq!(
        switch(&inventory, "S-fc6a1c0300d00400", "firmware"),
        Some("31.2010.3118")
    );
    assert_eq!(
        switch(&inventory, "S-fc6a1c0300d00400", "type"),
        Some("Quantum-2")
    );
    assert_eq!(switch(&inventory, "leaf-a", "type"), Some("MQM9700"));
    assert_eq!(switch(&inventory, "leaf-b", "serial"), Some("MT2306X00322"));
    assert_eq!(switch(&inventory, "leaf-b", "part-number"), Some("MQM9700-NS2F"));
    assert_eq!(switch(&inventory, "leaf-b", "board"), Some("MT_0000000847"));
    let port = |at, fact| value(&inventory, at, PartClass::Port, fact);
    assert_eq!(port("leaf-b/p1", "rate"), Some("400 Gb/sec"));
    assert_eq!(port("leaf-b/p2", "rate"), Some("200 Gb/sec"));
    assert_eq!(port("leaf-b/p2", "width"), Some("2X NDR"));
    assert_eq!(port("leaf-a/p1", "mtu"), Some("4096"));
    assert_eq!(
        (port("leaf-a/p3", "state"), port("leaf-a/p3", "physical-state")),
        (Some("DOWN"), Some("Polling"))
    );
    assert_eq!(port("leaf-a/p3", "rate"), None, "a port that is down has no rate");
    assert_eq!(port("leaf-a/p0", "state"), None, "port 0 is the switch itself");
    assert_eq!(
        value(&inventory, "leaf-a/p33", PartClass::Module, "firmware"),
        Some("47.171.0001")
    );
    assert_eq!(
        value(&inventory, "S-fc6a1c0300d00400/p1", PartClass::Module, "firmware"),
        Some("46.120.0014")
    );
    let facts = &cable(&inventory, "gpu001/mlx5_0/1").facts;
    assert_eq!(facts["serial"], Fact::Value("MT2311VS04721".to_string()));
    assert_eq!(facts["length"], Fact::Value("2 m".to_string()));
    assert_eq!(facts["adapter-firmware"], Fact::Value("28.43.2026".to_string()));
    assert_eq!(facts["firmware"], Fact::Absent, "copper has none");
    let fibre = &cable(&inventory, "leaf-a/p34").facts;
    assert_eq!(fibre.get("serial"), None, "both modules have one of their own");
    assert_eq!(fibre["part-number"], Fact::Value("MMA4Z00-NS".to_string()));
}

#[test]
fn what_ibdiagnet_and_ibnetdiscover_say_is_one_fabric() {
    let mut inventory = of("switches/ibdiagnet2.db_csv");
    let before = inventory.cables.len();
    let topology = Topology::read(&data("topology/ibnetdiscover.txt")).unwrap();
    apply_topology(&mut inventory, &topology);
    assert_eq!(inventory.troubles, NONE);
    assert_eq!(inventory.cables.len(), before, "the topology has no other cables");
    assert_eq!(switch(&inventory, "leaf-a", "tier"), Some("leaf"));
    assert_eq!(switch(&inventory, "S-fc6a1c0300d00300", "tier"), Some("spine"));
    assert_eq!(cable(&inventory, "gpu003/mlx5_0/2").name, "gpu003:mlx5_0:2");
}

#[test]
fn ibswitches_and_ibdiagnet_call_switches_alike() {
    let names = |inventory: &SwitchInventory| -> Vec<String> {
        inventory.switches.iter().map(|node| node.node.clone()).collect()
    };
    assert_eq!(
        names(&of("switches/ibswitches.txt")),
        names(&of("switches/ibdiagnet2.db_csv"))
    );
}

#[test]
fn a_table_that_is_cut_off_costs_that_table_only() {
    let text = std::fs::read_to_string(data("switches/ibdiagnet2.db_csv")).unwrap();
    let parsed = |text: &str| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("db");
        std::fs::write(&path, text).unwrap();
        let inventory = read(&Source::Path(path), Duration::from_secs(20));
        (inventory.troubles.join("\n"), inventory)
    };
    let (said, cut) = parsed(&text.replace("END_CABLE_INFO\n", ""));
    assert!(said.contains("table CABLE_INFO is truncated"), "{said}");
    assert_eq!(switch(&cut, "leaf-a", "firmware"), Some("31.2012.4036"));
    assert_eq!(cut.cables.len(), 8);
    let (said, short) = parsed(&text.replace(
        "0xfc6a1c0300d00200,MT2306X00322,MQM9700-NS2F,A7,\"Gorilla\"",
        "0xfc6a1c0300d00200,MT2306",
    ));
    assert!(
        said.contains(": table SYSTEM_GENERAL_INFORMATION: a row with 2 of 5 columns"),
        "{said}"
    );
    assert_eq!(switch(&short, "leaf-b", "serial"), None);
    let (said, renamed) = parsed(
        &text
            .replace("FWInfo_Extended_Major", "Other")
            .replace("FWInfo_Major", "Another"),
    );
    assert!(
        said.contains("table NODES_INFO has no column `FWInfo_Major`"),
        "{said}"
    );
    assert_eq!(switch(&renamed, "leaf-b", "serial"), Some("MT2306X00322"));
    let (said, without) = parsed(&text.replace("START_NODES\n", "START_KNOTS\n"));
    assert!(said.contains("table NODES is missing"), "{said}");
    assert_eq!(without.switches.len(), 0);
}

#[test]
fn sonic_tells_its_version_ports_modules_and_neighbours() {
    let inventory = of("switches/sonic");
    assert_eq!(inventory.troubles, NONE);
    assert_eq!(inventory.switches.len(), 3);
    assert_eq!(switch(&inventory, "leaf1", "os"), Some("SONiC.202311.714"));
    assert_eq!(switch(&inventory, "leaf2", "os"), Some("SONiC.202305.590"));
    assert_eq!(switch(&inventory, "leaf1", "type"), Some("Mellanox-SN5600-V256"));
    assert_eq!(switch(&inventory, "leaf1", "serial"), Some("MT2340XZ0A11"));
    assert_eq!(switch(&inventory, "spine1", "os"), Some("SONiC.202311.714"));
    let port = |at, fact| value(&inventory, at, PartClass::Port, fact);
    assert_eq!(port("leaf1/Ethernet0", "speed"), Some("400000"));
    assert_eq!(
        (port("leaf1/Ethernet0", "mtu"), port("leaf1/Ethernet0", "fec")),
        (Some("9100"), Some("rs"))
    );
    assert_eq!(port("leaf1/Ethernet4", "state"), Some("down"));
    assert_eq!(port("leaf1/PortInitDone", "state"), None);
    let module = |fact| value(&inventory, "leaf1/Ethernet0", PartClass::Module, fact);
    assert_eq!(
        (module("vendor"), module("part-number")),
        (Some("NVIDIA"), Some("MMS4X00-NM"))
    );
    assert_eq!(
        (module("firmware"), module("date-code")),
        (Some("46.120.14"), Some("2023-05-04"))
    );
    assert_eq!(
        cables(&inventory),
        [
            "leaf1/Ethernet0 gpu001.pod3.example/rail0",
            "leaf1/Ethernet256 spine1/Ethernet0",
            "leaf2/Ethernet0 gpu002.pod3.example/rail0",
            "leaf2/Ethernet256 spine1/Ethernet8",
        ],
        "a neighbour that is a switch of ours goes by its own name"
    );
}

#[test]
fn a_switch_that_does_not_pause_or_mark_like_another_is_told() {
    let sonic = of("switches/sonic");
    let port = |at, fact| value(&sonic, at, PartClass::Port, fact);
    assert_eq!(port("leaf1/Ethernet0", "pfc"), Some("3 4"));
    assert_eq!(port("leaf2/Ethernet0", "pfc"), Some("off"));
    assert_eq!(port("leaf1/Ethernet4", "pfc-watchdog"), Some("3 4"));
    let map = Some("0-3:1 4:4 5-25:1 26:3 27-47:1 48:6 49-63:1");
    assert_eq!(port("leaf1/Ethernet0", "dscp-map"), map);
    assert_eq!(
        port("leaf1/Ethernet4", "dscp-map"),
        map,
        "as older releases write it"
    );
    assert_eq!(
        port("leaf1/Ethernet0", "class-queues"),
        Some("0:0 1:1 2:2 3:3 4:4 5:5 6:6 7:7")
    );
    assert_eq!(port("leaf1/Ethernet4", "ecn"), Some("3 4"));
    assert_eq!(
        port("leaf2/Ethernet0", "ecn-thresholds"),
        Some("3: ecn_all green 1048576-2097152 5%; 4: ecn_all green 1048576-2097152 5%")
    );
    assert_eq!(port("leaf1/Ethernet256", "headroom"), Some("3 4: 251904"));
    assert_eq!(switch(&sonic, "leaf1", "pfc"), Some("3 4"));
    assert_eq!(switch(&sonic, "leaf2", "pfc"), Some("3 4 | off"));
    // A map that is named and is not there is not a map.
    assert_eq!(port("leaf2/Ethernet256", "dscp-map"), None);
    assert_eq!(switch(&sonic, "leaf2", "dscp-map"), None);
    let nvue = of("switches/nvue");
    assert_eq!(switch(&nvue, "leaf01", "pfc"), Some("3"));
    assert_eq!(switch(&nvue, "leaf02", "pfc"), Some("off"));
    assert_eq!(switch(&nvue, "leaf01", "ecn"), Some("0 3"));
    assert_eq!(
        switch(&nvue, "leaf01", "ecn-thresholds"),
        Some("146.48 KB - 1.43 MB")
    );
    assert_eq!(switch(&nvue, "leaf02", "trust"), Some("pcp dscp"));
    assert_eq!(switch(&nvue, "leaf02", "roce-mode"), Some("lossy"));
}

#[test]
fn nvue_tells_its_version_ports_modules_and_neighbours() {
    let inventory = of("switches/nvue");
    assert_eq!(inventory.troubles, NONE);
    assert_eq!(inventory.switches.len(), 3);
    assert_eq!(switch(&inventory, "leaf01", "os"), Some("5.11.0"));
    assert_eq!(switch(&inventory, "leaf02", "os"), Some("5.9.1"));
    assert_eq!(switch(&inventory, "leaf01", "firmware"), Some("34.2014.1676"));
    assert_eq!(switch(&inventory, "leaf02", "firmware"), Some("34.2012.1068"));
    assert_eq!(switch(&inventory, "leaf02", "type"), Some("SN5600"));
    assert_eq!(switch(&inventory, "spine01", "serial"), Some("MT2349X02F40"));
    let port = |at, fact| value(&inventory, at, PartClass::Port, fact);
    assert_eq!(
        (port("leaf01/swp1", "speed"), port("leaf01/swp1", "mtu")),
        (Some("400000"), Some("9216"))
    );
    assert_eq!(port("leaf02/swp1", "mtu"), Some("1500"));
    assert_eq!(port("leaf01/swp2", "state"), Some("down"));
    for none in ["leaf01/eth0", "leaf01/lo", "leaf01/bond1"] {
        assert_eq!(port(none, "mtu"), None, "{none}");
    }
    for leaf in ["leaf01/swp1", "leaf02/swp1"] {
        let module = |fact| value(&inventory, leaf, PartClass::Module, fact);
        assert_eq!(
            (module("serial"), module("firmware")),
            (Some("MT2318FT01177"), Some("46.120.14")),
            "{leaf}"
        );
    }
    assert_eq!(
        value(&inventory, "leaf01/swp2", PartClass::Module, "kind"),
        None,
        "nothing is plugged in"
    );
    assert!(cables(&inventory).contains(&"leaf02/swp33 spine01/swp2".to_string()));
    assert_eq!(inventory.cables.len(), 6);
}

#[test]
fn neighbours_tell_of_cables_whoever_was_asked() {
    let hosts = of("topology/lldp-hosts.json");
    assert_eq!((hosts.switches.len(), &hosts.troubles[..]), (0, &[][..]));
    assert!(cables(&hosts).contains(&"gpu001/eth2 leaf1.pod3.example/swp1".to_string()));
    let everybody = of("topology/lldp-everybody.json");
    let topology = Topology::read(&data("topology/lldp-everybody.json")).unwrap();
    assert_eq!(
        everybody.cables.len(),
        topology.links.len(),
        "each is parsed of from both ends, and is one"
    );
}

#[test]
fn a_node_that_printed_something_else_is_named_with_its_line() {
    let text = "{\"leaf1\": {\"product-release\": \"5.11.0\"},\n \"leaf2\": {\"error\": \"unauthorized\"},\n \"gpu1\": {\"lldp\": {\"interface\": {\"eth0\": {}}}}}";
    let parsed = super::read::of_text(text, super::fields::SwitchHint::Unknown).unwrap();
    let said: Vec<String> = parsed
        .errors
        .iter()
        .map(|error| format!("{:?} {}", error.line, error.message))
        .collect();
    assert_eq!(parsed.parts.len(), 1);
    assert!(said[0].starts_with("Some(3) `gpu1`: "), "{said:?}");
    assert_eq!(said[1], "Some(2) `leaf2`: not of SONiC, NVUE or LLDP");
    for (text, why) in [
        (
            "{\"error\": \"unauthorized\"}",
            "JSON without a switch of SONiC, NVUE or LLDP",
        ),
        ("{\"product-release\": \"5.11.0\"}", "which switch it is about"),
        ("{\n\"product-release\": ", "EOF"),
        ("[{\"product-release\": \"5.11.0\"}]", "which switch it is about"),
    ] {
        let trouble = super::read::of_text(text, super::fields::SwitchHint::Unknown).unwrap_err();
        assert!(trouble.message.contains(why), "{text}: {}", trouble.message);
    }
}

#[test]
fn a_switch_is_called_as_its_file_in_a_folder_and_as_it_calls_itself_elsewhere() {
    let alone = of("switches/nvue/leaf02/system.json");
    assert_eq!(alone.switches[0].node, "leaf02");
    let folder = tempfile::tempdir().unwrap();
    let text = std::fs::read_to_string(data("switches/nvue/leaf02/system.json")).unwrap();
    std::fs::write(folder.path().join("rail0-leaf7.json"), text).unwrap();
    let named = read(
        &Source::Path(folder.path().to_path_buf()),
        Duration::from_secs(20),
    );
    assert_eq!(named.switches[0].node, "rail0-leaf7");
    assert_eq!(switch(&named, "rail0-leaf7", "hostname"), Some("leaf02"));
}

#[test]
fn the_example_of_our_own_format_is_read_without_a_word() {
    let inventory = of("switches/own.toml");
    assert_eq!(inventory.troubles, NONE);
    assert_eq!((inventory.switches.len(), inventory.cables.len()), (2, 2));
    assert_eq!(
        value(&inventory, "rail0-leaf0/u0", PartClass::Port, "speed"),
        Some("400000")
    );
    assert_eq!(cable(&inventory, "h0/rail0").name, "h0-rail0-leaf0");
}
