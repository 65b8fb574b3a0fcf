//! What every flow says about losses: what its TCP counted, and which parts it crossed.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::Symptom;
use crate::findings::localise::{CrossedLinks, CrossedParts, Elements};
use crate::findings::summary::CellSummary;
use record::units::Bytes;
use record::{
    Cell, CellDone, Collective, CounterDelta, Engine, Event, Movement, ProbeCounts, ProbeFlow, Recorded,
    TcpFlow, TransportKind,
};
use topology::graph::{Graph, LinkId};

/// How much iterations of one flow are alike: `T` of them count as `T / (1 + ALIKE (T - 1))`.
pub(super) const ALIKE: f64 = 0.1;
/// Connections of probes are numbered from here.
const APART: usize = 1 << 32;
/// Others' traffic is on a rail where so much more was moved than probes were, and a little.
const LOADED: u64 = 20;
const LITTLE: u64 = 256 << 10;
/// No second is late in which all packets waited less than so many nanoseconds.
const SHORTEST_LATE: u64 = 100_000;
/// A part that holds packets up makes at most all seconds late: as if each had so many chances, of which the model grants up to one half each.
const CHANCES: f64 = 5.0;

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
    /// Whether it is one of probes, which are counted by packets.
    pub(super) is_probe: bool,
    /// The longest that one of them waited, in nanoseconds, where that is what is looked at.
    pub(super) waited: u64,
    /// How much flows over the same part in the same slot are alike: `n` of them count as `n / (1 + alike (n - 1))`.
    pub(super) alike: f64,
    /// How many measurements of its slot it stands for: one, but for flows of many cycles that fared alike.
    pub(super) times: f64,
    /// How often its slot was measured.
    pub(super) of: f64,
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
    symptom: Symptom,
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
    if let Symptom::Late(times) = symptom {
        return late_flows(recorded, summaries, times, &mut crossed, elements);
    }
    for (place, summary) in summaries
        .iter()
        .enumerate()
        .filter(|(_, summary)| is_judged(summary.cell))
    {
        let cell = summary.cell;
        for done in rounds_of.get(&cell.id).into_iter().flatten() {
            for tcp in &done.tcp {
                let Some(parts) = crossed.parts_between(cell, (tcp.from, tcp.to), &tcp.rail, elements) else {
                    continue;
                };
                // Packets that overtake each other look lost to TCP now and then: sprayed flows are compared with each other only.
                let is_sprayed = !parts.shares.is_empty();
                let fresh = kinds.len();
                let kind = *kinds.entry((cell.peer_key(), is_sprayed)).or_insert(fresh);
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
    let mut flows = without_contended(graph, found);
    flows.extend(lost_probes(
        summaries,
        &rounds_of,
        &mut crossed,
        elements,
        kinds.len(),
    ));
    flows
}

/// What became of one flow of probes in one round of a cell.
pub(super) struct Probed<'r> {
    place: usize,
    pub(super) cell: &'r Cell,
    pub(super) round: u16,
    pub(super) flow: &'r ProbeFlow,
    pub(super) counts: &'r ProbeCounts,
}

/// The rounds of cells in which there were probes.
pub(super) fn rounds_of_probes(recorded: &Recorded) -> HashMap<u32, Vec<&CellDone>> {
    let mut rounds_of: HashMap<u32, Vec<&CellDone>> = HashMap::new();
    for event in &recorded.events {
        if let Event::CellDone(done) = event
            && !done.probes.is_empty()
        {
            rounds_of.entry(done.cell).or_default().push(done);
        }
    }
    rounds_of
}

/// The flows of probes of some rounds of cells.
pub(super) fn probed<'r>(
    summaries: &'r [CellSummary<'r>],
    rounds_of: &'r HashMap<u32, Vec<&'r CellDone>>,
) -> impl Iterator<Item = Probed<'r>> + 'r {
    probed_in(summaries.iter().map(|summary| summary.cell), rounds_of)
}

/// The same of cells in the order of the plan.
pub(super) fn probed_in<'r>(
    cells: impl Iterator<Item = &'r Cell> + 'r,
    rounds_of: &'r HashMap<u32, Vec<&'r CellDone>>,
) -> impl Iterator<Item = Probed<'r>> + 'r {
    cells.enumerate().flat_map(move |(place, cell)| {
        let rounds = rounds_of.get(&cell.id).into_iter().flatten();
        let counts = rounds.flat_map(|done| done.probes.iter().map(|counts| (done.round, counts)));
        counts.filter_map(move |(round, counts)| {
            let flow = cell.probes.as_ref()?.flows.get(counts.flow as usize)?;
            Some(Probed {
                place,
                cell,
                round,
                flow,
                counts,
            })
        })
    })
}

impl Probed<'_> {
    /// As evidence: in which iterations something happened to it, and what. A flow over another port may take another path.
    fn as_flow(
        &self,
        (lossy, iterations): (u32, u32),
        kind: usize,
        connection: usize,
        parts: CrossedParts,
    ) -> LossFlow {
        let all = f64::from(iterations);
        let weight = 1.0 / (1.0 + ALIKE * (all - 1.0));
        LossFlow {
            place: self.place,
            slot: (self.cell.slot, self.round),
            ends: (self.flow.from, self.flow.to),
            connection,
            kind,
            trials: all * weight,
            lossy: f64::from(lossy) * weight,
            iterations: (lossy, iterations),
            per_trial: self.counts.packets() as f64 / all,
            segments: self.counts.packets(),
            lost: self.counts.losses().min(self.counts.packets()),
            is_probe: true,
            waited: 0,
            alike: ALIKE,
            times: 1.0,
            of: 1.0,
            parts,
        }
    }

    /// In how many iterations packets of it were lost, and in how many it was sent.
    pub(super) fn lossy_iterations(&self) -> (u32, u32) {
        self.iterations(|iteration| self.counts.lost.get(iteration).is_some_and(|lost| *lost > 0))
    }

    /// How many iterations it was sent in, and in how many of those `that` is so.
    fn iterations(&self, that: impl Fn(usize) -> bool) -> (u32, u32) {
        let sent = self.counts.sent.iter().enumerate().filter(|(_, sent)| **sent > 0);
        sent.fold((0, 0), |(those, all), (iteration, _)| {
            (those + u32::from(that(iteration)), all + 1)
        })
    }
}

/// Numbers for flows that are of a kind, and for those that take the same path.
#[derive(Default)]
struct Numbering<'r> {
    kinds: HashMap<(&'r str, Bytes), usize>,
    connections: HashMap<(u32, u32, &'r str, u16), usize>,
}

impl<'r> Numbering<'r> {
    fn of(&mut self, probed: &Probed<'r>) -> (usize, usize) {
        let (cell, flow) = (probed.cell, probed.flow);
        let fresh = self.kinds.len();
        let kind = *self.kinds.entry((cell.test.as_str(), cell.size)).or_insert(fresh);
        let fresh = self.connections.len();
        let connection = self
            .connections
            .entry((flow.from, flow.to, flow.rail.as_str(), flow.port));
        (kind, *connection.or_insert(fresh))
    }
}

/// Probes that were lost. Kinds and connections are numbered apart from those of TCP.
fn lost_probes(
    summaries: &[CellSummary<'_>],
    rounds_of: &HashMap<u32, Vec<&CellDone>>,
    crossed: &mut CrossedLinks<'_>,
    elements: &Elements,
    kinds: usize,
) -> Vec<LossFlow> {
    let mut numbering = Numbering::default();
    let mut found = Vec::new();
    for probed in probed(summaries, rounds_of) {
        let iterations = probed.lossy_iterations();
        let Some(parts) = crossed
            .parts_of_probes(probed.flow, elements)
            .filter(|_| iterations.1 > 0)
        else {
            continue;
        };
        let (kind, connection) = numbering.of(&probed);
        found.push(probed.as_flow(iterations, kinds + kind, APART + connection, parts));
    }
    found
}

/// Probes that waited so many times longer than usual, where nobody else's traffic was on their rail. What is counted are seconds.
fn late_flows(
    recorded: &Recorded,
    summaries: &[CellSummary<'_>],
    times: u64,
    crossed: &mut CrossedLinks<'_>,
    elements: &Elements,
) -> Vec<LossFlow> {
    let rounds_of = rounds_of_probes(recorded);
    let loaded = loaded_rails(recorded, summaries, &rounds_of);
    let is_alone =
        |probed: &Probed<'_>| !loaded.contains(&(probed.cell.id, probed.round, probed.flow.rail.as_str()));
    let mut numbering = Numbering::default();
    let mut usual: HashMap<usize, Vec<u64>> = HashMap::new();
    let mut worst: HashMap<usize, u64> = HashMap::new();
    for probed in probed(summaries, &rounds_of).filter(is_alone) {
        let kind = numbering.of(&probed).0;
        let mut waits = probed.counts.worst_ns.clone();
        waits.sort_unstable();
        let middle = waits.get(waits.len() / 2).copied();
        usual.entry(kind).or_default().extend(middle);
        let most = worst.entry(kind).or_default();
        *most = waits.last().copied().unwrap_or(0).max(*most);
    }
    let longest: HashMap<usize, u64> = usual
        .into_iter()
        .map(|(kind, mut middles)| {
            middles.sort_unstable();
            let middle = middles.get(middles.len() / 2).copied().unwrap_or(0);
            (kind, (middle * times).max(SHORTEST_LATE))
        })
        .collect();
    if worst
        .iter()
        .all(|(kind, worst)| longest.get(kind).is_some_and(|longest| worst <= longest))
    {
        return Vec::new();
    }
    let mut found = Vec::new();
    for probed in probed(summaries, &rounds_of).filter(is_alone) {
        let (kind, connection) = numbering.of(&probed);
        let longest = longest.get(&kind).copied().unwrap_or(u64::MAX);
        let waits = &probed.counts.worst_ns;
        let iterations =
            probed.iterations(|iteration| waits.get(iteration).is_some_and(|worst| *worst > longest));
        let Some(parts) = crossed
            .parts_of_probes(probed.flow, elements)
            .filter(|_| iterations.1 > 0)
        else {
            continue;
        };
        let late = waits.iter().copied().filter(|worst| *worst > longest);
        found.push(LossFlow {
            per_trial: CHANCES,
            segments: u64::from(iterations.1),
            lost: u64::from(iterations.0),
            waited: late.max().unwrap_or(0),
            alike: 1.0,
            ..probed.as_flow(iterations, kind, connection, parts)
        });
    }
    found
}

/// Rails on which much more was sent or received during a round of probes than these account for.
pub(super) fn loaded_rails<'r>(
    recorded: &'r Recorded,
    summaries: &[CellSummary<'_>],
    rounds_of: &HashMap<u32, Vec<&CellDone>>,
) -> HashSet<(u32, u16, &'r str)> {
    let mut own: HashMap<(u32, u16, u32, &str), u64> = HashMap::new();
    for probed in probed(summaries, rounds_of) {
        let wire = probed.cell.probes.as_ref().map_or(0, |terms| terms.wire.0);
        let bytes = probed.counts.packets() * wire;
        for rank in [probed.flow.from, probed.flow.to] {
            *own.entry((probed.cell.id, probed.round, rank, &probed.flow.rail))
                .or_default() += bytes;
        }
    }
    let moved = recorded.events.iter().filter_map(|event| match event {
        Event::Counter(delta) if matches!(delta.name.as_str(), "tx_bytes" | "rx_bytes") => Some(delta),
        _ => None,
    });
    let is_loaded = |delta: &&CounterDelta| {
        let known = own.get(&(delta.cell, delta.round, delta.rank, delta.rail.as_str()));
        let moved = match delta.movement() {
            Movement::By(bytes) | Movement::AtLeast(bytes) => bytes,
            _ => 0,
        };
        known.is_some_and(|own| moved > LOADED * own + LITTLE)
    };
    moved
        .filter(is_loaded)
        .map(|delta| (delta.cell, delta.round, delta.rail.as_str()))
        .collect()
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
        is_probe: false,
        waited: 0,
        alike: 1.0,
        times: 1.0,
        of: 1.0,
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
