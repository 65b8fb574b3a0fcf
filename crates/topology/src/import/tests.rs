//! What a site relies on that has one of these files already.

use proptest::prelude::*;

use super::*;
use crate::Fabric;
use crate::Tier;
use crate::graph::Graph;
use record::units::Rate;

const SLURM: &str = include_str!("../../../../tests/data/topology/slurm-tree.conf");
const INFINIBAND: &str = include_str!("../../../../tests/data/topology/ibnetdiscover.txt");
const LLDP_HOSTS: &str = include_str!("../../../../tests/data/topology/lldp-hosts.json");
const LLDP_EVERYBODY: &str = include_str!("../../../../tests/data/topology/lldp-everybody.json");

fn topology(text: &str) -> Topology {
    let topology = Topology::parse("site", text).unwrap();
    let again = Topology::parse("written", &topology.to_toml()).unwrap();
    assert_eq!(again, topology, "what is kept with a run is the same");
    topology
}

fn error(text: &str) -> String {
    Topology::parse("site", text).unwrap_err().to_string()
}

/// The fabric with a rank on every host.
fn graph(topology: &Topology) -> Graph {
    Graph::of(topology, &Fabric::of(topology).ranks).unwrap()
}

fn tier(topology: &Topology, name: &str) -> Tier {
    let mut switches = topology.switches.iter();
    switches.find(|switch| switch.name == name).unwrap().tier
}

#[test]
fn slurms_tree_is_there_once_for_every_rail() {
    let topology = topology(SLURM);
    assert_eq!((topology.hosts.len(), topology.switches.len()), (14, 7));
    assert!(topology.each_rail);
    let tiers = ["leaf4", "pod1", "top"].map(|name| tier(&topology, name));
    assert_eq!(tiers, [Tier::Leaf, Tier::Spine, Tier::Core]);
    let mut ranks = Fabric::of(&topology).ranks;
    for record in &mut ranks {
        let mut second = record.rails[0].clone();
        (second.rail, second.interface) = ("east".to_string(), Some("eth9".to_string()));
        second.speed_mbit = Some(400_000);
        record.rails.push(second);
    }
    let graph = Graph::of(&topology, &ranks).unwrap();
    let path = &graph.paths(0, 13, "east")[0];
    let names: Vec<String> = path.iter().map(|link| graph.name(*link)).collect();
    assert_eq!(names[0], "gpu001/east->east-leaf1/p0");
    assert_eq!(names.len(), 6, "up over pod and top, and down again: {names:?}");
    assert_eq!(graph.link(path[0]).rate, Rate(50e9), "as fast as the host's port");
    assert_eq!(graph.link(path[1]).rate, Rate(0.0));
    assert_eq!(graph.leaf_of(13, "rail0"), Some("rail0-leaf4"));
    ranks[3].host = "gpu077".to_string();
    let error = Graph::of(&topology, &ranks).unwrap_err().to_string();
    assert!(
        error.starts_with("site: rank 3 runs on host `gpu077`, which is not in this file"),
        "{error}"
    );
}

#[test]
fn what_is_wrong_in_topology_conf_is_said_with_its_line() {
    let cases = [
        (
            ("pod[1-2]", "pod[1-3]"),
            "site:11: switch `top` has `pod3` below it, which is not a switch in this file",
        ),
        (
            ("leaf3,leaf4", "leaf3,top"),
            "site:11: a loop: switch `pod2` has `top` below it, and that has `pod2` below it",
        ),
        (
            ("gpu013", "gpu012"),
            "site:7: host `gpu012` is on switch `leaf4`, but line 6 has it on `leaf3`",
        ),
        (
            ("SwitchName=pod2", "SwitchName=pod1"),
            "site:10: switch `pod1` is already in line 9",
        ),
        (("gpu[001-004]", "gpu[001-"), "site:4: Nodes: "),
        (("LinkSpeed=400000", "Speed=1"), "site:6: unknown key `Speed`"),
        (
            ("LinkSpeed=400000", "Switches=leaf1"),
            "site:6: switch `leaf3` has both hosts and switches below it",
        ),
        (
            ("SwitchName=leaf1 ", "SwitchName=leaf1 oops "),
            "site:4: `oops` is not KEY=VALUE",
        ),
    ];
    for ((from, to), wanted) in cases {
        let found = error(&SLURM.replacen(from, to, 1));
        assert!(found.starts_with(wanted), "{found}\nwanted {wanted}");
    }
    let found = error("BlockName=b1 Nodes=a[1-4]\n");
    assert!(found.starts_with("site:1: blocks (topology/block)"), "{found}");
}

#[test]
fn ibnetdiscover_gives_hosts_adapters_rates_and_both_tiers() {
    let topology = topology(INFINIBAND);
    let hosts: Vec<&str> = topology.hosts.iter().map(|host| host.name.as_str()).collect();
    assert_eq!(
        hosts,
        ["gpu001", "gpu002", "gpu003"],
        "an aggregation node is not a host"
    );
    assert_eq!(tier(&topology, "leaf-a"), Tier::Leaf);
    assert_eq!(
        tier(&topology, "S-fc6a1c0300d00400"),
        Tier::Spine,
        "two have the same description"
    );
    assert_eq!(
        topology.links.len(),
        4 + 4,
        "each cable once, though both ends tell of it"
    );
    assert_eq!(topology.rate_of("gpu001", "mlx5_0"), Some(Rate(50e9)));
    assert_eq!(topology.rate_of("gpu003", "mlx5_0:2"), Some(Rate(25e9)));
    assert_eq!(
        topology.link_of("leaf-a", "p33").unwrap().ends[1].to_string(),
        "S-fc6a1c0300d00300/p1"
    );
    let graph = graph(&topology);
    assert_eq!(graph.paths(0, 2, "mlx5_0").len(), 2);
    assert_eq!(graph.paths(0, 1, "mlx5_0").len(), 1);
}

#[test]
fn what_is_wrong_in_ibnetdiscovers_output_is_said_with_its_line() {
    let cut = INFINIBAND.find("vendid=0x2c9\ndevid=0x1021").unwrap();
    let found = error(&INFINIBAND[..cut]);
    let wanted = "site:11: port 1 of `leaf-a` leads to `H-b83fd20300a1b2c0`, which the file does not describe; is the file complete?";
    assert_eq!(found, wanted);
    let found = error(&INFINIBAND.replacen(
        "[33]\t\"S-fc6a1c0300d00300\"[1]",
        "[33]\t\"S-fc6a1c0300d00300\"[2]",
        1,
    ));
    assert!(
        found.starts_with(
            "site:24: port `S-fc6a1c0300d00300/p2` holds two cables: this one and the one in line 13"
        ),
        "{found}"
    );
    let found = error(&INFINIBAND.replacen("[1]\t\"H-", "[x]\t\"H-", 1));
    assert!(
        found.starts_with("site:11: not a port and its cable: "),
        "{found}"
    );
    let found = error(&INFINIBAND.replacen("Ca\t1 ", "Cable\t1 ", 1));
    assert!(
        found.starts_with("site:47: not a switch, an adapter or a port: "),
        "{found}"
    );
}

#[test]
fn neighbours_that_hosts_see_are_switches() {
    let topology = topology(LLDP_HOSTS);
    let hosts: Vec<&str> = topology.hosts.iter().map(|host| host.name.as_str()).collect();
    assert_eq!(hosts, ["gpu001", "gpu002", "gpu003"]);
    assert_eq!(tier(&topology, "leaf1.pod3.example"), Tier::Leaf);
    assert_eq!(topology.rate_of("gpu001", "eth2"), Some(Rate(12.5e9)));
    assert_eq!(topology.rate_of("gpu002", "eth3"), Some(Rate(1.25e9)));
    assert_eq!(topology.rate_of("gpu003", "eth2"), None, "the file does not say");
    assert_eq!(
        topology.link_of("gpu003", "eth2").unwrap().ends[1].to_string(),
        "leaf1.pod3.example/Ethernet1-3"
    );
    assert_eq!(graph(&topology).paths(0, 1, "eth3").len(), 1);
}

#[test]
fn where_switches_were_asked_too_tiers_follow() {
    let topology = topology(LLDP_EVERYBODY);
    let hosts: Vec<&str> = topology.hosts.iter().map(|host| host.name.as_str()).collect();
    assert_eq!(hosts, ["gpu001", "gpu002"]);
    assert_eq!(tier(&topology, "leaf2"), Tier::Leaf);
    assert_eq!(
        tier(&topology, "spine2"),
        Tier::Spine,
        "seen by others, not asked itself"
    );
    assert_eq!(
        topology.links.len(),
        6,
        "each cable once, though both ends tell of it"
    );
    assert_eq!(graph(&topology).paths(0, 1, "eth2").len(), 2);
}

#[test]
fn what_is_wrong_in_lldps_output_is_said_with_its_line_and_node() {
    assert!(
        error("{\n \"gpu001\": {\n").starts_with("site:3: "),
        "where the text ends"
    );
    let found = error("{\n \"gpu001\": {\"local\": {}}}");
    assert!(
        found.starts_with("site:2: `gpu001`: `lldp` is missing"),
        "{found}"
    );
    let found = error(&LLDP_HOSTS.replacen("\"port\"", "\"prot\"", 1));
    assert!(
        found.ends_with("`gpu001`: the neighbour at `eth2` does not name its port"),
        "{found}"
    );
    let found = error(&LLDP_HOSTS.replacen("\"swp2\"", "\"swp1\"", 2));
    assert!(
        found.contains("port `leaf1.pod3.example/swp1` holds two cables"),
        "{found}"
    );
}

#[test]
fn our_own_format_is_none_of_the_others() {
    for text in [
        "",
        "# a comment\n",
        "[[host]]\nname = \"SwitchName\"\n",
        "each_rail = true\n",
    ] {
        assert_eq!(recognise(text), None, "{text}");
        assert!(Topology::parse("own", text).is_ok());
    }
}

proptest! {
    #[test]
    fn no_text_makes_a_reader_panic(
        format in 0usize..4,
        text in "[-A-Za-z0-9=,\\[\\]{}\":#\\\\ \n\t()x]{0,160}",
    ) {
        let begin = ["SwitchName=", "vendid=1\nSwitch 1 \"S-1\"\n[", "{\"", "Ca 1 \"H-1\" # \""][format];
        let _ = Topology::parse("x", &format!("{begin}{text}"));
    }

    #[test]
    fn a_file_that_was_cut_or_garbled_is_read_or_refused(
        which in 0usize..4,
        at in 0usize..6000,
        cut in 0usize..60,
        put in "[-A-Za-z0-9=,\\[\\]{}\":# \n\t]{0,8}",
    ) {
        let text = [SLURM, INFINIBAND, LLDP_HOSTS, LLDP_EVERYBODY][which];
        let from = at % text.len();
        let to = (from + cut).min(text.len());
        let garbled = format!("{}{put}{}", &text[..from], &text[to..]);
        // Whatever is accepted can be kept and read again.
        if let Ok(topology) = Topology::parse("x", &garbled) {
            let again = Topology::parse("written", &topology.to_toml());
            prop_assert_eq!(again, Ok(topology));
        }
    }
}
