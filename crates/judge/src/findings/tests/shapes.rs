//! Which shapes over message size and over iterations are findings, and which are not.

use super::{kinds, on_rail};
use crate::findings::fixture::Fixture;
use crate::findings::{judge, suspects};
use crate::tally::seeds;
use record::units::Nanos;
use record::{Cell, Finding, FindingKind, Judgement, Recorded};

/// A way as it should be: 20 us, then 1 GB/s.
const LATENCY: f64 = 20e3;
const BANDWIDTH: f64 = 1e9;

/// The rate at which a message of this size moves over a way that is `latency` long and `bandwidth` wide.
fn rate(cell: &Cell, latency: f64, bandwidth: f64) -> f64 {
    let size = cell.size.0 as f64;
    size * 1e9 / (latency + size * 1e9 / bandwidth)
}

fn healthy(cell: &Cell) -> f64 {
    rate(cell, LATENCY, BANDWIDTH)
}

/// The one finding of a run.
fn only(judgement: &Judgement) -> &Finding {
    assert_eq!(judgement.findings.len(), 1, "{:#?}", judgement.findings);
    assert_eq!(judgement.exit_code, 12);
    &judgement.findings[0]
}

fn judged(recorded: &Recorded) -> Vec<FindingKind> {
    kinds(&judge(recorded))
}

#[test]
fn a_high_latency_floor_is_named_as_one_and_not_as_a_slow_rail() {
    let high = |cell: &Cell, _| match on_rail(cell, "rail2") {
        true => rate(cell, 2.0 * LATENCY, BANDWIDTH),
        false => healthy(cell),
    };
    let judgement = judge(&Fixture::sweep(4).speed(high).recorded());
    let floor = judgement
        .findings
        .iter()
        .find(|finding| finding.kind == FindingKind::LatencyFloor)
        .expect("a latency floor");
    assert_eq!(floor.place.rail.as_deref(), Some("rail2"));
    assert!(
        floor.sentence.contains("1 KiB messages take 4"),
        "{}",
        floor.sentence
    );
    assert!(floor.sentence.contains("times the 2"), "{}", floor.sentence);
    assert!(
        judgement
            .findings
            .iter()
            .all(|finding| finding.place.rail.as_deref() == Some("rail2"))
    );
    let curve = &floor.curve;
    assert_eq!(curve.len(), 8, "the whole curve is there to be plotted");
    assert!(curve.windows(2).all(|pair| pair[0].size < pair[1].size));
    assert!(
        curve
            .iter()
            .all(|point| point.peers.is_some() && point.iterations >= 30)
    );
}

#[test]
fn a_dip_that_recovers_is_named_with_its_size_and_explains_the_slow_cell() {
    let dips = |cell: &Cell, _| match on_rail(cell, "rail1") && cell.size.0 == 1 << 20 {
        true => 0.4 * healthy(cell),
        false => healthy(cell),
    };
    let judgement = judge(&Fixture::sweep(4).speed(dips).recorded());
    let dip = only(&judgement);
    assert_eq!(dip.kind, FindingKind::Dip);
    assert_eq!(dip.place.rail.as_deref(), Some("rail1"));
    assert_eq!(dip.cells.len(), 1);
    assert!(dip.sentence.contains("at 1 MiB"), "{}", dip.sentence);
    assert!(dip.sentence.contains("again"), "{}", dip.sentence);
    assert!(dip.repeat.as_deref().unwrap().contains("rail=rail1"));
}

#[test]
fn a_dip_that_all_rails_share_is_seen_although_they_are_each_others_peers() {
    let dips = |cell: &Cell, _| match cell.size.0 == 1 << 20 {
        true => 0.4 * healthy(cell),
        false => healthy(cell),
    };
    let judgement = judge(&Fixture::sweep(3).speed(dips).recorded());
    assert_eq!(kinds(&judgement), [FindingKind::Dip; 3]);
}

#[test]
fn a_curve_that_falls_at_its_end_like_its_peers_is_no_dip() {
    // Caches, or a token bucket whose burst lets small messages through faster than the wire.
    let falls = |cell: &Cell, _| match cell.size.0 >= 1 << 20 {
        true => 0.3 * healthy(cell),
        false => healthy(cell),
    };
    assert_eq!(judged(&Fixture::sweep(4).speed(falls).recorded()), []);
}

#[test]
fn a_rail_that_is_slow_at_all_large_sizes_is_slow_and_not_dipping() {
    let slow = |cell: &Cell, _| match on_rail(cell, "rail1") && cell.size.0 >= 1 << 18 {
        true => 0.5 * healthy(cell),
        false => healthy(cell),
    };
    assert_eq!(
        judged(&Fixture::sweep(4).speed(slow).recorded()),
        [FindingKind::SlowRail]
    );
}

#[test]
fn a_slow_ramp_is_told_from_a_slow_rail_by_its_ends() {
    // Smallest messages and best rate as the others', and a hump of time in between.
    let ramps = |cell: &Cell, _| {
        let size = cell.size.0 as f64;
        let hump = if on_rail(cell, "rail3") && (1 << 12..1 << 20).contains(&cell.size.0) {
            4.0
        } else {
            1.0
        };
        size * 1e9 / (hump * (LATENCY + size * 1e9 / BANDWIDTH))
    };
    let judgement = judge(&Fixture::sweep(4).speed(ramps).recorded());
    let ramp = only(&judgement);
    assert_eq!(ramp.kind, FindingKind::SlowRamp);
    assert_eq!(ramp.place.rail.as_deref(), Some("rail3"));
    assert!(
        ramp.sentence.contains("half of its best rate"),
        "{}",
        ramp.sentence
    );
}

#[test]
fn stalls_of_one_host_are_laid_at_its_door() {
    // Every pair of rank 2 stalls for 200 ms now and then; medians do not move.
    let stalls = |cell: &Cell, _: u16, iter: u32| match cell.ranks.contains(&2) && iter % 15 == 7 {
        true => 200e6,
        false => 0.0,
    };
    let judgement = judge(&Fixture::pairs(6).delay(stalls).recorded());
    let finding = only(&judgement);
    assert_eq!(finding.kind, FindingKind::Intermittent);
    assert_eq!(finding.place.ranks, [2]);
    assert_eq!(finding.place.hosts, ["node02"]);
    assert!(
        finding.sentence.contains("iterations stall"),
        "{}",
        finding.sentence
    );
    assert!(finding.curve.iter().all(|point| point.stalls > 0));
}

#[test]
fn stalls_of_one_pair_are_laid_at_that_pair() {
    let stalls = |cell: &Cell, _: u16, iter: u32| match cell.ranks == [4, 1] && iter % 6 == 3 {
        true => 60e6,
        false => 0.0,
    };
    let judgement = judge(&Fixture::pairs(6).delay(stalls).recorded());
    assert_eq!(only(&judgement).place.ranks, [4, 1]);
}

#[test]
fn stalls_that_come_once_and_not_again_accuse_nobody() {
    let once =
        |cell: &Cell, round: u16, iter: u32| match cell.ranks.contains(&2) && round == 0 && iter % 15 == 7 {
            true => 200e6,
            false => 0.0,
        };
    let once = Fixture::pairs(6).delay(once);
    assert_eq!(judged(&once.recorded()), []);
}

#[test]
fn iterations_that_cost_much_of_the_goodput_are_a_finding_however_short_they_are() {
    // A message takes 1 ms; of those of rank 2 every seventh takes 6 ms: a third of the goodput is gone, and no median moves.
    let slow = |cell: &Cell, _: u16, iter: u32| match cell.ranks.contains(&2) && iter % 7 == 3 {
        true => 5e6,
        false => 0.0,
    };
    let judgement = judge(&Fixture::pairs(6).delay(slow).recorded());
    let finding = only(&judgement);
    assert_eq!(finding.kind, FindingKind::Intermittent);
    assert_eq!(finding.place.ranks, [2]);
    assert!(
        finding.sentence.contains("of the goodput"),
        "{}",
        finding.sentence
    );
    assert_eq!(judgement.exit_code, 12);
    // Everywhere it is no part, and still not healthy.
    let everywhere = |_: &Cell, _: u16, iter: u32| if iter % 7 == 3 { 5e6 } else { 0.0 };
    let judgement = judge(&Fixture::pairs(6).delay(everywhere).recorded());
    assert_eq!(only(&judgement).kind, FindingKind::Intermittent);
    // Twice the time now and then costs little.
    let little = |cell: &Cell, _: u16, iter: u32| match cell.ranks.contains(&2) && iter % 15 == 3 {
        true => 1.2e6,
        false => 0.0,
    };
    assert_eq!(judged(&Fixture::pairs(6).delay(little).recorded()), []);
}

#[test]
fn a_stall_here_and_there_is_no_finding() {
    let rare = |cell: &Cell, _: u16, iter: u32| match (cell.id, iter) {
        (3, 5) | (17, 22) => 200e6,
        _ => 0.0,
    };
    assert_eq!(judged(&Fixture::pairs(6).delay(rare).recorded()), []);
}

#[test]
fn two_speeds_of_one_pair_are_intermittent() {
    let two = |cell: &Cell, _: u16, iter: u32| match cell.ranks == [0, 3] && iter.is_multiple_of(3) {
        true => 0.6e6,
        false => 0.0,
    };
    let judgement = judge(&Fixture::pairs(5).delay(two).recorded());
    let finding = only(&judgement);
    assert_eq!(finding.kind, FindingKind::Intermittent);
    assert_eq!(finding.place.ranks, [0, 3]);
    assert!(finding.sentence.contains("two speeds"), "{}", finding.sentence);
}

#[test]
fn healthy_runs_have_no_shape_however_noisy_they_are() {
    for seed in 0..seeds(60) {
        for noise in [0.01, 0.05, 0.2] {
            let sweep = Fixture::sweep(4)
                .speed(|cell, _| healthy(cell))
                .noise(noise, seed);
            assert_eq!(judged(&sweep.recorded()), [], "sweep, noise {noise}, seed {seed}");
        }
        let pairs = Fixture::pairs(6).noise(0.15, 100 + seed).iterations(24);
        assert_eq!(judged(&pairs.recorded()), [], "pairs, seed {seed}");
    }
}

#[test]
fn a_few_samples_accuse_nobody() {
    let odd = |cell: &Cell, _| match on_rail(cell, "rail2") && cell.size.0 <= 1 << 12 {
        true => 0.3 * healthy(cell),
        false => healthy(cell),
    };
    let few = Fixture::sweep(4).speed(odd).iterations(5).recorded();
    assert!(
        judge(&few)
            .findings
            .iter()
            .all(|finding| finding.kind.exit_code() != 12)
    );
}

#[test]
fn nobody_is_accused_on_one_measurement() {
    let dips = |cell: &Cell, _| match on_rail(cell, "rail1") && cell.size.0 == 1 << 20 {
        true => 0.4 * healthy(cell),
        false => healthy(cell),
    };
    let once = Fixture::sweep(4)
        .references(Vec::new())
        .speed(dips)
        .measured_once();
    assert!(judge(&once).findings.is_empty());
    let again = suspects(&once);
    assert!(again.contains(&13), "the dip itself: {again:?}");
    assert!(again.len() >= 3, "and what it is compared with: {again:?}");
}

#[test]
fn on_a_crowded_machine_shapes_are_not_judged_and_the_report_says_so() {
    let stalls = |cell: &Cell, _: u16, iter: u32| match cell.ranks.contains(&2) && iter % 15 == 7 {
        true => 200e6,
        false => 0.0,
    };
    let mut recorded = Fixture::pairs(6).delay(stalls).recorded();
    for host in &mut recorded.run.hosts {
        host.cores = 2;
        host.machine = Some("one".into());
    }
    let judgement = judge(&recorded);
    assert!(judgement.findings.is_empty(), "{:?}", kinds(&judgement));
    let said = judgement.coverage.untested.iter();
    assert!(
        said.clone()
            .any(|gap| gap.what.starts_with("shapes") && gap.why.contains("share 2 cores"))
    );
}

#[test]
fn the_bounds_are_those_of_the_rule() {
    let stalls = |cell: &Cell, _: u16, iter: u32| match cell.ranks.contains(&2) && iter % 15 == 7 {
        true => 200e6,
        false => 0.0,
    };
    let mut fixture = Fixture::pairs(6).delay(stalls);
    fixture.run.rule.shapes.stall = Nanos(500_000_000);
    fixture.run.rule.shapes.lost = 1.0;
    assert_eq!(judged(&fixture.recorded()), []);
}

#[test]
fn a_rank_whose_round_trips_are_long_is_named_with_times_and_not_with_rates() {
    // 8 bytes in 40 us, and in 70 us wherever rank 3 takes part.
    let long = |cell: &Cell, _| match cell.ranks.contains(&3) {
        true => 8e9 / 70e3,
        false => 8e9 / 40e3,
    };
    for crowded in [false, true] {
        let mut recorded = Fixture::latency(6).speed(long).recorded();
        if crowded {
            for host in &mut recorded.run.hosts {
                (host.cores, host.machine) = (2, Some("one".into()));
            }
        }
        let judgement = judge(&recorded);
        assert!(!judgement.findings.is_empty());
        for finding in &judgement.findings {
            assert_eq!(finding.kind, FindingKind::LatencyFloor);
            assert_eq!(finding.place.ranks, [3], "{}", finding.sentence);
            assert!(finding.sentence.contains("us"), "{}", finding.sentence);
        }
        assert_eq!(judgement.findings.len(), 1);
    }
}

#[test]
fn healthy_round_trips_pass_however_noisy_they_are() {
    for seed in 0..40 {
        let even = |_: &Cell, _| 8e9 / 40e3;
        let fixture = Fixture::latency(6).speed(even).noise(0.15, seed);
        assert_eq!(judged(&fixture.recorded()), [], "seed {seed}");
    }
}

#[test]
fn ranks_of_one_host_have_no_link_that_could_have_two_speeds() {
    let stalling = |cell: &Cell, _: u16, iter: u32| {
        if on_rail(cell, "rail0") && iter.is_multiple_of(2) {
            5e6
        } else {
            0.0
        }
    };
    let between_hosts = Fixture::rails(2).iterations(32).delay(stalling).recorded();
    assert!(kinds(&judge(&between_hosts)).contains(&FindingKind::Intermittent));
    let mut fixture = Fixture::rails(2).iterations(32).delay(stalling);
    fixture.run.hosts.truncate(1);
    for rank in &mut fixture.run.ranks {
        rank.host = "node00".into();
    }
    assert!(!kinds(&judge(&fixture.recorded())).contains(&FindingKind::Intermittent));
}
