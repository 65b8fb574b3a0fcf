//! The story of a run: ranks meet, the plan is made, cells are measured, suspects are measured again, the record is judged.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGINT, SIGTERM};

use super::gathering::Gathering;
use super::inventory_flags::{Sources, Told};
use super::launching::Role;
use super::run_clock::RunClock;
use super::shared::Shared;
use super::story::Story;
use super::{CliError, say};
use engine::measure::{Progress, RunFolder};
use judge::findings::judge;
use plan::replan::LostParts;
use plan::{Choices, Plan};
use record::{FindingKind, Judgement, Recorded};
use report;
use topology::suite::Suite;

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
    let mut gathering = Gathering::gather(suite, role, flags, choices, told, clock, interrupted, progress)?;
    let result = measure(suite, &mut gathering, flags, &folder, progress, on_plan);
    let parted = gathering.part();
    result?;
    let recorded = Recorded::read(folder.path())?;
    let judgement = judge(&recorded);
    report::write_all(folder.path(), &recorded, &judgement)
        .map_err(CliError::system("cannot write the report"))?;
    if let Some(mpi) = parted.mpi {
        let mut kinds = judgement.findings.iter().map(|finding| finding.kind);
        mpi.leave(!kinds.any(|kind| kind == FindingKind::LostRank));
    }
    Ok(Conducted {
        folder: folder.path().to_path_buf(),
        judgement,
        separate: parted.separate,
    })
}

/// Plans and measures what ranks that have met are to measure.
fn measure(
    suite: &Suite,
    gathering: &mut Gathering,
    flags: &Shared,
    folder: &RunFolder,
    progress: &dyn Progress,
    on_plan: &dyn Fn(&Plan),
) -> Result<(), CliError> {
    let inventory = gathering.inventory(flags, progress)?;
    let (plan, switches) = gathering.plan(suite, flags, progress)?;
    on_plan(&plan);
    folder.check_space(room_for(&plan))?;
    gathering.keep(folder, inventory.as_ref())?;
    let run = gathering.record(suite, &plan, flags);
    let story = Story {
        plan: &plan,
        run: &run,
        folder,
        until: gathering.clock.budget_end(),
        keep_going: flags.keep_going,
        known: &gathering.choices.known,
        absent: LostParts::default(),
        resumed: None,
        earlier: &[],
        resumable: false,
        on_loss: &|_, _| Ok(()),
    };
    story.measure(&mut gathering.session, progress, switches)?;
    Ok(())
}

/// What the run may write at most.
pub(super) fn room_for(plan: &Plan) -> u64 {
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
    new_folder(Path::new("reports"), suite)
}

/// A new folder in `parent` named after the time and the suite.
pub fn new_folder(parent: &Path, suite: &str) -> PathBuf {
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
    let base = parent.join(format!("{stamp}-{name}"));
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
