//! Ranks that have met, and everything that is found out about their fabric before a plan is made.
//!
//! A run gathers once and measures once; a burn-in gathers once and measures cycle after cycle.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::conduct::now;
use super::inventory_flags::{self, Told};
use super::launching::{Mpi, Role};
use super::run_clock::RunClock;
use super::shared::Shared;
use super::world::{self, Crew, Launched};
use super::{CliError, nights, paths, stream_paths, switch_counters};
use engine::launch::Rendezvous;
use engine::measure::{Cancellation, Progress, RunFolder, Session, Setup, SwitchWatch};
use engine::transport::Fault;
use plan::{Choices, Plan};
use record::{DeviceKind, Engine, Inventory, Run, SCHEMA, TransportKind, files};
use topology::suite::{EngineChoice, Suite, TestCase, TransportChoice};

/// Set by whoever starts railgauge on many hosts: what to write before a command so that it is started the same way.
const STARTED_AS: &str = "RAILGAUGE_STARTED_AS";

/// Ranks that have met.
pub struct Gathering {
    /// The link to all of them.
    pub session: Session,
    /// What was typed about the plan, what the ranks can do, and which ways are known.
    pub choices: Choices,
    /// Where a rank that was lost may come back.
    pub door: Option<Rendezvous>,
    /// How much of the run's budget is gone.
    pub clock: RunClock,
    told: Told,
    launch: Launched,
    crew: Crew,
    mpi: Option<Mpi>,
}

/// What is left of a gathering when its ranks have gone.
pub struct Parted {
    /// Callers that show that this was not the only world.
    pub separate: Vec<String>,
    /// MPI, if it brought the processes together.
    pub mpi: Option<Mpi>,
}

impl Gathering {
    // Everything that a run is made of comes together here.
    #[expect(clippy::too_many_arguments)]
    /// Starts or awaits the ranks of `suite`, whose settings are final, and finds out which ways there are.
    pub fn gather(
        suite: &Suite,
        role: Role,
        flags: &Shared,
        choices: &Choices,
        told: Told,
        clock: RunClock,
        interrupted: Arc<AtomicBool>,
        progress: &dyn Progress,
    ) -> Result<Gathering, CliError> {
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
        let stop = Cancellation::from(interrupted).at(clock.last_moment());
        let mut session = Session::set_up(world.coordinator, setup, world.end_of, stop)?;
        match found_out(&mut session, suite, choices, progress) {
            Ok(choices) => Ok(Gathering {
                session,
                choices,
                door: world.door,
                clock,
                told,
                launch: world.launch,
                crew: world.crew,
                mpi: world.mpi,
            }),
            Err(error) => {
                session.quit();
                Err(error)
            }
        }
    }

    /// Asks anew which ways there are between the ranks, as some of them are at other places now.
    pub fn ask_for_ways(&mut self, suite: &Suite, progress: &dyn Progress) -> Result<(), CliError> {
        self.choices.known = paths::known(&mut self.session, suite, &self.choices, progress)?;
        Ok(())
    }

    /// What the hosts are made of now, unless that is not wanted; a host that does not answer is among its troubles.
    pub fn inventory(
        &mut self,
        flags: &Shared,
        progress: &dyn Progress,
    ) -> Result<Option<Inventory>, CliError> {
        if flags.inventory.no_inventory {
            return Ok(None);
        }
        let mut inventory = self.session.inventory(now())?;
        self.told.add_switches(&mut inventory, self.clock.left());
        let troubles = inventory.troubles.iter();
        troubles.for_each(|trouble| progress.note(trouble));
        Ok(Some(inventory))
    }

    /// What is to be measured, and who reads the counters of switches meanwhile.
    pub fn plan(
        &mut self,
        suite: &Suite,
        flags: &Shared,
        progress: &dyn Progress,
    ) -> Result<(Plan, SwitchWatch), CliError> {
        let mut plan = Plan::new(suite, self.session.fabric(), &self.choices)?;
        if let Some(graph) = &self.choices.known.graph {
            paths::of_pinned_flows(&mut self.session, &mut plan, graph)?;
            stream_paths::ask(&mut self.session, &mut plan, graph, progress)?;
        }
        plan.fit(self.session.fabric(), self.clock.spent());
        let graph = self.choices.known.graph.as_deref();
        let last_moment = self.clock.last_moment();
        let switches = switch_counters::watch(&suite.run, &mut plan, graph, last_moment)?;
        nothing_left_by_engine(&plan, &self.choices)?;
        faults_can_strike(&plan, flags)?;
        flags.rdma.must_matter(&plan)?;
        Ok((plan, switches))
    }

    /// Writes down what the run was told and what its hosts are made of.
    pub fn keep(&self, folder: &RunFolder, inventory: Option<&Inventory>) -> Result<(), CliError> {
        if let Some(topology) = &self.choices.topology {
            folder.keep(files::TOPOLOGY, &topology.to_toml())?;
        }
        if let Some(inventory) = inventory {
            folder.keep(files::INVENTORY, &inventory_flags::json(inventory)?)?;
        }
        self.told.keep(folder)
    }

    /// What is recorded before the first sample.
    pub fn record(&self, suite: &Suite, plan: &Plan, flags: &Shared) -> Run {
        let session = &self.session;
        Run {
            schema: SCHEMA,
            version: record::VERSION.to_string(),
            suite: suite.name.clone(),
            description: suite.description.clone(),
            started: now(),
            seed: plan.seed,
            pattern_seed: None,
            command: nights::command_to_record(std::env::args()),
            started_as: std::env::var(STARTED_AS)
                .ok()
                .filter(|words| !words.trim().is_empty()),
            launch: self.launch.describe(session.fabric().hosts.len()),
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

    /// Lets the ranks go and waits for those of this process.
    pub fn part(mut self) -> Parted {
        if let Some(door) = &self.door
            && let Err(error) = self.session.dismiss_waiting(door)
        {
            tracing::debug!(%error, "those who wait at the door are not told");
        }
        self.session.quit();
        drop((self.session, self.crew));
        let separate = self.door.map(|door| door.join_conflicts());
        Parted {
            separate: separate.unwrap_or_default(),
            mpi: self.mpi,
        }
    }
}

/// What the ranks that met can do, and the ways between them.
fn found_out(
    session: &mut Session,
    suite: &Suite,
    choices: &Choices,
    progress: &dyn Progress,
) -> Result<Choices, CliError> {
    if let (Some(Wanted::Must), Some(Err(missing))) = (engines_wanted(suite, choices), session.nccl()) {
        return Err(CliError::Environment(missing.clone()));
    }
    let choices = Choices {
        direct: session.is_direct(),
        nccl: session.nccl().cloned(),
        verbs: Some(session.verbs().clone()),
        gpudirect: session.gpudirect().cloned(),
        ..choices.clone()
    };
    let known = paths::known(session, suite, &choices, progress)?;
    Ok(Choices { known, ..choices })
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
