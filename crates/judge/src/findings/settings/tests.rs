use super::*;
use crate::findings::drift::fixture::{inventory, node, part};
use crate::findings::fixture::Fixture;
use crate::findings::judge;
use record::PartClass::{Host, Interface, Port, Switch};
use record::{Cable, Inventory, PartAt, Recorded};

/// Eight hosts with an interface per rail, all set up alike but for what `odd` says of a host.
fn fleet(odd: impl Fn(u32) -> Vec<(&'static str, &'static str)>) -> Inventory {
    let nodes = (0..8).map(|number| {
        let name = format!("node{number:02}");
        let own = odd(number);
        let is_own = |fact: &str| own.iter().find(|(name, _)| *name == fact);
        let usual = [
            ("pfc", "3"),
            ("trust", "dscp"),
            ("ecn-np", "0 1 2 3 4 5 6 7"),
            ("rp-ai-rate", "5"),
        ];
        let mut facts: Vec<(&str, &str)> = usual
            .iter()
            .map(|(fact, value)| (*fact, is_own(fact).map_or(*value, |(_, own)| own)))
            .collect();
        facts.push(("driver", "mlx5_core"));
        let tcp = is_own("tcp-congestion-control").map_or("cubic", |(_, own)| own);
        let ends = ["eth0", "eth1"].map(|interface| part(Interface, interface, &facts));
        let mut parts = vec![part(Host, &name, &[("tcp-congestion-control", tcp)])];
        parts.extend(ends);
        node(&name, parts)
    });
    inventory(nodes.collect())
}

/// A run of eight ranks on two rails, one rank a host.
fn run(inventory: Option<Inventory>) -> Recorded {
    let mut recorded = Fixture::incast().recorded();
    let one = recorded.run.ranks[0].clone();
    recorded.run.ranks = (0..8)
        .map(|rank| record::RankRecord {
            rank,
            host: format!("node{rank:02}"),
            rails: ["rail0", "rail1"]
                .iter()
                .zip(["eth0", "eth1"])
                .map(|(rail, interface)| record::RailEnd {
                    rail: rail.to_string(),
                    address: String::new(),
                    interface: Some(interface.to_string()),
                    speed_mbit: None,
                    rdma: None,
                })
                .collect(),
            ..one.clone()
        })
        .collect();
    recorded.inventory = inventory;
    recorded
}

fn said(recorded: &Recorded, place: Place) -> Finding {
    let analysis = RunAnalysis::of(recorded);
    let mut findings = [Finding::new(FindingKind::LossyClass, place).with_next_step("look".to_string())];
    add(&analysis, &mut findings);
    let [finding] = findings;
    finding
}

fn at(hosts: &[&str], rail: &str) -> Place {
    Place {
        hosts: hosts.iter().map(|host| host.to_string()).collect(),
        rail: Some(rail.to_string()),
        ..Place::default()
    }
}

#[test]
fn the_setting_in_which_an_accused_host_differs_is_named_with_its_odds() {
    let one = run(Some(fleet(|host| match host {
        3 => vec![("pfc", "off")],
        _ => Vec::new(),
    })));
    let finding = said(&one, at(&["node03"], "rail0"));
    assert_eq!(
        finding.evidence,
        [
            "pfc of node03/rail0 is off, and 3 at all 7 others (by chance in 1 of 8 cases)",
            "5 congestion settings of node03/rail0 and node03 compared, 1 differ"
        ]
    );
    assert_eq!(finding.next_step, "look", "one of eight is a coincidence");
    // Another host is accused: it is set up as the others are.
    let other = said(&one, at(&["node04"], "rail0"));
    assert_eq!(
        other.evidence,
        ["5 congestion settings of node04/rail0 and node04 compared: none differs from the others'"]
    );
}

#[test]
fn a_host_that_differs_in_two_settings_has_two_chances_to_do_so() {
    let recorded = run(Some(fleet(|host| match host {
        3 => vec![("pfc", "off"), ("tcp-congestion-control", "bbr")],
        5 => vec![("rp-ai-rate", "50")],
        _ => Vec::new(),
    })));
    let finding = said(&recorded, at(&["node03"], "rail0"));
    assert_eq!(
        finding.evidence[..2],
        [
            "pfc of node03/rail0 is off, and 3 at all 7 others (by chance in 1 of 3 cases)",
            "tcp-congestion-control of node03 is bbr, and cubic at all 7 others (by chance in 1 of 3 cases)"
        ],
        "three settings vary in this fleet"
    );
}

#[test]
fn a_rail_is_compared_with_the_other_rails() {
    let mut fleet = fleet(|_| Vec::new());
    for node in &mut fleet.nodes {
        let end = node.parts.iter_mut().find(|part| part.name == "eth1").unwrap();
        end.facts
            .insert("pfc".to_string(), record::Fact::Value("off".to_string()));
    }
    let finding = said(&run(Some(fleet)), at(&[], "rail1"));
    assert!(
        finding.evidence[0].starts_with(
            "pfc of node00/rail1, node01/rail1, node02/rail1 and 5 more is off, and 3 at all 8 others"
        ),
        "{:?}",
        finding.evidence
    );
    assert!(
        finding.next_step.starts_with("first bring pfc of"),
        "eight of eight against none of eight is no coincidence"
    );
}

#[test]
fn the_port_that_leads_to_a_host_is_compared_with_ports_beside_it_and_a_switch_with_its_tier() {
    let mut fleet = fleet(|_| Vec::new());
    let ports = (0..8).map(|number| {
        let pfc = if number == 3 { "off" } else { "3" };
        part(Port, &format!("p{number}"), &[("pfc", pfc), ("ecn", "3")])
    });
    let leaf = [("tier", "leaf"), ("pfc", "3 | off"), ("ecn", "3")];
    let other = [("tier", "leaf"), ("pfc", "3"), ("ecn", "3")];
    let spine = [("tier", "spine"), ("pfc", "off"), ("ecn", "off")];
    let own = std::iter::once(part(Switch, "leaf0", &leaf)).chain(ports);
    fleet.switches = vec![
        node("leaf0", own.collect()),
        node("leaf1", vec![part(Switch, "leaf1", &other)]),
        node("spine0", vec![part(Switch, "spine0", &spine)]),
    ];
    fleet.cables = (0..8)
        .map(|number| Cable {
            name: format!("c{number}"),
            ends: [
                PartAt {
                    node: format!("node{number:02}"),
                    part: "eth0".to_string(),
                },
                PartAt {
                    node: "leaf0".to_string(),
                    part: format!("p{number}"),
                },
            ],
            facts: BTreeMap::new(),
        })
        .collect();
    let recorded = run(Some(fleet));
    let finding = said(&recorded, at(&["node03"], "rail0"));
    assert_eq!(
        finding.evidence[0],
        "pfc of leaf0/p3 is off, and 3 at all 7 others (by chance in 1 of 8 cases)"
    );
    let place = Place {
        switch: Some("leaf0".to_string()),
        ..at(&["node02", "node03"], "rail0")
    };
    let finding = said(&recorded, place);
    assert_eq!(
        finding.evidence[0], "pfc of leaf0 is 3 | off, and 3 at the only other (by chance in 1 of 2 cases)",
        "a spine is of another tier"
    );
}

#[test]
fn what_was_not_read_is_said_and_not_taken_for_equal() {
    let without = said(&run(None), at(&["node03"], "rail0"));
    assert_eq!(
        without.evidence,
        ["congestion settings were not read: the run has no inventory"]
    );
    let mut hidden = fleet(|_| Vec::new());
    let why = record::Fact::Unreadable {
        why: "permission denied".to_string(),
        needs: Some("root".to_string()),
    };
    let parts = hidden.nodes[3]
        .parts
        .iter_mut()
        .filter(|part| part.class == Interface);
    parts.for_each(|part| drop(part.facts.insert("rp-ai-rate".to_string(), why.clone())));
    let finding = said(&run(Some(hidden)), at(&["node03"], "rail0"));
    assert_eq!(
        finding.evidence,
        [
            "4 congestion settings of node03/rail0 and node03 compared: none differs from the others'",
            "1 congestion setting could not be read there: permission denied"
        ]
    );
    let bare = inventory(
        (0..8)
            .map(|number| node(&format!("node{number:02}"), Vec::new()))
            .collect(),
    );
    let finding = said(&run(Some(bare)), at(&["node03"], "rail0"));
    assert_eq!(
        finding.evidence,
        ["congestion settings there were not read, or nothing is there to compare them with"]
    );
}

#[test]
fn findings_about_speed_are_left_to_the_drift() {
    let recorded = run(Some(fleet(|_| Vec::new())));
    let analysis = RunAnalysis::of(&recorded);
    let mut findings = [Finding::new(FindingKind::SlowLink, at(&["node03"], "rail0"))];
    add(&analysis, &mut findings);
    assert!(findings[0].evidence.is_empty());
    assert!(
        judge(&recorded)
            .findings
            .iter()
            .all(|finding| finding.kind != FindingKind::LossyClass)
    );
}
