//! Flows: the measured cells between two ranks, with what their data crosses.
//!
//! Where the path is recorded, it is what was crossed. Where it is not, every shortest path through the fabric may
//! have been taken: what all of them share was certainly crossed, the rest possibly.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::element::{Element, Elements};
use crate::findings::speed::Speed;
use crate::findings::summary::CellSummary;
use record::units::Rate;
use record::{Cell, Collective, Interval, Load, TransportKind};
use topology::graph::{Graph, LinkId};

/// How a flow did against what is expected of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FlowState {
    /// As fast as expected.
    Good,
    /// Slower, beyond its interval.
    Slow,
    /// There is no expectation.
    Unjudged,
}

/// A measured cell between two ranks.
#[derive(Debug, Clone)]
pub(super) struct MeasuredFlow {
    /// Its place in the plan.
    pub(super) place: usize,
    /// Cells with the same slot ran at the same time.
    pub(super) slot: u32,
    /// Sender and receiver.
    pub(super) ends: (u32, u32),
    /// Numbers of the elements that it certainly crossed.
    pub(super) certain: Vec<usize>,
    /// Numbers of those that it possibly crossed.
    pub(super) possible: Vec<usize>,
    /// What it reached.
    pub(super) rate: Interval<Rate>,
    /// How that is.
    pub(super) state: FlowState,
    /// Whether it may have shared a link with others of its slot, beyond what that link should carry.
    pub(super) contended: bool,
}

impl MeasuredFlow {
    /// Everything that may be the reason for its speed.
    pub(super) fn crossed(&self) -> impl Iterator<Item = usize> + '_ {
        self.certain.iter().chain(&self.possible).copied()
    }
}

/// The flows of a run, in plan order.
pub(super) fn flows(
    graph: &Graph,
    elements: &Elements,
    summaries: &[CellSummary<'_>],
    speeds: &[Speed],
    confidence: f64,
) -> Vec<MeasuredFlow> {
    let mut crossed_links = CrossedLinks::new(graph);
    let mut flows = Vec::new();
    // A flow that shares its slot with something other than flows says nothing about its links.
    let disturbed: HashSet<u32> = summaries
        .iter()
        .filter(|summary| ends(summary.cell).is_none() && summary.cell.load == Load::Together)
        .map(|summary| summary.cell.slot)
        .collect();
    for (place, (summary, speed)) in summaries.iter().zip(speeds).enumerate() {
        let (Some(ends), Some(rate)) = (ends(summary.cell), summary.wire_rate(confidence)) else {
            continue;
        };
        if !summary.done || disturbed.contains(&summary.cell.slot) {
            continue;
        }
        let Some((certain, possible)) = crossed_links.of(summary.cell, ends) else {
            continue;
        };
        let mut numbers: Vec<usize> = certain
            .into_iter()
            .filter_map(|link| elements.number(Element::Link(link)))
            .collect();
        let mut at_ranks = vec![Element::Out(ends.0), Element::In(ends.1)];
        if summary.cell.collective == Collective::Bidirectional {
            at_ranks.extend([Element::Out(ends.1), Element::In(ends.0)]);
        }
        numbers.extend(at_ranks.into_iter().filter_map(|end| elements.number(end)));
        flows.push(MeasuredFlow {
            place,
            slot: summary.cell.slot,
            ends,
            certain: numbers,
            possible: possible
                .into_iter()
                .filter_map(|link| elements.number(Element::Link(link)))
                .collect(),
            rate,
            state: match speed {
                Speed::Good(_) => FlowState::Good,
                Speed::Slow(_) | Speed::Suspected(..) => FlowState::Slow,
                _ => FlowState::Unjudged,
            },
            contended: false,
        });
    }
    mark_contended(graph, &mut flows);
    flows
}

/// Sender and receiver of a cell that is a flow over one rail.
fn ends(cell: &Cell) -> Option<(u32, u32)> {
    let is_flow = matches!(
        cell.collective,
        Collective::PointToPoint | Collective::Bidirectional
    );
    let over_links = matches!(cell.transport, TransportKind::Tcp | TransportKind::Verbs);
    match (cell.ranks.as_slice(), cell.rails.as_slice()) {
        // Where a flow changes its rail, the two rails are ambiguous.
        ([from, to], [_]) if is_flow && over_links && from != to && cell.to_rail.is_none() => {
            Some((*from, *to))
        }
        _ => None,
    }
}

type Links = (Vec<LinkId>, Vec<LinkId>);

/// Which links flows cross, remembered per pair of ranks and rail.
struct CrossedLinks<'g> {
    graph: &'g Graph,
    known: HashMap<(u32, u32, String), Option<Links>>,
}

impl<'g> CrossedLinks<'g> {
    fn new(graph: &'g Graph) -> CrossedLinks<'g> {
        CrossedLinks {
            graph,
            known: HashMap::new(),
        }
    }

    /// The links certainly crossed, and those possibly crossed; none when the fabric has no path between the two.
    fn of(&mut self, cell: &Cell, (from, to): (u32, u32)) -> Option<Links> {
        if cell.collective == Collective::PointToPoint && !cell.path.is_empty() {
            let path: Option<Vec<LinkId>> = cell.path.iter().map(|name| self.graph.named(name)).collect();
            if let Some(path) = path {
                return Some((path, Vec::new()));
            }
        }
        let rail = cell.rails.first()?;
        let (mut certain, mut possible) = self.between(from, to, rail)?;
        if cell.collective == Collective::Bidirectional {
            let back = self.between(to, from, rail)?;
            certain.extend(back.0);
            possible.extend(back.1);
        }
        Some((certain, possible))
    }

    fn between(&mut self, from: u32, to: u32, rail: &str) -> Option<Links> {
        let graph = self.graph;
        let entry = self.known.entry((from, to, rail.to_string()));
        entry
            .or_insert_with(|| {
                let paths = graph.paths(from, to, rail);
                let mut sets = paths.iter().map(|path| BTreeSet::from_iter(path.iter().copied()));
                let first = sets.next()?;
                let (all, any) = sets.fold((first.clone(), first), |(all, any), path| {
                    (&all & &path, &any | &path)
                });
                let possible = any.difference(&all).copied().collect();
                Some((all.into_iter().collect(), possible))
            })
            .clone()
    }
}

/// Marks the flows that may have had to share a link with others of their slot.
fn mark_contended(graph: &Graph, flows: &mut [MeasuredFlow]) {
    let mut by_slot: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (number, flow) in flows.iter().enumerate() {
        by_slot.entry(flow.slot).or_default().push(number);
    }
    for members in by_slot.values().filter(|members| members.len() > 1) {
        let mut wanted: HashMap<usize, (f64, usize)> = HashMap::new();
        for member in members {
            let flow = &flows[*member];
            let alone = host_rate(graph, flow);
            for link in flow.crossed().filter(|number| *number < graph.link_count()) {
                let entry = wanted.entry(link).or_default();
                entry.0 += alone;
                entry.1 += 1;
            }
        }
        let is_short = |link: usize| {
            wanted.get(&link).is_some_and(|(rate, flows)| {
                let carries = graph.link(LinkId(link as u32)).rate.0;
                *flows > 1 && *rate > carries * 1.01
            })
        };
        for member in members {
            let flow = &flows[*member];
            let contended = flow
                .crossed()
                .any(|number| number < graph.link_count() && is_short(number));
            flows[*member].contended = contended;
        }
    }
}

/// What a flow would reach if only the cables at its ends limited it; infinite when unknown.
fn host_rate(graph: &Graph, flow: &MeasuredFlow) -> f64 {
    let of_hosts = flow
        .certain
        .iter()
        .filter(|number| **number < graph.link_count())
        .map(|number| graph.link(LinkId(*number as u32)))
        .filter(|link| link.is_host && link.rate.0 > 0.0)
        .map(|link| link.rate.0);
    of_hosts.fold(f64::INFINITY, f64::min)
}
