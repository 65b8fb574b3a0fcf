//! What a load does to those who take no part in it.

use serde::{Deserialize, Serialize};

use super::{Collective, Interval};
use crate::units::{Bytes, Nanos};

/// A victim alone and under load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Congestion {
    /// Name of the test.
    pub test: String,
    /// Rail by name.
    pub rail: String,
    /// What the load was: `incast` or `all-to-all`.
    pub load: Collective,
    /// Ranks that made the load; the receiver first, in an incast.
    pub loaders: Vec<u32>,
    /// Payload of the load.
    pub load_size: Bytes,
    /// Sender and receiver of the victim.
    pub victim: Vec<u32>,
    /// What the victim did: a flow (`point-to-point`) or round trips of small messages.
    pub measured_by: Collective,
    /// The cell that was alone.
    pub alone_cell: u32,
    /// The same under load.
    pub under_cell: u32,
    /// The cell of the load.
    pub load_cell: u32,
    /// Time alone.
    pub alone: Interval<Nanos>,
    /// Time under load.
    pub under: Interval<Nanos>,
    /// 99th percentile alone.
    pub alone_p99: Nanos,
    /// 99th percentile under load.
    pub under_p99: Nanos,
    /// The congestion impact factor: median time under load over that alone. 1 is no impact.
    pub impact: f64,
}
