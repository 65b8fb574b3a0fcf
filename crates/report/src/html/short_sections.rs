//! Sections that are a sentence and a table: tests, counters, coverage, figures, comparisons, earlier runs.

use std::collections::BTreeMap;

use super::builder::HtmlBuilder;
use super::facts::Facts;
use crate::table::{Entry, Table, Tone, figure, text};
use crate::{cells, congestion, counters as moved, engines, history as history_rows, probes, traffic};
use record::{CounterReport, Untested, files};

/// Counters that break no rule and have a row; those that break one all do.
const MOST_HARMLESS: usize = 500;
/// Names in one row of what was left out before the rest is counted.
const MOST_NAMED: usize = 200;

/// How every test did.
pub(super) fn tests(out: &mut HtmlBuilder, facts: &Facts<'_>) {
    match facts.judgement.tests.is_empty() {
        true => out.paragraph("None planned."),
        false => out.table(&cells::tests(&facts.judgement.tests)),
    }
}

/// Port counters that changed, and those that could not be read.
pub(super) fn counters(out: &mut HtmlBuilder, facts: &Facts<'_>) {
    let Some(counters) = &facts.judgement.counters else {
        out.paragraph("No port counter was read in this run.");
        return;
    };
    if let Some(trouble) = &counters.trouble {
        out.paragraph(&format!("The rules of this run could not be used: {trouble}."));
    }
    out.paragraph(&moved::about(counters));
    if counters.moved.is_empty() {
        out.paragraph("None changed.");
    }
    let (bad, harmless): (Vec<_>, Vec<_>) = counters
        .moved
        .iter()
        .cloned()
        .partition(|counter| counter.rule.is_some());
    let shown: Vec<_> = bad
        .into_iter()
        .chain(harmless.iter().take(MOST_HARMLESS).cloned())
        .collect();
    out.table(&moved::table(&shown));
    let left = harmless.len().saturating_sub(MOST_HARMLESS);
    if left > 0 {
        out.paragraph(&format!("{left} more that break no rule are in findings.json."));
    }
    if counters.more > 0 {
        out.paragraph(&format!("{} more changed, each less than these.", counters.more));
    }
    out.table(&unread(counters));
}

fn unread(counters: &CounterReport) -> Table {
    let columns = [text("counter"), figure("rail ends"), text("why")];
    let mut table = Table::new("Not read, values unknown", columns);
    for unread in &counters.unread {
        table.row([
            Entry::from(&unread.name),
            Entry::ours(format!("{} of {}", unread.ports, counters.ports)),
            Entry::from(unread.why.as_deref().unwrap_or("no such counter")),
        ]);
    }
    table
}

/// What was measured of what was planned, and what was not and why.
pub(super) fn coverage(out: &mut HtmlBuilder, facts: &Facts<'_>) {
    let coverage = &facts.judgement.coverage;
    out.paragraph(&format!(
        "{} of {} planned cells measured. What was not measured may be faulty.",
        coverage.measured, coverage.planned
    ));
    left_out(out, "Planned but not measured", &coverage.not_measured);
    left_out(out, "Left out by the plan", &coverage.untested);
    if coverage.not_measured.is_empty() && coverage.untested.is_empty() {
        out.paragraph("Nothing left out.");
    }
}

/// Things that were left out, those with the same reason in one row.
fn left_out(out: &mut HtmlBuilder, caption: &str, entries: &[Untested]) {
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for entry in entries {
        reasons.entry(&entry.why).or_default().push(&entry.what);
    }
    let mut table = Table::new(caption, [text("why"), figure("how many"), text("what")]);
    for (why, what) in reasons {
        let named: Vec<&str> = what.iter().take(MOST_NAMED).copied().collect();
        let more = match what.len().saturating_sub(MOST_NAMED) {
            0 => String::new(),
            more => format!("; and {more} more in findings.json"),
        };
        table.row([
            Entry::from(why).toned(Tone::Unclear),
            Entry::ours(what.len()),
            Entry::from(format!("{}{more}", named.join("; "))),
        ]);
    }
    out.table(&table);
}

/// All figures of the run.
pub(super) fn figures(out: &mut HtmlBuilder, facts: &Facts<'_>) {
    if facts.figures.is_empty() {
        out.paragraph("None: nothing was measured that could be drawn.");
    }
    facts.figures.iter().for_each(|figure| out.figure(figure));
}

/// Rows of one table; a comparison is never a verdict, so those behind them are only counted.
const MOST_COMPARED: usize = 600;

/// Everything that was measured in two ways.
pub(super) fn comparisons(out: &mut HtmlBuilder, facts: &Facts<'_>) {
    let judgement = facts.judgement;
    let is_empty = judgement.interference.is_empty()
        && judgement.engines.is_empty()
        && judgement.congestion.is_empty()
        && judgement.under_load.is_empty()
        && judgement.fair_shares.is_empty()
        && judgement.traffic.is_empty();
    if is_empty {
        out.paragraph(
            "None: no cell of this run was measured both alone and together, by two engines, or both idle and under load.",
        );
        return;
    }
    if !judgement.interference.is_empty() {
        out.paragraph(
            "Rate of one rail while all rails run, divided by its rate alone. 1.00: no interference.",
        );
        out.table(&cells::interference(judgement, MOST_COMPARED));
        more_rows(out, judgement.interference.len());
    }
    if !judgement.engines.is_empty() {
        out.paragraph(&format!("{}.", engines::overview(&judgement.engines)));
        out.table(&engines::table(judgement, MOST_COMPARED));
        more_rows(out, judgement.engines.len());
    }
    if !judgement.congestion.is_empty() {
        out.paragraph(congestion::ABOUT);
        let shown = judgement.congestion.len().min(MOST_COMPARED);
        out.table(&congestion::table(&judgement.congestion[..shown]));
        more_rows(out, judgement.congestion.len());
    }
    if !judgement.under_load.is_empty() {
        out.paragraph(congestion::ABOUT_UNDER_LOAD);
        let shown = judgement.under_load.len().min(MOST_COMPARED);
        out.table(&congestion::under_load(&judgement.under_load[..shown]));
        more_rows(out, judgement.under_load.len());
    }
    if !judgement.fair_shares.is_empty() {
        out.paragraph(congestion::ABOUT_SHARES);
        let shown = judgement.fair_shares.len().min(MOST_COMPARED);
        out.table(&congestion::shares(&judgement.fair_shares[..shown]));
        more_rows(out, judgement.fair_shares.len());
    }
    if !judgement.traffic.is_empty() {
        out.paragraph(traffic::ABOUT);
        let shown = judgement.traffic.len().min(MOST_COMPARED);
        out.table(&traffic::table(&judgement.traffic[..shown]));
        more_rows(out, judgement.traffic.len());
    }
}

fn more_rows(out: &mut HtmlBuilder, rows: usize) {
    if let left @ 1.. = rows.saturating_sub(MOST_COMPARED) {
        out.paragraph(&format!("{left} more in findings.json."));
    }
}

/// Whether there were probes.
pub(super) fn has_probes(facts: &Facts<'_>) -> bool {
    !facts.judgement.probes.is_empty()
}

/// What became of probes.
pub(super) fn probes(out: &mut HtmlBuilder, facts: &Facts<'_>) {
    out.paragraph(probes::ABOUT);
    out.table(&probes::table(&facts.judgement.probes));
}

/// Whether the run was compared with earlier ones.
pub(super) fn has_history(facts: &Facts<'_>) -> bool {
    facts.recorded.history.is_some()
}

/// Issues, replaced parts, and what could not be compared.
pub(super) fn history(out: &mut HtmlBuilder, facts: &Facts<'_>) {
    let Some(history) = &facts.recorded.history else {
        return;
    };
    out.paragraph(&history.summary);
    out.paragraph(&history_rows::about(history));
    if !history.issues.is_empty() {
        out.table(&history_rows::issues(history, history_rows::MOST_ISSUES));
    }
    if !history.replaced.is_empty() {
        out.table(&history_rows::replaced(history, history_rows::MOST_ISSUES));
    }
    let most = history.issues.len().max(history.replaced.len());
    if most > history_rows::MOST_ISSUES {
        out.paragraph(&format!("The rest is in {}.", files::HISTORY));
    }
    if !history.skipped.is_empty() {
        out.paragraph("Not compared with:");
        out.within("ul", &[], |out| {
            for folder in history.skipped.iter().take(history_rows::MOST_ISSUES) {
                out.leaf("li", &[], folder);
            }
        });
    }
}
