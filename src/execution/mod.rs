//! One run: ranks connect, the plan is made, cells are measured, suspects are measured again, the record is judged.

mod adaptive;
pub mod connected_run;
mod connection_paths;
mod cross_rail;
pub mod executor;
mod fresh_streams;
pub mod path_discovery;
mod probe_paths;
mod steady_paths;
mod stream_paths;

use std::path::{Path, PathBuf};

use self::connected_run::ConnectedRun;
use self::executor::RunExecutor;
use crate::error::CliError;
use crate::flags::RunFlags;
use crate::flags::inventory::{InventoryInputs, InventorySources};
use crate::launch::ranks::warn_of_separate_worlds;
use crate::launch::role::Role;
use crate::run_clock::RunClock;
use crate::signals::interrupt_flag;
use engine::measure::{Progress, RunFolder};
use judge::findings::judge;
use plan::replan::LostParts;
use plan::{Choices, Plan};
use record::{FindingKind, Judgement, Recorded, exit_code};
use topology::discover::{Discovered, discover};
use topology::suite::Suite;

/// Bytes of one sample's line, rounded up.
const SAMPLE_LINE: u64 = 120;
/// At most so much free disk space is required: a run that stops early by its statistics writes far less than it might.
const MAX_REQUIRED_SPACE: u64 = 1 << 30;

/// A run that was measured and judged.
pub struct ExecutedRun {
    /// Its folder.
    pub folder: PathBuf,
    /// The verdict and the findings.
    pub judgement: Judgement,
    /// Callers that prove that another world used the same token.
    separate_worlds: Vec<String>,
}

impl ExecutedRun {
    /// The verdict's code; a run whose token another world used is never a success.
    pub fn exit_code(&self) -> u8 {
        exit_code::worst([self.judgement.exit_code, self.separate_worlds_code()])
    }

    /// Warns about other worlds; 3 when there were any, else 0.
    pub fn separate_worlds_code(&self) -> u8 {
        warn_of_separate_worlds(&self.separate_worlds)
    }
}

/// Measures and judges `suite`, whose settings are final.
pub fn execute_run(
    suite: &Suite,
    role: Role,
    flags: &RunFlags,
    choices: &Choices,
    out: &Path,
    progress: &dyn Progress,
    on_plan: &dyn Fn(&Plan),
) -> Result<ExecutedRun, CliError> {
    let clock = RunClock::start(&suite.run);
    let inputs = InventoryInputs::read(&InventorySources::of(&suite.run, flags.topology.as_deref()))?;
    let folder = RunFolder::create(out)?;
    let interrupted = interrupt_flag()?;
    let mut connected =
        ConnectedRun::connect(suite, role, flags, choices, inputs, clock, interrupted, progress)?;
    let result = measure(suite, &mut connected, flags, &folder, progress, on_plan);
    let disconnected = connected.disconnect();
    result?;
    let recorded = Recorded::read(folder.path())?;
    let judgement = judge(&recorded);
    report::write_all(folder.path(), &recorded, &judgement)
        .map_err(CliError::system("cannot write the report"))?;
    if let Some(mpi) = disconnected.mpi {
        let mut kinds = judgement.findings.iter().map(|finding| finding.kind);
        mpi.leave(!kinds.any(|kind| kind == FindingKind::LostRank));
    }
    Ok(ExecutedRun {
        folder: folder.path().to_path_buf(),
        judgement,
        separate_worlds: disconnected.separate_worlds,
    })
}

/// Connects the ranks of `suite` and writes down the topology that their traces show, without measuring anything.
pub fn discover_topology(
    suite: &Suite,
    role: Role,
    flags: &RunFlags,
    choices: &Choices,
    progress: &dyn Progress,
) -> Result<Discovered, CliError> {
    let clock = RunClock::start(&suite.run);
    let inputs = InventoryInputs::read(&InventorySources::of(&suite.run, None))?;
    let interrupted = interrupt_flag()?;
    let mut connected =
        ConnectedRun::connect(suite, role, flags, choices, inputs, clock, interrupted, progress)?;
    let seen = path_discovery::trace_everything(&mut connected.session, progress);
    let ranks = connected.session.fabric().ranks.clone();
    let disconnected = connected.disconnect();
    if let Some(mpi) = disconnected.mpi {
        mpi.leave(true);
    }
    warn_of_separate_worlds(&disconnected.separate_worlds);
    discover(&ranks, &seen?).map_err(CliError::Environment)
}

/// Plans and measures with ranks that are connected.
fn measure(
    suite: &Suite,
    connected: &mut ConnectedRun,
    flags: &RunFlags,
    folder: &RunFolder,
    progress: &dyn Progress,
    on_plan: &dyn Fn(&Plan),
) -> Result<(), CliError> {
    let inventory = connected.inventory(flags, progress)?;
    let (plan, switches) = connected.plan(suite, flags, progress)?;
    on_plan(&plan);
    folder.check_space(space_for_samples(&plan))?;
    connected.write_inputs(folder, inventory.as_ref())?;
    let run = connected.run_record(suite, &plan, flags);
    let executor = RunExecutor {
        plan: &plan,
        run: &run,
        folder,
        until: connected.clock.budget_end(),
        keep_going: flags.keep_going,
        known: &connected.choices.known,
        absent: LostParts::default(),
        resumed: None,
        earlier: &[],
        resumable: false,
        on_loss: &|_, _| Ok(()),
    };
    executor.measure(&mut connected.session, progress, switches)?;
    Ok(())
}

/// Disk space that the run's samples may take.
pub fn space_for_samples(plan: &Plan) -> u64 {
    let rounds = 1 + u64::from(plan.rule.most_rounds_again());
    let samples = plan.cells.iter().map(|cell| {
        let test = plan.tests.iter().find(|test| test.name == cell.test);
        test.map_or(0, |test| u64::from(test.max_iterations) * cell.world() as u64)
    });
    let bytes = samples.sum::<u64>().saturating_mul(rounds * SAMPLE_LINE);
    (bytes + (16 << 20)).min(MAX_REQUIRED_SPACE)
}
