//! What every flow says about losses: what its TCP counted, and which parts it crossed.

use std::collections::{BTreeMap, HashMap};

use crate::findings::localise::{CrossedLinks, CrossedParts, Elements};
use crate::findings::summary::CellSummary;
use record::{Cell, CellDone, Collective, Engine, Event, Recorded, TcpFlow, TransportKind};
use topology::graph::{Graph, LinkId};

/// How much iterations of one flow are alike: `T` of them count as `T / (1 + ALIKE (T - 1))`.
const ALIKE: f64 = 0.1;

/// What one rank sent to another over one connection in one round of a cell.
#[derive(Debug, Clone)]
pub(super) struct LossFlow {
    /// Place of its cell in the plan.
    pub(super) place: usize,
    /// When it ran: flows with the same ran together.
    pub(super) slot: (u32, u16),
    /// Sender and receiver.
    pub(super) ends: (u32, u32),
    /// Flows with the same number took the same path: they are of one connection.
    pub(super) connection: usize,
    /// Flows with the same number are of a kind: healthy ones of them lose alike.
    pub(super) kind: usize,
    /// Iterations, as many as they count for.
    pub(super) trials: f64,
    /// Those of them in which segments were lost.
    pub(super) lossy: f64,
    /// Iterations in which segments were lost, and all.
    pub(super) iterations: (u32, u32),
    /// Segments of an iteration.
    pub(super) per_trial: f64,
    /// Segments sent.
    pub(super) segments: u64,
    /// Segments lost.
    pub(super) lost: u64,
    /// What it crossed.
    pub(super) parts: CrossedParts,
}

impl LossFlow {
    /// The parts that it may have crossed, each with the probability that it did and the share of its packets that did then.
    pub(super) fn crossed(&self) -> impl Iterator<Item = (usize, f64, f64)> + '_ {
        let certain = self
            .parts
            .certain
            .iter()
            .map(|part| (*part, 1.0, self.share(*part)));
        let possible = self.parts.possible.iter();
        certain.chain(possible.map(|(part, probability)| (*part, *probability, 1.0)))
    }

    fn share(&self, part: usize) -> f64 {
        let share = self.parts.shares.iter().find(|(shared, _)| *shared == part);
        share.map_or(1.0, |(_, share)| *share)
    }
}

/// The flows of a run that are judged.
pub(super) fn flows(
    recorded: &Recorded,
    summaries: &[CellSummary<'_>],
    graph: &Graph,
    elements: &Elements,
) -> Vec<LossFlow> {
    let mut rounds_of: HashMap<u32, Vec<&CellDone>> = HashMap::new();
    for event in &recorded.events {
        if let Event::CellDone(done) = event {
            rounds_of.entry(done.cell).or_default().push(done);
        }
    }
    let mut crossed = CrossedLinks::new(graph, recorded);
    let mut kinds = BTreeMap::new();
    let mut connections = BTreeMap::new();
    let mut found = Vec::new();
    for (place, summary) in summaries
        .iter()
        .enumerate()
        .filter(|(_, summary)| is_judged(summary.cell))
    {
        let cell = summary.cell;
        let fresh = kinds.len();
        let kind = *kinds.entry(cell.peer_key()).or_insert(fresh);
        for done in rounds_of.get(&cell.id).into_iter().flatten() {
            for tcp in &done.tcp {
                let Some(parts) = crossed.parts_between(cell, (tcp.from, tcp.to), &tcp.rail, elements) else {
                    continue;
                };
                // Without a port it may be another one every time.
                let ports = match tcp.source_port {
                    0 => Err((cell.id, done.round, tcp.flow)),
                    port => Ok((port, tcp.to_port)),
                };
                let fresh = connections.len();
                let connection = connections
                    .entry((tcp.from, tcp.to, tcp.rail.as_str(), ports))
                    .or_insert(fresh);
                found.extend(flow((place, cell), done, tcp, (kind, *connection), parts));
            }
        }
    }
    without_contended(graph, found)
}

/// Whether lost packets of a cell say something about the parts it crossed. Where many send to one, its queue overflows by design.
fn is_judged(cell: &Cell) -> bool {
    let collides = matches!(
        cell.collective,
        Collective::Incast | Collective::AllToAll | Collective::Streams
    );
    cell.transport == TransportKind::Tcp && cell.engine == Engine::Ours && !collides
}

fn flow(
    (place, cell): (usize, &Cell),
    done: &CellDone,
    tcp: &TcpFlow,
    (kind, connection): (usize, usize),
    parts: CrossedParts,
) -> Option<LossFlow> {
    if done.iterations == 0 || tcp.segments == 0 {
        return None;
    }
    let lossy = tcp.iterations_with_loss().min(done.iterations);
    let iterations = f64::from(done.iterations);
    let weight = 1.0 / (1.0 + ALIKE * (iterations - 1.0));
    Some(LossFlow {
        place,
        slot: (cell.slot, done.round),
        ends: (tcp.from, tcp.to),
        connection,
        kind,
        trials: iterations * weight,
        lossy: f64::from(lossy) * weight,
        iterations: (lossy, done.iterations),
        per_trial: tcp.segments as f64 / iterations,
        segments: tcp.segments,
        lost: tcp.lost().min(tcp.segments),
        parts,
    })
}

/// Those that do not share a link with others of their slot, beyond what it should carry: its queue would overflow without a fault.
fn without_contended(graph: &Graph, mut flows: Vec<LossFlow>) -> Vec<LossFlow> {
    let is_link = |part: &&usize| **part < graph.link_count();
    let rate = |part: &usize| graph.link(LinkId(*part as u32)).rate.0;
    let mut wanted: HashMap<((u32, u16), usize), (f64, usize)> = HashMap::new();
    for flow in &flows {
        let links = || flow.parts.certain.iter().filter(is_link);
        let alone = links().map(rate).fold(f64::INFINITY, f64::min);
        for link in links() {
            let (sum, count) = wanted.entry((flow.slot, *link)).or_default();
            *sum += alone * flow.share(*link);
            *count += 1;
        }
    }
    let is_short = |slot: (u32, u16), link: &usize| {
        let (sum, count) = wanted[&(slot, *link)];
        count > 1 && (sum > rate(link) * 1.01 || rate(link) == 0.0)
    };
    flows.retain(|flow| {
        let mut links = flow.parts.certain.iter().filter(is_link);
        !links.any(|link| is_short(flow.slot, link))
    });
    flows
}
