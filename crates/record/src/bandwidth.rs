//! The rates people know a collective's time by. What a link carried is another figure: see `CellDone::planned`.

use super::Cell;
use crate::units::{Nanos, Rate};

/// A cell's rates as nccl-tests defines them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bandwidths {
    /// Payload over time.
    pub algorithm: Option<Rate>,
    /// The same, scaled so that it compares across rank counts; equals the wire rate for rings only.
    pub bus: Option<Rate>,
}

impl Bandwidths {
    /// Those of `cell` when it took `time`.
    pub fn of(cell: &Cell, time: Nanos) -> Bandwidths {
        let algorithm = Rate::of(cell.size, time);
        let factor = cell.collective.bus_factor(cell.world());
        Bandwidths {
            algorithm,
            bus: algorithm.map(|rate| rate * factor),
        }
    }
}
