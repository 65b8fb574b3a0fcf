//! `railgauge topology`: what a topology file or the tables of a subnet manager say the fabric is.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde::Serialize;

use crate::error::CliError;
use crate::execution::discover_topology;
use crate::flags::RunFlags;
use crate::launch::role::Role;
use crate::progress;
use plan::Choices;
use record::text;
use topology::subnet::{ReadSubnet, Walk, read_folder};
use topology::suite::Suite;
use topology::{Tier, Topology};

/// Problems beyond this many are only counted.
const SHOWN: usize = 20;

/// What to do.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  railgauge topology check fabric.toml\n  railgauge topology import /var/tmp/ibdiagnet2 --out fabric.toml\n  \
railgauge topology path /var/tmp/ibdiagnet2 gpu001/mlx5_0 gpu042/mlx5_0\n\nA folder may hold `ibdiagnet2.db_csv` or the output of `ibnetdiscover` \
(nodes and cables), and forwarding tables as `ibdiagnet2.fdbs`, `dump_lfts.sh` or `ibroute` write them. Files are recognised by what is in them."
)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Read a topology file, or a folder of a subnet manager's files, and say what is in it and what is wrong
    Check {
        /// A file in any format that --topology takes, or a folder
        #[arg(value_name = "PATH")]
        path: PathBuf,
        /// Print the answer as JSON
        #[arg(long)]
        json: bool,
    },
    /// Write a topology file from what other programs wrote
    Import {
        /// A file in any format that --topology takes, or a folder
        #[arg(value_name = "PATH")]
        path: PathBuf,
        /// The file to write [default: printed]
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Write a topology file from what switches answer to traces alone: leaves, spines, parallel cables, rails
    Discover(Box<Discover>),
    /// Print the path of packets from one adapter to another by the forwarding tables of a folder
    Path {
        /// A folder with cables and forwarding tables
        #[arg(value_name = "FOLDER")]
        folder: PathBuf,
        /// The sending port: HOST/ADAPTER
        #[arg(value_name = "FROM")]
        from: String,
        /// The receiving port: HOST/ADAPTER
        #[arg(value_name = "TO")]
        to: String,
        /// Which of its LIDs, where an LMC gives it several
        #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=127))]
        offset: u16,
    },
}

/// Where to trace.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  srun -N16 railgauge topology discover --out fabric.toml\n  railgauge lab run -- topology discover\n\n\
Every rank traces flows to all others. What is inferred stands in the head of the file. Without --out it is printed."
)]
struct Discover {
    #[command(flatten)]
    flags: RunFlags,
}

/// What a topology holds.
#[derive(Debug, Serialize)]
struct Summary {
    path: String,
    hosts: usize,
    leaves: usize,
    spines: usize,
    cores: usize,
    cables: usize,
    /// Cables whose rate is not known.
    without_rate: usize,
    rails: Vec<String>,
    /// Switches whose forwarding table is known.
    with_table: usize,
    /// Switches that choose among several ports for at least one target.
    adaptive: usize,
    notes: Vec<String>,
    problems: Vec<String>,
}

/// Does it and returns the exit code.
pub fn run(arguments: &Arguments) -> Result<u8, CliError> {
    match &arguments.action {
        Action::Check { path, json } => check(path, *json),
        Action::Import { path, out } => import(path, out.as_deref()),
        Action::Discover(arguments) => discover(&arguments.flags),
        Action::Path {
            folder,
            from,
            to,
            offset,
        } => path(folder, from, to, *offset),
    }
}

fn check(path: &Path, json: bool) -> Result<u8, CliError> {
    let (topology, notes, problems) = read(path)?;
    let summary = summary(path, &topology, notes, problems);
    let code = if summary.problems.is_empty() { 0 } else { 2 };
    if json {
        let text = serde_json::to_string_pretty(&summary).map_err(std::io::Error::from);
        println!("{}", text.map_err(CliError::system("cannot print the answer"))?);
        return Ok(code);
    }
    println!(
        "{} host{}, {} leaves, {} spines, {} cores, {} cables",
        summary.hosts,
        text::plural(summary.hosts),
        summary.leaves,
        summary.spines,
        summary.cores,
        summary.cables
    );
    if !summary.rails.is_empty() {
        println!("rails: {}", summary.rails.join(", "));
    }
    if summary.without_rate > 0 {
        println!(
            "{} cables without a rate: it is taken from the ports of the hosts",
            summary.without_rate
        );
    }
    match summary.with_table {
        0 => println!("no forwarding tables: every shortest path may be taken"),
        tables => println!(
            "forwarding tables of {tables} switch{}; {} of them choose among several ports",
            if tables == 1 { "" } else { "es" },
            summary.adaptive
        ),
    }
    for note in &summary.notes {
        println!("{note}");
    }
    tell_problems(&summary.problems);
    Ok(code)
}

fn import(path: &Path, out: Option<&Path>) -> Result<u8, CliError> {
    let (topology, notes, problems) = read(path)?;
    let text = topology.to_toml();
    match out {
        Some(file) => {
            std::fs::write(file, text)
                .map_err(CliError::system(format!("cannot write {}", file.display())))?;
            for note in &notes {
                println!("{note}");
            }
            println!("wrote {}", file.display());
        }
        None => print!("{text}"),
    }
    tell_problems(&problems);
    Ok(if problems.is_empty() { 0 } else { 2 })
}

fn discover(flags: &RunFlags) -> Result<u8, CliError> {
    let role = match flags.launch.role()? {
        Role::Follower(follower) => return follower.take_part(),
        role => role,
    };
    let mut suite = Suite::of("discover", Vec::new());
    flags.apply_to(&mut suite, &role)?;
    // A file that is named is what is to be written anew.
    let choices = Choices {
        topology: None,
        ..flags.choices(&suite)?
    };
    let progress = progress::for_stderr(flags.quiet);
    let found = discover_topology(&suite, role, flags, &choices, progress.as_ref())?;
    drop(progress);
    let mut text =
        String::from("# Discovered by `railgauge topology discover` from answers to traces. Inferred:\n");
    for line in &found.inferred {
        text.push_str(&format!("# - {line}\n"));
    }
    text.push_str(&found.topology.to_toml());
    match &flags.out {
        Some(file) => {
            std::fs::write(file, text)
                .map_err(CliError::system(format!("cannot write {}", file.display())))?;
            if !flags.quiet {
                println!("wrote {}", file.display());
            }
        }
        None => print!("{text}"),
    }
    Ok(0)
}

fn path(folder: &Path, from: &str, to: &str, offset: u16) -> Result<u8, CliError> {
    let ReadSubnet { subnet, .. } =
        read_folder(folder).map_err(|error| CliError::Usage(error.to_string()))?;
    let usage = |name: &str| {
        CliError::Usage(format!(
            "no adapter `{name}` with a LID in {}; write HOST/ADAPTER",
            folder.display()
        ))
    };
    let (sender, _) = subnet.adapter(from).ok_or_else(|| usage(from))?;
    let (_, lid) = subnet.adapter(to).ok_or_else(|| usage(to))?;
    let lid = lid.saturating_add(offset);
    match subnet.walk(sender, lid) {
        Walk::Arrives(paths) => {
            for path in &paths {
                let ports: Vec<String> = path.iter().map(|port| subnet.port_in_words(*port)).collect();
                println!("{} -> {to} (LID {lid})", ports.join(" -> "));
            }
            Ok(0)
        }
        Walk::Loops(switch) => Err(CliError::Usage(format!(
            "packets to LID {lid} go round in a circle at switch {}",
            subnet.name_of(switch)
        ))),
        Walk::EndsNowhere(switch) => Err(CliError::Usage(format!(
            "packets to LID {lid} have no way at {}",
            subnet.name_of(switch)
        ))),
        Walk::NoTable(switch) => Err(CliError::Usage(format!(
            "the forwarding table of {} is not in {}",
            subnet.name_of(switch),
            folder.display()
        ))),
    }
}

/// A topology, and what is to be said about it: notes and problems.
fn read(path: &Path) -> Result<(Topology, Vec<String>, Vec<String>), CliError> {
    let usage = |error: topology::TopologyError| CliError::Usage(error.to_string());
    if !path.is_dir() {
        return Ok((Topology::read(path).map_err(usage)?, Vec::new(), Vec::new()));
    }
    let read = read_folder(path).map_err(usage)?;
    let problems = read.problems.iter().map(|problem| {
        format!(
            "{}, LID {}: {}; left out of the topology",
            read.subnet.name_of(problem.switch),
            problem.lid,
            problem.what
        )
    });
    let problems = problems.collect();
    Ok((read.topology, read.notes, problems))
}

fn summary(path: &Path, topology: &Topology, notes: Vec<String>, problems: Vec<String>) -> Summary {
    let of_tier = |tier: Tier| {
        topology
            .switches
            .iter()
            .filter(|switch| switch.tier == tier)
            .count()
    };
    let mut rails: Vec<String> = topology
        .links
        .iter()
        .filter_map(|link| link.rail.clone())
        .collect();
    rails.sort();
    rails.dedup();
    // Per switch, how often each target occurs: more than once where it has a choice.
    let mut targets: BTreeMap<&str, BTreeMap<String, usize>> = BTreeMap::new();
    for entry in &topology.forwarding {
        let of_switch = targets.entry(&entry.port.node).or_default();
        for to in &entry.to {
            *of_switch.entry(to.to_string()).or_default() += 1;
        }
    }
    let chooses = |counts: &&BTreeMap<String, usize>| counts.values().any(|count| *count > 1);
    Summary {
        path: path.display().to_string(),
        hosts: topology.hosts.len(),
        leaves: of_tier(Tier::Leaf),
        spines: of_tier(Tier::Spine),
        cores: of_tier(Tier::Core),
        cables: topology.links.len(),
        without_rate: topology.links.iter().filter(|link| link.rate.0 <= 0.0).count(),
        rails,
        with_table: targets.len(),
        adaptive: targets.values().filter(chooses).count(),
        notes,
        problems,
    }
}

fn tell_problems(problems: &[String]) {
    for problem in problems.iter().take(SHOWN) {
        eprintln!("{problem}");
    }
    if problems.len() > SHOWN {
        eprintln!("and {} more", problems.len() - SHOWN);
    }
}
