//! Shapes over message size: the points a curve is drawn from, and the bounds beyond which a shape is a finding.

use serde::{Deserialize, Serialize};

use super::Interval;
use crate::units::{Bytes, Nanos, Rate};

/// One point of the curve a finding about a shape rests on, beside what its peers reach at the same size. Ready to be plotted.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CurvePoint {
    /// The cell it was measured in.
    pub cell: u32,
    /// Message size.
    pub size: Bytes,
    /// Time of one iteration.
    pub time: Interval<Nanos>,
    /// Wire rate.
    pub rate: Interval<Rate>,
    /// The median of the peers' median times at this size; none without peers.
    pub peers: Option<Nanos>,
    /// Iterations that make up the point.
    pub iterations: u32,
    /// Of those, iterations that stalled.
    pub stalls: u32,
}

/// From where on a shape over message size is a finding.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ShapeRule {
    /// How far the rate may fall as messages grow (0.25 = by a quarter).
    pub dip: f64,
    /// How many times as long as its peers a smallest message may take.
    pub floor_factor: f64,
    /// How many times as large as its peers' the size may be at which half of the best rate is reached.
    pub ramp_factor: f64,
    /// An iteration that takes this much longer than the median of its cell, and twice as long, has stalled.
    pub stall: Nanos,
    /// The share of the goodput that iterations of twice the median and longer may cost (0.1 = a tenth).
    #[serde(default = "most_lost")]
    pub lost: f64,
    /// How far apart two clusters of times must lie to be two (0.25 = the slower ones take a quarter longer).
    pub gap: f64,
}

impl Default for ShapeRule {
    fn default() -> ShapeRule {
        ShapeRule {
            dip: 0.25,
            floor_factor: 1.5,
            ramp_factor: 2.0,
            stall: Nanos(40_000_000),
            lost: most_lost(),
            gap: 0.25,
        }
    }
}

fn most_lost() -> f64 {
    0.1
}
