//! What `railgauge trend --json` prints: every part over all runs of a folder.

use serde::{Deserialize, Serialize};

use super::{PartChange, PartKind, Quantity, Replaced};

/// Every part over all runs of a folder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Trends {
    /// Version of this format.
    pub schema: u32,
    /// Version of railgauge that judged.
    pub version: String,
    /// Name of the suite.
    pub suite: String,
    /// The runs, the oldest first.
    pub runs: Vec<TrendRun>,
    /// One sentence for the person who reads nothing else.
    pub summary: String,
    /// 0 when nothing is worse than it was, 12 when something is, 20 when there are too few runs to say.
    pub exit_code: u8,
    /// Parts of the last run that were compared with their past.
    pub compared: u32,
    /// Parts of the last run whose past is too short.
    pub young: u32,
    /// Changes that last, the worst first.
    pub changed: Vec<PartChange>,
    /// Changes that are over, the latest first.
    pub over: Vec<PastChange>,
    /// Every part and quantity, by kind, part and quantity.
    pub series: Vec<Trend>,
    /// Parts that began a new history, because they were replaced.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replaced: Vec<Replaced>,
    /// Folders that could not be used, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<String>,
}

/// One run of many.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TrendRun {
    /// Its name.
    pub name: String,
    /// Its start, RFC 3339 in UTC.
    pub started: String,
}

/// One part and quantity over the runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Trend {
    /// What kind of part.
    pub kind: PartKind,
    /// Its name.
    pub part: String,
    /// What is read of it.
    pub quantity: Quantity,
    /// How many runs read it.
    pub runs: u32,
    /// What is usual, at the fleet's level of the last run; before the change when it is in one.
    pub usual: Option<f64>,
    /// Between which figures nineteen of twenty runs are expected.
    pub usual_band: Option<(f64, f64)>,
    /// The figure of the last run; none when it did not read it.
    pub last: Option<f64>,
    /// That over what is usual, less one.
    pub deviation: Option<f64>,
    /// The change that it is in, by its place in `changed`, whether told of itself or with another part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<u32>,
    /// The figure of every run, in their order; none where it was not read.
    pub values: Vec<Option<f64>>,
}

/// A change that is over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PastChange {
    /// What it was.
    pub change: PartChange,
    /// The run that ended it.
    pub until: String,
    /// How: `gone`, `replaced`, `settled` (it became the usual), `superseded` (it changed again).
    pub ending: String,
}
