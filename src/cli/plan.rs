//! `railgauge plan SUITE`: what would be measured, how long, and what stays untested.

use clap::Args;
use comfy_table::{ContentArrangement, Table, presets};

use super::CliError;
use super::shared::Shared;
use crate::device::cuda;
use crate::fabric::{Fabric, rails};
use crate::plan::{Plan, TestOutline};
use crate::record::DeviceKind;
use crate::suite::{GpuDirectChoice, Suite};
use crate::transport::verbs;

/// What to plan.
#[derive(Debug, Args)]
#[command(after_help = "Example: railgauge plan rails --ranks 8")]
pub struct Arguments {
    /// A built-in suite (smoke, all-reduce, rails, gpu) or a suite file
    #[arg(value_name = "SUITE")]
    suite: String,
    /// List every cell
    #[arg(long)]
    cells: bool,
    #[command(flatten)]
    shared: Shared,
}

/// Prints the plan for ranks of this machine.
pub fn run(arguments: &Arguments) -> Result<u8, CliError> {
    let flags = &arguments.shared;
    let mut suite = Suite::load(&arguments.suite)?;
    flags.settle(&mut suite)?;
    let ends = match &suite.run.rails {
        Some(specs) => rails::resolve_here(specs, None),
        None => rails::loopback(),
    };
    let ends = ends.map_err(|error| CliError::Environment(error.to_string()))?;
    let fabric = Fabric::local(suite.run.ranks(), suite.run.device(), ends);
    let mut choices = flags.choices(&suite)?;
    choices.direct = suite.run.device() == DeviceKind::Cuda && reach_each_other(suite.run.ranks())?;
    choices.verbs = Some(verbs::probe().map_err(|missing| missing.to_string()));
    // Whether NICs reach the GPUs' memory is known when ranks meet; a plan that insists on it is made as if they did.
    choices.gpudirect = (suite.verbs.gpudirect() == GpuDirectChoice::On).then_some(Ok(()));
    let plan = Plan::new(&suite, &fabric, &choices)?;
    flags.rdma.must_matter(&plan)?;
    let outline = plan.describe();
    if flags.json {
        let text = serde_json::to_string_pretty(&outline).map_err(std::io::Error::from);
        println!("{}", text.map_err(CliError::system("cannot print the plan"))?);
        return Ok(0);
    }
    let mut table = Table::new();
    table
        .load_style(presets::UTF8_HORIZONTAL_ONLY)
        .set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(TestOutline::HEADINGS);
    for test in &outline.tests {
        table.add_row(test.row());
    }
    println!(
        "{} ({} ranks, seed {})\n{table}",
        suite.name,
        fabric.rank_count(),
        plan.seed
    );
    println!(
        "{} cells in {} slots, about {}",
        outline.cells,
        plan.slots().count(),
        outline.time.expected
    );
    println!("at most {}; {}", outline.time.at_most, outline.assumptions);
    if let Some(warning) = &outline.warning {
        println!("warning: {warning}");
    }
    for test in &outline.tests {
        for missing in &test.missing_references {
            println!("no verdict on speed for `{}`: {missing}", test.name);
        }
    }
    match outline.untested.as_slice() {
        [] => println!("untested: nothing that the suite asks for"),
        untested => untested
            .iter()
            .for_each(|gap| println!("untested: {}: {}", gap.what, gap.why)),
    }
    if arguments.cells {
        for cell in &plan.cells {
            println!(
                "cell {:>4}, slot {:>4}: {} [{}]",
                cell.id,
                cell.slot,
                cell.describe(),
                cell.test
            );
        }
    }
    Ok(0)
}

/// Whether the GPUs of this machine that so many ranks would use read each other's memory.
fn reach_each_other(ranks: u32) -> Result<bool, CliError> {
    let missing = |error: cuda::CudaError| CliError::Environment(error.to_string());
    let gpus = cuda::probe().map_err(|error| missing(error.into()))?;
    let used = &gpus[..gpus.len().min(ranks as usize)];
    for gpu in used {
        let neighbours = cuda::neighbours(gpu.ordinal).map_err(missing)?;
        let sees = |other: &cuda::GpuInfo| other.uuid == gpu.uuid || neighbours.contains(&other.uuid);
        if !used.iter().all(sees) {
            return Ok(false);
        }
    }
    Ok(true)
}
