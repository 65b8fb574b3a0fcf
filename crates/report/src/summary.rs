//! `summary.md`: the verdict in a few lines of Markdown, for the page of a pipeline's job.
//!
//! Held true: it stays far below the 1 MiB that such pages take, whatever is in the run; what is cut says so and says where the whole
//! is; it needs no other file, and loads nothing.

use std::fmt::{Error, Write};
use std::io;

use super::escape::{markdown as inert, markdown_code};
use crate::verdict_words::verdict_words;
use crate::writer::Writer;
use record::{Finding, History, Judgement, Recorded, Verdict, files};

/// Findings in the summary; the others are counted.
const MOST_FINDINGS: usize = 10;
/// Rows of the table of tests, those that did not pass first.
const MOST_TESTS: usize = 30;
/// The longest text, in characters.
const LONGEST: usize = 600;
/// The longest name, in characters.
const LONGEST_NAME: usize = 120;
/// The longest command: one that is cut would do something else, so it is left out.
const LONGEST_COMMAND: usize = 2000;

/// The verdict for a pipeline's page.
pub(super) struct Summary;

impl Writer for Summary {
    fn file(&self) -> &'static str {
        files::SUMMARY
    }

    fn render(&self, recorded: &Recorded, judgement: &Judgement) -> io::Result<String> {
        let mut out = String::new();
        let written = head(&mut out, judgement)
            .and_then(|()| findings(&mut out, judgement))
            .and_then(|()| history(&mut out, recorded.history.as_ref()))
            .and_then(|()| tests(&mut out, judgement))
            .and_then(|()| foot(&mut out, judgement));
        written.map_err(io::Error::other)?;
        Ok(out)
    }
}

fn head(out: &mut String, judgement: &Judgement) -> Result<(), Error> {
    let word = verdict_words(&judgement.verdict).0.to_uppercase();
    writeln!(out, "### {word}: {}\n", name(&judgement.suite))?;
    if !judgement.injected.is_empty() {
        let faults: Vec<String> = judgement.injected.iter().take(MOST_FINDINGS).cloned().collect();
        writeln!(
            out,
            "Negative control, {} injected on purpose: {}\n",
            judgement.injected.len(),
            short(&faults.join("; "))
        )?;
    }
    // With findings the sentence of the first follows anyway.
    match judgement.findings.is_empty() {
        true => writeln!(out, "**{}**\n", short(&judgement.summary)),
        false => Ok(()),
    }
}

fn findings(out: &mut String, judgement: &Judgement) -> Result<(), Error> {
    for (number, finding) in judgement.findings.iter().take(MOST_FINDINGS).enumerate() {
        one_finding(out, number + 1, finding)?;
    }
    match judgement.findings.len().saturating_sub(MOST_FINDINGS) {
        0 => Ok(()),
        more => writeln!(
            out,
            "{more} more finding{} in {}.\n",
            if more == 1 { "" } else { "s" },
            files::MARKDOWN
        ),
    }
}

fn one_finding(out: &mut String, number: usize, finding: &Finding) -> Result<(), Error> {
    writeln!(
        out,
        "**{number}. {}: {}**\n\n{}\n",
        finding.kind,
        name(&finding.part()),
        short(&finding.sentence)
    )?;
    if let (Some(measured), Some(expected)) = (&finding.measured, finding.expected) {
        let share = match expected.0 > 0.0 {
            true => format!(" ({:.0} %)", 100.0 * measured.median.0 / expected.0),
            false => String::new(),
        };
        writeln!(out, "- measured {measured}, expected {expected}{share}")?;
    }
    writeln!(out, "- next: {}", short(&finding.next_step))?;
    match &finding.repeat {
        Some(repeat) if repeat.chars().count() <= LONGEST_COMMAND => {
            writeln!(out, "- repeat:\n\n{}\n", markdown_code(repeat))
        }
        Some(_) => writeln!(out, "- repeat: the command is in {}\n", files::MARKDOWN),
        None => writeln!(out),
    }
}

/// What changed since the last history, when the run was compared with any.
fn history(out: &mut String, history: Option<&History>) -> Result<(), Error> {
    let Some(history) = history else { return Ok(()) };
    writeln!(
        out,
        "**{}: {}**\n",
        super::history::TITLE,
        short(&history.summary)
    )?;
    let lines = super::history::lines(history);
    for line in lines.iter().take(MOST_FINDINGS) {
        writeln!(out, "- {}", short(line))?;
    }
    match lines.len().saturating_sub(MOST_FINDINGS) {
        0 => {}
        more => writeln!(out, "- {more} more in {}", files::MARKDOWN)?,
    }
    writeln!(out)
}

fn tests(out: &mut String, judgement: &Judgement) -> Result<(), Error> {
    if judgement.tests.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "| test | verdict | measured | planned | why |\n|---|---|--:|--:|---|"
    )?;
    let mut tests: Vec<_> = judgement.tests.iter().collect();
    if tests.len() > MOST_TESTS {
        tests.sort_by_key(|test| test.verdict == Verdict::Pass);
    }
    for test in tests.iter().take(MOST_TESTS) {
        let (word, why) = verdict_words(&test.verdict);
        writeln!(
            out,
            "| {} | {word} | {} | {} | {} |",
            name(&test.name),
            test.measured,
            test.planned,
            short(why.unwrap_or_default())
        )?;
    }
    match tests.len().saturating_sub(MOST_TESTS) {
        0 => writeln!(out),
        more => writeln!(out, "\n{more} more in {}.\n", files::MARKDOWN),
    }
}

fn foot(out: &mut String, judgement: &Judgement) -> Result<(), Error> {
    let coverage = &judgement.coverage;
    writeln!(
        out,
        "{} of {} planned cells measured, {} left out by the plan. Started {}, exit code {}, railgauge {}.",
        coverage.measured,
        coverage.planned,
        coverage.untested.len(),
        name(&judgement.started),
        judgement.exit_code,
        name(&judgement.version)
    )
}

fn short(text: &str) -> String {
    inert(&clip(text, LONGEST))
}

fn name(text: &str) -> String {
    inert(&clip(text, LONGEST_NAME))
}

fn clip(text: &str, most: usize) -> String {
    match text.chars().count() > most {
        false => text.to_string(),
        true => text.chars().take(most - 3).chain("...".chars()).collect(),
    }
}
