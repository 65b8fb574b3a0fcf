//! What changed since earlier runs: the same rows and sentences in every format.

use std::fmt::{Error, Write};

use super::escape::{line, markdown as inert};
use super::table::{Entry, Table, Tone, text};
use record::text::counted_as;
use record::{History, Issue, IssueStatus, Severity, files};

/// The heading wherever it has one.
pub(super) const TITLE: &str = "Since earlier runs";

/// Issues that are listed before the rest is counted.
pub(super) const MOST_ISSUES: usize = 200;

/// A sentence about what was compared with what.
pub(super) fn about(history: &History) -> String {
    let young = match history.young {
        0 => String::new(),
        young => {
            format!("; {young} have too few earlier runs and are compared only with their peers of this run")
        }
    };
    format!(
        "Compared with {}: {} against their own past{young}.",
        counted_as(
            history.nights as usize,
            "earlier run of this suite",
            "earlier runs of this suite"
        ),
        counted_as(history.compared as usize, "series", "series"),
    )
}

/// The issues, most severe first.
pub(super) fn issues(history: &History, most: usize) -> Table {
    let columns = [
        text("severity"),
        text("status"),
        text("part"),
        text("first seen"),
        text("what"),
    ];
    let mut table = Table::new("Issues over the runs", columns);
    for issue in history.issues.iter().take(most) {
        table.row([
            Entry::ours(severity(issue)).toned(tone(issue)),
            Entry::ours(issue.status.in_words()),
            Entry::from(&issue.part),
            Entry::from(&issue.first),
            Entry::from(without_status(issue)),
        ]);
    }
    table
}

/// Parts that were replaced.
pub(super) fn replaced(history: &History, most: usize) -> Table {
    let columns = [text("part"), text("kind"), text("was"), text("is"), text("since")];
    let mut table = Table::new("Replaced parts, whose history starts anew", columns);
    for part in history.replaced.iter().take(most) {
        table.row([
            Entry::from(&part.part),
            Entry::ours(part.kind),
            Entry::from(&part.before),
            Entry::from(&part.after),
            Entry::from(&part.since),
        ]);
    }
    table
}

/// The sentence without its status, which has a column of its own.
fn without_status(issue: &Issue) -> &str {
    let sentence = issue.sentence.as_str();
    let rest = sentence.strip_prefix(&issue.status.in_words());
    rest.and_then(|rest| rest.strip_prefix(": ")).unwrap_or(sentence)
}

/// The severity, and whether it was reported before.
fn severity(issue: &Issue) -> String {
    match (issue.severity, issue.due) {
        (Severity::Info, _) | (_, true) => issue.severity.to_string(),
        (severity, false) => format!("{severity} (reported before)"),
    }
}

fn tone(issue: &Issue) -> Tone {
    match (&issue.status, issue.severity) {
        (IssueStatus::Gone { .. }, _) => Tone::Good,
        (_, Severity::Page) => Tone::Bad,
        (_, Severity::Ticket) => Tone::Unclear,
        (_, Severity::Info) => Tone::Plain,
    }
}

/// The section of `report.md`; nothing for a run that was not compared.
pub(super) fn section(out: &mut String, history: Option<&History>, most: usize) -> Result<(), Error> {
    let Some(history) = history else { return Ok(()) };
    writeln!(
        out,
        "## {TITLE}\n\n**{}**\n\n{}\n",
        inert(&history.summary),
        about(history)
    )?;
    if !history.issues.is_empty() {
        issues(history, most).markdown(out)?;
        writeln!(out)?;
        left_over(out, history.issues.len(), most)?;
    }
    if !history.replaced.is_empty() {
        writeln!(out, "Replaced parts, whose history starts anew:\n")?;
        replaced(history, most).markdown(out)?;
        writeln!(out)?;
        left_over(out, history.replaced.len(), most)?;
    }
    if !history.skipped.is_empty() {
        writeln!(out, "Not compared with:\n")?;
        for folder in history.skipped.iter().take(most) {
            writeln!(out, "- {}", inert(folder))?;
        }
        writeln!(out)?;
        left_over(out, history.skipped.len(), most)?;
    }
    Ok(())
}

fn left_over(out: &mut String, rows: usize, most: usize) -> Result<(), Error> {
    match rows.saturating_sub(most) {
        0 => Ok(()),
        left => writeln!(out, "{left} more in {}.\n", files::HISTORY),
    }
}

/// Issues in one line each, those that are due first; known issues that are not due are left out.
pub(super) fn lines(history: &History) -> Vec<String> {
    let mut shown: Vec<&Issue> = history
        .issues
        .iter()
        .filter(|issue| issue.due || !matches!(issue.status, IssueStatus::Still { .. }))
        .collect();
    shown.sort_by_key(|issue| !issue.due);
    let line_of = |issue: &Issue| {
        let status = issue.status.in_words();
        format!("{}: {status}: {}", issue.severity, line(without_status(issue)))
    };
    shown.into_iter().map(line_of).collect()
}
