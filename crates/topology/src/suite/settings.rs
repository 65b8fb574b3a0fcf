//! Settings of a whole run, from a suite's `[run]` table and from the command line. The command line wins.

use strum::{Display, EnumString, VariantNames};

use record::units::Nanos;
use record::{DeviceKind, Engine, TransportKind};

/// The transport asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Display, EnumString, VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum TransportChoice {
    /// Memory where ranks can use each other's: shared memory in one process, peer memory between GPUs; else RDMA where
    /// every rail of every rank has a port that is up; else TCP.
    #[default]
    Auto,
    /// Memory shared by the ranks of one process.
    Shm,
    /// TCP over the rails.
    Tcp,
    /// GPU peer memory.
    Peer,
    /// RDMA verbs.
    Verbs,
}

impl TransportChoice {
    /// The transport named, unless the choice is left to the plan.
    pub fn named(self) -> Option<TransportKind> {
        match self {
            TransportChoice::Auto => None,
            TransportChoice::Shm => Some(TransportKind::Shm),
            TransportChoice::Tcp => Some(TransportKind::Tcp),
            TransportChoice::Peer => Some(TransportKind::Peer),
            TransportChoice::Verbs => Some(TransportKind::Verbs),
        }
    }
}

/// The engines asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Display, EnumString, VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum EngineChoice {
    /// Our own schedules and kernels.
    #[default]
    Ours,
    /// NCCL.
    Nccl,
    /// Every cell by ours and by NCCL, one right after the other.
    Both,
}

impl EngineChoice {
    /// Whether an engine is among them.
    pub fn has(self, engine: Engine) -> bool {
        match self {
            EngineChoice::Ours => engine == Engine::Ours,
            EngineChoice::Nccl => engine == Engine::Nccl,
            EngineChoice::Both => true,
        }
    }
}

/// Settings of a whole run; `None` is not set. The methods of the same names fill in the defaults.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunSettings {
    /// Local ranks.
    pub ranks: Option<u32>,
    /// Local ranks as processes instead of threads.
    pub procs: Option<bool>,
    /// What carries the bytes, where a test does not say.
    pub transport: Option<TransportChoice>,
    /// The memory the data is in.
    pub device: Option<DeviceKind>,
    /// The engine that runs the cells, where a test does not say.
    pub engine: Option<EngineChoice>,
    /// Rails as `NAME=ADDRESS`, address, interface or RDMA device.
    pub rails: Option<Vec<String>>,
    /// Seed of patterns and order.
    pub seed: Option<u64>,
    /// Longest any single wait may take.
    pub deadline: Option<Nanos>,
    /// Longest the whole run may take.
    pub budget: Option<Nanos>,
    /// Longest ranks started elsewhere may take to join.
    pub join_deadline: Option<Nanos>,
    /// Rank r listens for data on this port + r.
    pub data_port: Option<u16>,
    /// Where counters of switch ports are read around tests of kind ecmp: a folder, a file, or `exec:COMMAND`.
    pub switch_counters: Option<String>,
    /// The golden file: required firmware, drivers and settings.
    pub golden: Option<String>,
    /// An earlier inventory to compare with: a run's folder or a saved file.
    pub since: Option<String>,
    /// The inventory of switches: a folder, a file, or `exec:COMMAND`.
    pub switch_inventory: Option<String>,
    /// Rules about counters: a file.
    pub counter_rules: Option<String>,
}

impl RunSettings {
    /// The most local ranks a suite may ask for.
    pub const MOST_RANKS: u32 = 1024;

    /// These settings, overridden by those that `stronger` sets.
    pub fn overridden_by(&self, stronger: &RunSettings) -> RunSettings {
        let text =
            |stronger: &Option<String>, weaker: &Option<String>| stronger.clone().or_else(|| weaker.clone());
        RunSettings {
            ranks: stronger.ranks.or(self.ranks),
            procs: stronger.procs.or(self.procs),
            transport: stronger.transport.or(self.transport),
            device: stronger.device.or(self.device),
            engine: stronger.engine.or(self.engine),
            rails: stronger.rails.clone().or_else(|| self.rails.clone()),
            seed: stronger.seed.or(self.seed),
            deadline: stronger.deadline.or(self.deadline),
            budget: stronger.budget.or(self.budget),
            join_deadline: stronger.join_deadline.or(self.join_deadline),
            data_port: stronger.data_port.or(self.data_port),
            switch_counters: text(&stronger.switch_counters, &self.switch_counters),
            golden: text(&stronger.golden, &self.golden),
            since: text(&stronger.since, &self.since),
            switch_inventory: text(&stronger.switch_inventory, &self.switch_inventory),
            counter_rules: text(&stronger.counter_rules, &self.counter_rules),
        }
    }

    /// Local ranks; two by default, the fewest that have a link between them.
    pub fn ranks(&self) -> u32 {
        self.ranks.unwrap_or(2)
    }

    /// Whether local ranks are processes; threads by default.
    pub fn procs(&self) -> bool {
        self.procs.unwrap_or(false)
    }

    /// What carries the bytes, where a test does not say.
    pub fn transport(&self) -> TransportChoice {
        self.transport.unwrap_or_default()
    }

    /// The memory the data is in; CPU memory by default.
    pub fn device(&self) -> DeviceKind {
        self.device.unwrap_or(DeviceKind::Host)
    }

    /// The engine that runs the cells, where a test does not say; our own by default.
    pub fn engine(&self) -> EngineChoice {
        self.engine.unwrap_or_default()
    }

    /// Seed of patterns and order; fixed by default, so that a run can be repeated.
    pub fn seed(&self) -> u64 {
        self.seed.unwrap_or(1)
    }

    /// Longest ranks started elsewhere may take to join; 60 s by default, and never longer than the whole run.
    pub fn join_deadline(&self) -> Nanos {
        let patience = self.join_deadline.unwrap_or(Nanos::from_secs(60));
        self.budget.map_or(patience, |budget| patience.min(budget))
    }

    /// Longest any single wait may take; 30 s by default.
    pub fn deadline(&self) -> Nanos {
        self.deadline.unwrap_or(Nanos::from_secs(30))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_wins_and_leaves_the_rest_of_the_suite_alone() {
        let suite = RunSettings {
            ranks: Some(4),
            seed: Some(7),
            ..Default::default()
        };
        let typed = RunSettings {
            ranks: Some(2),
            procs: Some(true),
            ..Default::default()
        };
        let merged = suite.overridden_by(&typed);
        assert_eq!((merged.ranks(), merged.seed(), merged.procs()), (2, 7, true));
        assert_eq!(merged.deadline(), Nanos::from_secs(30));
        assert_eq!(merged.join_deadline(), Nanos::from_secs(60));
        let short = RunSettings {
            budget: Some(Nanos::from_secs(5)),
            ..merged
        };
        assert_eq!(
            short.join_deadline(),
            Nanos::from_secs(5),
            "no rank joins a run that is over"
        );
    }
}
