//! `run.json`: everything about a run that is known before the first sample.

use crate::TestKind;
use serde::{Deserialize, Serialize};

use super::{
    Algorithm, Cell, DeviceKind, MiscabledRecord, RdmaPort, Reach, ShapeRule, SwitchPlacement,
    UnusedCableRecord,
};
use crate::units::{Bytes, Nanos, Rate};

/// A run as recorded before its first sample. Holds no environment variable and no secret.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Version of the recorded files.
    pub schema: u32,
    /// Version of railgauge.
    pub version: String,
    /// Name of the suite.
    pub suite: String,
    /// What the suite says it is for.
    pub description: String,
    /// Start, RFC 3339 in UTC.
    pub started: String,
    /// Seed of patterns and order.
    pub seed: u64,
    /// Seed of patterns where it is another one: cycles of a burn-in have the same cells and other data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern_seed: Option<u64>,
    /// The command line as typed.
    pub command: Vec<String>,
    /// What the command line was started with on every host, such as `srun -N4`, when the launcher said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_as: Option<String>,
    /// How ranks were started: local threads, local processes, ...
    pub launch: String,
    /// Machines taking part.
    pub hosts: Vec<HostRecord>,
    /// Ranks in order.
    pub ranks: Vec<RankRecord>,
    /// How ranks with a GPU get at each other's memory; pairs that are not named do so by proxy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reach: Vec<ReachRecord>,
    /// The NCCL library, when it was asked for and is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nccl: Option<NcclRecord>,
    /// Cost of reading the clock on the slowest rank.
    pub timer_ns: Nanos,
    /// How well the ranks' clocks agree.
    pub clocks: Vec<ClockRecord>,
    /// How verdicts are reached.
    pub rule: DecisionRule,
    /// The suite's tests.
    pub tests: Vec<TestRecord>,
    /// Planned cells in order.
    pub cells: Vec<Cell>,
    /// How switches place flows, as far as they were asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub placement: Vec<SwitchPlacement>,
    /// Cables that are elsewhere than the topology file said: two that are swapped, or one. The recorded topology is the true one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub miscabled: Vec<Vec<MiscabledRecord>>,
    /// Cables that no traced flow takes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unused: Vec<UnusedCableRecord>,
    /// What the plan leaves out, and why.
    pub untested: Vec<Untested>,
    /// Faults injected on purpose; a run with any is a negative control.
    pub injected: Vec<String>,
}

impl Run {
    /// The test a cell belongs to.
    pub fn test_of(&self, cell: &Cell) -> Option<&TestRecord> {
        self.tests.iter().find(|test| test.name == cell.test)
    }

    /// `rank 3 (node07)`, or `rank 3` when the rank is not recorded.
    pub fn rank_name(&self, rank: u32) -> String {
        match self.ranks.iter().find(|record| record.rank == rank) {
            Some(record) => format!("rank {rank} ({})", record.host),
            None => format!("rank {rank}"),
        }
    }
}

/// A machine taking part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostRecord {
    /// Host name.
    pub name: String,
    /// CPU cores this run may use.
    pub cores: u32,
    /// Kernel release.
    pub kernel: String,
    /// What names the machine it runs on: hosts with the same are containers or namespaces that share its cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
}

impl HostRecord {
    /// A host of which nothing is known but its name.
    pub fn named(name: impl Into<String>) -> HostRecord {
        HostRecord {
            name: name.into(),
            cores: 1,
            kernel: String::new(),
            machine: None,
        }
    }
}

/// One rank: where it runs and by which rails it can be reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankRecord {
    /// World rank.
    pub rank: u32,
    /// Host name.
    pub host: String,
    /// Process id there.
    pub pid: u32,
    /// Where its data lies.
    pub device: DeviceKind,
    /// Its end of every rail.
    pub rails: Vec<RailEnd>,
    /// Its GPU, when it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<GpuRecord>,
}

/// The GPU of a rank.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuRecord {
    /// Marketing name.
    pub name: String,
    /// Unique and lasting, as nvidia-smi prints it.
    pub uuid: String,
    /// Where it is plugged in.
    pub pci: String,
    /// Thread blocks of our kernels that it runs at the same time.
    pub blocks: u32,
}

/// The NCCL library of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NcclRecord {
    /// Its version: 2.28.9.
    pub version: String,
    /// What it was opened as.
    pub library: String,
    /// Whether it lets ranks share a GPU.
    pub shares_gpus: bool,
    /// Whether every process was given an NCCL_HOSTID of its own, because ranks of several processes share a GPU and this
    /// version would refuse that. NCCL then takes the network between processes, also where it could use memory.
    pub own_host_ids: bool,
}

/// Pairs of ranks that get at each other's GPU memory in the same way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReachRecord {
    /// The way.
    pub reach: Reach,
    /// World ranks, the lower one first.
    pub pairs: Vec<(u32, u32)>,
}

/// One rank's end of a rail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RailEnd {
    /// Rail name, the same on all hosts.
    pub rail: String,
    /// Local address traffic is bound to.
    pub address: String,
    /// Network interface that has it, when found.
    pub interface: Option<String>,
    /// Link speed in Mbit/s as the kernel reports it; none when unknown.
    pub speed_mbit: Option<u64>,
    /// The port of an RDMA device behind the interface, when there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rdma: Option<RdmaPort>,
}

/// How well a rank's clock agrees with the coordinator's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockRecord {
    /// World rank.
    pub rank: u32,
    /// Its clock minus the coordinator's.
    pub offset_ns: i64,
    /// Half the smallest round trip: the offset is no better than this.
    pub uncertainty_ns: u64,
}

/// How verdicts are reached; stands in the suite and in every report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DecisionRule {
    /// Confidence of the intervals around medians.
    pub confidence: f64,
    /// Chance of one or more wrong accusations in the whole run that is accepted.
    pub false_positive_budget: f64,
    /// How often a suspect is measured again before it is accused.
    pub remeasure: u16,
    /// A rank is a straggler when it is busy this many times as long as the others.
    pub straggler_factor: f64,
    /// How often a link may go down and come back within the run without a finding.
    #[serde(default)]
    pub flaps_allowed: u32,
    /// Whether switches and NICs are meant to mark packets before they pause.
    #[serde(default, skip_serializing_if = "MarksRule::is_auto")]
    pub marks: MarksRule,
    /// From where on a shape over message size is a finding.
    #[serde(default)]
    pub shapes: ShapeRule,
}

/// Whether packets are meant to be marked (ECN) where queues grow.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    strum::Display,
    strum::EnumString,
    strum::VariantNames,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum MarksRule {
    /// Yes, unless the inventory says that ECN is off everywhere.
    #[default]
    Auto,
    /// Yes, whatever the inventory says.
    Expect,
    /// No: the fabric does without.
    None,
}

impl MarksRule {
    fn is_auto(&self) -> bool {
        *self == MarksRule::Auto
    }
}

/// What is asked about a run. Each question may be answered wrongly, and has a share of the false-positive budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::EnumIter)]
pub enum Question {
    /// Is a cell slow?
    Cells,
    /// Is a part slow?
    Parts,
    /// Is a part slow now and then?
    IntermittentParts,
    /// Does speed depend on size or time as it should?
    Shapes,
    /// Does a rank keep the others waiting?
    Stragglers,
    /// Are flows spread over equal paths?
    Ecmp,
    /// Do counters count errors?
    Counters,
    /// Are packets lost on the way?
    Losses,
    /// Does a sender get its share where many send to one?
    Fairness,
    /// Do loss prevention and congestion control work under load?
    Congestion,
}

impl Question {
    /// Its share; all of them together are 1.
    fn share(self) -> f64 {
        match self {
            Question::Parts => 0.4,
            Question::Ecmp | Question::Cells => 0.15,
            Question::Shapes => 0.1,
            Question::IntermittentParts | Question::Stragglers => 0.05,
            Question::Counters | Question::Losses | Question::Fairness | Question::Congestion => 0.025,
        }
    }
}

impl DecisionRule {
    /// The chance of a wrong answer to a question that is accepted.
    pub fn budget_of(&self, question: Question) -> f64 {
        // Reports show it: without the last digits, which products of such fractions get wrong.
        (self.false_positive_budget * question.share() * 1e12).round() / 1e12
    }

    /// The most rounds after the first: `remeasure` for every suspect, and two more where those do not rule out that it was disturbed
    /// every time.
    pub fn most_rounds_again(&self) -> u16 {
        match self.remeasure {
            0 => 0,
            remeasure => remeasure.saturating_add(2),
        }
    }
}

impl Default for DecisionRule {
    fn default() -> Self {
        DecisionRule {
            confidence: 0.95,
            false_positive_budget: 0.01,
            remeasure: 1,
            straggler_factor: 1.5,
            flaps_allowed: 0,
            marks: MarksRule::Auto,
            shapes: ShapeRule::default(),
        }
    }
}

/// What a test's speed is compared with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reference {
    /// An expected rate with provenance.
    Spec(SpecRow),
    /// The other cells of this run that measure the same on other parts.
    Peers {
        /// How far below the peers' median is still accepted (0.1 = 10 %).
        margin: f64,
    },
    /// What the same cells reached in a recorded run.
    Baseline {
        /// The run's folder, as the suite names it.
        run: String,
        /// How far below is still accepted (0.05 = 5 %).
        margin: f64,
        /// What each cell reached there, in the order of their numbers.
        rates: Vec<BaselineRate>,
    },
}

/// What a cell reached in a recorded run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BaselineRate {
    /// The cell of this run.
    pub cell: u32,
    /// The median wire rate of the same cell there.
    pub rate: Rate,
}

/// A row of an expected-rate table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SpecRow {
    /// Name of the row, unique over all tables.
    pub id: String,
    /// What it is about, in words.
    pub title: String,
    /// Expected wire rate of one link in one direction.
    pub rate: Rate,
    /// How far below is still accepted (0.08 = 8 %).
    pub tolerance: f64,
    /// Algorithm the figure was published for; none when it is what a link carries, which holds for all that fill links (not for trees).
    pub algorithm: Option<Algorithm>,
    /// Smallest payload at which it is expected.
    pub from_size: Bytes,
    /// Scale the figure was published for, in words.
    pub scale: String,
    /// Who published it.
    pub source: String,
    /// It applies to cells whose slowest link carries this, in Mbit/s; to all where links do not differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line_mbit: Option<u64>,
}

/// Cells that something slowed down get up to so many times their budget until they have intervals: without, nothing can be said of them.
pub const MOST_BUDGETS: u32 = 4;

/// One test of the suite, with its expectations resolved, so that a run can be judged without the suite.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TestRecord {
    /// Unique name.
    pub name: String,
    /// What it is about.
    pub kind: TestKind,
    /// What its speed is compared with.
    pub references: Vec<Reference>,
    /// References that were asked for and are not to be had, and why.
    pub missing_references: Vec<String>,
    /// Iterations before timing starts.
    pub warmup: u32,
    /// At least this many timed iterations.
    pub min_iterations: u32,
    /// At most this many.
    pub max_iterations: u32,
    /// Half width of the interval over the median at which a cell is done.
    pub tight: f64,
    /// Time budget of one cell.
    pub budget: Nanos,
    /// The data of every n-th timed iteration is checked; 0 = never.
    pub verify_every: u32,
    /// Whether it goes on by itself until suspects are distinguished: then it is parts that are measured again, not cells.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub adaptive: bool,
}

/// Something the plan leaves out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Untested {
    /// What.
    pub what: String,
    /// Why.
    pub why: String,
}

#[cfg(test)]
mod tests {
    use strum::IntoEnumIterator;

    use super::*;

    #[test]
    fn the_questions_share_the_budget_and_no_more() {
        let rule = DecisionRule::default();
        let spent: f64 = Question::iter().map(|question| rule.budget_of(question)).sum();
        assert!((spent - rule.false_positive_budget).abs() < 1e-12, "{spent}");
    }
}
