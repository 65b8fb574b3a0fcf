//! Every rule fires where it must and stays silent where it must not.

use super::fixture::{at, inventory, nics, node, part};
use super::golden_tests::golden;
use super::*;
use record::{Cable, DriftBasis, Fact, FindingKind, InventoryPart, NodeInventory, PartAt, PartClass};

pub(super) fn sentences(drift: &Drift) -> Vec<String> {
    findings(drift)
        .into_iter()
        .map(|finding| finding.sentence)
        .collect()
}

/// A part with everything that makes it like the others of its rule, and `fact` as given.
fn like(rule: &DriftRule, name: &str, fact: &str, value: &str) -> InventoryPart {
    let alike = rule.alike.iter().chain(rule.alike_if_known);
    let facts: Vec<(&str, &str)> = alike
        .map(|fact| (*fact, "the same"))
        .chain([(fact, value)])
        .collect();
    part(rule.class, name, &facts)
}

/// Three parts that a rule compares: on three nodes, or on one where it compares those of one node.
pub(super) fn three(rule: &DriftRule, fact: &str, values: [&str; 3]) -> Inventory {
    let parts = values.iter().enumerate();
    let nodes: Vec<NodeInventory> = match rule.scope {
        Scope::Node => {
            let parts = parts.map(|(number, value)| like(rule, &format!("x{number}"), fact, value));
            vec![node("n0", parts.collect())]
        }
        Scope::Fleet | Scope::Slot => parts
            .map(|(number, value)| node(&format!("n{number}"), vec![like(rule, "x0", fact, value)]))
            .collect(),
    };
    let mut inventory = inventory(nodes);
    if rule.class == PartClass::Switch {
        inventory.switches = std::mem::take(&mut inventory.nodes);
    }
    inventory
}

fn the_second(rule: &DriftRule) -> PartAt {
    match rule.scope {
        Scope::Node => at("n0", "x1"),
        Scope::Fleet | Scope::Slot => at("n1", "x0"),
    }
}

/// The parts of the second of three.
fn second<'a>(rule: &DriftRule, inventory: &'a mut Inventory) -> &'a mut InventoryPart {
    let nodes = match rule.class {
        PartClass::Switch => &mut inventory.switches,
        _ => &mut inventory.nodes,
    };
    match rule.scope {
        Scope::Node => &mut nodes[0].parts[1],
        Scope::Fleet | Scope::Slot => &mut nodes[1].parts[0],
    }
}

#[test]
fn every_rule_fires_for_each_of_its_facts_and_names_the_one_who_deviates() {
    for rule in RULES {
        for fact in rule.agree {
            let drift = judge(&three(rule, fact, ["a", "b", "a"]), None, None);
            let [deviation] = drift.deviations.as_slice() else {
                panic!("{} {fact}: {drift:?}", rule.name);
            };
            assert_eq!(
                (deviation.rule.as_str(), deviation.fact.as_str()),
                (rule.name, *fact)
            );
            assert_eq!(deviation.parts, [the_second(rule)]);
            assert_eq!(
                (deviation.value.as_deref(), deviation.expected.as_str()),
                (Some("b"), "a")
            );
            assert_eq!(deviation.basis, DriftBasis::Majority { agree: 2, of: 3 });
            assert!(drift.disagreements.is_empty());
            assert_eq!(exit_code(&drift), 10);
        }
    }
}

#[test]
fn no_rule_fires_where_parts_agree_or_are_not_alike_or_do_not_say() {
    for rule in RULES {
        for fact in rule.agree {
            let nothing = |inventory: &Inventory, why: &str| {
                let drift = judge(inventory, None, None);
                assert_eq!(findings(&drift), [], "{} {fact}: {why}", rule.name);
            };
            nothing(&three(rule, fact, ["a", "a", "a"]), "all say the same");
            for unknown in [
                Fact::Absent,
                Fact::Unreadable {
                    why: "not permitted".into(),
                    needs: Some("root".into()),
                },
            ] {
                let mut silent = three(rule, fact, ["a", "b", "a"]);
                let part = second(rule, &mut silent);
                part.facts.insert(fact.to_string(), unknown);
                nothing(&silent, "who does not say is not compared");
            }
            if let Some(kind) = rule.alike.first() {
                let mut other = three(rule, fact, ["a", "b", "a"]);
                let part = second(rule, &mut other);
                part.facts.insert(kind.to_string(), Fact::Value("another".into()));
                nothing(&other, "who is of another kind is not compared");
            }
        }
    }
}

#[test]
fn of_two_that_differ_neither_is_accused() {
    let drift = judge(&nics(&["28.39.1002", "28.43.2026"]), None, None);
    assert!(drift.deviations.is_empty());
    assert_eq!(drift.disagreements[0].values["28.39.1002"], [at("n0", "mlx5_0")]);
    assert_eq!(findings(&drift)[0].kind, FindingKind::UnclearDrift);
    assert_eq!(exit_code(&drift), 20);
    assert_eq!(
        sentences(&drift),
        [
            "nic firmware differs, and no value has a majority among 2 that are alike (board MT_0000000838): 28.39.1002 on n0/mlx5_0; \
          28.43.2026 on n1/mlx5_0"
        ]
    );
}

#[test]
fn nodes_with_the_same_deviation_are_one_finding_that_says_why_and_what_to_do() {
    let drift = judge(
        &nics(&[
            "28.39.1002",
            "28.43.2026",
            "28.43.2026",
            "28.39.1002",
            "28.43.2026",
        ]),
        None,
        None,
    );
    assert_eq!(
        sentences(&drift),
        [
            "nic firmware 28.39.1002 on n0/mlx5_0 and n3/mlx5_0; 28.43.2026 on 3 of 5 like it (board MT_0000000838)"
        ]
    );
    let finding = &findings(&drift)[0];
    assert_eq!(finding.place.hosts, ["n0", "n3"]);
    assert!(finding.next_step.contains("firmware") && finding.rule.contains("nic-firmware"));
}

#[test]
fn all_ports_of_a_node_that_deviate_are_one_finding_and_not_eight() {
    let ports = |mtu: &str| {
        let ports = (0..8).map(|rail| {
            let facts = [("driver", "mlx5_core"), ("mtu", mtu)];
            part(PartClass::Interface, &format!("rail{rail}"), &facts)
        });
        ports.collect::<Vec<InventoryPart>>()
    };
    let nodes = ["9000", "1500", "9000", "9000"].iter().enumerate();
    let nodes = nodes.map(|(number, mtu)| node(&format!("n{number}"), ports(mtu)));
    let drift = judge(&inventory(nodes.collect()), None, None);
    assert_eq!(
        sentences(&drift),
        ["interface mtu 1500 on n1 (8 of them); 9000 on 24 of 32 like it (driver mlx5_core)"]
    );
}

#[test]
fn a_port_that_is_down_shows_on_a_lone_node_and_an_unused_one_on_all_nodes_does_not() {
    let ports = |last: &str| {
        let port = |number: usize, state: &str| {
            let facts = [("link-layer", "InfiniBand"), ("physical-state", state)];
            part(PartClass::Port, &format!("mlx5_{number}/1"), &facts)
        };
        vec![port(0, "LinkUp"), port(1, "LinkUp"), port(2, last)]
    };
    let lone = judge(&inventory(vec![node("n0", ports("Polling"))]), None, None);
    assert_eq!(
        sentences(&lone),
        ["port physical-state Polling on n0/mlx5_2/1; LinkUp on 2 of 3 like it (link-layer InfiniBand)"]
    );
    let unused = ["n0", "n1", "n2"].map(|name| node(name, ports("Disabled")));
    assert_eq!(
        sentences(&judge(&inventory(unused.to_vec()), None, None)),
        Vec::<String>::new()
    );
}

#[test]
fn a_port_without_a_link_is_down_and_not_slow_as_well_and_lost_lanes_are_told_once() {
    let port = |number: usize, state: &str, width: &str, rate: &str| {
        let facts = [
            ("link-layer", "InfiniBand"),
            ("physical-state", state),
            ("width", width),
            ("rate", rate),
        ];
        part(PartClass::Port, &format!("mlx5_{number}/1"), &facts)
    };
    let mut ports: Vec<InventoryPart> = (0..4)
        .map(|number| port(number, "LinkUp", "4X NDR", "400 Gb/sec"))
        .collect();
    ports.push(port(4, "Disabled", "4X SDR", "10 Gb/sec"));
    ports.push(port(5, "LinkUp", "2X NDR", "200 Gb/sec"));
    let drift = judge(&inventory(vec![node("n0", ports)]), None, None);
    assert_eq!(
        sentences(&drift),
        [
            "port physical-state Disabled on n0/mlx5_4/1; LinkUp on 5 of 6 like it (link-layer InfiniBand)",
            "port width 2X NDR on n0/mlx5_5/1; 4X NDR on 4 of 5 like it (link-layer InfiniBand)"
        ]
    );
}

/// A card with these lanes of those that it could use.
fn card(slot: &str, width: &str, capable: &str) -> InventoryPart {
    let facts = [
        ("vendor", "0x15b3"),
        ("device", "0x1021"),
        ("width", width),
        ("width-capable", capable),
    ];
    part(PartClass::Pci, slot, &facts)
}

#[test]
fn a_card_on_half_its_lanes_is_told_even_when_there_is_no_other() {
    let drift = judge(
        &inventory(vec![node("n0", vec![card("0000:17:00.0", "8", "16")])]),
        None,
        None,
    );
    assert_eq!(
        sentences(&drift),
        ["pci width 8 on n0/0000:17:00.0; it could do 16 (width-capable)"]
    );
    let healthy = judge(
        &inventory(vec![node("n0", vec![card("0000:17:00.0", "16", "16")])]),
        None,
        None,
    );
    assert_eq!(sentences(&healthy), Vec::<String>::new());
    let virtual_function = judge(
        &inventory(vec![node("n0", vec![card("0000:17:00.1", "0", "255")])]),
        None,
        None,
    );
    assert_eq!(sentences(&virtual_function), Vec::<String>::new());
}

#[test]
fn of_two_cards_the_one_on_half_its_lanes_is_named_though_it_is_a_tie() {
    let cards = vec![card("0000:17:00.0", "8", "16"), card("0000:65:00.0", "16", "16")];
    let drift = judge(&inventory(vec![node("n0", cards)]), None, None);
    assert_eq!(
        sentences(&drift),
        ["pci width 8 on n0/0000:17:00.0; it could do 16 (width-capable)"]
    );
    assert_eq!(exit_code(&drift), 10);
}

#[test]
fn cards_that_all_sit_in_slots_that_do_less_are_one_finding_that_says_all() {
    let nodes = (0..4).map(|number| {
        let cards = vec![card("0000:17:00.0", "8", "16"), card("0000:65:00.0", "8", "16")];
        node(&format!("n{number}"), cards)
    });
    let drift = judge(&inventory(nodes.collect()), None, None);
    assert_eq!(
        sentences(&drift),
        [
            "pci width 8 on all 8 of the kind (vendor 0x15b3, device 0x1021), on 4 nodes; each could do \
             16 (width-capable): their slots may be the limit"
        ]
    );
}

#[test]
fn idle_gpus_that_slow_down_their_link_do_not_drift() {
    let gpu = |name: &str, speed: &str| {
        let facts = [
            ("vendor", "0x10de"),
            ("device", "0x2330"),
            ("speed", speed),
            ("speed-capable", "32.0 GT/s PCIe"),
        ];
        node(name, vec![part(PartClass::Pci, "0000:1b:00.0", &facts)])
    };
    let fleet = vec![
        gpu("n0", "2.5 GT/s PCIe"),
        gpu("n1", "32.0 GT/s PCIe"),
        gpu("n2", "32.0 GT/s PCIe"),
    ];
    assert_eq!(
        sentences(&judge(&inventory(fleet), None, None)),
        Vec::<String>::new()
    );
}

/// `h0/rail0` on a cable to port `p1` of `leaf0`.
fn cabled(host: &[(&str, &str)], switch: &[(&str, &str)]) -> Inventory {
    let mut inventory = inventory(vec![node("h0", vec![part(PartClass::Interface, "rail0", host)])]);
    inventory.switches = vec![node("leaf0", vec![part(PartClass::Port, "p1", switch)])];
    inventory.cables = vec![Cable {
        name: "h0-rail0".into(),
        ends: [at("h0", "rail0"), at("leaf0", "p1")],
        facts: Default::default(),
    }];
    inventory
}

#[test]
fn ends_of_a_cable_that_do_not_go_together_are_told_and_those_that_do_are_not() {
    type Facts<'a> = &'a [(&'a str, &'a str)];
    let cases: [(Facts<'_>, Facts<'_>, Option<&str>); 9] = [
        (&[("speed", "100000")], &[("speed", "100G")], None),
        (
            &[("speed", "100000")],
            &[("rate", "200 Gb/sec")],
            Some("interface speed 100000 on h0/rail0; 200 Gb/sec at the other end of its cable, leaf0/p1"),
        ),
        (
            &[("speed", "200000")],
            &[("rate", "100 Gb/sec")],
            Some("port rate 100 Gb/sec on leaf0/p1; 200000 at the other end of its cable, h0/rail0"),
        ),
        (&[("mtu", "9000")], &[("mtu", "9216")], None),
        (
            &[("mtu", "9000")],
            &[("mtu", "1500")],
            Some("interface mtu 9000 on h0/rail0; 1500 or less at the other end of its cable, leaf0/p1"),
        ),
        (&[("fec", "RS")], &[("fec", "rs-fec")], None),
        (&[("fec", "RS")], &[("fec", "auto")], None),
        (
            &[("fec", "RS")],
            &[("fec", "none")],
            Some("interface fec RS on h0/rail0; none at the other end of its cable, leaf0/p1"),
        ),
        (&[], &[("mtu", "1500")], None),
    ];
    for (host, switch, wanted) in cases {
        let found = sentences(&judge(&cabled(host, switch), None, None));
        assert_eq!(
            found,
            wanted.into_iter().collect::<Vec<_>>(),
            "{host:?} {switch:?}"
        );
    }
}

#[test]
fn the_port_behind_an_interface_speaks_for_its_end_of_the_cable() {
    let mut inventory = cabled(&[("speed", "10000")], &[("rate", "400 Gb/sec"), ("width", "4X")]);
    let port = [
        ("interface", "rail0"),
        ("rate", "200 Gb/sec"),
        ("width", "2X NDR"),
    ];
    inventory.nodes[0]
        .parts
        .push(part(PartClass::Port, "mlx5_0/1", &port));
    assert_eq!(
        sentences(&judge(&inventory, None, None)),
        ["port width 2X NDR on h0/mlx5_0/1; 4X at the other end of its cable, leaf0/p1"]
    );
}

#[test]
fn what_changed_is_separate_from_what_differs() {
    let (before, mut after) = (nics(&["28.39.1002"; 3]), nics(&["28.43.2026"; 3]));
    after.nodes[0].parts[0]
        .facts
        .insert("description".into(), Fact::Value("n0 HCA-1".into()));
    let drift = judge(&after, None, Some(&before));
    assert!(drift.deviations.is_empty());
    assert_eq!(
        sentences(&drift),
        [
            "nic firmware changed from 28.39.1002 to 28.43.2026 on n0/mlx5_0, n1/mlx5_0 and n2/mlx5_0 since 2026-11-14T23:50:12Z"
        ]
    );
    assert_eq!(findings(&drift)[0].kind, FindingKind::Changed);
    assert_eq!(exit_code(&drift), 10);
    assert_eq!(
        sentences(&judge(&after, None, Some(&after))),
        Vec::<String>::new()
    );
}

#[test]
fn what_may_change_by_itself_or_was_not_known_is_no_change() {
    let port = |lid: &str| part(PartClass::Port, "mlx5_0/1", &[("lid", lid)]);
    let hidden = Fact::Unreadable {
        why: "not permitted".into(),
        needs: None,
    };
    let before = inventory(vec![node("n0", vec![port("3").with("rate", hidden)])]);
    let after = inventory(vec![node(
        "n0",
        vec![port("7").with("rate", Fact::Value("400 Gb/sec".into()))],
    )]);
    assert_eq!(judge(&after, None, Some(&before)).changes, []);
}

#[test]
fn another_serial_number_is_another_part() {
    let module = |serial: &str, firmware: &str| {
        let facts = [("serial", serial), ("firmware", firmware)];
        inventory(vec![node("n0", vec![part(PartClass::Module, "rail0", &facts)])])
    };
    let drift = judge(&module("B", "46.2"), None, Some(&module("A", "46.1")));
    assert_eq!(
        sentences(&drift),
        ["module n0/rail0 was replaced since 2026-11-14T23:50:12Z"]
    );
    assert_eq!(
        findings(&drift)[0].evidence,
        ["n0/rail0: firmware 46.1 -> 46.2, serial A -> B"]
    );
}

#[test]
fn a_card_that_vanished_is_told_and_a_node_that_did_not_take_part_is_not_accused() {
    let mut after = nics(&["28.43.2026"; 3]);
    let mut before = after.clone();
    before.nodes[0].parts.push(part(PartClass::Nic, "mlx5_1", &[]));
    before
        .nodes
        .push(node("n3", vec![part(PartClass::Nic, "mlx5_0", &[])]));
    let drift = judge(&after, None, Some(&before));
    assert_eq!(
        sentences(&drift),
        ["nic is gone on n0/mlx5_1 since 2026-11-14T23:50:12Z"]
    );
    assert_eq!(drift.changes.len(), 2, "the node is told of all the same");
    std::mem::swap(&mut after, &mut before);
    let drift = judge(&after, None, Some(&before));
    assert_eq!(
        sentences(&drift),
        ["nic is new on n0/mlx5_1 since 2026-11-14T23:50:12Z"]
    );
}

#[test]
fn nothing_in_an_inventory_makes_judging_panic_or_accuse() {
    let empty = Inventory::default();
    let drift = judge(&empty, Some(&golden("[[nic]]\nfirmware = \"1\"\n")), Some(&empty));
    assert_eq!(findings(&drift), []);
    assert_eq!(exit_code(&drift), 0);
}
