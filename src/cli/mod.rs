//! The command line: one file per subcommand, arguments and a call.
//!
//! `conduct` is what all measuring commands share, `story` how a plan is measured; `world` starts the ranks; `shared` holds the flags that are the
//! same everywhere; `progress` is what a person sees meanwhile, `worst_rail` a part of it.

mod all_reduce;
mod browser;
mod burn_in;
mod compare;
mod conduct;
mod crossing;
mod diagnose;
mod ecmp_plan;
mod following;
mod gathering;
mod inventory;
mod inventory_flags;
mod lab;
mod launching;
mod link;
mod link_table;
mod narration;
mod narrowing;
mod nccl_table;
mod nights;
mod paths;
mod plan;
mod power;
mod progress;
mod rdma_flags;
mod report;
mod run;
mod run_clock;
mod say;
mod shared;
mod simulate;
mod simulation;
mod story;
mod stream_paths;
mod switch_counters;
mod token;
mod trend;
mod worker;
mod world;
mod worst_rail;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use ::lab::LabError;
use ::plan::PlanError;
use engine::launch::env::RankAssignmentError;
use engine::launch::token_source::TokenError;
use engine::launch::{JoinError, RendezvousError};
use engine::measure::{MeasureError, SinkError};
use judge::burn_in::FolderError;
use record::LoadError;
use topology::suite::SuiteError;

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
for; 10 drift; 11 ECMP imbalance; 12 slow; 20 inconclusive or incomplete; 21 hang or lost rank; 22 corrupt data. The \
highest that applies wins.\n\nExample: railgauge run smoke"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Plan, measure, judge and report a suite: the main job
    Run(run::Arguments),
    /// Find the cable: start wide, narrow down by itself, name the suspect
    Diagnose(diagnose::Arguments),
    /// Load a fabric for hours and decide on every node and cable: accept, reject or extend; resumable
    BurnIn(burn_in::Arguments),
    /// Measure one all-reduce over a range of sizes, with nccl-tests' flags and columns
    AllReduce(all_reduce::Arguments),
    /// Measure one link by itself over RDMA, with perftest's questions, flags and columns
    Link(link::Arguments),
    /// Print what a suite would measure, how long it would take, and what stays untested
    Plan(plan::Arguments),
    /// Say how many flows it takes to use all of several equal paths, and what a number of flows delivers
    EcmpPlan(ecmp_plan::Arguments),
    /// Say what every node is made of, and whose firmware, drivers or settings differ
    Inventory(inventory::Arguments),
    /// Judge and render recorded runs again, complete or cut off: one as files, several as a fleet
    Report(report::Arguments),
    /// Say what got slower, faster, newly failing or no longer tested from one recorded run to another
    Compare(compare::Arguments),
    /// Say what became of every part over all runs of a folder: what changed, when, by how much
    Trend(trend::Arguments),
    /// Make a secret token for a run on several hosts
    Token(token::Arguments),
    /// Measure on a simulated fabric with known faults: what a suite finds, and how often
    Simulate(simulate::Arguments),
    /// A fabric in a box: hosts, routers, cables and faults in network namespaces
    Lab(lab::Arguments),
    /// Take part in a run as one rank (started by railgauge itself)
    #[command(hide = true)]
    Worker(worker::Arguments),
}

/// Why a command ended without a verdict.
#[derive(Debug, thiserror::Error)]
enum CliError {
    #[error("{0}")]
    Usage(String),
    #[error("{0}")]
    Environment(String),
    #[error(transparent)]
    Suite(#[from] SuiteError),
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error(transparent)]
    Place(#[from] RankAssignmentError),
    #[error(transparent)]
    Secret(#[from] TokenError),
    #[error(transparent)]
    Folder(FolderError),
    #[error(transparent)]
    Meet(#[from] RendezvousError),
    #[error(transparent)]
    Join(#[from] JoinError),
    #[error(transparent)]
    Measure(#[from] MeasureError),
    #[error(transparent)]
    Sink(#[from] SinkError),
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    Lab(#[from] LabError),
    #[error("{what}: {source}")]
    System { what: String, source: std::io::Error },
}

impl CliError {
    fn system(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> CliError {
        let what = what.into();
        |source| CliError::System { what, source }
    }

    fn exit_code(&self) -> u8 {
        match self {
            CliError::Usage(_) | CliError::Suite(_) | CliError::Load(_) => 2,
            CliError::Environment(_) => 3,
            CliError::Plan(error) => error.exit_code(),
            CliError::Lab(error) => error.exit_code(),
            CliError::Place(RankAssignmentError::Disagree { .. }) => 3,
            CliError::Place(_) | CliError::Secret(_) => 2,
            CliError::Measure(MeasureError::CannotMeet { .. } | MeasureError::RailsDiffer(_)) => 3,
            CliError::Measure(MeasureError::InterruptedEarly | MeasureError::BudgetEarly)
            | CliError::Meet(RendezvousError::Interrupted) => 20,
            CliError::Meet(RendezvousError::Missing { .. })
            | CliError::Measure(MeasureError::LostEarly { .. }) => 21,
            CliError::Join(JoinError::Variable { .. }) => 2,
            CliError::Join(JoinError::Unreachable { .. }) => 21,
            CliError::Join(_) | CliError::Meet(_) => 3,
            CliError::Measure(_) | CliError::Sink(_) | CliError::Folder(_) | CliError::System { .. } => 1,
        }
    }
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    start_logging();
    let result = match Cli::parse().command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Diagnose(arguments) => diagnose::run(&arguments),
        Command::BurnIn(arguments) => burn_in::run(&arguments),
        Command::AllReduce(arguments) => all_reduce::run(&arguments),
        Command::Link(arguments) => link::run(&arguments),
        Command::Plan(arguments) => plan::run(&arguments),
        Command::EcmpPlan(arguments) => ecmp_plan::run(&arguments),
        Command::Inventory(arguments) => inventory::run(&arguments),
        Command::Report(arguments) => report::run(&arguments),
        Command::Compare(arguments) => compare::run(&arguments),
        Command::Trend(arguments) => trend::run(&arguments),
        Command::Token(arguments) => token::run(&arguments),
        Command::Simulate(arguments) => simulate::run(&arguments),
        Command::Lab(arguments) => lab::run(&arguments),
        Command::Worker(arguments) => worker::run(&arguments),
    };
    match result {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            say::complain(&error);
            ExitCode::from(error.exit_code())
        }
    }
}

/// Log lines go to standard error; `RAILGAUGE_LOG=debug` shows more of them.
fn start_logging() {
    let filter = tracing_subscriber::EnvFilter::try_from_env("RAILGAUGE_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn"));
    let colored = shared::use_color(&std::io::stderr());
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(colored)
        .init();
}
