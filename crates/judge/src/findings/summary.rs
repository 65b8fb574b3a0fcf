//! From samples to one summary per cell.
//!
//! A collective's time is the maximum over its ranks; only iterations that every rank of the cell completed count.
//! Rounds are pooled for the reported numbers and kept separate for confirmation. Samples are bucketed by cell in one
//! pass and each cell is summarised on its own, so a million of them take a fraction of a second.

use std::collections::{HashMap, HashSet};

use rayon::prelude::*;

use super::busy::{Busy, busy_of};
use super::iterations::{Buckets, Iterations, Round};
use super::start_skew::{unseen_skews, without_skew};
use super::variation::{self, Variation};
use super::wire::Wire;
use record::stats::{MedianInterval, interval_of_sorted};
use record::units::{Bytes, Nanos, Rate};
use record::{Cell, CellDone, EndReason, Event, Interval, Recorded};

/// What was measured of one cell.
#[derive(Debug, Clone)]
pub(crate) struct CellSummary<'a> {
    pub(crate) cell: &'a Cell,
    /// Times of all complete iterations, ascending.
    pub(crate) times: Vec<u64>,
    /// Rounds with enough iterations for an interval, in order.
    pub(crate) rounds: Vec<Round>,
    /// The rank that finished last most often, and its share.
    pub(crate) slowest_rank: Option<(u32, f64)>,
    /// How long each rank was busy itself.
    pub(crate) busy: Vec<Busy>,
    /// Bytes on its links.
    pub(crate) wire: Wire,
    /// Iterations whose data was checked.
    pub(crate) verified: u32,
    /// Whether a round was measured to its end.
    pub(crate) done: bool,
    /// Why it was not run, when the runner said so.
    pub(crate) not_run: Option<&'a str>,
    /// Whether it tells what its kind reaches, and how much that varies. What was sent to ask about a suspect does not: it may be mostly slow.
    pub(crate) is_typical: bool,
    /// What varies between healthy measurements of its kind.
    pub(crate) variation: Variation,
    /// By how much its times may be too long, because its ranks may not have started together.
    pub(crate) unseen_skew: Nanos,
}

impl CellSummary<'_> {
    /// The interval of the time, with what varies between measurements.
    pub(crate) fn time(&self, confidence: f64) -> Option<MedianInterval> {
        let mut own = interval_of_sorted(&self.times, confidence)?;
        own.lower = without_skew(own.lower as f64, self.unseen_skew) as u64;
        Some(self.variation.of_time(own, self.rounds.len()))
    }

    /// Why the cell was not measured to its end.
    pub(crate) fn why_not_measured(&self, recorded: &Recorded) -> String {
        let ended = how_it_ended(recorded);
        match (self.not_run, self.times.len()) {
            (Some(reason), _) => reason.to_string(),
            (None, _) if self.done => "no iteration is complete on all its ranks".to_string(),
            (None, 0) => format!("{ended} before it"),
            (None, n) => format!("{ended} in the middle of it, {n} complete iterations kept"),
        }
    }

    /// One of its rounds, where it has iterations.
    pub(crate) fn round(&self, number: u16) -> Option<&Round> {
        self.rounds.iter().find(|round| round.number == number)
    }

    /// The interval of the wire rate over all rounds, with what varies between measurements.
    pub(crate) fn wire_rate(&self, confidence: f64) -> Option<Interval<Rate>> {
        let own = self.own_rate(confidence)?;
        Some(self.variation.of_rate(own, self.rounds.len()))
    }

    /// The interval of the median wire rate, by its own iterations alone, and by what is not known of its ranks' starts.
    pub(crate) fn own_rate(&self, confidence: f64) -> Option<Interval<Rate>> {
        let (seen, bytes) = (self.seen_rate(confidence)?, self.wire.bytes()?);
        let shortest = without_skew(bytes.0 as f64 * 1e9 / seen.upper.0, self.unseen_skew);
        let upper = match self.unseen_skew {
            Nanos(0) => seen.upper,
            _ => Rate(bytes.0 as f64 * 1e9 / shortest),
        };
        Some(Interval { upper, ..seen })
    }

    /// The interval of the median wire rate, if its ranks started together as exactly as it seems.
    pub(crate) fn seen_rate(&self, confidence: f64) -> Option<Interval<Rate>> {
        rate_interval(&self.times, self.wire.bytes()?, confidence)
    }
}

/// The rate interval that `bytes` in ascending `times` amount to; the longest time gives the lowest rate.
pub(crate) fn rate_interval(times: &[u64], bytes: Bytes, confidence: f64) -> Option<Interval<Rate>> {
    let time = interval_of_sorted(times, confidence)?;
    Some(Interval {
        median: (time.median > 0.0).then(|| Rate(bytes.0 as f64 * 1e9 / time.median))?,
        lower: Rate::of(bytes, Nanos(time.upper))?,
        upper: Rate::of(bytes, Nanos(time.lower))?,
    })
}

/// One summary per planned cell, in plan order. Samples of unknown cells and ranks are left out.
pub(crate) fn summarise(recorded: &Recorded) -> Vec<CellSummary<'_>> {
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
    let unseen_skews = unseen_skews(recorded, &place_of);
    let added = recorded.events.iter().filter_map(|event| match event {
        Event::Added { cells, .. } => Some(cells),
        _ => None,
    });
    let added: HashSet<u32> = added.flatten().map(|cell| cell.id).collect();
    let rule = &recorded.run.rule;
    let assumed = Variation::assumed(rule.confidence);
    let mut summaries: Vec<CellSummary<'_>> = (0..cells.len())
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
                is_typical: !added.contains(&cell.id),
                variation: assumed,
                unseen_skew: unseen_skews[place],
            }
        })
        .collect();
    let typical = typical_cells(&summaries);
    for (summary, is_typical) in summaries.iter_mut().zip(typical) {
        summary.is_typical = is_typical;
    }
    variation::estimate(&mut summaries, rule.confidence);
    summaries
}

/// Which cells tell what their kind reaches. Where a kind has none that was planned at first, what was added must do. Where more was added than planned, it
/// is not one part that was asked about.
fn typical_cells(summaries: &[CellSummary<'_>]) -> Vec<bool> {
    let mut numbers = HashMap::new();
    // Planned at first, and added.
    let mut counts: Vec<[usize; 2]> = Vec::new();
    let mut kinds = Vec::with_capacity(summaries.len());
    for summary in summaries {
        let kind = *numbers.entry(summary.cell.peer_key()).or_insert(counts.len());
        if kind == counts.len() {
            counts.push([0; 2]);
        }
        counts[kind][usize::from(!summary.is_typical)] += usize::from(summary.done);
        kinds.push(kind);
    }
    let is_typical = |(summary, kind): (&CellSummary<'_>, usize)| {
        let [planned, added] = counts[kind];
        summary.is_typical || planned == 0 || (added > planned && !summary.cell.load.is_filling())
    };
    summaries.iter().zip(kinds).map(is_typical).collect()
}

/// How a run ended, as the beginning of a reason.
pub(crate) fn how_it_ended(recorded: &Recorded) -> &'static str {
    let end = recorded.events.iter().rev().find_map(|event| match event {
        Event::End { reason, .. } => Some(*reason),
        _ => None,
    });
    match end {
        Some(EndReason::Finished) => "the run finished",
        Some(EndReason::Interrupted) => "the run was interrupted",
        Some(EndReason::Budget) => "the run's time budget was spent",
        Some(EndReason::Lost) => "the run lost a rank or hung",
        Some(EndReason::Failed) => "the run failed",
        None => "the run was cut off",
    }
}
