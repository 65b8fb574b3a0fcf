//! The story of a run: ranks meet, the plan is made, cells are measured, suspects are measured again, the record is judged.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGINT, SIGTERM};

use super::inventory_flags::{self, Sources, Told};
use super::launching::Role;
use super::run_clock::RunClock;
use super::shared::Shared;
use super::story::Story;
use super::{CliError, paths, say, stream_paths, switch_counters, world};
use crate::findings::judge;
use crate::measure::{Progress, RunFolder, Session, Setup, StopSign};
use crate::plan::{Choices, Plan};
use crate::record::{
    DeviceKind, Engine, FindingKind, Judgement, Recorded, Run, SCHEMA, TransportKind, files,
};
use crate::report;
use crate::suite::{EngineChoice, Suite, TestCase, TransportChoice};
use crate::transport::Fault;

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
            say::complain(format_args!("separate worlds: {caller}"));
        }
        if self.separate.is_empty() { 0 } else { 3 }
    }
}

/// A fault that cannot strike would look like one that was not found.
fn faults_can_strike(plan: &Plan, flags: &Shared) -> Result<(), CliError> {
    let over_peer = plan
        .cells
        .iter()
        .any(|cell| cell.transport == TransportKind::Peer);
    let throttles = flags
        .inject
        .iter()
        .any(|fault| matches!(fault, Fault::ThrottleRail { .. } | Fault::ThrottlePair { .. }));
    if over_peer && throttles {
        let problem =
            "--inject throttle slows connections down; GPU memory is used directly here: add --transport tcp";
        return Err(CliError::Usage(problem.to_string()));
    }
    Ok(())
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
    let clock = RunClock::start(&suite.run);
    let told = Told::read(&Sources::of(&suite.run, flags.topology.as_deref()))?;
    let folder = RunFolder::create(out)?;
    let interrupted = listen_for_signals()?;
    let world = world::start(role, &suite.run, &interrupted)?;
    let setup = Setup {
        rails: suite.run.rails.clone().unwrap_or_default(),
        device: suite.run.device(),
        largest: suite.largest(),
        nccl: engines_wanted(suite, choices).is_some(),
        verbs: verbs_wanted(suite, choices),
        gid_index: suite.verbs.gid_index,
        faults: flags.inject.clone(),
        deadline: suite.run.deadline(),
        data_port: suite.run.data_port,
    };
    let stop = StopSign::from(interrupted).at(clock.last_moment());
    let mut session = Session::meet(world.coordinator, setup, world.end_of, stop)?;
    if let (Some(Wanted::Must), Some(Err(missing))) = (engines_wanted(suite, choices), session.nccl()) {
        let missing = missing.clone();
        session.quit();
        return Err(CliError::Environment(missing));
    }
    let inventory = match flags.inventory.no_inventory {
        true => None,
        false => {
            let mut inventory = session.inventory(now())?;
            told.add_switches(&mut inventory, clock.left());
            inventory
                .troubles
                .iter()
                .for_each(|trouble| progress.note(trouble));
            Some(inventory)
        }
    };
    let choices = &Choices {
        direct: session.is_direct(),
        nccl: session.nccl().cloned(),
        verbs: Some(session.verbs().clone()),
        gpudirect: session.gpudirect().cloned(),
        ..choices.clone()
    };
    let known = paths::known(&mut session, suite, choices, progress);
    let choices = known.map(|known| Choices {
        known,
        ..choices.clone()
    });
    let plan = choices.and_then(|choices| {
        let mut plan = Plan::new(suite, session.fabric(), &choices)?;
        if let Some(graph) = &choices.known.graph {
            paths::of_pinned_flows(&mut session, &mut plan, graph)?;
            stream_paths::ask(&mut session, &mut plan, graph, progress)?;
        }
        plan.fit(session.fabric(), clock.spent());
        Ok((plan, choices))
    });
    let result = plan.and_then(|(mut plan, choices)| {
        let choices = &choices;
        let graph = choices.known.graph.as_deref();
        let switches = switch_counters::watch(&suite.run, &mut plan, graph, clock.last_moment())?;
        nothing_left_by_engine(&plan, choices)?;
        faults_can_strike(&plan, flags)?;
        flags.rdma.must_matter(&plan)?;
        on_plan(&plan);
        folder.make_sure_of(room_for(&plan))?;
        if let Some(topology) = &choices.topology {
            folder.keep(files::TOPOLOGY, &topology.to_toml())?;
        }
        if let Some(inventory) = &inventory {
            folder.keep(files::INVENTORY, &inventory_flags::json(inventory)?)?;
        }
        told.keep(&folder)?;
        let launch = world.launch.describe(session.fabric().hosts.len());
        let run = record(suite, &plan, &session, &launch, flags);
        let story = Story {
            plan: &plan,
            run: &run,
            folder: &folder,
            until: clock.budget_end(),
            keep_going: flags.keep_going,
            known: &choices.known,
        };
        story.measure(&mut session, progress, switches)?;
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

/// Refuses a run for which nothing is left to do because of the engine that was typed.
fn nothing_left_by_engine(plan: &Plan, choices: &Choices) -> Result<(), CliError> {
    let Some(engine) = choices.engine.filter(|_| plan.cells.is_empty()) else {
        return Ok(());
    };
    let gaps = plan
        .untested
        .iter()
        .map(|gap| format!("{}: {}", gap.what, gap.why));
    let gaps: Vec<String> = gaps.collect();
    Err(CliError::Environment(format!(
        "--engine {engine} leaves nothing to measure: {}",
        gaps.join("; ")
    )))
}

/// How much NCCL is wanted.
enum Wanted {
    /// Where it is not there, what it would have run is left out.
    IfThere,
    /// Without it there is nothing to do, or not what was typed.
    Must,
}

/// Whether NCCL is wanted: by the command line or a test for NCCL alone it must be there, beside ours it may.
fn engines_wanted(suite: &Suite, choices: &Choices) -> Option<Wanted> {
    if suite.run.device() != DeviceKind::Cuda {
        return None;
    }
    let of_test = |test: &TestCase| test.engine.unwrap_or(suite.run.engine());
    let asked: Vec<EngineChoice> = match choices.engine {
        Some(typed) if typed.has(Engine::Nccl) => return Some(Wanted::Must),
        Some(_) => return None,
        None => suite.tests.iter().map(of_test).collect(),
    };
    if asked.contains(&EngineChoice::Nccl) {
        return Some(Wanted::Must);
    }
    asked.contains(&EngineChoice::Both).then_some(Wanted::IfThere)
}

/// Whether RDMA is asked for by name.
fn verbs_wanted(suite: &Suite, choices: &Choices) -> bool {
    let run = suite.run.transport();
    let of_test = |test: &TestCase| choices.transport.or(test.transport).unwrap_or(run);
    let mut asked = suite.tests.iter().map(of_test);
    asked.any(|transport| transport == TransportChoice::Verbs)
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
        reach: session.reach().to_vec(),
        nccl: session.nccl().and_then(|nccl| nccl.as_ref().ok()).cloned(),
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
pub(super) fn listen_for_signals() -> Result<Arc<AtomicBool>, CliError> {
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

/// How much of a suite's name is in the name of a folder: file systems have an end.
const LONGEST_NAME: usize = 100;

/// A new folder under `reports/` named after the time and the suite.
pub fn default_folder(suite: &str) -> PathBuf {
    let name: String = suite
        .chars()
        .take(LONGEST_NAME)
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
pub(super) fn now() -> String {
    let now = jiff::Timestamp::now();
    let whole = now.round(jiff::Unit::Second).unwrap_or(now);
    whole.to_string()
}
