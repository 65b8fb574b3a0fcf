//! Measuring a plan: every cell, what is left of it after a loss, then the suspects again.

use std::collections::HashSet;
use std::time::Instant;

use super::CliError;
use super::conduct::now;
use super::crossing;
use super::narration;
use super::narrowing::narrow_all;
use crate::diagnose::Step;
use crate::fabric::host;
use crate::findings::{Casualties, casualties, suspects};
use crate::measure::{Measuring, Progress, RunFolder, Session, SwitchWatch};
use crate::plan::replan::{self, LostParts};
use crate::plan::{Known, Plan};
use crate::record::{Cell, EndReason, Event, Recorded, Run};

/// What measuring a plan needs besides the ranks.
pub struct Story<'a> {
    /// What to measure.
    pub plan: &'a Plan,
    /// What is recorded before the first sample.
    pub run: &'a Run,
    /// Where it is recorded.
    pub folder: &'a RunFolder,
    /// When the run's budget is spent.
    pub until: Option<Instant>,
    /// Whether to go on without what is lost.
    pub keep_going: bool,
    /// What is known of the fabric's paths.
    pub known: &'a Known,
}

impl Story<'_> {
    /// Measures every cell, then the suspects again, and records how it ended.
    pub fn measure(
        &self,
        session: &mut Session,
        progress: &dyn Progress,
        switches: SwitchWatch,
    ) -> Result<(), CliError> {
        let mut sink = self.folder.start(self.run)?;
        let mut measuring = Measuring {
            sink: &mut sink,
            progress,
            seed: self.plan.seed,
            confidence: self.plan.rule.confidence,
            until: self.until,
            switches,
        };
        let mut cells = crossing::possible(&self.plan.cells, session, &mut measuring)?;
        let mut end = session.measure(&refer(&cells), &self.plan.tests, 0, &mut measuring)?;
        let mut lost = LostParts::default();
        while end == EndReason::Lost && self.keep_going {
            let Some(rest) = self.regroup(session, &mut lost, &mut measuring)? else {
                break;
            };
            cells = rest;
            progress.plan(cells.len());
            end = session.measure(&refer(&cells), &self.plan.tests, 0, &mut measuring)?;
        }
        if end == EndReason::Finished {
            let told = |step: &Step| narration::lines(step).iter().for_each(|line| progress.note(line));
            end = narrow_all(
                session,
                &self.plan.tests,
                self.folder,
                self.known,
                self.plan.seed,
                &mut measuring,
                &told,
            )?;
        }
        for round in 1..=self.plan.rule.remeasure {
            if end != EndReason::Finished {
                break;
            }
            let recorded = Recorded::read(self.folder.path())?;
            let again = to_measure_again(&suspects(&recorded), &self.still_possible(&recorded, &lost));
            if again.is_empty() {
                break;
            }
            progress.note(&format!(
                "measuring {} cells again before accusing anybody",
                again.len()
            ));
            progress.plan(again.len());
            end = session.measure(&refer(&again), &self.plan.tests, round, &mut measuring)?;
        }
        if end == EndReason::Finished && lost != LostParts::default() {
            end = EndReason::Lost;
        }
        measuring.end(end, now())?;
        sink.close()?;
        Ok(())
    }

    /// The cells that can be measured again: not those that were replaced, nor those that concern what was lost.
    fn still_possible(&self, recorded: &Recorded, lost: &LostParts) -> Vec<Cell> {
        let cells = &recorded.run.cells;
        let hindered = replan::without(cells, &recorded.run.ranks, lost, 0, |_| false).not_run;
        let mut out: HashSet<u32> = hindered.into_iter().map(|(cell, _)| cell).collect();
        out.extend(recorded.events.iter().filter_map(|event| match event {
            Event::NotRun { cell, .. } => Some(*cell),
            _ => None,
        }));
        cells
            .iter()
            .filter(|cell| !out.contains(&cell.id))
            .cloned()
            .collect()
    }

    /// Lets the survivors go on without what was lost since the last time, and plans what they can still measure. None
    /// when it cannot be told what was lost, or nothing is left to measure.
    fn regroup(
        &self,
        session: &mut Session,
        lost: &mut LostParts,
        measuring: &mut Measuring<'_>,
    ) -> Result<Option<Vec<Cell>>, CliError> {
        let recorded = Recorded::read(self.folder.path())?;
        let Casualties { hosts, rails } = casualties(&recorded);
        let known = std::mem::replace(lost, LostParts { hosts, rails });
        if *lost == known || lost.hosts.contains(&host::here().name) {
            return Ok(None);
        }
        session.go_on_without(&lost.ranks(&recorded.run.ranks))?;
        let settled: HashSet<u32> = recorded.settled_cells().collect();
        let unfinished: Vec<Cell> = recorded
            .run
            .cells
            .iter()
            .filter(|cell| !settled.contains(&cell.id))
            .cloned()
            .collect();
        let begun: HashSet<u32> = recorded.samples.iter().map(|sample| sample.cell).collect();
        let next_id = 1 + recorded.run.cells.iter().map(|cell| cell.id).max().unwrap_or(0);
        let rest = replan::without(&unfinished, &recorded.run.ranks, lost, next_id, |id| {
            begun.contains(&id)
        });
        let without = lost.to_string();
        measuring.progress.note(&format!(
            "going on without {without}: {} of {} cells left",
            rest.cells.len(),
            recorded.run.cells.len()
        ));
        for (cell, reason) in rest.not_run {
            measuring.sink.write(&Event::NotRun { cell, reason })?;
        }
        measuring.sink.write(&Event::Replanned {
            without,
            cells: rest.new,
        })?;
        measuring.sink.flush()?;
        Ok(Some(rest.cells).filter(|cells| !cells.is_empty()))
    }
}

fn refer(cells: &[Cell]) -> Vec<&Cell> {
    cells.iter().collect()
}

/// The suspects, each with everything its speed is compared with, the same cell by the other engine, and everything that ran beside it, one right after the
/// other: what changes on the machine between them is then least likely to be taken for a fault.
pub(super) fn to_measure_again(suspects: &[u32], cells: &[Cell]) -> Vec<Cell> {
    let mut slots: Vec<u32> = Vec::new();
    for suspect in cells.iter().filter(|cell| suspects.contains(&cell.id)) {
        let concerned = cells.iter().filter(|cell| {
            cell.id == suspect.id || cell.is_peer_of(suspect) || cell.is_counterpart_of(suspect)
        });
        for slot in concerned.map(|cell| cell.slot) {
            if !slots.contains(&slot) {
                slots.push(slot);
            }
        }
    }
    slots
        .iter()
        .flat_map(|slot| cells.iter().filter(move |cell| cell.slot == *slot))
        .cloned()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::{Fabric, rails};
    use crate::plan::Choices;
    use crate::record::DeviceKind;
    use crate::suite::Suite;

    #[test]
    fn a_suspect_is_measured_again_right_beside_what_it_is_compared_with() {
        let suite = Suite::load("smoke").unwrap();
        let fabric = Fabric::local(4, DeviceKind::Host, rails::loopback().unwrap());
        let choices = Choices {
            same_process: true,
            ..Choices::default()
        };
        let mut suite = suite;
        suite.run.rails = None;
        let plan = Plan::new(&suite, &fabric, &choices).unwrap();
        let together = |cell: &&Cell| cell.load == crate::record::Load::Together;
        let suspect = plan.cells.iter().find(together).unwrap();
        let again = to_measure_again(&[suspect.id], &plan.cells);
        assert!(again.iter().any(|cell| cell.id == suspect.id));
        assert!(
            again.iter().all(|cell| cell.slot == suspect.slot),
            "rails of one slot are each other's peers"
        );

        let alone = plan.cells.iter().find(|cell| cell.test == "pairs").unwrap();
        let again = to_measure_again(&[alone.id], &plan.cells);
        let peers = plan.cells.iter().filter(|cell| cell.is_peer_of(alone)).count();
        assert_eq!(again.len(), 1 + peers);
        assert!(to_measure_again(&[], &plan.cells).is_empty());
    }
}
