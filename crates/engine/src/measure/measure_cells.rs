//! Measuring the cells of a plan, slot by slot.

use std::time::Instant;

use super::error::MeasureError;
use super::progress::{CellResult, Progress};
use super::session::Session;
use super::sink::{Sink, SinkError};
use super::slot::Slot;
use super::slot_run::{SlotEnd, SlotResult};
use super::switch_counters::SwitchWatch;
use record::{Cell, EndReason, Event, TestRecord};

/// Where a measurement writes to, and what limits it.
pub struct MeasureContext<'a> {
    /// Receives the events.
    pub sink: &'a mut Sink,
    /// Receives the progress.
    pub progress: &'a dyn Progress,
    /// Seed of the data patterns.
    pub seed: u64,
    /// Confidence of the interval of the stop rule.
    pub confidence: f64,
    /// When the run's budget is spent.
    pub until: Option<Instant>,
    /// Reads the counters of switches.
    pub switches: SwitchWatch,
}

impl MeasureContext<'_> {
    fn is_spent(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }

    /// Writes how the run ended.
    pub fn end(&mut self, reason: EndReason, at: String) -> Result<(), SinkError> {
        self.sink.write(&Event::End { reason, at })?;
        self.sink.flush()
    }
}

impl Session {
    /// Measures `cells` slot by slot as measurement round `round`. Returns why that ended.
    pub fn measure(
        &mut self,
        cells: &[&Cell],
        tests: &[TestRecord],
        round: u16,
        run: &mut MeasureContext<'_>,
    ) -> Result<EndReason, MeasureError> {
        let end = self.measure_slots(cells, tests, round, run)?;
        if matches!(end, EndReason::Finished | EndReason::Budget) {
            let mut ranks: Vec<u32> = cells.iter().flat_map(|cell| cell.ranks.iter().copied()).collect();
            ranks.sort_unstable();
            ranks.dedup();
            self.check_clocks(&ranks, run.sink)?;
        }
        Ok(end)
    }

    fn measure_slots(
        &mut self,
        cells: &[&Cell],
        tests: &[TestRecord],
        round: u16,
        run: &mut MeasureContext<'_>,
    ) -> Result<EndReason, MeasureError> {
        for slot in cells.chunk_by(|a, b| a.slot == b.slot) {
            let test = tests.iter().find(|test| slot[0].test == test.name);
            let Some(test) = test else { continue };
            if run.is_spent() {
                return Ok(EndReason::Budget);
            }
            run.progress.slot(slot, round);
            let before = run.switches.before(slot, run.progress);
            let result =
                Slot::new(self, slot, test, round, run.seed, run.until, run.confidence).measure(run.sink)?;
            if result.is_complete() {
                run.switches.after(before, slot, round, run.sink, run.progress)?;
            }
            self.report(&result, slot, round, run)?;
            match result.end {
                SlotEnd::Complete => {}
                SlotEnd::Budget => return Ok(EndReason::Budget),
                SlotEnd::Interrupted => return Ok(self.why_stopped()),
                SlotEnd::Lost => return Ok(EndReason::Lost),
            }
        }
        Ok(EndReason::Finished)
    }

    fn report(
        &self,
        result: &SlotResult,
        slot: &[&Cell],
        round: u16,
        run: &mut MeasureContext<'_>,
    ) -> Result<(), MeasureError> {
        for (cell, summary) in slot.iter().zip(&result.cells) {
            if result.is_complete() {
                run.progress.cell_done(&CellResult {
                    cell,
                    round,
                    times: summary.times.as_slice(),
                    wrong: summary.wrong,
                    rate: summary.rate,
                });
            }
        }
        for note in &result.notes {
            run.progress.note(note);
        }
        run.sink.flush()?;
        Ok(())
    }
}
