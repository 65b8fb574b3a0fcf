//! What a proof on the twin relies on.

use std::collections::{BTreeMap, HashSet};

use super::*;
use judge::findings::fixture::Fixture;
use record::units::Bytes;
use record::{Algorithm, Collective};

fn fabric(text: &str) -> Graph {
    let (topology, ranks) = clos(&text.parse::<Shape>().unwrap());
    Graph::of(&topology, &ranks).unwrap()
}

fn pair(id: u32, slot: u32, from: u32, to: u32, rail: &str) -> Cell {
    Cell {
        id,
        slot,
        ranks: vec![from, to],
        rails: vec![rail.to_string()],
        source_port: Some(40_000),
        size: Bytes(64 << 20),
        ..Fixture::pairs(2).run.cells[0].clone()
    }
}

fn test() -> TestRecord {
    TestRecord {
        min_iterations: 10,
        max_iterations: 10,
        budget: Nanos::from_secs(10),
        verify_every: 2,
        ..Fixture::pairs(2).run.tests[0].clone()
    }
}

/// Median wire rate of every cell as a share of what a link carries.
fn shares(events: &[Event], cells: &[Cell]) -> BTreeMap<u32, f64> {
    let mut times: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    for event in events {
        if let Event::Sample(sample) = event {
            times.entry(sample.cell).or_default().push(sample.ns);
        }
    }
    let share = |(id, mut times): (u32, Vec<u64>)| {
        times.sort_unstable();
        let bytes = cells.iter().find(|cell| cell.id == id).unwrap().size.0;
        (id, bytes as f64 * 1e9 / times[times.len() / 2] as f64 / 50e9)
    };
    times.into_iter().map(share).collect()
}

fn measure(twin: &Twin<'_>, cells: &[Cell]) -> Vec<Event> {
    twin.measure(&cells.iter().collect::<Vec<_>>(), &test(), 0)
}

#[test]
fn a_slow_link_slows_exactly_the_flows_that_cross_it() {
    let graph = fabric("16x2");
    let slow = graph.named("h2/rail1->rail1-leaf0/p2").unwrap();
    let twin = Twin::new(&graph, &[SlowLink::always(slow, 0.6)], Noise::none(), 1);
    let cells = [
        pair(0, 0, 2, 9, "rail1"),
        pair(1, 1, 9, 2, "rail1"),
        pair(2, 2, 2, 9, "rail0"),
    ];
    let found = shares(&measure(&twin, &cells), &cells);
    assert!((found[&0] - 0.6).abs() < 0.01, "{found:?}");
    assert!(found[&1] > 0.99 && found[&2] > 0.99, "{found:?}");
}

#[test]
fn flows_of_one_slot_share_links_and_those_of_different_slots_do_not() {
    let graph = fabric("16x1");
    let twin = Twin::new(&graph, &[], Noise::none(), 1);
    let incast = |slots: [u32; 2]| {
        let cells = [pair(0, slots[0], 0, 2, "rail0"), pair(1, slots[1], 1, 2, "rail0")];
        shares(&measure(&twin, &cells), &cells)
    };
    let together = incast([0, 0]);
    assert!((together[&0] - 0.5).abs() < 0.01 && (together[&1] - 0.5).abs() < 0.01);
    assert!(incast([0, 1])[&0] > 0.99);
}

#[test]
fn a_port_always_takes_the_same_way_and_many_ports_take_all() {
    let graph = fabric("16x1");
    let twin = Twin::new(&graph, &[], Noise::none(), 1);
    let way = |port| twin.route(0, 15, "rail0", port).unwrap();
    assert_eq!(way(7), way(7));
    let taken: HashSet<Path> = (0..200).map(way).collect();
    let mut taken: Vec<Path> = taken.into_iter().collect();
    taken.sort();
    assert_eq!(taken, graph.paths(0, 15, "rail0"));
    assert_eq!(twin.route(0, 0, "rail0", 7), None);
}

#[test]
fn the_same_seed_gives_the_same_events_and_another_does_not() {
    let graph = fabric("16x2");
    let cells: Vec<Cell> = (0..16)
        .map(|id| pair(id, id / 4, id, (id + 5) % 16, "rail0"))
        .collect();
    let events = |seed| measure(&Twin::new(&graph, &[], Noise::recorded(), seed), &cells);
    let first = events(1);
    assert_eq!(first, events(1));
    assert_ne!(first, events(2));
    let is_done = |event: &&Event| matches!(event, Event::CellDone(done) if done.verified == 5 && done.planned == done.moved);
    assert_eq!(first.iter().filter(is_done).count(), cells.len());
    let samples = first
        .iter()
        .filter(|event| matches!(event, Event::Sample(_)))
        .count();
    assert_eq!(samples, cells.len() * 2 * 10);
}

#[test]
fn rings_trees_and_both_ways_load_what_their_schedules_load() {
    let graph = fabric("16x1");
    let twin = Twin::new(&graph, &[], Noise::none(), 1);
    let ring = Cell {
        collective: Collective::AllReduce,
        algorithm: Algorithm::Ring,
        ranks: vec![0, 1, 2, 3],
        ..pair(0, 0, 0, 1, "rail0")
    };
    let both = Cell {
        collective: Collective::Bidirectional,
        ..pair(1, 1, 0, 1, "rail0")
    };
    let tree = Cell {
        algorithm: Algorithm::Tree,
        ..ring.clone()
    };
    let cells = [
        ring,
        both,
        Cell {
            id: 2,
            slot: 2,
            ..tree
        },
        Cell {
            to_rail: Some("rail1".to_string()),
            ..pair(3, 3, 0, 1, "rail0")
        },
    ];
    let events = measure(&twin, &cells);
    let found = shares(&events, &cells);
    // A ring of four sends 1.5 payloads over every link.
    assert!(
        (found[&0] - 1.0 / 1.5).abs() < 0.01 && found[&1] > 0.99,
        "{found:?}"
    );
    let not_run = |wanted: u32, why: &str| {
        events.iter().any(
            |event| matches!(event, Event::NotRun { cell, reason } if *cell == wanted && reason.contains(why)),
        )
    };
    // Rank 1 of a tree of four hears its parent and two children.
    assert!((found[&2] - 1.0 / 3.0).abs() < 0.01, "{found:?}");
    assert!(not_run(3, "across rails"));
}

#[test]
fn what_the_noise_of_a_run_is_can_be_read_back_from_it() {
    let (topology, ranks) = clos(&"16x2".parse::<Shape>().unwrap());
    let graph = Graph::of(&topology, &ranks).unwrap();
    let noise = Noise::recorded();
    let twin = Twin::new(&graph, &[], noise.clone(), 5);
    let cells: Vec<Cell> = (0..240)
        .map(|id| pair(id, id, id % 16, (id + 1 + id / 16) % 16, "rail0"))
        .filter(|cell| cell.ranks[0] != cell.ranks[1])
        .collect();
    let mut recorded = Fixture::pairs(2).measured_once();
    (recorded.samples, recorded.events) = (Vec::new(), Vec::new());
    for event in measure(&twin, &cells) {
        match event {
            Event::Sample(sample) => recorded.samples.push(sample),
            other => recorded.events.push(other),
        }
    }
    (recorded.run.cells, recorded.run.ranks) = (cells, ranks);
    recorded.topology = Some(topology.to_toml());
    let found = Noise::of(&[recorded], "itself").unwrap();
    assert!(
        (found.efficiency - noise.efficiency).abs() < 0.05,
        "{}",
        found.efficiency
    );
    for step in [10, 50, 90] {
        assert!(
            (found.within[step] - noise.within[step]).abs() < 0.01,
            "within {step}"
        );
        assert!(
            (found.between[step] - noise.between[step]).abs() < 0.01,
            "between {step}"
        );
    }
    assert!(Noise::of(&[], "nothing").is_err());
}

#[test]
fn wrong_clocks_make_cells_longer_by_no_more_than_the_run_says_it_does_not_know() {
    let graph = fabric("16x1");
    let cells: Vec<Cell> = (0..12).map(|id| pair(id, id, id, id + 3, "rail0")).collect();
    let times = |noise: Noise| -> Vec<(f64, Option<Nanos>)> {
        let events = measure(&Twin::new(&graph, &[], noise, 3), &cells);
        let reached = shares(&events, &cells);
        let unseen = events.iter().filter_map(|event| match event {
            Event::CellDone(done) => Some(done.unseen_skew_ns),
            _ => None,
        });
        let nanos = |share: &f64| f64::from(64 << 20) * 1e9 / (share * 50e9);
        reached.values().map(nanos).zip(unseen).collect()
    };
    let mut wrong = Noise::none();
    wrong.parts.clocks_us = 30.0;
    let (right, wrong) = (times(Noise::none()), times(wrong));
    let longer: Vec<f64> = right
        .iter()
        .zip(&wrong)
        .map(|((before, _), (after, _))| after - before)
        .collect();
    assert!(
        longer.iter().all(|longer| (-2.0..60_002.0).contains(longer)),
        "{longer:?}"
    );
    assert!(longer.iter().any(|longer| *longer > 5_000.0), "{longer:?}");
    assert!(right.iter().all(|(_, unseen)| unseen.is_none()));
    assert!(wrong.iter().all(|(_, unseen)| *unseen == Some(Nanos(60_000))));
}

#[test]
fn a_system_that_holds_hosts_up_delays_single_iterations_and_more_of_them_where_many_hosts_wait() {
    let graph = fabric("16x1");
    let mut noise = Noise::none();
    noise.parts.os_jitter = Some(OsJitter { often: 0.02, ms: 3.0 });
    let twin = Twin::new(&graph, &[], noise, 3);
    let pairs: Vec<Cell> = (0..60)
        .map(|id| pair(id, id, id % 13, id % 13 + 3, "rail0"))
        .collect();
    let ring = |id: u32| Cell {
        collective: Collective::AllReduce,
        algorithm: Algorithm::Ring,
        ranks: (0..16).collect(),
        ..pair(id, id, 0, 1, "rail0")
    };
    let rings: Vec<Cell> = (0..60).map(ring).collect();
    let delayed = |cells: &[Cell]| {
        let mut times: BTreeMap<u32, BTreeMap<u32, u64>> = BTreeMap::new();
        for event in measure(&twin, cells) {
            if let Event::Sample(sample) = event {
                let longest = times
                    .entry(sample.cell)
                    .or_default()
                    .entry(sample.iter)
                    .or_default();
                *longest = sample.ns.max(*longest);
            }
        }
        let of_cell = |times: BTreeMap<u32, u64>| {
            let least = times.values().min().copied().unwrap_or_default();
            times.into_values().filter(|time| *time > least + 100_000).count()
        };
        times.into_values().map(of_cell).sum::<usize>() as f64 / 600.0
    };
    let (of_pairs, of_rings) = (delayed(&pairs), delayed(&rings));
    assert!((0.02..0.06).contains(&of_pairs), "{of_pairs}");
    assert!((0.2..0.4).contains(&of_rings), "{of_rings}");
}

#[test]
fn a_host_that_noise_makes_slower_for_good_is_told_from_one_that_it_does_not() {
    let graph = fabric("16x2");
    let ranks: Vec<u32> = (0..16).collect();
    let mut noise = Noise::none();
    noise.parts.hosts_at = Some(SecondSpeed {
        share: 0.5,
        factor: 1.06,
    });
    let twin = Twin::new(&graph, &[], noise.clone(), 3);
    let slow = twin.slow_for_good(&ranks, &["rail0", "rail1"], 0.05);
    // All of its NICs, both directions, and nothing between switches.
    let mut hosts: BTreeMap<String, usize> = BTreeMap::new();
    for link in slow {
        let name = graph.name(link);
        let ends = name
            .split("->")
            .flat_map(|end| end.split('/').next())
            .collect::<Vec<_>>();
        let host = ends.iter().find(|end| end.starts_with('h'));
        *hosts.entry(host.expect("a host's link").to_string()).or_default() += 1;
    }
    assert!(
        (4..=12).contains(&hosts.len()) && hosts.values().all(|links| *links == 4),
        "{hosts:?}"
    );
    // They are those whose flows are slower.
    for rank in 1..16 {
        let cells = [pair(0, 0, 0, rank, "rail0")];
        let share = shares(&measure(&twin, &cells), &cells)[&0];
        let is_slower = ["h0".to_string(), format!("h{rank}")]
            .iter()
            .any(|host| hosts.contains_key(host));
        assert_eq!(share < 0.97, is_slower, "{rank}: {share}");
    }
    assert!(twin.slow_for_good(&ranks, &["rail0"], 0.06).is_empty());
    noise.parts.hosts_at = None;
    assert!(
        Twin::new(&graph, &[], noise, 3)
            .slow_for_good(&ranks, &["rail0"], 0.05)
            .is_empty()
    );
}
