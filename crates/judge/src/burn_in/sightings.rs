//! Findings of all cycles, each laid at the door of whatever explains it.
//!
//! A node that was lost explains everything about speed in the cycle of the loss. A link that went down explains what was slow on its rail in that
//! cycle. A part whose bandwidth fell explains, from then on, what was slow where it is used; a part that is accused by name explains
//! the pairs, rails and collectives of the same cycle that use it. What is explained is evidence, not a matter of its own.

use std::collections::BTreeMap;

use super::family::{Family, names_the_part};
use super::known::{Blamed, Index};
use super::timeline::Timeline;
use record::FindingSummary;

/// What a matter is known by.
pub(super) type Key = (Family, Blamed);

/// A finding of one cycle.
#[derive(Debug, Clone)]
pub(super) struct Sighting<'a> {
    pub(super) cycle: u32,
    pub(super) family: Family,
    pub(super) blamed: Blamed,
    pub(super) found: &'a FindingSummary,
    /// The matter that explains it; its own when nothing else does.
    pub(super) laid_to: Option<Key>,
}

/// A part whose figures changed for the worse, and the first cycle after that.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Worse {
    pub(super) blamed: Blamed,
    pub(super) since: u32,
}

impl Sighting<'_> {
    fn key(&self) -> Key {
        (self.family, self.blamed.clone())
    }

    /// The matter it belongs to.
    pub(super) fn matter(&self) -> Key {
        self.laid_to.clone().unwrap_or_else(|| self.key())
    }

    fn rail<'s>(&'s self, known: &'s Index<'_>) -> Option<&'s str> {
        self.found
            .place
            .rail
            .as_deref()
            .or_else(|| known.rail_of(&self.blamed))
    }

    fn has_host(&self, host: &str) -> bool {
        self.found.place.hosts.iter().any(|name| name == host)
    }
}

/// All findings, explained as far as they can be.
pub(super) fn all<'a>(timeline: &Timeline<'a>, known: &Index<'_>, worse: &[Worse]) -> Vec<Sighting<'a>> {
    let mut sightings: Vec<Sighting<'a>> = Vec::new();
    for cycle in &timeline.cycles {
        for found in cycle.said.findings() {
            if let Some(family) = Family::of(found.kind) {
                sightings.push(Sighting {
                    cycle: cycle.number(),
                    family,
                    blamed: known.blamed(found),
                    found,
                    laid_to: None,
                });
            }
        }
    }
    lay_to_losses(&mut sightings, timeline, known);
    lay_to_what_got_worse(&mut sightings, known, worse);
    lay_to_others_of_the_cycle(
        &mut sightings,
        known,
        |reason| reason.family == Family::Flap,
        on_the_same_rail,
    );
    let is_of_gpu = |reason: &Sighting<'_>| matches!(reason.family, Family::GpuErrors | Family::Throttled);
    lay_to_others_of_the_cycle(&mut sightings, known, is_of_gpu, on_the_same_host);
    lay_to_others_of_the_cycle(
        &mut sightings,
        known,
        |reason| names_the_part(reason.found.kind),
        uses,
    );
    lay_the_rest_of_what_is_mostly_explained(&mut sightings);
    sightings
}

fn lay_to_losses(sightings: &mut [Sighting<'_>], timeline: &Timeline<'_>, known: &Index<'_>) {
    for sighting in sightings.iter_mut() {
        let absence = timeline.absences.iter().find(|absence| {
            let in_the_cycle = absence.lost.cycle == sighting.cycle;
            let returned = absence.returned.as_ref().map_or(u32::MAX, |moment| moment.cycle);
            let while_away = (absence.lost.cycle..=returned).contains(&sighting.cycle);
            let is_of_host =
                sighting.has_host(&absence.host) || known.host_of(&sighting.blamed) == Some(&absence.host);
            match sighting.family {
                Family::Lost => is_of_host && while_away,
                Family::Slow | Family::Sporadic => in_the_cycle || is_of_host && while_away,
                Family::Flap | Family::PortErrors => is_of_host && while_away,
                _ => false,
            }
        });
        if let Some(absence) = absence {
            sighting.laid_to = Some((Family::Lost, Blamed::Node(absence.host.clone())));
        }
    }
}

/// Lays what is about speed to another finding of the same cycle that is a reason for it.
fn lay_to_others_of_the_cycle(
    sightings: &mut [Sighting<'_>],
    known: &Index<'_>,
    is_reason: impl Fn(&Sighting<'_>) -> bool,
    explains: impl Fn(&Index<'_>, &Blamed, &Sighting<'_>) -> bool,
) {
    let mut reasons: BTreeMap<u32, Vec<(Key, Vec<String>)>> = BTreeMap::new();
    for reason in sightings
        .iter()
        .filter(|sighting| sighting.laid_to.is_none() && is_reason(sighting))
    {
        let apart = reason.found.not_told_apart_from.clone();
        reasons
            .entry(reason.cycle)
            .or_default()
            .push((reason.key(), apart));
    }
    for sighting in sightings.iter_mut() {
        let may_be_explained = sighting.laid_to.is_none() && sighting.family.is_about_speed();
        if !may_be_explained || is_reason(sighting) {
            continue;
        }
        let own = sighting.key();
        let in_cycle = reasons.get(&sighting.cycle).into_iter().flatten();
        let reason = in_cycle
            .filter(|(key, _)| *key != own)
            .find(|(key, apart)| explains(known, &key.1, sighting) || apart.contains(&sighting.found.part));
        sighting.laid_to = reason.map(|(key, _)| key.clone());
    }
}

/// From one cycle before the change on: where it lies is known to one cycle.
fn lay_to_what_got_worse(sightings: &mut [Sighting<'_>], known: &Index<'_>, worse: &[Worse]) {
    for sighting in sightings.iter_mut() {
        if sighting.laid_to.is_some() || !sighting.family.is_about_speed() {
            continue;
        }
        let reason = worse.iter().find(|part| {
            let is_of_host = || match &part.blamed {
                Blamed::Node(host) => known.host_of(&sighting.blamed) == Some(host),
                _ => false,
            };
            let is_it = part.blamed == sighting.blamed || is_of_host();
            let may_be_it = || {
                let names = known.names_of(&part.blamed);
                let apart = &sighting.found.not_told_apart_from;
                apart.iter().any(|other| names.contains(other))
            };
            let uses_it = || !names_the_part(sighting.found.kind) && uses(known, &part.blamed, sighting);
            sighting.cycle + 1 >= part.since && (is_it || may_be_it() || uses_it())
        });
        sighting.laid_to = reason.map(|part| (Family::Slow, part.blamed.clone()));
    }
}

/// A matter that names no part and is explained in half of its cycles or more has no other cause in the rest.
fn lay_the_rest_of_what_is_mostly_explained(sightings: &mut [Sighting<'_>]) {
    let mut by_key: BTreeMap<Key, (usize, BTreeMap<Key, usize>)> = BTreeMap::new();
    for sighting in sightings.iter() {
        let (seen, reasons) = by_key.entry(sighting.key()).or_default();
        *seen += 1;
        if let Some(reason) = &sighting.laid_to {
            *reasons.entry(reason.clone()).or_default() += 1;
        }
    }
    for sighting in sightings.iter_mut() {
        let is_open = sighting.laid_to.is_none() && sighting.family.is_about_speed();
        if !is_open || names_the_part(sighting.found.kind) {
            continue;
        }
        if let Some((seen, reasons)) = by_key.get(&sighting.key())
            && 2 * reasons.values().sum::<usize>() >= *seen
        {
            let usual = reasons.iter().max_by_key(|(_, count)| **count);
            sighting.laid_to = usual.map(|(key, _)| key.clone());
        }
    }
}

/// What was slow on the rail of a link that went down, or on no rail in particular.
fn on_the_same_rail(known: &Index<'_>, reason: &Blamed, sighting: &Sighting<'_>) -> bool {
    match (known.rail_of(reason), sighting.rail(known)) {
        (Some(down), Some(slow)) => down == slow,
        _ => true,
    }
}

/// What was slow at the host of a GPU that was in trouble.
fn on_the_same_host(known: &Index<'_>, reason: &Blamed, sighting: &Sighting<'_>) -> bool {
    known.host_of(reason).is_some_and(|host| sighting.has_host(host))
}

/// Whether what was slow uses a part: it is on its rail, and its host is among those involved or nobody in particular is.
fn uses(known: &Index<'_>, part: &Blamed, sighting: &Sighting<'_>) -> bool {
    let same_rail = match (known.rail_of(part), sighting.rail(known)) {
        (Some(part), Some(slow)) => part == slow,
        _ => true,
    };
    let hosts = &sighting.found.place.hosts;
    let same_host = match (part, known.host_of(part)) {
        (_, Some(host)) => hosts.is_empty() || hosts.len() > 2 || sighting.has_host(host),
        (Blamed::Switch(switch), None) => match &sighting.blamed {
            Blamed::Cable(cable) => known.of_cable(cable).any(|link| link.touches(switch)),
            _ => true,
        },
        // A cable between switches: whoever sends on its rail may cross it.
        (_, None) => !matches!(sighting.blamed, Blamed::Node(_) | Blamed::Gpu(_)),
    };
    same_rail && same_host
}
