//! Two engines: whether the fabric or the software is slow, and which software.

use super::kinds;
use crate::findings::fixture::{Fixture, HEALTHY, spec};
use crate::findings::judge;
use record::{Cell, Engine, Event, FindingKind, Judgement, Recorded, Verdict};

/// Four ranks, two sizes, by both engines, against a spec. NCCL's cells come without a count of what was moved.
fn judged(speed: impl Fn(&Cell) -> f64 + 'static) -> Judgement {
    judge(&recorded(speed))
}

fn recorded(speed: impl Fn(&Cell) -> f64 + 'static) -> Recorded {
    let mut fixture = Fixture::rails(1).references(vec![spec(HEALTHY, 1 << 10)]);
    fixture.run.tests[0].kind = record::TestKind::Collective;
    fixture.run.cells.truncate(2);
    let twins: Vec<Cell> = fixture.run.cells.iter().map(nccl_twin).collect();
    fixture.run.cells.extend(twins);
    let mut recorded = fixture.speed(move |cell, _| speed(cell)).recorded();
    let nccl: Vec<u32> = recorded
        .run
        .cells
        .iter()
        .filter(is_nccl)
        .map(|cell| cell.id)
        .collect();
    for event in &mut recorded.events {
        match event {
            Event::CellDone(done) if nccl.contains(&done.cell) => done.moved.clear(),
            _ => {}
        }
    }
    recorded
}

fn nccl_twin(cell: &Cell) -> Cell {
    Cell {
        id: cell.id + 100,
        engine: Engine::Nccl,
        ..cell.clone()
    }
}

fn is_nccl(cell: &&Cell) -> bool {
    cell.engine == Engine::Nccl
}

fn slow_if(is_slow: impl Fn(Engine) -> bool + 'static) -> impl Fn(&Cell) -> f64 {
    move |cell| {
        if is_slow(cell.engine) {
            0.6 * HEALTHY
        } else {
            HEALTHY
        }
    }
}

#[test]
fn both_engines_as_fast_as_expected_pass_side_by_side() {
    let judgement = judged(|cell| match cell.engine {
        Engine::Ours => 1.3 * HEALTHY,
        Engine::Nccl => HEALTHY,
    });
    assert_eq!(judgement.verdict, Verdict::Pass, "{}", judgement.summary);
    assert_eq!(judgement.engines.len(), 2);
    for row in &judgement.engines {
        assert_eq!(row.nccl_cell, row.ours_cell + 100);
        assert!((row.ratio - 1.3).abs() < 0.05, "{}", row.ratio);
        assert_eq!(row.faster, Some(Engine::Ours));
    }
    let alike = judged(|_| HEALTHY);
    assert!(
        alike.engines.iter().all(|row| row.faster.is_none()),
        "{:?}",
        alike.engines
    );
}

#[test]
fn where_only_one_engine_is_slow_its_software_is_named_and_no_part() {
    for (guilty, name, innocent) in [
        (
            Engine::Nccl,
            "by NCCL:",
            "railgauge's own engine is as fast as expected",
        ),
        (
            Engine::Ours,
            "by railgauge's own engine:",
            "NCCL is as fast as expected",
        ),
    ] {
        let judgement = judged(slow_if(move |engine| engine == guilty));
        assert_eq!(
            kinds(&judgement),
            [FindingKind::SlowEngine],
            "{}",
            judgement.summary
        );
        let finding = &judgement.findings[0];
        assert!(finding.sentence.contains(name), "{}", finding.sentence);
        assert!(finding.sentence.contains(innocent), "{}", finding.sentence);
        assert!(
            finding.sentence.ends_with("software, not the fabric"),
            "{}",
            finding.sentence
        );
        let all_guilty = finding
            .cells
            .iter()
            .all(|id| (*id >= 100) == (guilty == Engine::Nccl));
        assert!(all_guilty && finding.cells.len() == 2, "{:?}", finding.cells);
        assert_eq!((judgement.exit_code, finding.place.rail.as_deref()), (12, None));
    }
}

#[test]
fn where_both_engines_are_slow_the_fabric_is_accused() {
    let judgement = judged(slow_if(|_| true));
    assert_eq!(
        kinds(&judgement),
        [FindingKind::SlowCollective],
        "{}",
        judgement.summary
    );
    let finding = &judgement.findings[0];
    assert!(
        finding.sentence.ends_with(
            "both engines, ours and NCCL, are slow in 2 cells: the fabric rather than the software"
        ),
        "{}",
        finding.sentence
    );
    assert_eq!(finding.cells.len(), 4);
}

#[test]
fn an_engine_that_was_not_measured_excuses_nobody() {
    let mut recorded = recorded(slow_if(|engine| engine == Engine::Ours));
    recorded.samples.retain(|sample| sample.cell < 100);
    recorded
        .events
        .retain(|event| !matches!(event, Event::CellDone(done) if done.cell >= 100));
    let judgement = judge(&recorded);
    assert!(
        kinds(&judgement).contains(&FindingKind::SlowCollective),
        "{}",
        judgement.summary
    );
    assert!(
        !kinds(&judgement).contains(&FindingKind::SlowEngine),
        "{}",
        judgement.summary
    );
    assert_eq!(judgement.engines, []);
}
