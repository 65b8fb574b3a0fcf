//! Which parts explain what flows lose, where several do.

use super::flows::LossFlow;
use super::model::Model;
use crate::findings::localise::CrossedParts;

/// A flow over these parts, of whose ten iterations so many were lossy.
fn flow(slot: u32, lossy: u32, parts: &[usize]) -> LossFlow {
    LossFlow {
        place: slot as usize,
        slot: (slot, 0),
        ends: (slot, slot + 1),
        connection: slot as usize,
        kind: 0,
        trials: 5.0,
        lossy: 0.5 * f64::from(lossy),
        iterations: (lossy, 10),
        per_trial: 400.0,
        segments: 4000,
        lost: u64::from(4 * lossy),
        is_probe: false,
        waited: 0,
        alike: 1.0,
        times: 1.0,
        of: 1.0,
        parts: CrossedParts {
            certain: parts.to_vec(),
            ..CrossedParts::default()
        },
    }
}

/// Flows over other parts, which lose nothing.
fn clean(flows: &mut Vec<LossFlow>) {
    for number in 0..200 {
        flows.push(flow(1000 + number, 0, &[500 + number as usize, 800]));
    }
}

fn found(flows: &[LossFlow]) -> Vec<usize> {
    let mut parts: Vec<usize> = Model::new(flows)
        .parts(|_| 1.0)
        .iter()
        .map(|part| part.suspects[0].0)
        .collect();
    parts.sort_unstable();
    parts
}

/// What a host sends (0) over its two cables (1 and 2), and a cable between switches (3) that most flows over the second one cross.
#[test]
fn a_host_is_not_accused_of_what_one_of_its_cables_and_another_cable_lose_together() {
    let mut flows = Vec::new();
    flows.extend((0..6).map(|number| flow(number, 9, &[0, 1, 10 + number as usize])));
    flows.extend((6..12).map(|number| flow(number, 9, &[0, 2, 3, 10 + number as usize])));
    flows.push(flow(14, 0, &[0, 2, 4]));
    flows.extend((20..23).map(|number| flow(number, 9, &[30 + number as usize, 3, 10 + number as usize])));
    clean(&mut flows);
    assert_eq!(found(&flows), [1, 3]);
}

#[test]
fn a_host_that_loses_packets_on_both_of_its_cables_is_accused_and_none_of_them() {
    let mut flows = Vec::new();
    flows.extend((0..6).map(|number| flow(number, 9, &[0, 1, 10 + number as usize])));
    flows.extend((6..14).map(|number| flow(number, 9, &[0, 2, 3, 10 + number as usize])));
    flows.extend((20..24).map(|number| flow(number, 0, &[5, 3, 10 + number as usize])));
    clean(&mut flows);
    assert_eq!(found(&flows), [0]);
}

/// What a leaf sends upwards (0), and its 24 uplinks (100 and on), over which its packets are sprayed: nothing tells them apart, so nothing is likelier than the rest.
#[test]
fn parts_that_explain_the_same_are_equally_likely_whatever_share_of_packets_crosses_them() {
    let uplinks: Vec<usize> = (100..124).collect();
    let mut flows: Vec<LossFlow> = (0..40).map(|number| flow(number, 3 + number % 3, &[0])).collect();
    for (number, flow) in flows.iter_mut().enumerate() {
        flow.parts.certain.extend(&uplinks);
        flow.parts.certain.push(200 + number);
        flow.parts.shares = uplinks.iter().map(|link| (*link, 1.0 / 24.0)).collect();
    }
    clean(&mut flows);
    let parts = Model::new(&flows).parts(|part| if part == 0 { 0.1 } else { 1.0 });
    let [part] = parts.as_slice() else {
        panic!("{parts:?}")
    };
    let of = |number: usize| {
        part.suspects
            .iter()
            .find(|(suspect, _)| *suspect == number)
            .map(|(_, share)| *share)
    };
    let shares: Vec<f64> = uplinks.iter().filter_map(|link| of(*link)).collect();
    assert_eq!(shares.len(), 24, "{:?}", part.suspects);
    let is_alike = |share: &f64| (share / shares[0] - 1.0).abs() < 1e-6;
    assert!(shares.iter().all(is_alike), "{shares:?}");
    let whole = of(0).unwrap() / shares[0];
    assert!((whole - 0.1).abs() < 0.01, "{whole}");
}

#[test]
fn a_part_that_is_hardly_ever_at_fault_is_still_the_one_where_nothing_else_explains_it() {
    for prior in [1e-3, 1e-9, 1e-30] {
        let mut flows: Vec<LossFlow> = (0..4).map(|number| flow(number, 8, &[0])).collect();
        clean(&mut flows);
        let parts = Model::new(&flows).parts(|_| prior);
        assert_eq!(parts[0].suspects, [(0, 1.0)], "{prior}");
    }
}
