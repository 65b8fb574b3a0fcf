//! A session whose ranks are simulated: they answer orders, remember when they really started, and have clocks that drift and jump.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::JoinHandle;

use super::super::faulty_clock::FaultyClock;
use super::super::measure_cells::MeasureContext;
use super::super::progress::{CellResult, Progress};
use super::super::protocol::{RankInfo, Setup};
use super::super::sink::RunFolder;
use super::super::switch_counters::SwitchWatch;
use super::*;
use crate::launch::{Member, Token, in_process};
use crate::transport::shm::Hub;
use crate::transport::{Fault, Mesh};
use record::units::Bytes;
use record::{
    Algorithm, Cell, CellDone, ClockComparison, Collective, DType, DeviceKind, EndReason, Engine, Load,
    Placement, ReduceOp, TestKind, TestRecord, TransportKind,
};

/// How long an iteration takes.
const ITERATION: Duration = Duration::from_millis(4);
/// A clock that is to jump does so before this iteration, however long the setup took.
const JUMPS_BEFORE: usize = 50;

struct Quiet;

impl Progress for Quiet {
    fn plan(&self, _: usize) {}
    fn slot(&self, _: &[&Cell], _: u16) {}
    fn cell_done(&self, _: &CellResult<'_>) {}
    fn note(&self, _: &str) {}
}

/// A rank that measures nothing. Ends with the instants of this host's clock at which it was to start.
fn simulated_rank(mut member: Member, faults: Vec<Fault>) -> JoinHandle<Vec<Nanos>> {
    std::thread::spawn(move || {
        let rank = member.rank();
        let mut clock = FaultyClock::default();
        let (mut starts, mut cells) = (Vec::new(), Vec::new());
        let sender = member.sender();
        let send = |answer: Answer| sender.send(serde_json::to_vec(&answer).unwrap()).unwrap();
        while let Ok(message) = member.receive() {
            match serde_json::from_slice(&message).unwrap() {
                Order::SetUp(_) => {
                    clock = FaultyClock::new(&faults, rank, clock::now());
                    send(Answer::RankInfo(Box::new(info(rank, &clock))));
                }
                Order::Ping => send(Answer::Pong(clock.reading(clock::now()))),
                Order::Prepare(assignments) => {
                    cells = assignments.iter().map(|assignment| assignment.cell.id).collect();
                    cells
                        .iter()
                        .for_each(|cell| send(Answer::Prepared { cell: *cell }));
                }
                Order::Go { at, iteration } => {
                    if starts.len() == JUMPS_BEFORE {
                        clock.jump_now(clock::now());
                    }
                    starts.extend(iteration.map(|_| clock.host_instant(at)));
                    std::thread::sleep(ITERATION);
                    cells.iter().for_each(|cell| send(done(*cell, iteration, at)));
                }
                Order::Finish => cells.iter().for_each(|cell| send(finished(*cell))),
                Order::Quit(_) => break,
                _ => {}
            }
        }
        starts
    })
}

fn info(rank: u32, clock: &FaultyClock) -> RankInfo {
    let mesh = Mesh::open(
        rank,
        Vec::new(),
        Token::generate().unwrap(),
        Hub::new(),
        Vec::new(),
    )
    .unwrap();
    RankInfo {
        host: probe::host::here(),
        identity: probe::host::identity(),
        pid: 1,
        rails: Vec::new(),
        endpoint: mesh.endpoint(),
        timer_ns: Nanos(20),
        clock: probe::host::clock().filter(|_| clock.is_right()),
        nccl: None,
        verbs: None,
    }
}

fn done(cell: u32, iteration: Option<u32>, started: Nanos) -> Answer {
    Answer::Done {
        cell,
        iteration,
        started,
        ns: ITERATION.into(),
        wait_ns: Nanos(0),
        late_ns: Nanos(0),
        checked: false,
        wrong: None,
    }
}

fn finished(cell: u32) -> Answer {
    Answer::Finished {
        cell,
        runs: 1,
        moved: Vec::new(),
        flows: Vec::new(),
        tcp: Vec::new(),
        streams: Vec::new(),
        probes: Vec::new(),
        counters: Vec::new(),
        gpu: None,
    }
}

fn cell(id: u32, ranks: u32) -> Cell {
    Cell {
        id,
        test: "test".to_string(),
        slot: id,
        load: Load::Alone,
        collective: Collective::AllReduce,
        algorithm: Algorithm::Ring,
        ranks: (0..ranks).collect(),
        root: 0,
        rails: Vec::new(),
        flows: 1,
        source_port: None,
        transport: TransportKind::Shm,
        device: DeviceKind::Host,
        size: Bytes(4096),
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

fn test_of(iterations: u32) -> TestRecord {
    TestRecord {
        name: "test".to_string(),
        kind: TestKind::Rails,
        references: Vec::new(),
        missing_references: Vec::new(),
        warmup: 0,
        min_iterations: iterations,
        max_iterations: iterations,
        tight: 0.0,
        budget: Nanos::from_secs(60),
        verify_every: 0,
        adaptive: false,
    }
}

/// What a run of simulated ranks recorded, and when they really started.
struct Simulated {
    done: Vec<CellDone>,
    comparisons: Vec<ClockComparison>,
    /// By rank, over all cells.
    starts: Vec<Vec<Nanos>>,
    took: Duration,
}

impl Simulated {
    fn run(world: u32, faults: &[&str], cells: u32, iterations: u32) -> Simulated {
        let faults: Vec<Fault> = faults.iter().map(|fault| fault.parse().unwrap()).collect();
        let (coordinator, members) = in_process(world);
        let ranks: Vec<_> = members
            .into_iter()
            .map(|member| simulated_rank(member, faults.clone()))
            .collect();
        let setup = Setup {
            rails: Vec::new(),
            device: DeviceKind::Host,
            largest: Bytes(4096),
            nccl: false,
            verbs: false,
            gid_index: None,
            faults,
            deadline: Nanos::from_secs(20),
            data_port: None,
        };
        let interrupted = Arc::new(AtomicBool::new(false));
        let mut session = Session::set_up(coordinator, setup, Box::new(|_| None), interrupted).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let samples = folder.path().join(record::files::SAMPLES);
        std::fs::write(&samples, "").unwrap();
        let mut sink = RunFolder::existing(folder.path()).resume().unwrap();
        let cells: Vec<Cell> = (0..cells).map(|id| cell(id, world)).collect();
        let started = Instant::now();
        let end = session.measure(
            &cells.iter().collect::<Vec<_>>(),
            &[test_of(iterations)],
            0,
            &mut MeasureContext {
                sink: &mut sink,
                progress: &Quiet,
                seed: 1,
                confidence: 0.95,
                until: None,
                switches: SwitchWatch::default(),
            },
        );
        assert_eq!(end.unwrap(), EndReason::Finished);
        let took = started.elapsed();
        sink.close().unwrap();
        session.quit();
        let (mut done, mut comparisons) = (Vec::new(), Vec::new());
        for line in std::fs::read_to_string(samples).unwrap().lines() {
            match serde_json::from_str(line).unwrap() {
                Event::CellDone(cell) => done.push(cell),
                Event::Clock(comparison) => comparisons.push(comparison),
                _ => {}
            }
        }
        Simulated {
            done,
            comparisons,
            starts: ranks.into_iter().map(|rank| rank.join().unwrap()).collect(),
            took,
        }
    }

    /// Of every cell: by how much its ranks really started apart at worst, and what the record admits.
    fn skews(&self) -> Vec<(u64, u64)> {
        let mut first = 0;
        let each = self.done.iter().map(|done| {
            let iterations = first..first + done.iterations as usize;
            first = iterations.end;
            let apart = iterations.map(|iteration| {
                let starts = || self.starts.iter().map(|starts| starts[iteration]);
                starts().max().unwrap().since(starts().min().unwrap()).0
            });
            (apart.max().unwrap(), done.unseen_skew_ns.unwrap().0)
        });
        each.collect()
    }
}

#[test]
fn ranks_with_drifting_clocks_start_as_close_together_as_the_record_says() {
    let faults = ["clock:rank=1,drift=100ppm", "clock:rank=2,drift=-80ppm"];
    let run = Simulated::run(3, &faults, 5, 100);
    assert_eq!(run.done.len(), 5);
    for (number, (apart, stated)) in run.skews().into_iter().enumerate() {
        // Rounded twice.
        assert!(
            apart <= stated + 4,
            "cell {number}: {apart} ns apart, {stated} ns stated"
        );
    }
    for (rank, drift) in [(1, 100_000i64), (2, -80_000)] {
        let mut own = run
            .comparisons
            .iter()
            .filter(|comparison| comparison.ranks == [rank]);
        let last = own.next_back().expect("compared while it measured");
        let uncertainty = last.drift_uncertainty_ppb;
        assert!(last.drift_ppb.abs_diff(drift) <= uncertainty + 1, "{last:?}");
        assert!(uncertainty < 150_000, "the two are told apart: {last:?}");
    }
    assert!(
        run.comparisons
            .iter()
            .all(|comparison| comparison.jump_ns.is_none()),
        "{:?}",
        run.comparisons
    );
    let comparing: Nanos = run.comparisons.iter().map(|comparison| comparison.took_ns).sum();
    assert!(
        comparing.0 <= Nanos::from(run.took).0 / 2,
        "{comparing} of {:?}",
        run.took
    );
}

#[test]
fn ranks_that_share_the_coordinators_clock_are_not_compared_and_have_no_skew() {
    let run = Simulated::run(2, &[], 1, 100);
    assert!(run.comparisons.is_empty());
    assert_eq!(run.skews(), [(0, 0)]);
}

#[test]
fn a_clock_that_jumps_is_recorded_and_the_cell_says_how_far_its_ranks_were_apart() {
    // After its jump the cell lasts longer than clocks may stay unchecked.
    let run = Simulated::run(2, &["clock:rank=1,jump=-5ms,after=1h"], 1, 350);
    let jumps: Vec<i64> = run
        .comparisons
        .iter()
        .filter_map(|comparison| comparison.jump_ns)
        .collect();
    let [jump] = jumps.as_slice() else {
        panic!("{:?}", run.comparisons);
    };
    assert!(jump.abs_diff(-5_000_000) < 2_500_000, "{jump}");
    let [(apart, stated)] = run.skews()[..] else {
        panic!("one cell");
    };
    assert!(
        apart > 4_000_000,
        "it jumped while the cell was measured: {apart}"
    );
    assert!(apart <= stated + 4, "{apart} ns apart, {stated} ns stated");
}
