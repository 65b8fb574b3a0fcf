//! What the machines of a cell allow: which memory a GPU reaches, and which kernels must fit on one GPU together.

use record::{Cell, Collective};

/// How one rank's GPU reaches another rank's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryAccess {
    /// By address: on the same GPU, or as mapped peer memory.
    Direct {
        /// Whether both are on one GPU, so that flags need GPU scope only.
        same_gpu: bool,
    },
    /// Not at all: proxy threads on both hosts move the data over a network.
    Proxy,
}

/// Ranks that share a GPU: their kernels wait for each other, so they must be resident together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchGroup {
    /// World ranks of the cell.
    pub ranks: Vec<u32>,
    /// Thread blocks that fit on the GPU at once, for this cell.
    pub capacity: u32,
}

/// The most ranks whose ops and ports the low-latency kernel holds.
const MOST_RANKS_IN_WORDS: usize = 32;

/// What the machines allow a cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Every rank of the cell is in exactly one group.
    pub launch_groups: Vec<LaunchGroup>,
    /// Threads of a block.
    pub threads: u32,
    /// Overrides for measurements of the engine itself.
    pub words_up_to: Option<usize>,
    /// See `Tuning::chunk`.
    pub longest_chunk: Option<usize>,
    /// See `Tuning::lag`.
    pub lag: Option<u32>,
}

impl Limits {
    /// The limits of these groups, without overrides.
    pub fn new(launch_groups: Vec<LaunchGroup>, threads: u32) -> Limits {
        Limits {
            launch_groups,
            threads,
            words_up_to: None,
            longest_chunk: None,
            lag: None,
        }
    }

    /// Whether the low-latency protocol may carry a cell: only where every rank's result depends on every rank.
    pub(super) fn words_allowed(&self, cell: &Cell) -> bool {
        cell.collective == Collective::AllReduce && (2..=MOST_RANKS_IN_WORDS).contains(&cell.world())
    }
}
