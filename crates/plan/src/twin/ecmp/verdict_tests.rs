//! Verdicts about simulated streams: the right cause and the right part, whatever the seed, and nobody else.

use std::collections::BTreeSet;

use super::*;
use judge::findings::judge;
use judge::tally::seeds;
use record::EcmpCause;

/// Two hosts on every leaf, as in the lab, on more leaves than any lab has.
fn fabric(cables: u32) -> StreamFabric {
    StreamFabric {
        flows: vec![32],
        ..StreamFabric::new(8, 4, cables, 2)
    }
}

/// Exit code, and who is accused of what: the part that is named, or the switch.
fn judged(fabric: &StreamFabric, fault: &EcmpFault, seed: u64) -> (u8, BTreeSet<(EcmpCause, String)>) {
    let judgement = judge(&streams(fabric, std::slice::from_ref(fault), seed));
    let faults = judgement
        .ecmp
        .into_iter()
        .filter(|verdict| verdict.cause.is_fault());
    let accused = faults.map(|verdict| (verdict.cause, verdict.part.or(verdict.switch).unwrap_or_default()));
    (judgement.exit_code, accused.collect())
}

/// The same parts accused of one cause, with every one of some seeds.
fn must_be(fabric: &StreamFabric, fault: &EcmpFault, cause: EcmpCause, parts: &[String]) {
    let wanted: BTreeSet<(EcmpCause, String)> = parts.iter().map(|part| (cause, part.clone())).collect();
    for seed in 1..=seeds(5) {
        assert_eq!(
            judged(fabric, fault, seed),
            (11, wanted.clone()),
            "{fault:?}, seed {seed}"
        );
    }
}

fn switches(kind: &str, count: u32) -> Vec<String> {
    (0..count).map(|number| format!("rail0-{kind}{number}")).collect()
}

#[test]
fn chance_is_accused_of_nothing() {
    for seed in 1..=seeds(20) {
        let judgement = judge(&streams(&fabric(1 + (seed % 2) as u32), &[], seed));
        let faults: Vec<&str> = judgement
            .ecmp
            .iter()
            .filter(|verdict| verdict.cause != EcmpCause::ExpectedCollision)
            .map(|verdict| verdict.sentence.as_str())
            .collect();
        assert_eq!(faults, Vec::<&str>::new(), "seed {seed}");
        assert_eq!((judgement.exit_code, judgement.ecmp.is_empty()), (0, false));
    }
}

#[test]
fn a_hash_without_ports_polarises_every_leaf() {
    let leaves = switches("leaf", 8);
    must_be(
        &fabric(1),
        &EcmpFault::AddressesOnly,
        EcmpCause::Polarised,
        &leaves,
    );
}

#[test]
fn a_polarised_fabric_is_found_however_many_leaves_it_has() {
    // Among so many leaves each is judged at a level that no number of trials reaches.
    let fabric = StreamFabric {
        flows: vec![16],
        sets: 2,
        ..StreamFabric::new(700, 4, 1, 1)
    };
    let (code, accused) = judged(&fabric, &EcmpFault::AddressesOnly, 1);
    assert_eq!(code, 11);
    assert!(accused.iter().all(|(cause, _)| *cause == EcmpCause::Polarised));
    assert_eq!(accused.len(), 700);
    let healthy = judge(&streams(&fabric, &[], 1));
    assert_eq!(healthy.exit_code, 0, "{}", healthy.summary);
}

#[test]
fn the_leaf_with_unequal_weights_is_named() {
    for weights in [vec![3, 1, 1, 1], vec![3, 3, 1, 1]] {
        let fault = EcmpFault::Weights {
            switch: "rail0-leaf6".to_string(),
            weights,
        };
        let leaf = ["rail0-leaf6".to_string()];
        must_be(&fabric(1), &fault, EcmpCause::UnequalWeights, &leaf);
    }
}

#[test]
fn tiers_with_the_same_seed_are_told_from_a_polarised_first_tier() {
    let spines = switches("spine", 4);
    must_be(
        &fabric(2),
        &EcmpFault::SameSeed,
        EcmpCause::PolarisedSecondTier,
        &spines,
    );
}

#[test]
fn a_dead_link_is_named_in_either_direction_and_what_it_takes_along_is_not() {
    for link in [
        "rail0-leaf3/u1->rail0-spine1/d3",
        "rail0-spine2/d5->rail0-leaf5/u2",
    ] {
        let link = link.to_string();
        let fault = EcmpFault::Dead { link: link.clone() };
        must_be(&fabric(1), &fault, EcmpCause::DeadMember, &[link]);
    }
}

#[test]
fn a_slow_link_is_named_in_either_direction() {
    for link in [
        "rail0-leaf3/u1->rail0-spine1/d3",
        "rail0-spine2/d5->rail0-leaf5/u2",
    ] {
        let link = link.to_string();
        let fault = EcmpFault::Slow {
            link: link.clone(),
            left: 0.5,
        };
        must_be(&fabric(1), &fault, EcmpCause::SlowMember, &[link]);
    }
}

#[test]
fn senders_of_one_port_are_accused_and_no_switch_is() {
    for seed in 1..=seeds(5) {
        let judgement = judge(&streams(&fabric(1), &[EcmpFault::OnePort], seed));
        assert_eq!(judgement.exit_code, 11);
        let faults = judgement.ecmp.iter().filter(|verdict| verdict.cause.is_fault());
        let causes: BTreeSet<EcmpCause> = faults.map(|verdict| verdict.cause).collect();
        assert_eq!(causes, BTreeSet::from([EcmpCause::NoEntropy]), "seed {seed}");
        let hosts: BTreeSet<&String> = judgement
            .findings
            .iter()
            .flat_map(|finding| &finding.place.hosts)
            .collect();
        assert_eq!(hosts.len(), 16, "every sender: {hosts:?}");
    }
}

#[test]
fn a_fault_is_measured_again_from_other_ports_and_a_healthy_fabric_is_not() {
    let fabric = fabric(1);
    let recorded = streams(&fabric, &[EcmpFault::AddressesOnly], 1);
    let rounds = |recorded: &Recorded| -> BTreeSet<u16> {
        let terms = recorded.run.cells.iter().flat_map(|cell| &cell.streams);
        terms.map(|terms| terms.round).collect()
    };
    assert_eq!(rounds(&recorded), BTreeSet::from([0, 1]));
    let judgement = judge(&recorded);
    let confirmed = judgement.findings[0].confirmation.as_ref().unwrap();
    assert_eq!((judgement.exit_code, confirmed.rounds), (11, 2));
    assert_eq!(rounds(&streams(&fabric, &[], 1)), BTreeSet::from([0]));
}

#[test]
fn a_fault_that_is_gone_when_it_is_measured_again_is_inconclusive() {
    let fabric = fabric(1);
    let first = first_round(&fabric, &[EcmpFault::AddressesOnly], 1);
    let once = judge(&first);
    let gone = judge(&measured_again(first, &fabric, &[]));
    for (judgement, why) in [
        (once, "not re-measured (1 of 2 rounds)"),
        (gone, "seen in 1 of 2 rounds only"),
    ] {
        assert_eq!((judgement.exit_code, judgement.findings.len()), (20, 0));
        assert!(judgement.summary.contains(why), "{}", judgement.summary);
    }
}

#[test]
fn flows_that_are_not_pinned_are_no_fault() {
    for seed in 1..=seeds(5) {
        let judgement = judge(&streams(&fabric(1), &[EcmpFault::Adaptive], seed));
        let causes: BTreeSet<EcmpCause> = judgement.ecmp.iter().map(|verdict| verdict.cause).collect();
        assert_eq!(
            (judgement.exit_code, causes),
            (0, BTreeSet::from([EcmpCause::AdaptiveRouting])),
            "seed {seed}"
        );
    }
}

#[test]
fn a_slow_cable_is_named_where_switches_tell_the_paths_of_half_of_the_streams() {
    for spines in [2, 4] {
        let fabric = StreamFabric {
            answered: 0.55,
            flows: vec![32],
            ..StreamFabric::new(4, spines, 1, 2)
        };
        let slow = "rail0-leaf1/u1->rail0-spine1/d1".to_string();
        let fault = EcmpFault::Slow {
            link: slow.clone(),
            left: 0.5,
        };
        let mut named = 0;
        for seed in 1..=seeds(10) {
            let (exit_code, accused) = judged(&fabric, &fault, seed);
            let is_right =
                exit_code == 11 && accused == BTreeSet::from([(EcmpCause::SlowMember, slow.clone())]);
            named += u64::from(is_right);
            let healthy = judge(&streams(&fabric, &[], seed));
            assert_eq!(healthy.exit_code, 0, "seed {seed}: {}", healthy.summary);
        }
        assert!(named * 10 >= seeds(10) * 9, "{spines} spines: {named}");
    }
}
