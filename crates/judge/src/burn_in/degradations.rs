//! Which parts degraded, and which of them explain the others.
//!
//! A link is read from the best flow that crossed it, so a bad cable lowers itself and those parts all of whose flows cross it, nothing else. Of
//! all parts that degraded at the same time the one that explains most is at fault; the others follow it. Parts that explain each other are
//! ambiguous and named together. Both directions of one cable are one issue, and all cables of a host are the host.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::absent_hosts::{MissingHosts, is_of};
use super::catalog::{AccusedPart, CatalogIndex, directed_end};
use super::series::{Series, SeriesKey};
use super::timeline::Timeline;
use record::{EndDirection, LinkName, PartKind, Quantity};

/// Changes so many cycles apart may be the same one.
const SAME_TIME: u32 = 2;

/// How a part got worse.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Shape {
    /// From one cycle to the next.
    Step,
    /// A little all the time: the share per hour under load, with its interval.
    Slope(f64, f64, f64),
}

/// A part that got worse than is accepted, or a few that the data does not distinguish.
#[derive(Debug, Clone)]
pub(super) struct Degradation {
    pub(super) accused: AccusedPart,
    /// Series that show it: one, or both directions of a cable, or all cables of a host; the worst first.
    pub(super) parts: Vec<DegradedSeries>,
    /// Parts that degraded because of it.
    pub(super) followers: Vec<DegradedSeries>,
    /// Parts that may be at fault instead.
    pub(super) apart: Vec<String>,
}

/// One series that degraded.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct DegradedSeries {
    pub(super) kind: PartKind,
    pub(super) part: String,
    pub(super) quantity: Quantity,
    /// Hosts that were away, where that takes flows from it.
    pub(super) without: MissingHosts,
    pub(super) shape: Shape,
    /// The first cycle after the step; the first of all for a slope.
    pub(super) since: u32,
    /// The share by which it changed: -0.15 is 15 % less.
    pub(super) effect: f64,
    pub(super) at_first: f64,
    pub(super) at_last: f64,
    /// Cycles it was read in since then.
    pub(super) cycles: usize,
}

impl Degradation {
    /// The first cycle that shows it.
    pub(super) fn since(&self) -> u32 {
        self.parts
            .iter()
            .map(|degraded| degraded.since)
            .min()
            .unwrap_or(0)
    }
}

/// Everything that degraded beyond the limit, attributed to as few parts as explain it.
pub(super) fn all(
    series: &BTreeMap<SeriesKey, Series>,
    timeline: &Timeline<'_>,
    known: &CatalogIndex<'_>,
    limit: f64,
) -> Vec<Degradation> {
    let mut degraded: Vec<DegradedSeries> = series
        .iter()
        .filter_map(|(key, one)| degraded(key, one, timeline, limit))
        .collect();
    degraded.sort_by(|a, b| a.effect.total_cmp(&b.effect).then_with(|| a.part.cmp(&b.part)));
    let (gpus, links): (Vec<DegradedSeries>, Vec<DegradedSeries>) =
        degraded.into_iter().partition(|one| one.kind == PartKind::Gpu);
    let mut degradations = root_causes(links, known);
    degradations = joined(degradations, known);
    for gpu in gpus {
        let host = known.gpu(&gpu.part).map(|gpu| gpu.host.as_str());
        let at_its_host = |degradation: &&mut Degradation| {
            host.is_some()
                && known.host_of(&degradation.accused) == host
                && may_share_a_cause(&degradation.parts[0], &gpu)
        };
        match degradations.iter_mut().find(at_its_host) {
            Some(degradation) => degradation.followers.push(gpu),
            None => degradations.push(Degradation {
                accused: AccusedPart::Gpu(gpu.part.clone()),
                parts: vec![gpu],
                followers: Vec::new(),
                apart: Vec::new(),
            }),
        }
    }
    degradations
}

/// What a series shows, when it is a degradation beyond the limit.
pub(super) fn degraded(
    key: &SeriesKey,
    one: &Series,
    timeline: &Timeline<'_>,
    limit: f64,
) -> Option<DegradedSeries> {
    let (kind, part, quantity, without) = key;
    if !quantity.is_better_when_higher() {
        return None;
    }
    let stepped = one.step.filter(|_| one.is_step(timeline));
    let (shape, effect, at) = match stepped {
        Some(step) => (Shape::Step, step.by.clamp(-20.0, 20.0).exp() - 1.0, step.at),
        None => {
            let course = one.course(*quantity, timeline);
            let (by, lower, upper) = course.slope_per_hour?;
            (Shape::Slope(by, lower, upper), one.sloped_by()?, 0)
        }
    };
    let (at_first, at_last) = one.ends();
    (effect <= -limit).then(|| DegradedSeries {
        kind: *kind,
        part: part.clone(),
        quantity: *quantity,
        without: without.clone(),
        shape,
        since: one.cycle(timeline, at),
        effect,
        at_first,
        at_last,
        cycles: one.count() - at,
    })
}

/// Whether two parts may have degraded for one reason.
fn may_share_a_cause(a: &DegradedSeries, b: &DegradedSeries) -> bool {
    let both_step = a.shape == Shape::Step && b.shape == Shape::Step;
    !both_step || a.since.abs_diff(b.since) <= SAME_TIME
}

/// The name under which flows know a part: the link, where an end of a rail is one.
fn flow_name(known: &CatalogIndex<'_>, degraded: &DegradedSeries) -> String {
    let link = match (degraded.kind, directed_end(&degraded.part)) {
        (PartKind::RailEnd, Some(end)) => match known.read(degraded.kind, &degraded.part) {
            AccusedPart::Cable(cable) => known
                .of_cable(&cable)
                .find(|link| {
                    link.host.as_deref() == Some(end.host)
                        && link.rail.as_deref() == Some(end.rail)
                        && link.away == (end.direction == Some(EndDirection::Out))
                })
                .map(|link| link.name.clone()),
            _ => None,
        },
        _ => None,
    };
    link.unwrap_or_else(|| degraded.part.clone())
}

/// For every part the others that degrade with it, whatever the reason: all their flows cross it. Flows of missing hosts are left out.
fn implied(
    known: &CatalogIndex<'_>,
    names: &BTreeSet<String>,
    without: &MissingHosts,
) -> HashMap<String, BTreeSet<String>> {
    let flows: Vec<&Vec<String>> = known
        .known
        .flows
        .iter()
        .filter(|flow| !is_of(flow, without))
        .collect();
    let mut crossed: HashMap<&str, Vec<usize>> = HashMap::new();
    for (number, flow) in flows.iter().enumerate() {
        for part in *flow {
            crossed.entry(part).or_default().push(number);
        }
    }
    let follows = |other: &str, part: &str| {
        crossed.get(other).is_some_and(|numbers| {
            numbers
                .iter()
                .all(|number| flows[*number].iter().any(|name| name == part))
        })
    };
    let mut implied = HashMap::new();
    for part in names {
        let candidates: BTreeSet<&String> = match crossed.get(part.as_str()) {
            Some(numbers) => numbers.iter().flat_map(|number| flows[*number]).collect(),
            None => BTreeSet::new(),
        };
        let mut with: BTreeSet<String> = candidates
            .into_iter()
            .filter(|other| follows(other, part))
            .cloned()
            .collect();
        if flows.is_empty() {
            with.extend(
                names
                    .iter()
                    .filter(|other| may_follow(known, part, other))
                    .cloned(),
            );
        }
        with.insert(part.clone());
        implied.insert(part.clone(), with);
    }
    implied
}

/// MissingHosts flows: a cable between switches follows the cable of a host that is on the same leaf.
fn may_follow(known: &CatalogIndex<'_>, part: &str, other: &str) -> bool {
    let (Some(link), Some(other)) = (known.link(part), known.link(other)) else {
        return false;
    };
    let leaf = LinkName::nodes_of(&link.name).find(|node| link.host.as_deref() != Some(node));
    link.host.is_some() && other.host.is_none() && leaf.is_some_and(|leaf| other.touches(leaf))
}

fn root_causes(degraded: Vec<DegradedSeries>, known: &CatalogIndex<'_>) -> Vec<Degradation> {
    let names: BTreeSet<String> = degraded.iter().map(|one| flow_name(known, one)).collect();
    let absences: BTreeSet<&MissingHosts> = degraded.iter().map(|one| &one.without).collect();
    let implied: HashMap<MissingHosts, HashMap<String, BTreeSet<String>>> = absences
        .into_iter()
        .map(|without| (without.clone(), implied(known, &names, without)))
        .collect();
    // What degradations with a part while those hosts are away.
    let with = |part: &str, without: &MissingHosts| implied.get(without).and_then(|of| of.get(part));
    let mut left: Vec<(String, DegradedSeries)> = degraded
        .into_iter()
        .map(|one| (flow_name(known, &one), one))
        .collect();
    let mut degradations = Vec::new();
    while !left.is_empty() {
        let fell: BTreeSet<&String> = left.iter().map(|(name, _)| name).collect();
        let score = |(name, one): &(String, DegradedSeries)| {
            let falls_with = |(other, degraded): &&(String, DegradedSeries)| {
                with(name, &degraded.without).is_some_and(|with| with.contains(other))
            };
            let here: BTreeSet<&String> = left.iter().filter(falls_with).map(|(other, _)| other).collect();
            let should = with(name, &one.without).into_iter().flatten();
            // What should have degraded and did not speaks against it.
            here.len() as i64 - should.filter(|other| !fell.contains(other)).count() as i64
        };
        let is_host = |name: &str| known.link(name).is_some_and(|link| link.host.is_some());
        // The first of the best: those that fell most come first.
        let mut best = 0;
        for at in 1..left.len() {
            let value = |at: usize| (score(&left[at]), is_host(&left[at].0));
            if value(at) > value(best) {
                best = at;
            }
        }
        let (name, root) = left.remove(best);
        let mut degradation = Degradation {
            accused: known.read(root.kind, &root.part),
            parts: vec![root],
            followers: Vec::new(),
            apart: Vec::new(),
        };
        let mut rest = Vec::new();
        for (other, one) in left {
            let is_same = other == name;
            let falls_with = |part: &str, other: &String| {
                with(part, &one.without).is_some_and(|with| with.contains(other))
            };
            if !(is_same || falls_with(&name, &other)) || !may_share_a_cause(&degradation.parts[0], &one) {
                rest.push((other, one));
                continue;
            }
            let explains_it_too = falls_with(&other, &name);
            if !is_same && explains_it_too && !degradation.apart.contains(&other) {
                degradation.apart.push(other.clone());
            }
            // A link is told by its own name, not by that of the end of a rail.
            if is_same && one.kind == PartKind::Link {
                let end = std::mem::replace(&mut degradation.parts[0], one);
                degradation.followers.push(end);
            } else {
                degradation.followers.push(one);
            }
        }
        left = rest;
        degradations.push(degradation);
    }
    degradations
}

/// Both directions of a cable are one degradation, two or more cables of one host at the same time are the host.
fn joined(degradations: Vec<Degradation>, known: &CatalogIndex<'_>) -> Vec<Degradation> {
    let mut hosts: Vec<Degradation> = Vec::new();
    for degradation in one_of_each(degradations) {
        let host = known.host_of(&degradation.accused).map(str::to_string);
        let same = |other: &&mut Degradation| {
            host.is_some()
                && known.host_of(&other.accused) == host.as_deref()
                && may_share_a_cause(&other.parts[0], &degradation.parts[0])
        };
        match hosts.iter_mut().find(same) {
            Some(other) => {
                other.accused = AccusedPart::Node(host.clone().unwrap_or_default());
                other.absorb(degradation);
            }
            None => hosts.push(degradation),
        }
    }
    one_of_each(hosts)
}

/// All that accuses one part is one degradation: its directions may have degraded at different times, or while a host was absent and again after
/// it returned.
fn one_of_each(degradations: Vec<Degradation>) -> Vec<Degradation> {
    let mut each: Vec<Degradation> = Vec::new();
    for degradation in degradations {
        match each.iter_mut().find(|other| other.accused == degradation.accused) {
            Some(other) => other.absorb(degradation),
            None => each.push(degradation),
        }
    }
    each
}

impl Degradation {
    fn absorb(&mut self, other: Degradation) {
        self.parts.extend(other.parts);
        self.followers.extend(other.followers);
        self.apart.extend(other.apart);
    }
}
