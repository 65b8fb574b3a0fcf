//! One cell on one rank: its engine, and the iterations that are ordered.
//!
//! Only the collective is timed. Filling the input, checking the output and answering happen between iterations. The
//! pattern changes with every checked iteration, so yesterday's right answer is wrong today.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::faulty_clock::FaultyClock;
use super::protocol::{Answer, CellAssignment};
use crate::collective::{CellEngine, Conditions, ProbeReport, Stopped, Took, WrongElement};
use crate::device::telemetry::GpuName;
use crate::launch::clock;
use crate::transport::{Channel, Fault};
use probe::sysfs;
use record::units::Nanos;
use record::{Cell, LinkTraffic, Placement, StreamRecord};

/// One cell on one rank.
pub(super) struct CellTask {
    rank: u32,
    assignment: CellAssignment,
    engine: Box<dyn CellEngine>,
    deadline: Duration,
    abort: Arc<AtomicBool>,
    faults: Vec<Fault>,
    clock: FaultyClock,
    interfaces: Vec<(String, String)>,
    /// Number of the current input pattern: one for every ordered run, warm-up included.
    patterns: u64,
    /// Collectives run so far, warm-up included.
    collectives: u64,
    /// The pattern the input holds now.
    filled: Option<u64>,
}

/// What a task needs besides assignment and engine.
pub(super) struct TaskContext {
    pub rank: u32,
    pub deadline: Duration,
    pub abort: Arc<AtomicBool>,
    pub faults: Vec<Fault>,
    /// The clock as the coordinator sees it.
    pub clock: FaultyClock,
    /// Rails with the interfaces behind them.
    pub interfaces: Vec<(String, String)>,
}

impl CellTask {
    /// Takes the engine that is ready for the cell, and fills its input.
    pub fn new(assignment: CellAssignment, engine: Box<dyn CellEngine>, context: TaskContext) -> CellTask {
        let mut task = CellTask {
            rank: context.rank,
            assignment,
            engine,
            deadline: context.deadline,
            abort: context.abort,
            faults: context.faults,
            clock: context.clock,
            interfaces: context.interfaces,
            patterns: 0,
            collectives: 0,
            filled: None,
        };
        task.fill_for(None);
        task
    }

    /// The GPU it runs on, when it does.
    pub fn gpu(&self) -> Option<GpuName> {
        self.engine.gpu()
    }

    /// The cell.
    pub fn cell(&self) -> &Cell {
        &self.assignment.cell
    }

    /// Runs once at the agreed instant. `moving` is called now and then while data moves.
    pub fn run(&mut self, at: Nanos, iteration: Option<u32>, moving: &dyn Fn()) -> Answer {
        let at = self.clock.host_instant(at);
        if let Some(frozen) = self.inject_faults(at, iteration) {
            return frozen;
        }
        let batch = self.cell().batch.max(1);
        let took = match self.collective(at, iteration, batch, moving) {
            Ok(took) => took,
            Err(stopped) => return self.stopped(stopped),
        };
        let is_due = iteration.is_some_and(|iteration| self.is_checked(iteration));
        let check = match is_due {
            true if batch > 1 && self.is_in_place() => match self.check_one_more(moving) {
                Ok(check) => check,
                Err(stopped) => return self.stopped(stopped),
            },
            true => self.check(),
            false => None,
        };
        self.patterns += 1;
        self.fill_for(Some(iteration.map_or(0, |iteration| iteration + 1)));
        Answer::Done {
            cell: self.cell().id,
            iteration,
            started: self.clock.reading(took.started),
            ns: took.total,
            wait_ns: took.waited,
            late_ns: took.started.since(at),
            checked: check.is_some(),
            wrong: check.and_then(Result::err),
        }
    }

    /// Runs the collective `times` times without a pause.
    fn collective(
        &mut self,
        at: Nanos,
        iteration: Option<u32>,
        times: u16,
        moving: &dyn Fn(),
    ) -> Result<Took, Stopped> {
        let conditions = Conditions {
            deadline: self.deadline,
            abort: &self.abort,
            crowded: self.assignment.crowded,
            moving: Some(moving),
            slowdown: self.slowdown(),
        };
        let took = self.engine.run(at, iteration, times, &conditions)?;
        self.collectives += u64::from(times);
        self.engine.note_tcp(iteration);
        Ok(took)
    }

    /// In place, a batch feeds every result to the next collective, so its final output cannot be checked. Runs one more
    /// collective on fresh data, not timed, and checks that.
    fn check_one_more(&mut self, moving: &dyn Fn()) -> Result<Option<Result<(), WrongElement>>, Stopped> {
        self.patterns += 1;
        self.fill_for(None);
        self.collective(clock::now(), None, 1, moving)?;
        Ok(self.check())
    }

    /// The answer for an iteration that did not complete.
    fn stopped(&self, stopped: Stopped) -> Answer {
        Answer::Stopped {
            cell: self.cell().id,
            step: stopped.step,
            waiting_for: stopped.waiting_for,
            waited: stopped.waited,
            problem: stopped.problem,
            aborted: stopped.aborted,
            stuck: self.engine.stuck(),
            no_carrier: without_carrier(&self.interfaces),
        }
    }

    /// The records of its streams, where it has any.
    pub fn streams(&mut self) -> Vec<StreamRecord> {
        self.engine.streams()
    }

    /// What this rank knows of its probes, where it has any.
    pub fn probes(&mut self) -> Vec<ProbeReport> {
        self.engine.probes()
    }

    /// How many collectives ran, what was sent, and the connections for later cells.
    pub fn finish(self) -> (u64, Vec<LinkTraffic>, Vec<Channel>) {
        let (moved, channels) = self.engine.finish();
        (self.collectives, moved, channels)
    }

    fn is_checked(&self, iteration: u32) -> bool {
        let every = self.assignment.verify_every;
        every > 0 && iteration.is_multiple_of(every)
    }

    fn is_in_place(&self) -> bool {
        self.assignment.cell.placement == Placement::InPlace
    }

    /// Fills the input for the next iteration, where it is not filled already.
    fn fill_for(&mut self, next: Option<u32>) {
        let will_be_checked = next.is_none_or(|iteration| self.is_checked(iteration));
        if self.filled.is_some() && !self.is_in_place() && !will_be_checked {
            return;
        }
        let pattern = self.patterns;
        self.filled = self.engine.fill(pattern).then_some(pattern);
    }

    /// Checks the result; none when it could not be read, which must not count as checked.
    fn check(&mut self) -> Option<Result<(), WrongElement>> {
        self.engine.check(self.filled?)
    }

    fn slowdown(&self) -> f64 {
        let mine = self.faults.iter().find_map(|fault| match fault {
            Fault::SlowRank { rank, factor } if *rank == self.rank => Some(*factor),
            _ => None,
        });
        mine.unwrap_or(1.0)
    }

    /// Kills or freezes this rank if an injected fault says so. A frozen rank waits for no other; that is what it reports when
    /// the run is aborted.
    fn inject_faults(&self, at: Nanos, iteration: Option<u32>) -> Option<Answer> {
        for fault in &self.faults {
            match fault {
                Fault::Kill {
                    rank,
                    iteration: when,
                } if *rank == self.rank && iteration == Some(*when) => {
                    clock::wait_until(at, self.assignment.crowded);
                    let _ =
                        nix::sys::signal::kill(nix::unistd::Pid::this(), nix::sys::signal::Signal::SIGKILL);
                }
                Fault::Freeze {
                    rank,
                    iteration: when,
                } if *rank == self.rank && iteration == Some(*when) => {
                    let since = Instant::now();
                    while !self.abort.load(Ordering::Relaxed) {
                        std::thread::sleep(Duration::from_millis(20));
                    }
                    return Some(Answer::Stopped {
                        cell: self.cell().id,
                        step: "before its first step".to_string(),
                        waiting_for: None,
                        waited: Nanos::from(since.elapsed()),
                        problem: "frozen on purpose".to_string(),
                        aborted: true,
                        stuck: Vec::new(),
                        no_carrier: Vec::new(),
                    });
                }
                _ => {}
            }
        }
        None
    }
}

/// Those of `rails` (with their interfaces) that have no carrier now.
pub(super) fn without_carrier(rails: &[(String, String)]) -> Vec<String> {
    let has_no_carrier = |(_, interface): &&(String, String)| {
        sysfs::has_carrier(Path::new(sysfs::SYS), interface) == Some(false)
    };
    rails
        .iter()
        .filter(has_no_carrier)
        .map(|(rail, _)| rail.clone())
        .collect()
}
