//! Flags about the inventory of nodes and switches. The files they name are read before ranks connect.

use std::path::Path;
use std::time::Duration;

use clap::Args;

use crate::error::CliError;
use engine::measure::RunFolder;
use probe::switches::inventory::SwitchInventory;
use probe::switches::{self, Source};
use record::{Inventory, files};
use report::escape;
use topology::Topology;
use topology::suite::{Golden, RunSettings, counters};

/// Flags about the inventory.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Inventory")]
pub struct InventoryFlags {
    /// Expected firmware, drivers and settings [default: what most nodes have]
    #[arg(long, value_name = "FILE")]
    pub golden: Option<String>,
    /// Show what changed since an earlier inventory: a run's folder or a saved file
    #[arg(long, value_name = "RUN|FILE")]
    pub since: Option<String>,
    /// Inventory of switches: a folder, a file, or exec:COMMAND
    #[arg(
        long,
        value_name = "SOURCE",
        env = "RAILGAUGE_SWITCH_INVENTORY",
        hide_env_values = true
    )]
    pub switch_inventory: Option<String>,
    /// Rules for counters, instead of the built-in ones
    #[arg(long, value_name = "FILE")]
    pub counter_rules: Option<String>,
    /// Skip the inventory of nodes
    #[arg(long)]
    pub no_inventory: bool,
}

/// The largest golden file, in bytes.
const LARGEST: u64 = 4 << 20;
/// The longest that reading the inventory of switches may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// The files and commands that the command line or a suite names.
#[derive(Debug, Clone, Copy, Default)]
pub struct InventorySources<'a> {
    /// The golden file.
    pub golden: Option<&'a str>,
    /// An earlier inventory.
    pub since: Option<&'a str>,
    /// Where the inventory of switches comes from.
    pub switches: Option<&'a str>,
    /// The topology file.
    pub topology: Option<&'a Path>,
    /// Rules for counters.
    pub counter_rules: Option<&'a str>,
}

impl<'a> InventorySources<'a> {
    /// The sources that a run's settings name.
    pub fn of(settings: &'a RunSettings, topology: Option<&'a Path>) -> InventorySources<'a> {
        InventorySources {
            golden: settings.golden.as_deref(),
            since: settings.since.as_deref(),
            switches: settings.switch_inventory.as_deref(),
            topology,
            counter_rules: settings.counter_rules.as_deref(),
        }
    }
}

/// The content of the sources, checked.
pub struct InventoryInputs {
    /// The golden file.
    pub golden: Option<Golden>,
    /// The earlier inventory.
    pub before: Option<Inventory>,
    golden_text: Option<String>,
    rules_text: Option<String>,
    switches: Option<Source>,
    topology: Option<Topology>,
}

impl InventoryInputs {
    /// Reads the sources.
    pub fn read(sources: &InventorySources<'_>) -> Result<InventoryInputs, CliError> {
        let golden_text = sources.golden.map(read_text).transpose()?;
        let golden = match (&golden_text, sources.golden) {
            (Some(text), Some(path)) => Some(Golden::parse(text, path)?),
            _ => None,
        };
        let rules_text = sources
            .counter_rules
            .map(|path| counters::load(Path::new(path)))
            .transpose()?;
        let before = sources
            .since
            .map(|path| Inventory::read(Path::new(path)))
            .transpose()?;
        let switches = sources.switches.map(parse_source).transpose()?;
        let topology = sources.topology.map(Topology::read).transpose();
        Ok(InventoryInputs {
            golden,
            before,
            golden_text,
            rules_text,
            switches,
            topology: topology.map_err(|error| CliError::Usage(error.to_string()))?,
        })
    }

    /// Adds the switches and the topology's cables to an inventory, within `at_most` and [`PATIENCE`]. A source that does not
    /// answer becomes one of the inventory's troubles.
    pub fn add_switches(&self, inventory: &mut Inventory, at_most: Duration) {
        let mut known = match &self.switches {
            Some(source) => switches::inventory::read(source, PATIENCE.min(at_most)),
            None => SwitchInventory::default(),
        };
        if let Some(topology) = &self.topology {
            switches::inventory::apply_topology(&mut known, topology);
        }
        inventory.switches.extend(known.switches);
        inventory.cables.extend(known.cables);
        inventory.troubles.extend(known.troubles);
    }

    /// Copies the sources into the run's folder, so that the run can be judged elsewhere.
    pub fn write_to(&self, folder: &RunFolder) -> Result<(), CliError> {
        if let Some(before) = &self.before {
            folder.keep(files::INVENTORY_BEFORE, &inventory_json(before)?)?;
        }
        for (name, text) in [
            (files::GOLDEN, &self.golden_text),
            (files::COUNTER_RULES, &self.rules_text),
        ] {
            if let Some(text) = text {
                folder.keep(name, text)?;
            }
        }
        Ok(())
    }
}

/// An inventory as JSON.
pub fn inventory_json(inventory: &Inventory) -> Result<String, CliError> {
    let text = inventory.to_json().map_err(std::io::Error::from);
    let text = text.map_err(CliError::system("cannot write the inventory"))?;
    Ok(escape::json(&text))
}

fn read_text(path: &str) -> Result<String, CliError> {
    let refuse = |problem: String| CliError::Usage(format!("cannot read {path}: {problem}"));
    let about = std::fs::metadata(path).map_err(|error| refuse(error.to_string()))?;
    // Reading a pipe could block for ever.
    if !about.is_file() || about.len() > LARGEST {
        return Err(refuse(format!("not a regular file of at most {LARGEST} bytes")));
    }
    std::fs::read_to_string(path).map_err(|error| refuse(error.to_string()))
}

fn parse_source(text: &str) -> Result<Source, CliError> {
    let refuse = |problem: String| CliError::Usage(format!("--switch-inventory {text}: {problem}"));
    let source: Source = text.parse().map_err(refuse)?;
    match &source {
        Source::Path(path) if !path.exists() => Err(refuse("no such file or folder".to_string())),
        _ => Ok(source),
    }
}
