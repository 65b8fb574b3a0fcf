//! The inventory in `report.md` and on the terminal: what deviates, what is unclear, what changed, what could not be read.
//!
//! A section of `report.md` and a line for the terminal. Every word of it came from other machines and is made inert.

pub(crate) mod groups;
pub mod terminal;
#[cfg(test)]
mod tests;

use std::fmt::{Error, Write};

use crate::escape::{line as inert_line, markdown as inert};
use crate::table::{Entry, Table, Tone, text};
use judge::findings::drift;
use record::{Change, Deviation, Disagreement, Drift, Fact, Judgement, PartAt, Unreadable, files};

/// The section; nothing in a run without an inventory.
pub(crate) fn section(out: &mut String, judgement: &Judgement, most: usize) -> Result<(), Error> {
    let Some(drift) = &judgement.drift else {
        return Ok(());
    };
    writeln!(out, "## Nodes and firmware\n")?;
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
        writeln!(out, "Lines of the golden file that match no part:\n")?;
        for line in drift.unused.iter().take(most) {
            writeln!(out, "- {}", inert(line))?;
        }
        left(out, drift.unused.len(), most)?;
    }
    Ok(())
}

/// One line for the terminal; none without an inventory.
pub(crate) fn summary(judgement: &Judgement) -> Option<String> {
    let drift = judgement.drift.as_ref()?;
    Some(format!("inventory  {}", inert_line(&overview(drift))))
}

/// `28 nodes compared with each other: 2 deviations, 1 that is unclear; 3 facts could not be read`.
pub(crate) fn overview(drift: &Drift) -> String {
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
        true => "nothing else".to_string(),
        false => with.join(" and "),
    };
    let counts = [
        (drift.deviations.len(), "deviation", "deviations"),
        (
            drift.disagreements.len(),
            "unresolved disagreement",
            "unresolved disagreements",
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
    deviation_table(&deviations[..deviations.len().min(most)], places).markdown(out)?;
    left(out, deviations.len(), most)
}

/// How a format names the parts that something is about.
type InWords = fn(&[PartAt]) -> String;

/// Deviations.
pub(crate) fn deviation_table(deviations: &[Deviation], places: InWords) -> Table {
    let columns = ["what", "is", "should be", "basis", "where", "effect on speed"].map(text);
    let mut table = Table::new("Deviations", columns);
    for deviation in deviations {
        table.row([
            Entry::from(format!("{} {}", deviation.class, deviation.fact)),
            Entry::from(deviation.value.as_deref().unwrap_or("missing")).toned(Tone::Bad),
            Entry::from(&deviation.expected),
            Entry::from(drift::basis_in_words(deviation)),
            Entry::from(places(&deviation.parts)),
            Entry::from(drift::effect_of(deviation).unwrap_or_else(|| "not measured".to_string())),
        ]);
    }
    table
}

fn disagreements(out: &mut String, splits: &[Disagreement], most: usize) -> Result<(), Error> {
    if splits.is_empty() {
        return Ok(());
    }
    writeln!(out, "{UNSETTLED}:\n")?;
    let mut table = disagreement_table(splits, places);
    let rows = table.rows.len();
    table.rows.truncate(most);
    table.markdown(out)?;
    left(out, rows, most)
}

/// Why no part is suspected where values disagree.
pub(crate) const UNSETTLED: &str =
    "No value has a majority among parts of the same kind, and no golden file says which is right";

/// Values that disagree, and who has them.
pub(crate) fn disagreement_table(splits: &[Disagreement], places: InWords) -> Table {
    let mut table = Table::new("Parts that disagree", ["what", "is", "where"].map(text));
    for split in splits {
        for (value, parts) in &split.values {
            table.row([
                Entry::from(format!("{} {}", split.class, split.fact)),
                Entry::from(value).toned(Tone::Unclear),
                Entry::from(places(parts)),
            ]);
        }
    }
    table
}

fn changes(out: &mut String, drift: &Drift, most: usize) -> Result<(), Error> {
    if drift.changes.is_empty() {
        return Ok(());
    }
    let since = drift.since.as_deref().unwrap_or("an earlier inventory");
    writeln!(out, "Changed since {}:\n", inert(since))?;
    change_table(&drift.changes[..drift.changes.len().min(most)]).markdown(out)?;
    left(out, drift.changes.len(), most)
}

/// What is not as it was.
pub(crate) fn change_table(changes: &[Change]) -> Table {
    let mut table = Table::new("What changed", ["where", "what", "was", "is"].map(text));
    for change in changes {
        let fact = change.fact.as_ref();
        let fact = fact.map_or_else(String::new, |fact| format!(" {fact}"));
        table.row([
            Entry::from(change.at.to_string()),
            Entry::from(format!("{}{fact}", change.class)),
            Entry::from(known(&change.before)),
            Entry::from(known(&change.after)).toned(Tone::Bad),
        ]);
    }
    table
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
    writeln!(out, "Not read, not compared:\n")?;
    unreadable_table(&facts[..facts.len().min(most)], places).markdown(out)?;
    left(out, facts.len(), most)
}

/// What could not be read.
pub(crate) fn unreadable_table(facts: &[Unreadable], places: InWords) -> Table {
    let columns = ["what", "why", "needs", "nodes"].map(text);
    let mut table = Table::new("Not read, not compared", columns);
    for fact in facts {
        let nodes: Vec<PartAt> = fact.nodes.iter().map(|node| itself(node)).collect();
        table.row([
            Entry::from(format!("{} {}", fact.class, fact.fact)),
            Entry::from(&fact.why).toned(Tone::Unclear),
            Entry::from(fact.needs.as_deref().unwrap_or("-")),
            Entry::from(places(&nodes)),
        ]);
    }
    table
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
