//! Sporadic stalls: single iterations that take tens of milliseconds longer than the others, on one part more often
//! than on the rest. Medians do not show them; a job that waits for the slowest of a thousand links does.
//!
//! Iterations are counted per end of a rail, per pair and per rail. The part with the smallest p-value is named; then
//! the rest is tested again.

use std::collections::{BTreeMap, BTreeSet};

use super::candidate::{Candidate, RoundTally};
use crate::findings::summary::CellSummary;
use record::stats::{median_of_sorted, more_often};
use record::units::Nanos;
use record::{Cell, DecisionRule, FindingKind};

/// Fewer stalls than this say nothing.
const FEWEST: u64 = 3;
/// A part stalls this many times as often as the others at least.
const TIMES: f64 = 3.0;
/// What is usual where there is nothing to compare with: stalls, of iterations.
const USUAL: (u64, u64) = (2, 1000);

/// Stalls and iterations of one cell in one round.
#[derive(Debug, Clone, Copy, Default)]
struct StallCount {
    stalls: u64,
    iterations: u64,
    longest: u64,
}

impl StallCount {
    fn add(&mut self, other: StallCount) {
        self.stalls += other.stalls;
        self.iterations += other.iterations;
        self.longest = self.longest.max(other.longest);
    }

    fn share(self) -> f64 {
        self.stalls as f64 / self.iterations.max(1) as f64
    }
}

/// A group of cells that share a part.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum StallGroup<'a> {
    /// One path between two ranks.
    Pair(&'a [String], &'a [u32]),
    /// One rank's end of a rail.
    End(&'a [String], u32),
    /// A rail.
    Rail(&'a [String]),
}

/// How many iterations of a round stalled.
pub(super) fn stalls_of(times: &[u64], rule: &DecisionRule) -> u64 {
    tally(times, rule).stalls
}

fn tally(times: &[u64], rule: &DecisionRule) -> StallCount {
    let median = median_of_sorted(times).unwrap_or(0.0);
    let bound = (median + rule.shapes.stall.0 as f64).max(2.0 * median);
    let stalled = times.iter().rev().take_while(|time| **time as f64 > bound);
    StallCount {
        stalls: stalled.count() as u64,
        iterations: times.len() as u64,
        longest: times.last().copied().unwrap_or(0),
    }
}

/// The parts on which stalls gather, among cells of one test.
pub(super) fn of(summaries: &[CellSummary<'_>], rule: &DecisionRule, places: &[usize]) -> Vec<Candidate> {
    let mut left: BTreeSet<usize> = places.iter().copied().collect();
    let mut found: Vec<Candidate> = Vec::new();
    loop {
        let tallies: BTreeMap<usize, StallCount> = left
            .iter()
            .map(|place| (*place, whole(&summaries[*place], rule)))
            .collect();
        let all = tallies.values().fold(StallCount::default(), |mut sum, tally| {
            sum.add(*tally);
            sum
        });
        if all.stalls < FEWEST {
            return found;
        }
        let parts = parts(summaries, &left);
        let considered = parts.len() as f64;
        let judged = parts.into_iter().filter_map(|(part, cells)| {
            let own = cells.iter().fold(StallCount::default(), |mut sum, place| {
                sum.add(tallies[place]);
                sum
            });
            let others = (all.stalls - own.stalls, all.iterations - own.iterations);
            let stands_out = own.stalls >= FEWEST
                && others.1 > 0
                && own.share() >= TIMES * others.0 as f64 / others.1 as f64;
            let p_value = more_often(own.stalls, own.iterations, others.0, others.1);
            stands_out.then_some((p_value, part, cells, own, others))
        });
        let best = judged.min_by(|a, b| a.0.total_cmp(&b.0));
        let Some((p_value, part, cells, own, others)) =
            best.filter(|(p_value, ..)| p_value * considered < rule.false_positive_budget)
        else {
            found.extend(everywhere(summaries, rule, &left, all));
            return found;
        };
        let elsewhere = format!("{} of {} elsewhere", others.0, others.1);
        let outside: Vec<usize> = left.iter().copied().filter(|p| !cells.contains(p)).collect();
        let mut candidate = candidate(summaries, rule, &cells, &outside, own, &elsewhere);
        candidate.p_value = (p_value * considered).min(1.0);
        candidate.rails = match part {
            StallGroup::Pair(rails, ranks) => {
                candidate.ranks = ranks.to_vec();
                rails.to_vec()
            }
            StallGroup::End(rails, rank) => {
                candidate.ranks = vec![rank];
                rails.to_vec()
            }
            StallGroup::Rail(rails) => rails.to_vec(),
        };
        left.retain(|place| !cells.contains(place));
        found.push(candidate);
    }
}

/// Stalls that gather nowhere, and are more than usual.
fn everywhere(
    summaries: &[CellSummary<'_>],
    rule: &DecisionRule,
    left: &BTreeSet<usize>,
    all: StallCount,
) -> Option<Candidate> {
    let p_value = more_often(all.stalls, all.iterations, USUAL.0, USUAL.1);
    let cells: Vec<usize> = left.iter().copied().collect();
    let usual = format!("{} of {} would be usual", USUAL.0, USUAL.1);
    let mut candidate = candidate(summaries, rule, &cells, &[], all, &usual);
    candidate.p_value = p_value;
    (p_value < rule.false_positive_budget).then_some(candidate)
}

fn candidate(
    summaries: &[CellSummary<'_>],
    rule: &DecisionRule,
    cells: &[usize],
    outside: &[usize],
    own: StallCount,
    elsewhere: &str,
) -> Candidate {
    let in_round = |places: &[usize], number: u16| {
        let rounds = places.iter().flat_map(|place| &summaries[*place].rounds);
        let mut sum = StallCount::default();
        for round in rounds.filter(|round| round.number == number) {
            sum.add(tally(&round.times, rule));
        }
        sum
    };
    let stalled: Vec<usize> = cells
        .iter()
        .copied()
        .filter(|place| whole(&summaries[*place], rule).stalls > 0)
        .collect();
    let rounds: BTreeSet<u16> = stalled
        .iter()
        .flat_map(|place| summaries[*place].rounds.iter().map(|round| round.number))
        .collect();
    let mut candidate = Candidate::of_part(FindingKind::Intermittent, stalled);
    candidate.rounds_shown = RoundTally::at(&rounds.into_iter().collect::<Vec<u16>>(), |number| {
        let (here, there) = (in_round(cells, number), in_round(outside, number));
        here.stalls > 0 && here.share() >= TIMES * there.share()
    });
    let ranks: BTreeSet<u32> = cells
        .iter()
        .flat_map(|place| summaries[*place].cell.ranks.iter().copied())
        .collect();
    candidate.ranks = ranks.into_iter().collect();
    candidate.sentence = format!(
        "{} of {} iterations stall, the longest takes {}; {elsewhere}",
        own.stalls,
        own.iterations,
        Nanos(own.longest)
    );
    candidate.rule = format!(
        "intermittent: iterations that take {} longer than the median of their \
         cell, and twice as long, more often than elsewhere in every round",
        rule.shapes.stall
    );
    candidate
}

/// Stalls of a cell over all rounds.
fn whole(summary: &CellSummary<'_>, rule: &DecisionRule) -> StallCount {
    let mut sum = StallCount::default();
    for round in &summary.rounds {
        sum.add(tally(&round.times, rule));
    }
    sum
}

/// Every part, with its cells.
fn parts<'a>(
    summaries: &[CellSummary<'a>],
    places: &BTreeSet<usize>,
) -> BTreeMap<StallGroup<'a>, Vec<usize>> {
    let mut parts: BTreeMap<StallGroup<'a>, Vec<usize>> = BTreeMap::new();
    for place in places {
        let cell: &'a Cell = summaries[*place].cell;
        let mut add = |part| parts.entry(part).or_default().push(*place);
        add(StallGroup::Rail(&cell.rails));
        if let [first, second] = cell.ranks.as_slice() {
            add(StallGroup::End(&cell.rails, *first));
            add(StallGroup::End(&cell.rails, *second));
            add(StallGroup::Pair(&cell.rails, &cell.ranks));
        }
    }
    parts
}
