//! Ports that make errors, and what counters say about slow parts.

use proptest::prelude::*;

use super::{kinds, on_rail};
use crate::findings::fixture::{Fixture, HEALTHY};
use crate::findings::judge;
use record::counters::{COUNTERS, CounterKind, named};
use record::units::Nanos;
use record::{Cell, CounterDelta, CounterState, Event, Finding, FindingKind, RailEnd, Recorded};
use topology::suite::counters::{Bound, CounterRule, Per, Severity, built_in};

/// How long a cell is watched here, and what goes through meanwhile.
const SECONDS: u64 = 10;
pub(super) const PACKETS: u64 = 1_000_000_000;
const SPEED_MBIT: u64 = 400_000;

/// A run in which everything is as fast as it should be.
pub(super) fn healthy() -> Recorded {
    with_speeds(Fixture::rails(2).recorded())
}

/// A run whose second rail is slow.
pub(super) fn slow() -> Recorded {
    let speed = |cell: &Cell, _| match on_rail(cell, "rail1") {
        true => 0.6 * HEALTHY,
        false => HEALTHY,
    };
    with_speeds(Fixture::rails(3).speed(speed).recorded())
}

pub(super) fn with_speeds(mut recorded: Recorded) -> Recorded {
    for rank in &mut recorded.run.ranks {
        let end = |rail: u32| RailEnd {
            rail: format!("rail{rail}"),
            address: format!("10.{rail}.0.{}", rank.rank + 1),
            interface: None,
            speed_mbit: Some(SPEED_MBIT),
            rdma: None,
        };
        rank.rails = (0..3).map(end).collect();
    }
    recorded
}

/// Reports a counter of `rail1` around its first cell.
pub(super) fn counter(recorded: &mut Recorded, rank: u32, name: &str, before: u64, after: u64) {
    let cell = recorded
        .run
        .cells
        .iter()
        .find(|cell| on_rail(cell, "rail1"))
        .unwrap()
        .id;
    let delta = CounterDelta {
        cell,
        rank,
        rail: "rail1".into(),
        name: name.into(),
        before: Some(before),
        after: Some(after),
        ns: Some(Nanos::from_secs(SECONDS)),
        bits: named(name).and_then(|counter| counter.recorded_bits()),
        ..CounterDelta::default()
    };
    recorded
        .events
        .insert(recorded.events.len() - 1, Event::Counter(delta));
}

/// A counter that is not there.
pub(super) fn missing(recorded: &mut Recorded, rank: u32, name: &str, state: CounterState) {
    counter(recorded, rank, name, 0, 0);
    let place = recorded.events.len() - 2;
    if let Event::Counter(delta) = &mut recorded.events[place] {
        (delta.before, delta.after, delta.state) = (None, None, state);
    }
}

pub(super) fn only(recorded: &Recorded) -> Finding {
    let mut judgement = judge(recorded);
    assert_eq!(judgement.findings.len(), 1, "{:#?}", judgement.findings);
    judgement.findings.remove(0)
}

/// The most that a rule accepts here.
fn accepted(rule: &CounterRule) -> f64 {
    let seconds = SECONDS as f64;
    match rule.bound {
        Bound::Any | Bound::Within { .. } => 0.0,
        Bound::ShareOfTime(share) => share * seconds * 1e6,
        Bound::Rate { most, per } => {
            most * match per {
                Per::Second => seconds,
                Per::Minute => seconds / 60.0,
                Per::Hour => seconds / 3600.0,
                Per::Packet => 2.0 * PACKETS as f64,
                Per::Bit => SPEED_MBIT as f64 * 1e6 * seconds,
            }
        }
    }
}

pub(super) fn with_movement(name: &str, by: u64) -> Recorded {
    let mut recorded = healthy();
    counter(&mut recorded, 2, "port_rcv_packets", 5, 5 + PACKETS);
    counter(&mut recorded, 2, "port_xmit_packets", 5, 5 + PACKETS);
    counter(&mut recorded, 2, name, 3, 3 + by);
    recorded
}

#[test]
fn every_rule_fires_beyond_its_bound_and_does_not_within_it() {
    let rules = built_in()
        .iter()
        .filter(|rule| !matches!(rule.counters[0].kind, CounterKind::Flap | CounterKind::Gpu));
    for rule in rules {
        for counter in &rule.counters {
            let name = counter.name.replace('*', "3");
            let accepted = accepted(rule);
            let few = match rule.bound {
                Bound::Any => 1,
                _ => (accepted * 3.0) as u64 + 100,
            };
            let judgement = judge(&with_movement(&name, few));
            let report = judgement.counters.as_ref().unwrap();
            let row = report.moved.iter().find(|row| row.name == name).unwrap();
            // A graver rule about the same counter may speak instead.
            let graver = |other: &&CounterRule| other.severity > rule.severity && other.is_about(&name);
            let graver = built_in().iter().find(graver).map(|other| other.name.as_str());
            let spoke = row.rule.as_deref();
            assert!(
                spoke == Some(rule.name.as_str()) || spoke == graver && graver.is_some(),
                "{name}: {row:?}"
            );
            let is_bad = row.severity.as_deref() == Some("bad");
            let expected: &[FindingKind] = if is_bad { &[FindingKind::PortErrors] } else { &[] };
            assert_eq!(kinds(&judgement), expected, "{name}");
            assert!(rule.severity == Severity::Suspicious || is_bad, "{name}");

            let within = judge(&with_movement(&name, (accepted / 2.0) as u64));
            let rows = within.counters.map(|report| report.moved).unwrap_or_default();
            let speaks = rows
                .iter()
                .any(|row| row.name == name && row.rule.as_ref() == Some(&rule.name));
            assert!(!speaks, "{name} within {}", rule.bound);
            if rule.severity == Severity::Bad {
                assert_eq!(within.findings, [], "{name}");
            }
        }
    }
}

#[test]
fn a_port_that_makes_errors_is_named_with_rate_bound_source_and_what_to_do() {
    let finding = only(&with_movement("symbol_error", 4112));
    assert_eq!(finding.kind, FindingKind::PortErrors);
    assert_eq!(finding.kind.exit_code(), 12);
    for part in [
        "rail1 at node02: symbol_error +4112 (1e-9 per bit, accepted 1e-12 per bit: NVIDIA ibdiagnet",
        "in 10.0 s of measuring",
        "bits arrive wrong",
    ] {
        assert!(finding.sentence.contains(part), "{part}: {}", finding.sentence);
    }
    assert!(
        finding.next_step.starts_with("clean or replace the optics"),
        "{}",
        finding.next_step
    );
    assert!(finding.repeat.unwrap().ends_with("--only rail=rail1"));
    assert_eq!(
        (finding.place.hosts, finding.place.ranks),
        (vec!["node02".to_string()], vec![2])
    );
}

#[test]
fn one_symbol_error_of_a_healthy_link_is_chance() {
    // Four are expected of a link at the bound; five are no news.
    assert_eq!(judge(&with_movement("symbol_error", 5)).findings, []);
}

#[test]
fn ranks_of_one_host_see_the_same_errors_once() {
    let mut recorded = healthy();
    recorded.run.ranks[3].host = "node02".into();
    counter(&mut recorded, 2, "symbol_error", 0, 4000);
    counter(&mut recorded, 3, "symbol_error", 0, 4001);
    let finding = only(&recorded);
    assert!(
        finding.sentence.contains("symbol_error +4001"),
        "{}",
        finding.sentence
    );
    assert_eq!(finding.place.ranks, [2, 3]);
}

#[test]
fn a_counter_that_was_cleared_or_vanished_accuses_nobody_and_one_at_its_end_is_at_least() {
    let mut recorded = healthy();
    counter(&mut recorded, 1, "symbol_error", 60_000, 2);
    counter(&mut recorded, 1, "out_of_sequence", 4_000_000_000, 7);
    missing(&mut recorded, 2, "symbol_error", CounterState::Absent);
    missing(&mut recorded, 2, "port/*", CounterState::Absent);
    assert_eq!(judge(&recorded).findings, []);
    counter(&mut recorded, 3, "symbol_error", 1000, 65_535);
    let finding = only(&recorded);
    assert!(
        finding.sentence.contains("symbol_error at least +64535"),
        "{}",
        finding.sentence
    );
}

#[test]
fn the_rules_of_a_run_replace_the_built_in_ones_and_a_file_that_cannot_be_read_is_said() {
    let mut recorded = with_movement("symbol_error", 4112);
    let rule = "[[rule]]\nname = \"mine\"\ncounters = \"symbol_error\"\nbound = \"1e-6 per bit\"\nseverity = \"bad\"\n\
                means = \"m\"\ndo = \"d\"\nsource = \"s\"\n";
    recorded.counter_rules = Some(rule.to_string());
    assert_eq!(judge(&recorded).findings, []);
    recorded.counter_rules = Some(rule.replace("1e-6", "1e-10"));
    assert!(only(&recorded).rule.contains("mine (1e-10 per bit): s"));
    recorded.counter_rules = Some("rule = 3".to_string());
    let judgement = judge(&recorded);
    assert_eq!(
        kinds(&judgement),
        [FindingKind::PortErrors],
        "judged by the built-in rules"
    );
    let trouble = judgement.counters.unwrap().trouble.unwrap();
    assert!(
        trouble.starts_with("counters.toml:1:8: ") && trouble.ends_with("built-in rules"),
        "{trouble}"
    );
}

#[test]
fn a_rule_may_limit_flaps_within_some_time_where_the_suite_allows_them() {
    let mut recorded = healthy();
    counter(&mut recorded, 2, "link_downed", 0, 3);
    assert_eq!(
        kinds(&judge(&recorded)),
        [FindingKind::Flap],
        "one is too many, and said once"
    );
    recorded.run.rule.flaps_allowed = 5;
    assert_eq!(judge(&recorded).findings, [], "the suite's rule decides");
    let rule = "[[rule]]\nname = \"mine\"\ncounters = \"link_downed\"\nbound = \"3 within 12h\"\nseverity = \"bad\"\n\
                means = \"m\"\ndo = \"d\"\nsource = \"s\"\n";
    recorded.counter_rules = Some(rule.to_string());
    let finding = only(&recorded);
    assert_eq!(finding.kind, FindingKind::Flap);
    assert!(
        finding.rule.ends_with("mine: 3 within 12h (s)"),
        "{}",
        finding.rule
    );
    recorded.counter_rules = Some(rule.replace("3 within", "4 within"));
    assert_eq!(judge(&recorded).findings, []);
    // Three in ten seconds of measuring are fewer than one a second.
    recorded.counter_rules = Some(rule.replace("3 within 12h", "1 within 1s"));
    assert_eq!(judge(&recorded).findings, []);
}

#[test]
fn a_flap_with_errors_is_one_finding() {
    let mut recorded = healthy();
    counter(&mut recorded, 2, "link_downed", 0, 1);
    counter(&mut recorded, 2, "symbol_error", 0, 4000);
    let finding = only(&recorded);
    assert_eq!(finding.kind, FindingKind::Flap);
    assert!(
        finding
            .evidence
            .iter()
            .any(|line| line.contains("symbol_error +4000"))
    );
}

#[test]
fn lines_of_runs_recorded_before_rates_and_states_are_still_judged() {
    let old = r#"{"counter":{"cell":2,"round":0,"rank":2,"rail":"rail1","name":"local_link_integrity_errors","before":1,"after":2}}"#;
    let event: Event = serde_json::from_str(old).unwrap();
    let mut recorded = Fixture::rails(2).recorded();
    recorded.events.push(event);
    let finding = only(&recorded);
    assert!(
        finding
            .sentence
            .starts_with("rail1 at node02: local_link_integrity_errors +1 (accepted none")
    );
}

#[test]
fn a_sentence_about_a_large_fabric_stays_readable() {
    let mut recorded = slow();
    for rank in 0..4 {
        for priority in 0..8 {
            counter(&mut recorded, rank, &format!("rx_prio{priority}_pause"), 0, 9000);
        }
    }
    counter(&mut recorded, 2, "symbol_error", 0, 4000);
    let sentence = only(&recorded).sentence;
    assert!(
        sentence.contains("symbol_error +4000 on node02/rail1"),
        "{sentence}"
    );
    assert!(sentence.contains("25 more counters of rail1 moved"), "{sentence}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn no_counter_however_strange_makes_judging_fail_or_accuses_a_host_that_did_not_count(
        deltas in proptest::collection::vec(
            (0..COUNTERS.len() + 3, any::<Option<u64>>(), any::<Option<u64>>(), any::<Option<u64>>(), any::<Option<u8>>(), 0u32..6),
            0..40,
        ),
        unreadable in any::<bool>(),
    ) {
        let mut recorded = healthy();
        for (number, before, after, ns, bits, rank) in &deltas {
            let strange = ["", "\u{1b}[2J|<b>", "port/*"];
            let name = COUNTERS.get(*number).map_or(strange[number % 3], |counter| counter.name);
            let state = match unreadable {
                true => CounterState::Unreadable("\u{202e}".into()),
                false => CounterState::Present,
            };
            let delta = CounterDelta {
                cell: *number as u32 % 5,
                rank: *rank,
                rail: "rail1".into(),
                name: name.replace('*', "7"),
                before: *before,
                after: *after,
                ns: ns.map(Nanos),
                bits: *bits,
                state,
                ..CounterDelta::default()
            };
            recorded.events.push(Event::Counter(delta));
        }
        for finding in judge(&recorded).findings {
            let counted = |host: &String| deltas.iter().any(|delta| *host == format!("node{:02}", delta.5));
            prop_assert!(finding.place.hosts.iter().all(counted), "{}", finding.sentence);
        }
    }
}
