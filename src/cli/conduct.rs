//! The story of a run: ranks meet, the plan is made, cells are measured, suspects are measured again, the record is judged.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGINT, SIGTERM};

use super::launching::Role;
use super::shared::Shared;
use super::{CliError, world};
use crate::findings::{judge, suspects};
use crate::measure::{Measuring, Progress, RunFolder, Session, Setup};
use crate::plan::{Choices, Plan};
use crate::record::{Cell, EndReason, Judgement, Recorded, Run, SCHEMA};
use crate::report;
use crate::suite::Suite;

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
        let launch = world.launch.describe(session.fabric().hosts.len());
        let run = record(suite, &plan, &session, &launch, flags);
        measure(&mut session, &plan, &run, &folder, started, progress)?;
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
    Ok(Conducted {
        folder: folder.path().to_path_buf(),
        judgement,
        separate,
    })
}

/// Measures every cell, then the suspects again, and records how it ended.
fn measure(
    session: &mut Session,
    plan: &Plan,
    run: &Run,
    folder: &RunFolder,
    started: Instant,
    progress: &dyn Progress,
) -> Result<(), CliError> {
    let mut sink = folder.start(run)?;
    let mut measuring = Measuring {
        sink: &mut sink,
        progress,
        seed: plan.seed,
        confidence: plan.rule.confidence,
        until: plan.budget.map(|budget| started + Duration::from(budget)),
    };
    let all: Vec<&Cell> = plan.cells.iter().collect();
    let mut end = session.measure(&all, &plan.tests, 0, &mut measuring)?;
    for round in 1..=plan.rule.remeasure {
        if end != EndReason::Finished {
            break;
        }
        let again = to_measure_again(&suspects(&Recorded::read(folder.path())?), &plan.cells);
        if again.is_empty() {
            break;
        }
        progress.note(&format!(
            "measuring {} cells again before accusing anybody",
            again.len()
        ));
        progress.plan(again.len());
        end = session.measure(&again, &plan.tests, round, &mut measuring)?;
    }
    measuring.end(end, now())?;
    sink.close()?;
    Ok(())
}

/// The suspects, each with everything its speed is compared with and everything that ran beside it, one right after the
/// other: what changes on the machine between them is then least likely to be taken for a fault.
fn to_measure_again<'p>(suspects: &[u32], cells: &'p [Cell]) -> Vec<&'p Cell> {
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
