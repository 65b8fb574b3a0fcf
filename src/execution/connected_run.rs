//! Connected ranks, and what is discovered about their fabric before a plan is made.
//!
//! A run connects once and measures once; a burn-in connects once and measures cycle after cycle.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::{path_discovery, probe_paths, stream_paths};
use crate::error::CliError;
use crate::flags::RunFlags;
use crate::flags::inventory::{InventoryInputs, inventory_json};
use crate::launch::mpi::Mpi;
use crate::launch::ranks::{LaunchKind, RankThreads, start_ranks};
use crate::launch::role::Role;
use crate::notify;
use crate::run_clock::{RunClock, now};
use crate::switch_counters;
use engine::launch::Rendezvous;
use engine::measure::{Cancellation, Progress, RunFolder, Session, Setup, SwitchWatch};
use engine::transport::Fault;
use plan::{Choices, Plan};
use record::{DeviceKind, Engine, Inventory, Run, SCHEMA, TransportKind, files};
use topology::suite::{EngineChoice, Suite, TestCase, TransportChoice};

/// Set by wrappers that start railgauge on many hosts: the words to write before a command to start it the same way.
const STARTED_AS: &str = "RAILGAUGE_STARTED_AS";

/// A run whose ranks are connected.
pub struct ConnectedRun {
    /// The connection to all ranks.
    pub session: Session,
    /// What the flags say about the plan, what the ranks can do, and which paths are known.
    pub choices: Choices,
    /// Where a lost rank may rejoin.
    pub rendezvous: Option<Rendezvous>,
    /// The run's time budget.
    pub clock: RunClock,
    inputs: InventoryInputs,
    launch: LaunchKind,
    threads: RankThreads,
    mpi: Option<Mpi>,
}

/// What remains when the ranks have left.
pub struct DisconnectedRun {
    /// Callers that prove that another world used the same token.
    pub separate_worlds: Vec<String>,
    /// MPI, if it started the processes.
    pub mpi: Option<Mpi>,
}

impl ConnectedRun {
    /// Starts or awaits the ranks of `suite`, whose settings are final, and discovers the paths between them.
    #[expect(clippy::too_many_arguments)]
    pub fn connect(
        suite: &Suite,
        role: Role,
        flags: &RunFlags,
        choices: &Choices,
        inputs: InventoryInputs,
        clock: RunClock,
        interrupted: Arc<AtomicBool>,
        progress: &dyn Progress,
    ) -> Result<ConnectedRun, CliError> {
        let started = start_ranks(role, &suite.run, &interrupted)?;
        let setup = Setup {
            rails: suite.run.rails.clone().unwrap_or_default(),
            device: suite.run.device(),
            largest: suite.largest(),
            nccl: nccl_demand(suite, choices).is_some(),
            verbs: is_verbs_requested(suite, choices),
            gid_index: suite.verbs.gid_index,
            faults: flags.inject.clone(),
            deadline: suite.run.deadline(),
            data_port: suite.run.data_port,
        };
        let stop = Cancellation::from(interrupted).at(clock.last_moment());
        let mut session = Session::set_up(started.coordinator, setup, started.exit_lookup, stop)?;
        match discover(&mut session, suite, choices, progress) {
            Ok(choices) => Ok(ConnectedRun {
                session,
                choices,
                rendezvous: started.rendezvous,
                clock,
                inputs,
                launch: started.launch,
                threads: started.threads,
                mpi: started.mpi,
            }),
            Err(error) => {
                session.quit();
                Err(error)
            }
        }
    }

    /// Discovers the paths between the ranks again, because some ranks rejoined.
    pub fn rediscover_paths(&mut self, suite: &Suite, progress: &dyn Progress) -> Result<(), CliError> {
        self.choices = path_discovery::discover(&mut self.session, suite, &self.choices, progress)?;
        Ok(())
    }

    /// The inventory of all hosts now, unless --no-inventory; a host that does not answer becomes one of its troubles.
    pub fn inventory(
        &mut self,
        flags: &RunFlags,
        progress: &dyn Progress,
    ) -> Result<Option<Inventory>, CliError> {
        if flags.inventory.no_inventory {
            return Ok(None);
        }
        let mut inventory = self.session.inventory(now())?;
        self.inputs.add_switches(&mut inventory, self.clock.left());
        let troubles = inventory.troubles.iter();
        troubles.for_each(|trouble| progress.note(trouble));
        Ok(Some(inventory))
    }

    /// The plan, and the reader of switch counters for it.
    pub fn plan(
        &mut self,
        suite: &Suite,
        flags: &RunFlags,
        progress: &dyn Progress,
    ) -> Result<(Plan, SwitchWatch), CliError> {
        let mut plan = Plan::new(suite, self.session.fabric(), &self.choices)?;
        let known = &mut self.choices.known;
        if let Some(graph) = &known.graph {
            let placements = &mut known.placements;
            path_discovery::trace_pinned_flows(
                &mut self.session,
                &mut plan,
                graph,
                &known.paths,
                placements,
            )?;
            stream_paths::discover(&mut self.session, &mut plan.cells, graph, false, progress)?;
            probe_paths::discover(&mut self.session, &mut plan, graph, placements, progress)?;
        }
        plan.fit(self.session.fabric(), self.clock.spent());
        let graph = self.choices.known.graph.as_deref();
        let last_moment = self.clock.last_moment();
        let switches = switch_counters::watch(&suite.run, &mut plan, graph, last_moment)?;
        refuse_empty_plan(&plan, &self.choices)?;
        refuse_ineffective_faults(&plan, flags)?;
        flags.rdma.check_used(&plan)?;
        Ok((plan, switches))
    }

    /// Writes the topology, the inventory and its sources into the run's folder.
    pub fn write_inputs(&self, folder: &RunFolder, inventory: Option<&Inventory>) -> Result<(), CliError> {
        if let Some(topology) = &self.choices.topology {
            folder.keep(files::TOPOLOGY, &topology.to_toml())?;
        }
        if let Some(inventory) = inventory {
            folder.keep(files::INVENTORY, &inventory_json(inventory)?)?;
        }
        self.inputs.write_to(folder)
    }

    /// The run's record as it is written before the first sample.
    pub fn run_record(&self, suite: &Suite, plan: &Plan, flags: &RunFlags) -> Run {
        let session = &self.session;
        Run {
            schema: SCHEMA,
            version: record::VERSION.to_string(),
            suite: suite.name.clone(),
            description: suite.description.clone(),
            started: now(),
            seed: plan.seed,
            pattern_seed: None,
            command: notify::redacted_command(std::env::args()),
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
            placement: self.choices.known.placements.record(),
            miscabled: path_discovery::miscabled(&self.choices.known.miswiring),
            unused: path_discovery::unused(&self.choices.known),
            injected: flags.inject.iter().map(ToString::to_string).collect(),
        }
    }

    /// Ends the session and waits for the ranks of this process.
    pub fn disconnect(mut self) -> DisconnectedRun {
        if let Some(rendezvous) = &self.rendezvous
            && let Err(error) = self.session.dismiss_waiting(rendezvous)
        {
            tracing::debug!(%error, "ranks that wait to rejoin are not told that the run is over");
        }
        self.session.quit();
        drop((self.session, self.threads));
        let separate_worlds = self.rendezvous.map(|rendezvous| rendezvous.join_conflicts());
        DisconnectedRun {
            separate_worlds: separate_worlds.unwrap_or_default(),
            mpi: self.mpi,
        }
    }
}

/// Adds to `choices` what the ranks can do and the paths between them.
fn discover(
    session: &mut Session,
    suite: &Suite,
    choices: &Choices,
    progress: &dyn Progress,
) -> Result<Choices, CliError> {
    if let (Some(NcclDemand::Required), Some(Err(missing))) = (nccl_demand(suite, choices), session.nccl()) {
        return Err(CliError::Environment(missing.clone()));
    }
    let choices = Choices {
        direct: session.is_direct(),
        nccl: session.nccl().cloned(),
        verbs: Some(session.verbs().clone()),
        gpudirect: session.gpudirect().cloned(),
        ..choices.clone()
    };
    path_discovery::discover(session, suite, &choices, progress)
}

/// Refuses an injected fault without effect: it would look like one that was not found.
fn refuse_ineffective_faults(plan: &Plan, flags: &RunFlags) -> Result<(), CliError> {
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
            "--inject throttle slows connections, and this run uses GPU memory directly; add --transport tcp";
        return Err(CliError::Usage(problem.to_string()));
    }
    Ok(())
}

/// Refuses a plan that --engine leaves empty.
fn refuse_empty_plan(plan: &Plan, choices: &Choices) -> Result<(), CliError> {
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

/// Whether a run needs NCCL.
enum NcclDemand {
    /// Without it, the cells it would have run are left out.
    Optional,
    /// Without it, the run is refused.
    Required,
}

/// NCCL is required by the command line or by a test for NCCL alone, and optional beside our own engine.
fn nccl_demand(suite: &Suite, choices: &Choices) -> Option<NcclDemand> {
    if suite.run.device() != DeviceKind::Cuda {
        return None;
    }
    let of_test = |test: &TestCase| test.engine.unwrap_or(suite.run.engine());
    let requested: Vec<EngineChoice> = match choices.engine {
        Some(typed) if typed.has(Engine::Nccl) => return Some(NcclDemand::Required),
        Some(_) => return None,
        None => suite.tests.iter().map(of_test).collect(),
    };
    if requested.contains(&EngineChoice::Nccl) {
        return Some(NcclDemand::Required);
    }
    requested
        .contains(&EngineChoice::Both)
        .then_some(NcclDemand::Optional)
}

/// Whether the flags or the suite ask for RDMA by name.
fn is_verbs_requested(suite: &Suite, choices: &Choices) -> bool {
    let run = suite.run.transport();
    let of_test = |test: &TestCase| choices.transport.or(test.transport).unwrap_or(run);
    let mut requested = suite.tests.iter().map(of_test);
    requested.any(|transport| transport == TransportChoice::Verbs)
}
