//! The certificate in few lines: Markdown for a ticket, and what a terminal shows.

use std::fmt::Write;

use super::tables;
use crate::escape::{line, markdown as inert};
use record::text::counted;
use record::{Certificate, PartDecision, Ruling};

/// Incidents and parts listed in Markdown; the rest is counted.
const MOST_LISTED: usize = 10;
/// Lines and columns of a terminal.
const LINES: usize = 24;
const COLUMNS: usize = 100;
/// Lines that one incident may take on a terminal.
const LINES_EACH: usize = 3;

/// Parts that are not accepted, rejected ones first.
fn open(certificate: &Certificate) -> impl Iterator<Item = &PartDecision> {
    let all = certificate
        .nodes
        .iter()
        .chain(&certificate.links)
        .chain(&certificate.gpus);
    let mut open: Vec<&PartDecision> = all.filter(|part| part.ruling != Ruling::Accept).collect();
    open.sort_by_key(|part| std::cmp::Reverse(part.ruling));
    open.into_iter()
}

/// A few lines of Markdown.
pub(super) fn markdown(certificate: &Certificate) -> Result<String, std::fmt::Error> {
    let mut out = String::new();
    let decision = tables::word(certificate.ruling).to_uppercase();
    writeln!(out, "# Burn-in {}: {decision}\n", inert(&certificate.suite))?;
    writeln!(out, "{}\n", inert(&certificate.summary))?;
    for (name, value) in tables::facts(certificate) {
        writeln!(out, "- {name}: {}", inert(&value))?;
    }
    let counting: Vec<_> = certificate
        .incidents
        .iter()
        .filter(|incident| incident.counts)
        .collect();
    if !counting.is_empty() {
        writeln!(out, "\n## Incidents\n")?;
        for incident in counting.iter().take(MOST_LISTED) {
            writeln!(
                out,
                "- **{}** {}. Next: {}",
                incident.kind,
                inert(&incident.sentence),
                inert(&incident.next_step)
            )?;
        }
        more(&mut out, counting.len())?;
    }
    let not_counted = certificate.incidents.len() - counting.len();
    if not_counted > 0 {
        let shown = counted(not_counted, "sighting");
        writeln!(out, "\n{shown} not counted; certificate.html lists them.")?;
    }
    let parts: Vec<&PartDecision> = open(certificate).collect();
    if !parts.is_empty() {
        writeln!(out, "\n## Parts that are not accepted\n")?;
        for part in parts.iter().take(MOST_LISTED) {
            writeln!(
                out,
                "- {} **{}**: {}",
                inert(&part.part),
                tables::word(part.ruling),
                inert(&part.why)
            )?;
        }
        more(&mut out, parts.len())?;
    }
    if !certificate.untested.is_empty() {
        let shown = counted(certificate.untested.len(), "thing");
        writeln!(
            out,
            "\n{shown} not loaded or measured; certificate.html lists them."
        )?;
    }
    Ok(out)
}

fn more(out: &mut String, all: usize) -> std::fmt::Result {
    match all.saturating_sub(MOST_LISTED) {
        0 => Ok(()),
        more => writeln!(out, "- and {more} more"),
    }
}

/// What a terminal shows: at most 24 lines.
pub(super) fn terminal(certificate: &Certificate) -> String {
    let mut lines = vec![clipped(&format!(
        "burn-in {}: {}",
        certificate.suite,
        tables::word(certificate.ruling).to_uppercase()
    ))];
    lines.extend(wrapped("", &certificate.summary, LINES_EACH));
    for (name, value) in tables::facts(certificate) {
        if ["under load", "cycles", "data checked"].contains(&name) {
            lines.push(clipped(&format!("  {name}: {value}")));
        }
    }
    let counts = tables::counts(certificate);
    for row in &counts.rows {
        if let [name, accepted, extend, rejected] = row.as_slice() {
            lines.push(clipped(&format!(
                "  {}: {} accepted, {} extend, {} rejected",
                name.text, accepted.text, extend.text, rejected.text
            )));
        }
    }
    // The last two lines: what is left out, and the exit code.
    let room = LINES - 2;
    let mut left_out = 0;
    for incident in &certificate.incidents {
        let mark = if incident.counts { "!" } else { "?" };
        let shown = wrapped(&format!("{mark} "), &incident.sentence, LINES_EACH);
        match left_out == 0 && lines.len() + shown.len() <= room {
            true => lines.extend(shown),
            false => left_out += 1,
        }
    }
    if left_out > 0 {
        lines.push(format!(
            "  and {} more in certificate.html",
            counted(left_out, "incident")
        ));
    }
    lines.push(format!("exit code {}", certificate.exit_code));
    lines.join("\n") + "\n"
}

fn clipped(text: &str) -> String {
    let text = line(text);
    match text.chars().count() > COLUMNS {
        true => text.chars().take(COLUMNS - 3).chain("...".chars()).collect(),
        false => text,
    }
}

/// A text in so many lines at most, broken between words where it has any; what is left over is cut.
fn wrapped(mark: &str, text: &str, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut now = mark.to_string();
    for word in line(text).split(' ') {
        let is_begun = now.trim_end() != mark.trim_end();
        if is_begun && now.chars().count() + 1 + word.chars().count() > COLUMNS {
            lines.push(std::mem::replace(&mut now, " ".repeat(mark.len().max(2) + 2)));
        }
        if !now.ends_with(' ') && !now.is_empty() {
            now.push(' ');
        }
        now.push_str(word);
    }
    lines.push(now);
    let is_cut = lines.len() > most;
    lines.truncate(most);
    if let Some(last) = lines.last_mut().filter(|_| is_cut) {
        last.push_str(" ...");
    }
    lines.iter().map(|line| clipped(line)).collect()
}
