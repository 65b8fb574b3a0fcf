//! Probes over the simulated fabric: which of them links lose, and how long the slowest wait.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::losses::lost_of;
use super::{Answers, Twin, hash};
use record::units::Nanos;
use record::{
    Cell, CellDone, Event, PathPlacement, ProbeCounts, ProbeFlow, ProbeTerms, Sample, StopReason, StreamPath,
    TestRecord,
};

/// What the middle packet of a second waits, and the slowest one usually, in nanoseconds.
const TYPICAL: f64 = 2_500.0;
const WORST: f64 = 20_000.0;
/// How much the slowest of a second vary (natural logarithm), and how often a host is held up for a while, and for how long at most.
const SPREAD: f64 = 0.4;
const HELD_UP: f64 = 0.01;
const HELD_UP_FOR: f64 = 3e6;

impl Twin<'_> {
    /// Tells the paths of probes where switches answer and place them by their ports.
    pub fn tell_paths_of_probes(&self, cells: &mut [Cell]) {
        let probed = cells.iter_mut().filter_map(|cell| cell.probes.as_mut());
        probed.for_each(|terms| self.tell_paths(&mut terms.flows));
    }

    /// The same for flows.
    pub fn tell_paths(&self, flows: &mut [ProbeFlow]) {
        if self.placement != PathPlacement::Steady || self.answers != Answers::Ports {
            return;
        }
        for flow in flows {
            let path = self.route(flow.from, flow.to, &flow.rail, flow.port);
            flow.way = path.map(|path| StreamPath {
                links: path.iter().map(|link| self.graph.name(*link)).collect(),
                whole: true,
                steady: None,
            });
        }
    }

    /// Everything that is recorded of a cell of probes.
    pub(super) fn probe(&self, cell: &Cell, terms: &ProbeTerms, test: &TestRecord, round: u16) -> Vec<Event> {
        let iterations = test.min_iterations.max(1);
        let mut events = Vec::new();
        for iter in 0..iterations {
            events.extend(cell.ranks.iter().map(|rank| {
                Event::Sample(Sample {
                    cell: cell.id,
                    round,
                    iter,
                    rank: *rank,
                    ns: terms.window.0,
                    wait_ns: 0,
                    late_ns: 0,
                })
            }));
        }
        let held_up = |rank: u32, iter: u32| {
            let drawn = hash((self.seed, "held up", cell.slot, round, rank, iter));
            let share = (drawn >> 11) as f64 / (1u64 << 53) as f64;
            let usual = if share < HELD_UP {
                share / HELD_UP * HELD_UP_FOR
            } else {
                0.0
            };
            // What a model of noise adds of it.
            let seed = hash((self.seed, "held up longer", cell.slot, round, rank, iter));
            usual.max(self.noise.parts.delay(1, &mut ChaCha8Rng::seed_from_u64(seed)))
        };
        let mut probes = Vec::new();
        for (number, flow) in (0..).zip(&terms.flows) {
            let mut counts = ProbeCounts {
                flow: number,
                ..ProbeCounts::default()
            };
            let connection = (cell.id, number as u16);
            let Some(path) = self.crossed(flow.from, flow.to, &flow.rail, flow.port, connection) else {
                continue;
            };
            let loss = self.loss_over(&path);
            let mut random = ChaCha8Rng::seed_from_u64(hash((self.seed, "probes", cell.id, round, number)));
            let mut draw = || ((random.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
            let waits: Vec<f64> = (0..iterations)
                .map(|_| {
                    (SPREAD * (-2.0 * draw().ln()).sqrt() * (std::f64::consts::TAU * draw()).cos()).exp()
                })
                .collect();
            for (iter, factor) in (0..iterations).zip(waits) {
                let worst = (WORST * factor)
                    .max(held_up(flow.from, iter))
                    .max(held_up(flow.to, iter))
                    .max(self.held_up_on(
                        &path,
                        (cell.slot, round, iter),
                        (number, flow.packets, terms.window),
                    ));
                counts.sent.push(flow.packets);
                counts
                    .lost
                    .push(lost_of(u64::from(flow.packets), loss, &mut random));
                counts.typical_ns.push(TYPICAL as u64);
                counts.worst_ns.push(worst as u64);
            }
            probes.push(counts);
        }
        events.push(Event::CellDone(CellDone {
            cell: cell.id,
            round,
            iterations,
            verified: 0,
            stop: StopReason::Iterations,
            max_skew_ns: Nanos(1000),
            unseen_skew_ns: self.noise.parts.unseen_skew(),
            planned: Vec::new(),
            moved: Vec::new(),
            flows: Vec::new(),
            tcp: Vec::new(),
            streams: Vec::new(),
            probes,
        }));
        events
    }
}
