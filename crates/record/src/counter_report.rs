//! What the counters of ports did over a run, summed up.

use serde::{Deserialize, Serialize};

use crate::units::Nanos;

/// The counters of all ends of rails.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CounterReport {
    /// Ends of rails whose counters were read.
    pub ports: u32,
    /// What moved, traffic apart, the worst first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moved: Vec<MovedCounter>,
    /// How many more moved.
    #[serde(default)]
    pub more: u32,
    /// What could not be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<UnreadCounter>,
    /// Why the rules of this run could not be used, when they could not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

/// A counter that moved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MovedCounter {
    /// Host it is on.
    pub host: String,
    /// Rail by name.
    pub rail: String,
    /// Its name.
    pub name: String,
    /// What it speaks of: `physical`, `flap`, `congestion`, `loss`, `pcie`; none when it is not in the catalogue.
    pub kind: Option<String>,
    /// By how much it moved around cells.
    pub moved: u64,
    /// Whether it may have been more: it stands at its end.
    pub or_more: bool,
    /// How long it was watched; 0 in runs that do not say.
    pub watched_ns: Nanos,
    /// The rule it breaks.
    pub rule: Option<String>,
    /// `bad` or `suspicious`, when it breaks one.
    pub severity: Option<String>,
    /// How much that is in the rule's own terms.
    pub measured: Option<String>,
    /// What the rule accepts.
    pub bound: Option<String>,
}

/// A counter that could not be read; `ethtool/*` and the like are all of a source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UnreadCounter {
    /// Its name.
    pub name: String,
    /// Why; none when it is not there.
    pub why: Option<String>,
    /// At how many ends of rails.
    pub ports: u32,
}
