//! Flows: the measured cells between two ranks, with what their data crosses.
//!
//! Where the path is recorded, it is what was crossed. Where it is not, every shortest path through the fabric may
//! have been taken that fits what switches said within the connection: what all of them share was certainly crossed,
//! the rest with the probability that switches which draw among equal next hops give it.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::element::{Element, Elements, WholeKind};
use crate::findings::speed::Speed;
use crate::findings::summary::CellSummary;
use record::units::Rate;
use record::{
    Cell, Collective, CrossedSwitch, Interval, Load, PathPlacement, ProbeFlow, Recorded, TransportKind,
};
use topology::graph::{Graph, LinkId};

/// Rounding of probabilities that add up to 1.
const CERTAIN: f64 = 1e-9;

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
    /// The source port it was pinned to.
    pub(super) port: Option<u16>,
    /// Numbers of the elements that it certainly crossed.
    pub(super) certain: Vec<usize>,
    /// Numbers of those that it possibly crossed, each with the probability that it did.
    pub(super) possible: Vec<(usize, f64)>,
    /// Numbers of those that only a share of it crossed, because its packets are sprayed, with that share. Also among `certain`.
    pub(super) shares: Vec<(usize, f64)>,
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
        let possible = self.possible.iter().map(|(number, _)| *number);
        self.certain.iter().copied().chain(possible)
    }

    /// Whether only shares of it crossed an element: a link among others, or a part with such links alone.
    pub(super) fn is_spread_over(&self, element: usize, elements: &Elements) -> bool {
        let is_share = |number: usize| self.shares.iter().any(|(shared, _)| *shared == number);
        if elements.whole(element).is_none() {
            return is_share(element);
        }
        let members = || {
            let links = self
                .certain
                .iter()
                .copied()
                .filter(|number| *number < elements.link_count());
            links.filter(|link| elements.wholes_of(*link).contains(&element))
        };
        members().next().is_some() && members().all(is_share)
    }

    /// The share of it that crossed an element, if it crossed it at all.
    pub(super) fn share(&self, element: usize) -> f64 {
        let share = self.shares.iter().find(|(number, _)| *number == element);
        share.map_or(1.0, |(_, share)| *share)
    }

    /// The largest probability with which it crossed one of the links that it possibly crossed; 1 where its path is known.
    pub(super) fn likeliest_link(&self, links: usize) -> f64 {
        let possible = self.possible.iter().filter(|(number, _)| *number < links);
        possible
            .map(|(_, probability)| *probability)
            .reduce(f64::max)
            .unwrap_or(1.0)
    }

    /// Measurements of which this is the same are of one flow over one path: from and to the same ranks over the same parts, and where the
    /// path is not known in the same connection.
    pub(super) fn what_was_measured(&self) -> ((u32, u32), &[usize], Option<u16>) {
        let connection = self.port.filter(|_| !self.possible.is_empty());
        (self.ends, &self.certain, connection)
    }
}

/// The flows of a run, in plan order.
pub(super) fn flows(
    graph: &Graph,
    elements: &Elements,
    mut crossed_links: CrossedLinks<'_>,
    summaries: &[CellSummary<'_>],
    speeds: &[Speed],
    confidence: f64,
) -> Vec<MeasuredFlow> {
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
        let Some(links) = crossed_links.of(summary.cell, ends) else {
            continue;
        };
        let mut at_ranks = vec![Element::Out(ends.0), Element::In(ends.1)];
        if summary.cell.collective == Collective::Bidirectional {
            at_ranks.extend([Element::Out(ends.1), Element::In(ends.0)]);
        }
        let parts = links.parts(elements, &at_ranks);
        flows.push(MeasuredFlow {
            place,
            slot: summary.cell.slot,
            ends,
            port: summary.cell.source_port,
            certain: parts.certain,
            possible: parts.possible,
            shares: parts.shares,
            rate: speed.comparison().map_or(rate, |comparison| comparison.measured),
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

/// The parts that a flow crosses, by their numbers.
#[derive(Debug, Clone, Default, PartialEq)]
pub(in crate::findings) struct CrossedParts {
    /// Certainly.
    pub(in crate::findings) certain: Vec<usize>,
    /// Possibly, each with the probability that it does.
    pub(in crate::findings) possible: Vec<(usize, f64)>,
    /// Those certain ones that only a share of it crosses, with that share.
    pub(in crate::findings) shares: Vec<(usize, f64)>,
}

impl Links {
    /// All parts that a flow over these links crosses, and what it meets at its ranks.
    fn parts(self, elements: &Elements, at_ranks: &[Element]) -> CrossedParts {
        let with_numbers = |links: Vec<(LinkId, f64)>| -> Vec<(usize, f64)> {
            let numbers = links.into_iter();
            let numbers =
                numbers.filter_map(|(link, part)| Some((elements.number(Element::Link(link))?, part)));
            numbers.collect()
        };
        let links = self.certain.into_iter();
        let mut certain: Vec<usize> = links
            .filter_map(|link| elements.number(Element::Link(link)))
            .collect();
        let mut possible = with_numbers(self.possible);
        let (certain_wholes, possible_wholes) = wholes(elements, &certain, &possible);
        certain.extend(at_ranks.iter().filter_map(|end| elements.number(*end)));
        certain.extend(certain_wholes);
        possible.extend(possible_wholes);
        CrossedParts {
            certain,
            possible,
            shares: with_numbers(self.shares),
        }
    }
}

/// The whole parts that a flow over these links certainly crossed, and those it possibly crossed with the probability that it did.
fn wholes(
    elements: &Elements,
    certain: &[usize],
    possible: &[(usize, f64)],
) -> (BTreeSet<usize>, BTreeMap<usize, f64>) {
    let of_links = certain.iter().flat_map(|link| elements.wholes_of(*link));
    let sure: BTreeSet<usize> = of_links.copied().collect();
    let mut maybe: BTreeMap<usize, f64> = BTreeMap::new();
    for (link, probability) in possible {
        for whole in elements
            .wholes_of(*link)
            .iter()
            .filter(|whole| !sure.contains(whole))
        {
            *maybe.entry(*whole).or_default() += probability;
        }
    }
    // A path crosses one link of such a part, but of a switch one by which it comes and one by which it goes.
    for (whole, probability) in &mut maybe {
        if matches!(
            elements.whole(*whole).map(|whole| &whole.kind),
            Some(WholeKind::Switch(_))
        ) {
            *probability /= 2.0;
        }
        // In both directions, the two may cross the same part.
        *probability = probability.min(1.0);
    }
    let is_certain = |probability: &f64| *probability > 1.0 - CERTAIN;
    let (all, some): (BTreeMap<_, _>, BTreeMap<_, _>) = maybe
        .into_iter()
        .partition(|(_, probability)| is_certain(probability));
    (sure.into_iter().chain(all.into_keys()).collect(), some)
}

/// Whether any cell is a flow between two ranks over one rail.
pub(super) fn has_flows(summaries: &[CellSummary<'_>]) -> bool {
    summaries.iter().any(|summary| ends(summary.cell).is_some())
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

/// The links that a flow crosses.
#[derive(Debug, Clone, Default)]
pub(in crate::findings) struct Links {
    /// Certainly.
    pub(in crate::findings) certain: Vec<LinkId>,
    /// Possibly, with their probabilities.
    pub(in crate::findings) possible: Vec<(LinkId, f64)>,
    /// Those certain ones that only a share of it crosses.
    pub(in crate::findings) shares: Vec<(LinkId, f64)>,
}

/// Which links flows cross.
pub(in crate::findings) struct CrossedLinks<'r> {
    graph: &'r Graph,
    spraying: HashSet<&'r str>,
    /// Switches that do not place flows by their ports: what they chose is not known, whatever was traced before.
    unsteady: HashSet<&'r str>,
    /// What switches said within the connections of cells.
    seen: HashMap<u32, Vec<Option<&'r CrossedSwitch>>>,
    /// Remembered per pair of ranks and rail.
    known: HashMap<(u32, u32, String), Option<Links>>,
}

impl<'r> CrossedLinks<'r> {
    pub(in crate::findings) fn new(graph: &'r Graph, recorded: &'r Recorded) -> CrossedLinks<'r> {
        let that = |wanted: &[PathPlacement]| {
            let switches = recorded.run.placement.iter();
            let switches = switches.filter(|switch| wanted.contains(&switch.placement));
            switches.map(|switch| switch.switch.as_str()).collect()
        };
        CrossedLinks {
            graph,
            spraying: that(&[PathPlacement::Sprayed]),
            unsteady: that(&[PathPlacement::Sprayed, PathPlacement::PerConnection]),
            seen: recorded.crossed_paths(),
            known: HashMap::new(),
        }
    }

    /// The links of a cell's flow; none when the fabric has no path between the two.
    fn of(&mut self, cell: &Cell, (from, to): (u32, u32)) -> Option<Links> {
        let rail = cell.rails.first()?;
        if cell.collective == Collective::PointToPoint && !cell.path.is_empty() {
            let path: Option<Vec<LinkId>> = cell.path.iter().map(|name| self.graph.named(name)).collect();
            let is_known = |path: &Vec<LinkId>| {
                let choosers = || self.graph.choosers(path, to, rail).into_iter();
                self.unsteady.is_empty() || !choosers().any(|switch| self.unsteady.contains(switch))
            };
            if let Some(certain) = path.filter(is_known) {
                return Some(Links {
                    certain,
                    ..Links::default()
                });
            }
        }
        if cell.collective == Collective::PointToPoint
            && let Some(links) = self.seen_within(cell.id, from, to, rail)
        {
            return Some(links);
        }
        let mut links = self.between(from, to, rail)?;
        if cell.collective == Collective::Bidirectional {
            let back = self.between(to, from, rail)?;
            links.certain.extend(back.certain);
            links.possible.extend(back.possible);
            links.shares.extend(back.shares);
        }
        Some(links)
    }

    /// The parts that what one rank sends to another on a rail crosses, while a cell runs; none when the fabric has no path between the two.
    pub(in crate::findings) fn parts_between(
        &mut self,
        cell: &Cell,
        (from, to): (u32, u32),
        rail: &str,
        elements: &Elements,
    ) -> Option<CrossedParts> {
        let is_its_flow = cell.collective == Collective::PointToPoint
            && ends(cell) == Some((from, to))
            && cell.rails.first().is_some_and(|own| own == rail);
        let links = match is_its_flow {
            true => self.of(cell, (from, to))?,
            false => self.between(from, to, rail)?,
        };
        Some(links.parts(elements, &[Element::Out(from), Element::In(to)]))
    }

    /// The parts that a flow of probes crosses; none when the fabric has no path between the two.
    pub(in crate::findings) fn parts_of_probes(
        &mut self,
        flow: &ProbeFlow,
        elements: &Elements,
    ) -> Option<CrossedParts> {
        let links = self.links_of_probes(flow)?;
        Some(links.parts(elements, &[Element::Out(flow.from), Element::In(flow.to)]))
    }

    /// The links that a flow of probes crosses; none when the fabric has no path between the two.
    pub(in crate::findings) fn links_of_probes(&mut self, flow: &ProbeFlow) -> Option<Links> {
        let way = flow.way.as_ref().filter(|way| way.whole);
        let path = way.and_then(|way| way.links.iter().map(|name| self.graph.named(name)).collect());
        let is_steady = |path: &Vec<LinkId>| {
            let choosers = self.graph.choosers(path, flow.to, &flow.rail);
            !choosers.into_iter().any(|switch| self.unsteady.contains(switch))
        };
        match path.filter(is_steady) {
            Some(certain) => Some(Links {
                certain,
                ..Links::default()
            }),
            None => self.between(flow.from, flow.to, &flow.rail),
        }
    }

    /// The links of a flow of which switches said something within its connection; none where that fits no path.
    fn seen_within(&self, cell: u32, from: u32, to: u32, rail: &str) -> Option<Links> {
        let seen = self.graph.hops_of_record(self.seen.get(&cell)?.iter().copied());
        if self.is_sprayed(from, rail) {
            return None;
        }
        let crossed = self.graph.crossing_probabilities_given(from, to, rail, &seen);
        (!crossed.is_empty()).then(|| Links::of(crossed, false))
    }

    fn is_sprayed(&self, from: u32, rail: &str) -> bool {
        let leaf = self.graph.leaf_of(from, rail);
        leaf.is_some_and(|leaf| self.spraying.contains(leaf))
    }

    fn between(&mut self, from: u32, to: u32, rail: &str) -> Option<Links> {
        let (graph, is_sprayed) = (self.graph, self.is_sprayed(from, rail));
        let entry = self.known.entry((from, to, rail.to_string()));
        let links = entry.or_insert_with(|| {
            let links = Links::of(graph.crossing_probabilities(from, to, rail), is_sprayed);
            (!links.certain.is_empty()).then_some(links)
        });
        links.clone()
    }
}

impl Links {
    fn of(crossed: Vec<(LinkId, f64)>, is_sprayed: bool) -> Links {
        let is_whole = |(_, probability): &(LinkId, f64)| *probability > 1.0 - CERTAIN;
        let (whole, parts): (Vec<_>, Vec<_>) = crossed.into_iter().partition(is_whole);
        let whole = whole.into_iter().map(|(link, _)| link);
        match is_sprayed {
            true => Links {
                certain: whole.chain(parts.iter().map(|(link, _)| *link)).collect(),
                possible: Vec::new(),
                shares: parts,
            },
            false => Links {
                certain: whole.collect(),
                possible: parts,
                shares: Vec::new(),
            },
        }
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
                entry.0 += alone * flow.share(link);
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
