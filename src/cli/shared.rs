//! Flags that mean the same in every measuring command. A suite may set them too; the command line wins.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use clap::Args;

use super::CliError;
use super::inventory_flags::InventoryFlags;
use super::launching::LaunchFlags;
use super::rdma_flags::RdmaFlags;
use super::switch_counters;
use engine::device::cuda;
use engine::transport::Fault;
use judge::findings::judge;
use plan::baseline::Baseline;
use plan::{Choices, Filter, Known};
use record::units::Nanos;
use record::{DeviceKind, Engine, Recorded};
use topology::Topology;
use topology::suite::{EngineChoice, RunSettings, Suite, TransportChoice};

/// The flags.
#[derive(Debug, Clone, Default, Args)]
pub struct Shared {
    /// Folder of the run [default: a new one under reports/]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Ranks on this machine
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub ranks: Option<u32>,
    /// Ranks as processes that meet over TCP, instead of threads
    #[arg(long)]
    pub procs: bool,
    /// Where data lies and who does the arithmetic: host or cuda
    #[arg(long, value_name = "DEVICE")]
    pub device: Option<DeviceKind>,
    /// What carries the bytes: auto, shm, peer, tcp or verbs
    #[arg(long, value_name = "NAME")]
    pub transport: Option<TransportChoice>,
    /// Who runs the cells: ours, nccl or both (one after the other)
    #[arg(long, value_name = "ENGINE")]
    pub engine: Option<EngineChoice>,
    /// Rails as NAME=ADDRESS, NAME=SUBNET, address, interface or RDMA device (mlx5_0, mlx5_1:2), separated by commas
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub rails: Option<Vec<String>>,
    /// Row of the expected-rate tables to compare with, or auto
    #[arg(long, value_name = "ROW")]
    pub spec: Option<String>,
    /// Topology file: which cable is where, and how fast it should be
    #[arg(long, value_name = "FILE", env = "RAILGAUGE_TOPOLOGY", hide_env_values = true)]
    pub topology: Option<PathBuf>,
    /// Counters of switch ports, read around every slot of tests of kind ecmp: a folder, a file, or exec:COMMAND
    #[arg(
        long,
        value_name = "SOURCE",
        env = "RAILGAUGE_SWITCH_COUNTERS",
        hide_env_values = true
    )]
    pub switch_counters: Option<String>,
    /// Seed of patterns and order
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Longest any single wait may take, such as 30s
    #[arg(long, value_name = "DUR")]
    pub deadline: Option<Nanos>,
    /// Longest the whole run may take, such as 10m
    #[arg(long, value_name = "DUR")]
    pub budget: Option<Nanos>,
    /// Measure only matching cells, such as rail=rail1,size=1M or pair=0:1
    #[arg(long, value_name = "FILTER")]
    pub only: Option<Filter>,
    /// Break something on purpose to prove that it is found, such as throttle:rail=loop1,rate=100MB/s
    #[arg(long, value_name = "FAULT")]
    pub inject: Vec<Fault>,
    /// When a node is lost or a rail goes silent, leave it out and measure what remains
    #[arg(long)]
    pub keep_going: bool,
    #[command(flatten)]
    pub inventory: InventoryFlags,
    #[command(flatten)]
    pub launching: LaunchFlags,
    #[command(flatten)]
    pub rdma: RdmaFlags,
    /// Print the verdict only
    #[arg(long, short)]
    pub quiet: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

impl Shared {
    /// Puts what was typed into the suite's settings.
    pub fn settle(&self, suite: &mut Suite) -> Result<(), CliError> {
        let typed = RunSettings {
            ranks: self.ranks,
            procs: self.procs.then_some(true),
            transport: self.transport,
            device: self.device,
            engine: self.engine,
            rails: self.rails.clone(),
            seed: self.seed,
            deadline: self.deadline,
            budget: self.budget,
            join_deadline: self.launching.join_deadline,
            data_port: self.launching.data_port,
            switch_counters: self.switch_counters.clone(),
            golden: self.inventory.golden.clone(),
            since: self.inventory.since.clone(),
            switch_inventory: self.inventory.switch_inventory.clone(),
            counter_rules: self.inventory.counter_rules.clone(),
        };
        suite.run = suite.run.overridden_by(&typed);
        suite.verbs = suite.verbs.overridden_by(&self.rdma.settings());
        switch_counters::source(&suite.run)?;
        if suite.run.deadline() < Nanos(100_000_000) {
            return Err(CliError::Usage("--deadline must be at least 100ms".to_string()));
        }
        let asks_for_nccl = self.engine.is_some_and(|engine| engine.has(Engine::Nccl));
        if asks_for_nccl && suite.run.device() != DeviceKind::Cuda {
            let problem = "--engine nccl: NCCL runs on GPUs only; add --device cuda";
            return Err(CliError::Usage(problem.to_string()));
        }
        if suite.run.device() == DeviceKind::Cuda {
            cuda::probe().map_err(|missing| CliError::Environment(missing.to_string()))?;
            if self
                .inject
                .iter()
                .any(|fault| matches!(fault, Fault::SlowRank { .. }))
            {
                let problem =
                    "--inject slow-rank slows the CPU's arithmetic down; there is none with --device cuda";
                return Err(CliError::Usage(problem.to_string()));
            }
        }
        Ok(())
    }

    /// The topology file, when one was named.
    pub fn topology(&self) -> Result<Option<Topology>, CliError> {
        let topology = self.topology.as_deref().map(Topology::read).transpose();
        topology.map_err(|error| CliError::Usage(error.to_string()))
    }

    /// What was typed about the plan.
    pub fn choices(&self, suite: &Suite) -> Result<Choices, CliError> {
        Ok(Choices {
            topology: self.topology()?,
            focus: Vec::new(),
            transport: self.transport,
            engine: self.engine,
            nccl: None,
            known: Known::default(),
            baselines: baselines(suite)?,
            verbs: None,
            gpudirect: None,
            rails: None,
            only: self.only.clone(),
            spec: self.spec.clone(),
            in_order: false,
            same_process: !suite.run.procs(),
            direct: false,
        })
    }
}

/// The recorded runs that tests of the suite are compared with.
fn baselines(suite: &Suite) -> Result<BTreeMap<String, Baseline>, CliError> {
    let mut baselines = BTreeMap::new();
    for test in &suite.tests {
        if let Some(asked) = &test.expect.baseline
            && !baselines.contains_key(&asked.run)
        {
            let recorded = Recorded::read(Path::new(&asked.run))
                .map_err(|error| CliError::Usage(format!("baseline of test `{}`: {error}", test.name)))?;
            let judgement = judge(&recorded);
            baselines.insert(asked.run.clone(), Baseline::of(&recorded.run, &judgement));
        }
    }
    Ok(baselines)
}

/// Whether a person looks at `stream`. Open MPI gives every rank a terminal of its own and passes on what is written to
/// it, so that one says nothing.
pub fn is_watched(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("OMPI_COMM_WORLD_RANK").is_none()
}

/// Whether what stands on `stream` can be written over: a terminal that knows more than letters.
pub fn can_move_cursor(stream: &impl IsTerminal) -> bool {
    let knows_more = std::env::var_os("TERM").is_some_and(|kind| !kind.is_empty() && kind != "dumb");
    is_watched(stream) && knows_more
}

/// Whether colour belongs on `stream`: such a terminal, and nobody said NO_COLOR.
pub fn use_color(stream: &impl IsTerminal) -> bool {
    can_move_cursor(stream) && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
