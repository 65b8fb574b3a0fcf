//! How evenly flows were spread over equal paths, as a section of `report.md` and in a line or two for the terminal.
//!
//! Groups that differ from a fair hash are shown in full, up to a bound; the others in a line per rail, with the least even of them as
//! an example. What is left out is counted, and is in `findings.json`.

pub(crate) mod groups;
pub(crate) mod tables;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{Error, Write};

use self::groups::{
    GroupKind, MOST_NAMED, by_kind, cause_words, in_order, in_words, least_even, name, part_or_switch,
    summary_line,
};
use self::tables::{MOST_MEMBERS, members, most_pairs, pairs, table};
use crate::escape::markdown as inert;
use record::text::first_of;
use record::{EcmpCause, EcmpVerdict, Judgement, files};

/// Rows of the table of groups.
const MOST_GROUPS: usize = 60;
/// Lines before it, each about groups of one kind.
const MOST_LINES: usize = 40;
/// Groups whose members and pairs are shown.
const MOST_IN_FULL: usize = 12;

/// Groups that are a fault, and the others.
type Parted<'a> = (Vec<&'a EcmpVerdict>, Vec<&'a EcmpVerdict>);

/// The section; nothing when no test was about it.
pub(super) fn section(out: &mut String, judgement: &Judgement) -> Result<(), Error> {
    let groups = in_order(judgement);
    if groups.is_empty() {
        return Ok(());
    }
    writeln!(out, "## Load on equal-cost paths (ECMP)\n")?;
    let (faulty, others): Parted<'_> = groups.iter().partition(|group| group.cause.is_fault());
    let faults = by_kind(&faulty);
    for (kind, groups) in faults.iter().take(MOST_LINES) {
        fault(out, kind, groups)?;
    }
    left(out, faults.len(), MOST_LINES)?;
    let chances = by_kind(&others);
    for (kind, groups) in chances.iter().take(MOST_LINES) {
        writeln!(out, "- {}", inert(&summary_line(kind, groups)))?;
    }
    left(out, chances.len(), MOST_LINES)?;
    let advice: BTreeSet<&str> = others.iter().map(|group| group.advice.as_str()).collect();
    for advice in advice
        .into_iter()
        .filter(|advice| !advice.is_empty())
        .take(MOST_NAMED)
    {
        writeln!(out, "- *Next:* {}", sentence(advice))?;
    }
    writeln!(out, "\n![{}]({})\n", inert(&in_words(judgement)), files::ECMP)?;
    table(&groups[..groups.len().min(MOST_GROUPS)]).markdown(out)?;
    writeln!(out)?;
    left(out, groups.len(), MOST_GROUPS)?;
    let accused = faulty.iter().map(|group| (*group, String::new()));
    let examples = chances.iter().filter_map(|(_, groups)| {
        let example = least_even(groups)?;
        let among = match groups.len() {
            1 => String::new(),
            among => format!(", the least even of {among}"),
        };
        Some((example, among))
    });
    for (group, among) in accused.chain(examples).take(MOST_IN_FULL) {
        writeln!(out, "### {}: {}{among}\n", inert(&name(group)), group.cause)?;
        in_full(out, group)?;
    }
    left(out, faulty.len() + chances.len(), MOST_IN_FULL)
}

/// The members and pairs of a group.
fn in_full(out: &mut String, group: &EcmpVerdict) -> Result<(), Error> {
    if !group.members.is_empty() {
        members(group).markdown(out)?;
        writeln!(out)?;
        left(out, group.members.len(), MOST_MEMBERS)?;
    }
    if !group.pairs.is_empty() {
        pairs(group).markdown(out)?;
        writeln!(out)?;
        left(out, group.pairs.len(), most_pairs(group))?;
    }
    Ok(())
}

/// Groups that are at fault in the same way: who they are, what the worst of them comes to, what to do.
fn fault(
    out: &mut String,
    (test, rail, _, cause): &GroupKind<'_>,
    groups: &[&EcmpVerdict],
) -> Result<(), Error> {
    let lost = |group: &EcmpVerdict| group.lost.unwrap_or(0.0);
    let worst = groups.iter().max_by(|a, b| lost(a).total_cmp(&lost(b)));
    let Some(worst) = worst else { return Ok(()) };
    let who = match groups.len() {
        1 => String::new(),
        _ => format!(
            " {}; the worst of them:",
            inert(&first_of(groups, MOST_NAMED, ", ", |group| part_or_switch(group)))
        ),
    };
    writeln!(
        out,
        "- **{cause}** (test {}, {}):{who} {} *Next:* {}",
        inert(test),
        inert(rail),
        sentence(&worst.sentence),
        sentence(&worst.advice)
    )
}

/// The worst of it in a line; none when no test was about it.
pub(super) fn summary(judgement: &Judgement) -> Option<String> {
    let groups = in_order(judgement);
    let (faulty, others): Parted<'_> = groups.iter().partition(|group| group.cause.is_fault());
    let mut by_cause: BTreeMap<EcmpCause, Vec<&EcmpVerdict>> = BTreeMap::new();
    for group in &faulty {
        by_cause.entry(group.cause).or_default().push(group);
    }
    let mut parts: Vec<String> = by_cause
        .iter()
        .map(|(cause, groups)| {
            format!(
                "{cause}: {}",
                first_of(groups, MOST_NAMED, ", ", |group| part_or_switch(group))
            )
        })
        .collect();
    let mut by_cause: BTreeMap<EcmpCause, Vec<&EcmpVerdict>> = BTreeMap::new();
    for group in &others {
        by_cause.entry(group.cause).or_default().push(group);
    }
    for (cause, groups) in by_cause {
        let flows: u64 = groups.iter().map(|group| u64::from(group.flows)).sum();
        let even = least_even(&groups).filter(|_| cause == EcmpCause::ExpectedCollision);
        let even = even.map(|group| {
            format!(
                ", busiest {:.2} times the mean at {}",
                group.max_over_mean,
                part_or_switch(group)
            )
        });
        let others = if faulty.is_empty() { "" } else { "other " };
        parts.push(format!(
            "{} {others}{} with {flows} flows {}{}",
            groups.len(),
            if groups.len() == 1 { "group" } else { "groups" },
            cause_words(cause),
            even.unwrap_or_default()
        ));
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// Inert text that ends as a sentence does.
fn sentence(text: &str) -> String {
    let text = inert(text.trim());
    match text.is_empty() || text.ends_with(['.', '!', '?', ':']) {
        true => text,
        false => text + ".",
    }
}

fn left(out: &mut String, rows: usize, most: usize) -> Result<(), Error> {
    match rows.saturating_sub(most) {
        0 => Ok(()),
        left => writeln!(
            out,
            "{left} more in [{}]({}).\n",
            files::FINDINGS,
            files::FINDINGS
        ),
    }
}
