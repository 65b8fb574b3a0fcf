//! The `railgauge` command: `commands` has one file per subcommand with its arguments, and everything else is what they share.
//!
//! | module | what it holds |
//! |---|---|
//! | `flags` | flags that several commands have |
//! | `launch` | which role this process has in a run, and how its ranks are started |
//! | `execution` | one run from connected ranks to a judged record |
//! | `history` | comparison with earlier runs, and notifications through `notify` |
//! | `progress`, `tables`, `terminal` | what people read while a run goes on and afterwards |

#[macro_use]
mod output;
mod browser;
mod commands;
mod error;
mod execution;
mod flags;
mod history;
mod launch;
mod notify;
mod progress;
mod recorded_runs;
mod run_clock;
mod run_folders;
mod signals;
mod simulation;
mod switch_counters;
mod tables;
mod terminal;

use std::process::ExitCode;

use clap::Parser;

use crate::commands::Command;

/// Measures what a GPU fabric delivers, compares it with what it should deliver, and names the part at fault.
#[derive(Debug, Parser)]
#[command(
    name = "railgauge",
    version,
    max_term_width = 110,
    arg_required_else_help = true
)]
#[command(
    after_help = "Exit codes: 0 pass; 1 internal failure; 2 usage or bad file; 3 environment is not what the suite asks \
for; 10 drift; 11 ECMP imbalance; 12 slow; 20 inconclusive or incomplete; 21 hang or lost rank; 22 corrupt data. Of \
several the worst wins: 22, 21, 12, 11, 10, then 20.\n\nExample: railgauge run smoke"
)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

fn main() -> ExitCode {
    start_logging();
    match CommandLine::parse().command.run() {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            terminal::warn(&error);
            ExitCode::from(error.exit_code())
        }
    }
}

/// Log lines go to standard error; `RAILGAUGE_LOG=debug` shows more of them.
fn start_logging() {
    use tracing_subscriber::filter::{LevelFilter, Targets};
    use tracing_subscriber::prelude::*;
    let asked = std::env::var("RAILGAUGE_LOG").ok();
    let filter: Option<Targets> = asked.and_then(|text| text.parse().ok());
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(terminal::use_color(&std::io::stderr()));
    tracing_subscriber::registry()
        .with(lines.with_filter(filter.unwrap_or_else(|| Targets::new().with_default(LevelFilter::WARN))))
        .init();
}
