//! `history.json` and `railgauge trend --json`: what changed since earlier runs.

use serde::{Deserialize, Serialize};
use strum::{Display, EnumString};

use super::{FindingKind, FoundPart, Quantity, ReadPart};

/// How loudly something is said.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    Display,
    EnumString,
    schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Severity {
    /// For whoever looks.
    Info,
    /// Somebody should look in working hours.
    Ticket,
    /// Somebody should look now.
    Page,
}

/// Where a matter stands tonight.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "state")]
pub enum Standing {
    /// Seen for the first time.
    New,
    /// Seen tonight and before.
    Still {
        /// Which night it is in a row: 2 and up.
        night: u32,
    },
    /// Seen before, then not for some nights, and tonight again.
    Again {
        /// Nights since it was last seen.
        away: u32,
    },
    /// Seen last time, and not tonight although its part was measured.
    Gone {
        /// How many nights it was there.
        nights: u32,
    },
    /// Seen last time; tonight its part was not measured, so nothing is known.
    Unknown {
        /// How many nights it was there.
        nights: u32,
    },
}

/// How a part's figures changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Display, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum ChangeShape {
    /// From one run to the next, and it stayed.
    Step,
    /// A little every run.
    Slope,
    /// One run only.
    Blip,
}

/// A change of one part against its own past, beyond chance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PartChange {
    /// What kind of part.
    pub kind: ReadPart,
    /// Its name.
    pub part: String,
    /// What changed.
    pub quantity: Quantity,
    /// How.
    pub shape: ChangeShape,
    /// The first run that shows it, by name.
    pub since: String,
    /// Its start, RFC 3339 in UTC.
    pub since_at: String,
    /// How many runs show it.
    pub runs: u32,
    /// The usual figure before.
    pub before: f64,
    /// The figure since (a slope: in the last run).
    pub after: f64,
    /// `after` over `before`, less one: -0.05 is 5 % less.
    pub effect: f64,
    /// Interval of that.
    pub effect_interval: (f64, f64),
    /// How many standard deviations of what chance does.
    pub score: f64,
    /// Whether it is for the worse.
    pub is_worse: bool,
    /// Parts that changed at the same time and are likely the same matter (both ends of one cable, the rail end of a link).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub with: Vec<String>,
    /// The whole change in one sentence.
    pub sentence: String,
}

/// One matter over the nights: a finding, or a change against the past.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Matter {
    /// What kind of finding; none for a change that only the history shows.
    pub kind: Option<FindingKind>,
    /// The part.
    pub part: String,
    /// Where it stands.
    pub standing: Standing,
    /// How loudly it is said tonight.
    pub severity: Severity,
    /// Whether it is due to be told tonight: it has not been told before, or long ago.
    pub due: bool,
    /// First run that showed it.
    pub first: String,
    /// The whole matter in one sentence, with where it stands.
    pub sentence: String,
    /// The finding behind it, of tonight or of the last run that showed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finding: Option<FoundPart>,
    /// The change behind it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<PartChange>,
}

/// A part that is another one than before under the same name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Replaced {
    /// What kind of part.
    pub kind: ReadPart,
    /// Its name.
    pub part: String,
    /// What it was made of.
    pub before: String,
    /// What it is made of now.
    pub after: String,
    /// The first run with the new one.
    pub since: String,
}

/// Tonight against the nights before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct History {
    /// Version of this format.
    pub schema: u32,
    /// Name of the suite.
    pub suite: String,
    /// The run that is looked at, by name.
    pub run: String,
    /// Its start, RFC 3339 in UTC.
    pub started: String,
    /// Earlier runs that it was compared with.
    pub nights: u32,
    /// Loudest and newest first.
    pub matters: Vec<Matter>,
    /// Parts that begin a new history, because they were replaced.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replaced: Vec<Replaced>,
    /// Parts with too few nights to be compared with their own past.
    pub young: u32,
    /// Parts that were compared.
    pub compared: u32,
    /// Folders that could not be used, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<String>,
    /// One sentence for the person who reads nothing else.
    pub summary: String,
}
