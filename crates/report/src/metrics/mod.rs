//! `metrics.prom`: the figures of a run for monitoring, as OpenMetrics text.
//!
//! Held true: however large the fabric, there are fewer than 5,000 series ([`MOST_PARTS`], [`MOST_RAILS`], [`MOST_TESTS`]); what is wrong
//! comes before what is not when series run out, and what was folded is counted; what is not known has no series.

mod names;
mod text;

#[cfg(test)]
pub(super) mod parser_tests;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;

use strum::IntoEnumIterator;

use self::names::*;
use self::text::Sheet;
use crate::verdict_words::verdict_words;
use crate::writer::Writer;
use record::stats::median;
use record::{
    CellVerdict, Event, Finding, FindingKind, History, IssueStatus, Judgement, Recorded, Severity, Verdict,
    files,
};

/// Parts that findings name, each with up to three series.
const MOST_PARTS: usize = 1000;
/// Combinations of test, rail, load and engine, each with up to five series.
const MOST_RAILS: usize = 200;
/// Tests, each with six series.
const MOST_TESTS: usize = 100;
/// The words of verdicts, as labels.
const VERDICTS: [&str; 4] = ["pass", "fail", "inconclusive", "not_run"];

/// Figures for monitoring.
pub(super) struct Metrics;

impl Writer for Metrics {
    fn file(&self) -> &'static str {
        files::METRICS
    }

    fn render(&self, recorded: &Recorded, judgement: &Judgement) -> io::Result<String> {
        let mut sheet = Sheet::of(&judgement.suite);
        run(&mut sheet, recorded, judgement);
        findings(&mut sheet, &judgement.findings);
        tests(&mut sheet, judgement);
        cells(&mut sheet, judgement);
        rails(&mut sheet, &judgement.cells);
        parts_of_the_fabric(&mut sheet, judgement);
        if let Some(history) = &recorded.history {
            put_history(&mut sheet, history);
        }
        sheet.render().map_err(io::Error::other)
    }
}

fn run(sheet: &mut Sheet, recorded: &Recorded, judgement: &Judgement) {
    let ended = judgement.ended.map_or("cut-off".to_string(), |reason| {
        format!("{reason:?}").to_lowercase()
    });
    let versions = [judgement.version.as_str(), &recorded.run.version, &ended];
    sheet.put(&RUN_INFO, &versions, 1.0);
    let end = recorded.events.iter().rev().find_map(|event| match event {
        Event::End { at, .. } => second(at),
        _ => None,
    });
    sheet.put_known(&RUN_START, &[], second(&judgement.started));
    sheet.put_known(&RUN_END, &[], end);
    for word in VERDICTS {
        let is_it = word_of(&judgement.verdict) == word;
        sheet.put(&RUN_VERDICT, &[word], f64::from(u8::from(is_it)));
    }
    sheet.put(&RUN_EXIT_CODE, &[], f64::from(judgement.exit_code));
    sheet.put(&RUN_INJECTED, &[], judgement.injected.len() as f64);
    sheet.put(&RUN_HOSTS, &[], recorded.run.hosts.len() as f64);
    sheet.put(&RUN_RANKS, &[], recorded.run.ranks.len() as f64);
    sheet.put(&SAMPLES, &[], recorded.samples.len() as f64);
    let count = |wanted: fn(&Event) -> bool| recorded.events.iter().filter(|event| wanted(event)).count();
    let corrupt = count(|event| matches!(event, Event::Corruption(_)));
    sheet.put(&CORRUPT, &[], corrupt as f64);
    let lost = count(|event| matches!(event, Event::Lost(_)));
    sheet.put(&LOST, &[], lost as f64);
}

/// What the findings say of one part.
#[derive(Default)]
struct Accused {
    findings: u32,
    measured: Option<f64>,
    expected: Option<f64>,
}

impl Accused {
    fn add(&mut self, finding: &Finding) {
        self.findings += 1;
        let measured = finding.measured.map(|measured| measured.median.0);
        let expected = finding.expected.map(|expected| expected.0);
        let share = |measured: Option<f64>, expected: Option<f64>| {
            measured
                .zip(expected)
                .map_or(f64::INFINITY, |(measured, expected)| measured / expected)
        };
        let is_worse = share(measured, expected) < share(self.measured, self.expected);
        if is_worse || self.measured.is_none() {
            (self.measured, self.expected) = (measured, expected);
        }
    }
}

fn findings(sheet: &mut Sheet, findings: &[Finding]) {
    let mut by_kind: BTreeMap<FindingKind, (u32, u32)> =
        FindingKind::iter().map(|kind| (kind, (0, 0))).collect();
    let mut parts: BTreeMap<[String; 3], Accused> = BTreeMap::new();
    for finding in findings {
        let rail = finding.place.rail.as_deref().unwrap_or_default();
        let key = [finding.kind.to_string(), finding.part(), rail.to_string()].map(|text| text::label(&text));
        let (all, folded) = by_kind.entry(finding.kind).or_default();
        *all += 1;
        // They come worst first.
        if parts.len() < MOST_PARTS || parts.contains_key(&key) {
            parts.entry(key).or_default().add(finding);
        } else {
            *folded += 1;
        }
    }
    for (kind, (all, folded)) in by_kind {
        sheet.put(&FINDINGS, &[&kind.to_string()], f64::from(all));
        sheet.put(&FINDINGS_FOLDED, &[&kind.to_string()], f64::from(folded));
    }
    for (key, accused) in &parts {
        sheet.put_escaped(&PART_FINDINGS, key, Some(f64::from(accused.findings)));
        sheet.put_escaped(&PART_MEASURED, key, accused.measured);
        sheet.put_escaped(&PART_EXPECTED, key, accused.expected);
    }
}

fn tests(sheet: &mut Sheet, judgement: &Judgement) {
    for word in VERDICTS {
        let of_word = judgement
            .tests
            .iter()
            .filter(|test| word_of(&test.verdict) == word);
        sheet.put(&TESTS, &[word], of_word.count() as f64);
    }
    let mut tests: Vec<_> = judgement.tests.iter().collect();
    tests.sort_by_key(|test| test.verdict == Verdict::Pass);
    let folded = tests.len().saturating_sub(MOST_TESTS);
    sheet.put(&TESTS_FOLDED, &[], folded as f64);
    for test in tests.iter().take(MOST_TESTS) {
        for word in VERDICTS {
            let is_it = word_of(&test.verdict) == word;
            sheet.put(&TEST_VERDICT, &[&test.name, word], f64::from(u8::from(is_it)));
        }
        sheet.put(&TEST_PLANNED, &[&test.name], f64::from(test.planned));
        sheet.put(&TEST_MEASURED, &[&test.name], f64::from(test.measured));
    }
}

fn cells(sheet: &mut Sheet, judgement: &Judgement) {
    let mut counts: BTreeMap<&str, u32> = VERDICTS.iter().map(|word| (*word, 0)).collect();
    let (mut iterations, mut verified, mut worst) = (0u64, 0u64, None::<f64>);
    for cell in &judgement.cells {
        *counts.entry(word_of(&cell.verdict)).or_default() += 1;
        iterations += u64::from(cell.iterations);
        verified += u64::from(cell.verified);
        if let Some(share) = share(cell) {
            worst = Some(worst.map_or(share, |worst| worst.min(share)));
        }
    }
    for (word, count) in counts {
        sheet.put(&CELLS, &[word], f64::from(count));
    }
    sheet.put(&ITERATIONS, &[], iterations as f64);
    sheet.put(&VERIFIED, &[], verified as f64);
    sheet.put_known(&WORST_SHARE, &[], worst);
    let coverage = &judgement.coverage;
    let (planned, measured) = (f64::from(coverage.planned), f64::from(coverage.measured));
    sheet.put(&PLANNED, &[], planned);
    sheet.put(&MEASURED, &[], measured);
    sheet.put_known(&COVERAGE, &[], (planned > 0.0).then(|| measured / planned));
    sheet.put(&UNTESTED, &[], coverage.untested.len() as f64);
}

/// The cells of one rail with the largest messages.
#[derive(Default)]
struct RailRates {
    size: u64,
    rates: Vec<f64>,
    expected: Vec<f64>,
}

impl RailRates {
    fn add(&mut self, cell: &CellVerdict) {
        let Some(rate) = cell.wire_rate.map(|rate| rate.median.0) else {
            return;
        };
        let size = cell.cell.size.0;
        if size > self.size {
            *self = RailRates {
                size,
                ..RailRates::default()
            };
        }
        if size == self.size {
            self.rates.push(rate);
            self.expected.extend(cell.expected.map(|expected| expected.0));
        }
    }

    /// Worst first: the slowest of the cells over what is expected of them.
    fn share(&self) -> f64 {
        let expected = median(&self.expected).unwrap_or(f64::NAN);
        let share = lowest(&self.rates).unwrap_or(f64::NAN) / expected;
        if share.is_nan() { f64::INFINITY } else { share }
    }
}

fn rails(sheet: &mut Sheet, cells: &[CellVerdict]) {
    let mut rails: BTreeMap<(&str, String, &str, String), RailRates> = BTreeMap::new();
    for cell in cells {
        let what = &cell.cell;
        let load = what.load.name();
        let mut rail = what.rails.join("+");
        if let Some(other) = &what.to_rail {
            rail = format!("{rail}->{other}");
        }
        if rail.is_empty() {
            rail = "none".to_string();
        }
        let key = (what.test.as_str(), rail, load, what.engine.to_string());
        rails.entry(key).or_default().add(cell);
    }
    rails.retain(|_, rates| !rates.rates.is_empty());
    let mut rails: Vec<_> = rails.into_iter().collect();
    rails.sort_by(|(_, a), (_, b)| a.share().total_cmp(&b.share()));
    sheet.put(&RAILS_FOLDED, &[], rails.len().saturating_sub(MOST_RAILS) as f64);
    for ((test, rail, load, engine), rates) in rails.iter().take(MOST_RAILS) {
        let labels = [*test, rail.as_str(), *load, engine.as_str()];
        sheet.put_known(&RAIL_MEDIAN, &labels, median(&rates.rates));
        sheet.put_known(&RAIL_LOWEST, &labels, lowest(&rates.rates));
        sheet.put_known(&RAIL_EXPECTED, &labels, median(&rates.expected));
        sheet.put(&RAIL_SIZE, &labels, rates.size as f64);
        sheet.put(&RAIL_CELLS, &labels, rates.rates.len() as f64);
    }
}

/// Cables, equal paths and firmware, where a run knows of them.
fn parts_of_the_fabric(sheet: &mut Sheet, judgement: &Judgement) {
    let mut links: BTreeMap<String, u32> = BTreeMap::new();
    for link in &judgement.coverage.links {
        *links.entry(link.state.to_string()).or_default() += 1;
    }
    if !links.is_empty() {
        for state in ["untested", "underloaded", "healthy", "suspected", "slow"] {
            let count = links.get(state).copied().unwrap_or(0);
            sheet.put(&LINKS, &[state], f64::from(count));
        }
    }
    let mut losses: BTreeMap<&str, f64> = BTreeMap::new();
    for link in &judgement.coverage.links {
        if let (Some(rail), Some(loss)) = (link.rail.as_deref(), link.smallest_loss) {
            let worst = losses.entry(rail).or_insert(loss);
            *worst = worst.max(loss);
        }
    }
    for (rail, loss) in losses.iter().take(MOST_RAILS) {
        sheet.put(&SMALLEST_LOSS, &[rail], *loss);
    }
    let mut causes: BTreeMap<String, u32> = BTreeMap::new();
    for choice in &judgement.ecmp {
        *causes.entry(choice.cause.to_string()).or_default() += 1;
    }
    for (cause, count) in &causes {
        sheet.put(&ECMP, &[cause], f64::from(*count));
    }
    let lost: Vec<f64> = judgement.ecmp.iter().filter_map(|choice| choice.lost).collect();
    sheet.put_known(&ECMP_LOST, &[], lost.into_iter().reduce(f64::max));
    let drift = judgement
        .drift
        .as_ref()
        .map(|drift| drift.deviations.len() as f64);
    sheet.put_known(&DRIFT, &[], drift);
}

fn word_of(verdict: &Verdict) -> &'static str {
    match verdict_words(verdict).0 {
        "not run" => "not_run",
        word => word,
    }
}

/// Measured over expected.
fn share(cell: &CellVerdict) -> Option<f64> {
    let (measured, expected) = (cell.wire_rate?.median.0, cell.expected?.0);
    (expected > 0.0).then(|| measured / expected)
}

fn second(text: &str) -> Option<f64> {
    let at: jiff::Timestamp = text.parse().ok()?;
    Some(at.as_second() as f64)
}

fn lowest(values: &[f64]) -> Option<f64> {
    values.iter().copied().reduce(f64::min)
}

/// The words of statuses, as labels.
const STATUSES: [&str; 5] = ["new", "still", "again", "gone", "unknown"];

/// What changed since earlier runs: issues are counted, not named, so that dashboards stay small.
fn put_history(sheet: &mut Sheet, history: &History) {
    sheet.put(&HISTORY_NIGHTS, &[], f64::from(history.nights));
    sheet.put(&HISTORY_SERIES, &["compared"], f64::from(history.compared));
    sheet.put(&HISTORY_SERIES, &["young"], f64::from(history.young));
    for status in STATUSES {
        for severity in Severity::iter() {
            let issues = history.issues.iter();
            let count = issues
                .filter(|issue| status_label(&issue.status) == status && issue.severity == severity)
                .count();
            sheet.put(&HISTORY_ISSUES, &[status, &severity.to_string()], count as f64);
        }
    }
    sheet.put(&HISTORY_REPLACED, &[], history.replaced.len() as f64);
}

fn status_label(status: &IssueStatus) -> &'static str {
    match status {
        IssueStatus::New => "new",
        IssueStatus::Still { .. } => "still",
        IssueStatus::Again { .. } => "again",
        IssueStatus::Gone { .. } => "gone",
        IssueStatus::Unknown { .. } => "unknown",
    }
}
