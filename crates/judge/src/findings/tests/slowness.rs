//! Who is called slow, and who is not.

use super::{kinds, on_rail};
use crate::findings::fixture::{Fixture, HEALTHY, spec};
use crate::findings::{judge, suspects};
use crate::tally::seeds;
use record::{Cell, CounterDelta, Event, FindingKind, Reference, Sample, Untested, Verdict};

#[test]
fn a_rail_at_60_percent_is_named_and_its_neighbours_are_not() {
    let slow = |cell: &Cell, _| {
        if on_rail(cell, "rail1") {
            0.6 * HEALTHY
        } else {
            HEALTHY
        }
    };
    let mut recorded = Fixture::rails(4).speed(slow).recorded();
    recorded.events.push(Event::Counter(CounterDelta {
        cell: 2,
        round: 0,
        rank: 2,
        rail: "rail1".into(),
        name: "symbol_error".into(),
        before: Some(10),
        after: Some(4122),
        ..CounterDelta::default()
    }));
    let judgement = judge(&recorded);
    assert_eq!(kinds(&judgement), [FindingKind::SlowRail]);
    assert_eq!(judgement.exit_code, 12);
    let finding = &judgement.findings[0];
    assert_eq!(finding.place.rail.as_deref(), Some("rail1"));
    assert_eq!(finding.cells, [2, 3, 10, 11]);
    for part in [
        "rail1: 0.6",
        "GB/s [",
        "of 1.0",
        "median of 3 peer rails, margin 25 %",
        "2 of 2 sizes",
    ] {
        assert!(finding.sentence.contains(part), "{part}: {}", finding.sentence);
    }
    assert!(
        finding.sentence.contains("rail0, rail2 and rail3 normal"),
        "{}",
        finding.sentence
    );
    assert!(
        finding.sentence.contains("symbol_error +4112 on node02/rail1"),
        "{}",
        finding.sentence
    );
    assert_eq!(
        finding
            .evidence
            .iter()
            .filter(|e| e.starts_with("alone") || e.starts_with("together"))
            .count(),
        2
    );
    assert_eq!(
        finding.repeat.as_deref(),
        Some("railgauge run smoke --only test=rails,rail=rail1")
    );
    let confirmation = finding.confirmation.as_ref().unwrap();
    assert!(confirmation.rounds >= 2 && confirmation.p_value < 0.01 && confirmation.comparisons == 16);
    for cell in &judgement.cells {
        let failed = matches!(cell.verdict, Verdict::Fail(_));
        assert_eq!(failed, on_rail(&cell.cell, "rail1"), "{:?}", cell.verdict);
    }
}

#[test]
fn what_is_not_settled_beside_a_finding_is_said_and_does_not_hide_it() {
    let speed = |cell: &Cell, _| HEALTHY * if on_rail(cell, "rail1") { 0.6 } else { 1.0 };
    let mut recorded = Fixture::rails(4).speed(speed).recorded();
    let mut other = recorded.run.tests[0].clone();
    other.name = "rings".into();
    recorded.run.tests.push(other);
    let judgement = judge(&recorded);
    assert_eq!(kinds(&judgement), [FindingKind::SlowRail]);
    assert_eq!(judgement.exit_code, 12, "{}", judgement.summary);
    assert!(
        judgement.summary.contains("; 1 test not settled: rings"),
        "{}",
        judgement.summary
    );
}

#[test]
fn with_two_rails_the_slow_one_is_named() {
    let slow = |cell: &Cell, _| {
        if on_rail(cell, "rail1") {
            0.6 * HEALTHY
        } else {
            HEALTHY
        }
    };
    let judgement = judge(&Fixture::rails(2).speed(slow).recorded());
    assert_eq!(kinds(&judgement), [FindingKind::SlowRail]);
    assert!(judgement.findings[0].sentence.contains("median of 1 peer rail,"));
    assert!(judgement.findings[0].sentence.contains("rail0 normal"));
}

#[test]
fn all_rails_below_spec_are_one_finding() {
    let fixture = Fixture::rails(4).references(vec![spec(2.0 * HEALTHY, 0)]);
    let judgement = judge(&fixture.recorded());
    assert_eq!(kinds(&judgement), [FindingKind::SlowRail]);
    assert!(
        judgement.findings[0].sentence.starts_with("all 4 rails"),
        "{}",
        judgement.findings[0].sentence
    );
}

#[test]
fn a_slow_pair_is_named_in_its_direction() {
    let slow = |cell: &Cell, _| {
        if cell.ranks == [1, 3] {
            0.5 * HEALTHY
        } else {
            HEALTHY
        }
    };
    let judgement = judge(&Fixture::pairs(5).speed(slow).recorded());
    assert_eq!(kinds(&judgement), [FindingKind::SlowPair]);
    let finding = &judgement.findings[0];
    assert!(
        finding
            .sentence
            .starts_with("rank 1 (node01) -> rank 3 (node03): 0.5"),
        "{}",
        finding.sentence
    );
    assert_eq!(finding.place.ranks, [1, 3]);
    assert_eq!(
        finding.repeat.as_deref(),
        Some("railgauge run smoke --only test=pairs,pair=1:3")
    );
}

#[test]
fn a_rank_that_all_slow_pairs_share_is_one_finding() {
    let slow = |cell: &Cell, _| {
        if cell.ranks.contains(&3) {
            0.5 * HEALTHY
        } else {
            HEALTHY
        }
    };
    let judgement = judge(&Fixture::pairs(6).speed(slow).recorded());
    assert_eq!(kinds(&judgement), [FindingKind::SlowPair]);
    let finding = &judgement.findings[0];
    assert_eq!(finding.place.ranks, [3]);
    assert!(finding.not_told_apart_from[0].contains("rank 3 (node03) itself"));
}

#[test]
fn slow_once_and_not_measured_again_is_a_suspicion_not_an_accusation() {
    let slow = |cell: &Cell, _| {
        if on_rail(cell, "rail1") {
            0.6 * HEALTHY
        } else {
            HEALTHY
        }
    };
    let recorded = Fixture::rails(3).speed(slow).measured_once();
    assert_eq!(suspects(&recorded), [2, 3, 8, 9]);
    let judgement = judge(&recorded);
    assert_eq!((judgement.findings.len(), judgement.exit_code), (0, 20));
    let Verdict::Inconclusive(why) = &judgement.cells[2].verdict else {
        panic!("{:?}", judgement.cells[2])
    };
    assert!(
        why.contains("suspected") && why.contains("not re-measured"),
        "{why}"
    );
}

#[test]
fn a_slowness_that_does_not_come_back_accuses_nobody() {
    let slow = |cell: &Cell, round| {
        if on_rail(cell, "rail1") && round == 0 {
            0.6 * HEALTHY
        } else {
            HEALTHY
        }
    };
    let judgement = judge(&Fixture::rails(3).speed(slow).recorded());
    assert_eq!(judgement.findings, []);
    assert_ne!(judgement.exit_code, 12);
}

#[test]
fn noise_over_two_hundred_cells_accuses_nobody_in_a_hundred_runs() {
    for seed in 0..seeds(100) {
        let fixture = Fixture::pairs(15).noise(0.1, seed).iterations(20);
        let judgement = judge(
            &fixture
                .references(vec![Reference::Peers { margin: 0.05 }])
                .recorded(),
        );
        assert_eq!(judgement.findings, [], "seed {seed}");
    }
}

#[test]
fn noise_makes_no_stragglers_and_no_slow_rails() {
    for seed in 0..seeds(50) {
        let judgement = judge(&Fixture::rails(8).noise(0.1, seed).recorded());
        assert_eq!(judgement.findings, [], "seed {seed}");
        assert_eq!(judgement.exit_code, 0, "seed {seed}: {}", judgement.summary);
    }
}

#[test]
fn a_straggler_is_not_blamed_on_a_rail() {
    // Rank 2 works 12 ms longer than the others whenever it uses rail 1: the wire is innocent.
    let extra = |cell: &Cell, rank, _| {
        if rank == 2 && on_rail(cell, "rail1") {
            12e6
        } else {
            0.0
        }
    };
    let mut fixture = Fixture::rails(2).extra_work(extra);
    fixture
        .run
        .cells
        .retain(|cell| on_rail(cell, "rail1") || cell.size.0 > 1 << 20);
    let judgement = judge(&fixture.recorded());
    assert_eq!(
        kinds(&judgement),
        [FindingKind::StragglerRank],
        "{}",
        judgement.summary
    );
    let finding = &judgement.findings[0];
    assert!(
        finding.sentence.starts_with("rank 2 (node02): busy"),
        "{}",
        finding.sentence
    );
    assert!(
        finding
            .evidence
            .iter()
            .any(|line| line.contains("explains 2 slow cells")),
        "{:?}",
        finding.evidence
    );
    assert_eq!(judgement.exit_code, 12);
}

#[test]
fn a_straggler_is_measured_again_before_it_is_accused() {
    let always = |_: &Cell, rank, _| if rank == 2 { 12e6 } else { 0.0 };
    let once = Fixture::rails(2).extra_work(always).measured_once();
    assert!(!suspects(&once).is_empty(), "its cells must be measured again");
    let judgement = judge(&once);
    assert_eq!(kinds(&judgement), []);
    let open =
        |entry: &Untested| entry.what.contains("rank 2 (node02)") && entry.why.contains("not measured again");
    assert!(judgement.coverage.untested.iter().any(open));
    assert_eq!(judgement.exit_code, 20, "{}", judgement.summary);

    let again = Fixture::rails(2).extra_work(always).recorded();
    assert_eq!(kinds(&judge(&again)), [FindingKind::StragglerRank]);
    let confirmation = judge(&again).findings[0].confirmation.clone().unwrap();
    assert_eq!(confirmation.rounds, 2);

    let busy_once = |_: &Cell, rank, round| if rank == 2 && round == 0 { 12e6 } else { 0.0 };
    let gone = Fixture::rails(2).extra_work(busy_once).recorded();
    let judgement = judge(&gone);
    assert_eq!(kinds(&judgement), [], "other load passes, a bad machine stays");
    assert_eq!(judgement.exit_code, 0, "{}", judgement.summary);
}

#[test]
fn ranks_that_share_a_core_are_not_called_stragglers() {
    let mut fixture = Fixture::rails(2).extra_work(|_, rank, _| if rank == 2 { 12e6 } else { 0.0 });
    fixture.run.hosts.iter_mut().for_each(|host| host.cores = 0);
    let judgement = judge(&fixture.recorded());
    assert_eq!(judgement.findings, []);
    assert!(
        judgement
            .coverage
            .untested
            .iter()
            .any(|entry| entry.what.contains("straggling ranks on node02"))
    );
    // Hosts may be containers of one machine, which share its cores although none of them says so.
    let mut fixture = Fixture::rails(2).extra_work(|_, rank, _| if rank == 2 { 12e6 } else { 0.0 });
    for host in &mut fixture.run.hosts {
        (host.cores, host.machine) = (3, Some("one".to_string()));
    }
    assert_eq!(judge(&fixture.recorded()).findings, []);
}

#[test]
fn a_machine_that_slows_down_for_everybody_accuses_nobody() {
    // Rail 1 is measured while the machine is slow, in both rounds; its peers of the same round are as slow.
    let drifting = |cell: &Cell, round: u16| match (cell.rails[0].as_str(), round) {
        ("rail1", 0) | (_, 1) => 0.6,
        _ => 1.0,
    };
    let mut recorded = Fixture::rails(2).recorded();
    let cells = recorded.run.cells.clone();
    let all: Vec<Sample> = recorded
        .samples
        .drain(..)
        .filter(|sample| sample.round == 0)
        .collect();
    for round in [0, 1] {
        // The second round is shorter, as it is when the interval is tight at once: pooled, the peers look fast.
        let kept = all.iter().filter(|sample| round == 0 || sample.iter < 8);
        recorded.samples.extend(kept.map(|sample| {
            let cell = cells.iter().find(|cell| cell.id == sample.cell).unwrap();
            let ns = (sample.ns as f64 / drifting(cell, round)) as u64;
            Sample { round, ns, ..*sample }
        }));
    }
    let judgement = judge(&recorded);
    assert!(
        judgement
            .findings
            .iter()
            .all(|finding| finding.kind != FindingKind::SlowRail),
        "{:?}",
        judgement.findings
    );
}
