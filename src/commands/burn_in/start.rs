//! Starting a burn-in, or resuming one with the settings it was started with.

use std::path::{Path, PathBuf};

use clap::{Args, FromArgMatches};

use crate::error::CliError;
use crate::flags::RunFlags;
use crate::run_clock::now;
use crate::run_folders::default_folder;
use judge::burn_in::{BurnInFolder, BurnInProgress, Status};
use record::units::Nanos;
use record::{BurnIn, Journal, SCHEMA, burn_in_files};
use topology::suite::{Suite, SuiteFile};

/// The subcommand's name.
const NAME: &str = "burn-in";
/// Time under load without --for.
const DEFAULT_LOAD: Nanos = Nanos::from_secs(24 * 3600);

/// What to burn in, and for how long.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  railgauge burn-in burn-in --for 24h --keep-going --topology fabric.toml --out /var/tmp/rack7\n  \
railgauge burn-in --resume /var/tmp/rack7        (after a kill, a crash or a power cut)\n  \
railgauge burn-in smoke --for 2m                 (a trial on this machine)\n\n\
Ends with a decision on every node and cable: accept, reject or extend, in certificate.html, certificate.json and certificate.md. \
status.json and metrics.prom in its folder are updated every two seconds. Exit codes: 0 all accepted; 20 some parts need more time \
under load; 12, 21, 22 and others: some part is rejected."
)]
pub struct Arguments {
    /// A built-in suite (burn-in, rails, links, smoke, ...) or a suite file
    #[arg(value_name = "SUITE", required_unless_present = "resume")]
    suite: Option<String>,
    /// Time under load; idle time does not count [default: 24h]
    #[arg(long = "for", value_name = "DUR")]
    wanted: Option<Nanos>,
    /// Resume the burn-in in this folder, with the settings it was started with
    #[arg(long, value_name = "RUN", conflicts_with_all = ["suite", "out"])]
    resume: Option<PathBuf>,
    #[command(flatten)]
    pub flags: RunFlags,
}

/// Everything that is decided before ranks connect.
pub struct BurnInStart {
    /// What to measure, as the suite file says it.
    pub suite: Suite,
    /// The flags it was started with; those about launching and printing are from this command line.
    pub flags: RunFlags,
    /// Where it is kept.
    pub folder: BurnInFolder,
    /// What was requested.
    pub request: BurnIn,
}

/// Creates the folder of a new burn-in, or opens that of one to resume.
pub fn start_or_resume(arguments: &Arguments) -> Result<BurnInStart, CliError> {
    match (&arguments.resume, &arguments.suite) {
        (Some(folder), _) => resume(arguments, folder),
        (None, Some(suite)) => start(arguments, suite),
        (None, None) => Err(CliError::Usage(
            "name a suite, or a burn-in to resume: --resume RUN".to_string(),
        )),
    }
}

fn start(arguments: &Arguments, name: &str) -> Result<BurnInStart, CliError> {
    let flags = arguments.flags.clone();
    let suite = Suite::load(name)?;
    if flags.budget.is_some() {
        return Err(CliError::Usage(
            "--budget limits one run; use --for to say how long a burn-in takes".to_string(),
        ));
    }
    let request = BurnIn {
        schema: SCHEMA,
        version: record::VERSION.to_string(),
        suite: suite.name.clone(),
        description: suite.description.clone(),
        started: now(),
        seed: flags.seed.unwrap_or(suite.run.seed()),
        command: std::env::args().collect(),
        wanted_ns: arguments.wanted.unwrap_or(DEFAULT_LOAD),
        criteria: suite.burn_in.clone(),
    };
    let out = flags.out.clone();
    let out = out.unwrap_or_else(|| default_folder(&format!("burn-in-{}", suite.name)));
    let folder = BurnInFolder::create(&out, &request, &Suite::text(name)?)?;
    Ok(BurnInStart {
        suite,
        flags,
        folder,
        request,
    })
}

fn resume(arguments: &Arguments, path: &Path) -> Result<BurnInStart, CliError> {
    let (folder, mut request) = BurnInFolder::open(path)?;
    let refuse = |problem: String| CliError::Usage(format!("cannot resume {}: {problem}", path.display()));
    let file = path.join(burn_in_files::SUITE);
    let text = std::fs::read_to_string(&file)
        .map_err(|error| refuse(format!("{}: {error}", burn_in_files::SUITE)))?;
    let suite = SuiteFile::parse(&text, &file.display().to_string())?.check()?;
    let original = parse_recorded(&request.command).map_err(refuse)?;
    if let Some(wanted) = arguments.wanted {
        request.wanted_ns = wanted;
    }
    let typed = &arguments.flags;
    let flags = RunFlags {
        launch: typed.launch.clone(),
        quiet: typed.quiet,
        json: typed.json,
        keep_going: typed.keep_going || original.flags.keep_going,
        ..original.flags
    };
    Ok(BurnInStart {
        suite,
        flags,
        folder,
        request,
    })
}

/// Parses the command line that a burn-in was started with.
fn parse_recorded(command: &[String]) -> Result<Arguments, String> {
    let (Some(name), Some(words)) = (command.get(1), command.get(2..)) else {
        return Err("its command line is not recorded".to_string());
    };
    if name != NAME {
        return Err(format!("it was not started by `{NAME}`"));
    }
    let parser = Arguments::augment_args(clap::Command::new(NAME)).no_binary_name(true);
    let matches = parser.try_get_matches_from(words);
    let arguments = matches.and_then(|matches| Arguments::from_arg_matches(&matches));
    arguments.map_err(|error| error.to_string())
}

/// How far the burn-in got. The status file knows about time under load since the journal's last line.
pub fn progress_so_far(folder: &BurnInFolder) -> Result<BurnInProgress, CliError> {
    let mut so_far = BurnInProgress::of(&folder.read_journal()?);
    let status = std::fs::read(folder.path().join(burn_in_files::STATUS));
    let status = status
        .ok()
        .and_then(|text| serde_json::from_slice::<Status>(&text).ok());
    if let Some(status) = status {
        so_far.load = so_far.load.max(status.load_ns);
    }
    Ok(so_far)
}

/// Time under load when a cycle started, by the journal.
pub fn load_at_start_of(folder: &BurnInFolder, cycle: Option<u32>) -> Result<Nanos, CliError> {
    let journal = folder.read_journal()?;
    let started = journal.iter().rev().find(
        |line| matches!(&line.what, Journal::CycleBegan { cycle: number, .. } if Some(*number) == cycle),
    );
    Ok(started.map_or(Nanos(0), |line| line.load_ns))
}
