//! Many streams across the leaves of a simulated fabric whose switches spread them by hashing.
//!
//! What a run of kind `ecmp` would have recorded: the path of every stream as far as switches would have told it, and what it
//! delivered while all streams of its slot shared the links max-min fairly. What is wrong is known, so verdicts can be proved at
//! scales no lab has. A dead link is as in the lab: packets vanish on it in both meanings, so streams whose answers would come
//! back over it die as well, though their own path is whole.
//!
//! The same seed gives the same record, on any number of cores.

mod cells;
mod hashing;

use std::collections::HashMap;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use rayon::prelude::*;

pub use cells::StreamFabric;
pub use hashing::EcmpFault;

use super::hash;
use crate::fresh_streams::{NextRound, with_fresh_ports, with_known_paths};
use crate::remeasure::cells_to_remeasure;
use hashing::{HashedFlow, SwitchHashing};
use judge::findings::suspects;
use record::{Cell, CellDone, EndReason, Event, PortDelta, Recorded, StopReason, StreamPath, StreamRecord};
use topology::graph::{Graph, LinkId, Path, fair_shares};

/// What a stream gets of what is its fair share, headers and pauses taken off.
const EFFICIENCY: f64 = 0.95;
/// Streams on the same links differ by up to this share, all the time: congestion control is only about fair.
const UNFAIR: f64 = 0.15;
/// And by up to this from one iteration to the next.
const JITTER: f64 = 0.05;

/// The record of streams across all leaves of a fabric with these faults, made by `seed`: what looks wrong is measured again, as
/// a real run does. A fault whose parts are not there changes nothing.
pub fn streams(fabric: &StreamFabric, faults: &[EcmpFault], seed: u64) -> Recorded {
    measured_again(first_round(fabric, faults, seed), fabric, faults)
}

/// The same without measuring anything again.
pub fn first_round(fabric: &StreamFabric, faults: &[EcmpFault], seed: u64) -> Recorded {
    let (topology, run) = fabric.plan(faults, seed);
    let mut recorded = Recorded {
        topology: Some(topology.to_toml()),
        ..Recorded::new(run)
    };
    let (cells, events) = measured(&recorded, recorded.run.cells.clone(), fabric, faults);
    recorded.run.cells = cells;
    recorded.events = events;
    ended(recorded)
}

/// A record with what its suspects came to when they were measured again, with these faults by then.
pub fn measured_again(mut recorded: Recorded, fabric: &StreamFabric, faults: &[EcmpFault]) -> Recorded {
    if suspects(&recorded).is_empty() {
        let known = with_known_paths(&recorded.run.cells);
        recorded = with_added("what do links carry?", recorded, known, fabric, faults);
    }
    for round in 1..=recorded.run.rule.remeasure {
        let again = cells_to_remeasure(&suspects(&recorded), &recorded.run.cells);
        if again.is_empty() {
            break;
        }
        let NextRound { fresh, chosen, .. } = with_fresh_ports(again, &recorded.run.cells, round);
        let why = "fresh ports, to confirm what looked wrong";
        recorded = with_added(why, recorded, [fresh, chosen].concat(), fabric, faults);
    }
    recorded
}

/// A record with further cells, and what happened when they were measured.
fn with_added(
    why: &str,
    mut recorded: Recorded,
    cells: Vec<Cell>,
    fabric: &StreamFabric,
    faults: &[EcmpFault],
) -> Recorded {
    if cells.is_empty() {
        return recorded;
    }
    let (cells, events) = measured(&recorded, cells, fabric, faults);
    recorded
        .events
        .retain(|event| !matches!(event, Event::End { .. }));
    recorded.run.cells.extend_from_slice(&cells);
    recorded.events.push(Event::Added {
        why: why.to_string(),
        cells,
    });
    recorded.events.extend(events);
    ended(recorded)
}

/// Cells with the ways that their streams take, and what happens when they are measured.
fn measured(
    recorded: &Recorded,
    mut cells: Vec<Cell>,
    fabric: &StreamFabric,
    faults: &[EcmpFault],
) -> (Vec<Cell>, Vec<Event>) {
    let seed = recorded.run.seed;
    // A fabric made to order is sound.
    let Ok(graph) = Graph::of(&fabric.topology(), &recorded.run.ranks) else {
        return (cells, Vec::new());
    };
    let hashing = SwitchHashing::new(&graph, faults, seed);
    let capacity: Vec<f64> = graph
        .links()
        .map(|(id, link)| link.rate.0 * hashing.left_of(id))
        .collect();
    let slots: Vec<&[Cell]> = cells.chunk_by(|a, b| a.slot == b.slot).collect();
    let simulated: Vec<(Vec<Vec<StreamPath>>, Vec<Event>)> = slots
        .par_iter()
        .map(|cells| Slot::of(cells, &graph, &hashing).measure(fabric, &capacity, seed))
        .collect();
    let (mut ways, mut events) = (Vec::new(), Vec::new());
    for (of_slot, happened) in simulated {
        ways.extend(of_slot);
        events.extend(happened);
    }
    for (cell, ways) in cells.iter_mut().zip(ways) {
        if let Some(terms) = &mut cell.streams {
            terms.ways = ways;
        }
    }
    (cells, events)
}

fn ended(mut recorded: Recorded) -> Recorded {
    recorded.events.push(Event::End {
        reason: EndReason::Finished,
        at: recorded.run.started.clone(),
    });
    recorded
}

/// The streams that are on the wire at the same time.
struct Slot<'a> {
    cells: &'a [Cell],
    graph: &'a Graph,
    hashing: &'a SwitchHashing<'a>,
    /// Of every cell, one after another.
    streams: Vec<Stream>,
}

/// One stream under path.
struct Stream {
    flow: HashedFlow,
    path: Path,
    /// Whether nothing arrives, or nothing comes back.
    dead: bool,
}

impl<'a> Slot<'a> {
    fn of(cells: &'a [Cell], graph: &'a Graph, hashing: &'a SwitchHashing<'a>) -> Slot<'a> {
        let streams = cells.iter().flat_map(|cell| {
            (0..cell.flows).map(move |stream| {
                let flow = HashedFlow {
                    from: cell.ranks[0],
                    to: cell.ranks[1],
                    port: cell.port_of(cell.ranks[0], stream).unwrap_or(0),
                };
                let path = hashing.path(flow, &cell.rails[0], 0).unwrap_or_default();
                let back = hashing.return_path(flow, &cell.rails[0]).unwrap_or_default();
                let is_dead = |link: &LinkId| hashing.is_dead(*link);
                Stream {
                    dead: path.iter().chain(&back).any(is_dead),
                    flow,
                    path,
                }
            })
        });
        Slot {
            cells,
            graph,
            hashing,
            streams: streams.collect(),
        }
    }

    /// What is seen of the ways of every cell, and everything that happens.
    fn measure(
        &self,
        fabric: &StreamFabric,
        capacity: &[f64],
        seed: u64,
    ) -> (Vec<Vec<StreamPath>>, Vec<Event>) {
        let shares = self.shares(capacity);
        let (mut ways, mut events) = (Vec::new(), Vec::new());
        let mut counted: HashMap<LinkId, u64> = HashMap::new();
        let mut at = 0;
        for cell in self.cells {
            let streams = &self.streams[at..at + usize::from(cell.flows)];
            let shares = &shares[at..at + usize::from(cell.flows)];
            at += usize::from(cell.flows);
            ways.push(
                streams
                    .iter()
                    .map(|stream| {
                        let asked = hash((
                            seed,
                            "answered",
                            stream.flow.from,
                            stream.flow.to,
                            stream.flow.port,
                        ));
                        match (asked >> 11) as f64 <= fabric.answered * (1u64 << 53) as f64 {
                            true => self.seen(stream, &cell.rails[0]),
                            false => StreamPath {
                                links: Vec::new(),
                                whole: false,
                                steady: None,
                            },
                        }
                    })
                    .collect(),
            );
            let mut random = ChaCha8Rng::seed_from_u64(hash((seed, "streams", cell.id)));
            let window = cell
                .streams
                .as_ref()
                .map_or(0.0, |terms| terms.window.0 as f64 / 1e9);
            let mut records = Vec::with_capacity(streams.len());
            for (number, (stream, share)) in (0u16..).zip(streams.iter().zip(shares)) {
                let lasting = 1.0 + UNFAIR * centred(&mut random);
                let bytes = (0..fabric.iterations).map(|_| {
                    let rate = share * EFFICIENCY * lasting * (1.0 + JITTER * centred(&mut random));
                    (rate * window) as u64
                });
                let bytes: Vec<u64> = bytes.collect();
                for link in stream.path.iter().filter(|_| !stream.dead) {
                    *counted.entry(*link).or_default() += bytes.iter().sum::<u64>();
                }
                records.push(StreamRecord {
                    stream: number,
                    port: Some(stream.flow.port),
                    bytes,
                    problem: stream.dead.then(|| "cannot connect: no answer".to_string()),
                });
            }
            events.push(done(cell, fabric.iterations, records));
        }
        if fabric.counters {
            events.extend(self.counters(&counted));
        }
        (ways, events)
    }

    /// What every stream would get without noise.
    fn shares(&self, capacity: &[f64]) -> Vec<f64> {
        let path = |stream: &Stream| -> Path {
            match stream.dead {
                true => Vec::new(),
                // Packets of adaptive fabrics go wherever there is room: only the hosts' own cables hold them back.
                false if self.hashing.is_adaptive() => stream
                    .path
                    .iter()
                    .copied()
                    .filter(|link| self.graph.link(*link).is_host)
                    .collect(),
                false => stream.path.clone(),
            }
        };
        let ways: Vec<Path> = self.streams.iter().map(path).collect();
        let shares = fair_shares(&ways.iter().map(Vec::as_slice).collect::<Vec<_>>(), capacity);
        // Without a link nothing holds a stream back, and nothing carries it.
        let real = |share: f64| if share.is_finite() { share } else { 0.0 };
        shares.into_iter().map(real).collect()
    }

    /// What a trace would have told of a path: up to the last switch whose answer comes back.
    fn seen(&self, stream: &Stream, rail: &str) -> StreamPath {
        let links = |count: usize| {
            stream.path[..count]
                .iter()
                .map(|link| self.graph.name(*link))
                .collect()
        };
        let lost = stream.path.iter().position(|link| self.hashing.is_dead(*link));
        // The answers of the last leaf go home by one path for each pair, whatever the port.
        let answers = HashedFlow {
            port: 0,
            ..stream.flow
        };
        let mut home = self
            .hashing
            .return_path(answers, rail)
            .unwrap_or_default()
            .into_iter();
        let mute = home
            .any(|link| self.hashing.is_dead(link))
            .then(|| stream.path.len().saturating_sub(2));
        match lost.into_iter().chain(mute).min() {
            Some(known) => StreamPath {
                links: links(known),
                whole: false,
                steady: None,
            },
            None => StreamPath {
                links: links(stream.path.len()),
                whole: true,
                steady: Some(self.hashing.path(stream.flow, rail, 1).as_ref() == Some(&stream.path)),
            },
        }
    }

    /// The counters of the ports that send into links between switches.
    fn counters(&self, counted: &HashMap<LinkId, u64>) -> Vec<Event> {
        let between = self.graph.links().filter(|(_, link)| !link.is_host);
        let delta = |(id, link): (LinkId, &topology::graph::DirectedLink)| {
            Event::Port(PortDelta {
                slot: self.cells[0].slot,
                round: round_of(&self.cells[0]),
                port: link.from.to_string(),
                name: "tx_bytes".to_string(),
                before: Some(1000),
                after: Some(1000 + counted.get(&id).copied().unwrap_or(0)),
            })
        };
        between.map(delta).collect()
    }
}

fn round_of(cell: &Cell) -> u16 {
    cell.streams.as_ref().map_or(0, |terms| terms.round)
}

/// A number from -1 to 1.
fn centred(random: &mut ChaCha8Rng) -> f64 {
    f64::from(random.next_u32()) / f64::from(u32::MAX) * 2.0 - 1.0
}

fn done(cell: &Cell, iterations: u32, streams: Vec<StreamRecord>) -> Event {
    Event::CellDone(CellDone {
        cell: cell.id,
        round: round_of(cell),
        iterations,
        verified: 0,
        stop: StopReason::Iterations,
        max_skew_ns: record::units::Nanos(1000),
        unseen_skew_ns: None,
        planned: Vec::new(),
        moved: Vec::new(),
        flows: Vec::new(),
        tcp: Vec::new(),
        streams,
        probes: Vec::new(),
    })
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod verdict_tests;
