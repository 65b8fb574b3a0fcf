//! Sections that are a sentence and a table: tests, counters, coverage.

use std::collections::BTreeMap;

use super::super::table::{Entry, Table, Tone, figure, text};
use super::super::{cells, counters as moved};
use super::out::Out;
use super::{Facts, counted};
use record::{CounterReport, Untested};

/// Counters that break no rule and have a row; those that break one all do.
const MOST_HARMLESS: usize = 500;
/// Names in one row of what was left out before the rest is counted.
const MOST_NAMED: usize = 200;

/// How every test did.
pub(super) fn tests(out: &mut Out, facts: &Facts<'_>) {
    match facts.judgement.tests.is_empty() {
        true => out.paragraph("None was planned."),
        false => out.table(&cells::tests(&facts.judgement.tests)),
    }
}

/// Counters that moved, and those that nobody could read.
pub(super) fn counters(out: &mut Out, facts: &Facts<'_>) {
    let Some(counters) = &facts.judgement.counters else {
        out.paragraph("No counter was read in this run: nothing is known of what ports counted.");
        return;
    };
    if let Some(trouble) = &counters.trouble {
        out.paragraph(&format!("The rules of this run could not be used: {trouble}."));
    }
    out.paragraph(&moved::about(counters));
    if counters.moved.is_empty() {
        out.paragraph("None moved.");
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
        out.paragraph(&format!("{left} more that break no rule in findings.json."));
    }
    if counters.more > 0 {
        out.paragraph(&format!(
            "{} more moved, all of them less than these.",
            counters.more
        ));
    }
    out.table(&unread(counters));
}

fn unread(counters: &CounterReport) -> Table {
    let columns = [text("counter"), figure("ends of rails"), text("why")];
    let mut table = Table::new("Not read, and therefore unknown", columns);
    for unread in &counters.unread {
        table.row([
            Entry::from(&unread.name),
            Entry::ours(format!("{} of {}", unread.ports, counters.ports)),
            Entry::from(unread.why.as_deref().unwrap_or("there is none")),
        ]);
    }
    table
}

/// What was measured of what was planned, and what was not and why.
pub(super) fn coverage(out: &mut Out, facts: &Facts<'_>) {
    let coverage = &facts.judgement.coverage;
    out.paragraph(&format!(
        "{} of {} planned cells measured. What was not measured is not known to be healthy.",
        coverage.measured, coverage.planned
    ));
    left_out(out, "Planned but not measured", &coverage.not_measured);
    left_out(out, "Left out by the plan", &coverage.untested);
    if coverage.not_measured.is_empty() && coverage.untested.is_empty() {
        out.paragraph("Nothing was left out.");
    }
}

/// Things that were left out, those with the same reason in one row.
fn left_out(out: &mut Out, caption: &str, entries: &[Untested]) {
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for entry in entries {
        reasons.entry(&entry.why).or_default().push(&entry.what);
    }
    let mut table = Table::new(caption, [text("why"), figure("how many"), text("what")]);
    for (why, what) in reasons {
        let named: Vec<&str> = what.iter().take(MOST_NAMED).copied().collect();
        let more = match what.len().saturating_sub(MOST_NAMED) {
            0 => String::new(),
            more => format!("; and {} in findings.json", counted(more, "more", "more")),
        };
        table.row([
            Entry::from(why).toned(Tone::Unclear),
            Entry::ours(what.len()),
            Entry::from(format!("{}{more}", named.join("; "))),
        ]);
    }
    out.table(&table);
}
