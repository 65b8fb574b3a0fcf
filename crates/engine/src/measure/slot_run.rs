//! Measuring one slot.
//!
//! All ranks prepare, then run iteration after iteration together: warm-up first, then timed ones, until the interval of every
//! cell's median is tight, or the iterations or the time are spent. When a rank is lost or stuck, the slot is aborted and
//! everything measured so far is kept.

use std::time::{Duration, Instant};

use super::cell_progress::{CellProgress, CellSummary};
use super::error::MeasureError;
use super::protocol::{Answer, CellAssignment, Order};
use super::sink::Sink;
use super::slot::{Slot, SlotAbort};
use crate::launch::clock;
use record::stats::samples_needed;
use record::units::{Bytes, Nanos};
use record::{Cell, Corruption, DeviceKind, Engine, Event, LinkTraffic, MOST_BUDGETS, Sample, StopReason};

/// The agreed start lies at least and at most this far ahead of the order.
const SHORTEST_LEAD: Nanos = Nanos(60_000);
/// Ranks on GPUs form their launch groups and launch before the start.
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

/// The result of measuring a slot.
pub(super) struct SlotResult {
    pub end: SlotEnd,
    /// One for every cell.
    pub cells: Vec<CellSummary>,
    pub notes: Vec<String>,
}

impl SlotResult {
    /// Whether the cells were measured to their end.
    pub fn is_complete(&self) -> bool {
        matches!(self.end, SlotEnd::Complete | SlotEnd::Budget)
    }
}

impl Slot<'_> {
    /// Measures; every event goes to `sink` as it happens.
    pub fn measure(mut self, sink: &mut Sink) -> Result<SlotResult, MeasureError> {
        let stop = match self.iterate(sink)? {
            Ok(stop) => stop,
            Err(abort) => return self.aborted(abort, sink),
        };
        if let Err(abort) = self.finish(sink)? {
            return self.aborted(abort, sink);
        }
        for cell in &self.cells {
            sink.write(&Event::CellDone(cell.done(self.round, stop)))?;
        }
        let spent = self.run_until.is_some_and(|until| Instant::now() >= until);
        Ok(self.result(if spent { SlotEnd::Budget } else { SlotEnd::Complete }))
    }

    fn aborted(mut self, why: SlotAbort, sink: &mut Sink) -> Result<SlotResult, MeasureError> {
        let end = match self.abort(why, sink)? {
            true => SlotEnd::Lost,
            false => SlotEnd::Interrupted,
        };
        Ok(self.result(end))
    }

    fn result(self, end: SlotEnd) -> SlotResult {
        SlotResult {
            end,
            cells: self.cells.into_iter().map(CellProgress::summary).collect(),
            notes: self.notes,
        }
    }

    /// Prepares, warms up and times; returns the stop rule that applied.
    fn iterate(&mut self, sink: &mut Sink) -> Result<Result<StopReason, SlotAbort>, MeasureError> {
        if let Err(abort) = self.prepare(sink)? {
            return Ok(Err(abort));
        }
        // The budget covers measuring only, not connecting or a driver that compiles kernels for the first time.
        let started = Instant::now();
        let budget = Duration::from(self.test.budget);
        let is_over = |until: Option<Instant>| until.is_some_and(|until| Instant::now() >= until);
        // Streams are judged by how they are spread, and probes by what became of them, not by an interval.
        let needs_none = self
            .cells
            .iter()
            .any(|running| !running.cell.collective.is_scheduled());
        let needed = match needs_none {
            true => 0,
            false => samples_needed(self.confidence).unwrap_or(0) as u32,
        };
        for done in 0..self.test.warmup {
            // Long iterations need little warm-up, and timing needs most of the budget.
            if done > 0 && (started.elapsed() >= budget / 4 || is_over(self.run_until)) {
                break;
            }
            if let Err(abort) = self.go(None, sink)? {
                return Ok(Err(abort));
            }
        }
        for iteration in 0.. {
            if let Err(abort) = self.go(Some(iteration), sink)? {
                return Ok(Err(abort));
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
            if is_spent(started.elapsed(), budget, iteration + 1, needed) || is_over(self.run_until) {
                return Ok(Ok(StopReason::Budget));
            }
        }
        Ok(Ok(StopReason::Iterations))
    }

    fn prepare(&mut self, sink: &mut Sink) -> Result<Result<(), SlotAbort>, MeasureError> {
        if let Err(abort) = self.create_nccl_ids(sink)? {
            return Ok(Err(abort));
        }
        for &rank in &self.ranks {
            let crowded = self.session.is_crowded(rank);
            let mine = self
                .cells
                .iter()
                .filter(|running| running.cell.ranks.contains(&rank));
            let cache = &mut self.session.communicators;
            let assignments = mine.map(|running| CellAssignment {
                nccl: cache.find(running.cell),
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

    /// Compares clocks where that is due. One that jumped may have done so at any time since it was compared last.
    fn keep_clocks_known(&mut self, sink: &mut Sink) -> Result<(), MeasureError> {
        for (rank, by) in self.session.keep_clocks_known(&self.ranks, sink)? {
            for running in &mut self.cells {
                let shares = |other: &u32| self.session.clocks.is_shared(rank, *other);
                if running.iterations > 0 && running.cell.ranks.iter().any(shares) {
                    running.unseen_skew = running.unseen_skew + Nanos(by);
                }
            }
        }
        Ok(())
    }

    /// One iteration on all ranks.
    fn go(&mut self, iteration: Option<u32>, sink: &mut Sink) -> Result<Result<(), SlotAbort>, MeasureError> {
        self.keep_clocks_known(sink)?;
        let half_trips = self.ranks.iter().map(|rank| self.session.clocks.half_trip(*rank));
        let lead = Nanos(4 * half_trips.max().unwrap_or(0) + 10_000 * self.ranks.len() as u64);
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
            let at = self.session.clocks.offset(rank, at).to_remote(at);
            self.session.order(rank, &Order::Go { at, iteration })?;
        }
        let mut samples = Vec::new();
        let mut corruptions = Vec::new();
        let round = self.round;
        let milestone = match iteration {
            Some(iteration) => format!("finished iteration {iteration}"),
            None => "finished a warm-up iteration".to_string(),
        };
        let outcome = self.collect(&milestone, sink, |slot, rank, answer| {
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
            let started = slot.session.clocks.offset(rank, at).to_ours(*started);
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
            for running in &mut self.cells {
                let unseen = self.session.clocks.unseen_skew(&running.cell.ranks, at);
                running.close_iteration(unseen);
            }
        }
        Ok(outcome)
    }

    fn finish(&mut self, sink: &mut Sink) -> Result<Result<(), SlotAbort>, MeasureError> {
        for &rank in &self.ranks {
            self.session.order(rank, &Order::Finish)?;
        }
        let mut deltas = Vec::new();
        let outcome = self.collect("finished the cell", sink, |slot, _, answer| {
            let Answer::Finished {
                cell,
                runs,
                moved,
                flows,
                tcp,
                streams,
                probes,
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
                running.tcp.extend(tcp.iter().cloned());
                running.merge_streams(streams);
                running.probes.extend(probes.iter().cloned());
            }
            true
        })?;
        for delta in &deltas {
            sink.write(delta)?;
        }
        Ok(outcome)
    }

    /// Has the first rank of every cell that needs a new communicator create its NCCL unique id.
    fn create_nccl_ids(&mut self, sink: &mut Sink) -> Result<Result<(), SlotAbort>, MeasureError> {
        let by_nccl = self.cells.iter().map(|running| running.cell);
        let by_nccl: Vec<&Cell> = by_nccl.filter(|cell| cell.engine == Engine::Nccl).collect();
        let cache = &mut self.session.communicators;
        let is_new = |cell: &&&Cell| cache.find(cell).is_none();
        let new: Vec<u32> = by_nccl.iter().filter(is_new).map(|cell| cell.id).collect();
        if new.is_empty() {
            return Ok(Ok(()));
        }
        cache.make_room(new.len(), by_nccl.len());
        for &rank in &self.ranks {
            let cells = self.cells.iter().map(|running| running.cell);
            let mine = cells.filter(|cell| cell.ranks.contains(&rank));
            let leads = |cell: &Cell| new.contains(&cell.id) && cell.ranks.first() == Some(&rank);
            let order = Order::CreateNcclIds(mine.map(|cell| (cell.id, leads(cell))).collect());
            self.session.order(rank, &order)?;
        }
        self.collect("created the NCCL ids", sink, |slot, _, answer| {
            let Answer::NcclId { cell, id } = answer else {
                return false;
            };
            let mut cells = slot.cells.iter().map(|running| running.cell);
            let cell = cells.find(|known| known.id == *cell);
            if let (Some(cell), Some(id)) = (cell, id) {
                slot.session.communicators.add(cell, id.clone());
            }
            true
        })
    }
}

/// Whether no more iterations are timed: the budget is spent, and there are as many as an interval needs, or a multiple of it is.
fn is_spent(elapsed: Duration, budget: Duration, iterations: u32, needed: u32) -> bool {
    elapsed >= budget && (iterations >= needed || elapsed >= budget * MOST_BUDGETS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_that_is_slowed_down_goes_on_until_there_is_an_interval_but_not_for_ever() {
        let spent = |seconds: u64, iterations: u32| {
            is_spent(
                Duration::from_secs(seconds),
                Duration::from_secs(2),
                iterations,
                6,
            )
        };
        assert!(!spent(1, 100), "there is time");
        assert!(spent(2, 6) && spent(2, 100));
        assert!(!spent(2, 5) && !spent(7, 5), "five iterations have no interval");
        assert!(spent(8, 1), "four times the budget is enough");
    }
}
