//! Which protocol, how many workers, how long a chunk: by size, from a cost model whose constants were measured.
//!
//! A collective costs a fixed time, a time per message in its longest chain, and a time per byte that all ranks of the
//! busiest GPU send together. The low-latency protocol has short steps and expensive bytes, the bandwidth protocol the reverse;
//! the cheaper one is chosen. `docs/method.md` explains how the constants were fitted, `docs/performance.md` lists the figures.

use super::limits::{LaunchGroup, Limits};
use record::{Algorithm, Cell, Collective};

/// Protocol, workers and chunks of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tuning {
    /// Whether the low-latency protocol carries it.
    pub words: bool,
    /// Workers of every rank.
    pub workers: u32,
    /// Threads of a block.
    pub threads: u32,
    /// Bytes of a chunk.
    pub chunk: usize,
    /// Iterations between an op and the one its data comes from.
    pub lag: u32,
}

/// What a protocol costs, in nanoseconds.
struct Cost {
    fixed: f64,
    per_message: f64,
    per_byte: f64,
}

impl Cost {
    fn of(&self, chain: u32, bytes: f64) -> f64 {
        self.fixed + self.per_message * f64::from(chain) + self.per_byte * bytes
    }
}

/// Data and flag in one store. In a tree fewer ranks do the work, so a byte costs more.
const WORDS: Cost = Cost {
    fixed: 5_700.0,
    per_message: 480.0,
    per_byte: 2.1e-3,
};
const WORDS_IN_A_TREE: Cost = Cost {
    fixed: 5_000.0,
    per_message: 600.0,
    per_byte: 3.3e-3,
};
/// Chunks behind flags.
const WALK: Cost = Cost {
    fixed: 7_200.0,
    per_message: 2_050.0,
    per_byte: 0.57e-3,
};
const WALK_IN_A_TREE: Cost = Cost {
    fixed: 3_800.0,
    per_message: 2_400.0,
    per_byte: 0.55e-3,
};

/// The longest chunks: data in flight between ranks should stay in the GPU's L2 cache, and more ranks have more in flight. Two
/// ranks forward nothing, so theirs may be longer.
const CHUNK_OF_TWO: usize = 256 << 10;
const CHUNK_OF_A_RING: usize = 64 << 10;
const CHUNK_OF_A_TREE: usize = 128 << 10;
/// Shorter chunks cost more in flags than they gain.
const SHORTEST_CHUNK: usize = 8 << 10;

/// Over a network with proxy threads: a few workers fill any wire, and chunks have the host's size.
const WORKERS_OVER_A_NETWORK: u32 = 4;
const CHUNK_OVER_A_NETWORK: usize = 128 << 10;
const LAG_OVER_A_NETWORK: u32 = 2;

impl Tuning {
    /// The choice for a cell. `movers` is the most workers that fit for each rank that moves data; `direct` whether every
    /// rank reaches every other's memory.
    pub fn choose(cell: &Cell, limits: &Limits, movers: u32, direct: bool) -> Tuning {
        let size = cell.size.as_usize();
        let is_tree = matches!(cell.algorithm, Algorithm::Tree | Algorithm::DoubleTree);
        let blocks = match (cell.collective, cell.algorithm) {
            (_, Algorithm::Tree)
            | (Collective::PointToPoint | Collective::Bidirectional | Collective::RoundTrip, _) => 1,
            (_, Algorithm::DoubleTree) => 2,
            _ => cell.world(),
        };
        let block = size.div_ceil(blocks.max(1));
        if direct && limits.words_allowed(cell) && words_are_cheaper(cell, limits, is_tree) {
            let units = block.div_ceil(4).max(1);
            let threads = (units.next_multiple_of(32) as u32).clamp(32, limits.threads.max(32));
            let workers = (units.div_ceil(threads as usize) as u32).clamp(1, movers.max(1));
            return Tuning {
                words: true,
                workers,
                threads: threads.min(limits.threads),
                chunk: 128,
                lag: 0,
            };
        }
        let (movers, longest, lag) = if !direct {
            let movers = movers.min(WORKERS_OVER_A_NETWORK);
            (
                movers,
                CHUNK_OVER_A_NETWORK,
                if is_tree { LAG_OVER_A_NETWORK } else { 0 },
            )
        } else if cell.world() <= 2 {
            (movers, CHUNK_OF_TWO, 0)
        } else if is_tree {
            // A deep tree gains from chunks that follow each other at a distance; a shallow one only pays for them.
            (movers, CHUNK_OF_A_TREE, u32::from(cell.world() > 4))
        } else {
            (movers, CHUNK_OF_A_RING, 0)
        };
        let lag = limits.lag.unwrap_or(lag);
        // A pipeline needs chunks to be filled with; a ring is busy with one per worker and step.
        let each = if lag > 0 { 4 } else { 1 };
        let longest = limits.longest_chunk.unwrap_or(longest);
        let chunk = block.div_ceil(movers.max(1) as usize * each);
        let chunk = chunk
            .clamp(SHORTEST_CHUNK.min(longest), longest)
            .next_multiple_of(128);
        let workers = (block.div_ceil(chunk) as u32).clamp(1, movers.max(1));
        Tuning {
            words: false,
            workers,
            threads: limits.threads,
            chunk,
            lag,
        }
    }
}

fn words_are_cheaper(cell: &Cell, limits: &Limits, is_tree: bool) -> bool {
    if let Some(limit) = limits.words_up_to {
        return cell.size.as_usize() <= limit;
    }
    let n = cell.world() as u32;
    let depth = n.next_power_of_two().ilog2();
    let chain = if is_tree { 2 * depth } else { 2 * (n - 1) };
    // Every all-reduce sends the payload 2 (n-1) times in all; the busiest GPU's share of that is its share of the ranks.
    let busiest = limits
        .launch_groups
        .iter()
        .map(|group: &LaunchGroup| group.ranks.len())
        .max();
    let share = busiest.unwrap_or(1) as f64 / f64::from(n);
    let bytes = cell.size.0 as f64 * 2.0 * f64::from(n - 1) * share;
    let (words, walk) = if is_tree {
        (WORDS_IN_A_TREE, WALK_IN_A_TREE)
    } else {
        (WORDS, WALK)
    };
    words.of(chain, bytes) <= walk.of(chain, bytes)
}
