//! The fabric that streams are simulated on, and the cells of a run over it.

use super::EcmpFault;
use crate::twin::{Shape, clos};
use record::units::{Bytes, Nanos, Rate};
use record::{
    Algorithm, Cell, Collective, DType, DecisionRule, DeviceKind, Engine, Load, Placement, ReduceOp, Run,
    SCHEMA, StreamTerms, TestRecord, TransportKind,
};
use topology::Fabric;
use topology::{Link, Port, Topology};

/// The first source port.
const FIRST_PORT: u16 = 16_000;
const WINDOW: Nanos = Nanos(400_000_000);
const RAIL: &str = "rail0";

/// One rail of leaves and spines, and the streams that are sent across it.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamFabric {
    /// Leaves.
    pub leaves: u32,
    /// Spines.
    pub spines: u32,
    /// Parallel cables between a leaf and a spine.
    pub cables: u32,
    /// Hosts on one leaf.
    pub hosts: u32,
    /// What a host's cable carries.
    pub rate: Rate,
    /// What a cable between switches carries.
    pub uplink: Rate,
    /// Streams of a pair: a slot for each number.
    pub flows: Vec<u16>,
    /// Sets of source ports, each a leaf further on.
    pub sets: u16,
    /// Timed iterations of every cell.
    pub iterations: u32,
    /// Whether the counters of switch ports are recorded.
    pub counters: bool,
    /// The share of streams about which switches answer.
    pub answered: f64,
}

impl StreamFabric {
    /// A fabric whose uplinks carry exactly what its hosts send.
    pub fn new(leaves: u32, spines: u32, cables: u32, hosts: u32) -> StreamFabric {
        let rate = Rate(50e9);
        StreamFabric {
            leaves,
            spines,
            cables,
            hosts,
            rate,
            uplink: Rate(rate.0 * f64::from(hosts) / f64::from(spines * cables)),
            flows: vec![8, 32],
            sets: 4,
            iterations: 3,
            counters: false,
            answered: 1.0,
        }
    }

    /// The cables, and `run.json` of streams over them.
    pub(super) fn plan(&self, faults: &[EcmpFault], seed: u64) -> (Topology, Run) {
        let topology = self.topology();
        let fabric = Fabric::of(&topology);
        let cells = self.cells(faults.contains(&EcmpFault::OnePort));
        let run = Run {
            schema: SCHEMA,
            version: record::VERSION.to_string(),
            suite: "ecmp".to_string(),
            description: "simulated streams across leaves".to_string(),
            started: "2026-11-15T00:00:00Z".to_string(),
            seed,
            command: ["railgauge", "run", "ecmp"].map(String::from).to_vec(),
            pattern_seed: None,
            started_as: None,
            launch: format!("simulated: {} hosts", fabric.hosts.len()),
            hosts: fabric.hosts,
            ranks: fabric.ranks,
            reach: Vec::new(),
            nccl: None,
            timer_ns: Nanos(20),
            clocks: Vec::new(),
            rule: DecisionRule::default(),
            tests: vec![self.test()],
            cells,
            untested: Vec::new(),
            placement: Vec::new(),
            miscabled: Vec::new(),
            unused: Vec::new(),
            injected: faults.iter().map(|fault| format!("{fault:?}")).collect(),
        };
        (topology, run)
    }

    /// Leaves and spines as they are made to order, with as many cables between them as this fabric has.
    pub(super) fn topology(&self) -> Topology {
        let shape = Shape {
            hosts: self.leaves * self.hosts,
            rails: 1,
            hosts_per_leaf: self.hosts,
            spines: self.spines,
            rate: self.rate,
        };
        let (mut topology, _) = clos(&shape);
        let (mut links, between): (Vec<Link>, Vec<Link>) = topology
            .links
            .into_iter()
            .partition(|link| link.ends[0].node.starts_with('h'));
        for link in between {
            for cable in 0..self.cables {
                let numbered = |port: &Port| {
                    let (kind, number) = port.interface.split_at(1);
                    let number: u32 = number.parse().unwrap_or(0);
                    Port {
                        node: port.node.clone(),
                        interface: format!("{kind}{}", number * self.cables + cable),
                    }
                };
                links.push(Link {
                    name: match self.cables {
                        1 => link.name.clone(),
                        _ => format!("{}-{cable}", link.name),
                    },
                    ends: [numbered(&link.ends[0]), numbered(&link.ends[1])],
                    rate: self.uplink,
                    addresses: None,
                    ..link.clone()
                });
            }
        }
        topology.links = links;
        topology
    }

    /// A slot for every set and number of streams, in which all hosts of every leaf send to hosts of another one.
    fn cells(&self, one_port: bool) -> Vec<Cell> {
        let mut cells = Vec::new();
        let (mut slot, mut port) = (0, FIRST_PORT);
        for set in 0..self.sets {
            let shift = 1 + u32::from(set) % (self.leaves - 1);
            for flows in &self.flows {
                for rank in 0..self.leaves * self.hosts {
                    let (leaf, place) = (rank / self.hosts, rank % self.hosts);
                    let to = (leaf + shift) % self.leaves * self.hosts + place;
                    let terms = StreamTerms {
                        set,
                        window: WINDOW,
                        one_port,
                        into_one: false,
                        pattern: None,
                        ports: Vec::new(),
                        round: 0,
                        ways: Vec::new(),
                    };
                    cells.push(Cell {
                        source_port: Some(port),
                        ..cell(cells.len() as u32, slot, [rank, to], *flows, terms)
                    });
                }
                slot += 1;
                port = port.wrapping_add(*flows);
            }
        }
        cells
    }

    fn test(&self) -> TestRecord {
        TestRecord {
            name: "spread".to_string(),
            kind: record::TestKind::Ecmp,
            references: Vec::new(),
            missing_references: Vec::new(),
            warmup: 0,
            min_iterations: self.iterations,
            max_iterations: self.iterations,
            tight: 0.02,
            budget: Nanos::from_secs(10),
            verify_every: 0,
            adaptive: false,
        }
    }
}

fn cell(id: u32, slot: u32, ranks: [u32; 2], flows: u16, terms: StreamTerms) -> Cell {
    Cell {
        id,
        test: "spread".to_string(),
        slot,
        load: Load::Together,
        collective: Collective::Streams,
        algorithm: Algorithm::Direct,
        ranks: ranks.to_vec(),
        root: 0,
        rails: vec![RAIL.to_string()],
        flows,
        source_port: None,
        transport: TransportKind::Tcp,
        device: DeviceKind::Host,
        size: Bytes(64 << 10),
        dtype: DType::U8,
        op: ReduceOp::Sum,
        placement: Placement::OutOfPlace,
        engine: Engine::Ours,
        batch: 1,
        verbs: None,
        path: Vec::new(),
        to_rail: None,
        group: None,
        probes: None,
        streams: Some(terms),
        line_mbit: None,
    }
}
