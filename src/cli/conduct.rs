//! The story of a run: ranks meet, the plan is made, cells are measured, suspects are measured again, the record is judged.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGINT, SIGTERM};

use super::launching::Role;
use super::shared::Shared;
use super::{CliError, world};
use crate::findings::{Casualties, casualties, judge, suspects};
use crate::measure::{Measuring, Progress, RunFolder, Session, Setup};
use crate::plan::replan::{self, LostParts};
use crate::plan::{Choices, Plan};
use crate::record::{Cell, EndReason, Event, FindingKind, Judgement, Recorded, Run, SCHEMA, files};
use crate::report;
use crate::suite::Suite;

/// Set by whoever starts railgauge on many hosts: what to write before a command so that it is started the same way.
const STARTED_AS: &str = "RAILGAUGE_STARTED_AS";
/// Bytes of one sample's line, generously.
const SAMPLE_LINE: u64 = 120;
/// Room asked of the disk is bounded: a run that stops early by its statistics writes far less than it might.
const MOST_ROOM: u64 = 1 << 30;

/// A run that was measured and judged.
pub struct Conducted {
    /// Its folder.
    pub folder: PathBuf,
    /// What it means.
    pub judgement: Judgement,
    /// Callers that show that this was not the only world.
    separate: Vec<String>,
}

impl Conducted {
    /// The verdict's code; a run that was not the only world of its token is no success.
    pub fn exit_code(&self) -> u8 {
        self.judgement.exit_code.max(self.separate_worlds_code())
    }

    /// 3 when there was another world, else 0.
    pub fn separate_worlds_code(&self) -> u8 {
        for caller in &self.separate {
            eprintln!("railgauge: separate worlds: {caller}");
        }
        if self.separate.is_empty() { 0 } else { 3 }
    }
}

/// Measures and judges `suite`, whose settings are final.
pub fn conduct(
    suite: &Suite,
    role: Role,
    flags: &Shared,
    choices: &Choices,
    out: &Path,
    progress: &dyn Progress,
    on_plan: &dyn Fn(&Plan),
) -> Result<Conducted, CliError> {
    let folder = RunFolder::create(out)?;
    let interrupted = listen_for_signals()?;
    let started = Instant::now();
    let world = world::start(role, &suite.run, &interrupted)?;
    let setup = Setup {
        rails: suite.run.rails.clone().unwrap_or_default(),
        device: suite.run.device(),
        faults: flags.inject.clone(),
        deadline: suite.run.deadline(),
        data_port: suite.run.data_port,
    };
    let mut session = Session::meet(world.coordinator, setup, world.end_of, interrupted)?;
    let plan = Plan::new(suite, session.fabric(), choices);
    let result = plan.map_err(CliError::from).and_then(|plan| {
        on_plan(&plan);
        folder.make_sure_of(room_for(&plan))?;
        if let Some(topology) = &choices.topology {
            folder.keep(files::TOPOLOGY, &topology.to_toml())?;
        }
        let launch = world.launch.describe(session.fabric().hosts.len());
        let run = record(suite, &plan, &session, &launch, flags);
        let story = Story {
            plan: &plan,
            run: &run,
            folder: &folder,
            started,
            keep_going: flags.keep_going,
        };
        story.measure(&mut session, progress)?;
        Ok(())
    });
    session.quit();
    drop((session, world.crew));
    let separate = world
        .door
        .map_or_else(Vec::new, |door| door.evidence_of_separate_worlds());
    result?;
    let recorded = Recorded::read(folder.path())?;
    let judgement = judge(&recorded);
    report::write_all(folder.path(), &recorded, &judgement)
        .map_err(CliError::system("cannot write the report"))?;
    if let Some(mpi) = world.mpi {
        let mut kinds = judgement.findings.iter().map(|finding| finding.kind);
        mpi.leave(!kinds.any(|kind| kind == FindingKind::LostRank));
    }
    Ok(Conducted {
        folder: folder.path().to_path_buf(),
        judgement,
        separate,
    })
}

/// What measuring a plan needs besides the ranks.
struct Story<'a> {
    plan: &'a Plan,
    run: &'a Run,
    folder: &'a RunFolder,
    started: Instant,
    keep_going: bool,
}

impl Story<'_> {
    /// Measures every cell, then the suspects again, and records how it ended.
    fn measure(&self, session: &mut Session, progress: &dyn Progress) -> Result<(), CliError> {
        let mut sink = self.folder.start(self.run)?;
        let mut measuring = Measuring {
            sink: &mut sink,
            progress,
            seed: self.plan.seed,
            confidence: self.plan.rule.confidence,
            until: self
                .plan
                .budget
                .map(|budget| self.started + Duration::from(budget)),
        };
        let mut cells = self.plan.cells.clone();
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
        for round in 1..=self.plan.rule.remeasure {
            if end != EndReason::Finished {
                break;
            }
            let recorded = Recorded::read(self.folder.path())?;
            let again = to_measure_again(&suspects(&recorded), &recorded.run.cells);
            let hindered = replan::without(&again, &recorded.run.ranks, &lost, 0, |_| false).not_run;
            let is_whole = |cell: &&Cell| hindered.iter().all(|(id, _)| *id != cell.id);
            let again: Vec<&Cell> = again.iter().filter(is_whole).collect();
            if again.is_empty() {
                break;
            }
            progress.note(&format!(
                "measuring {} cells again before accusing anybody",
                again.len()
            ));
            progress.plan(again.len());
            end = session.measure(&again, &self.plan.tests, round, &mut measuring)?;
        }
        if end == EndReason::Finished && lost != LostParts::default() {
            end = EndReason::Lost;
        }
        measuring.end(end, now())?;
        sink.close()?;
        Ok(())
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
        if *lost == known || lost.hosts.contains(&crate::fabric::host::here().name) {
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

/// The suspects, each with everything its speed is compared with and everything that ran beside it, one right after the
/// other: what changes on the machine between them is then least likely to be taken for a fault.
fn to_measure_again(suspects: &[u32], cells: &[Cell]) -> Vec<Cell> {
    let mut slots: Vec<u32> = Vec::new();
    for suspect in cells.iter().filter(|cell| suspects.contains(&cell.id)) {
        let concerned = cells
            .iter()
            .filter(|cell| cell.id == suspect.id || cell.is_peer_of(suspect));
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

fn record(suite: &Suite, plan: &Plan, session: &Session, launch: &str, flags: &Shared) -> Run {
    Run {
        schema: SCHEMA,
        version: env!("CARGO_PKG_VERSION").to_string(),
        suite: suite.name.clone(),
        description: suite.description.clone(),
        started: now(),
        seed: plan.seed,
        command: std::env::args().collect(),
        started_as: std::env::var(STARTED_AS)
            .ok()
            .filter(|words| !words.trim().is_empty()),
        launch: launch.to_string(),
        hosts: session.fabric().hosts.clone(),
        ranks: session.fabric().ranks.clone(),
        timer_ns: session.timer(),
        clocks: session.clocks(),
        rule: plan.rule.clone(),
        tests: plan.tests.clone(),
        cells: plan.cells.clone(),
        untested: plan.untested.clone(),
        injected: flags.inject.iter().map(ToString::to_string).collect(),
    }
}

/// What the run may write at most.
fn room_for(plan: &Plan) -> u64 {
    let rounds = 1 + u64::from(plan.rule.remeasure);
    let samples = plan.cells.iter().map(|cell| {
        let test = plan.tests.iter().find(|test| test.name == cell.test);
        test.map_or(0, |test| u64::from(test.max_iterations) * cell.world() as u64)
    });
    let room = samples.sum::<u64>().saturating_mul(rounds * SAMPLE_LINE);
    (room + (16 << 20)).min(MOST_ROOM)
}

/// The first Ctrl-C or TERM ends the run in an orderly way, the second at once.
fn listen_for_signals() -> Result<Arc<AtomicBool>, CliError> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        let at_once = signal_hook::flag::register_conditional_shutdown(signal, 20, Arc::clone(&interrupted));
        let orderly = signal_hook::flag::register(signal, Arc::clone(&interrupted));
        at_once
            .and(orderly)
            .map_err(CliError::system("cannot listen for signals"))?;
    }
    Ok(interrupted)
}

/// A new folder under `reports/` named after the time and the suite.
pub fn default_folder(suite: &str) -> PathBuf {
    let name: String = suite
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || "-_.".contains(c) {
                c
            } else {
                '_'
            }
        })
        .collect();
    let stamp = now().replace(':', "-");
    let base = Path::new("reports").join(format!("{stamp}-{name}"));
    let numbered = (2..).map(|number| base.with_file_name(format!("{stamp}-{name}-{number}")));
    let mut candidates = std::iter::once(base.clone()).chain(numbered);
    candidates.find(|candidate| !candidate.exists()).unwrap_or(base)
}

/// Now, as RFC 3339 in UTC with whole seconds.
fn now() -> String {
    let now = jiff::Timestamp::now();
    let whole = now.round(jiff::Unit::Second).unwrap_or(now);
    whole.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::{Fabric, rails};
    use crate::record::DeviceKind;

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

        let alone = plan.cells.iter().find(|cell| cell.test == "pairs-shm").unwrap();
        let again = to_measure_again(&[alone.id], &plan.cells);
        let peers = plan.cells.iter().filter(|cell| cell.is_peer_of(alone)).count();
        assert_eq!(again.len(), 1 + peers);
        assert!(to_measure_again(&[], &plan.cells).is_empty());
    }
}
