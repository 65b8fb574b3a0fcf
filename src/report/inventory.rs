//! What the nodes are made of, as far as it is worth saying: what deviates, what is unclear, what changed, what could not be read.
//!
//! A section of `report.md` and a line for the terminal. Every word of it came from other machines and is made inert.

use std::fmt::{Error, Write};

use super::escape::{line as inert_line, markdown as inert};
use crate::findings::drift;
use crate::record::{Change, Deviation, Disagreement, Drift, Fact, Judgement, PartAt, Unreadable, files};

/// The section; nothing in a run without an inventory.
pub(super) fn section(out: &mut String, judgement: &Judgement, most: usize) -> Result<(), Error> {
    let Some(drift) = &judgement.drift else {
        return Ok(());
    };
    writeln!(out, "## What the nodes are made of\n")?;
    writeln!(out, "{}\n", inert(&overview(drift)))?;
    for trouble in drift.troubles.iter().take(most) {
        writeln!(out, "- the golden file was not used: {}", inert(trouble))?;
    }
    for found in drift.traits.iter().take(most) {
        writeln!(out, "- {}", inert(&drift::of_trait(found)))?;
    }
    if !(drift.troubles.is_empty() && drift.traits.is_empty()) {
        writeln!(out)?;
    }
    deviations(out, &drift.deviations, most)?;
    disagreements(out, &drift.disagreements, most)?;
    changes(out, drift, most)?;
    unreadable(out, &drift.unreadable, most)?;
    if !drift.unused.is_empty() {
        writeln!(out, "Lines of the golden file that are about nothing here:\n")?;
        for line in drift.unused.iter().take(most) {
            writeln!(out, "- {}", inert(line))?;
        }
        left(out, drift.unused.len(), most)?;
    }
    Ok(())
}

/// One line for the terminal; none without an inventory.
pub(super) fn summary(judgement: &Judgement) -> Option<String> {
    let drift = judgement.drift.as_ref()?;
    Some(format!("inventory  {}", inert_line(&overview(drift))))
}

/// `28 nodes compared with each other: 2 deviations, 1 that is unclear; 3 facts could not be read`.
fn overview(drift: &Drift) -> String {
    let nodes = drift.nodes;
    let mut with: Vec<String> = Vec::new();
    if nodes > 1 {
        with.push("each other".to_string());
    }
    with.extend(drift.golden.iter().map(|file| file.to_string()));
    with.extend(
        drift
            .since
            .iter()
            .map(|taken| format!("the inventory of {taken}")),
    );
    let compared = match with.is_empty() {
        true => "nothing but itself".to_string(),
        false => with.join(" and "),
    };
    let counts = [
        (drift.deviations.len(), "deviation", "deviations"),
        (
            drift.disagreements.len(),
            "disagreement that nobody can settle",
            "disagreements that nobody can settle",
        ),
        (drift.changes.len(), "change", "changes"),
    ];
    let found: Vec<String> = counts
        .iter()
        .filter(|(count, ..)| *count > 0)
        .map(|(count, one, several)| format!("{count} {}", if *count == 1 { one } else { several }))
        .collect();
    let found = match found.is_empty() {
        true => "nothing differs".to_string(),
        false => found.join(", "),
    };
    let unread = match drift.unreadable.len() {
        0 => String::new(),
        1 => "; 1 fact could not be read and was not compared".to_string(),
        facts => format!("; {facts} facts could not be read and were not compared"),
    };
    let s = if nodes == 1 { "" } else { "s" };
    format!("{nodes} node{s} compared with {compared}: {found}{unread}")
}

fn deviations(out: &mut String, deviations: &[Deviation], most: usize) -> Result<(), Error> {
    if deviations.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "| what | is | should be | says who | where | and speed |\n|---|---|---|---|---|---|"
    )?;
    for deviation in deviations.iter().take(most) {
        writeln!(
            out,
            "| {} {} | {} | {} | {} | {} | {} |",
            deviation.class,
            inert(&deviation.fact),
            inert(deviation.value.as_deref().unwrap_or("missing")),
            inert(&deviation.expected),
            inert(&drift::basis_in_words(deviation)),
            inert(&places(&deviation.parts)),
            inert(&drift::effect_of(deviation).unwrap_or_else(|| "not measured".to_string())),
        )?;
    }
    left(out, deviations.len(), most)
}

fn disagreements(out: &mut String, splits: &[Disagreement], most: usize) -> Result<(), Error> {
    if splits.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "No value has more than half of the parts that are alike, and no golden file says which is right:\n"
    )?;
    writeln!(out, "| what | is | where |\n|---|---|---|")?;
    let rows: Vec<(&Disagreement, &String, &Vec<PartAt>)> = splits
        .iter()
        .flat_map(|split| {
            split
                .values
                .iter()
                .map(move |(value, parts)| (split, value, parts))
        })
        .collect();
    for (split, value, parts) in rows.iter().take(most) {
        writeln!(
            out,
            "| {} {} | {} | {} |",
            split.class,
            inert(&split.fact),
            inert(value),
            inert(&places(parts))
        )?;
    }
    left(out, rows.len(), most)
}

fn changes(out: &mut String, drift: &Drift, most: usize) -> Result<(), Error> {
    if drift.changes.is_empty() {
        return Ok(());
    }
    let since = drift.since.as_deref().unwrap_or("an earlier inventory");
    writeln!(out, "Changed since {}:\n", inert(since))?;
    writeln!(out, "| where | what | was | is |\n|---|---|---|---|")?;
    for change in drift.changes.iter().take(most) {
        let Change {
            class,
            at,
            fact,
            before,
            after,
        } = change;
        writeln!(
            out,
            "| {} | {class}{} | {} | {} |",
            inert(&at.to_string()),
            fact.as_ref()
                .map_or_else(String::new, |fact| format!(" {}", inert(fact))),
            inert(&known(before)),
            inert(&known(after))
        )?;
    }
    left(out, drift.changes.len(), most)
}

fn known(fact: &Option<Fact>) -> String {
    match fact {
        Some(Fact::Value(value)) => value.clone(),
        Some(Fact::Unreadable { why, .. }) => format!("unreadable: {why}"),
        Some(Fact::Absent) => "-".to_string(),
        None => "not there".to_string(),
    }
}

fn unreadable(out: &mut String, facts: &[Unreadable], most: usize) -> Result<(), Error> {
    if facts.is_empty() {
        return Ok(());
    }
    writeln!(out, "Not read, and so not compared:\n")?;
    writeln!(out, "| what | why | needs | nodes |\n|---|---|---|---|")?;
    for fact in facts.iter().take(most) {
        let nodes: Vec<PartAt> = fact.nodes.iter().map(|node| itself(node)).collect();
        writeln!(
            out,
            "| {} {} | {} | {} | {} |",
            fact.class,
            inert(&fact.fact),
            inert(&fact.why),
            inert(fact.needs.as_deref().unwrap_or("-")),
            inert(&places(&nodes))
        )?;
    }
    left(out, facts.len(), most)
}

fn itself(node: &str) -> PartAt {
    PartAt {
        node: node.to_string(),
        part: node.to_string(),
    }
}

fn places(parts: &[PartAt]) -> String {
    drift::places(&parts.iter().collect::<Vec<_>>())
}

fn left(out: &mut String, rows: usize, most: usize) -> Result<(), Error> {
    match rows.saturating_sub(most) {
        0 => writeln!(out),
        more => writeln!(
            out,
            "\n{more} more in [{}]({}).\n",
            files::FINDINGS,
            files::FINDINGS
        ),
    }
}
