//! Every criterion as it stands for every part, and what follows.
//!
//! A part is rejected when a criterion is broken, extended when too little was seen to accept it, else accepted. A node is rejected for
//! faults of its own only; while one of its cables is rejected it is extended, because the fault may be in its NIC instead of
//! that cable.

use super::catalog::CatalogIndex;
use super::degradations::Degradation;
use super::exposure::Exposure;
use super::family::Family;
use super::incidents::under_load;
use super::issues::PartIssue;
use super::losses::Losses;
use super::series::{self, FEWEST, Series, SeriesKey};
use super::timeline::Timeline;
use record::text::{first_of, percent, plural};
use record::{Check, Criteria, Incident, PartDecision, PartKind, Quantity, Ruling};
use std::collections::{BTreeMap, BTreeSet};

/// What all parts are decided by.
pub(super) struct DecisionContext<'b, 'a> {
    pub(super) timeline: &'b Timeline<'a>,
    pub(super) known: &'b CatalogIndex<'b>,
    pub(super) exposure: &'b Exposure,
    pub(super) criteria: &'b Criteria,
    pub(super) series: &'b BTreeMap<SeriesKey, Series>,
    pub(super) losses: &'b Losses,
    pub(super) described: &'b [DescribedIssue<'b, 'a>],
}

/// An issue with its description and the parts that it is about.
pub(super) struct DescribedIssue<'m, 'a> {
    pub(super) issue: PartIssue<'m, 'a>,
    pub(super) incident: Incident,
    pub(super) parts: BTreeSet<(PartKind, String)>,
}

impl DescribedIssue<'_, '_> {
    fn is_about(&self, kind: PartKind, part: &str) -> bool {
        self.parts.iter().any(|(of, name)| *of == kind && name == part)
    }
}

impl DecisionContext<'_, '_> {
    /// Every cable in each direction, or every end of a rail.
    pub(super) fn links(&self) -> Vec<PartDecision> {
        let links = &self.known.known.links;
        match links.is_empty() {
            false => links
                .iter()
                .map(|link| self.link(PartKind::Link, &link.name))
                .collect(),
            true => self
                .exposure
                .ends()
                .map(|end| self.link(PartKind::RailEnd, end))
                .collect(),
        }
    }

    fn link(&self, kind: PartKind, part: &str) -> PartDecision {
        let mut checks = self.exposed(kind, part);
        checks.push(self.covered(kind, part));
        checks.push(self.drift(kind, part));
        checks.extend(self.lossy(kind, part));
        let families = [
            Family::Corruption,
            Family::Flap,
            Family::PortErrors,
            Family::Slow,
            Family::Sporadic,
        ];
        checks.extend(families.into_iter().map(|family| self.about(kind, part, family)));
        self.decision(kind, part, checks)
    }

    /// Every GPU.
    pub(super) fn gpus(&self) -> Vec<PartDecision> {
        let one = |part: &str| {
            let mut checks = self.exposed(PartKind::Gpu, part);
            checks.push(self.drift(PartKind::Gpu, part));
            let families = [Family::GpuErrors, Family::Throttled, Family::Slow];
            checks.extend(
                families
                    .into_iter()
                    .map(|family| self.about(PartKind::Gpu, part, family)),
            );
            self.decision(PartKind::Gpu, part, checks)
        };
        self.known.known.gpus.iter().map(|gpu| one(&gpu.name)).collect()
    }

    /// Every node, given what is decided about cables and GPUs.
    pub(super) fn nodes(&self, links: &[PartDecision], gpus: &[PartDecision]) -> Vec<PartDecision> {
        let one = |host: &String| {
            let mut checks = self.exposed(PartKind::Node, host);
            checks.extend(self.lossy(PartKind::Node, host));
            let families = [
                Family::Lost,
                Family::Corruption,
                Family::GpuErrors,
                Family::Throttled,
                Family::Slow,
                Family::Sporadic,
            ];
            checks.extend(
                families
                    .into_iter()
                    .map(|family| self.about(PartKind::Node, host, family)),
            );
            let is_of_host = |decision: &&PartDecision| {
                let part = self.known.read(decision.kind, &decision.part);
                decision.ruling == Ruling::Reject && self.known.host_of(&part) == Some(host)
            };
            let rejected = |decisions: &[PartDecision]| -> Vec<String> {
                decisions
                    .iter()
                    .filter(is_of_host)
                    .map(|decision| decision.part.clone())
                    .collect()
            };
            checks.push(of_its_parts(
                "cables",
                &rejected(links),
                "the fault may be in its NIC instead",
            ));
            if !gpus.is_empty() {
                checks.push(of_its_parts(
                    "gpus",
                    &rejected(gpus),
                    "the node is loaded again with another one",
                ));
            }
            self.decision(PartKind::Node, host, checks)
        };
        self.known.known.hosts.iter().map(one).collect()
    }

    /// Whether it was loaded for long enough.
    fn exposed(&self, kind: PartKind, part: &str) -> Vec<Check> {
        let measured = self.exposure.measured(kind, part);
        let load = self.exposure.load(&measured);
        let (wanted, cycles) = (self.criteria.least_load.value, self.criteria.least_cycles.value);
        vec![
            check(
                "least_load",
                if load >= wanted {
                    Ruling::Accept
                } else {
                    Ruling::Extend
                },
                format!(
                    "{} under load of {} asked for",
                    load.in_words(),
                    wanted.in_words()
                ),
            ),
            check(
                "least_cycles",
                if measured.len() >= cycles as usize {
                    Ruling::Accept
                } else {
                    Ruling::Extend
                },
                format!(
                    "measured in {} cycle{} of {cycles} asked for",
                    measured.len(),
                    plural(measured.len())
                ),
            ),
        ]
    }

    /// Whether it carried enough in enough of the cycles.
    fn covered(&self, kind: PartKind, part: &str) -> Check {
        let all = self.exposure.all.len();
        let by_load = self.exposure.loaded(part).filter(|_| kind == PartKind::Link);
        let loaded = by_load.unwrap_or_else(|| self.exposure.measured(kind, part).len());
        let enough = all > 0 && loaded as f64 >= self.criteria.least_covered.value * all as f64;
        let what = match by_load {
            Some(_) => format!(
                "carried {} of its rate or more",
                percent(self.criteria.least_share.value)
            ),
            None => "was measured".to_string(),
        };
        check(
            "least_covered",
            if enough { Ruling::Accept } else { Ruling::Extend },
            format!(
                "{what} in {loaded} of {all} cycle{}, {} asked for",
                plural(all),
                percent(self.criteria.least_covered.value)
            ),
        )
    }

    fn drift(&self, kind: PartKind, part: &str) -> Check {
        let limit = percent(self.criteria.drift.value);
        let degradations = || {
            self.described
                .iter()
                .filter(|described| described.issue.degradation.is_some())
        };
        if let Some(described) = degradations().find(|described| described.is_about(kind, part)) {
            let what = format!("{}; {limit} accepted", described.incident.sentence);
            return check("drift", Ruling::Reject, what);
        }
        let follows = |described: &&DescribedIssue<'_, '_>| {
            let degradation: Option<&Degradation> = described.issue.degradation;
            let mut degraded = degradation
                .into_iter()
                .flat_map(|degradation| degradation.parts.iter().chain(&degradation.followers));
            degraded.any(|degraded| degraded.kind == kind && degraded.part == part)
        };
        if let Some(described) = degradations().find(follows) {
            let what = format!(
                "fell with {}, which explains it and hides what it can do itself",
                described.incident.part
            );
            return check("drift", Ruling::Extend, what);
        }
        let judged = |quantity: Quantity| {
            let one = series::longest(self.series, kind, part, quantity)?;
            (one.count() >= FEWEST).then(|| one.ends())
        };
        let moved: Vec<String> = [Quantity::Bandwidth, Quantity::Clock]
            .into_iter()
            .filter_map(|quantity| judged(quantity).map(|(first, last)| (quantity, last / first - 1.0)))
            .map(|(quantity, moved)| format!("{quantity} {moved:+.1}", moved = moved * 100.0) + " %")
            .collect();
        match moved.is_empty() {
            true => check(
                "drift",
                Ruling::Extend,
                format!("read in fewer than {FEWEST} cycles: nothing can be said"),
            ),
            false => check(
                "drift",
                Ruling::Accept,
                format!("{} from first to last, {limit} accepted", moved.join(", ")),
            ),
        }
    }

    /// What probes of all cycles say of it; none where there were none, and for a node of which they say nothing.
    fn lossy(&self, kind: PartKind, part: &str) -> Option<Check> {
        if !self.losses.were_looked_for() {
            return None;
        }
        let accepted = match self.criteria.lossy.value {
            limit if limit > 0.0 => format!("; {} accepted", percent(limit)),
            _ => String::new(),
        };
        let mut lossy = self
            .described
            .iter()
            .filter(|described| described.issue.loss.is_some());
        if let Some(described) = lossy.find(|described| described.is_about(kind, part)) {
            let what = format!("{}{accepted}", described.incident.sentence);
            return Some(check("lossy", Ruling::Reject, what));
        }
        let is_suspect =
            |name: &str, others: &[String]| name == part || others.iter().any(|other| other == part);
        let open = self
            .losses
            .parts
            .iter()
            .find(|lossy| is_suspect(&lossy.name, &lossy.or));
        if let Some(open) = open.filter(|open| open.why_not.is_some() || open.name != part) {
            let ((lost, sent), why) = (open.over_it, open.why_not.as_deref());
            let what = format!(
                "{lost} of {sent} probes over {} were lost, and it may be this part: {}",
                open.name,
                why.unwrap_or("not told apart")
            );
            return Some(check("lossy", Ruling::Extend, what));
        }
        match (self.losses.over(part), kind) {
            (_, PartKind::Node) => None,
            (Some((lost, sent)), _) => {
                let what = format!(
                    "{lost} of {sent} probes over it lost: no more than chance and others do{accepted}"
                );
                Some(check("lossy", Ruling::Accept, what))
            }
            (None, _) => {
                let what = "no probe is known to have crossed it".to_string();
                Some(check("lossy", Ruling::Extend, what))
            }
        }
    }

    /// What was seen of one family.
    fn about(&self, kind: PartKind, part: &str, family: Family) -> Check {
        let criterion = family.criterion().unwrap_or("inventory");
        let about = self.described.iter().filter(|described| {
            // A degradation is reported under drift, a loss of packets under lossy.
            let issue = &described.issue;
            let is_loss_only = issue.loss.is_some() && issue.seen.is_empty();
            let is_fall_only = issue.degradation.is_some() && issue.seen.is_empty() && kind != PartKind::Node;
            let is_fall_only = is_fall_only || is_loss_only && issue.degradation.is_none();
            issue.family == family && !is_fall_only && described.is_about(kind, part)
        });
        match about.max_by_key(|described| (described.issue.counts, described.issue.is_open())) {
            None => check(criterion, Ruling::Accept, format!("{} not seen", words(family))),
            Some(described) => {
                let ruling = match (described.issue.counts, described.issue.is_open()) {
                    (true, _) => Ruling::Reject,
                    (false, true) => Ruling::Extend,
                    (false, false) => Ruling::Accept,
                };
                check(criterion, ruling, described.incident.sentence.clone())
            }
        }
    }

    fn decision(&self, kind: PartKind, part: &str, mut checks: Vec<Check>) -> PartDecision {
        let measured = self.exposure.measured(kind, part);
        let (load_ns, cycles) = (
            self.exposure.load(&measured),
            u32::try_from(measured.len()).unwrap_or(u32::MAX),
        );
        checks.sort_by_key(|check| std::cmp::Reverse(check.ruling));
        let ruling = checks.first().map_or(Ruling::Extend, |check| check.ruling);
        let why = match ruling {
            Ruling::Accept => format!("{}; every criterion holds", under_load(load_ns, cycles)),
            _ => {
                let deciding = checks.iter().filter(|check| check.ruling == ruling);
                let reasons: Vec<String> = deciding.map(|check| check.what.clone()).collect();
                reasons.join("; ")
            }
        };
        let of_part = |quantity: Quantity| {
            let one = series::longest(self.series, kind, part, quantity)?;
            Some(one.course(quantity, self.timeline))
        };
        let quantities = [
            Quantity::Bandwidth,
            Quantity::Latency,
            Quantity::Tail,
            Quantity::Temperature,
            Quantity::Clock,
        ];
        PartDecision {
            kind,
            part: part.to_string(),
            identity: self.exposure.identity(kind, part),
            ruling,
            why,
            checks,
            load_ns,
            cycles,
            courses: quantities.into_iter().filter_map(of_part).collect(),
        }
    }
}

fn check(criterion: &str, ruling: Ruling, what: String) -> Check {
    Check {
        criterion: criterion.to_string(),
        ruling,
        what,
    }
}

/// A node whose cables or GPUs are rejected is loaded again when they are replaced.
fn of_its_parts(criterion: &str, rejected: &[String], why: &str) -> Check {
    match rejected.is_empty() {
        true => check(criterion, Ruling::Accept, "none is rejected".to_string()),
        false => check(
            criterion,
            Ruling::Extend,
            format!("rejected: {}; {why}", first_of(rejected, 4, ", ", String::clone)),
        ),
    }
}

fn words(family: Family) -> &'static str {
    match family {
        Family::Corruption => "wrong data",
        Family::Lost => "a loss",
        Family::Flap => "a link going down",
        Family::PortErrors | Family::GpuErrors => "errors beyond what the rules about counters accept",
        Family::Throttled => "clocks held down",
        Family::Slow => "slowness",
        Family::Sporadic => "sporadic slowness",
        Family::Inventory => "a difference",
    }
}
