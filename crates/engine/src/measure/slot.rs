//! Measuring the cells of one slot, which run at the same time.
//!
//! All ranks prepare, then run iteration after iteration together: warm-up first, then timed ones, until the median of
//! every cell is known tightly enough, or the iterations or the time are spent. When a rank is lost or stands still, the
//! others are told to stop and to say where they were, and everything seen so far is kept.

use std::collections::{BTreeSet, HashSet};
use std::time::{Duration, Instant};

use super::loss::Loss;
use super::orders::{Answer, Assignment, Order};
use super::running::{Outcome, Running};
use super::session::{Heard, MeasureError, Session};
use super::sink::Sink;
use crate::launch::clock;
use record::units::{Bytes, Nanos};
use record::{Cell, Corruption, DeviceKind, Event, LinkTraffic, Lost, Sample, StopReason, TestRecord};

/// How much longer than the deadline a rank may take to say that it stands still.
const GRACE: Duration = Duration::from_secs(2);
/// The agreed instant lies at least and at most this far ahead of the order.
const SHORTEST_LEAD: Nanos = Nanos(60_000);
/// Ranks on one GPU meet and launch before the instant.
const SHORTEST_LEAD_ON_GPUS: Nanos = Nanos(250_000);
const LONGEST_LEAD: Nanos = Nanos(5_000_000);

/// How a slot ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SlotEnd {
    Complete,
    Budget,
    Interrupted,
    Lost,
}

/// What measuring a slot came to.
pub(super) struct Measured {
    pub end: SlotEnd,
    /// One for every cell.
    pub cells: Vec<Outcome>,
    pub notes: Vec<String>,
}

impl Measured {
    /// Whether the cells were measured to their end, whatever comes next.
    pub fn is_complete(&self) -> bool {
        matches!(self.end, SlotEnd::Complete | SlotEnd::Budget)
    }
}

/// The cells of a slot and their ranks.
pub(super) struct Slot<'a> {
    pub(super) session: &'a mut Session,
    pub(super) cells: Vec<Running<'a>>,
    test: &'a TestRecord,
    round: u16,
    seed: u64,
    pub(super) ranks: Vec<u32>,
    /// Cells that some rank runs at the same time, at most.
    at_once: u16,
    run_until: Option<Instant>,
    confidence: f64,
    notes: Vec<String>,
}

/// Trouble that ends the slot.
pub(super) enum Trouble {
    Interrupted,
    Lost(Loss),
}

impl<'a> Slot<'a> {
    pub fn new(
        session: &'a mut Session,
        cells: &[&'a Cell],
        test: &'a TestRecord,
        round: u16,
        seed: u64,
        run_until: Option<Instant>,
        confidence: f64,
    ) -> Slot<'a> {
        let mut ranks: Vec<u32> = cells.iter().flat_map(|cell| cell.ranks.iter().copied()).collect();
        ranks.sort_unstable();
        ranks.dedup();
        let cells_of = |rank: &u32| cells.iter().filter(|cell| cell.ranks.contains(rank)).count();
        let at_once = ranks.iter().map(cells_of).max().unwrap_or(1) as u16;
        let planned = |cell: &Cell| session.planned_bytes(cell, at_once);
        let cells = cells
            .iter()
            .map(|cell| Running::new(cell, planned(cell)))
            .collect();
        Slot {
            session,
            cells,
            test,
            round,
            seed,
            ranks,
            at_once,
            run_until,
            confidence,
            notes: Vec::new(),
        }
    }

    /// Measures; every event goes to `sink` as it happens.
    pub fn measure(mut self, sink: &mut Sink) -> Result<Measured, MeasureError> {
        let stop = match self.iterate(sink)? {
            Ok(stop) => stop,
            Err(trouble) => {
                let end = self.give_up(trouble, sink)?;
                return Ok(self.measured(end));
            }
        };
        if let Err(trouble) = self.finish(sink)? {
            let end = self.give_up(trouble, sink)?;
            return Ok(self.measured(end));
        }
        for cell in &self.cells {
            sink.write(&Event::CellDone(cell.done(self.round, stop)))?;
        }
        let spent = self.run_until.is_some_and(|until| Instant::now() >= until);
        Ok(self.measured(if spent { SlotEnd::Budget } else { SlotEnd::Complete }))
    }

    fn measured(self, end: SlotEnd) -> Measured {
        Measured {
            end,
            cells: self.cells.into_iter().map(Running::outcome).collect(),
            notes: self.notes,
        }
    }

    /// Prepares, warms up and times; why it stopped.
    fn iterate(&mut self, sink: &mut Sink) -> Result<Result<StopReason, Trouble>, MeasureError> {
        if let Err(trouble) = self.prepare(sink)? {
            return Ok(Err(trouble));
        }
        // The budget is for measuring: connecting, or a driver that translates kernels for the first time, is not.
        let started = Instant::now();
        let budget = Duration::from(self.test.budget);
        let is_spent = |until: Option<Instant>| {
            started.elapsed() >= budget || until.is_some_and(|until| Instant::now() >= until)
        };
        for done in 0..self.test.warmup {
            // Iterations that take long need no long warm-up, and what is timed needs the better part of the budget.
            if done > 0 && (started.elapsed() >= budget / 4 || is_spent(self.run_until)) {
                break;
            }
            if let Err(trouble) = self.go(None, sink)? {
                return Ok(Err(trouble));
            }
        }
        for iteration in 0.. {
            if let Err(trouble) = self.go(Some(iteration), sink)? {
                return Ok(Err(trouble));
            }
            let enough = iteration + 1 >= self.test.min_iterations;
            if iteration + 1 >= self.test.max_iterations {
                return Ok(Ok(StopReason::Iterations));
            }
            if enough
                && self
                    .cells
                    .iter()
                    .all(|cell| cell.times.is_tight(self.confidence, self.test.tight))
            {
                return Ok(Ok(StopReason::Tight));
            }
            if is_spent(self.run_until) {
                return Ok(Ok(StopReason::Budget));
            }
        }
        Ok(Ok(StopReason::Iterations))
    }

    fn prepare(&mut self, sink: &mut Sink) -> Result<Result<(), Trouble>, MeasureError> {
        if let Err(trouble) = self.introduce(sink)? {
            return Ok(Err(trouble));
        }
        for &rank in &self.ranks {
            let crowded = self.session.is_crowded(rank);
            let mine = self
                .cells
                .iter()
                .filter(|running| running.cell.ranks.contains(&rank));
            let known = &mut self.session.communicators;
            let assignments = mine.map(|running| Assignment {
                nccl: known.find(running.cell),
                cell: running.cell.clone(),
                round: self.round,
                seed: self.seed,
                verify_every: self.test.verify_every,
                crowded,
                at_once: self.at_once,
            });
            let order = Order::Prepare(assignments.collect());
            self.session.order(rank, &order)?;
        }
        self.collect("prepared", sink, |_, _, answer| {
            matches!(answer, Answer::Prepared { .. })
        })
    }

    /// One iteration on all ranks.
    fn go(&mut self, iteration: Option<u32>, sink: &mut Sink) -> Result<Result<(), Trouble>, MeasureError> {
        let uncertainty = self
            .ranks
            .iter()
            .map(|rank| self.session.offset(*rank).uncertainty)
            .max();
        let lead = Nanos(4 * uncertainty.unwrap_or(0) + 10_000 * self.ranks.len() as u64);
        let on_gpus = self
            .cells
            .iter()
            .any(|running| running.cell.device == DeviceKind::Cuda);
        let shortest = if on_gpus {
            SHORTEST_LEAD_ON_GPUS
        } else {
            SHORTEST_LEAD
        };
        let at = clock::now() + lead.clamp(shortest, LONGEST_LEAD);
        for &rank in &self.ranks {
            let at = self.session.offset(rank).to_remote(at);
            self.session.order(rank, &Order::Go { at, iteration })?;
        }
        let mut samples = Vec::new();
        let mut corruptions = Vec::new();
        let round = self.round;
        let had_done = match iteration {
            Some(iteration) => format!("iteration {iteration} done"),
            None => "a warm-up iteration done".to_string(),
        };
        let outcome = self.collect(&had_done, sink, |slot, rank, answer| {
            let Answer::Done {
                cell,
                iteration: Some(iter),
                started,
                ns,
                wait_ns,
                late_ns,
                checked,
                wrong,
            } = answer
            else {
                return matches!(answer, Answer::Done { .. });
            };
            let (cell, iter) = (*cell, *iter);
            samples.push(Sample {
                cell,
                round,
                iter,
                rank,
                ns: ns.0,
                wait_ns: wait_ns.0,
                late_ns: late_ns.0,
            });
            let started = slot.session.offset(rank).to_ours(*started);
            if let Some(running) = slot.cells.iter_mut().find(|running| running.cell.id == cell) {
                running.slowest = running.slowest.max(*ns);
                running.starts.push(started);
                running.all_checked &= checked;
                running.wrong += wrong.as_ref().map_or(0, |wrong| wrong.wrong_elements);
            }
            corruptions.extend(wrong.as_ref().map(|wrong| Corruption {
                cell,
                round,
                iter,
                rank,
                element: wrong.element,
                byte_offset: wrong.byte_offset,
                expected_bits: wrong.expected_bits.clone(),
                found_bits: wrong.found_bits.clone(),
                wrong_elements: wrong.wrong_elements,
            }));
            true
        })?;
        for sample in samples {
            sink.write(&Event::Sample(sample))?;
        }
        for corruption in corruptions {
            sink.write(&Event::Corruption(corruption))?;
        }
        if outcome.is_ok() && iteration.is_some() {
            self.cells.iter_mut().for_each(Running::close_iteration);
        }
        Ok(outcome)
    }

    fn finish(&mut self, sink: &mut Sink) -> Result<Result<(), Trouble>, MeasureError> {
        for &rank in &self.ranks {
            self.session.order(rank, &Order::Finish)?;
        }
        let mut deltas = Vec::new();
        let outcome = self.collect("the cell done", sink, |slot, _, answer| {
            let Answer::Finished {
                cell,
                runs,
                moved,
                flows,
                streams,
                counters,
                gpu,
            } = answer
            else {
                return false;
            };
            deltas.extend(counters.iter().cloned().map(Event::Counter));
            deltas.extend(gpu.clone().map(Event::Gpu));
            if let Some(running) = slot.cells.iter_mut().find(|running| running.cell.id == *cell) {
                let per_run = |moved: &LinkTraffic| LinkTraffic {
                    bytes: Bytes(moved.bytes.0 / (*runs).max(1)),
                    ..moved.clone()
                };
                running.moved.extend(moved.iter().map(per_run));
                running.flows.extend(flows.iter().cloned());
                running.merge_streams(streams);
            }
            true
        })?;
        for delta in &deltas {
            sink.write(delta)?;
        }
        Ok(outcome)
    }

    /// Waits until every rank has answered for every cell it takes part in. `expected` says whether an answer is the one
    /// that is waited for; `had_done` what a rank has done once it has given it.
    pub(super) fn collect(
        &mut self,
        had_done: &str,
        sink: &mut Sink,
        mut expected: impl FnMut(&mut Slot<'a>, u32, &Answer) -> bool,
    ) -> Result<Result<(), Trouble>, MeasureError> {
        let mut pending: HashSet<(u32, u32)> = HashSet::new();
        for running in &self.cells {
            pending.extend(running.cell.ranks.iter().map(|rank| (running.cell.id, *rank)));
        }
        let mut so_far = Loss::after(had_done);
        // A rank may stand still for one deadline and says so then; one that says nothing gets a little longer. While its
        // data moves it says so, and an iteration may take as long as it takes.
        let patience = self.session.deadline() + GRACE;
        let mut until = Instant::now() + patience;
        while !pending.is_empty() {
            match self.session.listen(until) {
                Heard::Answer(_, Answer::Intruder(what)) => {
                    self.notes.push(format!("turned away a stranger {what}"));
                    sink.write(&Event::Intruder { what })?;
                }
                Heard::Answer(_, Answer::Moving { .. }) => until = Instant::now() + patience,
                Heard::Answer(rank, answer) => {
                    if matches!(answer, Answer::Stopped { .. } | Answer::CannotPrepare { .. }) {
                        return Ok(Err(Trouble::Lost(Loss {
                            stopped: vec![(rank, answer)],
                            ..so_far
                        })));
                    }
                    if expected(self, rank, &answer)
                        && let Some(cell) = answer.cell()
                    {
                        pending.remove(&(cell, rank));
                        if !pending.iter().any(|(_, waited_for)| *waited_for == rank) {
                            so_far.idle.push((rank, Instant::now()));
                        }
                    }
                }
                Heard::Gone(rank, reason) => {
                    return Ok(Err(Trouble::Lost(Loss {
                        gone: vec![(rank, reason)],
                        ..so_far
                    })));
                }
                Heard::Silent(rank, how_long) => {
                    return Ok(Err(Trouble::Lost(Loss {
                        silent: vec![(rank, how_long)],
                        ..so_far
                    })));
                }
                Heard::Interrupted => return Ok(Err(Trouble::Interrupted)),
                Heard::Nothing => {
                    let mute: BTreeSet<u32> = pending.iter().map(|(_, rank)| *rank).collect();
                    let reason = format!("no answer for {}, and nothing moved", Nanos::from(patience));
                    return Ok(Err(Trouble::Lost(Loss {
                        mute: mute.into_iter().map(|rank| (rank, reason.clone())).collect(),
                        ..so_far
                    })));
                }
            }
        }
        Ok(Ok(()))
    }

    /// Tells everybody to stop, asks where they were, and records what is known.
    fn give_up(&mut self, trouble: Trouble, sink: &mut Sink) -> Result<SlotEnd, MeasureError> {
        self.session.communicators.clear();
        for &rank in &self.ranks {
            self.session.order(rank, &Order::Abort)?;
        }
        let mut loss = match trouble {
            Trouble::Interrupted => match self.session.lost_meanwhile() {
                gone if gone.is_empty() => return Ok(SlotEnd::Interrupted),
                gone => Loss {
                    gone,
                    ..Loss::default()
                },
            },
            Trouble::Lost(loss) => loss,
        };
        self.session
            .gather(&mut loss, &self.ranks, self.cells.len() == 1)?;
        let cell = self.cells.first().map(|running| running.cell.id);
        let doing = self.cells.first().map(Running::doing).unwrap_or_default();
        let present = self.session.present();
        let here: Vec<u32> = self.session.ranks_here();
        for (rank, cause, reason) in loss.lost(&here, present) {
            let lost: Lost = self.session.lost(rank, cause, cell, &doing, reason);
            self.notes.push(format!("rank {rank} is lost: {}", lost.reason));
            sink.write(&Event::Lost(lost))?;
        }
        let deadline = self.session.deadline().into();
        for stalled in loss.standstill(cell.unwrap_or_default(), deadline) {
            sink.write(&Event::Stalled(stalled))?;
        }
        sink.flush()?;
        Ok(SlotEnd::Lost)
    }
}
