//! What a dashboard or an alert would lose.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use proptest::prelude::*;

use super::parser_tests::{Series, read};
use super::*;
use crate::escape;
use judge::findings::fixture::{Fixture, HEALTHY};
use judge::findings::judge;
use record::units::Rate;
use record::{Cell, Drift, EcmpVerdict, LinkCoverage, LinkState, TestVerdict};

fn with_slow_rail() -> (Recorded, Judgement) {
    let slow = |cell: &Cell, _| match cell.rails[0].as_str() {
        "rail1" => 0.6 * HEALTHY,
        _ => HEALTHY,
    };
    let recorded = Fixture::rails(3).speed(slow).recorded();
    let judgement = judge(&recorded);
    (recorded, judgement)
}

fn series(recorded: &Recorded, judgement: &Judgement) -> Vec<Series> {
    let text = Metrics.render(recorded, judgement).unwrap();
    read(&text).unwrap_or_else(|why| panic!("{why}"))
}

/// The one value of a metric whose labels are as given.
fn value(series: &[Series], name: &str, labels: &[(&str, &str)]) -> Option<f64> {
    let fits = |one: &&Series| {
        one.name == name
            && labels
                .iter()
                .all(|(label, text)| one.labels.get(*label).is_some_and(|value| value == text))
    };
    let found: Vec<&Series> = series.iter().filter(fits).collect();
    assert!(found.len() <= 1, "{found:?}");
    found.first().map(|one| one.value)
}

/// A run that has something for every metric.
fn with_everything() -> (Recorded, Judgement) {
    let (mut recorded, mut judgement) = with_slow_rail();
    recorded.history = Some(crate::history_tests::nights());
    judgement.coverage.links = vec![LinkCoverage {
        link: "h2/rail1->leaf1/p0".into(),
        cable: "c1".into(),
        rail: Some("rail1".into()),
        rate: Rate(1e9),
        flows: 3,
        most: Some(Rate(6e8)),
        share: Some(0.6),
        state: LinkState::Slow,
        smallest_loss: Some(0.12),
        why: None,
    }];
    let choice = serde_json::json!({
        "test": "ecmp", "rail": "rail0", "switch": "leaf0", "tier": 1, "cause": "dead-member", "sentence": "", "flows": 64,
        "paths": 4, "paths_used": 3, "statistic": "x", "value": 1.0, "null_median": 1.0, "p_value": 0.0, "lost": 0.25,
        "max_over_mean": 1.3, "members": [], "pairs": [], "cells": [], "advice": ""
    });
    judgement.ecmp = vec![serde_json::from_value::<EcmpVerdict>(choice).unwrap()];
    judgement.drift = Some(Drift::default());
    (recorded, judgement)
}

#[test]
fn a_slow_rail_is_on_the_dashboard_with_what_was_measured_and_expected() {
    let (recorded, judgement) = with_slow_rail();
    let series = series(&recorded, &judgement);
    let finding = &judgement.findings[0];
    let rail = [("kind", "slow-rail"), ("rail", "rail1"), ("suite", "smoke")];
    let of = |name: &str, labels: &[(&str, &str)]| value(&series, name, labels);
    assert_eq!(of("railgauge_part_findings", &rail), Some(1.0));
    let measured = finding.measured.unwrap().median.0;
    assert_eq!(
        of("railgauge_part_measured_bytes_per_second", &rail),
        Some(measured)
    );
    let expected = finding.expected.unwrap().0;
    assert_eq!(
        of("railgauge_part_expected_bytes_per_second", &rail),
        Some(expected)
    );
    assert_eq!(of("railgauge_run_verdict", &[("verdict", "fail")]), Some(1.0));
    assert_eq!(of("railgauge_run_verdict", &[("verdict", "pass")]), Some(0.0));
    assert_eq!(of("railgauge_run_exit_code", &[]), Some(12.0));
    assert_eq!(of("railgauge_findings", &[("kind", "slow-rail")]), Some(1.0));
    assert_eq!(of("railgauge_findings", &[("kind", "corruption")]), Some(0.0));
    assert_eq!(
        of("railgauge_run_start_timestamp_seconds", &[]),
        Some(1_794_700_212.0)
    );
    assert_eq!(
        of("railgauge_run_end_timestamp_seconds", &[]),
        Some(1_794_700_260.0)
    );
    assert_eq!(of("railgauge_coverage_ratio", &[]), Some(1.0));
    let median = |rail: &str| {
        let labels = [("rail", rail), ("load", "alone"), ("engine", "ours")];
        of("railgauge_rail_wire_median_bytes_per_second", &labels).unwrap()
    };
    assert!((median("rail1") / median("rail0") - 0.6).abs() < 0.06);
    let worst = of("railgauge_worst_share_ratio", &[]).unwrap();
    assert!((worst - 0.6).abs() < 0.06, "{worst}");
}

#[test]
fn what_is_not_known_has_no_series() {
    let (mut recorded, _) = with_slow_rail();
    recorded.samples.clear();
    recorded.events.clear();
    let judgement = judge(&recorded);
    let series = series(&recorded, &judgement);
    for name in [
        "railgauge_run_end_timestamp_seconds",
        "railgauge_worst_share_ratio",
        "railgauge_links",
        "railgauge_drift_deviations",
        "railgauge_rail_wire_median_bytes_per_second",
    ] {
        assert!(series.iter().all(|one| one.name != name), "{name}");
    }
    assert_eq!(value(&series, "railgauge_coverage_ratio", &[]), Some(0.0));
    assert_eq!(
        value(&series, "railgauge_run_verdict", &[("verdict", "inconclusive")]),
        Some(1.0)
    );
}

#[test]
fn a_fabric_that_is_broken_everywhere_stays_below_5000_series_and_says_what_it_folded() {
    let (recorded, mut judgement) = with_everything();
    let finding = judgement.findings[0].clone();
    judgement.findings = (0..2048 * 8)
        .map(|number| {
            let mut finding = finding.clone();
            finding.place.hosts = vec![format!("node{:04}", number / 8)];
            finding.place.rail = Some(format!("rail{}", number % 8));
            finding
        })
        .collect();
    let test = judgement.tests[0].clone();
    judgement.tests = (0..1000)
        .map(|number| TestVerdict {
            name: format!("test{number}"),
            verdict: if number == 999 {
                Verdict::Fail("x".into())
            } else {
                Verdict::Pass
            },
            ..test.clone()
        })
        .collect();
    let cell = judgement.cells[0].clone();
    judgement.cells = (0..3000)
        .map(|number| {
            let mut cell = cell.clone();
            cell.cell.rails = vec![format!("rail{number}")];
            if number == 2999 {
                cell.wire_rate.as_mut().unwrap().median = Rate(1.0);
            }
            cell
        })
        .collect();
    let series = series(&recorded, &judgement);
    assert!(series.len() < 5000 && series.len() > 4000, "{}", series.len());
    let kind = [("kind", "slow-rail")];
    assert_eq!(value(&series, "railgauge_findings", &kind), Some(16384.0));
    assert_eq!(value(&series, "railgauge_findings_folded", &kind), Some(15384.0));
    assert_eq!(value(&series, "railgauge_tests_folded", &[]), Some(900.0));
    assert_eq!(value(&series, "railgauge_rails_folded", &[]), Some(2800.0));
    // What is wrong is not what was folded.
    let failed = [("test", "test999"), ("verdict", "fail")];
    assert_eq!(value(&series, "railgauge_test_verdict", &failed), Some(1.0));
    let slowest = [("rail", "rail2999")];
    assert_eq!(
        value(&series, "railgauge_rail_wire_lowest_bytes_per_second", &slowest),
        Some(1.0)
    );
}

#[test]
fn two_findings_about_one_part_are_one_series_with_the_worse_rate() {
    let (recorded, mut judgement) = with_slow_rail();
    let mut worse = judgement.findings[0].clone();
    worse.measured.as_mut().unwrap().median = Rate(1e6);
    judgement.findings.push(worse);
    let series = series(&recorded, &judgement);
    let rail = [("rail", "rail1")];
    assert_eq!(value(&series, "railgauge_part_findings", &rail), Some(2.0));
    assert_eq!(
        value(&series, "railgauge_part_measured_bytes_per_second", &rail),
        Some(1e6)
    );
}

/// Metric names and their labels, as a run with everything has them.
fn known() -> BTreeMap<String, BTreeSet<String>> {
    let (recorded, judgement) = with_everything();
    let mut known: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for one in series(&recorded, &judgement) {
        known.entry(one.name).or_default().extend(one.labels.into_keys());
    }
    known
}

fn read_doc(path: &str) -> String {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn every_metric_is_in_the_documentation_and_the_documentation_has_no_other() {
    let known: BTreeSet<String> = known().into_keys().collect();
    let listed: BTreeSet<String> = ALL.iter().map(|family| family.name.to_string()).collect();
    assert_eq!(known, listed);
    let formats = read_doc("docs/formats.md");
    let section = formats
        .split("\n## metrics.prom")
        .nth(1)
        .expect("a section about metrics.prom");
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
    let documented: BTreeSet<String> = rows
        .filter_map(|row| row.split('`').next())
        .map(String::from)
        .collect();
    assert_eq!(documented, listed);
}

/// A query's words: every metric with the labels that are asked of it, and labels that stand in `by`, `on` and the like.
fn words_of(query: &str) -> (Vec<(String, Vec<String>)>, Vec<String>) {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let (mut metrics, mut labels) = (Vec::new(), Vec::new());
    let mut rest = query;
    while let Some(start) = rest.find(|c: char| is_word(c) || c == '"') {
        rest = &rest[start..];
        if let Some(text) = rest.strip_prefix('"') {
            rest = text.split_once('"').map_or("", |(_, after)| after);
            continue;
        }
        let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let word = &rest[..end];
        rest = &rest[end..];
        let opens = |bracket| rest.trim_start().strip_prefix(bracket);
        if word.starts_with("railgauge_") {
            let inside = opens('{').and_then(|inside| inside.split_once('}'));
            let matchers = inside.map_or(Vec::new(), |(inside, after)| {
                rest = after;
                label_names(inside)
            });
            metrics.push((word.to_string(), matchers));
        } else if matches!(
            word,
            "by" | "on" | "without" | "ignoring" | "group_left" | "group_right"
        ) && let Some((inside, after)) = opens('(').and_then(|inside| inside.split_once(')'))
        {
            labels.extend(inside.split(',').map(|label| label.trim().to_string()));
            rest = after;
        }
    }
    (metrics, labels)
}

/// The names in `kind="slow-link",rail=~"a,b"`.
fn label_names(matchers: &str) -> Vec<String> {
    let outside_quotes: String = matchers.split('"').step_by(2).collect();
    outside_quotes
        .split(',')
        .map(|matcher| matcher.trim_matches(|c: char| !c.is_ascii_alphanumeric() && c != '_'))
        .filter(|name| !name.is_empty())
        .map(String::from)
        .collect()
}

fn check_query(query: &str, known: &BTreeMap<String, BTreeSet<String>>) -> usize {
    let (metrics, labels) = words_of(query);
    // What a scrape adds.
    let added = ["job", "instance"];
    let mut any: BTreeSet<&str> = added.into();
    for (metric, matchers) in &metrics {
        let has = known
            .get(metric)
            .unwrap_or_else(|| panic!("no metric {metric}: {query}"));
        any.extend(has.iter().map(String::as_str));
        for label in matchers {
            let is_known = has.contains(label) || added.contains(&label.as_str());
            assert!(is_known, "{metric} has no label {label}: {query}");
        }
    }
    for label in &labels {
        assert!(any.contains(label.as_str()), "no label {label}: {query}");
    }
    metrics.len()
}

#[test]
fn a_query_for_a_label_that_does_not_exist_is_noticed() {
    let (metrics, labels) =
        words_of("sum by (suite, kind) (railgauge_findings{kind=~\"a|railgauge_b\", suite=\"x\"}) > 0");
    let expected = vec!["kind".to_string(), "suite".to_string()];
    assert_eq!(metrics, [("railgauge_findings".to_string(), expected)]);
    assert_eq!(labels, ["suite", "kind"]);
    for wrong in [
        "railgauge_findings{part=\"x\"}",
        "railgauge_nothing",
        "sum by (part) (railgauge_findings)",
    ] {
        let check = std::panic::catch_unwind(|| check_query(wrong, &known()));
        assert!(check.is_err(), "{wrong}");
    }
}

#[test]
fn the_dashboard_asks_only_for_metrics_and_labels_that_exist() {
    let dashboard: serde_json::Value =
        serde_json::from_str(&read_doc("docs/monitoring/grafana-dashboard.json")).unwrap();
    let known = known();
    let panels = dashboard["panels"].as_array().unwrap();
    let mut metrics = 0;
    let mut ids = BTreeSet::new();
    for panel in panels {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{}", panel["title"]);
        assert!(panel["gridPos"]["w"].as_u64().is_some_and(|width| width <= 24));
        for target in panel["targets"].as_array().into_iter().flatten() {
            let query = target["expr"].as_str().unwrap();
            metrics += check_query(&query.replace("$suite", "x"), &known);
            let legend = target["legendFormat"].as_str().unwrap_or_default();
            let (asked, _) = words_of(query);
            for label in legend
                .split("{{")
                .skip(1)
                .filter_map(|rest| rest.split("}}").next())
            {
                let has = |(metric, _): &(String, Vec<String>)| known[metric].contains(label.trim());
                assert!(asked.iter().any(has), "no label {label}: {query}");
            }
        }
    }
    for variable in dashboard["templating"]["list"].as_array().unwrap() {
        if let Some(query) = variable["definition"].as_str() {
            let inside = query
                .strip_prefix("label_values(")
                .and_then(|rest| rest.strip_suffix(')'));
            let (metric, label) = inside.and_then(|inside| inside.split_once(", ")).unwrap();
            assert!(known[metric].contains(label), "{query}");
        }
    }
    assert!(metrics >= 10, "{metrics}");
}

#[test]
fn the_alerts_ask_only_for_metrics_and_labels_that_exist() {
    let rules = read_doc("docs/monitoring/railgauge-alerts.yml");
    let queries: Vec<&str> = rules
        .lines()
        .filter_map(|line| line.trim().strip_prefix("expr: "))
        .collect();
    assert!(queries.len() >= 5);
    for query in queries {
        assert!(check_query(query, &known()) > 0, "{query}");
    }
}

proptest! {
    #[test]
    fn whatever_a_part_is_called_its_label_is_read_back_as_that_on_one_line(name in "\\PC{0,40}|[\"\\\\\\n\\r\\{\\},= ]{0,40}") {
        let mut sheet = Sheet::of(&name);
        sheet.put(&FINDINGS, &[&name], 1.0);
        let series = read(&sheet.render().unwrap()).unwrap();
        prop_assert_eq!(series.len(), 1);
        prop_assert_eq!(&series[0].labels["suite"], &escape::line(&name));
        prop_assert_eq!(&series[0].labels["kind"], &escape::line(&name));
    }
}
