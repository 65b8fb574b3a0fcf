//! What was measured of what was planned, down to every cable.

use serde::{Deserialize, Serialize};
use strum::Display;

use super::Untested;
use crate::units::Rate;

/// What was measured of what was planned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Coverage {
    /// Cells planned.
    pub planned: u32,
    /// Cells measured to their end.
    pub measured: u32,
    /// Planned but not measured, with the reason.
    pub not_measured: Vec<Untested>,
    /// Left out by the plan, with the reason.
    pub untested: Vec<Untested>,
    /// What was asked of every cable in each direction; empty when the run was not told which cable is where.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<LinkCoverage>,
}

/// What was asked of one cable in one direction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LinkCoverage {
    /// The cable in one direction, as `h2/rail1->leaf1/p0`.
    pub link: String,
    /// The cable by name.
    pub cable: String,
    /// Its rail.
    pub rail: Option<String>,
    /// What it should carry.
    pub rate: Rate,
    /// Cells whose data crossed it, as far as paths are known.
    pub flows: u32,
    /// The most it carried at one time.
    pub most: Option<Rate>,
    /// That over what it should carry.
    pub share: Option<f64>,
    /// What follows.
    pub state: LinkState,
    /// The smallest loss (0.2 = 20 %) that this run would have found on it with probability 0.9; none where it cannot be said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub smallest_loss: Option<f64>,
    /// Why it is not tested, when it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// What is known of one cable in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Display)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum LinkState {
    /// Nothing is known to have crossed it.
    Untested,
    /// Crossed, but never asked for what it should carry.
    Underloaded,
    /// Carried what it should.
    Healthy,
    /// May be slow: ambiguous with others, or not confirmed.
    Suspected,
    /// Slow.
    Slow,
}
