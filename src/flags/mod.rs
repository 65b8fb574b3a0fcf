//! Flags that mean the same in every measuring command. A suite may set them too; the command line wins.

pub mod inventory;
pub mod rdma;
pub mod share;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;

use self::inventory::InventoryFlags;
use self::rdma::RdmaFlags;
use crate::error::CliError;
use crate::launch::LaunchFlags;
use crate::launch::role::Role;
use crate::switch_counters;
use engine::device::cuda;
use engine::transport::Fault;
use judge::findings::judge;
use plan::baseline::Baseline;
use plan::{Choices, FabricKnowledge, Filter};
use record::units::Nanos;
use record::{DeviceKind, Engine, Recorded};
use topology::Topology;
use topology::suite::{EngineChoice, RunSettings, Suite, TransportChoice};

/// Flags of a run.
#[derive(Debug, Clone, Default, Args)]
pub struct RunFlags {
    /// Folder of the run [default: a new one under reports/]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Ranks on this machine
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub ranks: Option<u32>,
    /// Run ranks as processes connected over TCP, instead of threads
    #[arg(long)]
    pub procs: bool,
    /// Device that holds the data and reduces it: host or cuda
    #[arg(long, value_name = "DEVICE")]
    pub device: Option<DeviceKind>,
    /// Transport: auto, shm, peer, tcp or verbs
    #[arg(long, value_name = "NAME")]
    pub transport: Option<TransportChoice>,
    /// Engine that runs the cells: ours, nccl or both (one after the other)
    #[arg(long, value_name = "ENGINE")]
    pub engine: Option<EngineChoice>,
    /// Rails as NAME=ADDRESS, NAME=SUBNET, address, interface or RDMA device (mlx5_0, mlx5_1:2), separated by commas
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub rails: Option<Vec<String>>,
    /// Row of the expected-rate tables to compare with, or auto
    #[arg(long, value_name = "ROW")]
    pub spec: Option<String>,
    /// Topology file: which cable is where, and its expected rate
    #[arg(long, value_name = "FILE", env = "RAILGAUGE_TOPOLOGY", hide_env_values = true)]
    pub topology: Option<PathBuf>,
    /// Source of switch port counters for tests of kind ecmp, read around every slot: a folder, a file, or exec:COMMAND
    #[arg(
        long,
        value_name = "SOURCE",
        env = "RAILGAUGE_SWITCH_COUNTERS",
        hide_env_values = true
    )]
    pub switch_counters: Option<String>,
    /// Seed of data patterns and cell order
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Deadline of any single wait, such as 30s
    #[arg(long, value_name = "DUR")]
    pub deadline: Option<Nanos>,
    /// Time budget of the whole run, such as 10m
    #[arg(long, value_name = "DUR")]
    pub budget: Option<Nanos>,
    /// Measure only matching cells, such as rail=rail1,size=1M or pair=0:1
    #[arg(long, value_name = "FILTER")]
    pub only: Option<Filter>,
    /// Inject a fault to prove that it is found, such as throttle:rail=loop1,rate=100MB/s
    #[arg(long, value_name = "FAULT")]
    pub inject: Vec<Fault>,
    /// When a node is lost or a rail goes silent, continue without it
    #[arg(long)]
    pub keep_going: bool,
    #[command(flatten)]
    pub inventory: InventoryFlags,
    #[command(flatten)]
    pub launch: LaunchFlags,
    #[command(flatten)]
    pub rdma: RdmaFlags,
    /// Print the verdict only
    #[arg(long, short)]
    pub quiet: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

impl RunFlags {
    /// Overrides the suite's settings by what was typed and by the ranks that a launcher started.
    pub fn apply_to(&self, suite: &mut Suite, role: &Role) -> Result<(), CliError> {
        self.override_settings(suite)?;
        if let Some(world) = role.world() {
            for (flag, is_typed) in [("--ranks", self.ranks.is_some()), ("--procs", self.procs)] {
                if is_typed {
                    return Err(CliError::Usage(format!(
                        "{flag} starts ranks on this machine; here every process is one of {world} ranks already"
                    )));
                }
            }
        }
        role.apply_to(&mut suite.run, self.rails.is_some());
        Ok(())
    }

    /// Overrides the suite's settings by what was typed.
    pub fn override_settings(&self, suite: &mut Suite) -> Result<(), CliError> {
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
            join_deadline: self.launch.join_deadline,
            data_port: self.launch.data_port,
            switch_counters: self.switch_counters.clone(),
            golden: self.inventory.golden.clone(),
            since: self.inventory.since.clone(),
            switch_inventory: self.inventory.switch_inventory.clone(),
            counter_rules: self.inventory.counter_rules.clone(),
        };
        suite.run = suite.run.overridden_by(&typed);
        suite.verbs = suite.verbs.overridden_by(&self.rdma.settings());
        switch_counters::parse_source(&suite.run)?;
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
                    "--inject slow-rank slows the CPU's reduction; with --device cuda the GPU reduces";
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

    /// What the flags say about the plan.
    pub fn choices(&self, suite: &Suite) -> Result<Choices, CliError> {
        Ok(Choices {
            topology: self.topology()?,
            focus: Vec::new(),
            transport: self.transport,
            engine: self.engine,
            nccl: None,
            known: FabricKnowledge::default(),
            baselines: read_baselines(suite)?,
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
fn read_baselines(suite: &Suite) -> Result<BTreeMap<String, Baseline>, CliError> {
    let mut baselines = BTreeMap::new();
    for test in &suite.tests {
        if let Some(baseline) = &test.expect.baseline
            && !baselines.contains_key(&baseline.run)
        {
            let recorded = Recorded::read(Path::new(&baseline.run))
                .map_err(|error| CliError::Usage(format!("baseline of test `{}`: {error}", test.name)))?;
            let judgement = judge(&recorded);
            baselines.insert(baseline.run.clone(), Baseline::of(&recorded.run, &judgement));
        }
    }
    Ok(baselines)
}
