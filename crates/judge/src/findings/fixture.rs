//! Recorded runs made to order, for tests: a small fabric, a speed for every cell, noise from a seed.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::suspects;
use record::units::{Bytes, Nanos, Rate};
use record::{
    Algorithm, Cell, CellDone, Collective, DType, DecisionRule, DeviceKind, EndReason, Engine, Event,
    HostRecord, LinkTraffic, Load, Placement, RankRecord, Recorded, ReduceOp, Reference, Run, SCHEMA, Sample,
    SpecRow, StopReason, TestKind, TestRecord, TransportKind,
};

/// What a healthy cell reaches, bytes per second.
pub const HEALTHY: f64 = 1e9;

type OfRound = Box<dyn Fn(&Cell, u16) -> f64>;
type OfIteration = Box<dyn Fn(&Cell, u16, u32) -> f64>;
type OfRank = Box<dyn Fn(&Cell, u32, u16) -> f64>;

/// A run to be recorded.
pub struct Fixture {
    /// What is planned.
    pub run: Run,
    speed: OfRound,
    extra_work: OfRank,
    delay: OfIteration,
    noise: f64,
    iterations: u32,
    random: ChaCha8Rng,
}

impl Fixture {
    fn new(ranks: u32, kind: TestKind) -> Fixture {
        let host = |rank: u32| format!("node{rank:02}");
        let test = TestRecord {
            name: kind.to_string(),
            kind,
            references: vec![Reference::Peers { margin: 0.25 }],
            missing_references: Vec::new(),
            warmup: 2,
            min_iterations: 10,
            max_iterations: 100,
            tight: 0.05,
            budget: Nanos::from_secs(1),
            verify_every: 1,
            adaptive: false,
        };
        let run = Run {
            schema: SCHEMA,
            version: "0.1.0".into(),
            suite: "smoke".into(),
            description: "made to order".into(),
            started: "2026-11-14T23:50:12Z".into(),
            seed: 1,
            pattern_seed: None,
            started_as: None,
            command: ["railgauge", "run", "smoke"].map(String::from).to_vec(),
            launch: "local threads".into(),
            hosts: (0..ranks)
                .map(|r| HostRecord {
                    name: host(r),
                    cores: 8,
                    kernel: "6.1".into(),
                    machine: None,
                })
                .collect(),
            ranks: (0..ranks)
                .map(|r| RankRecord {
                    rank: r,
                    host: host(r),
                    pid: 100 + r,
                    device: DeviceKind::Host,
                    rails: vec![],
                    gpu: None,
                })
                .collect(),
            reach: Vec::new(),
            nccl: None,
            timer_ns: Nanos(20),
            clocks: Vec::new(),
            rule: DecisionRule::default(),
            tests: vec![test],
            cells: Vec::new(),
            untested: Vec::new(),
            placement: Vec::new(),
            miscabled: Vec::new(),
            unused: Vec::new(),
            injected: Vec::new(),
        };
        Fixture {
            run,
            speed: Box::new(|_, _| HEALTHY),
            extra_work: Box::new(|_, _, _| 0.0),
            delay: Box::new(|_, _, _| 0.0),
            noise: 0.03,
            iterations: 30,
            random: ChaCha8Rng::seed_from_u64(1),
        }
    }

    /// Four ranks, ring all-reduce on each of `rails` rails, alone and together, at two sizes.
    pub fn rails(rails: u32) -> Fixture {
        let mut fixture = Fixture::new(4, TestKind::Rails);
        for load in [Load::Alone, Load::Together] {
            for rail in 0..rails {
                for size in [1 << 20, 16 << 20] {
                    let cell = fixture.cell(vec![0, 1, 2, 3], &format!("rail{rail}"), size);
                    fixture.run.cells.push(Cell { load, ..cell });
                }
            }
        }
        fixture
    }

    /// Every directed pair of `ranks` ranks on one rail at one size.
    pub fn pairs(ranks: u32) -> Fixture {
        let mut fixture = Fixture::new(ranks, TestKind::Pairs);
        for from in 0..ranks {
            for to in (0..ranks).filter(|to| *to != from) {
                let cell = fixture.cell(vec![from, to], "rail0", 1 << 20);
                let (collective, algorithm) = (Collective::PointToPoint, Algorithm::Direct);
                fixture.run.cells.push(Cell {
                    collective,
                    algorithm,
                    ..cell
                });
            }
        }
        fixture
    }

    /// Round trips of 8 bytes between every two of `ranks` ranks on one rail.
    pub fn latency(ranks: u32) -> Fixture {
        let mut fixture = Fixture::new(ranks, TestKind::Latency);
        for a in 0..ranks {
            for b in a + 1..ranks {
                let cell = fixture.cell(vec![a, b], "rail0", 8);
                fixture.run.cells.push(Cell {
                    collective: Collective::RoundTrip,
                    algorithm: Algorithm::Direct,
                    ..cell
                });
            }
        }
        fixture
    }

    /// An incast of ranks 1 to 3 to rank 0, a flow from rank 5 to rank 4 and round trips between them: each alone, then under load.
    pub fn incast() -> Fixture {
        let mut fixture = Fixture::new(6, TestKind::Incast);
        let load = (Collective::Incast, vec![0, 1, 2, 3], 4 << 20);
        let victims = [
            (Collective::PointToPoint, vec![5, 4], 1 << 20),
            (Collective::RoundTrip, vec![5, 4], 8),
        ];
        let mut slot = 0;
        let mut add = |cells: &[&(Collective, Vec<u32>, u64)], load: Load| {
            for (collective, ranks, size) in cells {
                let cell = fixture.cell(ranks.clone(), "rail0", *size);
                fixture.run.cells.push(Cell {
                    collective: *collective,
                    algorithm: Algorithm::Direct,
                    load,
                    slot,
                    ..cell
                });
            }
            slot += 1;
        };
        add(&[&load], Load::Alone);
        for victim in &victims {
            add(&[victim], Load::Alone);
            add(&[&load, victim], Load::Together);
        }
        fixture
    }

    /// Four ranks, ring all-reduce on each of `rails` rails alone, at eight sizes from 1 KiB to 16 MiB.
    pub fn sweep(rails: u32) -> Fixture {
        let mut fixture = Fixture::new(4, TestKind::Rails);
        for rail in 0..rails {
            for power in 0..8 {
                let cell = fixture.cell(vec![0, 1, 2, 3], &format!("rail{rail}"), 1 << (10 + 2 * power));
                fixture.run.cells.push(cell);
            }
        }
        fixture
    }

    fn cell(&self, ranks: Vec<u32>, rail: &str, size: u64) -> Cell {
        Cell {
            id: self.run.cells.len() as u32,
            test: self.run.tests[0].name.clone(),
            slot: 0,
            load: Load::Alone,
            collective: Collective::AllReduce,
            algorithm: Algorithm::Ring,
            ranks,
            root: 0,
            rails: vec![rail.to_string()],
            flows: 1,
            source_port: None,
            transport: TransportKind::Tcp,
            device: DeviceKind::Host,
            size: Bytes(size),
            dtype: DType::F32,
            op: ReduceOp::Sum,
            placement: Placement::OutOfPlace,
            engine: Engine::Ours,
            batch: 1,
            verbs: None,
            path: Vec::new(),
            to_rail: None,
            group: None,
            streams: None,
            probes: None,
            line_mbit: None,
        }
    }

    /// The wire rate of each cell in each round.
    pub fn speed(mut self, speed: impl Fn(&Cell, u16) -> f64 + 'static) -> Fixture {
        self.speed = Box::new(speed);
        self
    }

    /// Extra nanoseconds one rank works on each iteration while the others wait.
    pub fn extra_work(mut self, extra: impl Fn(&Cell, u32, u16) -> f64 + 'static) -> Fixture {
        self.extra_work = Box::new(extra);
        self
    }

    /// Nanoseconds that all ranks of a cell wait in one iteration of one round.
    pub fn delay(mut self, delay: impl Fn(&Cell, u16, u32) -> f64 + 'static) -> Fixture {
        self.delay = Box::new(delay);
        self
    }

    /// Spread of the lognormal noise.
    pub fn noise(mut self, noise: f64, seed: u64) -> Fixture {
        (self.noise, self.random) = (noise, ChaCha8Rng::seed_from_u64(seed));
        self
    }

    /// Iterations of each round.
    pub fn iterations(mut self, iterations: u32) -> Fixture {
        self.iterations = iterations;
        self
    }

    /// What the test's speed is compared with.
    pub fn references(mut self, references: Vec<Reference>) -> Fixture {
        self.run.tests[0].references = references;
        self
    }

    /// The first round only, nothing measured again.
    pub fn measured_once(mut self) -> Recorded {
        let mut recorded = self.first_round();
        recorded.events.push(finished());
        recorded
    }

    /// The run as a runner records it: suspects are measured again before the end.
    pub fn recorded(mut self) -> Recorded {
        let mut recorded = self.first_round();
        let cells = self.run.cells.clone();
        for round in 1..=self.run.rule.most_rounds_again() {
            let suspected = suspects(&recorded);
            for cell in cells.iter().filter(|cell| suspected.contains(&cell.id)) {
                self.measure(cell, round, &mut recorded);
            }
        }
        recorded.events.push(finished());
        recorded
    }

    fn first_round(&mut self) -> Recorded {
        let run = self.run.clone();
        let mut recorded = Recorded::new(run);
        for cell in self.run.cells.clone() {
            self.measure(&cell, 0, &mut recorded);
        }
        recorded
    }

    fn measure(&mut self, cell: &Cell, round: u16, recorded: &mut Recorded) {
        let ideal = cell.size.0 as f64 * 1e9 / (self.speed)(cell, round);
        let extra: Vec<f64> = cell
            .ranks
            .iter()
            .map(|rank| (self.extra_work)(cell, *rank, round))
            .collect();
        let longest_extra = extra.iter().copied().fold(0.0, f64::max);
        for iter in 0..self.iterations {
            let noise = (self.noise * self.normal()).exp();
            let delay = (self.delay)(cell, round, iter);
            for (rank, extra) in cell.ranks.iter().zip(&extra) {
                let ns = (ideal * noise + longest_extra + delay) as u64;
                let busy = (ideal * 0.2 * (self.noise * self.normal()).exp() + extra) as u64;
                recorded.samples.push(Sample {
                    cell: cell.id,
                    round,
                    iter,
                    rank: *rank,
                    ns,
                    wait_ns: ns.saturating_sub(busy),
                    late_ns: 0,
                });
            }
        }
        let links: Vec<LinkTraffic> = (0..cell.ranks.len())
            .map(|at| LinkTraffic {
                from: cell.ranks[at],
                to: cell.ranks[(at + 1) % cell.ranks.len()],
                rail: cell.rails.first().cloned(),
                bytes: cell.size,
            })
            .collect();
        recorded.events.push(Event::CellDone(CellDone {
            cell: cell.id,
            round,
            iterations: self.iterations,
            verified: self.iterations,
            stop: StopReason::Tight,
            max_skew_ns: Nanos(100),
            unseen_skew_ns: None,
            planned: links.clone(),
            moved: links,
            flows: Vec::new(),
            tcp: Vec::new(),
            streams: Vec::new(),
            probes: Vec::new(),
        }));
    }

    /// A standard normal number (Box and Muller).
    fn normal(&mut self) -> f64 {
        let mut uniform = || ((self.random.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
        let (radius, angle) = (uniform(), uniform());
        (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
    }
}

fn finished() -> Event {
    Event::End {
        reason: EndReason::Finished,
        at: "2026-11-14T23:51:00Z".into(),
    }
}

/// A spec row that expects `rate` from `from_size` on, with 10 % tolerance.
pub fn spec(rate: f64, from_size: u64) -> Reference {
    Reference::Spec(SpecRow {
        id: "test-link".into(),
        title: "a link made to order".into(),
        rate: Rate(rate),
        tolerance: 0.1,
        algorithm: None,
        from_size: Bytes(from_size),
        scale: "two nodes".into(),
        source: "this test".into(),
        line_mbit: None,
    })
}
