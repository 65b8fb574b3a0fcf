//! What a user of topology files relies on.

use proptest::prelude::*;

use super::*;
use crate::model::Tier;
use record::units::Rate;

const GOOD: &str = r#"
[[host]]
name = "h0"
[[host]]
name = "h1"
[[switch]]
name = "leaf0"
tier = "leaf"
rail = "rail0"
[[link]]
name = "a"
ends = ["h0/rail0", "leaf0/p0"]
rate = "200 Mb/s"
rail = "rail0"
addresses = ["10.0.0.2", "10.0.0.1"]
[[link]]
name = "b"
ends = ["h1/rail0", "leaf0/p1"]
rate = "400 Gb/s"
addresses = ["10.0.0.6", "10.0.0.5"]
"#;

fn error(text: &str) -> String {
    Topology::parse("fabric.toml", text).unwrap_err().to_string()
}

#[test]
fn a_port_leads_to_its_link_and_its_rate() {
    let topology = Topology::parse("fabric.toml", GOOD).unwrap();
    assert_eq!(topology.link_of("h0", "rail0").unwrap().name, "a");
    assert_eq!(topology.rate_of("leaf0", "p1"), Some(Rate(50e9)));
    assert_eq!(topology.rate_of("h0", "rail1"), None);
    let ports: Vec<String> = topology
        .ports_of("leaf0")
        .map(|(port, _)| port.to_string())
        .collect();
    assert_eq!(ports, ["leaf0/p0", "leaf0/p1"]);
}

#[test]
fn every_part_is_known_by_its_line() {
    let source = Topology::parse("fabric.toml", GOOD).unwrap().source;
    assert_eq!(source.origin, "fabric.toml");
    assert_eq!(
        (source.hosts, source.switches, source.links),
        (vec![2, 4], vec![6], vec![10, 16])
    );
}

#[test]
fn rates_are_written_the_way_people_write_them() {
    let text = Topology::parse("fabric.toml", GOOD).unwrap().to_toml();
    assert!(
        text.contains("rate = \"200 Mb/s\"") && text.contains("rate = \"400 Gb/s\""),
        "{text}"
    );
}

#[test]
fn what_is_wrong_is_said_with_file_and_line() {
    let cases = [
        (
            ("leaf0/p0", "leaf9/p0"),
            "fabric.toml:10: link `a` ends at `leaf9/p0`, but there is no host or switch `leaf9`",
        ),
        (
            ("leaf0/p1", "leaf0/p0"),
            "fabric.toml:16: port `leaf0/p0` holds two links: `a` and `b`",
        ),
        (("\"h1\"", "\"h0\""), "fabric.toml:4: two nodes are called `h0`"),
        (
            ("name = \"b\"", "name = \"a\""),
            "fabric.toml:16: two links are called `a`",
        ),
        (("200 Mb/s", "fast"), "fabric.toml:13: `fast` is not a rate"),
        (
            ("200 Mb/s", "0 Mb/s"),
            "fabric.toml:13: the rate of a link must be above 0",
        ),
        (("h0/rail0", "h0"), "fabric.toml:12: `h0` is not a port"),
        (
            ("tier = \"leaf\"", "tier = \"top\""),
            "fabric.toml:8: unknown variant `top`",
        ),
        (
            ("tier = \"leaf\"", "teir = \"leaf\""),
            "fabric.toml:8: unknown field `teir`",
        ),
        (
            ("10.0.0.5", "10.0.0.1"),
            "fabric.toml:16: `leaf0/p0` and `leaf0/p1` both have the address 10.0.0.1",
        ),
        (
            ("10.0.0.5", "10.0.0"),
            "fabric.toml:20: invalid IP address syntax",
        ),
        (("\"h1\"", "\"a b\""), "fabric.toml:4: `a b` is not a name"),
    ];
    for ((from, to), wanted) in cases {
        let found = error(&GOOD.replacen(from, to, 1));
        assert!(found.starts_with(wanted), "{found}\nwanted {wanted}");
    }
    assert!(error("[[host]\n").starts_with("fabric.toml:1: "));
    let missing = Topology::read(Path::new("/nowhere/fabric.toml"))
        .unwrap_err()
        .to_string();
    assert!(missing.starts_with("/nowhere/fabric.toml: "), "{missing}");
}

prop_compose! {
    fn topology()(
        hosts in 1usize..6,
        ports in 0usize..12,
        rates in proptest::collection::vec(prop_oneof![
            (1u64..1_000_000).prop_map(|kbit| kbit as f64 * 125.0),
            (1.0..1e12f64),
            Just(0.0),
        ], 12),
        tier in prop_oneof![Just(Tier::Leaf), Just(Tier::Spine), Just(Tier::Core)],
        with_rail: bool,
        with_addresses: bool,
    ) -> Topology {
        let rail = with_rail.then(|| "rail0".to_string());
        let address = with_addresses.then(|| std::net::Ipv4Addr::new(10, 255, 0, 1).into());
        let link = |index: usize| Link {
            name: format!("cable{index}"),
            ends: [
                Port { node: format!("h{}", index % hosts), interface: format!("eth{index}") },
                Port { node: "sw".to_string(), interface: format!("p{index}") },
            ],
            rate: Rate(rates[index]),
            rail: rail.clone(),
            addresses: with_addresses
                .then(|| [1, 2].map(|end| std::net::Ipv4Addr::new(10, 0, index as u8, end).into())),
        };
        Topology {
            hosts: (0..hosts).map(|host| Host { name: format!("h{host}") }).collect(),
            switches: vec![Switch { name: "sw".to_string(), tier, rail: rail.clone(), address }],
            links: (0..ports).map(link).collect(),
            forwarding: (0..ports)
                .filter(|_| !with_addresses)
                .map(|index| Forwarding { port: link(index).ends[1].clone(), to: vec![link(index).ends[0].clone()] })
                .collect(),
            each_rail: with_addresses,
            source: SourceLines::default(),
        }
    }
}

#[test]
fn forwarding_between_ports_that_are_not_there_is_refused_with_its_line() {
    let text = "\
[[host]]
name = \"h0\"
[[switch]]
name = \"leaf\"
tier = \"leaf\"
[[link]]
name = \"cable\"
ends = [\"h0/eth0\", \"leaf/p0\"]
[[forwarding]]
port = \"leaf/p0\"
to = [\"h0/eth0\"]
";
    assert_eq!(Topology::parse("site", text).unwrap().forwarding.len(), 1);
    let error = |text: &str| Topology::parse("site", text).unwrap_err().to_string();
    let wrong = error(&text.replace("port = \"leaf/p0\"", "port = \"leaf/p1\""));
    assert_eq!(wrong, "site:9: `leaf/p1` is not the port of a switch with a link");
    let wrong = error(&text.replace("to = [\"h0/eth0\"]", "to = [\"leaf/p0\"]"));
    assert_eq!(wrong, "site:9: `leaf/p0` is not the port of a host with a link");
    let wrong = error(&format!("each_rail = true\n{text}"));
    assert!(
        wrong.starts_with("site:10: a file that stands for every rail"),
        "{wrong}"
    );
}

proptest! {
    #[test]
    fn writing_and_reading_loses_nothing(topology in topology()) {
        let text = topology.to_toml();
        prop_assert_eq!(Topology::parse("written", &text).unwrap(), topology);
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in "[\\[\\]a-z=\"/ \n]{0,80}") {
        let _ = Topology::parse("x", &text);
    }
}
