//! Findings: each with the part it names, what it rests on, how sure it is, and what to do.

use super::builder::HtmlBuilder;
use super::facts::Facts;
use crate::links;
use crate::table::{Entry, Table, figure, ranges, text};
use record::text::counted;
use record::units::Nanos;
use record::{CurvePoint, Finding, FindingKind, Interval};

/// Findings written in full; the others are table rows with part, sentence and next step.
const IN_FULL: usize = 150;

/// All findings, worst first.
pub(super) fn section(out: &mut HtmlBuilder, facts: &Facts<'_>) {
    let all = &facts.judgement.findings;
    if all.is_empty() {
        out.paragraph("None.");
        return;
    }
    out.leaf(
        "p",
        &[("class", "hint")],
        "Worst first. The confidences of the suspects of a finding add up to at most 1; p is the probability of such data from a \
         healthy part, corrected for all comparisons.",
    );
    for (at, finding) in all.iter().take(IN_FULL).enumerate() {
        in_full(out, at + 1, finding);
    }
    if all.len() > IN_FULL {
        out.paragraph(&format!(
            "{} in short; findings.json has all details.",
            counted(all.len() - IN_FULL, "more finding")
        ));
        out.table(&in_rows(&all[IN_FULL..]));
    }
}

fn class(finding: &Finding) -> &'static str {
    match finding.kind {
        FindingKind::IncompleteCoverage | FindingKind::UnclearDrift => "finding unclear",
        _ => "finding",
    }
}

fn heading(out: &mut HtmlBuilder, number: usize, finding: &Finding) {
    out.within("h3", &[], |out| {
        out.text(&format!("{number}. "));
        out.leaf("span", &[("class", "kind")], &finding.kind.to_string());
        out.text(": ");
        out.leaf("span", &[("class", "part")], &finding.part());
    });
}

/// A finding for the first screen; its sentence is left out where the verdict already has it.
pub(super) fn in_short(out: &mut HtmlBuilder, number: usize, finding: &Finding, verdict: &str) {
    out.within("article", &[("class", class(finding))], |out| {
        let target = format!("#finding-{number}");
        let label = format!("Evidence of finding {number}");
        let link = [("class", "more"), ("href", &*target), ("aria-label", &*label)];
        out.leaf("a", &link, "Evidence");
        heading(out, number, finding);
        if !verdict.contains(&finding.sentence) {
            out.paragraph(&finding.sentence);
        }
        out.within("dl", &[], |out| {
            figures(out, finding);
            entry(out, "confidence", &sure(finding));
            entry(out, "next", &finding.next_step);
            repeat(out, finding);
        });
    });
}

/// A finding with everything that is known of it.
fn in_full(out: &mut HtmlBuilder, number: usize, finding: &Finding) {
    let id = format!("finding-{number}");
    out.within("article", &[("class", class(finding)), ("id", &id)], |out| {
        heading(out, number, finding);
        out.paragraph(&finding.sentence);
        out.within("dl", &[], |out| {
            figures(out, finding);
            entry(out, "where", &place(finding));
            entry(out, "rule", &finding.rule);
            entry(out, "confidence", &sure(finding));
            entry(out, "cells", &ranges(&sorted(&finding.cells)));
            entry(out, "next", &finding.next_step);
            repeat(out, finding);
        });
        if !finding.evidence.is_empty() {
            out.paragraph("Evidence:");
            out.list(finding.evidence.iter().map(String::as_str));
        }
        if let Some(suspects) = links::suspects(finding) {
            out.table(&suspects);
        }
        out.table(&curve(&finding.curve));
    });
    out.fixed("\n");
}

/// A name and what there is to say of it; nothing where there is nothing.
fn entry(out: &mut HtmlBuilder, name: &str, text: &str) {
    if !text.is_empty() {
        out.leaf("dt", &[], name);
        out.leaf("dd", &[], text);
    }
}

fn figures(out: &mut HtmlBuilder, finding: &Finding) {
    match (finding.measured, finding.expected) {
        (Some(measured), Some(expected)) => {
            let share = match expected.0 > 0.0 {
                true => format!(" ({:.0} %)", measured.median.0 / expected.0 * 100.0),
                false => String::new(),
            };
            entry(
                out,
                "measured",
                &format!("{measured} of {expected} expected{share}"),
            );
        }
        (Some(measured), None) => entry(out, "measured", &measured.to_string()),
        (None, Some(expected)) => entry(out, "expected", &expected.to_string()),
        (None, None) => {}
    }
}

fn repeat(out: &mut HtmlBuilder, finding: &Finding) {
    if let Some(command) = &finding.repeat {
        out.leaf("dt", &[], "repeat");
        out.within("dd", &[], |out| out.command(command));
    }
}

/// How sure a finding is, in a sentence.
fn sure(finding: &Finding) -> String {
    let mut parts: Vec<String> = Vec::new();
    if let Some(suspect) = finding.suspects.first() {
        let among = match finding.suspects.len() {
            1 => "the only suspect".to_string(),
            suspects => format!("the first of {suspects} suspects"),
        };
        parts.push(format!("{:.2}, {among}", suspect.confidence));
    }
    if let Some(confirmation) = &finding.confirmation {
        parts.push(format!(
            "confirmed in {}, p = {:.2e} corrected for {}",
            counted(usize::from(confirmation.rounds), "round"),
            confirmation.p_value,
            counted(confirmation.comparisons as usize, "comparison")
        ));
    }
    if parts.is_empty() {
        parts.push("observed directly, not inferred from samples".to_string());
    }
    parts.push(match finding.not_told_apart_from.is_empty() {
        true => "no other part explains the data".to_string(),
        false => format!("ambiguous with {}", finding.not_told_apart_from.join(", ")),
    });
    // Without suspects or a confirmation there is nothing that another part could fit.
    if finding.suspects.is_empty() && finding.confirmation.is_none() && finding.not_told_apart_from.is_empty()
    {
        parts.pop();
    }
    parts.join("; ")
}

/// Every part that a finding is about, none left out.
fn place(finding: &Finding) -> String {
    let place = &finding.place;
    let mut parts: Vec<String> = Vec::new();
    parts.extend(place.link.iter().map(|link| format!("link {link}")));
    parts.extend(place.switch.iter().map(|switch| format!("switch {switch}")));
    parts.extend(place.rail.iter().map(|rail| format!("rail {rail}")));
    if !place.hosts.is_empty() {
        parts.push(format!("hosts {}", place.hosts.join(", ")));
    }
    if !place.ranks.is_empty() {
        parts.push(format!("ranks {}", ranges(&sorted(&place.ranks))));
    }
    parts.join("; ")
}

fn sorted(numbers: &[u32]) -> Vec<u32> {
    let mut numbers = numbers.to_vec();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

/// Findings in a row each.
fn in_rows(findings: &[Finding]) -> Table {
    let columns = [
        text("part"),
        text("kind"),
        text("finding"),
        figure("measured"),
        figure("expected"),
        text("next"),
        text("repeat"),
    ];
    let mut table = Table::new("More findings", columns);
    for finding in findings {
        table.row([
            Entry::from(finding.part()),
            Entry::ours(finding.kind),
            Entry::from(&finding.sentence),
            Entry::or_dash(finding.measured),
            Entry::or_dash(finding.expected),
            Entry::from(&finding.next_step),
            Entry::from(finding.repeat.as_deref().unwrap_or("-")),
        ]);
    }
    table
}

/// The curve that a finding about a shape rests on.
fn curve(points: &[CurvePoint]) -> Table {
    let columns = [
        figure("size"),
        figure("time"),
        figure("peers"),
        figure("wire rate"),
        figure("iterations"),
        figure("stalls"),
        figure("cell"),
    ];
    let mut table = Table::new("Curve over message size", columns);
    let time = |time: &Interval<Nanos>| format!("{} [{}, {}]", time.median, time.lower, time.upper);
    for point in points {
        table.row([
            Entry::ours(point.size),
            Entry::ours(time(&point.time)),
            Entry::or_dash(point.peers),
            Entry::ours(point.rate),
            Entry::ours(point.iterations),
            Entry::ours(point.stalls),
            Entry::ours(point.cell),
        ]);
    }
    table
}
