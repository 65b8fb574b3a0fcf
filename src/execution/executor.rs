//! Executes a plan: every cell, the rest of the plan after a loss, then the suspects again.

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use super::adaptive::{SessionMeasurer, narrow_adaptive_tests};
use super::connection_paths::record_crossed;
use super::fresh_streams::{known_streams, replace_streams};
use super::{cross_rail, probe_paths, steady_paths};
use crate::error::CliError;
use crate::progress::diagnosis::describe_step;
use crate::run_clock::now;
use engine::measure::{MeasureContext, Progress, RunFolder, Session, SwitchWatch};
use judge::findings::{Losses, losses, suspects};
use plan::diagnose::Step;
use plan::remeasure::cells_to_remeasure;
use plan::replan::{self, LostParts, Rest};
use plan::{FabricKnowledge, Plan};
use probe::host;
use record::{Cell, EndReason, Event, LossCause, Lost, RankRecord, Recorded, Run};

/// Executes a plan with connected ranks.
pub struct RunExecutor<'a> {
    /// What to measure.
    pub plan: &'a Plan,
    /// The record that is written before the first sample.
    pub run: &'a Run,
    /// The run's folder.
    pub folder: &'a RunFolder,
    /// When no further cell may start.
    pub until: Option<Instant>,
    /// Whether to continue without lost parts.
    pub keep_going: bool,
    /// The fabric's graph and paths.
    pub known: &'a FabricKnowledge,
    /// Parts that were lost before and take no part.
    pub absent: LostParts,
    /// The record of an interrupted run that this one resumes.
    pub resumed: Option<&'a Recorded>,
    /// Counters read before the run, to compare with those read during it.
    pub earlier: &'a [Event],
    /// Whether an interrupted run may be resumed later: then its record gets no end.
    pub resumable: bool,
    /// Called with lost parts and how the loss was noticed, before the run continues without them.
    pub on_loss: &'a dyn Fn(&LostParts, &str) -> Result<(), CliError>,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunEnd {
    /// Why.
    pub reason: EndReason,
    /// Parts that no longer take part, including those absent from the start.
    pub lost: LostParts,
}

/// Why a cell is measured again after a resumption.
const CUT_OFF: &str = "railgauge was killed while measuring it";

/// How a loss is noticed while another one is handled.
const LOST_TOO: &str = "it stopped answering right after another loss";

impl RunExecutor<'_> {
    /// Measures every cell, then the suspects again, and records how the run ended.
    pub fn measure(
        &self,
        session: &mut Session,
        progress: &dyn Progress,
        switches: SwitchWatch,
    ) -> Result<RunEnd, CliError> {
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
        let mut cells = self.first_cells(session, &mut measuring)?;
        let mut end = session.measure(&references(&cells), &self.plan.tests, 0, &mut measuring)?;
        while end == EndReason::Lost && self.keep_going {
            let Some(rest) = self.regroup(session, &mut lost, &mut measuring)? else {
                break;
            };
            cells = rest;
            end = EndReason::Finished;
            if !cells.is_empty() {
                progress.plan(cells.len());
                end = session.measure(&references(&cells), &self.plan.tests, 0, &mut measuring)?;
            }
        }
        let mut known = self.known.clone();
        if end == EndReason::Finished {
            ask_again(session, &mut known, &mut measuring)?;
            let is_adaptive = |cell: &&Cell| {
                let mut tests = self.plan.tests.iter();
                tests.any(|test| test.adaptive && test.name == cell.test)
            };
            record_crossed(
                session,
                &mut known,
                cells.iter().filter(is_adaptive),
                &mut measuring,
            )?;
            let show = |step: &Step| describe_step(step).iter().for_each(|line| progress.note(line));
            end = narrow_adaptive_tests(
                session,
                &self.plan.tests,
                self.folder,
                &mut known,
                self.plan.seed,
                &mut measuring,
                &show,
            )?;
            if self.continues_after(end, session, &mut lost, &mut measuring)? {
                end = EndReason::Finished;
            }
        }
        if end == EndReason::Finished {
            end = self.measure_known_streams(session, &mut measuring)?;
            if self.continues_after(end, session, &mut lost, &mut measuring)? {
                end = EndReason::Finished;
            }
        }
        if end == EndReason::Finished {
            let measurer = SessionMeasurer {
                session: &mut *session,
                tests: &self.plan.tests,
                folder: self.folder,
                known: &mut known,
                measuring: &mut measuring,
            };
            end = probe_paths::narrow(measurer, self.plan, &lost)?;
            if self.continues_after(end, session, &mut lost, &mut measuring)? {
                end = EndReason::Finished;
            }
        }
        for round in self.rounds_left() {
            if end != EndReason::Finished {
                break;
            }
            let recorded = Recorded::read(self.folder.path())?;
            let again = cells_to_remeasure(&suspects(&recorded), &self.still_possible(&recorded, &lost));
            if again.is_empty() {
                break;
            }
            progress.note(&format!(
                "measuring {} cells again to confirm suspects",
                again.len()
            ));
            let cells = &recorded.run.cells;
            let again = replace_streams(session, again, cells, round, &known, &mut measuring)?;
            progress.plan(again.len());
            end = session.measure(&references(&again), &self.plan.tests, round, &mut measuring)?;
            if self.continues_after(end, session, &mut lost, &mut measuring)? {
                end = EndReason::Finished;
            }
        }
        if end == EndReason::Finished {
            ask_again(session, &mut known, &mut measuring)?;
        }
        if end == EndReason::Finished && lost != self.absent {
            end = EndReason::Lost;
        }
        if !(self.resumable && end == EndReason::Interrupted) {
            measuring.end(end, now())?;
        }
        sink.close()?;
        Ok(RunEnd { reason: end, lost })
    }

    /// Where nothing is wrong with how streams are spread, but few of their paths are known: what do links carry?
    fn measure_known_streams(
        &self,
        session: &mut Session,
        measuring: &mut MeasureContext<'_>,
    ) -> Result<EndReason, CliError> {
        let cells = &self.plan.cells;
        if cells.iter().all(|cell| cell.streams.is_none()) || self.resumed.is_some() {
            return Ok(EndReason::Finished);
        }
        let recorded = Recorded::read(self.folder.path())?;
        let suspected = suspects(&recorded);
        let of_streams = |cell: &&Cell| cell.streams.is_some() && suspected.contains(&cell.id);
        if recorded.run.cells.iter().any(|cell| of_streams(&cell)) {
            return Ok(EndReason::Finished);
        }
        let known = known_streams(&recorded.run.cells, measuring)?;
        if known.is_empty() {
            return Ok(EndReason::Finished);
        }
        measuring.progress.note(&format!(
            "measuring streams of known paths alone, in {} cells: what links carry cannot be told otherwise",
            known.len()
        ));
        measuring.progress.plan(known.len());
        Ok(session.measure(&references(&known), &self.plan.tests, 0, measuring)?)
    }

    /// The cells to measure first: all planned ones, except those with absent parts and those measured before.
    fn first_cells(
        &self,
        session: &mut Session,
        measuring: &mut MeasureContext<'_>,
    ) -> Result<Vec<Cell>, CliError> {
        let rest = match self.resumed {
            Some(recorded) => self.unfinished_cells(recorded, &self.absent, CUT_OFF),
            None if self.absent == LostParts::default() => {
                return cross_rail::reachable_cells(&self.plan.cells, session, measuring);
            }
            None => {
                let next_id = next_id(&self.plan.cells);
                let ranks = &self.run.ranks;
                replan::without(&self.plan.cells, ranks, &self.absent, next_id, |_| None)
            }
        };
        let cells = rest.cells.clone();
        write_rest(rest, self.absent.to_string(), measuring)?;
        cross_rail::reachable_cells(&cells, session, measuring)
    }

    /// The numbers of the remaining rounds that measure suspects again. An interrupted round is not resumed: its samples stay and
    /// its number is used up.
    fn rounds_left(&self) -> std::ops::RangeInclusive<u16> {
        let samples = self.resumed.map_or(&[][..], |recorded| &recorded.samples);
        let used = samples.iter().map(|sample| sample.round).max().unwrap_or(0);
        let done = self.resumed.map_or(0, |recorded| recorded.rounds_done());
        used + 1..=used + self.plan.rule.most_rounds_again().saturating_sub(done)
    }

    /// The unfinished cells of a recorded run without the `lost` parts. Cells that have samples are measured again as new cells, for
    /// the given reason.
    fn unfinished_cells(&self, recorded: &Recorded, lost: &LostParts, restart_reason: &str) -> Rest {
        let settled: HashSet<u32> = recorded.settled_cells().collect();
        let unfinished = in_planned_order(&self.plan.cells, &recorded.run.cells);
        let unfinished: Vec<Cell> = unfinished
            .filter(|cell| !settled.contains(&cell.id))
            .cloned()
            .collect();
        let begun: HashSet<u32> = recorded.samples.iter().map(|sample| sample.cell).collect();
        let next_id = next_id(&recorded.run.cells);
        replan::without(&unfinished, &recorded.run.ranks, lost, next_id, |id| {
            begun.contains(&id).then(|| restart_reason.to_string())
        })
    }

    /// The cells that can be measured again: not those that were replaced, nor those with lost parts.
    fn still_possible(&self, recorded: &Recorded, lost: &LostParts) -> Vec<Cell> {
        let cells = &recorded.run.cells;
        let blocked = replan::without(cells, &recorded.run.ranks, lost, 0, |_| None).not_run;
        let mut out: HashSet<u32> = blocked.into_iter().map(|(cell, _)| cell).collect();
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

    /// Whether the run continues with the surviving ranks when it lost parts after all planned cells.
    fn continues_after(
        &self,
        end: EndReason,
        session: &mut Session,
        lost: &mut LostParts,
        measuring: &mut MeasureContext<'_>,
    ) -> Result<bool, CliError> {
        Ok(end == EndReason::Lost && self.keep_going && self.regroup(session, lost, measuring)?.is_some())
    }

    /// Drops the parts that were lost since the last call and plans what the others can still measure. None when the lost part
    /// cannot be determined.
    fn regroup(
        &self,
        session: &mut Session,
        lost: &mut LostParts,
        measuring: &mut MeasureContext<'_>,
    ) -> Result<Option<Vec<Cell>>, CliError> {
        let recorded = Recorded::read(self.folder.path())?;
        // A part that was lost before the interruption may be back.
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
        self.drop_lost(session, lost, &recorded.run.ranks, measuring)?;
        let rest = self.unfinished_cells(&recorded, lost, "it was interrupted by a loss");
        let without = lost.to_string();
        measuring.progress.note(&format!(
            "continuing without {without}: {} of {} cells left",
            rest.cells.len(),
            recorded.run.cells.len()
        ));
        let cells = rest.cells.clone();
        write_rest(rest, without, measuring)?;
        Ok(Some(cells))
    }

    /// Has the other ranks continue without the lost parts. Further ranks may be lost meanwhile: a rack loses power host by host.
    fn drop_lost(
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
                    doing: "closing its connections".to_string(),
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

/// Records the cells that are not measured as planned, and those that replace them.
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

/// How the loss of `new` was noticed, by the record.
fn how_noticed(recorded: &Recorded, new: &LostParts) -> String {
    let reason = recorded.events.iter().find_map(|event| match event {
        Event::Lost(lost) if new.hosts.contains(&lost.host) => Some(lost.reason.clone()),
        _ => None,
    });
    reason.unwrap_or_else(|| "its rails went silent".to_string())
}

/// `recorded` in the order of the planned slots; cells that the run added come last, in their own order.
fn in_planned_order<'a>(planned: &[Cell], recorded: &'a [Cell]) -> impl Iterator<Item = &'a Cell> {
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

/// Asks again how switches place flows, and records it where that says more than before.
fn ask_again(
    session: &mut Session,
    known: &mut FabricKnowledge,
    measuring: &mut MeasureContext<'_>,
) -> Result<(), CliError> {
    if let Some(placements) = steady_paths::ask_again(session, known)? {
        let switches = placements.record();
        measuring.sink.write(&Event::Placement { switches })?;
        known.placements = placements;
    }
    Ok(())
}

fn references(cells: &[Cell]) -> Vec<&Cell> {
    cells.iter().collect()
}
