//! The cables of a run: who is suspected, which carried what they should, which were never crossed.

use std::fmt::{Error, Write};

use super::escape::markdown as inert;
use crate::record::{Coverage, Finding, LinkCoverage, LinkState};

/// The suspects of a finding, as a table of Markdown; nothing when parts were not told apart.
pub(super) fn suspects(out: &mut String, finding: &Finding) -> Result<(), Error> {
    if finding.suspects.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\n| suspect | what it is | direction | confidence | why |\n|---|---|---|--:|---|"
    )?;
    for suspect in &finding.suspects {
        writeln!(
            out,
            "| {} | {} | {} | {:.2} | {} |",
            inert(suspect.cable.as_ref().unwrap_or(&suspect.part)),
            suspect.kind,
            inert(suspect.direction.as_deref().unwrap_or("")),
            suspect.confidence,
            inert(&suspect.why)
        )?;
    }
    writeln!(out)
}

/// What was asked of every cable, as a section of Markdown: all that are not healthy, and the least loaded of those that are. Returns
/// how many rows there would be.
pub(super) fn section(out: &mut String, coverage: &Coverage, most_rows: usize) -> Result<usize, Error> {
    if coverage.links.is_empty() {
        return Ok(0);
    }
    writeln!(
        out,
        "## Links\n\n{}.\n",
        in_one_line(coverage).unwrap_or_default()
    )?;
    let mut rows: Vec<&LinkCoverage> = coverage.links.iter().collect();
    let share = |link: &LinkCoverage| link.share.unwrap_or(f64::INFINITY);
    rows.sort_by(|a, b| {
        urgency(a.state)
            .cmp(&urgency(b.state))
            .then(share(a).total_cmp(&share(b)))
    });
    writeln!(
        out,
        "| link | state | most at one time | of what it should carry | flows |\n|---|---|--:|--:|--:|"
    )?;
    for link in rows.iter().take(most_rows) {
        let why = link
            .why
            .as_ref()
            .map_or_else(String::new, |why| format!(": {why}"));
        writeln!(
            out,
            "| {} | {} | {} | {} | {} |",
            inert(&link.link),
            inert(&format!("{}{why}", link.state)),
            link.most.map_or_else(|| "-".to_string(), |most| most.to_string()),
            link.share
                .map_or_else(|| "-".to_string(), |share| format!("{:.0} %", share * 100.0)),
            link.flows
        )?;
    }
    Ok(rows.len())
}

/// `62 of 64 directed links carried what they should, 1 slow, 1 untested`; none when links are not known.
pub(super) fn in_one_line(coverage: &Coverage) -> Option<String> {
    let count = |state: LinkState| coverage.links.iter().filter(|link| link.state == state).count();
    let all = coverage.links.len();
    let others = [
        LinkState::Slow,
        LinkState::Suspected,
        LinkState::Underloaded,
        LinkState::Untested,
    ];
    let others = others
        .iter()
        .map(|state| (count(*state), state))
        .filter(|(count, _)| *count > 0);
    let mut parts = vec![format!(
        "{} of {all} directed links carried what they should",
        count(LinkState::Healthy)
    )];
    parts.extend(others.map(|(count, state)| format!("{count} {state}")));
    (all > 0).then(|| parts.join(", "))
}

/// What is worst comes first; a healthy link comes last.
fn urgency(state: LinkState) -> u8 {
    match state {
        LinkState::Slow => 0,
        LinkState::Suspected => 1,
        LinkState::Untested => 2,
        LinkState::Underloaded => 3,
        LinkState::Healthy => 4,
    }
}
