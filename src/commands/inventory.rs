//! `railgauge inventory`: firmware, drivers and settings of every node, and which nodes differ.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde::Serialize;

use crate::error::CliError;
use crate::flags::inventory::{InventoryInputs, InventorySources, inventory_json};
use crate::launch::LaunchFlags;
use crate::launch::ranks::{start_ranks, warn_of_separate_worlds};
use crate::launch::role::Role;
use crate::run_clock::now;
use crate::signals::interrupt_flag;
use engine::device::telemetry::gpu_inventory;
use engine::measure::{Session, Setup, local_inventory};
use judge::findings::drift;
use probe::host;
use probe::inventory;
use record::units::Nanos;
use record::{DeviceKind, Drift, Finding, Inventory, NodeInventory, SCHEMA, exit_code};
use report::inventory::terminal;
use report::{self, escape};
use topology::suite::RunSettings;

/// Which nodes, and what to compare with.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  railgauge inventory\n  srun -N 128 --ntasks-per-node=1 railgauge inventory --golden fleet.toml --save tonight.json\n  \
railgauge inventory --against reports/2026-11-14T23-50-12Z-smoke   (what changed since that run)\n  \
railgauge inventory --root saved/node07 --root saved/node08   (trees recorded with --save-tree)\n\n\
Exit codes: 0 nothing differs; 10 something differs; 20 the majority is unclear, or a node did not answer"
)]
pub struct Arguments {
    /// Read a recorded tree instead of this machine; several are several nodes
    #[arg(long, value_name = "DIR")]
    root: Vec<PathBuf>,
    /// Show what changed since an earlier inventory: a run's folder or a saved file
    #[arg(long, value_name = "RUN|FILE", visible_alias = "since")]
    against: Option<String>,
    /// Expected firmware, drivers and settings [default: what most nodes have]
    #[arg(long, value_name = "FILE")]
    golden: Option<String>,
    /// Inventory of switches: a folder, a file, or exec:COMMAND
    #[arg(
        long,
        value_name = "SOURCE",
        env = "RAILGAUGE_SWITCH_INVENTORY",
        hide_env_values = true
    )]
    switch_inventory: Option<String>,
    /// Topology file: which cable is where, to compare both its ends
    #[arg(long, value_name = "FILE", env = "RAILGAUGE_TOPOLOGY", hide_env_values = true)]
    topology: Option<PathBuf>,
    /// Write the inventory to this file
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Copy the files that this machine's inventory is read from into a new folder, for --root elsewhere
    #[arg(long, value_name = "DIR", conflicts_with = "root")]
    save_tree: Option<PathBuf>,
    /// Show every fact of every part
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    launch: LaunchFlags,
    /// Print only what differs
    #[arg(long, short)]
    quiet: bool,
    /// Print the inventory and what differs as JSON
    #[arg(long)]
    json: bool,
}

/// What `--json` prints.
#[derive(Serialize)]
struct InventoryOutput<'a> {
    inventory: &'a Inventory,
    drift: &'a Drift,
    findings: &'a [Finding],
    exit_code: u8,
}

/// Reads, compares and prints inventories.
pub fn run(arguments: &Arguments) -> Result<u8, CliError> {
    let role = match arguments.root.is_empty() {
        true => arguments.launch.role()?,
        false => Role::Local,
    };
    let role = match role {
        Role::Follower(follower) => return follower.take_part(),
        role => role,
    };
    let inputs = InventoryInputs::read(&InventorySources {
        golden: arguments.golden.as_deref(),
        since: arguments.against.as_deref(),
        switches: arguments.switch_inventory.as_deref(),
        topology: arguments.topology.as_deref(),
        counter_rules: None,
    })?;
    if let Some(folder) = &arguments.save_tree {
        save_tree(folder, &role)?;
    }
    let (mut inventory, separate) = match role {
        _ if !arguments.root.is_empty() => (of_trees(&arguments.root)?, 0),
        Role::Local => (of_nodes(vec![local_inventory(&host::here().name)]), 0),
        leader => of_ranks(leader, arguments)?,
    };
    inputs.add_switches(&mut inventory, Duration::MAX);
    if let Some(path) = &arguments.save {
        save(&inventory, path)?;
    }
    let drift = drift::judge(&inventory, inputs.golden.as_ref(), inputs.before.as_ref());
    let findings = drift::findings(&drift);
    let incomplete = match inventory.troubles.is_empty() {
        true => exit_code::PASS,
        false => exit_code::INCONCLUSIVE,
    };
    let exit_code = exit_code::worst([drift::exit_code(&drift), incomplete, separate]);
    if arguments.json {
        let printed = InventoryOutput {
            inventory: &inventory,
            drift: &drift,
            findings: &findings,
            exit_code,
        };
        let text = serde_json::to_string_pretty(&printed).map_err(std::io::Error::from);
        let text = text.map_err(CliError::system("cannot print the inventory"))?;
        println!("{}", escape::json(&text));
    } else {
        if !arguments.quiet {
            print!("{}", terminal::tables(&inventory, arguments.all));
        }
        print!("{}", terminal::verdict(&inventory, &drift, &findings));
    }
    Ok(exit_code)
}

/// Records the tree of this machine.
fn save_tree(folder: &Path, role: &Role) -> Result<(), CliError> {
    let refuse = |problem: &str| {
        Err(CliError::Usage(format!(
            "--save-tree {}: {problem}",
            folder.display()
        )))
    };
    if !matches!(role, Role::Local) {
        return refuse("this records one machine; run it there with --launch local");
    }
    if folder
        .read_dir()
        .is_ok_and(|mut entries| entries.next().is_some())
    {
        return refuse("the folder is not empty");
    }
    let gpus = gpu_inventory();
    let saved = inventory::record_tree(Path::new("/"), folder, &host::here().name, &gpus.parts);
    let cannot = CliError::system(format!("cannot record into {}", folder.display()));
    saved.map(|_| ()).map_err(cannot)
}

fn of_nodes(nodes: Vec<NodeInventory>) -> Inventory {
    Inventory {
        schema: SCHEMA,
        version: record::VERSION.to_string(),
        taken: now(),
        nodes,
        ..Inventory::default()
    }
}

/// Recorded trees, each under its recorded name, or its folder's.
fn of_trees(roots: &[PathBuf]) -> Result<Inventory, CliError> {
    let node = |root: &PathBuf| {
        if !root.is_dir() {
            return Err(CliError::Usage(format!(
                "--root {}: no such folder",
                root.display()
            )));
        }
        let folder = root.canonicalize().unwrap_or_else(|_| root.clone());
        let name = folder.file_name().map(|name| name.to_string_lossy().into_owned());
        let name = name.unwrap_or_else(|| "localhost".to_string());
        Ok(inventory::of_tree(root, &name))
    };
    let nodes: Result<Vec<NodeInventory>, CliError> = roots.iter().map(node).collect();
    Ok(of_nodes(nodes?))
}

/// The inventory of all ranks, and the exit code for other worlds with the same token.
fn of_ranks(role: Role, arguments: &Arguments) -> Result<(Inventory, u8), CliError> {
    let settings = RunSettings {
        join_deadline: arguments.launch.join_deadline,
        ..RunSettings::default()
    };
    let interrupted = interrupt_flag()?;
    let started = start_ranks(role, &settings, &interrupted)?;
    let setup = Setup {
        rails: Vec::new(),
        device: DeviceKind::Host,
        largest: Default::default(),
        nccl: false,
        verbs: false,
        gid_index: None,
        faults: Vec::new(),
        deadline: Nanos::from_secs(30),
        data_port: None,
    };
    let mut session = Session::new(started.coordinator, setup, started.exit_lookup, interrupted);
    let inventory = session.inventory_before_setup(now());
    session.quit();
    drop((session, started.threads));
    let separate_worlds = started
        .rendezvous
        .map_or_else(Vec::new, |rendezvous| rendezvous.join_conflicts());
    let exit_code = warn_of_separate_worlds(&separate_worlds);
    let inventory = inventory?;
    if let Some(mpi) = started.mpi {
        mpi.leave(inventory.troubles.is_empty());
    }
    Ok((inventory, exit_code))
}

fn save(inventory: &Inventory, path: &Path) -> Result<(), CliError> {
    let saved = report::replace(path, inventory_json(inventory)?.as_bytes());
    saved.map_err(CliError::system("cannot save the inventory"))
}
