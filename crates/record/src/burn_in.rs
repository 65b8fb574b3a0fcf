//! A burn-in's folder: what was asked, what happened when, and what each cycle came to.
//!
//! `burn-in.json` is written once; `journal.jsonl` grows by whole lines; each cycle is the folder of an ordinary run under
//! `cycles/`, with its `readings.json`. Killed at any moment, everything up to the last line is there.

use serde::{Deserialize, Serialize};

use super::{Criteria, EndReason};
use crate::units::{Bytes, Nanos};

/// Names of the files in a burn-in's folder.
pub mod burn_in_files {
    /// What was asked.
    pub const BURN_IN: &str = "burn-in.json";
    /// What happened, line by line.
    pub const JOURNAL: &str = "journal.jsonl";
    /// The folder of cycles.
    pub const CYCLES: &str = "cycles";
    /// How it is going, written anew every few seconds.
    pub const STATUS: &str = "status.json";
    /// The same for monitoring.
    pub const METRICS: &str = "metrics.prom";
    /// The decision, for the asset system.
    pub const CERTIFICATE: &str = "certificate.json";
    /// The decision as a page.
    pub const CERTIFICATE_PAGE: &str = "certificate.html";
    /// The decision in a few lines of Markdown.
    pub const CERTIFICATE_TEXT: &str = "certificate.md";
    /// The parts that there are to decide on.
    pub const KNOWN: &str = "known.json";
    /// The suite as it was when the burn-in began.
    pub const SUITE: &str = "suite.toml";
    /// What the samples of a healthy cycle were summarised into.
    pub const HISTOGRAMS: &str = "histograms.jsonl";
}

/// `burn-in.json`: what was asked, written before the first cycle.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BurnIn {
    /// Version of this format.
    pub schema: u32,
    /// Version of railgauge that began it.
    pub version: String,
    /// Name of the suite.
    pub suite: String,
    /// What the suite says it is for.
    pub description: String,
    /// Start, RFC 3339 in UTC.
    pub started: String,
    /// Seed of the first cycle; each cycle has its own.
    pub seed: u64,
    /// The command line as typed.
    pub command: Vec<String>,
    /// How long to load the fabric.
    pub wanted_ns: Nanos,
    /// What is accepted.
    pub criteria: Criteria,
}

/// One line of `journal.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct JournalLine {
    /// When, RFC 3339 in UTC.
    pub at: String,
    /// Time under load until then, not counting when nothing ran.
    pub load_ns: Nanos,
    /// What.
    #[serde(flatten)]
    pub what: Journal,
}

/// What can happen in a burn-in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", tag = "event")]
pub enum Journal {
    /// All ranks have joined; measuring begins or resumes.
    Met {
        /// Hosts that are there.
        hosts: Vec<String>,
        /// The cycle that is resumed, when one was cut off.
        resumes: Option<u32>,
        /// Samples of it that were kept.
        samples_kept: u64,
    },
    /// A cycle began.
    CycleBegan {
        /// Its number, from 1.
        cycle: u32,
        /// Its seed.
        seed: u64,
    },
    /// A cycle ended.
    CycleEnded {
        /// Its number.
        cycle: u32,
        /// Why.
        ended: EndReason,
        /// The exit code of its verdict.
        exit_code: u8,
        /// Cells measured to their end.
        cells: u32,
        /// Samples recorded.
        samples: u64,
        /// How long it took, the time in which nothing ran not counted.
        took_ns: Nanos,
    },
    /// Hosts were lost and are left out from here on.
    Lost {
        /// The cycle.
        cycle: u32,
        /// Which hosts.
        hosts: Vec<String>,
        /// How that was noticed.
        reason: String,
    },
    /// Hosts that were lost take part again.
    Returned {
        /// The first cycle that they are measured in.
        cycle: u32,
        /// Which hosts.
        hosts: Vec<String>,
    },
    /// Hosts that wanted to come back and were not let in.
    Refused {
        /// Which hosts.
        hosts: Vec<String>,
        /// Why.
        reason: String,
    },
    /// The samples of a healthy cycle became histograms.
    Condensed {
        /// The cycle.
        cycle: u32,
        /// How many samples.
        samples: u64,
        /// Size of the file before.
        before: Bytes,
        /// Size of what is kept.
        after: Bytes,
    },
    /// The burn-in is over.
    Ended {
        /// Why: `finished` when it was loaded as long as was asked.
        reason: EndReason,
    },
}
