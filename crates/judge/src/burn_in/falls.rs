//! Which parts got worse, and which of them explain the others.
//!
//! A link is read from the best flow that crossed it, so a bad cable lowers itself and those parts all of whose flows cross it, nothing else. Of all that
//! fell at the same time the part that explains most is at fault; the others follow it. Parts that explain each other cannot be told apart and are
//! named together. Both directions of one cable are one matter, and all cables of a host are the host.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::away::{Without, is_of};
use super::courses::{Series, SeriesKey};
use super::known::{Blamed, Index, directed_end};
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

/// A part that got worse than is accepted, or a few that cannot be told apart.
#[derive(Debug, Clone)]
pub(super) struct Fall {
    pub(super) blamed: Blamed,
    /// Series that show it: one, or both directions of a cable, or all cables of a host; the worst first.
    pub(super) parts: Vec<Fallen>,
    /// Parts that fell because of it.
    pub(super) followers: Vec<Fallen>,
    /// Parts that may be at fault instead.
    pub(super) apart: Vec<String>,
}

/// One series that fell.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Fallen {
    pub(super) kind: PartKind,
    pub(super) part: String,
    pub(super) quantity: Quantity,
    /// Hosts that were away, where that takes flows from it.
    pub(super) without: Without,
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

impl Fall {
    /// The first cycle that shows it.
    pub(super) fn since(&self) -> u32 {
        self.parts.iter().map(|fallen| fallen.since).min().unwrap_or(0)
    }
}

/// Everything that fell beyond the limit, laid at as few doors as explain it.
pub(super) fn all(
    series: &BTreeMap<SeriesKey, Series>,
    timeline: &Timeline<'_>,
    known: &Index<'_>,
    limit: f64,
) -> Vec<Fall> {
    let mut fallen: Vec<Fallen> = series
        .iter()
        .filter_map(|(key, one)| fallen(key, one, timeline, limit))
        .collect();
    fallen.sort_by(|a, b| a.effect.total_cmp(&b.effect).then_with(|| a.part.cmp(&b.part)));
    let (gpus, links): (Vec<Fallen>, Vec<Fallen>) =
        fallen.into_iter().partition(|one| one.kind == PartKind::Gpu);
    let mut falls = roots(links, known);
    falls = joined(falls, known);
    for gpu in gpus {
        let host = known.gpu(&gpu.part).map(|gpu| gpu.host.as_str());
        let at_its_host = |fall: &&mut Fall| {
            host.is_some() && known.host_of(&fall.blamed) == host && at_once(&fall.parts[0], &gpu)
        };
        match falls.iter_mut().find(at_its_host) {
            Some(fall) => fall.followers.push(gpu),
            None => falls.push(Fall {
                blamed: Blamed::Gpu(gpu.part.clone()),
                parts: vec![gpu],
                followers: Vec::new(),
                apart: Vec::new(),
            }),
        }
    }
    falls
}

/// What a series shows, when it is a fall beyond the limit.
fn fallen(key: &SeriesKey, one: &Series, timeline: &Timeline<'_>, limit: f64) -> Option<Fallen> {
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
    (effect <= -limit).then(|| Fallen {
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

/// Whether two parts may have fallen for one reason.
fn at_once(a: &Fallen, b: &Fallen) -> bool {
    let both_step = a.shape == Shape::Step && b.shape == Shape::Step;
    !both_step || a.since.abs_diff(b.since) <= SAME_TIME
}

/// The name under which flows know a part: the link, where an end of a rail is one.
fn flow_name(known: &Index<'_>, fallen: &Fallen) -> String {
    let link = match (fallen.kind, directed_end(&fallen.part)) {
        (PartKind::RailEnd, Some(end)) => match known.read(fallen.kind, &fallen.part) {
            Blamed::Cable(cable) => known
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
    link.unwrap_or_else(|| fallen.part.clone())
}

/// For every part of some the others that fall with it, whatever the reason: all their flows cross it, those of some hosts left out.
fn implied(
    known: &Index<'_>,
    names: &BTreeSet<String>,
    without: &Without,
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

/// Without flows: a cable between switches follows the cable of a host that is on the same leaf.
fn may_follow(known: &Index<'_>, part: &str, other: &str) -> bool {
    let (Some(link), Some(other)) = (known.link(part), known.link(other)) else {
        return false;
    };
    let leaf = LinkName::nodes_of(&link.name).find(|node| link.host.as_deref() != Some(node));
    link.host.is_some() && other.host.is_none() && leaf.is_some_and(|leaf| other.touches(leaf))
}

fn roots(fallen: Vec<Fallen>, known: &Index<'_>) -> Vec<Fall> {
    let names: BTreeSet<String> = fallen.iter().map(|one| flow_name(known, one)).collect();
    let absences: BTreeSet<&Without> = fallen.iter().map(|one| &one.without).collect();
    let implied: HashMap<Without, HashMap<String, BTreeSet<String>>> = absences
        .into_iter()
        .map(|without| (without.clone(), implied(known, &names, without)))
        .collect();
    // What falls with a part while those hosts are away.
    let with = |part: &str, without: &Without| implied.get(without).and_then(|of| of.get(part));
    let mut left: Vec<(String, Fallen)> = fallen
        .into_iter()
        .map(|one| (flow_name(known, &one), one))
        .collect();
    let mut falls = Vec::new();
    while !left.is_empty() {
        let fell: BTreeSet<&String> = left.iter().map(|(name, _)| name).collect();
        let score = |(name, one): &(String, Fallen)| {
            let falls_with = |(other, fallen): &&(String, Fallen)| {
                with(name, &fallen.without).is_some_and(|with| with.contains(other))
            };
            let here: BTreeSet<&String> = left.iter().filter(falls_with).map(|(other, _)| other).collect();
            let should = with(name, &one.without).into_iter().flatten();
            // What should have fallen and did not speaks against it.
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
        let mut fall = Fall {
            blamed: known.read(root.kind, &root.part),
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
            if !(is_same || falls_with(&name, &other)) || !at_once(&fall.parts[0], &one) {
                rest.push((other, one));
                continue;
            }
            let explains_it_too = falls_with(&other, &name);
            if !is_same && explains_it_too && !fall.apart.contains(&other) {
                fall.apart.push(other.clone());
            }
            // A link is told by its own name, not by that of the end of a rail.
            if is_same && one.kind == PartKind::Link {
                let end = std::mem::replace(&mut fall.parts[0], one);
                fall.followers.push(end);
            } else {
                fall.followers.push(one);
            }
        }
        left = rest;
        falls.push(fall);
    }
    falls
}

/// Both directions of a cable are one fall, two or more cables of one host at the same time are the host.
fn joined(falls: Vec<Fall>, known: &Index<'_>) -> Vec<Fall> {
    let mut hosts: Vec<Fall> = Vec::new();
    for fall in one_of_each(falls) {
        let host = known.host_of(&fall.blamed).map(str::to_string);
        let same = |other: &&mut Fall| {
            host.is_some()
                && known.host_of(&other.blamed) == host.as_deref()
                && at_once(&other.parts[0], &fall.parts[0])
        };
        match hosts.iter_mut().find(same) {
            Some(other) => {
                other.blamed = Blamed::Node(host.clone().unwrap_or_default());
                other.absorb(fall);
            }
            None => hosts.push(fall),
        }
    }
    one_of_each(hosts)
}

/// Whatever is laid at one door is one fall: its directions may have fallen at different times, or be seen to fall while a host was away and
/// again when it was back.
fn one_of_each(falls: Vec<Fall>) -> Vec<Fall> {
    let mut each: Vec<Fall> = Vec::new();
    for fall in falls {
        match each.iter_mut().find(|other| other.blamed == fall.blamed) {
            Some(other) => other.absorb(fall),
            None => each.push(fall),
        }
    }
    each
}

impl Fall {
    fn absorb(&mut self, other: Fall) {
        self.parts.extend(other.parts);
        self.followers.extend(other.followers);
        self.apart.extend(other.apart);
    }
}
