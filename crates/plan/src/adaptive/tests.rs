use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::flow::load_of;
use crate::twin::{Shape, clos};
use record::{CrossedSwitch, Load};

fn flow_between(from: u32, to: u32, rail: &str) -> Flow {
    Flow {
        from,
        to,
        rail: rail.to_string(),
        port: None,
        path: Vec::new(),
    }
}

/// A fabric in which every way is known: port n leads over way n.
fn fabric(text: &str, per_leaf: u32, spines: u32, seed: u64) -> (Graph, PathTable, Vec<u32>, Vec<String>) {
    let shape = Shape {
        hosts_per_leaf: per_leaf,
        spines,
        ..text.parse().unwrap()
    };
    let (topology, ranks) = clos(&shape);
    let graph = Graph::of(&topology, &ranks).unwrap();
    let rails: Vec<String> = (0..shape.rails).map(|rail| format!("rail{rail}")).collect();
    let numbers: Vec<u32> = ranks.iter().map(|record| record.rank).collect();
    let mut table = PathTable::default();
    for rail in &rails {
        for (from, of_rank) in partners(&graph, &numbers, rail, seed) {
            for to in of_rank {
                for (port, path) in (24_000..).zip(graph.paths(from, to, rail)) {
                    table.insert(from, to, rail, port, path);
                }
            }
        }
    }
    (graph, table, numbers, rails)
}

fn crossings(slots: &[SlotOfFlows]) -> BTreeMap<LinkId, usize> {
    let mut crossed = BTreeMap::new();
    for link in slots.iter().flatten().flat_map(|flow| &flow.path) {
        *crossed.entry(*link).or_default() += 1;
    }
    crossed
}

fn assert_nothing_is_shared(slots: &[SlotOfFlows]) {
    for slot in slots {
        let (mut ranks, mut links) = (BTreeSet::new(), BTreeSet::new());
        for flow in slot {
            assert_eq!(flow.rail, slot[0].rail, "rails are not mixed");
            assert!(ranks.insert(flow.from) && ranks.insert(flow.to), "{slot:?}");
            assert!(flow.path.iter().all(|link| links.insert(*link)), "{slot:?}");
        }
    }
}

#[test]
fn the_opening_crosses_every_link_as_often_as_asked_and_no_two_flows_share_anything() {
    for (text, per_leaf, spines) in [
        ("8x2", 2, 2),
        ("16x2", 4, 2),
        ("16x1", 4, 4),
        ("9x1", 2, 3),
        ("64x1", 8, 8),
    ] {
        for seed in 0..5 {
            let (graph, table, ranks, rails) = fabric(text, per_leaf, spines, seed);
            let slots = Adaptive::new(&graph, &table, &ranks, &rails, seed).opening(2, &[]);
            assert_nothing_is_shared(&slots);
            let crossed = crossings(&slots);
            for (id, _) in graph.links() {
                let times = crossed.get(&id).copied().unwrap_or(0);
                assert!(times >= 2, "{text}: {} is crossed {times} times", graph.name(id));
            }
        }
    }
}

#[test]
fn hardly_a_place_in_a_slot_stays_empty_and_every_host_sends_and_receives_about_as_often() {
    for (text, per_leaf, spines, fewest) in [("8x2", 2, 3, 6), ("16x2", 4, 2, 5), ("8x1", 2, 2, 5)] {
        for seed in 0..5 {
            let (graph, table, ranks, rails) = fabric(text, per_leaf, spines, seed);
            let slots = Adaptive::new(&graph, &table, &ranks, &rails, seed).opening(2, &[]);
            assert_nothing_is_shared(&slots);
            for slot in &slots {
                assert!(slot.len() + 1 >= ranks.len() / 2, "{text}, seed {seed}: {slot:?}");
            }
            let flows: usize = slots.iter().map(Vec::len).sum();
            assert!(
                flows * 100 >= 96 * slots.len() * ranks.len() / 2,
                "{text}, seed {seed}: {flows} flows"
            );
            // As many as the links between leaves and spines need, or as the hosts' own cables do; one more where it cannot be helped.
            assert!(
                slots.len() <= (fewest + 1) * rails.len(),
                "{text}, seed {seed}: {} slots",
                slots.len()
            );
            assert!(slots.len() >= fewest * rails.len());
            let crossed = crossings(&slots);
            for rank in &ranks {
                let own = [graph.up(*rank, "rail0"), graph.down(*rank, "rail0")];
                for times in own.into_iter().flatten().map(|link| crossed[&link]) {
                    assert!(
                        (2..=4).contains(&times),
                        "{text}, seed {seed}: rank {rank} {times} times"
                    );
                }
            }
        }
    }
}

#[test]
fn the_opening_at_16_hosts_takes_less_than_a_fifth_of_the_tournament() {
    let (graph, table, ranks, rails) = fabric("16x2", 4, 2, 1);
    for seed in 0..10 {
        let slots = Adaptive::new(&graph, &table, &ranks, &rails, seed).opening(2, &[]);
        let tournament = 16 * 15 * rails.len();
        let flows: usize = slots.iter().map(Vec::len).sum();
        assert!(flows * 5 <= tournament, "{flows} of {tournament}");
    }
}

#[test]
fn the_rounds_of_the_opening_do_not_grow_with_the_fabric() {
    let rounds = |text: &str, size: u32| {
        let (graph, table, ranks, rails) = fabric(text, size, size, 1);
        Adaptive::new(&graph, &table, &ranks, &rails, 1)
            .opening(2, &[])
            .len()
    };
    let (small, large) = (rounds("16x1", 4), rounds("256x1", 16));
    assert!(large <= small + 4, "{small} rounds for 16 hosts, {large} for 256");
}

#[test]
fn a_focus_leaves_the_rest_of_the_fabric_alone() {
    let (graph, table, ranks, rails) = fabric("8x2", 2, 2, 1);
    let focus = vec!["h3".to_string()];
    let slots = Adaptive::new(&graph, &table, &ranks, &rails, 1).opening(2, &focus);
    let flows: Vec<&Flow> = slots.iter().flatten().collect();
    assert!(
        flows.iter().all(|flow| flow.from == 3 || flow.to == 3),
        "{flows:?}"
    );
    assert_eq!(flows.len(), 2 * 2 * rails.len());
}

#[test]
fn suspects_are_told_apart_by_flows_that_cross_one_of_them_each() {
    let (graph, table, ranks, rails) = fabric("8x2", 2, 2, 1);
    let path = graph.paths(0, 7, "rail0").remove(0);
    let ambiguity = Ambiguity {
        rail: "rail0".to_string(),
        links: path.clone(),
        wanted: 2,
        ..Ambiguity::default()
    };
    let mut adaptive = Adaptive::new(&graph, &table, &ranks, &rails, 1);
    adaptive.remember(&flow_between(0, 7, "rail0"));
    let slots = adaptive.narrowing(&[ambiguity], |_| true);
    assert_nothing_is_shared(&slots);
    for suspect in &path {
        let alone = |flow: &&Flow| {
            let crossed: Vec<&LinkId> = flow.path.iter().filter(|link| path.contains(link)).collect();
            crossed == [suspect]
        };
        let flow = slots.iter().flatten().find(alone);
        assert!(flow.is_some(), "{} is not crossed alone", graph.name(*suspect));
    }
}

#[test]
fn an_only_suspect_is_made_sure_of_with_other_partners() {
    let (graph, table, ranks, rails) = fabric("8x2", 2, 2, 1);
    let suspect = graph.up(3, "rail1").unwrap();
    let ambiguity = Ambiguity {
        rail: "rail1".to_string(),
        links: vec![suspect],
        wanted: 3,
        ..Ambiguity::default()
    };
    let mut adaptive = Adaptive::new(&graph, &table, &ranks, &rails, 1);
    adaptive.remember(&flow_between(3, 4, "rail1"));
    let slots = adaptive.narrowing(&[ambiguity], |_| true);
    let flows: Vec<&Flow> = slots.iter().flatten().collect();
    let partners: BTreeSet<u32> = flows.iter().map(|flow| flow.to).collect();
    assert_eq!((flows.len(), partners.len()), (3, 3), "{flows:?}");
    assert!(
        !partners.contains(&4),
        "a partner that was part of it proves nothing new"
    );
}

#[test]
fn links_that_always_come_together_are_not_measured_for_ever() {
    // Two leaves: what goes up to a spine comes down to the other leaf.
    let (graph, table, ranks, rails) = fabric("4x1", 2, 1, 1);
    let path = graph.paths(0, 3, "rail0").remove(0);
    let ambiguity = Ambiguity {
        rail: "rail0".to_string(),
        links: path[1..3].to_vec(),
        ..Ambiguity::default()
    };
    let mut adaptive = Adaptive::new(&graph, &table, &ranks, &rails, 1);
    assert!(
        adaptive
            .narrowing(std::slice::from_ref(&ambiguity), |_| true)
            .is_empty()
    );
    let unsure = Ambiguity {
        wanted: 2,
        ..ambiguity
    };
    assert_eq!(adaptive.narrowing(&[unsure], |_| true).concat().len(), 2);
}

#[test]
fn a_link_that_carries_two_hosts_is_crossed_by_two_at_once() {
    let shape = Shape {
        hosts_per_leaf: 2,
        spines: 2,
        .."8x1".parse().unwrap()
    };
    let (mut topology, ranks) = clos(&shape);
    for link in &mut topology.links {
        if link.ends.iter().all(|end| !end.node.starts_with('h')) {
            link.rate = link.rate * 2.0;
        }
    }
    let graph = Graph::of(&topology, &ranks).unwrap();
    let numbers: Vec<u32> = ranks.iter().map(|record| record.rank).collect();
    let mut table = PathTable::default();
    for (from, to) in numbers
        .iter()
        .flat_map(|from| numbers.iter().map(move |to| (*from, *to)))
    {
        for (port, path) in (24_000..).zip(graph.paths(from, to, "rail0")) {
            table.insert(from, to, "rail0", port, path);
        }
    }
    let slots = Adaptive::new(&graph, &table, &numbers, &["rail0".to_string()], 1).opening(2, &[]);
    let mut full: BTreeSet<LinkId> = BTreeSet::new();
    for slot in &slots {
        let crossed = crossings(std::slice::from_ref(slot));
        assert!(crossed.values().all(|flows| *flows <= 2));
        full.extend(
            crossed
                .iter()
                .filter(|(_, flows)| **flows == 2)
                .map(|(link, _)| *link),
        );
    }
    let between_switches = graph.links().filter(|(_, link)| !link.is_host).count();
    assert_eq!(full.len(), between_switches, "all are filled");
    assert!(slots.len() <= 8, "{} slots", slots.len());
}

#[test]
fn where_no_path_is_known_a_suspicion_is_still_made_sure_of() {
    let (graph, _, ranks, rails) = fabric("8x1", 2, 2, 1);
    let nothing = PathTable::default();
    let mut adaptive = Adaptive::new(&graph, &nothing, &ranks, &rails, 1);
    let path = graph.paths(2, 7, "rail0").remove(0);
    let ambiguity = Ambiguity {
        rail: "rail0".to_string(),
        links: vec![path[1]],
        wanted: 3,
        ..Ambiguity::default()
    };
    let flows = adaptive.narrowing(&[ambiguity], |_| true).concat();
    assert!(flows.len() >= 3, "{flows:?}");
    // Each of them crosses it with probability one half.
    let all_miss = 0.5f64.powi(flows.len() as i32);
    assert!(all_miss < draws::UNSEEN, "{flows:?}");
    for flow in &flows {
        let ways = graph.paths(flow.from, flow.to, "rail0");
        assert!(
            ways.iter().any(|way| way.contains(&path[1])),
            "{flow:?} can never cross it"
        );
    }
}

#[test]
fn where_paths_are_known_afterwards_the_opening_is_short_and_untested_links_are_asked_for_again() {
    let (graph, _, ranks, rails) = fabric("8x1", 2, 4, 1);
    let before = PathTable::default().with_fresh_ports(30_000);
    let after = before.clone().told_afterwards(true);
    let opening = |table: &PathTable| {
        let mut adaptive = Adaptive::new(&graph, table, &ranks, &rails, 1);
        adaptive.opening(2, &[]).len()
    };
    assert!(2 * opening(&after) < opening(&before));
    let between_switches = graph.links().find(|(_, link)| !link.is_host && link.is_upward);
    let (untested, _) = between_switches.unwrap();
    let mut adaptive = Adaptive::new(&graph, &after, &ranks, &rails, 1);
    let flows = adaptive.over_untested(&[untested]).concat();
    let may_cross = |flow: &Flow| {
        let paths = graph.paths(flow.from, flow.to, "rail0");
        paths.iter().any(|path| path.contains(&untested))
    };
    assert!(!flows.is_empty() && flows.iter().all(may_cross), "{flows:?}");
    assert!(adaptive.over_untested(&[]).is_empty());
    let mut silent = Adaptive::new(&graph, &before, &ranks, &rails, 1);
    assert!(
        silent.over_untested(&[untested]).is_empty(),
        "nothing would be told"
    );
}

#[test]
fn flows_over_different_switches_share_a_slot_though_their_cables_are_not_known() {
    let (graph, _, ranks, rails) = fabric("8x1", 2, 4, 1);
    let mut table = PathTable::default();
    let pairs = [(0, 2, 0), (1, 4, 1), (3, 6, 1)];
    for (from, to, spine) in pairs {
        let path = graph.paths(from, to, "rail0").remove(spine);
        let seen = CrossedSwitch {
            switch: graph.link(path[1]).to.node.clone(),
            link: None,
        };
        table.insert_half_known(from, to, "rail0", (24_000, vec![None, Some(seen)]));
    }
    let adaptive = Adaptive::new(&graph, &table, &ranks, &rails, 1);
    let flows = |port: Option<u16>| {
        let of = |(from, to, _): (u32, u32, usize)| Flow {
            port,
            ..flow_between(from, to, "rail0")
        };
        pairs.map(of).to_vec()
    };
    let alone = |flows: Vec<Flow>| flows.into_iter().map(|flow| vec![flow]).collect();
    assert_eq!(adaptive.in_slots(alone(flows(Some(24_000)))).len(), 1);
    // Nothing is known of another port: the first two leave one leaf and may share any of its cables.
    assert_eq!(adaptive.in_slots(alone(flows(Some(24_001)))).len(), 2);
    assert_eq!(adaptive.in_slots(alone(flows(None))).len(), 2);
}

#[test]
fn ports_of_which_some_switches_are_known_are_preferred_and_used_once() {
    let (graph, _, ranks, rails) = fabric("8x1", 2, 4, 1);
    let mut table = PathTable::default()
        .with_fresh_ports(30_000)
        .told_afterwards(true);
    // Every pair of leaves has two ports of which the switch above the first leaf is known, but not the cable to it.
    for (from, to) in ranks
        .iter()
        .flat_map(|from| ranks.iter().map(move |to| (*from, *to)))
    {
        for (port, path) in (24_000..).zip(graph.paths(from, to, "rail0")).skip(2).take(2) {
            let spine = CrossedSwitch {
                switch: graph.link(path[1]).to.node.clone(),
                link: None,
            };
            table.insert_half_known(from, to, "rail0", (port, vec![None, Some(spine)]));
        }
    }
    let mut adaptive = Adaptive::new(&graph, &table, &ranks, &rails, 1);
    let path = graph.paths(2, 7, "rail0").remove(2);
    let ambiguity = Ambiguity {
        rail: "rail0".to_string(),
        links: vec![path[1]],
        wanted: 3,
        ..Ambiguity::default()
    };
    let mut ports: Vec<(u32, u32, u16)> = Vec::new();
    for _ in 0..2 {
        let flows = adaptive
            .narrowing(std::slice::from_ref(&ambiguity), |_| true)
            .concat();
        assert!(!flows.is_empty());
        for flow in flows {
            let port = flow.port.unwrap();
            assert_eq!(port, 24_002, "the port that leads to that switch: {flow:?}");
            ports.push((flow.from, flow.to, port));
        }
    }
    let distinct: BTreeSet<_> = ports.iter().collect();
    assert_eq!(distinct.len(), ports.len(), "{ports:?}");
}

#[test]
fn flows_that_fill_links_over_which_packets_are_sprayed_are_compared_with_such_flows_only() {
    // Four hosts of a leaf, and four uplinks.
    let (graph, _, ranks, rails) = fabric("16x1", 4, 4, 1);
    let leaves = (0..4).map(|leaf| format!("rail0-leaf{leaf}"));
    let leaves: Vec<String> = leaves.collect();
    let table = PathTable::default().with_spraying(leaves.iter().map(String::as_str));
    let slot = |count: u32| -> SlotOfFlows {
        let flows = (0..count).map(|from| flow_between(from, from + 4, "rail0"));
        flows.collect()
    };
    assert_eq!(load_of(&slot(1), &graph, &table), Load::Alone);
    assert_eq!(load_of(&slot(3), &graph, &table), Load::Together);
    assert_eq!(load_of(&slot(4), &graph, &table), Load::FillingDown);
    let apart = [(0, 4), (1, 8), (2, 12), (3, 5)];
    let apart: SlotOfFlows = apart.map(|(from, to)| flow_between(from, to, "rail0")).into();
    assert_eq!(load_of(&apart, &graph, &table), Load::FillingUp);
    // Paths by ports: nothing is filled by chance.
    assert_eq!(load_of(&slot(4), &graph, &PathTable::default()), Load::Together);
    let opening = Adaptive::new(&graph, &table, &ranks, &rails, 1).opening(2, &[]);
    let loads: BTreeSet<Load> = opening.iter().map(|slot| load_of(slot, &graph, &table)).collect();
    assert!(
        loads.contains(&Load::FillingUp) && loads.contains(&Load::FillingDown),
        "{loads:?}"
    );
}
