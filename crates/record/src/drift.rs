//! What differs between parts that should be alike, and what changed since an earlier inventory.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Fact, PartAt, PartClass};

/// Why a value is expected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum DriftBasis {
    /// A golden file says so.
    Golden {
        /// The file.
        file: String,
        /// Line, counted from 1.
        line: u32,
        /// The line in words: `firmware = "28.43.2026"`, or a rule of what goes together.
        text: String,
    },
    /// More than half of the parts that are alike say so.
    Majority {
        /// How many.
        agree: u32,
        /// Of how many whose value is known.
        of: u32,
    },
    /// The other end of the cable says so.
    OtherEnd {
        /// What is there.
        end: PartAt,
    },
    /// The part itself says that it could do more: a card that trained to half its lanes.
    Capability {
        /// The fact that says so.
        fact: String,
        /// How many parts of the kind there are whose value is known: where all of them fall short, it may be their slots.
        #[serde(default)]
        of: u32,
    },
}

/// Parts that are not as they should be, all with the same value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Deviation {
    /// The rule's name: `nic-firmware`.
    pub rule: String,
    /// What the parts are.
    pub class: PartClass,
    /// Which fact of them.
    pub fact: String,
    /// What they say; none when they lack it and should not.
    pub value: Option<String>,
    /// What they should say.
    pub expected: String,
    /// Who says so.
    pub basis: DriftBasis,
    /// What makes the parts alike that they were compared with: `board MT_0000000838`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub like: Option<String>,
    /// The parts, in order.
    pub parts: Vec<PartAt>,
    /// Why that matters.
    pub because: String,
    /// What to do.
    pub advice: String,
    /// Whether it goes with what was slow; none where nothing was measured of these parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<DriftEffect>,
}

/// Parts with and without a value, and how many of each were slow: a table of four numbers and its exact test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DriftEffect {
    /// Slow parts among those with the value.
    pub slow_with: u32,
    /// Parts with the value that were measured.
    pub with: u32,
    /// Slow parts among those without it.
    pub slow_without: u32,
    /// Parts without it that were measured.
    pub without: u32,
    /// Fisher's exact test, one-sided (slow more often with it), corrected for the number of facts that were tried.
    pub p_value: f64,
    /// What was counted for it: where a value is the same for a whole host or rail, the parts of one do not count each for itself.
    #[serde(default)]
    pub by: EffectUnit,
    /// How many were tried.
    pub comparisons: u32,
    /// Whether it explains what is slow.
    pub explains: bool,
}

/// What counts as one case where a value is set against what was slow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, strum::Display)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum EffectUnit {
    /// Each part.
    #[default]
    Part,
    /// Each host with all its parts.
    Host,
    /// Each rail with all its ends.
    Rail,
}

/// A value that may differ in a healthy fleet and goes with what was slow: whose optics, which board.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Trait {
    /// What the parts are.
    pub class: PartClass,
    /// Which fact of them.
    pub fact: String,
    /// What those say that are slow.
    pub value: String,
    /// How it goes with what was slow.
    pub effect: DriftEffect,
}

/// A fact about which no more than half of the parts that are alike agree: who is right cannot be told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Disagreement {
    /// The rule's name.
    pub rule: String,
    /// What the parts are.
    pub class: PartClass,
    /// Which fact of them.
    pub fact: String,
    /// What makes them alike: `board MT_0000000838`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub like: Option<String>,
    /// Every value and the parts that have it.
    pub values: BTreeMap<String, Vec<PartAt>>,
    /// For values whose parts were measured: whether they go with what was slow.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub effects: BTreeMap<String, DriftEffect>,
}

/// Something that is not as it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Change {
    /// What the part is.
    pub class: PartClass,
    /// Which.
    pub at: PartAt,
    /// Which fact; none when the part itself came or went.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fact: Option<String>,
    /// What it was; none when it was not there.
    pub before: Option<Fact>,
    /// What it is; none when it is not there any more.
    pub after: Option<Fact>,
}

/// A fact that could not be read on some nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Unreadable {
    /// What the parts are.
    pub class: PartClass,
    /// Which fact.
    pub fact: String,
    /// Why.
    pub why: String,
    /// The privilege it takes, when it is that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs: Option<String>,
    /// Nodes on which it could not be read, in order.
    pub nodes: Vec<String>,
}

/// What the inventory of a cluster says.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Drift {
    /// Hosts and switches that were compared.
    pub nodes: u32,
    /// The golden file, when there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub golden: Option<String>,
    /// Parts that are not as they should be.
    pub deviations: Vec<Deviation>,
    /// Where it cannot be told which are not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disagreements: Vec<Disagreement>,
    /// When the inventory was taken that changes are told against, when there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// What changed since then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Change>,
    /// What could not be read, and so was not compared.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unreadable: Vec<Unreadable>,
    /// What the slow parts have in common though it is not drift.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub traits: Vec<Trait>,
    /// Lines of the golden file that are about no part there is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unused: Vec<String>,
    /// Why the golden file could not be used, when it could not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub troubles: Vec<String>,
}
