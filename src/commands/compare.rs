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
A cell is slower or faster only when the intervals of its medians are further apart than the margin in every round, and a rank-sum \
test over all comparisons says so. Without --margin each test has its own: that of its baseline, else the narrowest of its other \
references, else 10%.\n\nExit codes: 0 the same or better; 12 something is slower, or fails that did not; 20 something is no longer \
tested, or nothing could be compared"
)]
pub struct Arguments {
    /// Folder of the older run
    #[arg(value_name = "OLD")]
    old: PathBuf,
    /// Folder of the newer run
    #[arg(value_name = "NEW")]
    new: PathBuf,
    /// How far a speed may move and still be the same, as 5% or 0.05 [default: each test's own]
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

/// Reads both runs, judges them anew, compares and shows.
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
            "{old_name} was started after {new_name}; the older run comes first"
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

/// What a run is called: the last part of its folder's name, as long as that says anything.
fn name(folder: &Path) -> String {
    let last = folder.file_name().map(|name| name.to_string_lossy().into_owned());
    last.unwrap_or_else(|| folder.display().to_string())
}
