//! One cell in the old and in the new run: slower, faster, the same, or unclear.
//!
//! *Slower* needs all of this, and *faster* the same in the other direction:
//!
//! 1. the interval of the new median lies beyond that of the old one by more than the margin, over all rounds
//!    together and for every round of one run against every round of the other;
//! 2. a rank-sum test of the new times against the old ones, moved by the margin, corrected by Holm for both
//!    questions about every cell and every part, is below the false-positive budget. Or it is below it before the
//!    correction, and so many cells of one part look the same way, nearly all that it has, that this is significant
//!    after the correction (`PartTests`).
//!
//! *The same* is said when the interval of the ratio lies within the margin on both sides: that is shown, not
//! assumed. All else is unclear, and so is a cell that moved but shared its slot with other cells than before. What
//! drifts between two runs without a fault (other load, another temperature) is what the margin is for: samples of
//! one run do not show it.

use std::collections::BTreeMap;

use super::cells::{Cells, MeasuredCell, Side};
use super::groups::{self, Member, NEARLY_ALL, PartKey};
use crate::findings::summary::rate_interval;
use record::stats::{MedianInterval, holm, interval_of_sorted, rank_sum_above, samples_needed};
use record::units::Nanos;
use record::{CellComparison, Collective, ComparisonRule, Interval, Pace, Reference, Run};

/// How far a speed may move where neither the command nor the test sets a margin.
pub(super) const USUAL_MARGIN: f64 = 0.1;

/// A cell of both runs.
pub(super) struct Pair<'a> {
    /// The cell now.
    pub(super) now: &'a MeasuredCell<'a>,
    /// What is said about it.
    pub(super) row: CellComparison,
}

/// Whether a cell is judged by its speed at all.
fn has_speed(measured: &MeasuredCell<'_>) -> bool {
    measured.cell.collective != Collective::Streams
}

/// Cells that both runs measured and that have no speed of their own.
pub(super) fn without_speed(then: &Cells<'_>, now: &Cells<'_>) -> u32 {
    let both = now.list.iter().filter(|now| {
        let is_there = |then: &MeasuredCell<'_>| then.missing.is_none();
        !has_speed(now) && now.missing.is_none() && then.same_as(now).is_some_and(is_there)
    });
    both.count() as u32
}

/// Every cell that both runs measured, in the order of the new one, and the rule they were compared by.
pub(super) fn compare<'a>(
    old: &Side<'_>,
    new: &Side<'_>,
    then: &'a Cells<'a>,
    now: &'a Cells<'a>,
    margin: Option<f64>,
) -> (ComparisonRule, Vec<Pair<'a>>) {
    let (before, after) = (&old.judgement.rule, &new.judgement.rule);
    let mut rule = ComparisonRule {
        margin,
        confidence: before.confidence.max(after.confidence),
        false_positive_budget: before.false_positive_budget.min(after.false_positive_budget),
        comparisons: 0,
    };
    let margins = Margins::of(&old.recorded.run, &new.recorded.run, margin);
    let measured = now
        .list
        .iter()
        .filter(|cell| cell.missing.is_none() && has_speed(cell));
    let mut pairs = Vec::new();
    let mut candidates = Vec::new();
    for now_cell in measured {
        let Some(then_cell) = then.same_as(now_cell).filter(|cell| cell.missing.is_none()) else {
            continue;
        };
        let margin = margins.of_test(&now_cell.cell.test);
        let (row, candidate) = one(then_cell, now_cell, now, margin, rule.confidence);
        candidates.push(candidate);
        pairs.push(Pair { now: now_cell, row });
    }
    let parts = PartTests::of(&pairs, &candidates, now, rule.confidence);
    // Both questions are asked of every cell and every part; cells whose intervals are not separate enter with a
    // p-value of 1, never less than the true one.
    let mut p_values: Vec<f64> = pairs.iter().map(|pair| pair.row.p_value).collect();
    p_values.resize(2 * pairs.len(), 1.0);
    p_values.extend(parts.list.iter().flat_map(|part| part.p_values));
    rule.comparisons = p_values.len() as u32;
    let adjusted = holm(&p_values);
    let of_parts = &adjusted[2 * pairs.len()..];
    for (place, (pair, candidate)) in pairs.iter_mut().zip(candidates).enumerate() {
        let own = adjusted[place];
        let by_part = candidate.and_then(|pace| parts.best(place, pace, of_parts));
        let is_likely = pair.row.p_value < rule.false_positive_budget;
        pair.row.p_value = by_part.filter(|_| is_likely).map_or(own, |p| p.min(own));
        if let Some(pace) = candidate {
            match pair.row.p_value < rule.false_positive_budget {
                true => pair.row.pace = pace,
                false => pair.row.why = Some(format!("it looks {pace}, but the p-value is not significant")),
            }
        }
    }
    (rule, pairs)
}

/// Parts, each with how many of its cells look slower or faster.
///
/// Where nothing moved beyond the margin, two intervals are that far apart only when one of them misses its median on
/// that side, which happens with probability one less the confidence at most. So many cells of one part that look
/// slower are soon significant, although each of them has too few samples to be significant among thousands.
struct PartTests {
    list: Vec<PartTest>,
    /// The parts of every pair.
    of_pair: Vec<Vec<usize>>,
}

struct PartTest {
    /// P-value of as many cells that look slower, and faster.
    p_values: [f64; 2],
    /// Whether nearly all of its cells look slower, and faster.
    nearly_all: [bool; 2],
}

/// Index of a pace in the arrays above.
fn side(pace: Pace) -> usize {
    usize::from(pace == Pace::Faster)
}

impl PartTests {
    fn of(pairs: &[Pair<'_>], candidates: &[Option<Pace>], now: &Cells<'_>, confidence: f64) -> PartTests {
        let mut numbers: BTreeMap<PartKey<'_>, usize> = BTreeMap::new();
        let mut counts: Vec<(u32, [u32; 2])> = Vec::new();
        let mut of_pair = Vec::with_capacity(pairs.len());
        for (pair, candidate) in pairs.iter().zip(candidates) {
            let member = Member {
                cell: pair.now.cell,
                hosts: now.hosts(pair.now.cell),
                moved: candidate.is_some(),
            };
            // Cells without an interval are skipped.
            let has_interval = pair.row.ratio.is_some();
            let mut own = Vec::new();
            for part in groups::parts(&member).into_iter().filter(|_| has_interval) {
                let number = *numbers.entry(part).or_insert(counts.len());
                if number == counts.len() {
                    counts.push((0, [0; 2]));
                }
                counts[number].0 += 1;
                if let Some(pace) = candidate {
                    counts[number].1[side(*pace)] += 1;
                }
                own.push(number);
            }
            of_pair.push(own);
        }
        let tally = |(of, looking): &(u32, [u32; 2])| PartTest {
            p_values: looking.map(|count| at_least(count, *of, 1.0 - confidence)),
            nearly_all: looking.map(|count| f64::from(count) >= NEARLY_ALL * f64::from(*of)),
        };
        PartTests {
            list: counts.iter().map(tally).collect(),
            of_pair,
        }
    }

    /// The smallest corrected p-value of a part that a pair shares with cells of which nearly all look the same way.
    fn best(&self, place: usize, pace: Pace, adjusted: &[f64]) -> Option<f64> {
        let parts = self.of_pair[place].iter();
        parts
            .filter(|number| self.list[**number].nearly_all[side(pace)])
            .map(|number| adjusted[2 * number + side(pace)])
            .min_by(f64::total_cmp)
    }
}

/// A bound of the probability that `count` or more of `of` independent cases happen, each with probability `q`
/// (Chernoff's).
fn at_least(count: u32, of: u32, q: f64) -> f64 {
    let share = f64::from(count) / f64::from(of.max(1));
    if count == 0 || share <= q || !(q > 0.0 && q < 1.0) {
        return 1.0;
    }
    let rest = match share < 1.0 {
        true => (1.0 - share) * ((1.0 - share) / (1.0 - q)).ln(),
        false => 0.0,
    };
    (-f64::from(of) * (share * (share / q).ln() + rest)).exp()
}

/// The comparison of one cell before the others are known: its row, and what it looks like when its intervals are
/// separate.
fn one(
    then: &MeasuredCell<'_>,
    now: &MeasuredCell<'_>,
    cells: &Cells<'_>,
    margin: f64,
    confidence: f64,
) -> (CellComparison, Option<Pace>) {
    let cell = now.cell;
    let rounds = |cell: &MeasuredCell<'_>| u16::try_from(cell.rounds.len()).unwrap_or(u16::MAX);
    let rate = |cell: &MeasuredCell<'_>| rate_interval(&cell.times, cell.bytes?, confidence);
    let mut row = CellComparison {
        test: cell.test.clone(),
        what: cells.describe(cell),
        collective: cell.collective,
        size: cell.size,
        rails: cell.rails.clone(),
        old_cell: then.cell.id,
        new_cell: cell.id,
        pace: Pace::Unclear,
        why: None,
        old: None,
        new: None,
        old_rate: rate(then),
        new_rate: rate(now),
        ratio: None,
        margin,
        p_value: 1.0,
        rounds: (rounds(then), rounds(now)),
    };
    let unclear = |mut row: CellComparison, why: String| {
        row.why = Some(why);
        (row, None)
    };
    for (name, side) in [("old", then), ("new", now)] {
        if let Some(text) = &side.contradiction {
            return unclear(row, format!("in the {name} run, {text}"));
        }
    }
    let intervals = (
        interval_of_sorted(&then.times, confidence),
        interval_of_sorted(&now.times, confidence),
    );
    let (Some(old), Some(new)) = intervals else {
        let needed = samples_needed(confidence).map_or("more".into(), |needed| needed.to_string());
        let (old, new) = (then.times.len(), now.times.len());
        return unclear(
            row,
            format!("{old} and {new} complete iterations; an interval needs {needed}"),
        );
    };
    if old.lower == 0 || new.lower == 0 {
        return unclear(row, "recorded times of zero give no ratio".into());
    }
    row.old = Some(times(&old));
    row.new = Some(times(&new));
    row.ratio = Some(Interval {
        median: old.median / new.median,
        lower: old.lower as f64 / new.upper as f64,
        upper: old.upper as f64 / new.lower as f64,
    });
    let kept = 1.0 - margin;
    // The very same samples are the same, however few or wide they are.
    if then.times == now.times || is_within(&old, &new, kept) {
        row.pace = Pace::Same;
        return (row, None);
    }
    let had_company = !(then.slot_mates.is_empty() && now.slot_mates.is_empty());
    if had_company && then.slot_mates.is_disjoint(&now.slot_mates) {
        return unclear(row, "it shared its slot with other cells than before".into());
    }
    let confidence = Confidence(confidence);
    let (p, candidate) = if confidence.is_slower(then, now, kept) {
        (p_slower(&then.times, &now.times, kept), Pace::Slower)
    } else if confidence.is_slower(now, then, kept) {
        (p_slower(&now.times, &then.times, kept), Pace::Faster)
    } else {
        let why = "the interval of its ratio reaches across the margin".to_string();
        return unclear(row, why);
    };
    row.p_value = p;
    (row, Some(candidate))
}

fn times(interval: &MedianInterval) -> Interval<Nanos> {
    Interval {
        median: Nanos(interval.median.round() as u64),
        lower: Nanos(interval.lower),
        upper: Nanos(interval.upper),
    }
}

/// Whether neither can be slower than the other by more than the margin.
fn is_within(a: &MedianInterval, b: &MedianInterval, kept: f64) -> bool {
    let holds = |a: &MedianInterval, b: &MedianInterval| a.lower as f64 >= kept * b.upper as f64;
    holds(a, b) && holds(b, a)
}

/// Chance of new times like these where the new median is no longer than the old one over what is kept of the speed.
fn p_slower(before: &[u64], after: &[u64], kept: f64) -> f64 {
    let after: Vec<f64> = after.iter().map(|time| *time as f64).collect();
    let before: Vec<f64> = before.iter().map(|time| *time as f64 / kept).collect();
    rank_sum_above(&after, &before)
}

struct Confidence(f64);

impl Confidence {
    /// Whether `after` is slower than `before` beyond the margin: over all, and in every round of the one beside every round of the other.
    fn is_slower(&self, before: &MeasuredCell<'_>, after: &MeasuredCell<'_>, kept: f64) -> bool {
        let spans = |cell: &MeasuredCell<'_>| -> Vec<MedianInterval> {
            let rounds = cell.rounds.iter().map(|round| round.times.as_slice());
            let all = std::iter::once(cell.times.as_slice()).chain(rounds);
            all.filter_map(|times| interval_of_sorted(times, self.0))
                .collect()
        };
        let longest = spans(before).iter().map(|span| span.upper).max();
        let shortest = spans(after).iter().map(|span| span.lower).min();
        let apart = |(longest, shortest): (u64, u64)| (longest as f64) < kept * shortest as f64;
        longest.zip(shortest).is_some_and(apart)
    }
}

/// The margins of tests, the wider of the two runs'.
struct Margins<'a> {
    runs: [&'a Run; 2],
    asked: Option<f64>,
}

impl<'a> Margins<'a> {
    fn of(old: &'a Run, new: &'a Run, asked: Option<f64>) -> Margins<'a> {
        Margins {
            runs: [old, new],
            asked,
        }
    }

    fn of_test(&self, name: &str) -> f64 {
        if let Some(asked) = self.asked {
            return asked;
        }
        let widest = self
            .runs
            .iter()
            .filter_map(|run| run.tests.iter().find(|test| test.name == name))
            .filter_map(|test| margin_of(&test.references))
            .max_by(f64::total_cmp);
        widest.unwrap_or(USUAL_MARGIN)
    }
}

/// What a test allows itself: the margin of its baseline, else the narrowest of its other references.
fn margin_of(references: &[Reference]) -> Option<f64> {
    let is_share = |margin: &f64| (0.0..1.0).contains(margin);
    let baseline = references.iter().find_map(|reference| match reference {
        Reference::Baseline { margin, .. } => Some(*margin).filter(is_share),
        _ => None,
    });
    let others = references.iter().filter_map(|reference| match reference {
        Reference::Spec(row) => Some(row.tolerance).filter(is_share),
        Reference::Peers { margin } => Some(*margin).filter(is_share),
        Reference::Baseline { .. } => None,
    });
    baseline.or_else(|| others.min_by(f64::total_cmp))
}
