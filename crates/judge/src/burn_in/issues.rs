//! What happened, over all cycles that show it: one issue per part and family, and whether it counts.

use std::collections::{BTreeMap, BTreeSet};

use super::attribution::{CycleFinding, Key};
use super::catalog::{AccusedPart, CatalogIndex};
use super::degradations::Degradation;
use super::exposure::Exposure;
use super::family::Family;
use super::losses::{Losses, LossyPart};
use super::timeline::{Absence, Timeline};
use record::units::Nanos;
use record::{Criteria, Moment, PartKind};

/// How often a healthy fabric is accused in one cycle: the budget of false positives of a run.
const FALSE_IN_A_CYCLE: f64 = 0.01;
/// The chance of one false accusation in the whole burn-in that is accepted.
const FALSE_IN_ALL: f64 = 0.01;
/// A part that was found slow once is accepted when so many cycles that followed did not find it slow.
const CLEAN: usize = 5;

/// Everything about one part and family.
#[derive(Debug)]
pub(super) struct PartIssue<'m, 'a> {
    pub(super) family: Family,
    pub(super) accused: AccusedPart,
    /// Findings that are it.
    pub(super) seen: Vec<&'m CycleFinding<'a>>,
    /// Findings that it explains.
    pub(super) explained: Vec<&'m CycleFinding<'a>>,
    /// When a host was away.
    pub(super) absences: Vec<Absence>,
    /// How figures fell.
    pub(super) degradation: Option<&'m Degradation>,
    /// What it loses, by probes of all cycles.
    pub(super) loss: Option<&'m LossyPart>,
    /// Cycles that show it.
    pub(super) cycles: BTreeSet<u32>,
    /// Cycles that measured the part, from the first of those on.
    pub(super) of_cycles: BTreeSet<u32>,
    /// Cycles that measured the part at all.
    measured: usize,
    /// Whether it counts.
    pub(super) counts: bool,
}

/// All issues; `counts` is decided.
pub(super) fn all<'m, 'a>(
    cycle_findings: &'m [CycleFinding<'a>],
    (degradations, losses): (&'m [Degradation], &'m Losses),
    timeline: &Timeline<'a>,
    known: &CatalogIndex<'_>,
    exposure: &Exposure,
    criteria: &Criteria,
) -> Vec<PartIssue<'m, 'a>> {
    let mut issues: BTreeMap<Key, PartIssue<'m, 'a>> = BTreeMap::new();
    for absence in absences(cycle_findings, timeline, exposure) {
        let issue = of(&mut issues, Family::Lost, AccusedPart::Node(absence.host.clone()));
        issue.absences.push(absence);
    }
    for degradation in degradations {
        of(&mut issues, Family::Slow, degradation.accused.clone()).degradation = Some(degradation);
    }
    for part in losses.counting(criteria.lossy.value) {
        let issue = of(&mut issues, Family::Slow, part.accused.clone());
        // Of two directions, or what a host sends and receives, the surer one is told.
        issue.loss = issue.loss.or(Some(part));
    }
    for finding in cycle_findings {
        let (family, accused) = finding.issue();
        let issue = of(&mut issues, family, accused);
        match finding.family == family && finding.accused == issue.accused {
            true => issue.seen.push(finding),
            false => issue.explained.push(finding),
        }
    }
    let mut issues: Vec<PartIssue<'m, 'a>> = issues.into_values().collect();
    for issue in &mut issues {
        let measured = exposure.of_blamed(known, &issue.accused);
        issue.cycles = issue.seen.iter().map(|finding| finding.cycle).collect();
        issue
            .cycles
            .extend(issue.absences.iter().map(|absence| absence.lost.cycle));
        if let Some(degradation) = issue.degradation {
            issue.cycles.extend(measured.range(degradation.since()..));
        }
        if let Some(loss) = issue.loss {
            issue.cycles.extend([loss.lossy_cycles.0, loss.lossy_cycles.1]);
        }
        let first = issue.cycles.first().copied().unwrap_or(0);
        let since = measured.range(first..).copied();
        issue.of_cycles = since.chain(issue.cycles.iter().copied()).collect();
        issue.measured = measured.len();
    }
    let rate = chance_of_one(&issues, known, exposure);
    for issue in &mut issues {
        issue.counts = issue.degradation.is_some() || issue.loss.is_some() || issue.is_beyond(criteria, rate);
    }
    issues
}

/// How often chance accuses one part in one cycle, and how many parts there are. What was seen once and never again is what chance
/// does here: where it does more than a run's budget of false positives allows, a part must stand out from that.
fn chance_of_one(issues: &[PartIssue<'_, '_>], known: &CatalogIndex<'_>, exposure: &Exposure) -> Chance {
    let known = known.known;
    let parts = known.links.len().max(exposure.ends().count()) + known.hosts.len() + known.gpus.len();
    let once = |issue: &&PartIssue<'_, '_>| {
        issue.family == Family::Slow
            && issue.degradation.is_none()
            && issue.loss.is_none()
            && issue.cycles.len() == 1
    };
    let (parts, cycles) = (parts.max(1) as f64, exposure.all.len().max(1) as f64);
    let once = issues.iter().filter(once).count() as f64;
    Chance {
        rate: ((once + FALSE_IN_A_CYCLE * cycles) / (parts * cycles)).min(0.5),
        parts,
    }
}

/// What chance does.
#[derive(Debug, Clone, Copy)]
struct Chance {
    /// To one part in one cycle.
    rate: f64,
    /// Parts that it may do it to.
    parts: f64,
}

impl Chance {
    /// Whether a part is found slow so often in so many cycles that chance does not do it to any of all the parts.
    fn is_exceeded(self, seen: usize, of: usize) -> bool {
        at_least(seen, of, self.rate) * self.parts <= FALSE_IN_ALL
    }
}

fn of<'x, 'm, 'a>(
    issues: &'x mut BTreeMap<Key, PartIssue<'m, 'a>>,
    family: Family,
    accused: AccusedPart,
) -> &'x mut PartIssue<'m, 'a> {
    issues
        .entry((family, accused.clone()))
        .or_insert_with(|| PartIssue {
            family,
            accused,
            seen: Vec::new(),
            explained: Vec::new(),
            absences: Vec::new(),
            degradation: None,
            loss: None,
            cycles: BTreeSet::new(),
            of_cycles: BTreeSet::new(),
            measured: 0,
            counts: false,
        })
}

/// Losses that the journal tells, and those that only a finding does: the node is back when it is measured again.
fn absences(
    cycle_findings: &[CycleFinding<'_>],
    timeline: &Timeline<'_>,
    exposure: &Exposure,
) -> Vec<Absence> {
    let mut all = timeline.absences.clone();
    for finding in cycle_findings
        .iter()
        .filter(|finding| finding.family == Family::Lost && finding.explained_by.is_none())
    {
        let AccusedPart::Node(host) = &finding.accused else {
            continue;
        };
        let measured = exposure.measured(PartKind::Node, host);
        let back = measured.range(finding.cycle + 1..).next();
        all.push(Absence {
            host: host.clone(),
            lost: timeline.moment(finding.cycle),
            reason: finding.found.sentence.clone(),
            returned: back.map(|cycle| timeline.moment(*cycle)),
        });
    }
    all
}

impl PartIssue<'_, '_> {
    /// Whether it is more than the criteria accept and more than chance does.
    fn is_beyond(&self, criteria: &Criteria, chance: Chance) -> bool {
        let (seen, of) = (self.cycles.len(), self.measured.max(1));
        let share = seen as f64 / of as f64;
        let more_than = |limit: u32| seen > limit as usize;
        match self.family {
            Family::Corruption => self.seen.len() as u64 > criteria.corruption.value,
            Family::Lost => self.absences.len().max(self.seen.len().min(1)) > criteria.losses.value as usize,
            Family::Flap => more_than(criteria.flaps.value),
            Family::PortErrors | Family::GpuErrors => more_than(criteria.error_cycles.value),
            Family::Throttled => share > criteria.throttled.value,
            Family::Sporadic => seen > 1 && share > criteria.sporadic.value,
            Family::Slow => more_than(criteria.slow_cycles.value) && chance.is_exceeded(seen, of),
            Family::Inventory => false,
        }
    }

    /// Whether the last cycle that measured the part still shows it.
    pub(super) fn is_still_there(&self) -> bool {
        match self.family {
            Family::Lost => self
                .absences
                .last()
                .is_none_or(|absence| absence.returned.is_none()),
            _ if self.loss.is_some() => self.clean_since() < CLEAN,
            _ => self.degradation.is_some() || self.of_cycles.last() == self.cycles.last(),
        }
    }

    /// Whether it is too recent to be called chance: nothing about it is decided yet.
    pub(super) fn is_open(&self) -> bool {
        !self.counts && self.family == Family::Slow && self.clean_since() < CLEAN
    }

    /// Cycles since the last one that shows it.
    fn clean_since(&self) -> usize {
        let last = self.cycles.last().copied().unwrap_or(0);
        self.of_cycles.range(last + 1..).count()
    }

    /// When the first and the last cycle that show it began; a loss has its own time.
    pub(super) fn moments(&self, timeline: &Timeline<'_>) -> (Moment, Moment) {
        let lost = self.absences.first().map(|absence| absence.lost.clone());
        let back = self
            .absences
            .last()
            .map(|absence| absence.returned.clone().unwrap_or(absence.lost.clone()));
        let of = |cycle: Option<&u32>| cycle.map_or_else(nowhere, |cycle| timeline.moment(*cycle));
        (
            lost.unwrap_or_else(|| of(self.cycles.first())),
            back.unwrap_or_else(|| of(self.cycles.last())),
        )
    }

    /// The parts that are decided on and that it is about.
    pub(super) fn parts(&self, known: &CatalogIndex<'_>) -> BTreeSet<(PartKind, String)> {
        let kind = match &self.accused {
            AccusedPart::Cable(_) => PartKind::Link,
            AccusedPart::End { .. } => PartKind::RailEnd,
            AccusedPart::Node(_) => PartKind::Node,
            AccusedPart::Gpu(_) => PartKind::Gpu,
            AccusedPart::Switch(_) | AccusedPart::Rail(_) | AccusedPart::Other(_) => return BTreeSet::new(),
        };
        let names = known.names_of(&self.accused);
        let mut named: BTreeSet<String> = BTreeSet::new();
        let is_both = self.seen.iter().any(|finding| finding.found.both_directions)
            || self.loss.is_some_and(|loss| loss.is_both);
        if self.family == Family::Slow && !is_both {
            let seen = self
                .seen
                .iter()
                .flat_map(|finding| [&finding.found.part].into_iter().chain(&finding.found.place.link));
            let fell = self
                .degradation
                .into_iter()
                .flat_map(|degradation| degradation.parts.iter().map(|degraded| &degraded.part));
            let lossy = self.loss.into_iter().map(|loss| &loss.name);
            named = seen
                .chain(fell)
                .chain(lossy)
                .filter(|name| names.contains(name))
                .cloned()
                .collect();
        }
        // Who is not named in one direction is meant in both.
        let all = if named.is_empty() {
            names.into_iter().collect()
        } else {
            named
        };
        all.into_iter().map(|name| (kind, name)).collect()
    }
}

fn nowhere() -> Moment {
    Moment {
        cycle: 0,
        at: String::new(),
        load_ns: Nanos(0),
    }
}

/// P(X >= `least`) of `trials` that each succeed with probability `rate`.
fn at_least(least: usize, trials: usize, rate: f64) -> f64 {
    let mut chance = (1.0 - rate).powi(i32::try_from(trials).unwrap_or(i32::MAX));
    let mut below = 0.0;
    for successes in 0..least {
        below += chance;
        let left = trials.saturating_sub(successes) as f64;
        chance *= left / (successes + 1) as f64 * rate / (1.0 - rate);
    }
    (1.0 - below).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twice_in_half_an_hour_is_a_fault_and_twice_in_a_day_is_chance() {
        let chance = |once: f64, cycles: f64| Chance {
            rate: (once + FALSE_IN_A_CYCLE * cycles) / (24.0 * cycles),
            parts: 24.0,
        };
        assert!(chance(0.0, 30.0).is_exceeded(2, 30));
        assert!(!chance(0.0, 30.0).is_exceeded(1, 30));
        assert!(!chance(0.0, 1440.0).is_exceeded(2, 1440));
        assert!(chance(0.0, 1440.0).is_exceeded(8, 1440));
        // Where single findings are common, two of one part are no surprise.
        assert!(!chance(4.0, 30.0).is_exceeded(2, 30));
        assert!(chance(4.0, 30.0).is_exceeded(5, 30));
        assert!((at_least(2, 3, 0.5) - 0.5).abs() < 1e-12);
        assert_eq!(at_least(0, 3, 0.5), 1.0);
    }
}
