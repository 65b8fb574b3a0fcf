//! One cell on one rank: memory, connections, and the iterations it is told to run.
//!
//! Only the collective is timed. Filling the input, checking the output and answering happen between iterations. The
//! pattern changes with every checked iteration, so yesterday's right answer is wrong today.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::orders::{Answer, Assignment, Wrong};
use crate::collective::{Buffers, Conditions, Execution, Oracle, Program, ProgramError, Stopped, scheme_of};
use crate::device::Region;
use crate::fabric::sysfs;
use crate::launch::clock;
use crate::record::{Cell, Moved, Placement, Stuck};
use crate::transport::{Channel, Fault};
use crate::units::{Bytes, Nanos};

/// The last stretch before the agreed instant is spent looking at the clock.
const SPIN: Nanos = Nanos(100_000);

/// One cell on one rank.
pub(super) struct Task {
    rank: u32,
    /// Position in the cell.
    position: usize,
    assignment: Assignment,
    execution: Execution,
    buffers: Buffers,
    oracle: Oracle,
    deadline: Duration,
    abort: Arc<AtomicBool>,
    faults: Vec<Fault>,
    interfaces: Vec<(String, String)>,
    /// Iterations run so far, warm-up included.
    runs: u64,
    /// The pattern the input holds now.
    filled: Option<u64>,
}

/// What a task needs besides its assignment.
pub(super) struct Surroundings {
    pub rank: u32,
    pub deadline: Duration,
    pub abort: Arc<AtomicBool>,
    pub faults: Vec<Fault>,
    /// Rails with the interfaces behind them.
    pub interfaces: Vec<(String, String)>,
}

impl Task {
    /// Allocates and joins the program with its channels.
    pub fn new(
        assignment: Assignment,
        program: Program,
        channels: Vec<Channel>,
        around: Surroundings,
    ) -> Result<Task, ProgramError> {
        let cell = &assignment.cell;
        let stages = scheme_of(cell)?.stages_input_in_place();
        let position = cell.ranks.iter().position(|rank| *rank == around.rank);
        let seed = assignment.seed ^ u64::from(cell.id).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let oracle = Oracle::for_cell(cell, seed);
        let mut task = Task {
            rank: around.rank,
            position: position.ok_or(ProgramError::NotAMember(around.rank))?,
            buffers: Buffers::for_cell(cell, stages),
            execution: Execution::new(program, channels),
            oracle,
            assignment,
            deadline: around.deadline,
            abort: around.abort,
            faults: around.faults,
            interfaces: around.interfaces,
            runs: 0,
            filled: None,
        };
        task.fill_for(None);
        Ok(task)
    }

    /// The cell.
    pub fn cell(&self) -> &Cell {
        &self.assignment.cell
    }

    /// Runs once at the agreed instant and says how it went. `moving` is called now and then while data moves.
    pub fn run(&mut self, at: Nanos, iteration: Option<u32>, moving: &dyn Fn()) -> Answer {
        wait_until(at, self.assignment.crowded);
        if let Some(frozen) = self.suffer(iteration) {
            return frozen;
        }
        let late = clock::now().since(at);
        let conditions = Conditions {
            deadline: self.deadline,
            abort: &self.abort,
            crowded: self.assignment.crowded,
            moving: Some(moving),
            slowdown: self.slowdown(),
        };
        let took = match self.execution.run(&self.buffers, iteration, &conditions) {
            Ok(took) => took,
            Err(stopped) => return self.stopped(stopped),
        };
        self.runs += 1;
        let is_due = iteration.is_some_and(|iteration| self.is_checked(iteration));
        let check = if is_due { self.check() } else { None };
        self.fill_for(Some(iteration.map_or(0, |iteration| iteration + 1)));
        Answer::Done {
            cell: self.cell().id,
            iteration,
            started: took.started,
            ns: took.total,
            wait_ns: took.waited,
            late_ns: late,
            checked: check.is_some(),
            wrong: check.and_then(Result::err),
        }
    }

    /// A standstill, with what can be seen of its cause from here.
    fn stopped(&self, stopped: Stopped) -> Answer {
        let stuck = self
            .execution
            .stuck()
            .into_iter()
            .map(|(to, rail, backlog)| Stuck {
                to,
                rail,
                bytes: Bytes(backlog.bytes),
                retransmits: backlog.retransmits,
            });
        Answer::Stopped {
            cell: self.cell().id,
            step: stopped.step,
            waiting_for: stopped.waiting_for,
            waited: stopped.waited,
            problem: stopped.problem,
            aborted: stopped.aborted,
            stuck: stuck.collect(),
            no_carrier: without_carrier(&self.interfaces),
        }
    }

    /// What was sent, and the connections for whoever needs them next.
    pub fn finish(self) -> (u64, Vec<Moved>, Vec<Channel>) {
        let mut moved = Vec::new();
        for channel in self.execution.channels() {
            let to = channel.peer();
            let sent = channel.moved().into_iter().filter(|(_, bytes)| *bytes > 0);
            moved.extend(sent.map(|(rail, bytes)| Moved {
                from: self.rank,
                to,
                rail,
                bytes: Bytes(bytes),
            }));
        }
        (self.runs, moved, self.execution.into_channels())
    }

    fn is_checked(&self, iteration: u32) -> bool {
        let every = self.assignment.verify_every;
        every > 0 && iteration.is_multiple_of(every)
    }

    /// Puts the input in place for the next iteration, where it is not there already.
    fn fill_for(&mut self, next: Option<u32>) {
        let in_place = self.assignment.cell.placement == Placement::InPlace;
        let will_be_checked = next.is_none_or(|iteration| self.is_checked(iteration));
        if self.filled.is_some() && !in_place && !will_be_checked {
            return;
        }
        let pattern = self.runs;
        self.filled = self
            .lease_all(&self.buffers.input, Region::try_write)
            .map(|mut input| {
                self.oracle.input(self.position, pattern, &mut input);
                pattern
            });
    }

    /// Whether the result is right; none when it could not be looked at, which must not count as checked.
    fn check(&self) -> Option<Result<(), Wrong>> {
        let output = self.lease_all(&self.buffers.output, Region::try_read)?;
        let verdict = self.oracle.check(self.position, self.filled?, &output);
        Some(verdict.map_err(|mismatch| Wrong {
            element: mismatch.element,
            byte_offset: mismatch.byte_offset,
            expected_bits: mismatch.expected_bits,
            found_bits: mismatch.found_bits,
            wrong_elements: mismatch.wrong_elements,
        }))
    }

    /// Leases a whole region; a peer may still be reading the last chunk of it for a moment.
    fn lease_all<L>(
        &self,
        region: &Arc<Region>,
        lease: impl Fn(&Arc<Region>, std::ops::Range<usize>) -> Option<L>,
    ) -> Option<L> {
        let until = Instant::now() + self.deadline;
        loop {
            if let Some(leased) = lease(region, 0..region.len()) {
                return Some(leased);
            }
            if Instant::now() > until || self.abort.load(Ordering::Relaxed) {
                return None;
            }
            std::thread::yield_now();
        }
    }

    fn slowdown(&self) -> f64 {
        let mine = self.faults.iter().find_map(|fault| match fault {
            Fault::SlowRank { rank, factor } if *rank == self.rank => Some(*factor),
            _ => None,
        });
        mine.unwrap_or(1.0)
    }

    /// Dies or freezes here if a negative control asks for it. A frozen rank waits for nobody: when the run is ended
    /// around it, that is what it says.
    fn suffer(&self, iteration: Option<u32>) -> Option<Answer> {
        for fault in &self.faults {
            match fault {
                Fault::Kill {
                    rank,
                    iteration: when,
                } if *rank == self.rank && iteration == Some(*when) => {
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
    let dark = |(_, interface): &&(String, String)| {
        sysfs::has_carrier(Path::new(sysfs::SYS), interface) == Some(false)
    };
    rails.iter().filter(dark).map(|(rail, _)| rail.clone()).collect()
}

/// Returns at `at`, as exactly as the host allows; at once when that has passed.
fn wait_until(at: Nanos, crowded: bool) {
    loop {
        let left = at.since(clock::now());
        if left == Nanos(0) {
            return;
        }
        if left > SPIN {
            std::thread::sleep(Duration::from(left - SPIN));
        } else if crowded {
            std::thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
    }
}
