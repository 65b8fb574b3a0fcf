//! Parts that may be at fault, ranked.

use serde::{Deserialize, Serialize};
use strum::Display;

/// What a suspect is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Display)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
#[cfg_attr(feature = "schema", schemars(rename = "PartKind"))]
pub enum SuspectKind {
    /// A host with all it has.
    Node,
    /// One GPU, or one rank where several share a host.
    Gpu,
    /// A NIC or one of its ports.
    Port,
    /// A cable between a host and a leaf.
    HostCable,
    /// A leaf switch.
    Leaf,
    /// A cable between switches.
    FabricCable,
    /// A spine switch.
    Spine,
    /// A switch above the spines.
    Core,
    /// All cables of a rail.
    Rail,
    /// Every cable there is.
    Fabric,
    /// Something between two ends that is not known any closer.
    Path,
}

/// A part that may be at fault.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Suspect {
    /// The part: a cable in one direction, a switch, a host.
    pub part: String,
    /// What it is.
    pub kind: SuspectKind,
    /// The cable by name, when it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cable: Option<String>,
    /// Which direction of it, in words: `away from the host`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direction: Option<String>,
    /// How sure, from 0 to 1: all suspects of a finding share 1.
    pub confidence: f64,
    /// What speaks for it.
    pub why: String,
}

/// The direction of a cable that is meant in both.
pub const BOTH_DIRECTIONS: &str = "both directions";

impl Suspect {
    /// Whether it is a cable that is meant in both directions.
    pub fn is_both_directions(&self) -> bool {
        self.direction.as_deref() == Some(BOTH_DIRECTIONS)
    }
}
