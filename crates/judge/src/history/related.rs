//! Changes that are one issue: both directions of a cable, a cable and the end of the rail that it is plugged into, a host and
//! its rails, a collective and the part that holds it up.

use super::dated_change::DatedChange;
use record::{ChangeShape, Part, PartKind, PortName, RailEndName};

/// How many runs apart two steps may seem to begin and still be one; slopes are dated less well.
const APART: usize = 2;
const SLOPES_APART: usize = 5;

/// Changes that are one issue become one: that of the part that says most about where, with the others' names.
pub(super) fn joined(all: Vec<DatedChange>) -> Vec<DatedChange> {
    let mut group: Vec<usize> = (0..all.len()).collect();
    for at in 0..all.len() {
        for other in 0..at {
            if is_local(&all[at]) == is_local(&all[other]) && is_one(&all[at], &all[other]) {
                let (from, to) = (group[at].max(group[other]), group[at].min(group[other]));
                group
                    .iter_mut()
                    .filter(|number| **number == from)
                    .for_each(|number| *number = to);
            }
        }
    }
    // What all parts take part in is held up by the worst of them.
    for at in (0..all.len()).filter(|at| !is_local(&all[*at])) {
        let holds_up = |other: &usize| {
            is_local(&all[*other]) && coincide(&all[at], &all[*other]) && may_hold_up(&all[*other], &all[at])
        };
        let worst = (0..all.len())
            .filter(holds_up)
            .min_by(|a, b| all[*a].change.effect.total_cmp(&all[*b].change.effect));
        if let Some(worst) = worst {
            let (from, to) = (group[at], group[worst]);
            group
                .iter_mut()
                .filter(|number| **number == from)
                .for_each(|number| *number = to);
        }
    }
    let mut groups: Vec<(usize, Vec<DatedChange>)> = Vec::new();
    for (dated, number) in all.into_iter().zip(group) {
        match groups.iter_mut().find(|(known, _)| *known == number) {
            Some((_, members)) => members.push(dated),
            None => groups.push((number, vec![dated])),
        }
    }
    groups
        .into_iter()
        .filter_map(|(_, members)| one(members))
        .collect()
}

/// Whether it is a part at one place, rather than something that many parts make together.
fn is_local(dated: &DatedChange) -> bool {
    !dated.is_common && !matches!(dated.change.kind, PartKind::Rail | PartKind::Collective)
}

fn one(mut members: Vec<DatedChange>) -> Option<DatedChange> {
    let ends = members
        .iter()
        .filter(|member| member.change.kind == PartKind::RailEnd)
        .count();
    // A host is more than its rails only when several of them say so.
    let rank = |dated: &DatedChange| match dated.change.kind {
        _ if dated.is_common => 0,
        PartKind::Node if ends > 2 => 1,
        PartKind::Link => 2,
        PartKind::RailEnd => 3,
        PartKind::Gpu => 4,
        PartKind::Node => 5,
        PartKind::Rail => 6,
        PartKind::Collective => 7,
    };
    members.sort_by(|a, b| {
        rank(a)
            .cmp(&rank(b))
            .then(b.change.score.abs().total_cmp(&a.change.score.abs()))
    });
    let earliest = members.iter().map(|member| member.proved).min()?;
    let latest = members.iter().map(|member| member.latest).max()?;
    let seen = members.iter().map(|member| member.seen).max()?;
    let away = members.iter().filter_map(|member| member.away).min();
    let mut members = members.into_iter();
    let mut first = members.next()?;
    for other in members {
        let name = match (other.change.part == first.change.part, other.is_common) {
            (true, _) => other.change.quantity.to_string(),
            (false, _) if other.change.quantity != first.change.quantity => {
                format!("{} ({})", other.change.part, other.change.quantity)
            }
            (false, _) => other.change.part,
        };
        if !first.change.with.contains(&name) {
            first.change.with.push(name);
        }
    }
    (first.proved, first.latest, first.seen, first.away) = (earliest, latest, seen, away);
    Some(first)
}

/// Whether they began at about the same time and go the same way.
fn coincide(a: &DatedChange, b: &DatedChange) -> bool {
    let is_slope = [a, b]
        .iter()
        .any(|dated| dated.change.shape == ChangeShape::Slope);
    let apart = if is_slope { SLOPES_APART } else { APART };
    a.change.is_worse == b.change.is_worse && a.since.abs_diff(b.since) <= apart
}

fn is_one(a: &DatedChange, b: &DatedChange) -> bool {
    coincide(a, b)
        && (a.is_common && b.is_common || a.change.part == b.change.part || are_near(a, b) || are_near(b, a))
}

/// Whether a local change may be why something on the whole changed.
fn may_hold_up(local: &DatedChange, whole: &DatedChange) -> bool {
    match whole.change.kind {
        _ if whole.is_common => false,
        PartKind::Rail => {
            // The port of a link may be called otherwise than its rail.
            local.change.kind == PartKind::Link || ports(local).any(|port| port.port == whole.change.part)
        }
        _ => true,
    }
}

/// Whether the parts touch each other.
fn are_near(a: &DatedChange, b: &DatedChange) -> bool {
    use PartKind::{Collective, Link, Node, RailEnd};
    let similar = (a.change.effect.abs() / b.change.effect.abs()).log2().abs() <= 1.0;
    let share_a_port = || ports(a).any(|port| ports(b).any(|other| other == port));
    let share_a_host = || ports(a).any(|port| ports(b).any(|other| other.node == port.node));
    match (a.change.kind, b.change.kind) {
        (Link, Link) => share_a_port(),
        (Link, RailEnd) => share_a_port() || similar && share_a_host(),
        (RailEnd, RailEnd) => {
            let (a, b) = (
                RailEndName::parse(&a.change.part),
                RailEndName::parse(&b.change.part),
            );
            let are_opposite = a
                .zip(b)
                .is_some_and(|(a, b)| a.rail == b.rail && a.direction != b.direction);
            share_a_host() || similar && are_opposite
        }
        (Node, RailEnd | Link) => ports(b).any(|port| port.node == a.change.part),
        (Collective, Collective) => true,
        _ => false,
    }
}

/// The ports that a link or the end of a rail is at.
fn ports(dated: &DatedChange) -> impl Iterator<Item = PortName<'_>> {
    let part = Part::parse(dated.change.kind, &dated.change.part);
    part.into_iter().flat_map(Part::ports)
}
