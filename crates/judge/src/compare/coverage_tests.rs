//! What a person would lose who asks of two runs what is newly failing, no longer failing, and no longer tested.

use super::tests::{compared, pairs, rails};
use crate::findings::fixture::{Fixture, HEALTHY};
use record::{Cell, Event, FindingKind, FindingState, Outcome, Recorded};

/// The same run without one of its rails.
fn without_rail(mut recorded: Recorded, rail: &str) -> Recorded {
    recorded.run.cells.retain(|cell| cell.rails[0] != rail);
    recorded
}

#[test]
fn a_finding_is_new_still_there_or_gone() {
    let with = |seed, rail| {
        let speed = move |cell: &Cell, _| match cell.rails[0] == rail {
            true => 0.5 * HEALTHY,
            false => HEALTHY,
        };
        Fixture::rails(3).noise(0.02, seed).speed(speed).recorded()
    };
    let states = |old: &Recorded, new: &Recorded| -> Vec<(FindingState, FindingKind, String)> {
        let comparison = compared(old, new, Some(0.1));
        let findings = comparison.findings.into_iter();
        findings
            .map(|finding| (finding.state, finding.kind, finding.part))
            .collect()
    };
    let (healthy, rail0, rail1) = (with(1, "none"), with(2, "rail0"), with(3, "rail1"));
    let new = states(&healthy, &rail0);
    let [(FindingState::New, FindingKind::SlowRail, part)] = new.as_slice() else {
        panic!("{new:?}");
    };
    assert!(part.contains("rail0"));
    assert_eq!(states(&rail0, &rail0)[0].0, FindingState::Still);
    assert_eq!(states(&rail0, &healthy)[0].0, FindingState::Gone);
    let both: Vec<FindingState> = states(&rail0, &rail1)
        .into_iter()
        .map(|(state, ..)| state)
        .collect();
    assert_eq!(both, [FindingState::New, FindingState::Gone]);
}

#[test]
fn a_finding_about_what_was_not_measured_again_is_not_gone() {
    let slow = rails(1, "rail1", 0.5);
    let new = without_rail(rails(2, "", 1.0), "rail1");
    let comparison = compared(&slow, &new, None);
    assert_eq!(comparison.findings[0].state, FindingState::NotLookedAt);
    assert_eq!(
        (comparison.outcome, comparison.exit_code),
        (Outcome::Incomplete, 20)
    );
}

#[test]
fn a_rail_that_is_no_longer_tested_is_said_and_is_no_pass() {
    let (all, fewer) = (rails(1, "", 1.0), without_rail(rails(2, "", 1.0), "rail2"));
    let comparison = compared(&all, &fewer, None);
    assert_eq!(
        (comparison.outcome, comparison.exit_code),
        (Outcome::Incomplete, 20)
    );
    let [line] = comparison.no_longer_tested.as_slice() else {
        panic!("{:?}", comparison.no_longer_tested);
    };
    assert_eq!(
        (line.part.as_str(), line.cells, line.of),
        ("rail2", Some(4), Some(4))
    );
    assert!(line.why.contains("does not plan"), "{}", line.why);
    let back = compared(&fewer, &all, None);
    assert_eq!(
        (back.outcome, back.newly_tested[0].part.as_str()),
        (Outcome::Same, "rail2")
    );
}

#[test]
fn pairs_drawn_by_another_seed_are_no_gap_as_long_as_every_host_was_measured() {
    let drawn = |seed: u64, distance: u32| {
        let mut recorded = pairs(seed, |_, _| HEALTHY);
        recorded.run.seed = seed;
        let next = |cell: &Cell| cell.ranks[1] == (cell.ranks[0] + distance) % 5;
        recorded.run.cells.retain(next);
        recorded
    };
    let comparison = compared(&drawn(1, 1), &drawn(2, 2), None);
    assert!(
        comparison.no_longer_tested.is_empty(),
        "{:?}",
        comparison.no_longer_tested
    );
    assert_eq!(
        (comparison.counts.other_partners, comparison.counts.only_old),
        (5, 0)
    );
    assert_eq!(comparison.exit_code, 20, "no speed was compared");
    assert!(
        comparison
            .remarks
            .iter()
            .any(|remark| remark.contains("same --seed"))
    );
    let mut fewer = drawn(2, 2);
    fewer.run.cells.retain(|cell| !cell.ranks.contains(&3));
    let comparison = compared(&drawn(1, 1), &fewer, None);
    assert_eq!(
        comparison.no_longer_tested.len(),
        1,
        "{:?}",
        comparison.no_longer_tested
    );
    assert_eq!(comparison.no_longer_tested[0].part, "node03 on rail0");
}

#[test]
fn a_run_that_was_cut_off_says_what_it_no_longer_tells() {
    let mut cut = rails(2, "", 1.0);
    cut.events.truncate(6);
    let comparison = compared(&rails(1, "", 1.0), &cut, None);
    assert_eq!(comparison.exit_code, 20, "{}", comparison.summary);
    assert!(
        comparison
            .no_longer_tested
            .iter()
            .all(|line| line.why.contains("cut off")),
        "{:?}",
        comparison.no_longer_tested
    );
    assert!(
        comparison
            .remarks
            .iter()
            .any(|remark| remark.contains("did not finish"))
    );
}

#[test]
fn runs_of_other_machines_and_suites_are_said_to_be_that() {
    let mut other = rails(2, "", 1.0);
    other.run.suite = "elsewhere".into();
    for (host, rank) in other.run.hosts.iter_mut().zip(&mut other.run.ranks) {
        host.name = format!("other{}", rank.rank);
        rank.host.clone_from(&host.name);
    }
    let comparison = compared(&rails(1, "", 1.0), &other, None);
    assert_eq!(
        (comparison.outcome, comparison.exit_code),
        (Outcome::Incomparable, 20)
    );
    assert_eq!(comparison.counts.compared, 0);
    let remarks = comparison.remarks.join("\n");
    for text in [
        "different suites, smoke and elsewhere",
        "no host in common",
        "0 of 24 cells",
    ] {
        assert!(remarks.contains(text), "{text}: {remarks}");
    }
}

#[test]
fn what_is_set_otherwise_is_said() {
    let (old, mut new) = (rails(1, "", 1.0), rails(2, "", 1.0));
    new.run.seed = 2;
    new.run.version = "9.9.9".into();
    new.run
        .hosts
        .iter_mut()
        .for_each(|host| host.kernel = "6.12".into());
    let comparison = compared(&old, &new, None);
    let what: Vec<&str> = comparison
        .changed
        .iter()
        .map(|change| change.what.as_str())
        .collect();
    assert_eq!(what[..2], ["railgauge", "seed"]);
    assert!(what[2].starts_with("kernel of node00"), "{what:?}");
    assert_eq!(what.len(), 3);
}

#[test]
fn a_record_without_an_end_or_a_sample_is_compared_without_a_panic() {
    let mut empty = rails(1, "", 1.0);
    (empty.samples, empty.events) = (Vec::new(), Vec::<Event>::new());
    let full = rails(2, "", 1.0);
    for (old, new) in [(&empty, &full), (&full, &empty), (&empty, &empty)] {
        assert_eq!(compared(old, new, None).exit_code, 20);
    }
}
