//! The subcommands: one file each, with its arguments and a call.

mod all_reduce;
mod burn_in;
mod compare;
mod diagnose;
mod ecmp_plan;
mod inventory;
mod lab;
mod link;
mod plan;
mod report;
mod run;
mod simulate;
mod token;
mod topology;
mod trend;
mod worker;

use clap::Subcommand;

use crate::error::CliError;

/// A subcommand with its arguments.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Plan, measure, judge and report a suite: the main job
    Run(run::Arguments),
    /// Find the slow cable: start wide, narrow down automatically, name the suspect
    Diagnose(diagnose::Arguments),
    /// Load a fabric for hours and decide on every node and cable: accept, reject or extend; resumable
    BurnIn(burn_in::Arguments),
    /// Measure one all-reduce over a range of sizes, with nccl-tests' flags and columns
    AllReduce(all_reduce::Arguments),
    /// Measure one link over RDMA, with perftest's tests, flags and columns
    Link(link::Arguments),
    /// Print what a suite would measure, how long it would take, and what stays untested
    Plan(plan::Arguments),
    /// Print how many flows use all of several equal paths, and what a number of flows delivers
    EcmpPlan(ecmp_plan::Arguments),
    /// Print the inventory of every node, and which firmware, drivers or settings differ
    Inventory(inventory::Arguments),
    /// Judge and render recorded runs again, complete or interrupted: one as files, several as a fleet
    Report(report::Arguments),
    /// Compare two recorded runs: what got slower, faster, newly fails or is no longer tested
    Compare(compare::Arguments),
    /// Show every part over all runs of a folder: what changed, when, by how much
    Trend(trend::Arguments),
    /// Check and import topologies: files, and the folders that InfiniBand subnet managers write
    Topology(topology::Arguments),
    /// Generate a secret token for a run on several hosts
    Token(token::Arguments),
    /// Measure on a simulated fabric with known faults: what a suite finds, and how often
    Simulate(simulate::Arguments),
    /// A fabric in a box: hosts, routers, cables and faults in network namespaces
    Lab(lab::Arguments),
    /// Serve one rank of a run (started by railgauge itself)
    #[command(hide = true)]
    Worker(worker::Arguments),
}

impl Command {
    /// Runs the subcommand and returns its exit code.
    pub fn run(self) -> Result<u8, CliError> {
        match self {
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
            Command::Topology(arguments) => topology::run(&arguments),
            Command::Token(arguments) => token::run(&arguments),
            Command::Simulate(arguments) => simulate::run(&arguments),
            Command::Lab(arguments) => lab::run(&arguments),
            Command::Worker(arguments) => worker::run(&arguments),
        }
    }
}
