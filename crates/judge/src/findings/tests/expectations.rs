//! What passes, and what does not for want of an expectation or of data.

use crate::findings::fixture::{Fixture, HEALTHY, spec};
use crate::findings::judge;
use record::units::Rate;
use record::{Algorithm, BaselineRate, Cell, Event, Load, Reference, TransportKind, Verdict};

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
        judgement.summary.contains("applies to tree, not ring"),
        "{}",
        judgement.summary
    );
}

/// What a link carries is no expectation of a tree: in healthy labs one reached 79 to 88 % of it.
#[test]
fn a_tree_is_not_held_to_what_a_link_carries_and_passes_beside_rings() {
    let judged = |algorithm: Algorithm, published_for: Option<Algorithm>| {
        let mut fixture = Fixture::rails(2)
            .speed(|cell, _| {
                if cell.rails == ["rail1"] {
                    0.8 * HEALTHY
                } else {
                    HEALTHY
                }
            })
            .references(vec![spec(HEALTHY, 0)]);
        let on_second = |cell: &&mut Cell| cell.rails == ["rail1"];
        fixture
            .run
            .cells
            .iter_mut()
            .filter(on_second)
            .for_each(|cell| cell.algorithm = algorithm);
        if let Reference::Spec(row) = &mut fixture.run.tests[0].references[0] {
            row.algorithm = published_for;
        }
        judge(&fixture.recorded()).exit_code
    };
    assert_eq!(judged(Algorithm::Tree, None), 0);
    assert_eq!(judged(Algorithm::DoubleTree, None), 0);
    assert_eq!(judged(Algorithm::Ring, None), 12);
    assert_eq!(
        judged(Algorithm::Tree, Some(Algorithm::Tree)),
        12,
        "somebody says what a tree reaches"
    );
}

#[test]
fn flows_that_fill_links_by_chance_are_not_held_to_the_whole_spec_nor_to_flows_with_room_to_spare() {
    let judged = |load: Load, of_spec: f64| {
        let mut fixture = Fixture::rails(2).references(vec![spec(HEALTHY / of_spec, 0)]);
        let cells = fixture.run.cells.iter_mut();
        cells.for_each(|cell| cell.load = load);
        judge(&fixture.recorded())
    };
    assert_eq!(judged(Load::Together, 0.85).exit_code, 12);
    for load in [Load::FillingUp, Load::FillingDown] {
        let judgement = judged(load, 0.85);
        assert_eq!(judgement.exit_code, 0, "{}", judgement.summary);
        let judgement = judged(load, 0.7);
        assert_eq!(judgement.exit_code, 12, "{}", judgement.summary);
        let from = judgement.cells[0].expected_from.as_deref().unwrap_or_default();
        assert!(from.starts_with("80 % of spec"), "{from}");
    }
    let cells = Fixture::rails(2).run.cells;
    let full = Cell {
        load: Load::FillingUp,
        id: 99,
        ..cells[0].clone()
    };
    assert!(!full.is_peer_of(&cells[0]));
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
fn a_cell_that_was_faster_in_the_recorded_run_is_slow_now_and_one_without_a_counterpart_is_not_judged() {
    let fixture = Fixture::pairs(3);
    let rates = fixture.run.cells.iter().skip(1).map(|cell| BaselineRate {
        cell: cell.id,
        rate: Rate(HEALTHY),
    });
    let baseline = Reference::Baseline {
        run: "reports/last-month".into(),
        margin: 0.05,
        rates: rates.collect(),
    };
    let slow = |cell: &Cell, _| if cell.id == 2 { 0.8 * HEALTHY } else { HEALTHY };
    let judgement = judge(
        &fixture
            .references(vec![baseline])
            .speed(slow)
            .noise(0.01, 3)
            .recorded(),
    );
    for cell in &judgement.cells {
        match (cell.cell.id, &cell.verdict) {
            (0, Verdict::Inconclusive(why)) => assert!(why.contains("has no such cell"), "{why}"),
            (2, Verdict::Fail(why)) => {
                assert!(why.contains("baseline reports/last-month, margin 5 %"), "{why}")
            }
            (id, verdict) => assert!(
                !matches!(id, 0 | 2) && *verdict == Verdict::Pass,
                "{id}: {verdict:?}"
            ),
        }
    }
    assert!(
        judgement
            .findings
            .iter()
            .any(|finding| finding.kind.exit_code() == 12)
    );
}
