//! Losses that show in no single cycle, and chance that must not add up to one.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::over_cycles::{FlowOfCycles, LossOverCycles, Outcome, parts_that_lose};

/// Hosts of a star: host h sends over part 2h and receives over part 2h + 1.
const HOSTS: usize = 8;
/// Packets of a flow in a second, and seconds of a cycle.
const PACKETS: u64 = 150;
const SECONDS: u32 = 2;

/// All pairs, sent in two slots, over so many cycles; a part loses what `loss` says in a cycle.
fn judged(cycles: u32, seed: u64, loss: impl Fn(usize, u32) -> f64) -> Vec<LossOverCycles> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut uniform = move || (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
    let pairs: Vec<(usize, usize)> = (0..HOSTS)
        .flat_map(|from| (1..HOSTS).map(move |shift| (from, (from + shift) % HOSTS)))
        .collect();
    let mut outcomes: Vec<Vec<Outcome>> = vec![Vec::new(); pairs.len()];
    for cycle in 0..cycles {
        for (number, (from, to)) in pairs.iter().enumerate() {
            let lost_of = 1.0 - (1.0 - loss(2 * from, cycle)) * (1.0 - loss(2 * to + 1, cycle));
            let lost: Vec<u64> = (0..SECONDS)
                .map(|_| (0..PACKETS).map(|_| u64::from(uniform() < lost_of)).sum())
                .collect();
            let lossy = lost.iter().filter(|lost| **lost > 0).count() as u32;
            let all = &mut outcomes[number];
            let row = match all.iter().position(|row| row.lossy == lossy) {
                Some(known) => known,
                None => {
                    all.push(Outcome {
                        seconds: SECONDS,
                        lossy,
                        ..Outcome::default()
                    });
                    all.len() - 1
                }
            };
            let row = &mut all[row];
            row.cycles += 1;
            row.sent += PACKETS * u64::from(SECONDS);
            row.lost += lost.iter().sum::<u64>();
        }
    }
    let flows: Vec<FlowOfCycles<'_>> = pairs
        .iter()
        .zip(&outcomes)
        .enumerate()
        .map(|(number, ((from, to), outcomes))| FlowOfCycles {
            slot: ((number % 2) as u32, 0),
            slot_cycles: cycles,
            connection: number,
            certain: vec![2 * from, 2 * to + 1],
            outcomes,
            ..FlowOfCycles::default()
        })
        .collect();
    parts_that_lose(&flows, |_| 1.0)
}

#[test]
fn one_packet_in_five_thousand_is_found_over_forty_cycles_and_in_none_of_them_alone() {
    let lossy = |part: usize, _| if part == 6 { 0.0002 } else { 0.0 };
    for seed in 0..10 {
        let alone = judged(1, 100 + seed, lossy);
        assert!(alone.iter().all(|part| part.p_value > 1e-3), "{seed}: {alone:?}");
        let found = judged(40, seed, lossy);
        let [part] = found.as_slice() else {
            panic!("{seed}: {found:?}");
        };
        assert_eq!(part.suspects[0].0, 6, "{seed}");
        assert!(
            part.p_value < 1e-6 && part.suspects[0].1 > 0.9,
            "{seed}: {part:?}"
        );
        assert!((0.0001..0.0003).contains(&part.share.0), "{seed}: {part:?}");
    }
}

#[test]
fn what_all_cables_lose_alike_over_a_thousand_cycles_accuses_none() {
    for seed in 0..3 {
        let found = judged(1000, seed, |_, _| 0.00005);
        assert!(found.is_empty(), "{seed}: {found:?}");
    }
}

#[test]
fn two_cables_that_lose_little_are_two_parts() {
    let found = judged(100, 1, |part, _| match part {
        2 => 0.0002,
        9 => 0.0004,
        _ => 0.0,
    });
    let mut parts: Vec<usize> = found.iter().map(|part| part.suspects[0].0).collect();
    parts.sort_unstable();
    assert_eq!(parts, [2, 9]);
}

#[test]
fn a_flow_that_fared_alike_in_many_cycles_says_as_much_as_that_many_rows() {
    let clean = |cycles: u32| Outcome {
        seconds: 2,
        lossy: 0,
        cycles,
        sent: 300 * u64::from(cycles),
        lost: 0,
    };
    let lossy = |cycles: u32| Outcome {
        lossy: 1,
        lost: u64::from(cycles),
        ..clean(cycles)
    };
    let together = [clean(6), lossy(3)];
    let apart = [vec![clean(1); 6], vec![lossy(1); 3]].concat();
    let all_clean = [clean(9)];
    let p_value = |outcomes: &[Outcome]| {
        let flow = |number: usize, parts: [usize; 2], outcomes| FlowOfCycles {
            slot: (number as u32 % 2, 0),
            slot_cycles: 9,
            connection: number,
            certain: parts.to_vec(),
            outcomes,
            ..FlowOfCycles::default()
        };
        let mut flows = vec![flow(0, [0, 1], outcomes), flow(1, [0, 2], outcomes)];
        flows.extend((0..30).map(|number| flow(2 + number, [10 + number, 50 + number], &all_clean[..])));
        let found = parts_that_lose(&flows, |_| 1.0);
        assert_eq!(found[0].suspects[0].0, 0);
        found[0].p_value
    };
    let (one, other) = (p_value(&together), p_value(&apart));
    assert!((one / other - 1.0).abs() < 1e-9, "{one} {other}");
}
