//! Cells and hosts of a recorded run, found by their ids.

use std::collections::{BTreeSet, HashMap};

use record::{Cell, Recorded, Run};

/// A recorded run with an index of its cells.
pub(super) struct RunIndex<'a> {
    /// The record.
    pub(super) recorded: &'a Recorded,
    /// Position in the plan by cell id; the first, where an id occurs twice.
    positions: HashMap<u32, usize>,
}

impl<'a> RunIndex<'a> {
    pub(super) fn of(recorded: &'a Recorded) -> RunIndex<'a> {
        let cells = &recorded.run.cells;
        let mut positions = HashMap::with_capacity(cells.len());
        for (position, cell) in cells.iter().enumerate() {
            positions.entry(cell.id).or_insert(position);
        }
        RunIndex { recorded, positions }
    }

    /// What was run.
    pub(super) fn run(&self) -> &'a Run {
        &self.recorded.run
    }

    /// The planned cell with this id.
    pub(super) fn cell(&self, id: u32) -> Option<&'a Cell> {
        self.place(id).map(|place| &self.run().cells[place])
    }

    /// The position in the plan of the cell with this id.
    pub(super) fn place(&self, id: u32) -> Option<usize> {
        self.positions.get(&id).copied()
    }

    /// The slot of a cell; its own id where the plan does not have it.
    pub(super) fn slot(&self, id: u32) -> u32 {
        self.cell(id).map_or(id, |cell| cell.slot)
    }

    /// The host of a rank.
    pub(super) fn host(&self, rank: u32) -> Option<&'a str> {
        let mut ranks = self.run().ranks.iter();
        ranks
            .find(|record| record.rank == rank)
            .map(|record| record.host.as_str())
    }

    /// The hosts of some ranks, each once, in order.
    pub(super) fn hosts(&self, ranks: &[u32]) -> Vec<String> {
        let hosts: BTreeSet<&str> = ranks.iter().filter_map(|rank| self.host(*rank)).collect();
        hosts.into_iter().map(str::to_string).collect()
    }
}
