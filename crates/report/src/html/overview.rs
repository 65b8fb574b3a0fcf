//! The first screen: is the fabric good, which part is not, how do we know, what is to be done now.

use std::collections::{BTreeSet, HashMap};

use super::builder::HtmlBuilder;
use super::facts::Facts;
use super::findings;
use crate::links;
use crate::table::Tone;
use record::text::counted;
use record::{EndReason, Verdict};

/// Findings on the first screen.
const WORST: usize = 3;
/// Reasons for leaving something out, and things left out for each, that are named before the rest is counted.
const NAMED: usize = 3;

/// Start, end and exit code of the run.
pub(super) fn when(facts: &Facts<'_>) -> String {
    let judgement = facts.judgement;
    let ended = match judgement.ended {
        Some(EndReason::Finished) => "ran to its end".to_string(),
        Some(reason) => format!("ended: {}", format!("{reason:?}").to_lowercase()),
        None => "was interrupted".to_string(),
    };
    let run = &facts.recorded.run;
    format!(
        "Started {}, {ended}. {}, {}. Exit code {}.",
        judgement.started,
        counted(run.hosts.len(), "host"),
        counted(run.ranks.len(), "rank"),
        judgement.exit_code
    )
}

/// What the style sheet calls the sentence on top of a page.
pub(crate) fn class_of_verdict(tone: Tone) -> &'static str {
    match tone {
        Tone::Good => "verdict good",
        Tone::Bad => "verdict bad",
        Tone::Plain | Tone::Unclear => "verdict unclear",
    }
}

/// The verdict in one sentence, and what it rests on.
pub(super) fn verdict(out: &mut HtmlBuilder, facts: &Facts<'_>) {
    let judgement = facts.judgement;
    let class = class_of_verdict(Tone::of(&judgement.verdict));
    out.leaf("p", &[("class", class)], &judgement.summary);
    if !judgement.injected.is_empty() {
        let named: Vec<&str> = judgement
            .injected
            .iter()
            .take(NAMED)
            .map(String::as_str)
            .collect();
        let more = match judgement.injected.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!("; and {more} more, see Method"),
        };
        out.paragraph(&format!(
            "This run is a negative control. Injected on purpose: {}{more}.",
            named.join("; ")
        ));
    }
    if judgement.ended.is_none() {
        out.paragraph("The run was interrupted: the report covers what was recorded until then.");
    }
    out.paragraph(&measured(facts));
    out.paragraph(&not_measured(facts));
}

/// What was measured, in a sentence.
fn measured(facts: &Facts<'_>) -> String {
    let judgement = facts.judgement;
    let rails: BTreeSet<&str> = judgement
        .cells
        .iter()
        .filter(|cell| cell.iterations > 0)
        .flat_map(|cell| cell.cell.rails.iter().map(String::as_str))
        .collect();
    let rails = match rails.len() {
        0 => String::new(),
        rails => format!(" on {}", counted(rails, "rail")),
    };
    let links = links::in_one_line(&judgement.coverage);
    let links = links.map_or_else(String::new, |links| format!("; {links}"));
    format!(
        "Measured: {} of {} planned cells of {}{rails}{links}.",
        judgement.coverage.measured,
        judgement.coverage.planned,
        counted(judgement.tests.len(), "test")
    )
}

/// What was not measured, in a sentence. It must not be taken for healthy.
fn not_measured(facts: &Facts<'_>) -> String {
    let coverage = &facts.judgement.coverage;
    let left_out: Vec<_> = coverage.not_measured.iter().chain(&coverage.untested).collect();
    if left_out.is_empty() {
        return "Not measured: nothing; all that the suite asks for was measured.".to_string();
    }
    // Grouped by reason, in the order of the plan.
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    let mut place_of: HashMap<&str, usize> = HashMap::new();
    for entry in &left_out {
        let place = *place_of.entry(&entry.why).or_insert_with(|| {
            reasons.push((&entry.why, Vec::new()));
            reasons.len() - 1
        });
        reasons[place].1.push(&entry.what);
    }
    let named: Vec<String> = reasons
        .iter()
        .take(NAMED)
        .map(|(why, what)| {
            let more = match what.len().saturating_sub(NAMED) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let what: Vec<&str> = what.iter().take(NAMED).copied().collect();
            format!("{}{more} ({why})", what.join(", "))
        })
        .collect();
    let shown: usize = reasons.iter().take(NAMED).map(|(_, what)| what.len()).sum();
    let more = match left_out.len() - shown {
        0 => String::new(),
        more => format!("; and {more} more for other reasons, see Coverage"),
    };
    format!("Not measured: {}{more}.", named.join("; "))
}

/// The worst findings, each with the part, the figures, how sure, and what to do.
pub(super) fn worst(out: &mut HtmlBuilder, facts: &Facts<'_>) {
    let all = &facts.judgement.findings;
    if all.is_empty() {
        out.paragraph(match &facts.judgement.verdict {
            Verdict::Pass => "Nothing: every measurement is as expected.",
            _ => {
                "No part is suspected. The verdict above and the section Tests say why this run did not pass."
            }
        });
        return;
    }
    for (at, finding) in all.iter().take(WORST).enumerate() {
        findings::in_short(out, at + 1, finding, &facts.judgement.summary);
    }
    if let more @ 1.. = all.len().saturating_sub(WORST) {
        out.within("p", &[], |out| {
            let text = format!("{} below", counted(more, "more finding"));
            out.leaf("a", &[("href", "#findings")], &text);
        });
    }
}
