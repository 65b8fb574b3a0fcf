//! `railgauge report RUN`: judge and render a recorded run again.

use std::path::{Path, PathBuf};

use clap::Args;

use super::shared::{is_watched, use_color};
use super::{CliError, say};
use crate::findings::judge;
use crate::record::{Judgement, Recorded};
use crate::report::terminal::{self, Page};
use crate::report::{escape, write_all};

/// Which run.
#[derive(Debug, Args)]
#[command(after_help = "Example: railgauge report reports/2026-11-14T23-50-12Z-smoke")]
pub struct Arguments {
    /// Folder of a recorded run, complete or cut off
    #[arg(value_name = "RUN")]
    run: PathBuf,
    /// Print the verdict only
    #[arg(long, short)]
    quiet: bool,
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
    /// Do not rewrite the files in the folder
    #[arg(long)]
    dry_run: bool,
}

/// Reads, judges, writes and shows.
pub fn run(arguments: &Arguments) -> Result<u8, CliError> {
    let recorded = Recorded::read(&arguments.run)?;
    let judgement = judge(&recorded);
    if !arguments.dry_run {
        let written = write_all(&arguments.run, &recorded, &judgement);
        written.map_err(CliError::system(format!(
            "cannot write to {}",
            arguments.run.display()
        )))?;
    }
    show(&judgement, &arguments.run, arguments.json, arguments.quiet);
    Ok(judgement.exit_code)
}

/// Prints a judged run the way it was asked for.
pub fn show(judgement: &Judgement, folder: &Path, json: bool, quiet: bool) {
    if json {
        match serde_json::to_string_pretty(judgement) {
            Ok(text) => println!("{}", escape::json(&text)),
            Err(error) => say::complain(&error),
        }
    } else if quiet {
        println!("{}", escape::line(&judgement.summary));
    } else {
        let stdout = std::io::stdout();
        let page = if is_watched(&stdout) {
            Page::terminal(use_color(&stdout))
        } else {
            Page::log()
        };
        print!("{}", terminal::summary(judgement, folder, page));
    }
}
