//! The complete iterations of cells, from samples bucketed by cell.

use std::collections::HashMap;

use record::stats::interval_of_sorted;
use record::{Cell, Sample};

/// One measurement round of a cell.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Round {
    /// Its number: 0 for the first measurement.
    pub(crate) number: u16,
    /// Times of its complete iterations, ascending.
    pub(crate) times: Vec<u64>,
}

/// Positions of samples, bucketed by cell: two passes, no allocation per cell.
pub(super) struct Buckets {
    starts: Vec<usize>,
    positions: Vec<u32>,
}

impl Buckets {
    pub(super) fn of(samples: &[Sample], place_of: &HashMap<u32, usize>, cells: usize) -> Buckets {
        // Consecutive samples mostly belong to the same cell, so the last answer is kept.
        let mut last = (None, None);
        let mut place = |sample: &Sample| {
            if last.0 != Some(sample.cell) {
                last = (Some(sample.cell), place_of.get(&sample.cell).copied());
            }
            last.1
        };
        let mut starts = vec![0usize; cells + 1];
        for sample in samples {
            if let Some(place) = place(sample) {
                starts[place + 1] += 1;
            }
        }
        for i in 0..cells {
            starts[i + 1] += starts[i];
        }
        let mut next = starts.clone();
        let mut positions = vec![0u32; starts[cells]];
        for (position, sample) in samples.iter().enumerate().take(u32::MAX as usize) {
            if let Some(place) = place(sample) {
                positions[next[place]] = position as u32;
                next[place] += 1;
            }
        }
        Buckets { starts, positions }
    }

    pub(super) fn of_cell(&self, place: usize) -> &[u32] {
        &self.positions[self.starts[place]..self.starts[place + 1]]
    }
}

/// The complete iterations of one cell: for each, one sample of every rank, in rank order.
pub(super) struct Iterations {
    /// The cell's ranks, ascending, each once.
    pub(super) ranks: Vec<u32>,
    samples: Vec<Sample>,
}

impl Iterations {
    pub(super) fn of(cell: &Cell, all: &[Sample], positions: &[u32]) -> Iterations {
        let mut ranks = cell.ranks.clone();
        ranks.sort_unstable();
        ranks.dedup();
        let mut samples: Vec<Sample> = positions.iter().map(|position| all[*position as usize]).collect();
        samples.retain(|sample| ranks.binary_search(&sample.rank).is_ok());
        let key = |sample: &Sample| (sample.round, sample.iter, sample.rank);
        samples.sort_by_key(key);
        samples.dedup_by_key(|sample| key(sample));
        let mut complete = Vec::with_capacity(samples.len());
        for iteration in samples.chunk_by(|a, b| (a.round, a.iter) == (b.round, b.iter)) {
            if iteration.len() == ranks.len() {
                complete.extend_from_slice(iteration);
            }
        }
        Iterations {
            ranks,
            samples: complete,
        }
    }

    /// Each complete iteration: one sample per rank, in rank order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &[Sample]> {
        self.samples.chunks_exact(self.ranks.len().max(1))
    }

    pub(super) fn all_times(&self) -> Vec<u64> {
        let mut times: Vec<u64> = self.iter().map(|samples| last_to_finish(samples).0).collect();
        times.sort_unstable();
        times
    }

    pub(super) fn rounds(&self, confidence: f64) -> Vec<Round> {
        let mut rounds: Vec<Round> = Vec::new();
        for samples in self.iter() {
            let number = samples.first().map_or(0, |sample| sample.round);
            if rounds.last().is_none_or(|last| last.number != number) {
                rounds.push(Round {
                    number,
                    times: Vec::new(),
                });
            }
            if let Some(round) = rounds.last_mut() {
                round.times.push(last_to_finish(samples).0);
            }
        }
        rounds.iter_mut().for_each(|round| round.times.sort_unstable());
        rounds.retain(|round| interval_of_sorted(&round.times, confidence).is_some());
        rounds
    }

    pub(super) fn slowest_rank(&self) -> Option<(u32, f64)> {
        let mut finished_last = vec![0u32; self.ranks.len()];
        let mut iterations = 0;
        for samples in self.iter() {
            finished_last[last_to_finish(samples).1] += 1;
            iterations += 1;
        }
        let most = *finished_last.iter().max().filter(|_| iterations > 0)?;
        let place = finished_last.iter().position(|count| *count == most)?;
        Some((self.ranks[place], f64::from(most) / f64::from(iterations)))
    }
}

/// The longest time of an iteration and the position of the rank that set it (the first, when several did).
fn last_to_finish(samples: &[Sample]) -> (u64, usize) {
    let mut last = (0, 0);
    for (position, sample) in samples.iter().enumerate() {
        if sample.ns > last.0 {
            last = (sample.ns, position);
        }
    }
    last
}
