//! What flows of a pattern should get: max-min fair shares over even splits, and over the paths that they take.
//!
//! Ideal: every flow is split evenly over all equal paths. Predicted: it takes the path that was traced; where none is known, paths are drawn a hundred
//! times, as a fair hash would. Flows of switches that spray packets are split evenly in both. A link of unknown rate carries what a host's cable does.

use std::collections::{BTreeMap, BTreeSet};

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use rayon::prelude::*;

use topology::graph::{Crossing, Graph, LinkId, Path, fair_shares};

/// How often unknown paths are drawn.
const DRAWS: u64 = 100;
/// A link is full from here on, relative to what it carries.
const FULL: f64 = 1.0 - 1e-6;
/// What headers and pauses leave of a cable, at least where hosts fill it.
const PAYLOAD: f64 = 0.95;

/// One flow of a pattern.
#[derive(Debug, Clone)]
pub(super) struct Flow {
    /// Sender and receiver.
    pub(super) ranks: (u32, u32),
    /// The cables of its hosts: that it leaves by, and that it arrives by.
    pub(super) ends: [Option<LinkId>; 2],
    /// Its path, where that is known and stays.
    pub(super) path: Option<Path>,
    /// Whether its packets are spread over all paths.
    pub(super) is_sprayed: bool,
    /// What it crosses where it is split evenly over equal paths.
    pub(super) split: Vec<Crossing>,
    /// What arrived of it in bytes per second, round by round; none where that was not recorded.
    pub(super) delivered: Vec<Option<f64>>,
}

/// What links carry.
#[derive(Debug, Clone)]
pub(super) struct Capacity {
    /// In bytes per second, by link.
    pub(super) of_links: Vec<f64>,
}

impl Capacity {
    /// What the cables of a rail are said to carry, with 1 for all where nothing is said.
    pub(super) fn nominal(graph: &Graph, rail: &str) -> (Capacity, bool) {
        let of_rail = || {
            let links = graph.links();
            links.filter(|(_, link)| link.rail.as_deref().is_none_or(|other| other == rail))
        };
        let of_hosts = of_rail().filter(|(_, link)| link.is_host && link.rate.0 > 0.0);
        let line = of_hosts.map(|(_, link)| link.rate.0).fold(0.0, f64::max);
        let is_known = line > 0.0;
        let line = if is_known { line } else { 1.0 };
        let rate = |rate: f64| if rate > 0.0 && is_known { rate } else { line };
        let capacity = Capacity {
            of_links: graph.links().map(|(_, link)| rate(link.rate.0)).collect(),
        };
        (capacity, is_known)
    }

    /// The same where flows alone on a host's cable reach this share of it.
    pub(super) fn reaching(&self, graph: &Graph, reached: f64, is_known: bool) -> Capacity {
        let between = if is_known { reached.max(PAYLOAD) } else { reached };
        let left = |(id, link): (LinkId, &topology::graph::DirectedLink)| {
            self.of_links[id.index()] * if link.is_host { reached } else { between }
        };
        Capacity {
            of_links: graph.links().map(left).collect(),
        }
    }

    /// What the cables of its hosts leave a flow when it is alone.
    pub(super) fn line(&self, flow: &Flow) -> f64 {
        let ends = flow.ends.into_iter().flatten();
        let lines = ends.map(|link| self.of_links[link.index()]);
        lines.fold(f64::INFINITY, f64::min)
    }
}

/// What flows should get.
#[derive(Debug, Clone)]
pub(super) struct Prediction {
    /// Of every flow; the mean where paths are drawn.
    pub(super) rates: Vec<f64>,
    /// Of all together in every draw, ascending; one where all paths are known.
    pub(super) totals: Vec<f64>,
    /// What fills up, and the flows that cross it. Where paths are drawn, all flows.
    pub(super) groups: Vec<Group>,
}

impl Prediction {
    /// Whether some paths are not known.
    pub(super) fn is_drawn(&self) -> bool {
        self.totals.len() > 1
    }
}

/// A link that is full, and the flows that cross it with the share of each that does.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Group {
    /// The link; none for all flows of a pattern.
    pub(super) link: Option<LinkId>,
    /// Flows by number.
    pub(super) flows: Vec<(usize, f64)>,
}

impl Group {
    /// The sum of these values over its flows.
    pub(super) fn sum(&self, values: &[f64]) -> f64 {
        self.flows.iter().map(|(flow, share)| values[*flow] * share).sum()
    }
}

/// What flows get that are split evenly over equal paths.
pub(super) fn ideal(flows: &[Flow], capacity: &Capacity) -> Vec<f64> {
    let paths: Vec<&[Crossing]> = flows.iter().map(|flow| flow.split.as_slice()).collect();
    finite(fair_shares(&paths, &capacity.of_links))
}

/// What they would get if only the cables of hosts held them back: of a host that sends to several, each gets a share.
pub(super) fn of_hosts(flows: &[Flow], capacity: &Capacity) -> Vec<f64> {
    let ends = |flow: &Flow| -> Vec<LinkId> { flow.ends.into_iter().flatten().collect() };
    let paths: Vec<Vec<LinkId>> = flows.iter().map(ends).collect();
    let views: Vec<&[LinkId]> = paths.iter().map(Vec::as_slice).collect();
    finite(fair_shares(&views, &capacity.of_links))
}

/// What they get over the paths that they take.
pub(super) fn predicted(flows: &[Flow], capacity: &Capacity, graph: &Graph, rail: &str) -> Prediction {
    let is_open = |flow: &Flow| flow.path.is_none() && !flow.is_sprayed;
    let whole = |path: &Path| -> Vec<Crossing> { path.iter().map(|link| (*link, 1.0)).collect() };
    if !flows.iter().any(is_open) {
        let paths: Vec<Vec<Crossing>> = flows
            .iter()
            .map(|flow| flow.path.as_ref().map_or_else(|| flow.split.clone(), whole))
            .collect();
        let views: Vec<&[Crossing]> = paths.iter().map(Vec::as_slice).collect();
        let rates = finite(fair_shares(&views, &capacity.of_links));
        return Prediction {
            totals: vec![rates.iter().sum()],
            groups: full_links(&paths, &rates, &capacity.of_links, graph),
            rates,
        };
    }
    let draw = |seed: u64| {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let paths: Vec<Vec<Crossing>> = flows
            .iter()
            .map(|flow| match &flow.path {
                Some(path) => whole(path),
                None if flow.is_sprayed => flow.split.clone(),
                None => {
                    let (from, to) = flow.ranks;
                    let choose = |_, links: &[LinkId]| random.next_u64() as usize % links.len().max(1);
                    let drawn = graph.route(from, to, rail, choose);
                    drawn.as_ref().map_or_else(|| flow.split.clone(), whole)
                }
            })
            .collect();
        let views: Vec<&[Crossing]> = paths.iter().map(Vec::as_slice).collect();
        finite(fair_shares(&views, &capacity.of_links))
    };
    let draws: Vec<Vec<f64>> = (0..DRAWS).into_par_iter().map(draw).collect();
    let mean = |flow: usize| draws.iter().map(|rates| rates[flow]).sum::<f64>() / DRAWS as f64;
    let mut totals: Vec<f64> = draws.iter().map(|rates| rates.iter().sum()).collect();
    totals.sort_by(f64::total_cmp);
    let all = (0..flows.len()).map(|flow| (flow, 1.0)).collect();
    Prediction {
        rates: (0..flows.len()).map(mean).collect(),
        totals,
        groups: vec![Group {
            link: None,
            flows: all,
        }],
    }
}

fn finite(mut rates: Vec<f64>) -> Vec<f64> {
    // Without a link nothing carries a flow.
    rates
        .iter_mut()
        .filter(|rate| !rate.is_finite())
        .for_each(|rate| *rate = 0.0);
    rates
}

/// The links that are full, each with the flows that cross it. Of links with the same flows the one where a switch first chose stands for all.
fn full_links(paths: &[Vec<Crossing>], rates: &[f64], capacity: &[f64], graph: &Graph) -> Vec<Group> {
    let mut crossed: BTreeMap<LinkId, Vec<(usize, f64)>> = BTreeMap::new();
    for (flow, path) in paths.iter().enumerate() {
        for (link, share) in path {
            crossed.entry(*link).or_default().push((flow, *share));
        }
    }
    let is_full = |link: &LinkId, flows: &[(usize, f64)]| {
        let load: f64 = flows.iter().map(|(flow, share)| rates[*flow] * share).sum();
        load >= capacity[link.index()] * FULL
    };
    let mut full: Vec<Group> = crossed
        .into_iter()
        .filter(|(link, flows)| is_full(link, flows))
        .map(|(link, flows)| Group {
            link: Some(link),
            flows,
        })
        .collect();
    // What was chosen on the way up is the cause of what is full on the way down.
    full.sort_by_key(|group| {
        let link = group.link.map(|link| graph.link(link));
        link.map(|link| (link.is_host, !link.is_upward))
    });
    let mut seen: BTreeSet<Vec<usize>> = BTreeSet::new();
    full.retain(|group| seen.insert(group.flows.iter().map(|(flow, _)| *flow).collect()));
    full
}
