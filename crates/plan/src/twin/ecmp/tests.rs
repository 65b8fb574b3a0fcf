//! What a proof on simulated streams relies on: they behave as streams of the lab were seen to.

use std::collections::{BTreeMap, BTreeSet};

use super::*;

fn small() -> StreamFabric {
    StreamFabric {
        flows: vec![32],
        sets: 3,
        ..StreamFabric::new(4, 4, 1, 2)
    }
}

/// Every stream: sender, receiver, port, links seen of its path, bytes of all iterations.
fn all(recorded: &Recorded) -> Vec<(u32, u32, u16, Vec<String>, u64)> {
    let mut found = Vec::new();
    for event in &recorded.events {
        let Event::CellDone(done) = event else { continue };
        let cell = &recorded.run.cells[done.cell as usize];
        let ways = &cell.streams.as_ref().unwrap().ways;
        for (record, path) in done.streams.iter().zip(ways) {
            let bytes = record.bytes.iter().sum();
            let port = record.port.unwrap();
            found.push((cell.ranks[0], cell.ranks[1], port, path.links.clone(), bytes));
        }
    }
    found
}

#[test]
fn a_healthy_fabric_delivers_on_every_stream_and_no_host_sends_more_than_it_can() {
    let fabric = small();
    let recorded = first_round(&fabric, &[], 1);
    let streams = all(&recorded);
    assert_eq!(streams.len(), 8 * 32 * 3);
    assert!(
        streams
            .iter()
            .all(|(_, _, _, links, bytes)| links.len() == 4 && *bytes > 0)
    );
    let mut sent: BTreeMap<(u32, u32), u64> = BTreeMap::new();
    for (from, to, _, _, bytes) in &streams {
        *sent.entry((*from, *to)).or_default() += bytes;
    }
    let possible = fabric.rate.0 * 0.4 * f64::from(fabric.iterations);
    for bytes in sent.values() {
        let share = *bytes as f64 / possible;
        assert!((0.5..1.05).contains(&share), "{share}");
    }
}

#[test]
fn the_same_seed_gives_the_same_record_and_another_does_not() {
    let made = |seed| first_round(&small(), &[], seed);
    assert_eq!(made(1).events, made(1).events);
    assert_ne!(made(1).events, made(2).events);
}

#[test]
fn addresses_alone_put_all_streams_of_a_pair_on_one_uplink() {
    let uplinks = |faults: &[EcmpFault]| {
        let mut of_pair: BTreeMap<(u32, u32), BTreeSet<String>> = BTreeMap::new();
        for (from, to, _, links, _) in all(&first_round(&small(), faults, 1)) {
            of_pair.entry((from, to)).or_default().insert(links[1].clone());
        }
        of_pair
    };
    assert!(uplinks(&[]).values().all(|used| used.len() == 4));
    assert!(
        uplinks(&[EcmpFault::AddressesOnly])
            .values()
            .all(|used| used.len() == 1)
    );
}

#[test]
fn two_tiers_with_the_same_seed_leave_half_of_the_parallel_cables_idle() {
    let fabric = StreamFabric { cables: 2, ..small() };
    let idle = |faults: &[EcmpFault]| {
        let found = all(&first_round(&fabric, faults, 1));
        let used: BTreeSet<&String> = found.iter().map(|(_, _, _, links, _)| &links[2]).collect();
        4 * 4 * 2 - used.len()
    };
    assert_eq!((idle(&[]), idle(&[EcmpFault::SameSeed])), (0, 16));
}

#[test]
fn weights_shift_the_streams_of_that_leaf_only() {
    let fault = EcmpFault::Weights {
        switch: "rail0-leaf1".to_string(),
        weights: vec![3, 1, 1, 1],
    };
    let mut first = [0.0; 4];
    for (from, _, _, links, _) in all(&first_round(&small(), &[fault], 1)) {
        first[from as usize / 2] += f64::from(u8::from(links[1].contains("/u0->"))) / 192.0;
    }
    assert!((0.4..0.6).contains(&first[1]), "{first:?}");
    assert!([0, 2, 3].into_iter().all(|leaf| first[leaf] < 0.36), "{first:?}");
}

#[test]
fn a_dead_link_kills_what_is_sent_over_it_and_some_of_what_is_answered_over_it() {
    let fault = EcmpFault::Dead {
        link: "rail0-leaf0/u1->rail0-spine1/d0".to_string(),
    };
    let healthy = all(&first_round(&small(), &[], 1));
    let found = all(&first_round(&small(), &[fault], 1));
    let mut to_the_leaf = [0, 0];
    for ((from, to, _, before, _), (_, _, _, seen, bytes)) in healthy.iter().zip(&found) {
        match (from / 2, to / 2) {
            (0, _) if before[1].contains("/u1->") => {
                assert_eq!((seen.len(), *bytes), (1, 0), "known up to the leaf that lost it");
            }
            (_, 0) => to_the_leaf[usize::from(*bytes == 0)] += 1,
            _ => assert!(*bytes > 0),
        }
    }
    assert!(
        to_the_leaf[1] > 20 && to_the_leaf[0] > 3 * to_the_leaf[1] / 2,
        "{to_the_leaf:?}"
    );
}

#[test]
fn a_slow_link_slows_what_crosses_it() {
    let link = "rail0-spine2/d3->rail0-leaf3/u2";
    let mean = |faults: &[EcmpFault]| {
        let found = all(&first_round(&small(), faults, 1));
        let over: Vec<u64> = found
            .iter()
            .filter(|(_, _, _, links, _)| links[2] == link)
            .map(|(_, _, _, _, bytes)| *bytes)
            .collect();
        over.iter().sum::<u64>() as f64 / over.len() as f64
    };
    let slow = EcmpFault::Slow {
        link: link.to_string(),
        left: 0.5,
    };
    let left = mean(&[slow]) / mean(&[]);
    assert!((0.4..0.75).contains(&left), "{left}");
}

#[test]
fn senders_of_one_port_and_adaptive_fabrics_are_recorded_as_such() {
    let one = all(&first_round(&small(), &[EcmpFault::OnePort], 1));
    let ports: BTreeSet<u16> = one.iter().map(|(_, _, port, _, _)| *port).collect();
    assert_eq!(ports.len(), 3, "one for every set");
    let adaptive = first_round(&small(), &[EcmpFault::Adaptive], 1);
    let ways = adaptive
        .run
        .cells
        .iter()
        .flat_map(|cell| &cell.streams.as_ref().unwrap().ways);
    let (mut steady, mut all) = (0, 0);
    for path in ways {
        all += 1;
        steady += u32::from(path.steady == Some(true));
    }
    assert!(steady < all / 2, "{steady} of {all} took the same path twice");
}

#[test]
fn counters_say_what_crossed_a_port() {
    let fabric = StreamFabric {
        counters: true,
        ..small()
    };
    let recorded = first_round(&fabric, &[], 1);
    let counted: u64 = recorded
        .events
        .iter()
        .filter_map(|event| match event {
            Event::Port(delta) if delta.port.contains("-leaf") => Some(delta.after? - delta.before?),
            _ => None,
        })
        .sum();
    let sent: u64 = all(&recorded).iter().map(|(_, _, _, _, bytes)| bytes).sum();
    assert_eq!(counted, sent);
}
