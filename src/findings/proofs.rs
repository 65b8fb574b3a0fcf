//! What a user would lose if judging went wrong, each as one recorded run.

use super::fixture::{Fixture, HEALTHY, spec};
use super::{judge, suspects};
use crate::record::{
    Algorithm, Cell, Corruption, CounterDelta, EndReason, Event, FindingKind, Judgement, Lost, Reference,
    Stalled, TransportKind, Verdict,
};
use crate::units::Nanos;

fn kinds(judgement: &Judgement) -> Vec<FindingKind> {
    judgement.findings.iter().map(|finding| finding.kind).collect()
}

fn on_rail(cell: &Cell, rail: &str) -> bool {
    cell.rails.iter().any(|name| name == rail)
}

#[test]
fn a_healthy_run_passes_and_says_what_together_costs() {
    let judgement = judge(&Fixture::rails(4).recorded());
    assert_eq!(
        (&judgement.verdict, judgement.exit_code),
        (&Verdict::Pass, 0),
        "{}",
        judgement.summary
    );
    assert_eq!(judgement.findings, []);
    assert_eq!(judgement.interference.len(), 8);
    assert!(
        judgement
            .interference
            .iter()
            .all(|row| (0.9..1.1).contains(&row.ratio))
    );
    assert_eq!(
        (judgement.coverage.planned, judgement.coverage.measured),
        (16, 16)
    );
    let cell = &judgement.cells[0];
    let rate = cell.wire_rate.unwrap();
    assert!(rate.lower < rate.median && rate.median < rate.upper);
    assert!((rate.median.0 / HEALTHY - 1.0).abs() < 0.05);
    assert!((cell.bus_rate.unwrap().0 / cell.algorithm_rate.unwrap().0 - 1.5).abs() < 1e-9);
}

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
    for seed in 0..100 {
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
fn a_straggler_is_not_blamed_on_a_rail() {
    // Rank 2 works 12 ms longer than the others whenever it uses rail 1: the wire is innocent.
    let extra = |cell: &Cell, rank| {
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
fn ranks_that_share_a_core_are_not_called_stragglers() {
    let mut fixture = Fixture::rails(2).extra_work(|_, rank| if rank == 2 { 12e6 } else { 0.0 });
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
}

#[test]
fn wrong_data_names_rank_place_and_bits() {
    let mut recorded = Fixture::rails(2).recorded();
    let wrong = |rank, iter| {
        Event::Corruption(Corruption {
            cell: 3,
            round: 0,
            iter,
            rank,
            element: 513,
            byte_offset: 2053,
            expected_bits: "0x40400000".into(),
            found_bits: "0x40400100".into(),
            wrong_elements: 1,
        })
    };
    recorded.events.extend([wrong(1, 7), wrong(1, 8), wrong(2, 7)]);
    let judgement = judge(&recorded);
    assert_eq!(kinds(&judgement), [FindingKind::Corruption; 2]);
    assert_eq!(judgement.exit_code, 22);
    let finding = &judgement.findings[0];
    for part in [
        "rank 1 (node01)",
        "iteration 7",
        "element 513",
        "byte 2053",
        "0x40400100",
        "bit 8 flipped",
        "16 MiB",
    ] {
        assert!(finding.sentence.contains(part), "{part}: {}", finding.sentence);
    }
    assert!(
        finding
            .evidence
            .iter()
            .any(|line| line.contains("wrong on rank 2")),
        "{:?}",
        finding.evidence
    );
    assert_eq!(finding.place.rail.as_deref(), Some("rail1"));
    assert!(matches!(judgement.cells[3].verdict, Verdict::Fail(_)));
}

#[test]
fn a_lost_rank_is_named_with_those_who_waited_for_it() {
    let mut recorded = Fixture::rails(2).recorded();
    recorded.events.retain(|event| match event {
        Event::CellDone(done) => done.cell < 7,
        Event::End { .. } => false,
        _ => true,
    });
    recorded
        .samples
        .retain(|sample| sample.cell < 7 || sample.iter < 5);
    let stalled = |rank, waiting_for| {
        Event::Stalled(Stalled {
            rank,
            cell: 7,
            step: "step 3 of 6 (receive)".into(),
            waiting_for: Some(waiting_for),
            waited_ns: Nanos(2_100_000_000),
        })
    };
    recorded.events.extend([stalled(3, 2), stalled(0, 3)]);
    let hang = judge(&recorded);
    assert_eq!(
        kinds(&hang),
        [FindingKind::LostRank, FindingKind::IncompleteCoverage]
    );
    assert!(
        hang.findings[0]
            .sentence
            .contains("everybody waited for rank 2 (node02)"),
        "{}",
        hang.findings[0].sentence
    );
    recorded.events.push(Event::Lost(Lost {
        rank: 2,
        host: "node02".into(),
        cell: Some(7),
        doing: "run an iteration".into(),
        reason: "its process was killed by signal 9".into(),
    }));
    recorded.events.push(Event::End {
        reason: EndReason::Lost,
        at: "2026-11-14T23:51:00Z".into(),
    });
    let judgement = judge(&recorded);
    assert_eq!(judgement.exit_code, 21);
    let sentence = &judgement.findings[0].sentence;
    for part in [
        "rank 2 (node02) lost after iteration 4",
        "killed by signal 9",
        "waited for rank 2",
        "2.10 s",
    ] {
        assert!(sentence.contains(part), "{part}: {sentence}");
    }
}

#[test]
fn an_interrupted_run_is_incomplete_and_judges_what_is_there() {
    let mut recorded = Fixture::rails(2).recorded();
    recorded
        .events
        .retain(|event| !matches!(event, Event::CellDone(done) if done.cell > 5));
    recorded.samples.retain(|sample| sample.cell < 6);
    recorded.events.pop();
    recorded.events.push(Event::End {
        reason: EndReason::Interrupted,
        at: String::new(),
    });
    let judgement = judge(&recorded);
    assert_eq!(kinds(&judgement), [FindingKind::IncompleteCoverage]);
    assert_eq!(
        (judgement.exit_code, judgement.coverage.not_measured.len()),
        (20, 2)
    );
    assert!(
        judgement.findings[0]
            .sentence
            .starts_with("6 of 8 cells measured; the run was interrupted")
    );
    assert_eq!(judgement.cells[0].verdict, Verdict::Pass);
    assert!(matches!(judgement.cells[6].verdict, Verdict::NotRun(_)));
}

#[test]
fn without_an_expectation_nothing_passes() {
    let mut fixture = Fixture::rails(2).references(Vec::new());
    fixture.run.tests[0].missing_references = vec!["spec `ndr400` has no row for tcp".into()];
    let judgement = judge(&fixture.recorded());
    assert_eq!((judgement.findings.len(), judgement.exit_code), (0, 20));
    assert!(
        judgement.summary.contains("no row for tcp"),
        "{}",
        judgement.summary
    );
    let mut empty = Fixture::rails(2).recorded();
    empty.run.cells.clear();
    empty.run.tests.clear();
    assert_eq!(judge(&empty).exit_code, 20);
}

#[test]
fn sizes_below_the_spec_do_not_keep_a_test_from_passing() {
    let fixture = Fixture::rails(2).references(vec![spec(HEALTHY, 16 << 20)]);
    let judgement = judge(&fixture.recorded());
    assert_eq!(
        (&judgement.verdict, judgement.exit_code),
        (&Verdict::Pass, 0),
        "{}",
        judgement.summary
    );
    let Verdict::Inconclusive(why) = &judgement.cells[0].verdict else {
        panic!("{:?}", judgement.cells[0])
    };
    assert!(why.contains("16 MiB and above"), "{why}");
    let too_large = Fixture::rails(2).references(vec![spec(HEALTHY, 1 << 40)]);
    assert_eq!(judge(&too_large.recorded()).exit_code, 20);
}

#[test]
fn a_spec_of_another_algorithm_or_of_links_says_nothing_about_shared_memory() {
    let mut fixture = Fixture::rails(1).references(vec![spec(HEALTHY, 0)]);
    fixture
        .run
        .cells
        .iter_mut()
        .for_each(|cell| cell.transport = TransportKind::Shm);
    assert_eq!(judge(&fixture.recorded()).exit_code, 20);
    let mut fixture = Fixture::rails(1).references(vec![spec(HEALTHY, 0)]);
    if let Reference::Spec(row) = &mut fixture.run.tests[0].references[0] {
        row.algorithm = Some(Algorithm::Tree);
    }
    let judgement = judge(&fixture.recorded());
    assert!(
        judgement.summary.contains("is about tree, not ring"),
        "{}",
        judgement.summary
    );
}

#[test]
fn bytes_that_contradict_the_schedule_make_a_cell_inconclusive() {
    let mut recorded = Fixture::rails(2).recorded();
    if let Some(Event::CellDone(done)) = recorded.events.first_mut() {
        done.moved[0].bytes.0 += 1;
    }
    let judgement = judge(&recorded);
    assert!(
        matches!(&judgement.cells[0].verdict, Verdict::Inconclusive(why) if why.contains("schedule says"))
    );
    assert_eq!(judgement.exit_code, 20);
}

#[test]
fn five_iterations_are_too_few() {
    let judgement = judge(&Fixture::rails(2).iterations(5).recorded());
    assert_eq!(judgement.exit_code, 20);
    assert!(
        judgement.summary.contains("an interval needs 6"),
        "{}",
        judgement.summary
    );
}

#[test]
fn the_time_of_a_collective_is_that_of_its_last_rank_and_the_rank_is_named() {
    let mut recorded = Fixture::rails(1).noise(0.0, 1).recorded();
    recorded
        .samples
        .iter_mut()
        .filter(|sample| sample.rank == 3)
        .for_each(|sample| sample.ns *= 2);
    recorded
        .samples
        .retain(|sample| !(sample.cell == 0 && sample.iter == 9 && sample.rank == 1));
    let judgement = judge(&recorded);
    let cell = &judgement.cells[0];
    assert_eq!(cell.slowest_rank, Some((3, 1.0)));
    assert_eq!(
        cell.iterations, 29,
        "an iteration that a rank did not complete does not count"
    );
    assert!((cell.wire_rate.unwrap().median.0 / (HEALTHY / 2.0) - 1.0).abs() < 0.01);
}

#[test]
fn a_negative_control_says_so() {
    let mut recorded = Fixture::rails(2).recorded();
    recorded.run.injected = vec!["rail1 throttled to 60 %".into()];
    assert!(judge(&recorded).summary.contains("negative control"));
}

#[test]
fn strange_numbers_are_judged_without_a_panic() {
    let mut recorded = Fixture::rails(2).recorded();
    for (i, sample) in recorded.samples.iter_mut().enumerate() {
        match i % 7 {
            0 => sample.ns = 0,
            1 => (sample.ns, sample.wait_ns) = (u64::MAX, u64::MAX),
            2 => sample.cell = u32::MAX,
            3 => sample.rank = u32::MAX,
            _ => {}
        }
    }
    for event in &mut recorded.events {
        if let Event::CellDone(done) = event {
            done.planned[0].bytes.0 = u64::MAX;
            done.moved = done.planned.clone();
            done.verified = u32::MAX;
        }
    }
    recorded.run.cells[1].ranks.clear();
    recorded.run.cells[2].id = 0;
    recorded.run.ranks.clear();
    for value in [f64::NAN, f64::INFINITY, -1.0, 0.0, 1.0] {
        recorded.run.rule.confidence = value;
        recorded.run.rule.straggler_factor = value;
        recorded.run.rule.false_positive_budget = value;
        recorded.run.tests[0].references = vec![Reference::Peers { margin: value }, spec(value, 0)];
        let judgement = judge(&recorded);
        assert_ne!(judgement.verdict, Verdict::Pass);
        suspects(&recorded);
    }
}
