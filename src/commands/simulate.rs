//! `railgauge simulate FABRIC`: a suite on a simulated fabric with known faults.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;

use super::diagnose;
use crate::error::CliError;
use crate::progress::diagnosis::describe_step;
use crate::run_folders::default_folder;
use crate::simulation::detection_power::{DetectionPower, RunTally};
use crate::simulation::{FaultyLinks, SimulatedRun, Simulation};
use crate::terminal;
use engine::measure::RunFolder;
use plan::diagnose::Step;
use plan::twin::{
    Answers, CongestionFault, DelayingPart, LossyPart, MODELS, Noise, Shape, SlowLink, SlowPart, clos,
    random_faults,
};
use record::units::Rate;
use record::{PathPlacement, Recorded, files};
use report::write_all;
use topology::Fabric;
use topology::Topology;
use topology::graph::Graph;
use topology::suite::Suite;

/// What to simulate.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  railgauge simulate 1024x8 --faults 5\n  \
railgauge simulate fabric.toml --slow h2-rail1-leaf1:away=60%\n  \
railgauge simulate 64x4 --faults 2 --repeat 20 --json\n\nWithout --suite it runs `railgauge diagnose`. Run n of --repeat uses the \
given seed plus n.")]
pub struct Arguments {
    /// A topology file, or the size of a two-tier fabric as HOSTSxRAILS
    #[arg(value_name = "FABRIC", required_unless_present = "noise_of")]
    fabric: Option<String>,
    /// What every cable of a fabric made to order carries
    #[arg(long, value_name = "RATE", default_value = "400 Gb/s")]
    rate: Rate,
    /// Slow a cable, or all cables of a host, switch or rail, to a share of their rate: h2-rail1-leaf1=60%, PART:away=60%,
    /// PART:towards=60%, all=60%, PART=60%@80% in 80 % of the slots; may be given several times
    #[arg(long, value_name = "FAULT")]
    slow: Vec<SlowPart>,
    /// Let a cable, or all cables of a host, switch or rail, lose packets: h2-rail1-leaf1=0.1%, PART:away=0.1%, PART:towards=0.1%;
    /// may be given several times
    #[arg(long, value_name = "FAULT")]
    loss: Vec<LossyPart>,
    /// Let a cable, or all cables of a host, switch or rail, hold packets up as a paused port does (suite probe): h2-rail1-leaf1=5ms,
    /// PART:away=5ms, PART:towards=5ms, PART=5ms@50% in half of all seconds; may be given several times
    #[arg(long, value_name = "FAULT")]
    delay: Vec<DelayingPart>,
    /// Something that shows under load only (suite congestion): lossy-class:PART, late-marks:PART, slow-receiver:CABLE=40%,
    /// rails-meet:rail0+rail1=50%; a part is a host's cable, a leaf or a rail; may be given several times
    #[arg(long, value_name = "FAULT")]
    congestion: Vec<CongestionFault>,
    /// A switch that sends all flows over the same of its equal links (suite worst-traffic); may be given several times
    #[arg(long, value_name = "SWITCH")]
    polarised: Vec<String>,
    /// Number of random slow links, at 80, 60 or 30 % of their rate, in one direction each
    #[arg(long, value_name = "N", default_value_t = 0)]
    faults: usize,
    /// How switches choose among equal paths: steady (by ports), per-connection, sprayed, or unknown (by ports, but silent)
    #[arg(long, value_name = "PLACEMENT", default_value_t = PathPlacement::Steady)]
    placement: PathPlacement,
    /// What switches say about a flow: ports (the port it came in by), switches (only which switch), or limited (half of the flows)
    #[arg(long, value_name = "ANSWERS", default_value_t = Answers::Ports)]
    answers: Answers,
    /// A suite to run instead of diagnosing
    #[arg(long, value_name = "SUITE")]
    suite: Option<String>,
    /// Seed of faults, routes, noise and order
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Repeat with other seeds and print how often faults were found
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    repeat: Option<u64>,
    /// Noise of healthy links: a file as --noise-of prints it, or one of the models recorded, quiet, nics, hosts, cells, minutes, tails,
    /// two-speed, iterations, drift, neighbours, mixed, os-jitter, clocks, all (docs/simulate.md)
    #[arg(long, value_name = "NOISE", default_value = "recorded")]
    noise: String,
    /// Print the noise of these recorded healthy runs, and do nothing else
    #[arg(long, value_name = "RUN", num_args = 1.., conflicts_with = "fabric")]
    noise_of: Vec<PathBuf>,
    /// Folder of the run [default: a new one under reports/]
    #[arg(long, value_name = "DIR", conflicts_with = "repeat")]
    out: Option<PathBuf>,
    /// Print the verdict only
    #[arg(long, short)]
    quiet: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Simulates once and writes a run folder, or many times and counts.
pub fn run(arguments: &Arguments) -> Result<u8, CliError> {
    let Some(fabric) = &arguments.fabric else {
        return print_noise(&arguments.noise_of);
    };
    let simulation = simulation(arguments, fabric)?;
    let known = known_faults(arguments, &simulation.graph)?;
    let faults = |seed: u64| {
        let mut faulty = known.clone();
        let random = random_faults(&simulation.graph, arguments.faults, seed);
        let is_new = |slow: &SlowLink| known.slow.iter().all(|other| other.link != slow.link);
        faulty.slow.extend(random.into_iter().filter(is_new));
        faulty
    };
    match arguments.repeat {
        Some(count) => measure_power(arguments, &simulation, count, &faults),
        None => once(arguments, &simulation, &faults(arguments.seed)),
    }
}

fn once(arguments: &Arguments, simulation: &Simulation, faulty: &FaultyLinks) -> Result<u8, CliError> {
    let out = arguments.out.clone();
    let out = out.unwrap_or_else(|| default_folder(&format!("simulated-{}", simulation.suite.name)));
    let folder = RunFolder::create(&out)?;
    let is_silent = arguments.quiet || arguments.json;
    let mut on_step = |step: &Step| {
        if !is_silent {
            describe_step(step).iter().for_each(terminal::note);
        }
    };
    let outcome = simulation.run(faulty, arguments.seed, true, &mut on_step)?;
    write(&folder, simulation, &outcome)?;
    if !is_silent {
        for slow in &faulty.slow {
            let often = match slow.often < 1.0 {
                true => format!(" in {:.0} % of the slots", slow.often * 100.0),
                false => String::new(),
            };
            terminal::note(format_args!(
                "injected: {} at {:.0} % of its rate{often}",
                simulation.graph.name(slow.link),
                slow.share * 100.0
            ));
        }
        let others = FaultyLinks {
            slow: Vec::new(),
            ..faulty.clone()
        };
        for injected in others.injected(&simulation.graph) {
            terminal::note(format_args!("injected: {injected}"));
        }
        for fault in &arguments.congestion {
            terminal::note(format_args!("injected: {fault}"));
        }
    }
    for switch in arguments.polarised.iter().filter(|_| !is_silent) {
        terminal::note(format_args!("injected: polarised hash of {switch}"));
    }
    terminal::print_result(
        &outcome.judgement,
        None,
        folder.path(),
        arguments.json,
        arguments.quiet,
    );
    Ok(outcome.judgement.exit_code)
}

fn write(folder: &RunFolder, simulation: &Simulation, outcome: &SimulatedRun) -> Result<(), CliError> {
    folder.keep(files::TOPOLOGY, &simulation.text)?;
    let mut sink = folder.start(&outcome.run)?;
    for event in &outcome.log {
        sink.write(event)?;
    }
    sink.close()?;
    write_all(folder.path(), &outcome.recorded, &outcome.judgement)
        .map_err(CliError::system("cannot write the report"))
}

fn measure_power(
    arguments: &Arguments,
    simulation: &Simulation,
    count: u64,
    faults: &dyn Fn(u64) -> FaultyLinks,
) -> Result<u8, CliError> {
    let mut power = DetectionPower::default();
    for seed in (arguments.seed..).take(count as usize) {
        let faulty = faults(seed);
        let outcome = simulation.run(&faulty, seed, false, &mut |_| {})?;
        power.add(RunTally::of(&outcome, &simulation.graph, &faulty, seed));
    }
    if arguments.json {
        let text = serde_json::to_string_pretty(&power).map_err(std::io::Error::from);
        println!("{}", text.map_err(CliError::system("cannot print the result"))?);
    } else {
        print!("{}", power.table());
    }
    Ok(0)
}

fn simulation(arguments: &Arguments, fabric: &str) -> Result<Simulation, CliError> {
    let usage = |problem: String| CliError::Usage(problem);
    let is_file = Path::new(fabric).exists() || fabric.contains(['/', '.']);
    let topology = match is_file {
        true => Topology::read(Path::new(fabric)).map_err(|error| usage(error.to_string()))?,
        false => {
            let shape = fabric.parse::<Shape>().map_err(usage)?;
            let rate = arguments.rate;
            clos(&Shape { rate, ..shape }).0
        }
    };
    let hosts = Fabric::of(&topology);
    let graph = Graph::of(&topology, &hosts.ranks).map_err(|error| usage(error.to_string()))?;
    let noise = match Noise::named(&arguments.noise) {
        Some(model) => model,
        None => {
            let path = Path::new(&arguments.noise);
            if !path.exists() {
                let models: Vec<&str> = MODELS.iter().map(|(name, _)| *name).collect();
                return Err(usage(format!(
                    "{} is neither a file nor a model of noise ({})",
                    path.display(),
                    models.join(", ")
                )));
            }
            let text = std::fs::read_to_string(path);
            let text = text.map_err(CliError::system(format!("cannot read {}", path.display())))?;
            Noise::parse(&text).map_err(|problem| usage(format!("{}: {problem}", path.display())))?
        }
    };
    for fault in &arguments.congestion {
        let checked = fault.check(&graph);
        checked.map_err(|problem| CliError::Usage(format!("--congestion {problem}")))?;
    }
    for switch in &arguments.polarised {
        if topology.switches.iter().all(|known| known.name != *switch) {
            return Err(usage(format!("--polarised {switch}: there is no such switch")));
        }
    }
    let suite = match &arguments.suite {
        Some(suite) => Suite::load(suite)?,
        None => diagnose::suite(None, Some(&topology)),
    };
    Ok(Simulation {
        suite,
        text: topology.to_toml(),
        topology,
        fabric: hosts,
        graph: Arc::new(graph),
        noise,
        placement: arguments.placement,
        answers: arguments.answers,
        congestion: arguments.congestion.clone(),
        polarised: arguments.polarised.clone(),
    })
}

fn known_faults(arguments: &Arguments, graph: &Graph) -> Result<FaultyLinks, CliError> {
    let mut faulty = FaultyLinks::default();
    let refused = |flag: &str, fault: &dyn std::fmt::Display, problem: String| {
        CliError::Usage(format!("--{flag} {fault}: {problem}"))
    };
    for slow in &arguments.slow {
        let links = slow
            .links(graph)
            .map_err(|problem| refused("slow", slow, problem))?;
        faulty.slow.extend(links);
    }
    for lossy in &arguments.loss {
        let links = lossy
            .links(graph)
            .map_err(|problem| refused("loss", lossy, problem))?;
        faulty.lossy.extend(links);
    }
    for delaying in &arguments.delay {
        let links = delaying
            .links(graph)
            .map_err(|problem| refused("delay", delaying, problem))?;
        faulty.delaying.extend(links);
    }
    Ok(faulty)
}

fn print_noise(runs: &[PathBuf]) -> Result<u8, CliError> {
    let recorded: Result<Vec<Recorded>, _> = runs.iter().map(|run| Recorded::read(run)).collect();
    let recorded = recorded?;
    let hosts = recorded.first().map_or(0, |first| first.run.hosts.len());
    let started = recorded.first().map_or("", |first| first.run.started.as_str());
    let source = format!(
        "{} healthy runs on {hosts} hosts, the first of {started}",
        recorded.len()
    );
    let noise = Noise::of(&recorded, &source).map_err(CliError::Usage)?;
    println!("{}", noise.to_json());
    Ok(0)
}
