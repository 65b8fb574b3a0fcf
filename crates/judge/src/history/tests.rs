//! What a night's reader is told, and what not.

use proptest::prelude::*;

use super::fixture::{found, night, nights, reading};
use super::*;
use record::{ChangeShape, FindingKind, Issue, IssueStatus, Night, PartKind, Quantity, Severity};

/// What is said out loud.
fn loud(nights: &[Night]) -> Vec<Issue> {
    let issues = since_earlier_runs(nights).issues.into_iter();
    issues.filter(|issue| issue.severity > Severity::Info).collect()
}

fn step(from: usize) -> impl Fn(usize, &str) -> f64 {
    move |number, part| {
        if part == "h1/rail0 out" && number >= from {
            0.95
        } else {
            1.0
        }
    }
}

#[test]
fn a_step_pages_once_then_is_a_ticket_and_a_reminder_after_a_week() {
    let row = nights(8, 40, step(20));
    let mut pages = Vec::new();
    let mut reminders = Vec::new();
    for count in 8..=40 {
        for issue in loud(&row[..count]) {
            assert_eq!(issue.part, "h1/rail0 out", "night {count}: {}", issue.sentence);
            match (issue.severity, issue.due) {
                (Severity::Page, true) => pages.push(count),
                (_, true) => reminders.push(count),
                _ => {}
            }
        }
    }
    assert_eq!(pages.len(), 1, "{pages:?}");
    assert!((22..=24).contains(&pages[0]), "{pages:?}");
    assert_eq!(reminders, [pages[0] + 7, pages[0] + 14], "{reminders:?}");
    let last = &loud(&row)[0];
    let change = last.change.as_ref().unwrap();
    assert_eq!(
        (change.shape, change.since.as_str()),
        (ChangeShape::Step, "night20")
    );
    assert!(change.effect_interval.0 < -0.05 && -0.05 < change.effect_interval.1);
    assert!((change.after / change.before - 1.0 - change.effect).abs() < 1e-9);
    assert!(
        matches!(last.status, IssueStatus::Still { night: 15.. }),
        "{:?}",
        last.status
    );
}

/// By how much each of eight hosts is above or below its level in each of so many nights; most of it lasts until the next one.
fn wandering_hosts(count: usize) -> impl Fn(usize, &str) -> f64 {
    let mut noise = crate::burn_in::fixture::Noise::new(3);
    let course = |_| {
        let mut now = noise.normal();
        let mut next = || {
            now = 0.9 * now + 0.19_f64.sqrt() * noise.normal();
            0.015 * now
        };
        (0..count).map(|_| next()).collect::<Vec<f64>>()
    };
    let hosts: Vec<Vec<f64>> = (0..8).map(course).collect();
    move |number, part| {
        let host = part[1..2].parse::<usize>().map_or(0, |host| host);
        hosts[host][number].exp()
    }
}

#[test]
fn a_step_of_one_end_shows_although_its_host_wanders_and_no_sibling_is_accused() {
    let wander = wandering_hosts(40);
    let step = step(22);
    let row = nights(8, 40, |number, part| wander(number, part) * step(number, part));
    let found = alarms(&row, &Rule::default());
    let parts: Vec<&str> = found.iter().map(|alarm| alarm.change.part.as_str()).collect();
    assert_eq!(parts, ["h1/rail0 out"], "{parts:?}");
    assert!((23..=25).contains(&found[0].proved), "{}", found[0].proved);
}

#[test]
fn a_host_that_slows_down_as_a_whole_is_found_although_its_ends_share_it() {
    let wander = wandering_hosts(40);
    let slow = |number: usize, part: &str| {
        if part.starts_with("h1") && number >= 22 {
            0.88
        } else {
            1.0
        }
    };
    let row = nights(8, 40, |number, part| wander(number, part) * slow(number, part));
    let found = alarms(&row, &Rule::default());
    let is_it = |alarm: &Alarm| alarm.change.part.starts_with("h1/") && (23..=27).contains(&alarm.proved);
    assert!(
        found.iter().filter(|alarm| is_it(alarm)).count() >= 3,
        "{found:?}"
    );
    assert!(
        found.iter().all(|alarm| alarm.change.part.starts_with("h1/")),
        "{found:?}"
    );
}

#[test]
fn one_bad_night_wakes_nobody_and_neither_does_a_bad_night_of_all() {
    let blip = |number: usize, part: &str| {
        if number == 20 && part == "h3/rail1 in" {
            0.8
        } else {
            1.0
        }
    };
    let row = nights(8, 30, blip);
    let dip = nights(8, 30, |number, _| if number == 20 { 0.9 } else { 1.0 });
    for count in 8..=30 {
        assert_eq!(loud(&row[..count]), [], "night {count}");
        assert_eq!(loud(&dip[..count]), [], "night {count}");
    }
    let found_issues = since_earlier_runs(&row[..21]).issues;
    assert_eq!(found_issues.len(), 1);
    assert_eq!(
        (
            found_issues[0].part.as_str(),
            found_issues[0].severity,
            found_issues[0].due
        ),
        ("h3/rail1 in", Severity::Info, false)
    );
}

#[test]
fn a_fleet_that_slows_down_as_a_whole_is_one_issue() {
    let row = nights(8, 30, |number, _| if number >= 20 { 0.95 } else { 1.0 });
    let found_issues = loud(&row[..24]);
    assert_eq!(found_issues.len(), 1, "{found_issues:?}");
    assert_eq!(found_issues[0].part, "all rail-ends");
}

#[test]
fn a_change_that_is_gone_is_said_to_be_gone_and_its_past_is_not_forgotten() {
    let broken = |number: usize, part: &str| match (part, number) {
        ("h1/rail0 out", 20..=25) => 0.93,
        _ => 1.0,
    };
    let row = nights(8, 40, broken);
    let gone: Vec<usize> = (8..=40)
        .filter(|count| {
            since_earlier_runs(&row[..*count])
                .issues
                .iter()
                .any(|m| matches!(m.status, IssueStatus::Gone { .. }))
        })
        .collect();
    assert_eq!(gone.len(), 1, "{gone:?}");
    assert!((27..=28).contains(&gone[0]), "{gone:?}");
    let history = since_earlier_runs(&row[..30]);
    assert_eq!(history.young, 0);
}

#[test]
fn a_replaced_part_begins_anew_without_an_alarm() {
    let mut row = nights(8, 40, step(20));
    for (number, night) in row.iter_mut().enumerate() {
        for part in &mut night.readings.parts {
            let serial = if part.part.starts_with("h1/rail0") && number >= 20 {
                "B"
            } else {
                "A"
            };
            part.identity = Some(format!("nic {serial}"));
        }
    }
    for count in 8..=40 {
        assert_eq!(loud(&row[..count]), [], "night {count}");
    }
    let first = since_earlier_runs(&row[..21]);
    let names: Vec<&str> = first
        .replaced
        .iter()
        .map(|replaced| replaced.part.as_str())
        .collect();
    assert_eq!(names, ["h1/rail0 out", "h1/rail0 in"]);
    assert_eq!(
        (
            first.replaced[0].before.as_str(),
            first.replaced[0].since.as_str()
        ),
        ("nic A", "night20")
    );
    assert_eq!(first.young, 2);
    assert_eq!(since_earlier_runs(&row[..22]).replaced, []);
}

#[test]
fn findings_are_new_then_counted_then_gone_and_back_within_days_they_are_not_new() {
    let mut row = nights(4, 12, |_, _| 1.0);
    let slow = || found(FindingKind::SlowLink, "h2", "rail1");
    for number in [2, 3, 4, 7] {
        row[number].readings.findings.push(slow());
    }
    let status = |count: usize| {
        let found_issues = since_earlier_runs(&row[..count]).issues;
        let of_slow = found_issues
            .iter()
            .find(|issue| issue.kind == Some(FindingKind::SlowLink));
        of_slow.map(|issue| (issue.status.clone(), issue.severity, issue.due))
    };
    assert_eq!(status(3), Some((IssueStatus::New, Severity::Page, true)));
    assert_eq!(
        status(4),
        Some((IssueStatus::Still { night: 2 }, Severity::Ticket, false))
    );
    assert_eq!(
        status(5),
        Some((IssueStatus::Still { night: 3 }, Severity::Ticket, false))
    );
    assert_eq!(
        status(6),
        Some((IssueStatus::Gone { nights: 3 }, Severity::Info, true))
    );
    assert_eq!(status(7), None);
    assert_eq!(
        status(8),
        Some((IssueStatus::Again { away: 2 }, Severity::Ticket, false))
    );
    // Nothing was measured there: nobody knows.
    row[5].readings.parts.retain(|part| !part.part.starts_with("h2/"));
    let issues = since_earlier_runs(&row[..6]).issues;
    assert_eq!(issues[0].status, IssueStatus::Unknown { nights: 3 });
}

#[test]
fn a_finding_and_a_change_of_one_part_are_one_issue() {
    let mut row = nights(8, 30, step(20));
    for night in &mut row[22..] {
        night
            .readings
            .findings
            .push(found(FindingKind::SlowLink, "h1", "rail0"));
    }
    let found_issues = loud(&row[..26]);
    assert_eq!(found_issues.len(), 1, "{found_issues:?}");
    assert!(found_issues[0].finding.is_some() && found_issues[0].change.is_some());
    assert_eq!(found_issues[0].part, "h1 on rail0");
}

#[test]
fn both_ends_of_a_cable_that_change_together_are_told_once() {
    let row: Vec<Night> = nights(8, 30, step(20))
        .into_iter()
        .map(|mut night| {
            let links: Vec<_> = (0..8)
                .map(|host| {
                    let name = format!("h{host}/rail0 out");
                    let mut ends = night.readings.parts.iter();
                    let value = ends.find(|part| part.part == name).unwrap().value;
                    let name = format!("h{host}/rail0->leaf0/p{host}");
                    reading(PartKind::Link, &name, Quantity::Bandwidth, value)
                })
                .collect();
            night.readings.parts.extend(links);
            night
        })
        .collect();
    let pages: Vec<Issue> = (8..=30)
        .flat_map(|count| loud(&row[..count]))
        .filter(|issue| issue.severity == Severity::Page)
        .collect();
    assert_eq!(pages.len(), 1, "{pages:?}");
    let found_issues = loud(&row);
    assert_eq!(found_issues.len(), 1);
    assert_eq!(found_issues[0].part, "h1/rail0->leaf0/p1");
    assert_eq!(found_issues[0].change.as_ref().unwrap().with, ["h1/rail0 out"]);
}

#[test]
fn few_nights_are_young_and_judged_by_nobody() {
    let row = nights(4, 6, step(3));
    let history = since_earlier_runs(&row);
    assert_eq!(
        (history.compared, history.young, history.issues.len()),
        (0, 16, 0)
    );
    assert_eq!(trends(&row).exit_code, 20);
    // Seven before a change and two that show it: with eight nothing could be found, so nothing is said to be steady.
    let eight = trends(&nights(4, 8, step(4)));
    assert_eq!(eight.exit_code, 20, "{}", eight.summary);
    assert_eq!(trends(&nights(4, 9, |_, _| 1.0)).exit_code, 0);
    assert_eq!(trends(&nights(4, 30, |_, _| 1.0)).exit_code, 0);
    let changed = trends(&nights(4, 30, step(20)));
    assert_eq!(changed.exit_code, 12, "{}", changed.summary);
    let series: Vec<&str> = changed
        .series
        .iter()
        .filter(|series| series.change == Some(0))
        .map(|series| series.part.as_str())
        .collect();
    assert_eq!(series, ["h1/rail0 out"]);
    assert_eq!(since_earlier_runs(&[]).issues, []);
    assert_eq!(trends(&[]).exit_code, 20);
}

#[test]
fn what_was_said_of_a_night_does_not_change_with_the_nights_that_follow() {
    let row = nights(8, 30, step(20));
    let known = |alarms: Vec<Alarm>| -> Vec<(usize, String)> {
        let early = alarms.into_iter().filter(|alarm| alarm.proved < 25);
        early.map(|alarm| (alarm.proved, alarm.change.part)).collect()
    };
    let then = known(alarms(&row[..25], &Rule::default()));
    assert_eq!(then.len(), 1);
    assert_eq!(known(alarms(&row, &Rule::default())), then);
}

fn any_value() -> impl Strategy<Value = f64> {
    prop_oneof![
        Just(f64::NAN),
        Just(f64::INFINITY),
        Just(-1.0),
        Just(0.0),
        Just(f64::MIN_POSITIVE),
        Just(f64::MAX),
        Just(48e9),
        any::<f64>(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn whatever_is_read_is_judged_without_a_panic(
        rows in prop::collection::vec(
            prop::collection::vec(("[a-c]/r[0-2]( out)?|x->y|", any_value(), 0..6usize, prop::option::of("[a-b] [0-9]|;; ")), 0..12),
            0..24,
        ),
        finds in prop::collection::vec((0..24usize, "[a-c]", "r[0-2]"), 0..10),
    ) {
        use PartKind::{Collective, Gpu, Link, Node, Rail, RailEnd};
        let mut row: Vec<Night> = Vec::new();
        for (number, parts) in rows.into_iter().enumerate() {
            let of = |(part, value, kind, identity): (String, f64, usize, Option<String>)| record::PartReading {
                identity,
                ..reading([Link, RailEnd, Rail, Node, Gpu, Collective][kind], &part, Quantity::Bandwidth, value)
            };
            row.push(night(number, parts.into_iter().map(of).collect()));
        }
        for (number, host, rail) in finds {
            if let Some(night) = row.get_mut(number) {
                night.readings.findings.push(found(FindingKind::SlowPair, &host, &rail));
            }
        }
        for count in 0..=row.len() {
            let history = since_earlier_runs(&row[..count]);
            prop_assert!(history.issues.iter().all(|issue| !issue.sentence.is_empty()));
        }
        let trends = trends(&row);
        prop_assert!(serde_json::to_string(&trends).is_ok());
    }
}
