//! What a person who compares two runs would lose, each as two recorded runs.

use proptest::prelude::*;

use super::{Side, compare};
use crate::findings::fixture::{Fixture, HEALTHY, spec};
use crate::findings::judge;
use record::{Cell, CellComparison, CommonPart, Comparison, Load, Outcome, Pace, Recorded, Reference};

pub(super) fn compared(old: &Recorded, new: &Recorded, margin: Option<f64>) -> Comparison {
    let (before, after) = (judge(old), judge(new));
    let side = |name, recorded, judgement| Side {
        name,
        recorded,
        judgement,
    };
    compare(side("old", old, &before), side("new", new, &after), margin)
}

/// Three rails, with what is left of `rail`'s rate.
pub(super) fn rails(seed: u64, rail: &'static str, left: f64) -> Recorded {
    let speed = move |cell: &Cell, _| match cell.rails[0] == rail {
        true => left * HEALTHY,
        false => HEALTHY,
    };
    Fixture::rails(3).noise(0.02, seed).speed(speed).recorded()
}

pub(super) fn pairs(seed: u64, speed: impl Fn(&Cell, u16) -> f64 + 'static) -> Recorded {
    Fixture::pairs(5).noise(0.02, seed).speed(speed).recorded()
}

#[test]
fn a_run_beside_itself_is_the_same_however_noisy_it_is() {
    for noise in [0.02, 0.5] {
        let recorded = Fixture::rails(3).noise(noise, 7).recorded();
        let comparison = compared(&recorded, &recorded, Some(0.05));
        assert_eq!(comparison.outcome, Outcome::Same, "{}", comparison.summary);
        assert_eq!((comparison.exit_code, comparison.counts.same), (0, 12));
        assert!(comparison.changed.is_empty() && comparison.tests.is_empty());
        assert!(comparison.no_longer_tested.is_empty() && comparison.newly_tested.is_empty());
    }
}

#[test]
fn two_healthy_runs_are_the_same_and_nobody_is_alarmed() {
    for seed in 0..40 {
        let comparison = compared(&rails(seed, "", 1.0), &rails(1000 + seed, "", 1.0), Some(0.1));
        assert_eq!(
            comparison.outcome,
            Outcome::Same,
            "{seed}: {}",
            comparison.summary
        );
        assert_eq!(comparison.counts.unclear, 0);
    }
}

/// Without a margin nothing but the test over all comparisons stands between noise and an alarm.
#[test]
fn noise_alone_gives_an_alarm_no_more_often_than_the_budget_allows() {
    let (trials, mut alarms) = (150, 0);
    for seed in 0..trials {
        let noisy = |seed| Fixture::rails(3).noise(0.2, seed).measured_once();
        let comparison = compared(&noisy(seed), &noisy(5000 + seed), Some(0.0));
        alarms += u32::from(comparison.counts.slower + comparison.counts.faster > 0);
    }
    // 1.5 are allowed on average.
    assert!(alarms <= 5, "{alarms} alarms in {trials} comparisons");
}

#[test]
fn a_rail_that_lost_a_fifth_is_one_line_that_names_it() {
    let comparison = compared(&rails(1, "", 1.0), &rails(2, "rail1", 0.8), Some(0.1));
    assert_eq!((comparison.outcome, comparison.exit_code), (Outcome::Worse, 12));
    let [shift] = comparison.slower.as_slice() else {
        panic!("{:?}", comparison.slower);
    };
    assert_eq!((shift.part.as_str(), shift.common), ("rail1", CommonPart::Rail));
    assert_eq!((shift.cells, shift.of), (4, 4));
    assert!((shift.ratio - 0.8).abs() < 0.02, "{}", shift.ratio);
    assert!(
        shift.sentence.contains("rail1: 2") && shift.sentence.contains("% slower"),
        "{}",
        shift.sentence
    );
    assert_eq!(
        shift.repeat.as_deref(),
        Some("railgauge run smoke --only test=rails,rail=rail1")
    );
    assert!(
        comparison.summary.starts_with("WORSE: rail1: "),
        "{}",
        comparison.summary
    );
    assert_eq!(comparison.counts.same, 8, "the other rails are well");
}

#[test]
fn a_rail_that_is_slow_with_large_messages_only_is_named_all_the_same() {
    let speed = |cell: &Cell, _| match cell.rails[0] == "rail1" && cell.size.0 > 1 << 20 {
        true => 0.7 * HEALTHY,
        false => HEALTHY,
    };
    let slow = Fixture::rails(3).noise(0.02, 5).speed(speed).recorded();
    let comparison = compared(&rails(1, "", 1.0), &slow, Some(0.1));
    let parts: Vec<&str> = comparison
        .slower
        .iter()
        .map(|shift| shift.part.as_str())
        .collect();
    assert_eq!(parts, ["rail1"]);
    assert_eq!((comparison.slower[0].cells, comparison.slower[0].of), (2, 4));
}

#[test]
fn a_host_that_lost_speed_is_named_and_not_each_of_its_partners() {
    let speed = |cell: &Cell, _| match cell.ranks.contains(&2) {
        true => 0.7 * HEALTHY,
        false => HEALTHY,
    };
    let comparison = compared(&pairs(1, |_, _| HEALTHY), &pairs(2, speed), Some(0.1));
    let [shift] = comparison.slower.as_slice() else {
        panic!("{:?}", comparison.slower);
    };
    assert_eq!(
        (shift.part.as_str(), shift.cells, shift.of),
        ("node02 on rail0", 8, 8)
    );
}

/// Eight samples each cannot carry one cell through the correction for hundreds; all cells of a host together can.
#[test]
fn a_slow_host_among_many_is_named_though_its_cells_have_few_samples() {
    let many = |seed, left: f64| {
        let speed = move |cell: &Cell, _: u16| match cell.ranks.contains(&2) {
            true => left * HEALTHY,
            false => HEALTHY,
        };
        let fixture = Fixture::pairs(16).noise(0.02, seed).iterations(8);
        fixture.speed(speed).measured_once()
    };
    let comparison = compared(&many(1, 1.0), &many(2, 0.6), Some(0.1));
    let [shift] = comparison.slower.as_slice() else {
        panic!("{:?}", comparison.slower);
    };
    assert_eq!((shift.part.as_str(), shift.cells), ("node02 on rail0", 30));
    let healthy = compared(&many(1, 1.0), &many(2, 1.0), Some(0.0));
    assert_eq!((healthy.counts.slower, healthy.counts.faster), (0, 0));
}

#[test]
fn one_pair_alone_is_named_by_its_hosts() {
    let speed = |cell: &Cell, _| match cell.ranks == [1, 3] {
        true => 0.6 * HEALTHY,
        false => HEALTHY,
    };
    let comparison = compared(&pairs(1, |_, _| HEALTHY), &pairs(2, speed), Some(0.1));
    let [shift] = comparison.slower.as_slice() else {
        panic!("{:?}", comparison.slower);
    };
    assert_eq!(shift.part, "node01 and node03 on rail0");
    assert!(shift.sentence.contains("node01 to node03"), "{}", shift.sentence);
}

#[test]
fn everything_slower_is_one_line() {
    let slow = Fixture::rails(3)
        .noise(0.02, 9)
        .speed(|_, _| 0.7 * HEALTHY)
        .recorded();
    let comparison = compared(&rails(1, "", 1.0), &slow, Some(0.1));
    let [shift] = comparison.slower.as_slice() else {
        panic!("{:?}", comparison.slower);
    };
    assert_eq!((shift.common, shift.cells), (CommonPart::Everything, 12));
}

#[test]
fn where_most_is_unclear_nobody_is_told_that_all_is_well() {
    let noisy = |seed, noise| {
        // One rail stays quiet, the others take any time.
        let fixture = Fixture::rails(3).noise(0.01, seed);
        let delay = move |cell: &Cell, _: u16, iter: u32| match cell.rails[0] == "rail0" {
            true => 0.0,
            false => f64::from((iter * 7919 + seed as u32) % 11) * noise,
        };
        fixture.delay(delay).measured_once()
    };
    let comparison = compared(&noisy(1, 5e6), &noisy(2, 5e6), Some(0.02));
    let counts = comparison.counts;
    assert!(
        (counts.same, counts.slower) == (4, 0) && counts.unclear > 4,
        "{counts:?}"
    );
    assert_eq!(
        (comparison.outcome, comparison.exit_code),
        (Outcome::Incomplete, 20)
    );
    assert!(
        comparison.summary.contains("most cells are unclear"),
        "{}",
        comparison.summary
    );
}

#[test]
fn what_became_faster_is_better_and_no_alarm() {
    let comparison = compared(&rails(1, "rail2", 0.8), &rails(2, "", 1.0), Some(0.1));
    assert_eq!((comparison.outcome, comparison.exit_code), (Outcome::Better, 0));
    assert_eq!(comparison.faster[0].part, "rail2");
    assert!(comparison.faster[0].sentence.contains("% faster"));
}

#[test]
fn a_cell_that_shared_its_slot_with_others_than_before_accuses_nobody() {
    let mut slow = rails(2, "rail1", 0.7);
    // Where rail0 ran beside it before, rail2 does now.
    slow.run
        .cells
        .retain(|cell| cell.load == Load::Alone || cell.rails[0] != "rail0");
    let comparison = compared(&rails(1, "", 1.0), &slow, Some(0.1));
    let pace = |load: Load| -> Vec<Pace> {
        let is_one = |row: &&CellComparison| {
            let cell = slow.run.cells.iter().find(|cell| cell.id == row.new_cell);
            row.rails == ["rail1"] && cell.is_some_and(|cell| cell.load == load)
        };
        comparison
            .cells
            .iter()
            .filter(is_one)
            .map(|row| row.pace)
            .collect()
    };
    assert_eq!(pace(Load::Alone), [Pace::Slower; 2]);
    assert_eq!(pace(Load::Together), [Pace::Unclear; 2]);
}

#[test]
fn cells_are_found_by_their_hosts_whatever_their_ranks_are() {
    let speed = |cell: &Cell, _| match cell.ranks == [0, 1] {
        true => 0.6 * HEALTHY,
        false => HEALTHY,
    };
    let old = pairs(1, |_, _| HEALTHY);
    let mut new = pairs(2, speed);
    // The hosts are the same, but ranks are handed out backwards: ranks 0 and 1 sit on node04 and node03 now.
    for rank in &mut new.run.ranks {
        rank.host = format!("node{:02}", 4 - rank.rank);
    }
    let comparison = compared(&old, &new, Some(0.1));
    assert_eq!(comparison.counts.compared, 20);
    assert_eq!(comparison.slower[0].part, "node03 and node04 on rail0");
}

#[test]
fn a_test_states_its_own_margin_and_the_command_wins() {
    let with = |references: Vec<Reference>, left: f64, seed| {
        let speed = move |_: &Cell, _: u16| left * HEALTHY;
        let fixture = Fixture::rails(2).noise(0.01, seed).references(references);
        fixture.speed(speed).recorded()
    };
    let slower = |references: &[Reference], margin| {
        let (old, new) = (
            with(references.to_vec(), 1.0, 1),
            with(references.to_vec(), 0.88, 2),
        );
        compared(&old, &new, margin).counts.slower
    };
    let peers = [Reference::Peers { margin: 0.25 }];
    assert_eq!(slower(&peers, None), 0, "the test allows a quarter");
    assert_eq!(slower(&peers, Some(0.05)), 8);
    assert_eq!(slower(&[], None), 8, "the usual margin is a tenth");
    assert_eq!(
        slower(&[peers[0].clone(), spec(HEALTHY, 0)], None),
        8,
        "the narrowest counts"
    );
}

#[test]
fn too_few_samples_are_unclear_and_nothing_told_is_no_pass() {
    let few = |seed| Fixture::rails(2).noise(0.02, seed).iterations(4).measured_once();
    let comparison = compared(&few(1), &few(2), None);
    assert_eq!(
        (comparison.outcome, comparison.exit_code),
        (Outcome::Incomparable, 20)
    );
    assert_eq!(comparison.counts.unclear, 8);
    let why = comparison.cells[0].why.as_deref().unwrap_or_default();
    assert!(why.contains("4 and 4 complete iterations"), "{why}");
}

#[test]
fn the_answer_is_the_same_every_time() {
    let (old, new) = (rails(1, "rail0", 0.7), rails(2, "rail1", 0.7));
    let text = || serde_json::to_string(&compared(&old, &new, None)).unwrap();
    assert_eq!(text(), text());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whoever mixes up the two runs gets the opposite answer, not another one.
    #[test]
    fn the_other_way_round_slower_is_faster(
        seed in 0u64..1000,
        left in 0.5f64..1.5,
        noise in 0.005f64..0.2,
        margin in 0.0f64..0.3,
    ) {
        let make = |seed, left: f64| {
            let speed = move |cell: &Cell, _: u16| if cell.rails[0] == "rail0" { left * HEALTHY } else { HEALTHY };
            Fixture::rails(2).noise(noise, seed).speed(speed).recorded()
        };
        let (a, b) = (make(seed, 1.0), make(seed + 7, left));
        let there = compared(&a, &b, Some(margin));
        let back = compared(&b, &a, Some(margin));
        let opposite = |row: &CellComparison| match row.pace {
            Pace::Slower => Pace::Faster,
            Pace::Faster => Pace::Slower,
            pace => pace,
        };
        let there: Vec<Pace> = there.cells.iter().map(opposite).collect();
        let back: Vec<Pace> = back.cells.iter().map(|row| row.pace).collect();
        prop_assert_eq!(there, back);
    }
}
