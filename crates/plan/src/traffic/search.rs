//! The permutation that a fabric carries worst, by hill climbing: two senders exchange their receivers, and it is kept when that slows flows down.
//!
//! What is climbed is the sum over flows of how much longer each takes than alone, by the busiest link that it crosses: k flows on one cable count k times
//! k, so that the climb gathers them. Paths are those that are known; where none is, a flow crosses links with its probabilities, and what is found is what
//! the topology itself carries worst. Only flows whose paths are known are exchanged, where any is. The same seed gives the same patterns; work is counted
//! in links visited, so that a search ends in the same place on any machine.

use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use rand::{Rng, RngExt};
use topology::graph::{Crossing, Graph, LinkId, fair_shares};

use crate::flow::PathTable;

/// Links that a climb visits, at most.
const WORK: u64 = 4_000_000;
/// Exchanges that a climb tries for every sender, at most.
const TRIES_PER_SENDER: u64 = 400;

/// What a pair crosses with the share of its flows that does, and whether its paths are known.
type PairCrossing = (Rc<[Crossing]>, bool);

/// The paths of pairs over one rail, from consecutive source ports.
pub struct Paths<'g> {
    graph: &'g Graph,
    table: &'g PathTable,
    rail: &'g str,
    ports: std::ops::Range<u16>,
    /// What links carry relative to a host's cable.
    capacity: Vec<f64>,
    crossings: HashMap<(u32, u32), PairCrossing>,
}

impl<'g> Paths<'g> {
    /// Paths of flows from these source ports.
    pub fn new(
        graph: &'g Graph,
        table: &'g PathTable,
        rail: &'g str,
        ports: std::ops::Range<u16>,
    ) -> Paths<'g> {
        let rates = || graph.links().map(|(_, link)| link.rate.0);
        let of_hosts = graph.links().filter(|(_, link)| link.is_host);
        let line = of_hosts.map(|(_, link)| link.rate.0).fold(0.0, f64::max);
        let relative = |rate: f64| {
            if rate > 0.0 && line > 0.0 {
                rate / line
            } else {
                1.0
            }
        };
        Paths {
            graph,
            table,
            rail,
            ports,
            capacity: rates().map(relative).collect(),
            crossings: HashMap::new(),
        }
    }

    /// The links that a pair crosses with the share of its flows that does, and whether its paths are known.
    fn of(&mut self, from: u32, to: u32) -> PairCrossing {
        if let Some((crossing, is_known)) = self.crossings.get(&(from, to)) {
            return (Rc::clone(crossing), *is_known);
        }
        let share = 1.0 / self.ports.len().max(1) as f64;
        let mut all: Vec<Crossing> = Vec::new();
        let mut is_known = true;
        for port in self.ports.clone() {
            match self.table.path_of_port(self.graph, (from, to, self.rail), port) {
                Some(path) => all.extend(path.into_iter().map(|link| (link, share))),
                None => {
                    is_known = false;
                    let expected = self.graph.crossing_probabilities(from, to, self.rail);
                    all.extend(expected.into_iter().map(|(link, of)| (link, of * share)));
                }
            }
        }
        all.sort_unstable_by_key(|(link, _)| *link);
        let merged = all.chunk_by(|a, b| a.0 == b.0);
        let merged: Rc<[Crossing]> = merged
            .map(|same| (same[0].0, same.iter().map(|(_, share)| share).sum()))
            .collect();
        self.crossings.insert((from, to), (Rc::clone(&merged), is_known));
        (merged, is_known)
    }

    /// Whether the paths of all these pairs are known.
    pub fn are_known(&mut self, pairs: &[(u32, u32)]) -> bool {
        pairs.iter().all(|(from, to)| self.of(*from, *to).1)
    }

    /// How many times as long as alone flows take on average, where they share links fairly.
    pub fn slowdown(&mut self, pairs: &[(u32, u32)]) -> f64 {
        let crossings: Vec<Rc<[Crossing]>> = pairs.iter().map(|(from, to)| self.of(*from, *to).0).collect();
        let paths: Vec<&[Crossing]> = crossings.iter().map(|crossing| &crossing[..]).collect();
        let shares = fair_shares(&paths, &self.capacity);
        let alone = |crossing: &[Crossing]| {
            let held = crossing
                .iter()
                .map(|(link, share)| self.capacity[link.index()] / share);
            held.fold(f64::INFINITY, f64::min)
        };
        let slowdowns = paths
            .iter()
            .zip(&shares)
            .map(|(path, share)| match share.is_finite() {
                true => alone(path) / share,
                false => 1.0,
            });
        slowdowns.sum::<f64>() / pairs.len().max(1) as f64
    }
}

/// A permutation at least as bad as this one, found from there on.
pub fn climb(paths: &mut Paths<'_>, start: &[(u32, u32)], random: &mut impl Rng) -> Vec<(u32, u32)> {
    if start.len() < 2 {
        return start.to_vec();
    }
    let only_known = paths.are_known(start);
    let mut climber = Climber::new(paths, start);
    let tries = TRIES_PER_SENDER * start.len() as u64;
    for _ in 0..tries {
        if climber.work > WORK {
            break;
        }
        let one = random.random_range(0..start.len());
        let other = random.random_range(0..start.len());
        let ((from, to), (from_other, to_other)) = (climber.pairs[one], climber.pairs[other]);
        if one == other || from == to_other || from_other == to {
            continue;
        }
        let (new, is_known) = paths.of(from, to_other);
        let (new_other, is_other_known) = paths.of(from_other, to);
        let is_possible = !new.is_empty() && !new_other.is_empty();
        if !is_possible || only_known && !(is_known && is_other_known) {
            continue;
        }
        climber.exchange((one, new), (other, new_other));
    }
    let found = climber.pairs;
    // The climb looks at busiest links only: what flows really get decides.
    match paths.slowdown(&found) >= paths.slowdown(start) {
        true => found,
        false => start.to_vec(),
    }
}

/// The flows of a pattern, and what their links are asked for.
struct Climber {
    pairs: Vec<(u32, u32)>,
    crossings: Vec<Rc<[Crossing]>>,
    /// What links are asked for, relative to what they carry.
    load: Vec<f64>,
    inverse: Vec<f64>,
    flows: Vec<Vec<u32>>,
    slowdowns: Vec<f64>,
    work: u64,
}

impl Climber {
    fn new(paths: &mut Paths<'_>, pairs: &[(u32, u32)]) -> Climber {
        let links = paths.capacity.len();
        let mut climber = Climber {
            pairs: pairs.to_vec(),
            crossings: pairs.iter().map(|(from, to)| paths.of(*from, *to).0).collect(),
            load: vec![0.0; links],
            inverse: paths.capacity.iter().map(|capacity| 1.0 / capacity).collect(),
            flows: vec![Vec::new(); links],
            slowdowns: vec![1.0; pairs.len()],
            work: 0,
        };
        for flow in 0..pairs.len() {
            climber.put(flow, true);
        }
        for flow in 0..pairs.len() {
            climber.slowdowns[flow] = climber.slowdown(flow);
        }
        climber
    }

    /// Puts a flow on its links, or takes it off.
    fn put(&mut self, flow: usize, is_on: bool) {
        let crossing = Rc::clone(&self.crossings[flow]);
        self.work += crossing.len() as u64;
        for (link, share) in crossing.iter() {
            let at = link.index();
            let asked = share * self.inverse[at];
            if is_on {
                self.load[at] += asked;
                self.flows[at].push(flow as u32);
            } else {
                self.load[at] -= asked;
                self.flows[at].retain(|other| *other != flow as u32);
            }
        }
    }

    fn slowdown(&mut self, flow: usize) -> f64 {
        let crossing = &self.crossings[flow];
        self.work += crossing.len() as u64;
        let loads = crossing.iter().map(|(link, _)| self.load[link.index()]);
        loads.fold(1.0, f64::max)
    }

    /// Has two flows exchange their receivers, unless that speeds flows up.
    fn exchange(&mut self, one: (usize, Rc<[Crossing]>), other: (usize, Rc<[Crossing]>)) {
        let before = [one.0, other.0].map(|flow| Rc::clone(&self.crossings[flow]));
        let links = [&before[0], &before[1], &one.1, &other.1].into_iter();
        let links: BTreeSet<LinkId> = links
            .flat_map(|crossing| crossing.iter().map(|(link, _)| *link))
            .collect();
        let mut concerned: BTreeSet<u32> = [one.0 as u32, other.0 as u32].into();
        for link in &links {
            concerned.extend(&self.flows[link.index()]);
        }
        let was: f64 = concerned.iter().map(|flow| self.slowdowns[*flow as usize]).sum();
        let flows = [one.0, other.0];
        self.replace(flows, [one.1, other.1]);
        let now: Vec<f64> = concerned
            .iter()
            .map(|flow| self.slowdown(*flow as usize))
            .collect();
        if now.iter().sum::<f64>() >= was - 1e-9 {
            for (flow, slowdown) in concerned.iter().zip(now) {
                self.slowdowns[*flow as usize] = slowdown;
            }
            let (to, to_other) = (self.pairs[one.0].1, self.pairs[other.0].1);
            (self.pairs[one.0].1, self.pairs[other.0].1) = (to_other, to);
        } else {
            self.replace(flows, before);
        }
    }

    fn replace(&mut self, flows: [usize; 2], crossings: [Rc<[Crossing]>; 2]) {
        flows.iter().for_each(|flow| self.put(*flow, false));
        for (flow, crossing) in flows.into_iter().zip(crossings) {
            self.crossings[flow] = crossing;
            self.put(flow, true);
        }
    }
}
