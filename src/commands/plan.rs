//! `railgauge plan SUITE`: what would be measured, how long, and what stays untested.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use serde::Serialize;

use crate::error::CliError;
use crate::flags::RunFlags;
use crate::terminal;
use engine::device::cuda;
use engine::transport::verbs;
use judge::findings::power::{HealthyNoise, WANTED};
use plan::flow::PathTable;
use plan::power::{self, PartPower};
use plan::{Choices, FabricKnowledge, Outline, Plan, ScheduleOutline, TestOutline, schedules};
use probe::{host, rails};
use record::units::Nanos;
use record::{DeviceKind, Recorded, TestKind, text};
use topology::Fabric;
use topology::graph::Graph;
use topology::suite::{GpuDirectChoice, Schedule, Suite};

/// What to plan.
#[derive(Debug, Args)]
#[command(
    after_help = "Example: railgauge plan rails --ranks 8\nWith --topology FILE: one rank on each host of that file"
)]
pub struct Arguments {
    /// A built-in suite (smoke, all-reduce, rails, links, ecmp, probe, fairness, worst-traffic, congestion, gpu, nightly, burn-in) or a suite file
    #[arg(value_name = "SUITE")]
    suite: String,
    /// List every cell
    #[arg(long)]
    cells: bool,
    /// Override the suite's schedule of pairs: tournament, random=ROUNDS, topology, cover or adaptive
    #[arg(long, value_name = "SCHEDULE")]
    schedule: Option<Schedule>,
    /// Also print what can be found: for every kind of part the smallest loss of rate found with probability 0.9 (needs --topology)
    #[arg(long)]
    power: bool,
    /// With --power: healthy measurements vary as in this recorded run, not as assumed
    #[arg(long, value_name = "RUN", requires = "power")]
    noise_of: Option<PathBuf>,
    #[command(flatten)]
    flags: RunFlags,
}

/// Prints the plan for ranks of this machine, or for the hosts of a topology.
pub fn run(arguments: &Arguments) -> Result<u8, CliError> {
    let flags = &arguments.flags;
    let mut suite = Suite::load(&arguments.suite)?;
    flags.override_settings(&mut suite)?;
    if let Some(schedule) = arguments.schedule {
        set_schedule(&mut suite, schedule)?;
    }
    let mut choices = flags.choices(&suite)?;
    let fabric = match &choices.topology {
        Some(topology) => Fabric::of(topology),
        None => {
            let ends = match &suite.run.rails {
                Some(specs) => rails::resolve_here(specs, None),
                None => rails::loopback(),
            };
            let ends = ends.map_err(|error| CliError::Environment(error.to_string()))?;
            Fabric::local(host::here(), suite.run.ranks(), suite.run.device(), ends)
        }
    };
    if let Some(topology) = &choices.topology {
        let graph = Graph::of(topology, &fabric.ranks).map_err(|error| CliError::Usage(error.to_string()))?;
        choices.known = FabricKnowledge {
            graph: Some(Arc::new(graph)),
            // Paths are traced when ranks are connected; this plan assumes that every trace is answered.
            paths: Arc::new(PathTable::assuming()),
            ..FabricKnowledge::default()
        };
        choices.same_process = false;
        choices.rails = suite.run.rails.clone();
    }
    choices.direct = suite.run.device() == DeviceKind::Cuda && have_peer_access(suite.run.ranks())?;
    choices.verbs = Some(verbs::probe().map_err(|missing| missing.to_string()));
    // Whether NICs reach GPU memory is known when ranks are connected; a plan that requires it assumes that they do.
    choices.gpudirect = (suite.verbs.gpudirect() == GpuDirectChoice::On).then_some(Ok(()));
    let schedules = match arguments.schedule {
        None => schedules(&suite, &fabric, &choices),
        Some(_) => Vec::new(),
    };
    let mut plan = Plan::new(&suite, &fabric, &choices).inspect_err(|_| {
        // The suite may ask for too much; the table shows which schedules would fit.
        if !flags.json {
            print_schedules(&schedules);
        }
    })?;
    flags.rdma.check_used(&plan)?;
    plan.fit(&fabric, Nanos(0));
    let outline = plan.describe();
    let power = match arguments.power {
        true => Some(power_of(&plan, &choices, arguments.noise_of.as_deref())?),
        false => None,
    };
    if flags.json {
        let whole = PlanOutput {
            outline: &outline,
            schedules: &schedules,
            power: power.as_deref(),
        };
        let text = serde_json::to_string_pretty(&whole).map_err(std::io::Error::from);
        println!("{}", text.map_err(CliError::system("cannot print the plan"))?);
        return Ok(0);
    }
    let mut table = terminal::table();
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
    if let Some(budget) = plan.budget_in_words() {
        println!("{budget}");
    }
    if let Some(warning) = &outline.warning {
        println!("warning: {warning}");
    }
    for test in &outline.tests {
        for missing in &test.missing_references {
            println!("no verdict on speed for `{}`: {missing}", test.name);
        }
    }
    print_schedules(&schedules);
    if let Some(power) = &power {
        print_power(power, &outline, arguments.noise_of.as_deref());
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

/// A plan as JSON.
#[derive(Serialize)]
struct PlanOutput<'a> {
    #[serde(flatten)]
    outline: &'a Outline,
    /// What each schedule would cost and cover.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    schedules: &'a [ScheduleOutline],
    /// What can be found.
    #[serde(skip_serializing_if = "Option::is_none")]
    power: Option<&'a [PartPower]>,
}

/// What the plan can find on the fabric of its topology.
fn power_of(plan: &Plan, choices: &Choices, noise_of: Option<&Path>) -> Result<Vec<PartPower>, CliError> {
    let Some(graph) = &choices.known.graph else {
        let problem = "--power counts flows over cables: give the fabric with --topology FILE";
        return Err(CliError::Usage(problem.to_string()));
    };
    let noise = match noise_of {
        None => HealthyNoise::assumed(),
        Some(folder) => {
            let recorded = Recorded::read(folder)?;
            let problem = || {
                format!(
                    "{} has no flows between hosts to take noise from",
                    folder.display()
                )
            };
            HealthyNoise::of(&recorded).ok_or_else(|| CliError::Usage(problem()))?
        }
    };
    Ok(power::of(plan, graph, &noise))
}

/// Prints what the plan can find.
fn print_power(power: &[PartPower], outline: &Outline, noise_of: Option<&Path>) {
    let noise = match noise_of {
        Some(folder) => format!("as in {}", folder.display()),
        None => format!(
            "by {}, as assumed beforehand (--noise-of RUN takes a recorded run)",
            text::percent(HealthyNoise::assumed().deviation)
        ),
    };
    println!(
        "found with probability {WANTED} in about {}, where healthy measurements vary {noise}:",
        outline.time.expected
    );
    if power.is_empty() {
        println!("nothing: no flow between two hosts is compared with anything");
        return;
    }
    let mut table = terminal::table();
    table.set_header([
        "part",
        "parts",
        "loss, on half of them",
        "on all",
        "slots",
        "unknown",
    ]);
    for one in power {
        let (half, all) = match one.smallest_loss {
            Some((half, all)) => (text::percent(half), text::percent(all)),
            None => ("-".into(), "-".into()),
        };
        let (fewest, most) = one.slots;
        table.add_row([
            one.part.to_string(),
            one.parts.to_string(),
            half,
            all,
            format!("{fewest} to {most}"),
            one.unknown.to_string(),
        ]);
    }
    println!("{table}");
}

/// Sets the schedule of the suite's tests of pairs.
fn set_schedule(suite: &mut Suite, schedule: Schedule) -> Result<(), CliError> {
    let mut pairs = suite
        .tests
        .iter_mut()
        .filter(|test| test.kind == TestKind::Pairs)
        .peekable();
    if pairs.peek().is_none() {
        let problem = "--schedule applies to tests of kind \"pairs\", and this suite has none";
        return Err(CliError::Usage(problem.to_string()));
    }
    pairs.for_each(|test| test.schedule = schedule);
    Ok(())
}

/// Prints what each schedule would cost and cover.
fn print_schedules(schedules: &[ScheduleOutline]) {
    if schedules.is_empty() {
        return;
    }
    let mut table = terminal::table();
    table.set_header(["schedule", "rounds", "measurements", "time", "links crossed"]);
    for choice in schedules {
        table.add_row(match &choice.outcome {
            Ok(cost) => vec![
                choice.schedule.clone(),
                cost.rounds.to_string(),
                cost.measurements.to_string(),
                cost.time.expected.to_string(),
                format!("{} of {}", cost.links_crossed, cost.links),
            ],
            Err(why) => vec![choice.schedule.clone(), why.clone()],
        });
    }
    println!("pairs by each schedule (an adaptive one adds flows until suspects are separated)\n{table}");
}

/// Whether the GPUs that these ranks would use have peer access to each other.
fn have_peer_access(ranks: u32) -> Result<bool, CliError> {
    let missing = |error: cuda::CudaError| CliError::Environment(error.to_string());
    let gpus = cuda::probe().map_err(|error| missing(error.into()))?;
    let used = &gpus[..gpus.len().min(ranks as usize)];
    for gpu in used {
        let peers = cuda::peer_gpus(gpu.ordinal).map_err(missing)?;
        let sees = |other: &cuda::GpuInfo| other.uuid == gpu.uuid || peers.contains(&other.uuid);
        if !used.iter().all(sees) {
            return Ok(false);
        }
    }
    Ok(true)
}
