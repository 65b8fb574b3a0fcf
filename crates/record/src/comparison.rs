//! What `railgauge compare` says about two recorded runs. The schema is published in `docs/compare.schema.json`.

use serde::{Deserialize, Serialize};
use strum::Display;

use super::{Collective, FindingKind, Interval, Verdict};
use crate::units::{Bytes, Nanos, Rate};

/// What the newer of two runs is beside the older, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Display)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Outcome {
    /// Nothing is slower, nothing fails that did not, and all that was tested still is.
    Same,
    /// The same, and something is faster or no longer fails.
    Better,
    /// Nothing is known to be worse, but something is no longer tested or judged, or of most cells nothing can be said.
    Incomplete,
    /// Nothing was measured in both runs well enough to be compared.
    Incomparable,
    /// Something is slower, or fails that did not.
    Worse,
}

impl Outcome {
    /// The exit code that goes with it.
    pub fn exit_code(self) -> u8 {
        match self {
            Outcome::Same | Outcome::Better => 0,
            Outcome::Incomplete | Outcome::Incomparable => 20,
            Outcome::Worse => 12,
        }
    }
}

/// How one thing that was measured twice did the second time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Display)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Pace {
    /// Slower by more than the margin, and not by chance.
    Slower,
    /// Faster by more than the margin, and not by chance.
    Faster,
    /// The whole interval of the ratio lies within the margin.
    Same,
    /// None of these can be said: too few samples, too wide an interval, or a difference that may be chance.
    Unclear,
}

/// One of the two runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ComparedRun {
    /// What it was named as.
    pub name: String,
    /// Name of the suite.
    pub suite: String,
    /// Start, RFC 3339 in UTC.
    pub started: String,
    /// Version of railgauge that recorded it.
    pub version: String,
    /// Its own verdict.
    pub verdict: Verdict,
    /// Its own exit code.
    pub exit_code: u8,
    /// Hosts that took part.
    pub hosts: u32,
    /// Ranks that took part.
    pub ranks: u32,
    /// Cells planned.
    pub planned: u32,
    /// Cells measured to their end.
    pub measured: u32,
}

/// By what two runs were compared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ComparisonRule {
    /// The margin of every cell, when it was asked for; otherwise each test has its own.
    pub margin: Option<f64>,
    /// Confidence of the intervals around medians: the stricter of the two runs'.
    pub confidence: f64,
    /// Chance of one or more wrong words `slower` or `faster` in the whole comparison: the smaller of the two runs'.
    pub false_positive_budget: f64,
    /// Comparisons that the correction of p-values covers: two for each cell and each part, slower and faster.
    pub comparisons: u32,
}

/// How many cells there are of each kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ComparisonCounts {
    /// In both runs, measured in both.
    pub compared: u32,
    /// Slower.
    pub slower: u32,
    /// Faster.
    pub faster: u32,
    /// The same.
    pub same: u32,
    /// Nothing can be said.
    pub unclear: u32,
    /// Measured in both, but judged by something else than their speed.
    pub without_speed: u32,
    /// Pairs of the old run that the new one does not have, though it measured their parts with other partners.
    pub other_partners: u32,
    /// Measured in the old run only.
    pub only_old: u32,
    /// Measured in the new run only.
    pub only_new: u32,
}

/// One cell that both runs measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CellComparison {
    /// Name of the test.
    pub test: String,
    /// What was measured, in words, with hosts for ranks.
    pub what: String,
    /// What is done.
    pub collective: Collective,
    /// Payload.
    pub size: Bytes,
    /// Rails by name.
    pub rails: Vec<String>,
    /// Its number in the old run.
    pub old_cell: u32,
    /// Its number in the new run.
    pub new_cell: u32,
    /// How it did.
    pub pace: Pace,
    /// Why nothing can be said, when it cannot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Time then.
    pub old: Option<Interval<Nanos>>,
    /// Time now.
    pub new: Option<Interval<Nanos>>,
    /// Wire rate then, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old_rate: Option<Interval<Rate>>,
    /// Wire rate now, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_rate: Option<Interval<Rate>>,
    /// Speed now over speed then, which is time then over time now: below 1, it is slower.
    pub ratio: Option<Interval<f64>>,
    /// How far the speed may move and still be called the same.
    pub margin: f64,
    /// Chance of times like these where nothing moved beyond the margin, of this cell or of the part it belongs to, corrected for the
    /// number of comparisons.
    pub p_value: f64,
    /// Rounds measured then and now.
    pub rounds: (u16, u16),
}

/// What the parts have in common that moved together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Display)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum CommonPart {
    /// A rail, whoever uses it.
    Rail,
    /// All that was compared, or nearly.
    Everything,
    /// One host's end of a rail.
    Port,
    /// A host with all its rails.
    Host,
    /// A cable in one direction.
    Link,
    /// The same hosts on the same rails, and nothing wider.
    Hosts,
}

/// Cells that moved together, as one line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Shift {
    /// The part they have in common.
    pub part: String,
    /// What that is.
    pub common: CommonPart,
    /// Cells that moved.
    pub cells: u32,
    /// Cells of that part that could be told.
    pub of: u32,
    /// Tests they are of.
    pub tests: Vec<String>,
    /// Their smallest and largest payload.
    pub sizes: (Bytes, Bytes),
    /// The median of their ratios: speed now over speed then.
    pub ratio: f64,
    /// The cell that moved most, as its number in the new run.
    pub furthest: u32,
    /// The whole line in words.
    pub sentence: String,
    /// The command that measures them again.
    pub repeat: Option<String>,
}

/// What became of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Display)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum FindingState {
    /// Only the new run has it.
    New,
    /// Both have it.
    Still,
    /// Only the old run has it, and what it rests on was measured again.
    Gone,
    /// Only the old run has it, and nothing that it rests on was measured again: it may well still be true.
    NotLookedAt,
}

/// A finding of one run beside the other run's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FindingChange {
    /// What became of it.
    pub state: FindingState,
    /// What kind of trouble.
    pub kind: FindingKind,
    /// The part it names.
    pub part: String,
    /// The finding in one sentence: the new run's, where it has it.
    pub sentence: String,
    /// Whether what it rests on was measured in the old run; a new finding may be of something that was not looked at before.
    pub looked_at_before: bool,
}

/// A test whose verdict is another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TestChange {
    /// Name of the test.
    pub name: String,
    /// Its verdict then; none when the run did not have it.
    pub old: Option<Verdict>,
    /// Its verdict now; none when the run does not have it.
    pub new: Option<Verdict>,
}

/// What only one of the runs measured, as one line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OneSided {
    /// The part.
    pub part: String,
    /// Cells that only one run measured; none where it is a cable that nothing crossed.
    pub cells: Option<u32>,
    /// Cells of that part that it measured at all.
    pub of: Option<u32>,
    /// Why the other did not.
    pub why: String,
}

/// Something about the run itself that is not as it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunChange {
    /// What.
    pub what: String,
    /// What it was.
    pub old: String,
    /// What it is.
    pub new: String,
}

/// Two recorded runs, and what became slower, faster, newly failing and no longer tested between them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Comparison {
    /// Version of this format.
    pub schema: u32,
    /// Version of railgauge that compared.
    pub version: String,
    /// The outcome in one word.
    pub outcome: Outcome,
    /// The exit code that goes with it.
    pub exit_code: u8,
    /// One sentence for the person who reads nothing else.
    pub summary: String,
    /// The older run.
    pub old: ComparedRun,
    /// The newer run.
    pub new: ComparedRun,
    /// By what they were compared.
    pub rule: ComparisonRule,
    /// How many cells there are of each kind.
    pub counts: ComparisonCounts,
    /// What a reader must know before believing the rest: other suites, other hosts, faults that were injected.
    pub remarks: Vec<String>,
    /// What became slower, the part with most cells first.
    pub slower: Vec<Shift>,
    /// What became faster, the part with most cells first.
    pub faster: Vec<Shift>,
    /// What became of every finding: new ones first.
    pub findings: Vec<FindingChange>,
    /// Tests whose verdict is another one.
    pub tests: Vec<TestChange>,
    /// What the old run measured and the new one did not.
    pub no_longer_tested: Vec<OneSided>,
    /// What the new run measured and the old one did not.
    pub newly_tested: Vec<OneSided>,
    /// What about the runs themselves is not as it was.
    pub changed: Vec<RunChange>,
    /// What hosts, switches and cables are made of and is not as it was, in sentences; empty where not both runs recorded it.
    pub inventory: Vec<String>,
    /// Every cell that both measured, in the order of the new run.
    pub cells: Vec<CellComparison>,
}
