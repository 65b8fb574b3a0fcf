//! From samples to one summary per cell.
//!
//! A collective's time is the maximum over its ranks; only iterations that every rank of the cell completed count. Rounds
//! are pooled for the numbers that are reported and kept apart for confirmation. Samples are bucketed by cell in one pass
//! and each cell is summarised on its own, so a million of them take a fraction of a second.

use std::collections::HashMap;

use rayon::prelude::*;

use super::busy::{Busy, busy_of};
use super::wire::Wire;
use record::stats::{MedianInterval, interval_of_sorted};
use record::units::{Bytes, Nanos, Rate};
use record::{Cell, CellDone, Event, Interval, Recorded, Sample};

/// One measurement round of a cell.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Round {
    /// Its number: 0 for the first measurement.
    pub(super) number: u16,
    /// Times of its complete iterations, ascending.
    pub(super) times: Vec<u64>,
}

/// What was measured of one cell.
#[derive(Debug, Clone)]
pub(super) struct CellSummary<'a> {
    pub(super) cell: &'a Cell,
    /// Times of all complete iterations, ascending.
    pub(super) times: Vec<u64>,
    /// Rounds with enough iterations for an interval, in order.
    pub(super) rounds: Vec<Round>,
    /// The rank that finished last most often, and its share.
    pub(super) slowest_rank: Option<(u32, f64)>,
    /// How long each rank was busy itself.
    pub(super) busy: Vec<Busy>,
    /// Bytes on its links.
    pub(super) wire: Wire,
    /// Iterations whose data was checked.
    pub(super) verified: u32,
    /// Whether a round was measured to its end.
    pub(super) done: bool,
    /// Why it was not run, when the runner said so.
    pub(super) not_run: Option<&'a str>,
}

impl CellSummary<'_> {
    /// The interval of the median time.
    pub(super) fn time(&self, confidence: f64) -> Option<MedianInterval> {
        interval_of_sorted(&self.times, confidence)
    }

    /// The interval of the median wire rate over all rounds.
    pub(super) fn wire_rate(&self, confidence: f64) -> Option<Interval<Rate>> {
        rate_interval(&self.times, self.wire.bytes()?, confidence)
    }
}

/// The rate interval that `bytes` in ascending `times` amount to; the longest time gives the lowest rate.
pub(super) fn rate_interval(times: &[u64], bytes: Bytes, confidence: f64) -> Option<Interval<Rate>> {
    let time = interval_of_sorted(times, confidence)?;
    Some(Interval {
        median: (time.median > 0.0).then(|| Rate(bytes.0 as f64 * 1e9 / time.median))?,
        lower: Rate::of(bytes, Nanos(time.upper))?,
        upper: Rate::of(bytes, Nanos(time.lower))?,
    })
}

/// One summary per planned cell, in plan order. Samples of unknown cells and ranks are left out.
pub(super) fn summarise(recorded: &Recorded) -> Vec<CellSummary<'_>> {
    let cells = &recorded.run.cells;
    let mut place_of: HashMap<u32, usize> = HashMap::with_capacity(cells.len());
    for (place, cell) in cells.iter().enumerate() {
        place_of.entry(cell.id).or_insert(place);
    }
    let buckets = Buckets::of(&recorded.samples, &place_of, cells.len());
    let mut rounds_done: Vec<Vec<&CellDone>> = vec![Vec::new(); cells.len()];
    let mut not_run: Vec<Option<&str>> = vec![None; cells.len()];
    for event in &recorded.events {
        match event {
            Event::CellDone(done) => {
                if let Some(place) = place_of.get(&done.cell) {
                    rounds_done[*place].push(done);
                }
            }
            Event::NotRun { cell, reason } => {
                if let Some(place) = place_of.get(cell) {
                    not_run[*place] = Some(reason);
                }
            }
            _ => {}
        }
    }
    let rule = &recorded.run.rule;
    (0..cells.len())
        .into_par_iter()
        .map(|place| {
            let cell = &cells[place];
            let iterations = Iterations::of(cell, &recorded.samples, buckets.of_cell(place));
            CellSummary {
                cell,
                times: iterations.all_times(),
                rounds: iterations.rounds(rule.confidence),
                slowest_rank: iterations.slowest_rank(),
                busy: busy_of(&iterations, rule),
                wire: Wire::of(cell.engine, &rounds_done[place]),
                verified: rounds_done[place]
                    .iter()
                    .fold(0, |sum, done| sum.saturating_add(done.verified)),
                done: !rounds_done[place].is_empty(),
                not_run: not_run[place],
            }
        })
        .collect()
}

/// Positions of samples, bucketed by cell: two passes, no allocation per cell.
struct Buckets {
    starts: Vec<usize>,
    positions: Vec<u32>,
}

impl Buckets {
    fn of(samples: &[Sample], place_of: &HashMap<u32, usize>, cells: usize) -> Buckets {
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

    fn of_cell(&self, place: usize) -> &[u32] {
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
    fn of(cell: &Cell, all: &[Sample], positions: &[u32]) -> Iterations {
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

    fn all_times(&self) -> Vec<u64> {
        let mut times: Vec<u64> = self.iter().map(|samples| last_to_finish(samples).0).collect();
        times.sort_unstable();
        times
    }

    fn rounds(&self, confidence: f64) -> Vec<Round> {
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

    fn slowest_rank(&self) -> Option<(u32, f64)> {
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
