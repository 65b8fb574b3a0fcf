//! `readings.json`: what one run says of every part, in few words, so that many runs can be compared quickly.
//!
//! A run of hours and a folder of nights are both a row of these.

use serde::{Deserialize, Serialize};
use strum::Display;

use super::{EndReason, FindingKind, Interval, MovedCounter, Place, ProbeReadings, Untested};
use crate::units::{Nanos, Rate};

/// Everything that one run says about parts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Readings {
    /// Version of this format.
    pub schema: u32,
    /// Name of the suite: only runs of one suite are compared.
    pub suite: String,
    /// Start of the run, RFC 3339 in UTC.
    pub started: String,
    /// How it ended; none when it was cut off.
    pub ended: Option<EndReason>,
    /// The exit code of its verdict.
    pub exit_code: u8,
    /// One per part and quantity, in the order of part and quantity.
    pub parts: Vec<PartReading>,
    /// What was found, one per finding.
    pub findings: Vec<FindingSummary>,
    /// What every cable was loaded with; empty when the run was not told which cable is where.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loads: Vec<LinkLoad>,
    /// Counters that moved, traffic apart.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counters: Vec<MovedCounter>,
    /// What was not measured, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub untested: Vec<Untested>,
    /// What became of every flow of probes; in cycles of a burn-in only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probes: Option<ProbeReadings>,
    /// Timed iterations.
    pub iterations: u64,
    /// Of those, how many had their data checked.
    pub verified: u64,
    /// Faults injected on purpose; a run with any is a negative control and not part of a history.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub injected: Vec<String>,
}

/// What kind of part is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Display)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
#[cfg_attr(feature = "schema", schemars(rename = "ReadPart"))]
pub enum PartKind {
    /// A cable in one direction, as `h2/rail1->leaf1/p0`.
    Link,
    /// A host's end of a rail, as `h2/rail1 out` or `h2/rail1 in`.
    RailEnd,
    /// A whole rail.
    Rail,
    /// A host.
    Node,
    /// A GPU, by its own lasting name.
    Gpu,
    /// A collective over all ranks: test, algorithm, size.
    Collective,
}

/// What is read of a part. More is better of some, less of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Display)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Quantity {
    /// Bytes per second on the wire.
    Bandwidth,
    /// Nanoseconds.
    Latency,
    /// Nanoseconds of the 99th percentile.
    Tail,
    /// Degrees Celsius at most.
    Temperature,
    /// MHz of the multiprocessors, median under load.
    Clock,
}

impl Quantity {
    /// Whether more is better.
    pub fn is_better_when_higher(self) -> bool {
        matches!(self, Quantity::Bandwidth | Quantity::Clock)
    }

    /// A value of it with its unit: `48.00 GB/s`.
    pub fn with_unit(self, value: f64) -> String {
        match self {
            Quantity::Bandwidth => Rate(value).to_string(),
            Quantity::Latency | Quantity::Tail => {
                Nanos(value.clamp(0.0, u64::MAX as f64).round() as u64).to_string()
            }
            Quantity::Temperature => format!("{value:.0} °C"),
            Quantity::Clock => format!("{value:.0} MHz"),
        }
    }
}

impl PartKind {
    /// What comes before the name of such a part in a sentence.
    pub fn noun(self) -> &'static str {
        match self {
            PartKind::Link => "link",
            PartKind::RailEnd => "rail end",
            PartKind::Rail => "rail",
            PartKind::Node => "host",
            PartKind::Gpu => "GPU",
            PartKind::Collective => "collective",
        }
    }
}

/// One figure of one part in one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PartReading {
    /// What kind of part.
    pub kind: PartKind,
    /// Its name, the same in every run.
    pub part: String,
    /// What is read of it.
    pub quantity: Quantity,
    /// The figure in the quantity's unit.
    pub value: f64,
    /// Lower end of its interval; the figure itself where there is none.
    pub lower: f64,
    /// Upper end of its interval.
    pub upper: f64,
    /// What it should be, when that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<f64>,
    /// What the part is made of (serial numbers); another one is another part under the same name. None when unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
    /// Cells it rests on.
    pub cells: u32,
}

/// A finding, as far as other runs need to know it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "FoundPart"))]
pub struct FindingSummary {
    /// What kind of trouble.
    pub kind: FindingKind,
    /// The part it accuses, as `Finding::part` names it.
    pub part: String,
    /// The whole finding in one sentence.
    pub sentence: String,
    /// Which part, in detail.
    pub place: Place,
    /// Whether a cable is meant in both directions; `place` has one of them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub both_directions: bool,
    /// Measured wire rate, for findings about speed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<Interval<Rate>>,
    /// Expected wire rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<Rate>,
    /// Parts that the data cannot tell apart from this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_told_apart_from: Vec<String>,
    /// What to do next.
    pub next_step: String,
    /// The command that repeats the measurement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeat: Option<String>,
}

/// What one cable was loaded with in one direction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LinkLoad {
    /// The cable in one direction, as `h2/rail1->leaf1/p0`.
    pub link: String,
    /// The cable by name.
    pub cable: String,
    /// The most it carried at one time over what it should carry; none when nothing crossed it.
    pub share: Option<f64>,
    /// Why not more, when it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// A run among others: when, where, what it said.
#[derive(Debug, Clone, PartialEq)]
pub struct Night {
    /// The folder's name, or `cycle 12`.
    pub name: String,
    /// Start in seconds since 1970.
    pub at: i64,
    /// How long it took, when it is known.
    pub took: Option<Nanos>,
    /// What it said.
    pub readings: Readings,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_their_unit_and_strange_ones_do_no_harm() {
        assert_eq!(Quantity::Bandwidth.with_unit(48e9), "48.00 GB/s");
        assert_eq!(Quantity::Temperature.with_unit(61.4), "61 °C");
        assert_eq!(Quantity::Latency.with_unit(f64::NAN), Nanos(0).to_string());
    }
}
