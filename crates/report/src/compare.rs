//! Two runs side by side, for people and for machines: the regression first, with its part named.
//!
//! On a terminal at most 24 lines of 80, in a log everything in full; Markdown for a ticket; JSON as `docs/compare.schema.json`
//! describes it. Names that came from other machines are inert in each.

use std::fmt::{self, Write};
use std::io;

use super::escape::{self, markdown as inert, markdown_code};
use super::terminal::Page;
use crate::verdict_words::verdict_words;
use record::units::Nanos;
use record::{
    Comparison, FindingChange, FindingState, Interval, OneSided, Pace, RunChange, Shift, TestChange, Verdict,
};

/// Rows after which a table of Markdown refers to the JSON.
const MOST_ROWS: usize = 200;

/// The comparison as JSON.
pub fn json(comparison: &Comparison) -> io::Result<String> {
    crate::json::pretty(comparison)
}

/// One thing to say on a terminal: in full where it comes first, in one line where others do.
struct Item {
    label: &'static str,
    text: String,
    repeat: Option<String>,
}

/// The comparison for a person.
pub fn terminal(comparison: &Comparison, page: Page) -> String {
    let mut head = vec![headline(comparison, &page)];
    for remark in comparison.remarks.iter().take(3) {
        head.push(page.clip(&format!("note       {}", escape::line(remark))));
    }
    let tail = tail(comparison, &page);
    let items = items(comparison);
    let mut room = page
        .most_lines()
        .saturating_sub(page.height(&head) + page.height(&tail));
    let mut listed = 0;
    for item in &items {
        let is_last = listed + 1 == items.len();
        let lines = match listed == 0 || page.is_log() {
            true => in_full(item, &page),
            false => vec![page.clip(&format!("{:<11}{}", item.label, escape::line(&item.text)))],
        };
        if page.height(&lines) + usize::from(!is_last) > room {
            break;
        }
        room -= page.height(&lines);
        head.extend(lines);
        listed += 1;
    }
    if listed < items.len() {
        head.push(format!(
            "... {} more: `railgauge compare --md` or `--json` has all",
            items.len() - listed
        ));
    }
    head.extend(tail);
    head.join("\n") + "\n"
}

fn headline(comparison: &Comparison, page: &Page) -> String {
    let word = comparison.outcome.to_string().to_uppercase();
    let text = page.clip(&format!(
        "{word:<13}{} -> {} (exit code {})",
        escape::line(&comparison.old.name),
        escape::line(&comparison.new.name),
        comparison.exit_code
    ));
    let kind = match comparison.exit_code {
        0 => Verdict::Pass,
        12 => Verdict::Fail(String::new()),
        _ => Verdict::Inconclusive(String::new()),
    };
    match text.split_once(' ') {
        Some((word, rest)) => format!("{} {rest}", page.verdict(&kind, word)),
        None => text,
    }
}

/// Everything that is worth a line, the worst first.
fn items(comparison: &Comparison) -> Vec<Item> {
    let shift = |label: &'static str, shift: &Shift| Item {
        label,
        text: shift.sentence.clone(),
        repeat: shift.repeat.clone(),
    };
    let in_state = |wanted: FindingState, label: &'static str| {
        let findings = comparison.findings.iter();
        findings
            .filter(move |finding| finding.state == wanted)
            .map(move |finding| Item {
                label,
                text: of_finding(finding),
                repeat: None,
            })
    };
    let mut items: Vec<Item> = comparison
        .slower
        .iter()
        .map(|line| shift("slower", line))
        .collect();
    items.extend(in_state(FindingState::New, "failing"));
    let mut tests: Vec<&TestChange> = comparison.tests.iter().collect();
    tests.sort_by_key(|test| rank(test));
    items.extend(tests.iter().map(|test| Item {
        label: "test",
        text: of_test(test),
        repeat: None,
    }));
    items.extend(comparison.no_longer_tested.iter().map(|line| Item {
        label: "untested",
        text: one_sided(line, "no longer"),
        repeat: None,
    }));
    items.extend(in_state(FindingState::NotLookedAt, "not seen"));
    items.extend(in_state(FindingState::Still, "still"));
    items.extend(comparison.faster.iter().map(|line| shift("faster", line)));
    items.extend(in_state(FindingState::Gone, "gone"));
    items.extend(comparison.newly_tested.iter().map(|line| Item {
        label: "tested",
        text: one_sided(line, "newly"),
        repeat: None,
    }));
    items.extend(comparison.inventory.iter().map(|text| Item {
        label: "changed",
        text: text.clone(),
        repeat: None,
    }));
    items.extend(comparison.changed.iter().map(|change| Item {
        label: "changed",
        text: of_change(change),
        repeat: None,
    }));
    items
}

/// Tests that got worse come first.
fn rank(test: &TestChange) -> u8 {
    match (&test.old, &test.new) {
        (_, Some(Verdict::Fail(_))) => 0,
        (Some(Verdict::Pass), _) => 1,
        (_, Some(Verdict::Pass)) => 3,
        _ => 2,
    }
}

fn of_finding(finding: &FindingChange) -> String {
    let before = match finding.looked_at_before {
        true => "",
        false => " (not checked before)",
    };
    format!("{} {}{before}: {}", finding.kind, finding.part, finding.sentence)
}

fn of_test(test: &TestChange) -> String {
    let word = |verdict: &Option<Verdict>| {
        verdict
            .as_ref()
            .map_or("absent", |verdict| verdict_words(verdict).0)
    };
    let why = test.new.as_ref().and_then(|verdict| verdict_words(verdict).1);
    let why = why.map_or_else(String::new, |why| format!(": {why}"));
    format!("{}: {} -> {}{why}", test.name, word(&test.old), word(&test.new))
}

fn of_change(change: &RunChange) -> String {
    format!("{}: {} -> {}", change.what, change.old, change.new)
}

fn one_sided(line: &OneSided, how: &str) -> String {
    match (line.cells, line.of) {
        (Some(cells), Some(of)) => {
            format!("{}: {cells} of {of} cells {how} tested: {}", line.part, line.why)
        }
        _ => format!("{}: {how} tested: {}", line.part, line.why),
    }
}

fn in_full(item: &Item, page: &Page) -> Vec<String> {
    let mut lines = page.wrap(&format!("{:<11}", item.label), &item.text, 6);
    if let Some(first) = lines.first_mut() {
        *first = page.bold(first);
    }
    // Not wrapped: it is meant to be copied.
    lines.extend(
        item.repeat
            .iter()
            .map(|repeat| format!("  repeat   {}", escape::line(repeat))),
    );
    lines
}

/// What was compared, by which rule.
fn tail(comparison: &Comparison, page: &Page) -> Vec<String> {
    let counts = &comparison.counts;
    let cells = format!(
        "cells      {} compared: {} slower, {} faster, {} the same, {} unclear",
        counts.compared, counts.slower, counts.faster, counts.same, counts.unclear
    );
    let mut lines = vec![page.clip(&cells)];
    if counts.only_old + counts.only_new + counts.without_speed > 0 {
        lines.push(page.clip(&format!(
            "           {} measured only in the old run, {} only in the new, {} without a rate of their own",
            counts.only_old, counts.only_new, counts.without_speed
        )));
    }
    lines.extend(page.wrap("rule       ", &rule(comparison), 2));
    lines
}

fn rule(comparison: &Comparison) -> String {
    let rule = &comparison.rule;
    let margin = match rule.margin {
        Some(margin) => format!("margin {:.1} %", margin * 100.0),
        None => "each test's own margin".to_string(),
    };
    format!(
        "{margin}; {} % intervals; chance {} of any false change over {} comparisons",
        rule.confidence * 100.0,
        rule.false_positive_budget,
        rule.comparisons
    )
}

/// The comparison as Markdown.
pub fn markdown(comparison: &Comparison) -> io::Result<String> {
    let mut out = String::new();
    page(&mut out, comparison).map_err(io::Error::other)?;
    Ok(out)
}

fn page(out: &mut String, comparison: &Comparison) -> fmt::Result {
    writeln!(
        out,
        "# {} -> {}: {}\n",
        inert(&comparison.old.name),
        inert(&comparison.new.name),
        comparison.outcome
    )?;
    writeln!(out, "**{}**\n", inert(&comparison.summary))?;
    writeln!(out, "| | old | new |\n|---|---|---|")?;
    let (old, new) = (&comparison.old, &comparison.new);
    for (what, old, new) in [
        ("run", &old.name, &new.name),
        ("suite", &old.suite, &new.suite),
        ("started", &old.started, &new.started),
    ] {
        writeln!(out, "| {what} | {} | {} |", inert(old), inert(new))?;
    }
    let verdict = |verdict: &Verdict| verdict_words(verdict).0;
    writeln!(
        out,
        "| verdict | {} | {} |",
        verdict(&old.verdict),
        verdict(&new.verdict)
    )?;
    writeln!(
        out,
        "| measured | {} of {} cells | {} of {} cells |\n",
        old.measured, old.planned, new.measured, new.planned
    )?;
    lines(out, "Notes", comparison.remarks.iter().map(String::clone))?;
    shifts(out, "Slower", &comparison.slower)?;
    let findings = comparison.findings.iter();
    lines(
        out,
        "Findings",
        findings.map(|finding| format!("{}: {}", finding.state, of_finding(finding))),
    )?;
    lines(
        out,
        "Tests whose verdict changed",
        comparison.tests.iter().map(of_test),
    )?;
    let gone = comparison.no_longer_tested.iter();
    lines(
        out,
        "No longer tested",
        gone.map(|line| one_sided(line, "no longer")),
    )?;
    shifts(out, "Faster", &comparison.faster)?;
    let came = comparison.newly_tested.iter();
    lines(out, "Newly tested", came.map(|line| one_sided(line, "newly")))?;
    let changed = comparison.inventory.iter().cloned();
    lines(
        out,
        "Configuration changes",
        changed.chain(comparison.changed.iter().map(of_change)),
    )?;
    cells(out, comparison)?;
    writeln!(out, "## Rule\n\n{}.", inert(&rule(comparison)))
}

fn lines(out: &mut String, title: &str, lines: impl Iterator<Item = String>) -> fmt::Result {
    let lines: Vec<String> = lines.collect();
    if lines.is_empty() {
        return Ok(());
    }
    writeln!(out, "## {title}\n")?;
    for line in lines.iter().take(MOST_ROWS) {
        writeln!(out, "- {}", inert(line))?;
    }
    more(out, lines.len())
}

fn shifts(out: &mut String, title: &str, shifts: &[Shift]) -> fmt::Result {
    if shifts.is_empty() {
        return Ok(());
    }
    writeln!(out, "## {title}\n")?;
    for shift in shifts.iter().take(MOST_ROWS) {
        writeln!(out, "- {}", inert(&shift.sentence))?;
    }
    more(out, shifts.len())?;
    match shifts.first().and_then(|shift| shift.repeat.as_deref()) {
        Some(repeat) => writeln!(out, "To repeat the first of them:\n\n{}\n", markdown_code(repeat)),
        None => Ok(()),
    }
}

/// Those that are not the same, the furthest from it first.
fn cells(out: &mut String, comparison: &Comparison) -> fmt::Result {
    let mut rows: Vec<_> = comparison
        .cells
        .iter()
        .filter(|row| row.pace != Pace::Same)
        .collect();
    let ratio = |row: &&record::CellComparison| row.ratio.map_or(1.0, |ratio| ratio.median);
    rows.sort_by(|a, b| a.pace.cmp(&b.pace).then(ratio(a).total_cmp(&ratio(b))));
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(out, "## Cells that changed\n")?;
    writeln!(
        out,
        "| test | cell | | old | new | speed new / old | p |\n|---|---|---|--:|--:|--:|--:|"
    )?;
    for row in rows.iter().take(MOST_ROWS) {
        let why = row
            .why
            .as_ref()
            .map_or_else(String::new, |why| format!(": {}", inert(why)));
        let time = |time: Option<Interval<Nanos>>| {
            time.map_or("-".to_string(), |time| {
                format!("{} [{}, {}]", time.median, time.lower, time.upper)
            })
        };
        let ratio = row.ratio.map_or("-".to_string(), |ratio| {
            format!("{:.2} [{:.2}, {:.2}]", ratio.median, ratio.lower, ratio.upper)
        });
        writeln!(
            out,
            "| {} | {} | {}{why} | {} | {} | {ratio} | {:.1e} |",
            inert(&row.test),
            inert(&row.what),
            row.pace,
            time(row.old),
            time(row.new),
            row.p_value
        )?;
    }
    more(out, rows.len())
}

fn more(out: &mut String, rows: usize) -> fmt::Result {
    match rows.saturating_sub(MOST_ROWS) {
        0 => writeln!(out),
        left => writeln!(out, "\n{left} more: `railgauge compare --json` has all.\n"),
    }
}
