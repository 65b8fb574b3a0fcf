//! A burn-in's beginning, and how one is gone on with: its settings are those it was begun with.

use std::path::Path;

use clap::Parser;

use super::Arguments;
use crate::cli::conduct::{default_folder, now};
use crate::cli::shared::Shared;
use crate::cli::{Cli, CliError, Command};
use judge::burn_in::{BurnInFolder, SoFar, Status};
use record::units::Nanos;
use record::{BurnIn, Journal, SCHEMA, burn_in_files};
use topology::suite::{Suite, SuiteFile};

/// How long, when nobody says.
const DAY: Nanos = Nanos::from_secs(24 * 3600);

/// Everything that is settled before ranks meet.
pub struct Beginning {
    /// What to measure, as its file has it.
    pub suite: Suite,
    /// What was typed: when the burn-in began, but for launching and printing.
    pub flags: Shared,
    /// Where it is kept.
    pub folder: BurnInFolder,
    /// What was asked.
    pub asked: BurnIn,
}

/// Makes the folder of a new burn-in, or takes that of one to go on with.
pub fn begin(arguments: &Arguments) -> Result<Beginning, CliError> {
    match (&arguments.resume, &arguments.suite) {
        (Some(folder), _) => resume(arguments, folder),
        (None, Some(suite)) => anew(arguments, suite),
        (None, None) => Err(CliError::Usage(
            "name a suite, or a burn-in to go on with: --resume RUN".to_string(),
        )),
    }
}

fn anew(arguments: &Arguments, name: &str) -> Result<Beginning, CliError> {
    let flags = arguments.shared.clone();
    let suite = Suite::load(name)?;
    if flags.budget.is_some() {
        return Err(CliError::Usage(
            "--budget is about one run; a burn-in takes as long as --for says".to_string(),
        ));
    }
    let asked = BurnIn {
        schema: SCHEMA,
        version: record::VERSION.to_string(),
        suite: suite.name.clone(),
        description: suite.description.clone(),
        started: now(),
        seed: flags.seed.unwrap_or(suite.run.seed()),
        command: std::env::args().collect(),
        wanted_ns: arguments.wanted.unwrap_or(DAY),
        criteria: suite.burn_in.clone(),
    };
    let out = flags.out.clone();
    let out = out.unwrap_or_else(|| default_folder(&format!("burn-in-{}", suite.name)));
    let folder = BurnInFolder::create(&out, &asked, &Suite::text(name)?)?;
    Ok(Beginning {
        suite,
        flags,
        folder,
        asked,
    })
}

fn resume(arguments: &Arguments, path: &Path) -> Result<Beginning, CliError> {
    let (folder, mut asked) = BurnInFolder::open(path)?;
    let refuse =
        |problem: String| CliError::Usage(format!("cannot go on with {}: {problem}", path.display()));
    let file = path.join(burn_in_files::SUITE);
    let text = std::fs::read_to_string(&file)
        .map_err(|error| refuse(format!("{}: {error}", burn_in_files::SUITE)))?;
    let suite = SuiteFile::parse(&text, &file.display().to_string())?.check()?;
    let began = Cli::try_parse_from(&asked.command).map_err(|error| refuse(error.to_string()))?;
    let Command::BurnIn(began) = began.command else {
        return Err(refuse("it was not begun by `burn-in`".to_string()));
    };
    if let Some(wanted) = arguments.wanted {
        asked.wanted_ns = wanted;
    }
    let typed = &arguments.shared;
    let flags = Shared {
        launching: typed.launching.clone(),
        quiet: typed.quiet,
        json: typed.json,
        keep_going: typed.keep_going || began.shared.keep_going,
        ..began.shared
    };
    Ok(Beginning {
        suite,
        flags,
        folder,
        asked,
    })
}

/// How far the burn-in came. The status file knows of time under load since the journal's last line.
pub fn so_far(folder: &BurnInFolder) -> Result<SoFar, CliError> {
    let mut so_far = SoFar::of(&folder.read_journal()?);
    let status = std::fs::read(folder.path().join(burn_in_files::STATUS));
    let status = status
        .ok()
        .and_then(|text| serde_json::from_slice::<Status>(&text).ok());
    if let Some(status) = status {
        so_far.load = so_far.load.max(status.load_ns);
    }
    Ok(so_far)
}

/// Time under load when a cycle began, by the journal.
pub fn load_at_beginning_of(folder: &BurnInFolder, cycle: Option<u32>) -> Result<Nanos, CliError> {
    let journal = folder.read_journal()?;
    let began = journal.iter().rev().find(
        |line| matches!(&line.what, Journal::CycleBegan { cycle: number, .. } if Some(*number) == cycle),
    );
    Ok(began.map_or(Nanos(0), |line| line.load_ns))
}
