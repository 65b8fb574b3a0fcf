//! Measuring a plan: every cell, what is left of it after a loss, then the suspects again.

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use super::CliError;
use super::conduct::now;
use super::crossing;
use super::narration;
use super::narrowing::narrow_all;
use engine::measure::{MeasureContext, Progress, RunFolder, Session, SwitchWatch};
use judge::findings::{Losses, losses, suspects};
use plan::diagnose::Step;
use plan::replan::{self, LostParts, Rest};
use plan::{Known, Plan};
use probe::host;
use record::{Cell, EndReason, Event, LossCause, Lost, RankRecord, Recorded, Run};

/// What measuring a plan needs besides the ranks.
pub struct Story<'a> {
    /// What to measure.
    pub plan: &'a Plan,
    /// What is recorded before the first sample.
    pub run: &'a Run,
    /// Where it is recorded.
    pub folder: &'a RunFolder,
    /// When its time is over.
    pub until: Option<Instant>,
    /// Whether to go on without what is lost.
    pub keep_going: bool,
    /// What is known of the fabric's paths.
    pub known: &'a Known,
    /// What was lost before and takes no part.
    pub absent: LostParts,
    /// What was recorded before the run was cut off, when it is gone on with.
    pub resumed: Option<&'a Recorded>,
    /// What was read before the run began and is to be compared with what is read in it.
    pub earlier: &'a [Event],
    /// Whether a run that is interrupted is to be gone on with: then it has not ended.
    pub resumable: bool,
    /// Told what is lost, and how that was noticed, before the run goes on without it.
    pub on_loss: &'a dyn Fn(&LostParts, &str) -> Result<(), CliError>,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// Why.
    pub reason: EndReason,
    /// What takes no part any more, what was absent from the beginning included.
    pub lost: LostParts,
}

/// Why a cell is measured anew.
const CUT_OFF: &str = "railgauge was cut off while it was measured";

/// How a loss is noticed while another one is dealt with.
const LOST_TOO: &str = "it did not answer any more right after another loss";

impl Story<'_> {
    /// Measures every cell, then the suspects again, and records how it ended.
    pub fn measure(
        &self,
        session: &mut Session,
        progress: &dyn Progress,
        switches: SwitchWatch,
    ) -> Result<Ended, CliError> {
        let mut sink = match self.resumed {
            None => self.folder.start(self.run)?,
            Some(_) => self.folder.resume()?,
        };
        let mut measuring = MeasureContext {
            sink: &mut sink,
            progress,
            seed: self.run.pattern_seed.unwrap_or(self.plan.seed),
            confidence: self.plan.rule.confidence,
            until: self.until,
            switches,
        };
        if self.resumed.is_none() {
            let mut earlier = self.earlier.iter();
            earlier.try_for_each(|event| measuring.sink.write(event))?;
        }
        let mut lost = self.absent.clone();
        let mut cells = self.to_begin_with(session, &mut measuring)?;
        let mut end = session.measure(&refer(&cells), &self.plan.tests, 0, &mut measuring)?;
        while end == EndReason::Lost && self.keep_going {
            let Some(rest) = self.regroup(session, &mut lost, &mut measuring)? else {
                break;
            };
            cells = rest;
            end = EndReason::Finished;
            if !cells.is_empty() {
                progress.plan(cells.len());
                end = session.measure(&refer(&cells), &self.plan.tests, 0, &mut measuring)?;
            }
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
            if self.goes_on(end, session, &mut lost, &mut measuring)? {
                end = EndReason::Finished;
            }
        }
        for round in self.rounds_left() {
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
            if self.goes_on(end, session, &mut lost, &mut measuring)? {
                end = EndReason::Finished;
            }
        }
        if end == EndReason::Finished && lost != self.absent {
            end = EndReason::Lost;
        }
        if !(self.resumable && end == EndReason::Interrupted) {
            measuring.end(end, now())?;
        }
        sink.close()?;
        Ok(Ended { reason: end, lost })
    }

    /// The cells to measure first: all that are planned, without what is absent and what was measured before.
    fn to_begin_with(
        &self,
        session: &mut Session,
        measuring: &mut MeasureContext<'_>,
    ) -> Result<Vec<Cell>, CliError> {
        let rest = match self.resumed {
            Some(recorded) => self.rest_of(recorded, &self.absent, CUT_OFF),
            None if self.absent == LostParts::default() => {
                return crossing::possible(&self.plan.cells, session, measuring);
            }
            None => {
                let next_id = next_id(&self.plan.cells);
                let ranks = &self.run.ranks;
                replan::without(&self.plan.cells, ranks, &self.absent, next_id, |_| None)
            }
        };
        let cells = rest.cells.clone();
        write_rest(rest, self.absent.to_string(), measuring)?;
        crossing::possible(&cells, session, measuring)
    }

    /// The numbers of the rounds in which suspects are still to be measured again. A round that was cut off is not gone on
    /// with: its number is used up, its samples stay.
    fn rounds_left(&self) -> std::ops::RangeInclusive<u16> {
        let samples = self.resumed.map_or(&[][..], |recorded| &recorded.samples);
        let used = samples.iter().map(|sample| sample.round).max().unwrap_or(0);
        let done = self.resumed.map_or(0, |recorded| recorded.rounds_done());
        used + 1..=used + self.plan.rule.remeasure.saturating_sub(done)
    }

    /// What is left of a recorded run without the `lost` parts. Cells that were begun are measured anew, for the reason given.
    fn rest_of(&self, recorded: &Recorded, lost: &LostParts, begun_why: &str) -> Rest {
        let settled: HashSet<u32> = recorded.settled_cells().collect();
        let unfinished = in_order_of(&self.plan.cells, &recorded.run.cells);
        let unfinished: Vec<Cell> = unfinished
            .filter(|cell| !settled.contains(&cell.id))
            .cloned()
            .collect();
        let begun: HashSet<u32> = recorded.samples.iter().map(|sample| sample.cell).collect();
        let next_id = next_id(&recorded.run.cells);
        replan::without(&unfinished, &recorded.run.ranks, lost, next_id, |id| {
            begun.contains(&id).then(|| begun_why.to_string())
        })
    }

    /// The cells that can be measured again: not those that were replaced, nor those that concern what was lost.
    fn still_possible(&self, recorded: &Recorded, lost: &LostParts) -> Vec<Cell> {
        let cells = &recorded.run.cells;
        let hindered = replan::without(cells, &recorded.run.ranks, lost, 0, |_| None).not_run;
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

    /// Whether the survivors of a loss go on, when every planned cell was measured before.
    fn goes_on(
        &self,
        end: EndReason,
        session: &mut Session,
        lost: &mut LostParts,
        measuring: &mut MeasureContext<'_>,
    ) -> Result<bool, CliError> {
        Ok(end == EndReason::Lost && self.keep_going && self.regroup(session, lost, measuring)?.is_some())
    }

    /// Lets the survivors go on without what was lost since the last time, and plans what they can still measure. None
    /// when it cannot be told what was lost.
    fn regroup(
        &self,
        session: &mut Session,
        lost: &mut LostParts,
        measuring: &mut MeasureContext<'_>,
    ) -> Result<Option<Vec<Cell>>, CliError> {
        let recorded = Recorded::read(self.folder.path())?;
        // Whoever was lost before the run was cut off may be there again.
        let mut since = recorded.clone();
        since
            .events
            .drain(..self.resumed.map_or(0, |earlier| earlier.events.len()));
        let Losses { mut hosts, rails } = losses(&since);
        hosts.extend(self.absent.hosts.iter().cloned());
        let known = std::mem::replace(lost, LostParts { hosts, rails });
        if *lost == known || lost.hosts.contains(&host::here().name) {
            return Ok(None);
        }
        let new = LostParts {
            hosts: lost.hosts.difference(&known.hosts).cloned().collect(),
            rails: lost.rails.difference(&known.rails).cloned().collect(),
        };
        (self.on_loss)(&new, &how_noticed(&since, &new))?;
        self.leave_out(session, lost, &recorded.run.ranks, measuring)?;
        let rest = self.rest_of(&recorded, lost, "it was interrupted by a loss");
        let without = lost.to_string();
        measuring.progress.note(&format!(
            "going on without {without}: {} of {} cells left",
            rest.cells.len(),
            recorded.run.cells.len()
        ));
        let cells = rest.cells.clone();
        write_rest(rest, without, measuring)?;
        Ok(Some(cells))
    }

    /// Lets all others go on without what was lost, and without whoever is lost while they are told so: a rack loses its power host by host.
    fn leave_out(
        &self,
        session: &mut Session,
        lost: &mut LostParts,
        ranks: &[RankRecord],
        measuring: &mut MeasureContext<'_>,
    ) -> Result<(), CliError> {
        loop {
            let absent = session.continue_without(&lost.ranks(ranks))?;
            let also: Vec<&RankRecord> = ranks
                .iter()
                .filter(|record| absent.contains(&record.rank) && !lost.hosts.contains(&record.host))
                .collect();
            if also.is_empty() {
                return Ok(());
            }
            for record in &also {
                measuring.sink.write(&Event::Lost(Lost {
                    rank: record.rank,
                    host: record.host.clone(),
                    cell: None,
                    doing: "giving up its connections".to_string(),
                    reason: LOST_TOO.to_string(),
                    cause: LossCause::Unclear,
                }))?;
            }
            let new = LostParts {
                hosts: also.into_iter().map(|record| record.host.clone()).collect(),
                ..LostParts::default()
            };
            (self.on_loss)(&new, LOST_TOO)?;
            lost.hosts.extend(new.hosts);
        }
    }
}

/// Records which cells will not be measured as planned, and those that replace them.
fn write_rest(rest: Rest, without: String, measuring: &mut MeasureContext<'_>) -> Result<(), CliError> {
    for (cell, reason) in rest.not_run {
        measuring.sink.write(&Event::NotRun { cell, reason })?;
    }
    measuring.sink.write(&Event::Replanned {
        without,
        cells: rest.new,
    })?;
    measuring.sink.flush()?;
    Ok(())
}

/// How the loss of `new` was noticed, in the words of the record.
fn how_noticed(recorded: &Recorded, new: &LostParts) -> String {
    let reason = recorded.events.iter().find_map(|event| match event {
        Event::Lost(lost) if new.hosts.contains(&lost.host) => Some(lost.reason.clone()),
        _ => None,
    });
    reason.unwrap_or_else(|| "nothing got through any more".to_string())
}

/// `recorded` slot by slot in the order in which these are planned to run; what the run decided on later comes after that, as it
/// came.
fn in_order_of<'a>(planned: &[Cell], recorded: &'a [Cell]) -> impl Iterator<Item = &'a Cell> {
    let mut place: HashMap<u32, usize> = HashMap::new();
    for (position, cell) in planned.iter().enumerate() {
        place.entry(cell.slot).or_insert(position);
    }
    let mut cells: Vec<&Cell> = recorded.iter().collect();
    cells.sort_by_key(|cell| place.get(&cell.slot).copied().unwrap_or(usize::MAX));
    cells.into_iter()
}

fn next_id(cells: &[Cell]) -> u32 {
    1 + cells.iter().map(|cell| cell.id).max().unwrap_or(0)
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
    use plan::Choices;
    use probe::rails;
    use record::DeviceKind;
    use topology::Fabric;
    use topology::suite::Suite;

    #[test]
    fn a_suspect_is_measured_again_right_beside_what_it_is_compared_with() {
        let suite = Suite::load("smoke").unwrap();
        let fabric = Fabric::local(
            probe::host::here(),
            4,
            DeviceKind::Host,
            rails::loopback().unwrap(),
        );
        let choices = Choices {
            same_process: true,
            ..Choices::default()
        };
        let mut suite = suite;
        suite.run.rails = None;
        let plan = Plan::new(&suite, &fabric, &choices).unwrap();
        let together = |cell: &&Cell| cell.load == record::Load::Together;
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
