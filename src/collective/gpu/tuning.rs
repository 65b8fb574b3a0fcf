//! Which protocol, how many workers, how long a chunk: by size, from measurements.
//!
//! What is weighed is explained in `docs/method.md`, with the figures behind the constants.

use super::Limits;
use crate::record::{Algorithm, Cell, Collective};

/// How a cell is cut up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tuning {
    /// Whether the low-latency protocol carries it.
    pub words: bool,
    /// Workers of every rank, at most.
    pub workers: u32,
    /// Threads of a block.
    pub threads: u32,
    /// Bytes of a chunk.
    pub chunk: usize,
    /// Iterations between an op and the one its data comes from.
    pub lag: u32,
}

/// Bytes of a payload up to which the low-latency protocol is faster, per rank count; measured.
const WORDS_UP_TO: usize = 256 << 10;

/// A chunk is at most this long.
const LONGEST_CHUNK: usize = 128 << 10;
/// And at least this long, where a block is cut at all.
const SHORTEST_CHUNK: usize = 8 << 10;

impl Tuning {
    /// The choice for a cell. `movers` is the most workers that fit for each rank that moves data.
    pub fn choose(cell: &Cell, limits: &Limits, movers: u32) -> Tuning {
        let size = cell.size.as_usize();
        let words = limits.words_allowed(cell) && size <= limits.words_up_to.unwrap_or(WORDS_UP_TO);
        let blocks = match (cell.collective, cell.algorithm) {
            (Collective::AllReduce, Algorithm::Tree) | (Collective::Broadcast, _) => 1,
            (Collective::AllReduce, Algorithm::DoubleTree) => 2,
            (Collective::PointToPoint | Collective::Bidirectional, _) => 1,
            _ => cell.world(),
        };
        let block = size.div_ceil(blocks.max(1));
        if words {
            let units = block.div_ceil(4).max(1);
            let threads = (units.next_multiple_of(32) as u32).clamp(32, limits.threads);
            let workers = (units.div_ceil(threads as usize) as u32).clamp(1, movers);
            return Tuning {
                words,
                workers,
                threads,
                chunk: 128,
                lag: 0,
            };
        }
        let pipelined = blocks == 1 || cell.algorithm == Algorithm::DoubleTree;
        let lag = limits.lag.unwrap_or(u32::from(pipelined));
        // A pipeline needs chunks to be filled with; a ring is busy with one per worker and step.
        let each = if lag > 0 { 4 } else { 1 };
        let longest = limits.longest_chunk.unwrap_or(LONGEST_CHUNK);
        let chunk = block.div_ceil(movers.max(1) as usize * each);
        let chunk = chunk
            .clamp(SHORTEST_CHUNK.min(longest), longest)
            .next_multiple_of(128);
        let workers = (block.div_ceil(chunk) as u32).clamp(1, movers.max(1));
        Tuning {
            words,
            workers,
            threads: limits.threads,
            chunk,
            lag,
        }
    }
}
