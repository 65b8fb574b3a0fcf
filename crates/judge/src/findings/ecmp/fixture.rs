//! Recorded runs of streams made to order, for tests: a small fabric of leaves and spines, a hash, a fault, noise from a seed.

use std::fmt::Write as _;

use super::fair;
use crate::findings::fixture::Fixture;
use record::units::Nanos;
use record::{
    Cell, CellDone, Collective, EndReason, Event, Load, PortDelta, RailEnd, Recorded, StopReason, StreamPath,
    StreamRecord, StreamTerms, TransportKind,
};
use topology::Topology;
use topology::graph::{Graph, LinkId};

/// What is broken.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Fault {
    /// Nothing.
    #[default]
    None,
    /// All switches hash addresses only.
    AddressesOnly,
    /// One switch prefers some of its members.
    Weights(&'static str, &'static [u32]),
    /// All switches share one hash.
    OneSeed,
    /// A link that swallows everything.
    Dead(&'static str),
    /// A link that nothing is sent to.
    Withdrawn(&'static str),
    /// A link that carries this share of its rate.
    Slow(&'static str, f64),
    /// All streams of a pair come from one port.
    OnePort,
    /// Flows take another way every time.
    Adaptive,
}

/// A fabric of one rail, and what is sent over it.
#[derive(Debug, Clone)]
pub struct Streams {
    pub leaves: u32,
    pub hosts_per_leaf: u32,
    pub spines: u32,
    pub trunk: u32,
    /// Rate of the cables between switches, in MB/s; hosts have 25.
    pub uplink: f64,
    pub flows: Vec<u16>,
    pub sets: u16,
    pub seed: u64,
    pub fault: Fault,
    /// Switches do not say which way flows take.
    pub silent: bool,
    /// Ports of switches are read.
    pub counters: bool,
    /// No topology file.
    pub unknown: bool,
}

const HOST_RATE: f64 = 25e6;
const EFFICIENCY: f64 = 0.95;
const ITERATIONS: usize = 4;

impl Streams {
    /// The lab: 8 hosts, 4 leaves, 2 spines.
    pub fn lab(seed: u64, fault: Fault) -> Streams {
        Streams {
            leaves: 4,
            hosts_per_leaf: 2,
            spines: 2,
            trunk: 1,
            uplink: 25.0,
            flows: vec![8, 32],
            sets: 4,
            seed,
            fault,
            silent: false,
            counters: false,
            unknown: false,
        }
    }

    /// The same with 4 spines of half the rate.
    pub fn four_spines(seed: u64, fault: Fault) -> Streams {
        Streams {
            spines: 4,
            uplink: 12.5,
            ..Streams::lab(seed, fault)
        }
    }

    /// Two cables between every leaf and every spine.
    pub fn trunked(seed: u64, fault: Fault) -> Streams {
        Streams {
            trunk: 2,
            uplink: 12.5,
            ..Streams::lab(seed, fault)
        }
    }

    fn hosts(&self) -> u32 {
        self.leaves * self.hosts_per_leaf
    }

    fn topology(&self) -> String {
        let mut text = String::new();
        for host in 0..self.hosts() {
            let _ = writeln!(text, "[[host]]\nname = \"h{host}\"");
        }
        for leaf in 0..self.leaves {
            let _ = writeln!(text, "[[switch]]\nname = \"leaf{leaf}\"\ntier = \"leaf\"");
        }
        for spine in 0..self.spines {
            let _ = writeln!(text, "[[switch]]\nname = \"spine{spine}\"\ntier = \"spine\"");
        }
        let mut cable = |name: String, ends: [String; 2], rate: f64| {
            let [near, far] = ends;
            let mbit = rate * 8.0 / 1e6;
            let _ = writeln!(
                text,
                "[[link]]\nname = \"{name}\"\nends = [\"{near}\", \"{far}\"]\nrate = \
                 \"{mbit} Mb/s\"\nrail = \"rail0\""
            );
        };
        for host in 0..self.hosts() {
            let (leaf, port) = (host / self.hosts_per_leaf, host % self.hosts_per_leaf);
            cable(
                format!("h{host}-leaf{leaf}"),
                [format!("h{host}/rail0"), format!("leaf{leaf}/p{port}")],
                HOST_RATE,
            );
        }
        for leaf in 0..self.leaves {
            for spine in 0..self.spines {
                for trunk in 0..self.trunk {
                    let (up, down) = (spine * self.trunk + trunk, leaf * self.trunk + trunk);
                    cable(
                        format!("leaf{leaf}-spine{spine}-{trunk}"),
                        [format!("leaf{leaf}/u{up}"), format!("spine{spine}/d{down}")],
                        self.uplink * 1e6,
                    );
                }
            }
        }
        text
    }

    /// The run as it would be recorded, measured once.
    pub fn recorded(&self) -> Recorded {
        self.measured_again(&[])
    }

    /// The same, measured again from fresh ports with the same fault.
    pub fn measured_twice(&self) -> Recorded {
        self.measured_again(std::slice::from_ref(&self.fault))
    }

    /// The same, measured again from fresh ports, once with each of these faults.
    pub fn measured_again(&self, faults: &[Fault]) -> Recorded {
        let mut run = Fixture::pairs(self.hosts()).measured_once().run;
        run.cells.clear();
        run.seed = self.seed;
        run.tests[0].name = "spread".into();
        run.tests[0].kind = record::TestKind::Ecmp;
        run.tests[0].references.clear();
        for record in &mut run.ranks {
            record.host = format!("h{}", record.rank);
            record.rails = vec![RailEnd {
                rail: "rail0".into(),
                address: format!("10.0.0.{}", record.rank + 1),
                interface: Some("rail0".into()),
                speed_mbit: Some(200),
                rdma: None,
            }];
        }
        for (host, record) in run.hosts.iter_mut().zip(&run.ranks) {
            host.name.clone_from(&record.host);
        }
        let template = Fixture::pairs(2).measured_once().run.cells[0].clone();
        let text = self.topology();
        let topology = Topology::parse("t", &text).unwrap();
        let graph = Graph::of(&topology, &run.ranks).unwrap();
        let mut events = Vec::new();
        let (mut slot, mut port) = (0, 16_000);
        let later = faults.iter().map(|fault| Streams {
            fault: fault.clone(),
            ..self.clone()
        });
        let rounds: Vec<Streams> = std::iter::once(self.clone()).chain(later).collect();
        for set in 0..self.sets * rounds.len() as u16 {
            let round = set / self.sets;
            let of_round = &rounds[usize::from(round)];
            for &flows in &self.flows {
                let first = run.cells.len() as u32;
                for (from, to) in self.pairs(set % self.sets) {
                    run.cells.push(Cell {
                        id: run.cells.len() as u32,
                        test: "spread".into(),
                        slot,
                        load: Load::Together,
                        collective: Collective::Streams,
                        ranks: vec![from, to],
                        rails: vec!["rail0".into()],
                        flows,
                        source_port: Some(port),
                        transport: TransportKind::Tcp,
                        streams: Some(StreamTerms {
                            set,
                            window: Nanos(400_000_000),
                            one_port: of_round.fault == Fault::OnePort,
                            into_one: false,
                            pattern: None,
                            ports: Vec::new(),
                            round,
                            ways: Vec::new(),
                        }),
                        ..template.clone()
                    });
                }
                of_round.measure(&graph, &mut run.cells[first as usize..], &mut events);
                (slot, port) = (slot + 1, port + flows);
            }
        }
        events.push(Event::End {
            reason: EndReason::Finished,
            at: "2026-11-15T18:00:00Z".into(),
        });
        Recorded {
            events,
            topology: (!self.unknown).then_some(text),
            ..Recorded::new(run)
        }
    }

    fn pairs(&self, set: u16) -> Vec<(u32, u32)> {
        let (set, count) = (u32::from(set), self.hosts_per_leaf);
        let shift = 1 + set % (self.leaves - 1);
        (0..self.hosts())
            .map(|host| {
                let (leaf, place) = (host / count, host % count);
                let far = (leaf + shift) % self.leaves;
                (host, far * count + (place + set / (self.leaves - 1)) % count)
            })
            .collect()
    }

    /// One slot: all cells at the same time.
    fn measure(&self, graph: &Graph, cells: &mut [Cell], events: &mut Vec<Event>) {
        let dead = match self.fault {
            Fault::Dead(name) => graph.named(name),
            _ => None,
        };
        let mut sent: Vec<(usize, u16, Vec<LinkId>, bool)> = Vec::new();
        for (place, cell) in cells.iter_mut().enumerate() {
            let (from, to) = (cell.ranks[0], cell.ranks[1]);
            let streams = if self.fault == Fault::OnePort {
                1
            } else {
                cell.flows
            };
            let mut ways = Vec::new();
            for flow in 0..streams {
                let port = cell.port_of(from, flow).unwrap();
                let way = self.way(graph, from, to, port, 0);
                let back = self.way(graph, to, from, port, 0);
                let lost = way.iter().position(|link| Some(*link) == dead);
                let is_dead = lost.is_some() || back.iter().any(|link| Some(*link) == dead);
                let seen = &way[..lost.unwrap_or(way.len())];
                ways.push(StreamPath {
                    links: seen.iter().map(|link| graph.name(*link)).collect(),
                    whole: lost.is_none(),
                    steady: lost.is_none().then(|| self.way(graph, from, to, port, 1) == way),
                });
                sent.push((place, flow, way, is_dead));
            }
            if self.fault == Fault::OnePort {
                ways = vec![ways[0].clone(); usize::from(cell.flows)];
            }
            if !self.silent && !self.unknown {
                cell.streams.as_mut().unwrap().ways = ways;
            }
        }
        let capacity: Vec<f64> = graph
            .links()
            .map(|(id, link)| match self.fault {
                Fault::Slow(name, share) if graph.name(id) == name => link.rate.0 * share,
                _ => link.rate.0,
            })
            .collect();
        let alive: Vec<&(usize, u16, Vec<LinkId>, bool)> = sent.iter().filter(|flow| !flow.3).collect();
        let ways: Vec<&[LinkId]> = alive.iter().map(|flow| flow.2.as_slice()).collect();
        let rates = fair::rates(&ways, &capacity);
        let mut carried = vec![0.0; graph.link_count()];
        let mut records: Vec<Vec<StreamRecord>> = vec![Vec::new(); cells.len()];
        for (flow, rate) in alive.iter().zip(rates) {
            let cell = &cells[flow.0];
            let unfair = 1.0 + 0.2 * (self.random(u64::from(cell.id) << 20 | u64::from(flow.1)) - 0.5);
            let bytes: Vec<u64> = (0..ITERATIONS)
                .map(|iteration| {
                    let key = (u64::from(cell.id) << 20 | u64::from(flow.1)) ^ (iteration as u64 + 1) << 50;
                    let noise = 1.0 + 0.1 * (self.random(key) - 0.5);
                    (rate * EFFICIENCY * unfair * noise * 0.4) as u64
                })
                .collect();
            for link in &flow.2 {
                carried[link.index()] += bytes.iter().sum::<u64>() as f64;
            }
            let streams = if self.fault == Fault::OnePort {
                cell.flows
            } else {
                1
            };
            for stream in 0..streams {
                records[flow.0].push(StreamRecord {
                    stream: flow.1 + stream,
                    port: cell.port_of(0, flow.1),
                    bytes: bytes.iter().map(|bytes| bytes / u64::from(streams)).collect(),
                    problem: None,
                });
            }
        }
        for flow in sent.iter().filter(|flow| flow.3) {
            records[flow.0].push(StreamRecord {
                stream: flow.1,
                port: cells[flow.0].port_of(0, flow.1),
                bytes: vec![0; ITERATIONS],
                problem: Some("no answer".into()),
            });
        }
        for (cell, streams) in cells.iter().zip(records) {
            events.push(Event::CellDone(done(cell.id, streams)));
        }
        if self.counters {
            for (id, link) in graph.links().filter(|(_, link)| !link.is_host) {
                events.push(Event::Port(PortDelta {
                    slot: cells[0].slot,
                    round: 0,
                    port: link.from.to_string(),
                    name: "tx_bytes".into(),
                    before: Some(1000),
                    after: Some(1000 + carried[id.index()] as u64),
                }));
            }
        }
    }

    /// The way that the switches' hashes give a flow.
    fn way(&self, graph: &Graph, from: u32, to: u32, port: u16, again: u64) -> Vec<LinkId> {
        let way = graph.route(from, to, "rail0", |node, nearer| {
            let mut key = u64::from(from) << 40 | u64::from(to) << 20;
            if self.fault != Fault::AddressesOnly {
                key |= u64::from(port);
            }
            if self.fault != Fault::OneSeed {
                key ^= u64::from(node + 1) << 48;
            }
            if self.fault == Fault::Adaptive {
                key ^= again << 60;
            }
            let weights: Vec<u32> = nearer
                .iter()
                .enumerate()
                .map(|(place, link)| match &self.fault {
                    Fault::Weights(switch, weights) if graph.link(*link).from.node == *switch => {
                        weights[place]
                    }
                    Fault::Withdrawn(name) if graph.name(*link) == *name => 0,
                    _ => 1,
                })
                .collect();
            let mut left = self.random(key) * f64::from(weights.iter().sum::<u32>());
            let chosen = weights.iter().position(|weight| {
                left -= f64::from(*weight);
                left < 0.0
            });
            chosen.unwrap_or(0)
        });
        way.unwrap()
    }

    /// A number from 0 to 1 that depends on the seed and the key alone.
    fn random(&self, key: u64) -> f64 {
        let mut x = key ^ self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for _ in 0..2 {
            x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
            x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            x ^= x >> 31;
        }
        (x >> 11) as f64 / (1u64 << 53) as f64
    }
}

fn done(cell: u32, streams: Vec<StreamRecord>) -> CellDone {
    CellDone {
        cell,
        round: 0,
        iterations: ITERATIONS as u32,
        verified: 0,
        stop: StopReason::Iterations,
        max_skew_ns: Nanos(0),
        unseen_skew_ns: None,
        planned: Vec::new(),
        moved: Vec::new(),
        flows: Vec::new(),
        tcp: Vec::new(),
        streams,
        probes: Vec::new(),
    }
}
