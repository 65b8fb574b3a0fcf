//! Groups of equal-cost paths: their order, their kinds, and their verdicts in words.

use std::collections::BTreeMap;

use record::text::whole_percent;
use record::{EcmpCause, EcmpVerdict, Judgement, LinkName, MemberLoad};

/// Most groups drawn.
pub(crate) const MOST_PANELS: usize = 8;
/// Groups that a line names.
pub(super) const MOST_NAMED: usize = 3;

/// The figure in words.
pub(crate) fn in_words(judgement: &Judgement) -> String {
    let groups = in_order(judgement);
    let drawn = groups.iter().take(MOST_PANELS);
    let shares = drawn.map(|group| {
        let shares = group
            .members
            .iter()
            .take(4)
            .map(|member| whole_percent(member.share));
        let more = if group.members.len() > 4 { ", ..." } else { "" };
        let who = group.switch.as_ref().unwrap_or(&group.rail);
        format!("{who} {}{more}", shares.collect::<Vec<_>>().join(", "))
    });
    let shares: Vec<String> = shares.take(MOST_NAMED).collect();
    format!(
        "Share of flows on each path of {} groups, with the 99 % band of a fair hash: {}{}",
        groups.len(),
        shares.join("; "),
        if groups.len() > MOST_NAMED { "; ..." } else { "" }
    )
}

/// All groups: what is wrong first, then what is not known, then the rest; the least likely first.
pub(crate) fn in_order(judgement: &Judgement) -> Vec<&EcmpVerdict> {
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
pub(crate) fn name(group: &EcmpVerdict) -> String {
    let switch = group.switch.as_deref().unwrap_or("unknown paths");
    format!(
        "{switch}, {} on {}, test {}",
        choice(group.tier),
        group.rail,
        group.test
    )
}

/// The part that is named, or who chooses.
pub(super) fn part_or_switch(group: &EcmpVerdict) -> String {
    let part = group.part.as_ref().or(group.switch.as_ref());
    part.unwrap_or(&group.rail).clone()
}

fn choice(tier: u8) -> String {
    match tier {
        1 => "first tier".to_string(),
        2 => "second tier".to_string(),
        tier => format!("tier {tier}"),
    }
}

/// The verdict on groups without a fault.
pub(super) fn cause_words(cause: EcmpCause) -> &'static str {
    match cause {
        EcmpCause::ExpectedCollision => "as even as a fair hash",
        EcmpCause::AdaptiveRouting => "without a fixed path per flow (adaptive routing)",
        _ => "not judged: too few flows",
    }
}

/// What groups of one line have in common: test, rail, tier and cause.
pub(crate) type GroupKind<'a> = (&'a str, &'a str, u8, EcmpCause);

/// Groups by kind, in order.
pub(crate) fn by_kind<'a>(groups: &[&'a EcmpVerdict]) -> Vec<(GroupKind<'a>, Vec<&'a EcmpVerdict>)> {
    let mut kinds: BTreeMap<GroupKind<'a>, Vec<&'a EcmpVerdict>> = BTreeMap::new();
    for group in groups {
        let kind = (group.test.as_str(), group.rail.as_str(), group.tier, group.cause);
        kinds.entry(kind).or_default().push(group);
    }
    kinds.into_iter().collect()
}

/// `rail0: 4 switches, 512 flows over 2 paths each, as even as a fair hash: busiest 1.21 times the mean, p 0.34 or more`.
pub(crate) fn summary_line((_, rail, tier, cause): &GroupKind<'_>, groups: &[&EcmpVerdict]) -> String {
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
        (_, 0) => "unknown paths".to_string(),
        _ => format!("{known} switches"),
    };
    let mut text = format!(
        "{rail}, {}: {who}, {flows} flows over {paths} paths{each}, {}",
        choice(*tier),
        cause_words(*cause)
    );
    if *cause == EcmpCause::ExpectedCollision {
        let busiest = groups.iter().map(|group| group.max_over_mean).fold(0.0, f64::max);
        let least = groups
            .iter()
            .map(|group| group.p_value)
            .fold(f64::INFINITY, f64::min);
        text += &format!(": busiest {busiest:.2} times the mean, {}", p_text(least));
        if groups.len() > 1 {
            text += " or more";
        }
        let lost = groups
            .iter()
            .filter_map(|group| group.lost)
            .fold(f64::NEG_INFINITY, f64::max);
        if lost.is_finite() {
            text += &format!(
                ", collisions cost at most {} of the goodput of an even spread",
                whole_percent(lost)
            );
        }
    }
    text
}

/// The one with the lowest p-value.
pub(crate) fn least_even<'a>(groups: &[&'a EcmpVerdict]) -> Option<&'a EcmpVerdict> {
    let mut groups = groups.to_vec();
    groups.sort_by(|a, b| {
        a.p_value
            .total_cmp(&b.p_value)
            .then(b.max_over_mean.total_cmp(&a.max_over_mean))
    });
    groups.first().copied()
}

/// Whether a path carries more or less than a fair hash would give it.
pub(crate) fn is_outside(member: &MemberLoad) -> bool {
    // Shares of whole flows lie on the bounds as often as not; what differs by rounding only is within.
    let slack = 1e-9;
    member.share < member.band.0 - slack || member.share > member.band.1 + slack
}

/// What share of all counted bytes each path carried; none where its counter is not known.
pub(crate) fn counted_shares(members: &[MemberLoad]) -> Vec<Option<f64>> {
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
pub(crate) fn port_of(link: &str) -> &str {
    LinkName::parse(link).map_or(link, |link| link.from.port)
}

/// `p 0.34`, or `p < 0.001`.
pub(crate) fn p_text(p: f64) -> String {
    match p < 0.001 {
        true => "p < 0.001".to_string(),
        false => format!("p {p:.2}"),
    }
}
