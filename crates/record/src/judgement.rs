//! `findings.json`: verdicts and findings. The schema is published in `docs/findings.schema.json`.

use std::fmt;

use serde::{Deserialize, Serialize};
use strum::{Display, EnumIter};

use super::{
    Cell, Congestion, CounterReport, Coverage, CurvePoint, DecisionRule, Drift, EcmpVerdict, EndReason,
    Engine, GpuSummary, ProbeSummary, Suspect, SwitchPlacement, TrafficRow, UnderLoad,
};
use crate::exit_code;
use crate::units::{Nanos, Rate};

/// The outcome of judging one thing. Unmeasured is never healthy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", tag = "outcome", content = "reason")]
pub enum Verdict {
    /// Measured, and as expected.
    Pass,
    /// Measured, and not as expected.
    Fail(String),
    /// Measured, but nothing can be said.
    Inconclusive(String),
    /// Not measured.
    NotRun(String),
}

/// A value with the interval it lies in.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Interval<T> {
    /// The median.
    pub median: T,
    /// Lower end of the interval.
    pub lower: T,
    /// Upper end of the interval.
    pub upper: T,
}

impl fmt::Display for Interval<Rate> {
    /// `0.61 GB/s [0.60, 0.62]`: all three in the unit that fits the largest.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scale, unit) = match self.upper.0 {
            rate if rate >= 0.1e9 => (1e9, "GB/s"),
            rate if rate >= 0.1e6 => (1e6, "MB/s"),
            _ => (1e3, "kB/s"),
        };
        let decimals = if self.upper.0 >= 100.0 * scale { 1 } else { 2 };
        let [median, lower, upper] = [self.median, self.lower, self.upper].map(|rate| rate.0 / scale);
        f.pad(&format!(
            "{median:.decimals$} {unit} [{lower:.decimals$}, {upper:.decimals$}]"
        ))
    }
}

/// Percentiles of a cell's times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Percentiles {
    /// Shortest.
    pub min: Nanos,
    /// Median.
    pub p50: Nanos,
    /// 95th percentile.
    pub p95: Nanos,
    /// 99th percentile.
    pub p99: Nanos,
    /// Longest.
    pub max: Nanos,
}

/// How a cell did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CellVerdict {
    /// The cell.
    pub cell: Cell,
    /// Its outcome.
    pub verdict: Verdict,
    /// Timed iterations that are complete on all ranks.
    pub iterations: u32,
    /// Measurement rounds they come from.
    pub rounds: u16,
    /// Timed iterations whose data was checked.
    pub verified: u32,
    /// Time of the collective: the maximum over ranks, per iteration.
    pub time: Option<Interval<Nanos>>,
    /// Percentiles of that time.
    pub percentiles: Option<Percentiles>,
    /// Iterations beyond Tukey's fences; counted, never dropped.
    pub outliers: u32,
    /// Payload over time.
    pub algorithm_rate: Option<Rate>,
    /// As nccl-tests computes it.
    pub bus_rate: Option<Rate>,
    /// What the busiest link carried, over time. This is what is judged.
    pub wire_rate: Option<Interval<Rate>>,
    /// What it was compared with.
    pub expected: Option<Rate>,
    /// Where that figure comes from.
    pub expected_from: Option<String>,
    /// The rank that finished last most often, and in what share of the iterations.
    pub slowest_rank: Option<(u32, f64)>,
}

/// How a test of the suite did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TestVerdict {
    /// Name of the test.
    pub name: String,
    /// Its outcome.
    pub verdict: Verdict,
    /// Cells planned.
    pub planned: u32,
    /// Cells measured.
    pub measured: u32,
}

/// What kind of trouble. Each kind has one exit code.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Display, EnumIter,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum FindingKind {
    /// Firmware, drivers or settings that differ between parts that should be alike, or from the golden file.
    Drift,
    /// Something is not as it was in an earlier inventory.
    Changed,
    /// Parts that should be alike differ, and it cannot be told which of them are right.
    UnclearDrift,
    /// Cables are elsewhere than the topology file says.
    Miscabled,
    /// Cables of the topology file that no flow takes: down, drained or plugged in elsewhere.
    UnusedCable,
    /// Flows are not spread over equal paths as a fair hash would.
    EcmpImbalance,
    /// A rail below its reference.
    SlowRail,
    /// A cable, port, switch or host that slows down everything that crosses it.
    SlowLink,
    /// A cable, port, switch or host that loses packets.
    LossyLink,
    /// A cable, port, switch or host that holds packets up now and then.
    SlowHop,
    /// A sender that gets much more or less than others where many send to one: its congestion control is too wild or too tame.
    UnfairSender,
    /// Packets that should wait are thrown away under load: pauses do not protect them everywhere.
    LossyClass,
    /// Senders are paused where congestion control should have slowed them down before.
    LateMarks,
    /// A receiver that does not keep up pauses the fabric, and flows that have nothing to do with it.
    SpreadingPauses,
    /// A load on one rail slows down flows on another one: they share what they should not.
    MeetingRails,
    /// A pattern of traffic gets less of what the topology should carry than the suite asks for.
    TrafficBelowFloor,
    /// A pattern of traffic gets less than even the paths of its flows explain.
    TrafficBelowPrediction,
    /// A pair of ranks below its reference.
    SlowPair,
    /// A collective below its reference that no single part explains.
    SlowCollective,
    /// One engine below its reference where the other is not: software, not the fabric.
    SlowEngine,
    /// A rank that keeps the others waiting.
    StragglerRank,
    /// The clocks of a GPU were held down.
    Throttled,
    /// Errors of a GPU's memory or links.
    GpuErrors,
    /// Error counters of a port moved more than a healthy port's.
    PortErrors,
    /// A link that went down during the run and came back.
    Flap,
    /// The rate falls as messages grow.
    Dip,
    /// The smallest messages take longer than those of its peers.
    LatencyFloor,
    /// The rate grows with the message size more slowly than that of its peers.
    SlowRamp,
    /// Some iterations take much longer than the others, or there are two speeds.
    Intermittent,
    /// Wrong data was delivered.
    Corruption,
    /// A rank vanished or a step passed its deadline.
    LostRank,
    /// Nothing got through on a rail any more, while the ranks at its ends were alive.
    SilentRail,
    /// Something planned was not measured.
    IncompleteCoverage,
}

impl FindingKind {
    /// The exit code it causes.
    pub fn exit_code(self) -> u8 {
        match self {
            FindingKind::SlowRail
            | FindingKind::SlowLink
            | FindingKind::LossyLink
            | FindingKind::SlowHop
            | FindingKind::UnfairSender
            | FindingKind::LossyClass
            | FindingKind::LateMarks
            | FindingKind::SpreadingPauses
            | FindingKind::MeetingRails
            | FindingKind::TrafficBelowFloor
            | FindingKind::SlowPair
            | FindingKind::SlowCollective
            | FindingKind::SlowEngine
            | FindingKind::StragglerRank
            | FindingKind::Throttled
            | FindingKind::GpuErrors
            | FindingKind::PortErrors
            | FindingKind::Flap
            | FindingKind::Dip
            | FindingKind::LatencyFloor
            | FindingKind::SlowRamp
            | FindingKind::Intermittent => exit_code::SLOW,
            FindingKind::Drift | FindingKind::Changed | FindingKind::Miscabled | FindingKind::UnusedCable => {
                exit_code::DRIFT
            }
            FindingKind::EcmpImbalance => exit_code::ECMP,
            FindingKind::IncompleteCoverage
            | FindingKind::UnclearDrift
            | FindingKind::TrafficBelowPrediction => exit_code::INCONCLUSIVE,
            FindingKind::LostRank | FindingKind::SilentRail => exit_code::LOST,
            FindingKind::Corruption => exit_code::CORRUPT,
        }
    }
}

/// Which part. Only what is known is filled in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Place {
    /// Hosts involved.
    pub hosts: Vec<String>,
    /// Ranks involved.
    pub ranks: Vec<u32>,
    /// Rail by name.
    pub rail: Option<String>,
    /// A cable in one direction, as `h2/rail1->leaf1/p0`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// A switch by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switch: Option<String>,
    /// All directed links of the part, where it is more than one: both directions of a cable, all cables of a switch or host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<String>,
    /// Cables by name, where a finding is about where they are and not about what they carry.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cables: Vec<String>,
}

/// How a suspicion was confirmed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Confirmation {
    /// Measurement rounds that agree.
    pub rounds: u16,
    /// Chance of data like this from a healthy part, corrected for the number of comparisons.
    pub p_value: f64,
    /// How many comparisons the correction covers.
    pub comparisons: u32,
}

/// What is wrong, where, how sure, on what evidence, and what to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Finding {
    /// What kind of trouble.
    pub kind: FindingKind,
    /// The whole finding in one sentence.
    pub sentence: String,
    /// Which part.
    pub place: Place,
    /// Measured wire rate, for findings about speed.
    pub measured: Option<Interval<Rate>>,
    /// Expected wire rate, for findings about speed.
    pub expected: Option<Rate>,
    /// The rule that was broken, with its numbers.
    pub rule: String,
    /// Statistical confirmation, for findings that rest on samples.
    pub confirmation: Option<Confirmation>,
    /// Parts that the data cannot tell apart from this one.
    pub not_told_apart_from: Vec<String>,
    /// Facts that support it.
    pub evidence: Vec<String>,
    /// Cells it rests on.
    pub cells: Vec<u32>,
    /// What to do next.
    pub next_step: String,
    /// The command that repeats the measurement.
    pub repeat: Option<String>,
    /// The parts that may be at fault, the likeliest first; empty where parts are not distinguished.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub suspects: Vec<Suspect>,
    /// The curve over message size that it rests on, for findings about shapes; smallest size first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub curve: Vec<CurvePoint>,
}

/// What running all rails together costs one rail.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Interference {
    /// Name of the test.
    pub test: String,
    /// Rail by name.
    pub rail: String,
    /// The cell that ran alone.
    pub alone_cell: u32,
    /// The cell that ran together with the other rails.
    pub together_cell: u32,
    /// Wire rate alone.
    pub alone: Interval<Rate>,
    /// Wire rate together.
    pub together: Interval<Rate>,
    /// Together over alone.
    pub ratio: f64,
}

/// What the senders of a rail got where many sent to one at the same time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FairShares {
    /// Name of the test.
    pub test: String,
    /// Rail by name.
    pub rail: String,
    /// Senders that were compared.
    pub senders: u32,
    /// Receivers, one after another.
    pub receivers: u32,
    /// Who gets least of what others get.
    pub least: ShareOf,
    /// Who gets most.
    pub most: ShareOf,
    /// A sender that gets so many times as much as others, or so many times less, would have been found with probability 0.9.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown: Option<f64>,
}

/// What a host gets of what others get.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ShareOf {
    /// The host.
    pub host: String,
    /// As much as others: 1.
    pub share: f64,
}

/// The same cell by our engine and by NCCL.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EngineComparison {
    /// Name of the test.
    pub test: String,
    /// The cell our engine ran.
    pub ours_cell: u32,
    /// The cell NCCL ran.
    pub nccl_cell: u32,
    /// Our time of one collective.
    pub ours: Interval<Nanos>,
    /// NCCL's.
    pub nccl: Interval<Nanos>,
    /// Our bus bandwidth, as nccl-tests computes it; none for an empty payload.
    pub ours_bus: Option<Rate>,
    /// NCCL's.
    pub nccl_bus: Option<Rate>,
    /// Our bandwidth over NCCL's, which is NCCL's time over ours: above 1, ours is faster.
    pub ratio: f64,
    /// The faster one; none when the intervals of their medians overlap.
    pub faster: Option<Engine>,
}

/// Everything that can be said about a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Judgement {
    /// Version of this format.
    pub schema: u32,
    /// Version of railgauge that judged.
    pub version: String,
    /// Name of the suite.
    pub suite: String,
    /// Start of the run, RFC 3339 in UTC.
    pub started: String,
    /// How the run ended; none when it was cut off.
    pub ended: Option<EndReason>,
    /// The verdict in one word and its reason.
    pub verdict: Verdict,
    /// The exit code that goes with it.
    pub exit_code: u8,
    /// One sentence for the person who reads nothing else.
    pub summary: String,
    /// The rule verdicts were reached by.
    pub rule: DecisionRule,
    /// Worst first.
    pub findings: Vec<Finding>,
    /// One per test of the suite.
    pub tests: Vec<TestVerdict>,
    /// One per planned cell.
    pub cells: Vec<CellVerdict>,
    /// Rails alone against rails together.
    pub interference: Vec<Interference>,
    /// What loads do to those who take no part in them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub congestion: Vec<Congestion>,
    /// What loss prevention and congestion control did under load, rail by rail.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub under_load: Vec<UnderLoad>,
    /// What became of probes, rail by rail.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub probes: Vec<ProbeSummary>,
    /// What senders got where many sent to one, rail by rail.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fair_shares: Vec<FairShares>,
    /// What patterns of traffic delivered, and what they should.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub traffic: Vec<TrafficRow>,
    /// How evenly flows were spread over equal paths.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ecmp: Vec<EcmpVerdict>,
    /// What the inventory says; none without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift: Option<Drift>,
    /// What the counters of ports did; none where none was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counters: Option<CounterReport>,
    /// Our engine against NCCL, for every cell that both ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub engines: Vec<EngineComparison>,
    /// What was measured of what was planned.
    pub coverage: Coverage,
    /// What the sensors of every GPU said.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<GpuSummary>,
    /// How switches place flows, as far as they were asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub placement: Vec<SwitchPlacement>,
    /// Faults injected on purpose; a run with any is a negative control.
    pub injected: Vec<String>,
}

impl Finding {
    /// The part that this finding names: its first suspect, else the most precise place that it has. Not escaped.
    pub fn part(&self) -> String {
        if let Some(suspect) = self.suspects.first() {
            return suspect.part.clone();
        }
        let place = &self.place;
        let hosts = || match place.hosts.as_slice() {
            [] => None,
            [host] => Some(host.clone()),
            [first, second] => Some(format!("{first} and {second}")),
            [first, rest @ ..] => Some(format!("{first} and {} more hosts", rest.len())),
        };
        let named = [place.link.clone(), place.switch.clone(), hosts()]
            .into_iter()
            .flatten()
            .next();
        match (named, &place.rail) {
            (Some(named), Some(rail)) if place.link.is_none() && place.switch.is_none() => {
                format!("{named} on {rail}")
            }
            (Some(named), _) => named,
            (None, Some(rail)) => rail.clone(),
            (None, None) => match place.ranks.as_slice() {
                [] => "the whole run".into(),
                [rank] => format!("rank {rank}"),
                [first, rest @ ..] => format!("rank {first} and {} more", rest.len()),
            },
        }
    }
}
