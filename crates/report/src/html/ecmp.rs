//! How evenly flows were spread over equal paths: every group that is at fault, the others summed up by kind.

use super::builder::HtmlBuilder;
use super::facts::Facts;
use crate::ecmp::groups::{GroupKind, by_kind, in_order, least_even, name, summary_line};
use crate::ecmp::tables::{members, pairs, table};
use crate::table::{Entry, Table, Tone, text};
use record::EcmpVerdict;

/// Groups without a fault that have a row.
const MOST_HEALTHY: usize = 60;
/// Groups at fault that have a paragraph each; more of them are rows.
const MOST_PARAGRAPHS: usize = 12;
/// Groups at fault whose members and pairs are shown; all of them have a row and their sentence.
const MOST_IN_FULL: usize = 48;

/// Verdicts on the spread, with flows by path.
pub(super) fn section(out: &mut HtmlBuilder, facts: &Facts<'_>) {
    let groups = in_order(facts.judgement);
    if groups.is_empty() {
        out.paragraph("No test of this run measured it: whether flows are spread evenly is unknown.");
        return;
    }
    let (faulty, others): (Vec<&EcmpVerdict>, Vec<&EcmpVerdict>) =
        groups.into_iter().partition(|group| group.cause.is_fault());
    match faulty.len() <= MOST_PARAGRAPHS {
        true => faulty.iter().for_each(|group| fault(out, group)),
        false => out.table(&faults(&faulty)),
    }
    let chances = by_kind(&others);
    let lines: Vec<String> = chances
        .iter()
        .map(|(kind, groups): &(GroupKind<'_>, Vec<&EcmpVerdict>)| summary_line(kind, groups))
        .collect();
    out.list(lines.iter().map(String::as_str));
    let shown: Vec<&EcmpVerdict> = faulty
        .iter()
        .chain(others.iter().take(MOST_HEALTHY))
        .copied()
        .collect();
    out.table(&table(&shown));
    if let left @ 1.. = others.len().saturating_sub(MOST_HEALTHY) {
        out.paragraph(&format!("{left} more without a fault are in findings.json."));
    }
    let examples = chances.iter().filter_map(|(_, groups)| least_even(groups));
    for group in faulty
        .iter()
        .copied()
        .take(MOST_IN_FULL)
        .chain(examples.take(MOST_IN_FULL))
    {
        in_full(out, group);
    }
}

/// What is wrong with a group and what to do about it.
fn fault(out: &mut HtmlBuilder, group: &EcmpVerdict) {
    out.within("p", &[], |out| {
        out.leaf("strong", &[("class", "kind")], &group.cause.to_string());
        let part = group
            .part
            .as_ref()
            .map_or_else(String::new, |part| format!(" at {part}"));
        out.text(&format!(
            "{part} ({}): {}. Next: {}.",
            name(group),
            group.sentence.trim_end_matches('.'),
            group.advice.trim_end_matches('.')
        ));
    });
}

/// The same of many groups.
fn faults(groups: &[&EcmpVerdict]) -> Table {
    let columns = ["part", "fault", "where", "what", "next"].map(text);
    let mut table = Table::new("Groups of equal-cost paths at fault", columns);
    for group in groups {
        let part = group
            .part
            .as_ref()
            .or(group.switch.as_ref())
            .unwrap_or(&group.rail);
        table.row([
            Entry::from(part),
            Entry::ours(group.cause).toned(Tone::Bad),
            Entry::from(name(group)),
            Entry::from(&group.sentence),
            Entry::from(&group.advice),
        ]);
    }
    table
}

/// The load of every path of a group, and which pair took which.
fn in_full(out: &mut HtmlBuilder, group: &EcmpVerdict) {
    let summary = format!("{}: {}, flows by path", name(group), group.cause);
    out.details(&summary, |out| {
        let titled = |mut table: Table| {
            table.caption = format!("{}: {}", name(group), table.caption.to_lowercase());
            table
        };
        out.table(&titled(members(group)));
        out.table(&titled(pairs(group)));
    });
}
