//! `railgauge compare OLD NEW`: what got slower, faster, newly failing, no longer tested.

use std::path::{Path, PathBuf};

use clap::Args;

use crate::error::CliError;
use crate::flags::share::parse_share;
use crate::terminal;
use crate::terminal::page_for_stdout;
use judge::compare::{Side, compare};
use judge::findings::judge;
use record::{Judgement, Recorded};
use report::{self, escape};

/// Which runs.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  railgauge compare reports/last-week reports/tonight\n  \
railgauge compare reports/before-upgrade reports/after-upgrade --margin 5% --md > ticket.md\n\n\
A cell is slower or faster only if the intervals of its medians are further apart than the margin in every round, and a rank-sum \
test, corrected for all comparisons, confirms it. Without --margin each test has its own: that of its baseline, else the narrowest of \
its other references, else 10%.\n\nExit codes: 0 equal or better; 12 something is slower or newly fails; 20 something is no longer tested, or nothing could be \
compared"
)]
pub struct Arguments {
    /// Folder of the older run
    #[arg(value_name = "OLD")]
    old: PathBuf,
    /// Folder of the newer run
    #[arg(value_name = "NEW")]
    new: PathBuf,
    /// Largest change of speed that counts as equal, as 5% or 0.05 [default: each test's own]
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    margin: Option<f64>,
    /// Print one sentence only
    #[arg(long, short)]
    quiet: bool,
    /// Print the whole comparison as JSON, as docs/compare.schema.json describes it
    #[arg(long, conflicts_with_all = ["md", "quiet"])]
    json: bool,
    /// Print the comparison as Markdown, for a ticket
    #[arg(long, conflicts_with = "quiet")]
    md: bool,
}

/// Reads both runs, judges them again, compares and prints.
pub fn run(arguments: &Arguments) -> Result<u8, CliError> {
    let (old, before) = read(&arguments.old)?;
    let (new, after) = read(&arguments.new)?;
    let (old_name, new_name) = (name(&arguments.old), name(&arguments.new));
    let side = |name, recorded, judgement| Side {
        name,
        recorded,
        judgement,
    };
    let comparison = compare(
        side(&old_name, &old, &before),
        side(&new_name, &new, &after),
        arguments.margin,
    );
    if before.started > after.started {
        terminal::warn(format_args!(
            "{old_name} was started after {new_name}; name the older run first"
        ));
    }
    let cannot = || CliError::system("cannot print the comparison");
    if arguments.json {
        print!("{}", report::compare::json(&comparison).map_err(cannot())?);
    } else if arguments.md {
        print!("{}", report::compare::markdown(&comparison).map_err(cannot())?);
    } else if arguments.quiet {
        println!("{}", escape::line(&comparison.summary));
    } else {
        print!("{}", report::compare::terminal(&comparison, page_for_stdout()));
    }
    Ok(comparison.exit_code)
}

fn read(folder: &Path) -> Result<(Recorded, Judgement), CliError> {
    let recorded = Recorded::read(folder)?;
    let judgement = judge(&recorded);
    Ok((recorded, judgement))
}

/// The name of a run: the last component of its folder, if there is one.
fn name(folder: &Path) -> String {
    let last = folder.file_name().map(|name| name.to_string_lossy().into_owned());
    last.unwrap_or_else(|| folder.display().to_string())
}
