//! Findings of all cycles, each attributed to the issue that explains it.
//!
//! A node that was lost explains everything about speed in the cycle of the loss. A link that went down explains what was slow on its rail in that
//! cycle. A part whose bandwidth fell explains, from then on, what was slow where it is used; a part that is accused by name explains
//! the pairs, rails and collectives of the same cycle that use it. What is explained is evidence, not an issue of its own.

use std::collections::BTreeMap;

use super::catalog::{AccusedPart, CatalogIndex};
use super::family::{Family, names_the_part};
use super::timeline::Timeline;
use record::FindingSummary;

/// What identifies an issue.
pub(super) type Key = (Family, AccusedPart);

/// A finding of one cycle.
#[derive(Debug, Clone)]
pub(super) struct CycleFinding<'a> {
    pub(super) cycle: u32,
    pub(super) family: Family,
    pub(super) accused: AccusedPart,
    pub(super) found: &'a FindingSummary,
    /// The issue that explains it; its own when nothing else does.
    pub(super) explained_by: Option<Key>,
}

/// A part whose figures changed for the worse, and the first cycle after that.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct DegradedPart {
    pub(super) accused: AccusedPart,
    pub(super) since: u32,
}

impl CycleFinding<'_> {
    fn key(&self) -> Key {
        (self.family, self.accused.clone())
    }

    /// The issue it belongs to.
    pub(super) fn issue(&self) -> Key {
        self.explained_by.clone().unwrap_or_else(|| self.key())
    }

    fn rail<'s>(&'s self, known: &'s CatalogIndex<'_>) -> Option<&'s str> {
        self.found
            .place
            .rail
            .as_deref()
            .or_else(|| known.rail_of(&self.accused))
    }

    fn has_host(&self, host: &str) -> bool {
        self.found.place.hosts.iter().any(|name| name == host)
    }
}

/// All findings, explained as far as they can be.
pub(super) fn all<'a>(
    timeline: &Timeline<'a>,
    known: &CatalogIndex<'_>,
    worse: &[DegradedPart],
) -> Vec<CycleFinding<'a>> {
    let mut cycle_findings: Vec<CycleFinding<'a>> = Vec::new();
    for cycle in &timeline.cycles {
        for found in cycle.said.findings() {
            if let Some(family) = Family::of(found.kind) {
                cycle_findings.push(CycleFinding {
                    cycle: cycle.number(),
                    family,
                    accused: known.accused(found),
                    found,
                    explained_by: None,
                });
            }
        }
    }
    attribute_to_losses(&mut cycle_findings, timeline, known);
    attribute_to_degradations(&mut cycle_findings, known, worse);
    attribute_within_cycle(
        &mut cycle_findings,
        known,
        |reason| reason.family == Family::Flap,
        on_the_same_rail,
    );
    let is_of_gpu =
        |reason: &CycleFinding<'_>| matches!(reason.family, Family::GpuErrors | Family::Throttled);
    attribute_within_cycle(&mut cycle_findings, known, is_of_gpu, on_the_same_host);
    attribute_within_cycle(
        &mut cycle_findings,
        known,
        |reason| names_the_part(reason.found.kind),
        uses,
    );
    attribute_the_rest_of_mostly_explained(&mut cycle_findings);
    cycle_findings
}

fn attribute_to_losses(
    cycle_findings: &mut [CycleFinding<'_>],
    timeline: &Timeline<'_>,
    known: &CatalogIndex<'_>,
) {
    for finding in cycle_findings.iter_mut() {
        let absence = timeline.absences.iter().find(|absence| {
            let in_the_cycle = absence.lost.cycle == finding.cycle;
            let returned = absence.returned.as_ref().map_or(u32::MAX, |moment| moment.cycle);
            let while_away = (absence.lost.cycle..=returned).contains(&finding.cycle);
            let is_of_host =
                finding.has_host(&absence.host) || known.host_of(&finding.accused) == Some(&absence.host);
            match finding.family {
                Family::Lost => is_of_host && while_away,
                Family::Slow | Family::Sporadic => in_the_cycle || is_of_host && while_away,
                Family::Flap | Family::PortErrors => is_of_host && while_away,
                _ => false,
            }
        });
        if let Some(absence) = absence {
            finding.explained_by = Some((Family::Lost, AccusedPart::Node(absence.host.clone())));
        }
    }
}

/// Attributes what is about speed to another finding of the same cycle that is a reason for it.
fn attribute_within_cycle(
    cycle_findings: &mut [CycleFinding<'_>],
    known: &CatalogIndex<'_>,
    is_reason: impl Fn(&CycleFinding<'_>) -> bool,
    explains: impl Fn(&CatalogIndex<'_>, &AccusedPart, &CycleFinding<'_>) -> bool,
) {
    let mut reasons: BTreeMap<u32, Vec<(Key, Vec<String>)>> = BTreeMap::new();
    for reason in cycle_findings
        .iter()
        .filter(|finding| finding.explained_by.is_none() && is_reason(finding))
    {
        let apart = reason.found.not_told_apart_from.clone();
        reasons
            .entry(reason.cycle)
            .or_default()
            .push((reason.key(), apart));
    }
    for finding in cycle_findings.iter_mut() {
        let may_be_explained = finding.explained_by.is_none() && finding.family.is_about_speed();
        if !may_be_explained || is_reason(finding) {
            continue;
        }
        let own = finding.key();
        let in_cycle = reasons.get(&finding.cycle).into_iter().flatten();
        let reason = in_cycle
            .filter(|(key, _)| *key != own)
            .find(|(key, apart)| explains(known, &key.1, finding) || apart.contains(&finding.found.part));
        finding.explained_by = reason.map(|(key, _)| key.clone());
    }
}

/// From one cycle before the change on: where it lies is known to one cycle.
fn attribute_to_degradations(
    cycle_findings: &mut [CycleFinding<'_>],
    known: &CatalogIndex<'_>,
    worse: &[DegradedPart],
) {
    for finding in cycle_findings.iter_mut() {
        if finding.explained_by.is_some() || !finding.family.is_about_speed() {
            continue;
        }
        let reason = worse.iter().find(|part| {
            let is_of_host = || match &part.accused {
                AccusedPart::Node(host) => known.host_of(&finding.accused) == Some(host),
                _ => false,
            };
            let is_it = part.accused == finding.accused || is_of_host();
            let may_be_it = || {
                let names = known.names_of(&part.accused);
                let apart = &finding.found.not_told_apart_from;
                apart.iter().any(|other| names.contains(other))
            };
            let uses_it = || !names_the_part(finding.found.kind) && uses(known, &part.accused, finding);
            finding.cycle + 1 >= part.since && (is_it || may_be_it() || uses_it())
        });
        finding.explained_by = reason.map(|part| (Family::Slow, part.accused.clone()));
    }
}

/// An issue that names no part and is explained in half of its cycles or more has no other cause in the rest.
fn attribute_the_rest_of_mostly_explained(cycle_findings: &mut [CycleFinding<'_>]) {
    let mut by_key: BTreeMap<Key, (usize, BTreeMap<Key, usize>)> = BTreeMap::new();
    for finding in cycle_findings.iter() {
        let (seen, reasons) = by_key.entry(finding.key()).or_default();
        *seen += 1;
        if let Some(reason) = &finding.explained_by {
            *reasons.entry(reason.clone()).or_default() += 1;
        }
    }
    for finding in cycle_findings.iter_mut() {
        let is_open = finding.explained_by.is_none() && finding.family.is_about_speed();
        if !is_open || names_the_part(finding.found.kind) {
            continue;
        }
        if let Some((seen, reasons)) = by_key.get(&finding.key())
            && 2 * reasons.values().sum::<usize>() >= *seen
        {
            let usual = reasons.iter().max_by_key(|(_, count)| **count);
            finding.explained_by = usual.map(|(key, _)| key.clone());
        }
    }
}

/// What was slow on the rail of a link that went down, or on no rail in particular.
fn on_the_same_rail(known: &CatalogIndex<'_>, reason: &AccusedPart, finding: &CycleFinding<'_>) -> bool {
    match (known.rail_of(reason), finding.rail(known)) {
        (Some(down), Some(slow)) => down == slow,
        _ => true,
    }
}

/// What was slow at the host of a GPU that was in trouble.
fn on_the_same_host(known: &CatalogIndex<'_>, reason: &AccusedPart, finding: &CycleFinding<'_>) -> bool {
    known.host_of(reason).is_some_and(|host| finding.has_host(host))
}

/// Whether what was slow uses a part: it is on its rail, and its host is among those involved, or no host in particular is.
fn uses(known: &CatalogIndex<'_>, part: &AccusedPart, finding: &CycleFinding<'_>) -> bool {
    let same_rail = match (known.rail_of(part), finding.rail(known)) {
        (Some(part), Some(slow)) => part == slow,
        _ => true,
    };
    let hosts = &finding.found.place.hosts;
    let same_host = match (part, known.host_of(part)) {
        (_, Some(host)) => hosts.is_empty() || hosts.len() > 2 || finding.has_host(host),
        (AccusedPart::Switch(switch), None) => match &finding.accused {
            AccusedPart::Cable(cable) => known.of_cable(cable).any(|link| link.touches(switch)),
            _ => true,
        },
        // A cable between switches: whoever sends on its rail may cross it.
        (_, None) => !matches!(finding.accused, AccusedPart::Node(_) | AccusedPart::Gpu(_)),
    };
    same_rail && same_host
}
