//! Runs on the twin: planned, measured, narrowed down and measured again like real ones.

pub mod detection_power;

use std::sync::Arc;
use std::time::{Duration, Instant};

use rayon::prelude::*;

use crate::error::CliError;
use crate::execution::path_discovery::{FIRST_FRESH_PORT, flows_of_tests};
use crate::run_clock::now;
use engine::measure::TraceWanted;
use judge::findings::{judge, suspects};
use plan::diagnose::{DiagnosisContext, Step, narrow};
use plan::flow::PathTable;
use plan::placement::Placements;
use plan::probes::{aim, cover, flows_to_try, keep_few};
use plan::remeasure::cells_to_remeasure;
use plan::twin::{Answers, CongestionFault, DelayingLink, LossyLink, Noise, SlowLink, Twin, TwinRun};
use plan::{Choices, FabricKnowledge, Plan};
use record::units::Nanos;
use record::{
    Cell, ClockRecord, CrossedSwitch, Event, Judgement, PathPlacement, Recorded, Run, SCHEMA, TransportKind,
};
use topology::Fabric;
use topology::Topology;
use topology::graph::{Graph, LinkId};
use topology::suite::{Suite, TransportChoice};

/// A fabric to simulate runs on, and what is run on it.
pub struct Simulation {
    /// What is measured.
    pub suite: Suite,
    /// The fabric's topology.
    pub topology: Topology,
    /// The topology as text, for the record.
    pub text: String,
    /// A rank on every host.
    pub fabric: Fabric,
    /// The topology as a graph.
    pub graph: Arc<Graph>,
    /// The noise of healthy links.
    pub noise: Noise,
    /// How switches place flows.
    pub placement: PathPlacement,
    /// What its switches say when they are asked about a flow.
    pub answers: Answers,
    /// What shows under load only.
    pub congestion: Vec<CongestionFault>,
    /// Switches whose hash tells no flow from another.
    pub polarised: Vec<String>,
}

/// Links that are faulty on purpose.
#[derive(Debug, Clone, Default)]
pub struct FaultyLinks {
    /// Those that carry less.
    pub slow: Vec<SlowLink>,
    /// Those that lose packets.
    pub lossy: Vec<LossyLink>,
    /// Those that hold packets up.
    pub delaying: Vec<DelayingLink>,
}

impl FaultyLinks {
    /// As a record says what was injected.
    pub fn injected(&self, graph: &Graph) -> Vec<String> {
        let slow = self.slow.iter().map(|slow| slow.injected(graph));
        let lossy = self.lossy.iter().map(|lossy| lossy.injected(graph));
        let delaying = self.delaying.iter().map(|delaying| delaying.injected(graph));
        slow.chain(lossy).chain(delaying).collect()
    }

    /// All of them, and the share that is left of each: of its rate, of its packets, of the seconds in which it does not stop.
    pub fn all(&self) -> Vec<(LinkId, f64)> {
        let slow = self.slow.iter().map(|slow| (slow.link, slow.share));
        let lossy = self.lossy.iter().map(|lossy| (lossy.link, 1.0 - lossy.share));
        let delaying = self
            .delaying
            .iter()
            .map(|delaying| (delaying.link, 1.0 - delaying.often));
        slow.chain(lossy).chain(delaying).collect()
    }
}

/// A run that was simulated and judged.
pub struct SimulatedRun {
    /// `run.json` as planned, before cells were added.
    pub run: Run,
    /// Every event in order, if requested.
    pub log: Vec<Event>,
    /// The record as it is judged.
    pub recorded: Recorded,
    /// The verdict and the findings.
    pub judgement: Judgement,
    /// Steps of narrowing down.
    pub steps: usize,
    /// Slots measured one after another.
    pub slots: usize,
    /// How long judging took.
    pub judging: Duration,
    /// Hosts' links that are slow for good though nothing was injected there ([`SLOW_FOR_GOOD`]).
    pub slow_for_good: Vec<LinkId>,
}

/// The share that a part must lack for good, by the noise that was drawn, to be called slow rightly: the regression that is commonly acted upon.
const SLOW_FOR_GOOD: f64 = 0.05;

impl Simulation {
    /// Runs the suite with these links faulty. `on_step` gets what is known before each step of narrowing down.
    pub fn run(
        &self,
        faulty: &FaultyLinks,
        seed: u64,
        keep_log: bool,
        on_step: &mut dyn FnMut(&Step),
    ) -> Result<SimulatedRun, CliError> {
        let twin = Twin::new(&self.graph, &faulty.slow, self.noise.clone(), seed)
            .with_losses(&faulty.lossy)
            .with_delays(&faulty.delaying)
            .with_congestion(&self.congestion)
            .with_placement(self.placement)
            .with_answers(self.answers)
            .with_polarised(&self.polarised);
        let mut suite = self.suite.clone();
        suite.run.seed = Some(seed);
        let known = FabricKnowledge {
            graph: Some(Arc::clone(&self.graph)),
            paths: Arc::new(self.trace_paths(&twin, seed)),
            placements: self.placements(),
            ..FabricKnowledge::default()
        };
        let choices = Choices {
            transport: Some(TransportChoice::Tcp),
            topology: Some(self.topology.clone()),
            known: known.clone(),
            ..Choices::default()
        };
        let mut plan = Plan::new(&suite, &self.fabric, &choices)?;
        twin.tell_paths_of_probes(&mut plan.cells);
        keep_few(&mut plan, &self.graph);
        twin.tell_paths_of_streams(&mut plan.cells);
        let mut tried = flows_to_try(&plan, &self.fabric.ranks, &self.graph);
        twin.tell_paths(&mut tried);
        cover(&mut plan, &self.graph, tried);
        plan::probes::share_out_by_paths(&mut plan.cells, &self.graph, plan.wire);
        plan.fit(&self.fabric, Nanos(0));
        // What is counted under load is what NICs count of RDMA.
        for test in plan.tests.iter().filter(|test| test.kind.loads_rails()) {
            let cells = plan.cells.iter_mut().filter(|cell| cell.test == test.name);
            cells.for_each(|cell| cell.transport = TransportKind::Verbs);
        }
        let of_load = self.congestion.iter().map(CongestionFault::to_string);
        let of_hash = self
            .polarised
            .iter()
            .map(|switch| format!("polarised hash of {switch}"));
        let of_links = faulty.injected(&self.graph).into_iter();
        let run = Run {
            injected: of_links.chain(of_load).chain(of_hash).collect(),
            ..self.record(&suite, &plan, &known.placements)
        };
        let ranks: Vec<u32> = self.fabric.ranks.iter().map(|record| record.rank).collect();
        let slow_for_good = twin.slow_for_good(&ranks, &self.fabric.common_rails(), SLOW_FOR_GOOD);
        let mut bench = TwinRun::new(twin, run.clone(), Some(self.text.clone()));
        if keep_log {
            bench = bench.with_log();
        }
        bench.measure_round(&plan.cells, 0);
        let mut steps = 0;
        for test in plan.tests.iter().filter(|test| test.adaptive) {
            let setting = DiagnosisContext {
                graph: &self.graph,
                table: &known.paths,
                test: &test.name,
                seed,
            };
            let Ok(outcome) = narrow(&mut bench, &setting, on_step);
            steps += outcome.steps;
        }
        if plan.cells.iter().any(|cell| cell.probes.is_some()) {
            let Ok(_) = aim(&mut bench, &self.graph, &plan);
        }
        for round in 1..=plan.rule.most_rounds_again() {
            let again: Vec<Cell> = {
                let recorded = bench.recorded_so_far();
                cells_to_remeasure(&suspects(recorded), &recorded.run.cells)
            };
            if again.is_empty() {
                break;
            }
            bench.measure_round(&again, round);
        }
        let (recorded, log) = bench.end(now());
        let started = Instant::now();
        let judgement = judge(&recorded);
        let judging = started.elapsed();
        let mut slots: Vec<u32> = recorded.run.cells.iter().map(|cell| cell.slot).collect();
        slots.sort_unstable();
        slots.dedup();
        Ok(SimulatedRun {
            run,
            log,
            recorded,
            judgement,
            steps,
            slots: slots.len(),
            judging,
            slow_for_good,
        })
    }

    /// How the twin's switches place flows. Silent ones do not say.
    fn placements(&self) -> Placements {
        let switches = self.topology.switches.iter().map(|switch| &switch.name);
        Placements::assumed(switches, self.placement)
    }

    /// The paths of the flows that a real run would trace, answered by the twin.
    fn trace_paths(&self, twin: &Twin<'_>, seed: u64) -> PathTable {
        let ranks: Vec<u32> = self.fabric.ranks.iter().map(|record| record.rank).collect();
        let mut table = PathTable::default()
            .with_fresh_ports(FIRST_FRESH_PORT)
            .told_afterwards(twin.placement() != PathPlacement::Unknown);
        if twin.placement() == PathPlacement::Sprayed {
            let switches = self.topology.switches.iter().map(|switch| switch.name.as_str());
            return table.with_spraying(switches);
        }
        // As in a real run: paths are traced where a schedule needs them.
        let is_needed = self.suite.tests.iter().any(|test| test.schedule.needs_paths());
        if twin.placement() != PathPlacement::Steady || !is_needed {
            return table;
        }
        for rail in self.fabric.common_rails() {
            let wanted = flows_of_tests(&self.suite, &self.graph, &ranks, (TransportKind::Tcp, rail), seed);
            let routed = wanted.into_par_iter().filter_map(|flow| {
                let path = twin.route(flow.from, flow.to, rail, flow.port)?;
                let seen = self.half_known(twin, &flow, &path);
                Some((flow, path, seen))
            });
            for (flow, path, seen) in routed.collect::<Vec<_>>() {
                match seen {
                    None => table.insert(flow.from, flow.to, rail, flow.port, path),
                    Some(hops) => table.insert_half_known(flow.from, flow.to, rail, (flow.port, hops)),
                }
            }
        }
        table
    }

    /// What switches say about a flow, where that leaves several paths.
    fn half_known(
        &self,
        twin: &Twin<'_>,
        flow: &TraceWanted,
        path: &[LinkId],
    ) -> Option<Vec<Option<CrossedSwitch>>> {
        if self.answers == Answers::Ports {
            return None;
        }
        let seen = twin.traced((flow.from, flow.to, flow.port), path);
        let hops = self.graph.hops_of_record(seen.iter().map(Option::as_ref));
        let crossed = self
            .graph
            .crossing_probabilities_given(flow.from, flow.to, &flow.rail, &hops);
        (crossed.len() != path.len()).then_some(seen)
    }

    fn record(&self, suite: &Suite, plan: &Plan, placements: &Placements) -> Run {
        let clock = |record: &record::RankRecord| ClockRecord {
            rank: record.rank,
            offset_ns: 0,
            uncertainty_ns: 1000,
        };
        Run {
            schema: SCHEMA,
            version: record::VERSION.to_string(),
            suite: suite.name.clone(),
            description: suite.description.clone(),
            started: now(),
            seed: plan.seed,
            command: std::env::args().collect(),
            pattern_seed: None,
            started_as: None,
            launch: format!("simulated: {} hosts", self.fabric.hosts.len()),
            hosts: self.fabric.hosts.clone(),
            ranks: self.fabric.ranks.clone(),
            reach: Vec::new(),
            nccl: None,
            timer_ns: Nanos(20),
            clocks: self.fabric.ranks.iter().map(clock).collect(),
            rule: plan.rule.clone(),
            tests: plan.tests.clone(),
            cells: plan.cells.clone(),
            untested: plan.untested.clone(),
            placement: placements.record(),
            miscabled: Vec::new(),
            unused: Vec::new(),
            injected: Vec::new(),
        }
    }
}
