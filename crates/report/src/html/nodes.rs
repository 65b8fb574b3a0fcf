//! Firmware and settings of nodes, with drift marked in words and colour, and what could not be read.

use std::collections::HashMap;

use super::builder::HtmlBuilder;
use super::facts::Facts;
use crate::inventory::groups::{PartGroups, part_groups};
use crate::inventory::terminal;
use crate::inventory::{
    UNSETTLED, change_table, deviation_table, disagreement_table, overview, unreadable_table,
};
use crate::table::{Entry, Table, Tone, text};
use judge::findings::drift;
use record::{Drift, PartAt, PartClass};

/// Rows of parts of one class that do not drift.
const MOST_ROWS: usize = 200;
/// Rows of what changed.
const MOST_CHANGES: usize = 2000;

/// Firmware and settings of all nodes.
pub(super) fn section(out: &mut HtmlBuilder, facts: &Facts<'_>) {
    let Some(drift) = &facts.judgement.drift else {
        out.paragraph(
            "No inventory was taken in this run: differences in firmware and settings are unknown.",
        );
        return;
    };
    out.paragraph(&format!("{}.", overview(drift)));
    for trouble in &drift.troubles {
        out.paragraph(&format!("The golden file was not used: {trouble}."));
    }
    let traits: Vec<String> = drift.traits.iter().map(drift::of_trait).collect();
    if !traits.is_empty() {
        out.list(traits.iter().map(String::as_str));
    }
    out.table(&deviation_table(&drift.deviations, everywhere));
    if !drift.disagreements.is_empty() {
        out.paragraph(&format!("{UNSETTLED}."));
        out.table(&disagreement_table(&drift.disagreements, everywhere));
    }
    changes(out, drift);
    out.table(&unreadable_table(&drift.unreadable, everywhere));
    if !drift.unused.is_empty() {
        out.paragraph("Lines of the golden file that match no part:");
        out.list(drift.unused.iter().map(String::as_str));
    }
    if let Some(inventory) = &facts.recorded.inventory {
        let marks = Marks::of(drift);
        out.paragraph("Nodes with equal values share a row; entries that drift are marked.");
        for groups in part_groups(inventory) {
            firmware(out, &groups, &marks);
        }
        if !inventory.troubles.is_empty() {
            out.paragraph("Sources of the inventory that could not be read:");
            out.list(inventory.troubles.iter().map(String::as_str));
        }
    }
}

fn changes(out: &mut HtmlBuilder, drift: &Drift) {
    if drift.changes.is_empty() {
        return;
    }
    let since = drift.since.as_deref().unwrap_or("an earlier inventory");
    out.paragraph(&format!("Changed since {since}:"));
    out.table(&change_table(
        &drift.changes[..drift.changes.len().min(MOST_CHANGES)],
    ));
    if let left @ 1.. = drift.changes.len().saturating_sub(MOST_CHANGES) {
        out.paragraph(&format!("{left} more in findings.json."));
    }
}

/// Every node, none left out: `node07/mlx5_3, node09 (8 of them)`.
fn everywhere(parts: &[PartAt]) -> String {
    drift::by_node(parts).join(", ")
}

/// Values that drift, and what to say of each.
struct Marks<'a> {
    /// By class, fact and value: the nodes, what is said, and how bad it is.
    said: HashMap<(PartClass, &'a str, &'a str), Vec<Mark<'a>>>,
}

struct Mark<'a> {
    nodes: std::collections::HashSet<&'a str>,
    words: String,
    tone: Tone,
}

impl<'a> Marks<'a> {
    fn of(drift: &'a Drift) -> Marks<'a> {
        let mut said: HashMap<_, Vec<Mark<'a>>> = HashMap::new();
        let nodes = |parts: &'a [PartAt]| parts.iter().map(|at| at.node.as_str()).collect();
        for deviation in &drift.deviations {
            let value = deviation.value.as_deref().unwrap_or("-");
            let mark = Mark {
                nodes: nodes(&deviation.parts),
                words: format!("drift: should be {}", deviation.expected),
                tone: Tone::Bad,
            };
            let place = (deviation.class, deviation.fact.as_str(), value);
            said.entry(place).or_default().push(mark);
        }
        for split in &drift.disagreements {
            for (value, parts) in &split.values {
                let mark = Mark {
                    nodes: nodes(parts),
                    words: "unclear: parts of one kind disagree".to_string(),
                    tone: Tone::Unclear,
                };
                let place = (split.class, split.fact.as_str(), value.as_str());
                said.entry(place).or_default().push(mark);
            }
        }
        Marks { said }
    }

    /// An entry of the table, with what is wrong with it.
    fn entry(&self, class: PartClass, fact: &str, value: &str, nodes: &[&str]) -> Entry {
        let marks = self.said.get(&(class, fact, value));
        let mark = marks
            .into_iter()
            .flatten()
            .find(|mark| nodes.iter().any(|node| mark.nodes.contains(node)));
        match mark {
            Some(mark) => Entry::from(format!("{value} ({})", mark.words)).toned(mark.tone),
            None => Entry::from(value),
        }
    }
}

/// Parts of one class; rows that drift first, and none of those is left out.
fn firmware(out: &mut HtmlBuilder, groups: &PartGroups<'_>, marks: &Marks<'_>) {
    let titles = groups.titles.iter().map(|title| match *title {
        "" => text("part"),
        title => text(title),
    });
    let columns: Vec<_> = std::iter::once(text("nodes")).chain(titles).collect();
    let mut table = Table::new(format!("Inventory: {}", groups.heading), columns);
    let mut healthy = Vec::new();
    for (nodes, values) in &groups.rows {
        let entries = groups
            .titles
            .iter()
            .zip(values)
            .map(|(fact, value)| marks.entry(groups.class, fact, value, nodes));
        let entries: Vec<Entry> = entries.collect();
        let drifts = entries.iter().any(|entry| entry.tone != Tone::Plain);
        let whose = match drifts {
            true => nodes.join(", "),
            false => terminal::names(nodes, groups.owners, str::to_string),
        };
        let row: Vec<Entry> = std::iter::once(Entry::from(whose)).chain(entries).collect();
        match drifts {
            true => table.row(row),
            false => healthy.push(row),
        }
    }
    let left = healthy.len().saturating_sub(MOST_ROWS);
    table.rows.extend(healthy.into_iter().take(MOST_ROWS));
    out.table(&table);
    if left > 0 {
        out.paragraph(&format!("{left} more without drift are in inventory.json."));
    }
}
