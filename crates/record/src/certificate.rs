//! `certificate.json`: the decision of a burn-in on every node, cable and GPU, for the asset system.

use serde::{Deserialize, Serialize};
use strum::Display;

use super::{Criteria, EndReason, FindingKind, PartKind, Quantity, Untested};
use crate::units::Nanos;

/// What is decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Display)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Ruling {
    /// Every criterion was measured and holds.
    Accept,
    /// Not enough was seen to decide: load it longer.
    Extend,
    /// A criterion is broken.
    Reject,
}

/// A moment of a burn-in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Moment {
    /// The cycle, from 1.
    pub cycle: u32,
    /// Its start, RFC 3339 in UTC.
    pub at: String,
    /// Time under load until then.
    pub load_ns: Nanos,
}

/// Something that happened, over all the cycles that show it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Incident {
    /// What kind of trouble.
    pub kind: FindingKind,
    /// What kind of part it accuses; none when it is not one that is decided on.
    pub part_kind: Option<PartKind>,
    /// The part it accuses.
    pub part: String,
    /// The whole of it in one sentence: what, where, from when to when, how often.
    pub sentence: String,
    /// The first cycle that shows it.
    pub first: Moment,
    /// The last.
    pub last: Moment,
    /// All of them.
    pub cycles: Vec<u32>,
    /// Cycles in which the part was measured from the first on.
    pub of_cycles: u32,
    /// Whether the last measured cycle still shows it.
    pub is_still_there: bool,
    /// Whether it counts: one slow cycle alone may be chance.
    pub counts: bool,
    /// Facts that support it.
    pub evidence: Vec<String>,
    /// What to do next.
    pub next_step: String,
    /// The command that repeats the measurement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeat: Option<String>,
}

/// How a figure of a part moved over the whole burn-in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Course"))]
pub struct BurnInTrend {
    /// What is looked at.
    pub quantity: Quantity,
    /// The usual figure of the first cycles.
    pub at_first: f64,
    /// That of the last.
    pub at_last: f64,
    /// Change per hour as a share of the figure at first, with its interval: -0.01 is one per cent less every hour.
    pub slope_per_hour: Option<(f64, f64, f64)>,
    /// A step beyond chance: the first cycle after it, and the share by which the figure changed.
    pub step: Option<(Moment, f64)>,
    /// Cycles it was read in.
    pub cycles: u32,
}

/// One criterion as it stands for one part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Check {
    /// Name of the criterion, as the suite has it.
    pub criterion: String,
    /// What follows from it.
    pub ruling: Ruling,
    /// What was seen and what is accepted, in words.
    pub what: String,
}

/// What is decided about one part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PartDecision {
    /// What kind of part.
    pub kind: PartKind,
    /// Its name.
    pub part: String,
    /// What it is made of (serial numbers), when that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
    /// The decision.
    pub ruling: Ruling,
    /// Why, in one sentence.
    pub why: String,
    /// Every criterion, those that decide first.
    pub checks: Vec<Check>,
    /// Time under load in cycles that measured it.
    pub load_ns: Nanos,
    /// Cycles that measured it.
    pub cycles: u32,
    /// How its figures moved.
    pub courses: Vec<BurnInTrend>,
}

/// The decision of a burn-in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Certificate {
    /// Version of this format.
    pub schema: u32,
    /// Version of railgauge that decided.
    pub version: String,
    /// Name of the suite.
    pub suite: String,
    /// Start of the burn-in, RFC 3339 in UTC.
    pub started: String,
    /// Its end; none while it runs or when it was cut off.
    pub ended_at: Option<String>,
    /// Why it ended; none while it runs or when it was cut off.
    pub ended: Option<EndReason>,
    /// How long the fabric was to be loaded.
    pub wanted_ns: Nanos,
    /// How long it was.
    pub load_ns: Nanos,
    /// Complete cycles.
    pub cycles: u32,
    /// How often it was cut off and resumed.
    pub resumed: u32,
    /// Timed iterations.
    pub iterations: u64,
    /// Of those, how many had their data checked.
    pub verified: u64,
    /// The decision on the whole: the worst of its parts'.
    pub ruling: Ruling,
    /// The exit code that goes with it.
    pub exit_code: u8,
    /// One sentence for the person who reads nothing else.
    pub summary: String,
    /// What was accepted and why.
    pub criteria: Criteria,
    /// What happened, the worst first.
    pub incidents: Vec<Incident>,
    /// Every node.
    pub nodes: Vec<PartDecision>,
    /// Every cable in each direction; ends of rails where cables are not known.
    pub links: Vec<PartDecision>,
    /// Every GPU.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<PartDecision>,
    /// What could not be loaded or measured, and why.
    pub untested: Vec<Untested>,
}
