//! Cells whose ranks may not have started together.

use super::{kinds, on_rail};
use crate::findings::fixture::{Fixture, HEALTHY};
use crate::findings::judge;
use record::units::Nanos;
use record::{Cell, CellVerdict, ClockComparison, Event, FindingKind, Judgement, Recorded, Verdict};

/// Cells of 1 MiB on rail 1 take 0.65 ms longer than others: 39 % of their time.
fn late_on_rail_1() -> Recorded {
    let speed = |cell: &Cell, _| match on_rail(cell, "rail1") && cell.size.0 == 1 << 20 {
        true => HEALTHY / (1.0 + 0.65e6 / (f64::from(1 << 20) * 1e9 / HEALTHY)),
        false => HEALTHY,
    };
    Fixture::rails(4).speed(speed).recorded()
}

fn with_skew(mut recorded: Recorded, skew: u64) -> Recorded {
    for event in &mut recorded.events {
        if let Event::CellDone(done) = event {
            done.unseen_skew_ns = Some(Nanos(skew));
        }
    }
    recorded
}

/// Rank 3's clock is compared after everything was measured, or before, and is found elsewhere.
fn with_jump(mut recorded: Recorded, at_end: bool, ranks: &[u32]) -> Recorded {
    let jumped = Event::Clock(ClockComparison {
        ranks: ranks.to_vec(),
        at_ns: Nanos::from_secs(900),
        offset_ns: 5_700_000,
        uncertainty_ns: 20_000,
        took_ns: Nanos(400_000),
        drift_ppb: 0,
        drift_uncertainty_ppb: 200_000,
        jump_ns: Some(-700_000),
    });
    let place = if at_end { recorded.events.len() - 1 } else { 0 };
    recorded.events.insert(place, jumped);
    recorded
}

fn cells_on_rail_1(judgement: &Judgement) -> Vec<&CellVerdict> {
    let small = |cell: &Cell| cell.size.0 == 1 << 20 && on_rail(cell, "rail1");
    let cells = judgement.cells.iter();
    cells.filter(|verdict| small(&verdict.cell)).collect()
}

/// A hair below the threshold, any skew would explain it: one of some microseconds in a hundred milliseconds is none.
#[test]
fn a_skew_that_is_hardly_a_part_of_the_time_is_no_doubt() {
    let at = |share: f64| {
        let speed = move |cell: &Cell, _: u16| match on_rail(cell, "rail1") {
            true => share * HEALTHY,
            false => HEALTHY,
        };
        Fixture::rails(4).speed(speed).recorded()
    };
    let mut shares = (0..500).map(|step| 1.0 - f64::from(step) / 1000.0);
    let share = shares.find(|share| judge(&at(*share)).exit_code != 0).unwrap();
    let recorded = at(share);
    let smallest = recorded.run.cells.iter().map(|cell| cell.size.0).min().unwrap();
    let time = smallest as f64 * 1e9 / HEALTHY;
    let verdicts = |recorded: &Recorded| -> Vec<Verdict> {
        let judged = judge(recorded).cells.into_iter();
        judged.map(|cell| cell.verdict).collect()
    };
    let without = verdicts(&recorded);
    let with = |part: f64| verdicts(&with_skew(at(share), (part * time) as u64));
    assert_eq!(with(0.005), without);
    assert_ne!(with(0.03), without);
}

#[test]
fn what_clocks_explain_accuses_nobody_and_is_not_healthy() {
    let plain = judge(&late_on_rail_1());
    assert_eq!(kinds(&plain), [FindingKind::SlowRail]);
    let judgement = judge(&with_skew(late_on_rail_1(), 700_000));
    assert!(kinds(&judgement).is_empty(), "{:?}", judgement.findings);
    assert_eq!(judgement.exit_code, 20);
    let cells = cells_on_rail_1(&judgement);
    assert_eq!(cells.len(), 2);
    for cell in cells {
        let Verdict::Inconclusive(why) = &cell.verdict else {
            panic!("{:?}", cell.verdict);
        };
        assert!(why.contains("may have started 700 us apart (4"), "{why}");
    }
    let others = judgement
        .cells
        .iter()
        .filter(|verdict| !on_rail(&verdict.cell, "rail1"));
    for other in others {
        assert_eq!(
            other.verdict,
            Verdict::Pass,
            "a time that may be too long is good enough"
        );
    }
}

#[test]
fn a_skew_that_explains_nothing_hides_no_fault_and_is_in_the_interval() {
    for skew in [20_000, 200_000] {
        let judgement = judge(&with_skew(late_on_rail_1(), skew));
        assert_eq!(kinds(&judgement), [FindingKind::SlowRail], "{skew}");
    }
    let (plain, skewed) = (
        judge(&late_on_rail_1()),
        judge(&with_skew(late_on_rail_1(), 200_000)),
    );
    for (plain, skewed) in plain.cells.iter().zip(&skewed.cells) {
        let (before, after) = (plain.time.unwrap(), skewed.time.unwrap());
        assert_eq!((before.median, before.upper), (after.median, after.upper));
        let longer = before.lower.0 - after.lower.0;
        assert!((1_000..=200_000).contains(&longer), "{longer}");
        let (before, after) = (plain.wire_rate.unwrap(), skewed.wire_rate.unwrap());
        assert_eq!((before.median, before.lower), (after.median, after.lower));
        assert!(after.upper > before.upper);
    }
}

#[test]
fn a_clock_that_jumped_puts_all_cells_since_its_last_comparison_in_doubt() {
    let recorded = || with_skew(late_on_rail_1(), 20_000);
    let meanwhile = judge(&with_jump(recorded(), true, &[3]));
    assert!(kinds(&meanwhile).is_empty(), "{:?}", meanwhile.findings);
    for cell in cells_on_rail_1(&meanwhile) {
        assert!(
            matches!(cell.verdict, Verdict::Inconclusive(_)),
            "{:?}",
            cell.verdict
        );
    }
    let before = judge(&with_jump(recorded(), false, &[3]));
    assert_eq!(
        kinds(&before),
        [FindingKind::SlowRail],
        "compared again before the cells"
    );
    let everyone = judge(&with_jump(recorded(), true, &[0, 1, 2, 3]));
    assert_eq!(kinds(&everyone), [FindingKind::SlowRail], "they jumped together");
}

#[test]
fn a_batch_starts_once() {
    let mut recorded = with_skew(late_on_rail_1(), 700_000);
    for cell in &mut recorded.run.cells {
        cell.batch = 20;
    }
    assert_eq!(kinds(&judge(&recorded)), [FindingKind::SlowRail]);
}

/// Short messages of one rail seem to take twice as long: a floor, unless their ranks may have started that much apart.
#[test]
fn clocks_that_are_not_known_better_are_no_latency_floor() {
    let high = |cell: &Cell, _| {
        let size = cell.size.0 as f64;
        let latency = if on_rail(cell, "rail2") { 40e3 } else { 20e3 };
        size * 1e9 / (latency + size)
    };
    let floors = |skew: u64| {
        let judgement = judge(&with_skew(Fixture::sweep(4).speed(high).recorded(), skew));
        let is_floor = |kind: &FindingKind| *kind == FindingKind::LatencyFloor;
        kinds(&judgement).iter().filter(|kind| is_floor(kind)).count()
    };
    assert_eq!((floors(0), floors(1_000), floors(25_000)), (1, 1, 0));
}
