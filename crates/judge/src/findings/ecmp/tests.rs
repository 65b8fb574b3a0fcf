//! What is said about runs whose fault is known: each fault is named, and nothing is said about a healthy fabric.

use super::fixture::{Fault, Streams};
use crate::findings::{judge, suspects};
use crate::tally::{allowed, seeds};
use record::{EcmpCause, FindingKind, Judgement, Verdict};

/// The causes of all findings, and all sentences.
fn causes(judgement: &Judgement) -> Vec<String> {
    judgement
        .findings
        .iter()
        .inspect(|finding| assert_eq!(finding.kind, FindingKind::EcmpImbalance, "{}", finding.sentence))
        .map(|finding| {
            let start = finding.sentence.rfind('(').unwrap();
            finding.sentence[start + 1..].trim_end_matches(')').to_string()
        })
        .collect()
}

/// Judges 20 seeds, or a quarter of them, and says in how many the only finding was not `cause` with `named` in its sentence.
fn wrong(make: impl Fn(u64) -> Streams, cause: EcmpCause, named: &[&str]) -> usize {
    (0..seeds(20))
        .filter(|seed| {
            let judgement = judge(&make(*seed).measured_twice());
            let rounds = |finding: &record::Finding| finding.confirmation.as_ref().map(|sure| sure.rounds);
            let is_right = causes(&judgement) == [cause.to_string()]
                && judgement.exit_code == 11
                && rounds(&judgement.findings[0]) == Some(2)
                && named
                    .iter()
                    .all(|name| judgement.findings[0].sentence.contains(name));
            if !is_right {
                println!("seed {seed}, exit {}: {}", judgement.exit_code, judgement.summary);
                for finding in &judgement.findings {
                    println!("    {} p {:?}", finding.sentence, finding.confirmation);
                }
            }
            !is_right
        })
        .count()
}

#[test]
fn a_healthy_fabric_is_bad_luck_at_worst() {
    for seed in 0..seeds(20) {
        for make in [Streams::lab, Streams::four_spines, Streams::trunked] {
            let judgement = judge(&make(seed, Fault::None).recorded());
            assert_eq!(judgement.exit_code, 0, "seed {seed}: {}", judgement.summary);
            assert!(
                judgement
                    .ecmp
                    .iter()
                    .all(|verdict| verdict.cause == EcmpCause::ExpectedCollision)
            );
            assert!(judgement.cells.iter().all(|cell| cell.verdict == Verdict::Pass));
            assert_eq!(judgement.tests[0].verdict, Verdict::Pass);
        }
    }
}

#[test]
fn a_hash_of_addresses_alone_is_called_polarised_at_the_leaves() {
    let make = |seed| Streams::lab(seed, Fault::AddressesOnly);
    assert_eq!(wrong(make, EcmpCause::Polarised, &["leaf0", "leaf3"]), 0);
    let make = |seed| Streams::four_spines(seed, Fault::AddressesOnly);
    assert_eq!(wrong(make, EcmpCause::Polarised, &["leaf0", "leaf3"]), 0);
}

#[test]
fn unequal_weights_name_the_leaf_and_its_weights() {
    let make = |seed| Streams::lab(seed, Fault::Weights("leaf1", &[3, 1]));
    assert!(wrong(make, EcmpCause::UnequalWeights, &["leaf1"]) <= allowed(1, 20));
    let make = |seed| Streams::four_spines(seed, Fault::Weights("leaf1", &[3, 1, 1, 1]));
    assert!(wrong(make, EcmpCause::UnequalWeights, &["leaf1"]) <= allowed(1, 20));
    let make = |seed| Streams::four_spines(seed, Fault::Weights("leaf1", &[3, 3, 1, 1]));
    assert!(wrong(make, EcmpCause::UnequalWeights, &["leaf1"]) <= allowed(1, 20));
}

#[test]
fn one_seed_on_two_tiers_names_the_spines() {
    let make = |seed| Streams::trunked(seed, Fault::OneSeed);
    let named = ["spine0", "spine1", "second tier"];
    assert!(wrong(make, EcmpCause::PolarisedSecondTier, &named) <= allowed(1, 20));
}

#[test]
fn a_dead_next_hop_names_the_link_and_the_spine_and_no_link_of_those_whose_acknowledgements_it_swallows() {
    let link = "leaf0/u1->spine1/d0";
    for make in [Streams::lab, Streams::four_spines] {
        let make = |seed| make(seed, Fault::Dead(link));
        assert!(wrong(make, EcmpCause::DeadMember, &[link, "spine1", "vanished"]) <= allowed(1, 20));
    }
    let link = "spine1/d2->leaf2/u1";
    for make in [Streams::lab, Streams::four_spines] {
        let make = |seed| make(seed, Fault::Dead(link));
        assert!(wrong(make, EcmpCause::DeadMember, &[link]) <= allowed(1, 20));
    }
}

#[test]
fn a_member_that_nothing_is_sent_to_is_dead_in_other_words() {
    let link = "leaf0/u1->spine1/d0";
    for make in [Streams::lab, Streams::four_spines] {
        let make = |seed| make(seed, Fault::Withdrawn(link));
        assert!(wrong(make, EcmpCause::DeadMember, &[link, "no flow is ever sent there"]) <= allowed(1, 20));
    }
}

#[test]
fn a_cable_at_half_its_rate_is_named_in_its_direction() {
    for make in [Streams::lab, Streams::four_spines] {
        for link in ["leaf0/u1->spine1/d0", "spine0/d2->leaf2/u0"] {
            let make = |seed| make(seed, Fault::Slow(link, 0.5));
            assert!(
                wrong(make, EcmpCause::SlowMember, &[link]) <= allowed(1, 20),
                "{link}"
            );
        }
    }
}

#[test]
fn a_sender_that_does_not_vary_its_port_is_to_blame_itself() {
    let make = |seed| Streams::lab(seed, Fault::OnePort);
    assert_eq!(wrong(make, EcmpCause::NoEntropy, &["h0", "without entropy"]), 0);
    let silent = |seed| Streams {
        silent: true,
        ..Streams::lab(seed, Fault::OnePort)
    };
    assert_eq!(wrong(silent, EcmpCause::NoEntropy, &["h0"]), 0);
}

#[test]
fn a_fabric_that_moves_flows_about_is_no_fault() {
    for seed in 0..10 {
        let judgement = judge(&Streams::lab(seed, Fault::Adaptive).recorded());
        assert_eq!(judgement.exit_code, 0, "{}", judgement.summary);
        assert!(
            judgement
                .ecmp
                .iter()
                .all(|verdict| verdict.cause == EcmpCause::AdaptiveRouting)
        );
    }
}

#[test]
fn links_that_too_few_known_paths_cross_are_listed_as_untested() {
    let unjudged = |recorded: &record::Recorded| -> Vec<String> {
        let judgement = judge(recorded);
        assert_eq!(judgement.exit_code, 0, "{}", judgement.summary);
        let untested = judgement.coverage.untested.into_iter();
        untested
            .map(|untested| untested.what)
            .filter(|what| what.contains("carry their rate"))
            .collect()
    };
    let mut recorded = Streams::lab(1, Fault::None).recorded();
    assert_eq!(unjudged(&recorded), Vec::<String>::new());
    let ways = recorded
        .run
        .cells
        .iter_mut()
        .filter_map(|cell| cell.streams.as_mut());
    for terms in ways {
        let every_third = terms.ways.iter_mut().step_by(3);
        every_third.for_each(|way| *way = record::StreamPath::default());
    }
    let listed = unjudged(&recorded);
    assert_eq!(listed.len(), 1);
    assert!(
        listed[0].starts_with("whether 8 of 8 links of equal paths carry their rate"),
        "{listed:?}"
    );
}

#[test]
fn without_ways_nothing_is_healthy_and_dead_streams_are_still_a_fault() {
    for (silent, unknown) in [(true, false), (false, true)] {
        let of = |fault| {
            let run = Streams {
                silent,
                unknown,
                ..Streams::lab(1, fault)
            };
            judge(&run.measured_twice())
        };
        let healthy = of(Fault::None);
        assert_eq!(healthy.exit_code, 20, "{}", healthy.summary);
        assert!(
            healthy
                .ecmp
                .iter()
                .all(|verdict| verdict.cause == EcmpCause::Unjudged)
        );
        let dead = of(Fault::Dead("leaf0/u1->spine1/d0"));
        assert_eq!(
            (dead.exit_code, causes(&dead)),
            (11, vec!["dead-member".to_string()])
        );
    }
}

#[test]
fn counters_alone_tell_unequal_weights_and_agree_with_flows_where_both_are_there() {
    let counted = |fault, silent| {
        let run = Streams {
            silent,
            counters: true,
            // Full members carry the same, however flows are spread.
            uplink: 50.0,
            ..Streams::four_spines(3, fault)
        };
        judge(&run.measured_twice())
    };
    let silent = counted(Fault::Weights("leaf1", &[3, 1, 1, 1]), true);
    assert_eq!(causes(&silent), ["unequal-weights"]);
    assert!(silent.findings[0].sentence.contains("leaf1"));
    let gone = counted(Fault::Withdrawn("leaf1/u2->spine2/d1"), true);
    assert_eq!(causes(&gone), ["dead-member"]);
    assert!(gone.findings[0].sentence.contains("leaf1/u2->spine2/d1"));
    let healthy = counted(Fault::None, true);
    assert_eq!(healthy.exit_code, 0, "{}", healthy.summary);
    let both = counted(Fault::AddressesOnly, false);
    let evidence = both.findings[0].evidence.join("\n");
    assert!(evidence.contains("bytes counted at the ports of"), "{evidence}");
    assert!(
        both.ecmp
            .iter()
            .all(|verdict| verdict.members.iter().all(|member| member.counted.is_some()))
    );
}

/// A run of a healthy fabric whose streams are changed afterwards, numbered through.
fn changed(fault: Fault, change: impl Fn(usize, &mut record::StreamRecord)) -> Judgement {
    let mut recorded = Streams::lab(1, fault).recorded();
    let mut number = 0;
    for event in &mut recorded.events {
        if let record::Event::CellDone(done) = event {
            for stream in &mut done.streams {
                change(number, stream);
                number += 1;
            }
        }
    }
    judge(&recorded)
}

#[test]
fn an_even_spread_of_too_little_is_no_pass() {
    let all_slow = |_: usize, stream: &mut record::StreamRecord| {
        stream.bytes.iter_mut().for_each(|bytes| *bytes /= 5);
    };
    for (fault, says) in [
        (Fault::None, "links that should be full carried 19"),
        (Fault::Adaptive, "no fixed path, and deliver"),
    ] {
        let judgement = changed(fault, all_slow);
        assert_eq!(judgement.exit_code, 20, "{}", judgement.summary);
        assert!(judgement.summary.contains(says), "{}", judgement.summary);
    }
}

#[test]
fn streams_that_deliver_nothing_are_no_pass_however_few_they_are() {
    let healthy = changed(Fault::None, |_, _| ());
    assert_eq!(healthy.exit_code, 0, "{}", healthy.summary);
    for few in [1, 5] {
        let judgement = changed(Fault::None, |number, stream| {
            if number % 200 == 77 && number / 200 < few {
                stream.bytes.iter_mut().for_each(|bytes| *bytes = 0);
                stream.problem = Some("reset".into());
            }
        });
        assert_eq!(judgement.exit_code, 20, "{}", judgement.summary);
        assert!(
            judgement.summary.contains("1 stream delivered nothing"),
            "{}",
            judgement.summary
        );
    }
}

/// Every kind of fault, on a fabric that shows it.
fn faults() -> Vec<Streams> {
    let link = "leaf0/u1->spine1/d0";
    let mut fabrics: Vec<Streams> = [
        Fault::AddressesOnly,
        Fault::Weights("leaf1", &[3, 1]),
        Fault::Dead(link),
        Fault::Withdrawn(link),
        Fault::Slow(link, 0.5),
        Fault::OnePort,
    ]
    .map(|fault| Streams::lab(1, fault))
    .to_vec();
    fabrics.push(Streams::trunked(1, Fault::OneSeed));
    let silent = |fault| Streams {
        silent: true,
        ..Streams::lab(1, fault)
    };
    fabrics.extend([Fault::Dead(link), Fault::OnePort].map(silent));
    fabrics
}

#[test]
fn what_was_measured_once_accuses_no_part_and_is_measured_again() {
    for fabric in faults() {
        let recorded = fabric.recorded();
        let judgement = judge(&recorded);
        let what = &fabric.fault;
        assert_eq!(judgement.exit_code, 20, "{what:?}: {}", judgement.summary);
        assert!(judgement.findings.is_empty(), "{what:?}");
        assert!(!judgement.ecmp.iter().any(|verdict| verdict.cause.is_fault()));
        assert!(
            judgement.summary.contains("not re-measured (1 of 2 rounds)"),
            "{what:?}: {}",
            judgement.summary
        );
        let all: Vec<u32> = recorded.run.cells.iter().map(|cell| cell.id).collect();
        assert_eq!(suspects(&recorded), all, "{what:?}");
        assert!(suspects(&fabric.measured_twice()).is_empty(), "{what:?}");
    }
    let healthy = Streams::lab(1, Fault::None).recorded();
    assert!(suspects(&healthy).is_empty(), "nothing to confirm");
}

#[test]
fn what_shows_in_every_round_is_accused_with_the_largest_p_value() {
    for fabric in faults() {
        let judgement = judge(&fabric.measured_twice());
        let what = &fabric.fault;
        assert_eq!(judgement.exit_code, 11, "{what:?}: {}", judgement.summary);
        for finding in &judgement.findings {
            assert_eq!(finding.confirmation.as_ref().unwrap().rounds, 2, "{what:?}");
            let evidence = finding.evidence.join("\n");
            assert!(evidence.contains("in each of 2 rounds"), "{evidence}");
            // Cells of both rounds.
            let planned = fabric.recorded().run.cells.len() as u32;
            let (first, last) = (finding.cells[0], finding.cells[finding.cells.len() - 1]);
            assert!(
                first < planned && last >= planned,
                "{what:?}: {:?}",
                finding.cells
            );
        }
    }
}

#[test]
fn what_shows_in_one_round_and_not_in_the_next_is_no_pass_and_accuses_no_part() {
    for fabric in faults() {
        let recorded = fabric.measured_again(&[Fault::None]);
        let judgement = judge(&recorded);
        let what = &fabric.fault;
        assert_eq!(judgement.exit_code, 20, "{what:?}: {}", judgement.summary);
        assert!(judgement.findings.is_empty(), "{what:?}");
        assert!(!judgement.ecmp.iter().any(|verdict| verdict.cause.is_fault()));
        assert!(
            judgement.summary.contains("seen in 1 of 2 rounds only"),
            "{what:?}: {}",
            judgement.summary
        );
        assert!(
            suspects(&recorded).is_empty(),
            "{what:?}: a third round would not settle it"
        );
    }
}

#[test]
fn rounds_that_show_different_faults_accuse_neither_part() {
    let first = Fault::Slow("leaf0/u1->spine1/d0", 0.5);
    let second = Fault::Slow("spine0/d2->leaf2/u0", 0.5);
    let judgement = judge(&Streams::lab(1, first).measured_again(&[second]));
    assert_eq!(
        (judgement.exit_code, judgement.findings.len()),
        (20, 0),
        "{}",
        judgement.summary
    );
    let doubts = |link: &str| {
        let said = format!("suspected slow-member at {link}, seen in 1 of 2 rounds only");
        let mut cells = judgement.cells.iter();
        cells.any(|cell| matches!(&cell.verdict, Verdict::Inconclusive(why) if *why == said))
    };
    assert!(doubts("spine0/d2->leaf2/u0"));
    let verdicts: Vec<&str> = judgement
        .ecmp
        .iter()
        .map(|verdict| verdict.sentence.as_str())
        .collect();
    assert!(
        verdicts
            .iter()
            .any(|sentence| sentence.contains("suspected slow-member at leaf0/u1->spine1/d0")),
        "{verdicts:?}"
    );
}

#[test]
fn a_second_round_that_was_cut_off_clears_nothing() {
    let fabric = Streams::lab(1, Fault::AddressesOnly);
    let mut recorded = fabric.measured_again(&[Fault::None]);
    let planned = fabric.recorded().run.cells.len() as u32;
    recorded.events.retain(|event| match event {
        record::Event::CellDone(done) => done.cell < planned + 8,
        _ => true,
    });
    let judgement = judge(&recorded);
    assert_eq!(judgement.exit_code, 20, "{}", judgement.summary);
    for cell in &judgement.cells[..planned as usize] {
        assert!(
            matches!(&cell.verdict, Verdict::Inconclusive(why) if why.ends_with("not re-measured (1 of 2 rounds)")),
            "{:?}",
            cell.verdict
        );
    }
}

#[test]
fn strange_records_are_judged_without_a_panic() {
    use record::Event;
    let mut recorded = Streams::lab(1, Fault::None).measured_twice();
    for (number, cell) in recorded.run.cells.iter_mut().enumerate() {
        let terms = cell.streams.as_mut().unwrap();
        match number % 7 {
            0 => terms.ways[0].links[1] = "nowhere/u1->no/where".into(),
            1 => terms.ways.truncate(2),
            2 => terms.ways.iter_mut().for_each(|path| path.links.clear()),
            3 => terms.window = record::units::Nanos(0),
            4 => terms.ways.iter_mut().for_each(|path| path.links.reverse()),
            5 => cell.ranks = vec![0, 77],
            _ => cell.streams = None,
        }
    }
    for (number, event) in recorded.events.iter_mut().enumerate() {
        if let Event::CellDone(done) = event {
            match number % 5 {
                0 => done.streams.clear(),
                1 => done.streams.iter_mut().for_each(|stream| stream.port = None),
                2 => done.streams.iter_mut().for_each(|stream| stream.bytes.clear()),
                3 => done
                    .streams
                    .iter_mut()
                    .for_each(|stream| stream.bytes = vec![u64::MAX]),
                _ => {}
            }
        }
    }
    let judgement = judge(&recorded);
    assert!(
        judgement
            .ecmp
            .iter()
            .all(|verdict| (0.0..=1.0).contains(&verdict.p_value))
    );
    recorded.topology = Some("nonsense".into());
    judge(&recorded);
}
