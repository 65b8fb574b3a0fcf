//! How evenly flows were spread over equal paths, as a section of `report.md` and in a line or two for the terminal.
//!
//! Groups that are not as by chance are shown in full, up to a bound; the others in a line per rail, with the least even of them as
//! an example. Whatever is left out is counted, and stands in `findings.json`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{Error, Write};

use super::ecmp_tables::{MOST_MEMBERS, members, most_pairs, pairs, table};
use super::escape::markdown as inert;
use record::{EcmpCause, EcmpVerdict, Judgement, MemberLoad, files};

/// Rows of the table of groups.
const MOST_GROUPS: usize = 60;
/// Lines before it, each about groups that are alike.
const MOST_LINES: usize = 40;
/// Groups whose members and pairs are shown.
const MOST_IN_FULL: usize = 12;
/// Parts that a line names.
const MOST_NAMED: usize = 3;

/// Groups that are a fault, and the others.
type Parted<'a> = (Vec<&'a EcmpVerdict>, Vec<&'a EcmpVerdict>);

/// The section; nothing when no test was about it.
pub(super) fn section(out: &mut String, judgement: &Judgement) -> Result<(), Error> {
    let groups = in_order(judgement);
    if groups.is_empty() {
        return Ok(());
    }
    writeln!(out, "## Spread over equal paths\n")?;
    let (faulty, others): Parted<'_> = groups.iter().partition(|group| group.cause.is_fault());
    let faults = alike(&faulty);
    for (kind, groups) in faults.iter().take(MOST_LINES) {
        fault(out, kind, groups)?;
    }
    left(out, faults.len(), MOST_LINES)?;
    let chances = alike(&others);
    for (kind, groups) in chances.iter().take(MOST_LINES) {
        writeln!(out, "- {}", inert(&together(kind, groups)))?;
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
fn fault(out: &mut String, (test, rail, _, cause): &Kind<'_>, groups: &[&EcmpVerdict]) -> Result<(), Error> {
    let lost = |group: &EcmpVerdict| group.lost.unwrap_or(0.0);
    let worst = groups.iter().max_by(|a, b| lost(a).total_cmp(&lost(b)));
    let Some(worst) = worst else { return Ok(()) };
    let who = match groups.len() {
        1 => String::new(),
        _ => format!(" {}; the worst of them:", inert(&listed(groups))),
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

/// The first of them by name, and how many more there are.
fn listed(groups: &[&EcmpVerdict]) -> String {
    let named: Vec<String> = groups
        .iter()
        .take(MOST_NAMED)
        .map(|group| culprit(group))
        .collect();
    match groups.len().saturating_sub(MOST_NAMED) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
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
        .map(|(cause, groups)| format!("{cause}: {}", listed(groups)))
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
                ", busiest {:.2} of mean at {}",
                group.max_over_mean,
                culprit(group)
            )
        });
        let others = if faulty.is_empty() { "" } else { "other " };
        parts.push(format!(
            "{} {others}{} with {flows} flows {}{}",
            groups.len(),
            if groups.len() == 1 { "group" } else { "groups" },
            words(cause),
            even.unwrap_or_default()
        ));
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// What the picture shows, for whoever cannot see it.
pub(super) fn in_words(judgement: &Judgement) -> String {
    let groups = in_order(judgement);
    let drawn = groups.iter().take(super::figures::MOST_PANELS);
    let shares = drawn.map(|group| {
        let shares = group.members.iter().take(4).map(|member| percent(member.share));
        let more = if group.members.len() > 4 { ", ..." } else { "" };
        let who = group.switch.as_ref().unwrap_or(&group.rail);
        format!("{who} {}{more}", shares.collect::<Vec<_>>().join(", "))
    });
    let shares: Vec<String> = shares.take(MOST_NAMED).collect();
    format!(
        "Share of flows on every path of {} groups, against what chance allows: {}{}",
        groups.len(),
        shares.join("; "),
        if groups.len() > MOST_NAMED { "; ..." } else { "" }
    )
}

/// All groups: what is wrong first, then what is not known, then the rest; the least likely first.
pub(super) fn in_order(judgement: &Judgement) -> Vec<&EcmpVerdict> {
    let urgency = |cause: EcmpCause| match cause {
        EcmpCause::Unjudged => 1,
        EcmpCause::AdaptiveRouting => 2,
        EcmpCause::ExpectedCollision => 3,
        _ => 0,
    };
    let mut groups: Vec<&EcmpVerdict> = judgement.ecmp.iter().collect();
    groups.sort_by(|a, b| {
        (urgency(a.cause), a.cause)
            .cmp(&(urgency(b.cause), b.cause))
            .then((&a.test, &a.rail, a.tier).cmp(&(&b.test, &b.rail, b.tier)))
            .then(a.p_value.total_cmp(&b.p_value))
            .then(a.switch.cmp(&b.switch))
    });
    groups
}

/// `rail0-leaf0, first choice on rail0, test spread`.
pub(super) fn name(group: &EcmpVerdict) -> String {
    let switch = group.switch.as_deref().unwrap_or("paths not known");
    format!(
        "{switch}, {} on {}, test {}",
        choice(group.tier),
        group.rail,
        group.test
    )
}

/// The part that is named, or who chooses.
fn culprit(group: &EcmpVerdict) -> String {
    let part = group.part.as_ref().or(group.switch.as_ref());
    part.unwrap_or(&group.rail).clone()
}

fn choice(tier: u8) -> String {
    match tier {
        1 => "first choice".to_string(),
        2 => "second choice".to_string(),
        tier => format!("choice {tier}"),
    }
}

/// What groups that are no fault come to.
fn words(cause: EcmpCause) -> &'static str {
    match cause {
        EcmpCause::ExpectedCollision => "as even as chance",
        EcmpCause::AdaptiveRouting => "without a path per flow: packets or flows are moved about",
        _ => "not judged: too little was seen",
    }
}

/// What groups must share to be told in one line: test, rail, choice and cause.
pub(super) type Kind<'a> = (&'a str, &'a str, u8, EcmpCause);

/// Groups by kind, in order.
pub(super) fn alike<'a>(groups: &[&'a EcmpVerdict]) -> Vec<(Kind<'a>, Vec<&'a EcmpVerdict>)> {
    let mut kinds: BTreeMap<Kind<'a>, Vec<&'a EcmpVerdict>> = BTreeMap::new();
    for group in groups {
        let kind = (group.test.as_str(), group.rail.as_str(), group.tier, group.cause);
        kinds.entry(kind).or_default().push(group);
    }
    kinds.into_iter().collect()
}

/// `rail0: 4 switches, 512 flows over 2 paths each, as even as chance: busiest 1.21 of mean, p 0.34 or more`.
pub(super) fn together((_, rail, tier, cause): &Kind<'_>, groups: &[&EcmpVerdict]) -> String {
    let flows: u64 = groups.iter().map(|group| u64::from(group.flows)).sum();
    let paths: Vec<u32> = groups.iter().map(|group| group.paths).collect();
    let (least, most) = (paths.iter().min().copied(), paths.iter().max().copied());
    let paths = match (least, most) {
        (Some(least), Some(most)) if least != most => format!("{least} to {most}"),
        (least, _) => least.unwrap_or_default().to_string(),
    };
    let each = if groups.len() == 1 { "" } else { " each" };
    let known = groups.iter().filter(|group| group.switch.is_some()).count();
    let who = match (groups, known) {
        ([one], 1) => one.switch.clone().unwrap_or_default(),
        (_, 0) => "paths not known".to_string(),
        _ => format!("{known} switches"),
    };
    let mut text = format!(
        "{rail}, {}: {who}, {flows} flows over {paths} paths{each}, {}",
        choice(*tier),
        words(*cause)
    );
    if *cause == EcmpCause::ExpectedCollision {
        let busiest = groups.iter().map(|group| group.max_over_mean).fold(0.0, f64::max);
        let least = groups
            .iter()
            .map(|group| group.p_value)
            .fold(f64::INFINITY, f64::min);
        text += &format!(": busiest {busiest:.2} of mean, {}", chance(least));
        if groups.len() > 1 {
            text += " or more";
        }
        let lost = groups
            .iter()
            .filter_map(|group| group.lost)
            .fold(f64::NEG_INFINITY, f64::max);
        if lost.is_finite() {
            text += &format!(
                ", collisions cost {} of the goodput of an even spread at most",
                percent(lost)
            );
        }
    }
    text
}

/// The one that chance makes least often.
pub(super) fn least_even<'a>(groups: &[&'a EcmpVerdict]) -> Option<&'a EcmpVerdict> {
    let mut groups = groups.to_vec();
    groups.sort_by(|a, b| {
        a.p_value
            .total_cmp(&b.p_value)
            .then(b.max_over_mean.total_cmp(&a.max_over_mean))
    });
    groups.first().copied()
}

/// Whether a path carries more or less than chance allows.
pub(super) fn is_outside(member: &MemberLoad) -> bool {
    // Shares of whole flows lie on the bounds as often as not; what differs by rounding only is within.
    let slack = 1e-9;
    member.share < member.band.0 - slack || member.share > member.band.1 + slack
}

/// What share of all counted bytes each path carried; none where its counter is not known.
pub(super) fn counted_shares(members: &[MemberLoad]) -> Vec<Option<f64>> {
    let all: u64 = members
        .iter()
        .filter_map(|member| member.counted)
        .fold(0, |sum, bytes| sum.saturating_add(bytes.0));
    let share = |member: &MemberLoad| {
        let bytes = member.counted.filter(|_| all > 0)?;
        Some(bytes.0 as f64 / all as f64)
    };
    members.iter().map(share).collect()
}

/// `u1` of `rail0-leaf0/u1->rail0-spine1/d0`: all paths of a group begin at the same switch.
pub(super) fn short(link: &str) -> &str {
    let from = link.split("->").next().unwrap_or(link);
    from.rsplit('/').next().unwrap_or(from)
}

/// `p 0.34`, or `p < 0.001`.
pub(super) fn chance(p: f64) -> String {
    match p < 0.001 {
        true => "p < 0.001".to_string(),
        false => format!("p {p:.2}"),
    }
}

pub(super) fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
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
