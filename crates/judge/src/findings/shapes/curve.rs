//! Curves: what one part reaches over message sizes, and what its peers reach at the same sizes.
//!
//! A *curve* is the cells that differ in size only. A *family* is the curves that differ in ranks or rails only: each
//! other's peers. Medians of a family are sorted once per size, so that a tournament of thousands is compared
//! quickly.

use std::collections::BTreeMap;

use crate::findings::start_skew::without_skew;
use crate::findings::summary::{CellSummary, rate_interval};
use record::stats::{MedianInterval, interval_of_sorted, median, median_of_sorted};
use record::units::{Bytes, Nanos, Rate};
use record::{Cell, DecisionRule, Interval};

/// One measured size of a curve.
#[derive(Debug, Clone, Copy)]
pub(super) struct SizePoint {
    /// Place of its cell in the plan.
    pub(super) place: usize,
    /// Message size.
    pub(super) size: Bytes,
    /// Bytes on its busiest link.
    pub(super) bytes: Bytes,
}

/// The measured cells that differ in size only, smallest first.
#[derive(Debug, Clone, Default)]
pub(super) struct Curve {
    /// The family it belongs to.
    pub(super) family: usize,
    /// Its points.
    pub(super) points: Vec<SizePoint>,
}

/// All curves of a run.
pub(super) struct Curves<'a> {
    pub(super) summaries: &'a [CellSummary<'a>],
    pub(super) rule: &'a DecisionRule,
    /// Every curve with at least one point.
    pub(super) all: Vec<Curve>,
    /// For every family and size the median times of its curves, ascending.
    medians: BTreeMap<(usize, Bytes), Vec<f64>>,
    /// The curves of every family.
    pub(super) families: Vec<Vec<usize>>,
}

impl<'a> Curves<'a> {
    /// The curves of the cells at `places` that have an interval.
    pub(super) fn of(
        summaries: &'a [CellSummary<'a>],
        rule: &'a DecisionRule,
        places: impl Iterator<Item = usize>,
    ) -> Curves<'a> {
        let mut families = BTreeMap::new();
        let mut numbers = BTreeMap::new();
        let mut all: Vec<Curve> = Vec::new();
        for place in places {
            let (cell, wire) = (summaries[place].cell, &summaries[place].wire);
            let (Some(bytes), Some(_)) = (wire.bytes(), summaries[place].time(rule.confidence)) else {
                continue;
            };
            let count = families.len();
            let family = *families.entry(family_key(cell)).or_insert(count);
            let ends = (&cell.rails, &cell.to_rail, cell.source_port);
            let part = (family, &cell.ranks, cell.root, ends);
            let number = *numbers.entry(part).or_insert(all.len());
            if number == all.len() {
                all.push(Curve {
                    family,
                    points: Vec::new(),
                });
            }
            let points = &mut all[number].points;
            if points.iter().all(|point| point.size != cell.size) {
                points.push(SizePoint {
                    place,
                    size: cell.size,
                    bytes,
                });
            }
        }
        let mut members = vec![Vec::new(); families.len()];
        let mut medians: BTreeMap<(usize, Bytes), Vec<f64>> = BTreeMap::new();
        for (number, curve) in all.iter_mut().enumerate() {
            curve.points.sort_by_key(|point| point.size);
            members[curve.family].push(number);
            for point in &curve.points {
                let median = median_of_sorted(&summaries[point.place].times);
                medians
                    .entry((curve.family, point.size))
                    .or_default()
                    .extend(median);
            }
        }
        medians.values_mut().for_each(|list| list.sort_by(f64::total_cmp));
        Curves {
            summaries,
            rule,
            all,
            medians,
            families: members,
        }
    }

    /// The cell of a point.
    pub(super) fn cell(&self, point: &SizePoint) -> &'a Cell {
        self.summaries[point.place].cell
    }

    /// The times of a point in one round, or in all of them.
    pub(super) fn times(&self, point: &SizePoint, round: Option<u16>) -> &[u64] {
        let summary = &self.summaries[point.place];
        match round {
            None => &summary.times,
            Some(number) => {
                let round = summary.rounds.iter().find(|round| round.number == number);
                round.map_or(&[], |round| &round.times)
            }
        }
    }

    /// The interval of a point's median time. It may be shorter by what is not known of its ranks' starts.
    pub(super) fn time(&self, point: &SizePoint, round: Option<u16>) -> Option<MedianInterval> {
        let mut time = interval_of_sorted(self.times(point, round), self.rule.confidence)?;
        time.lower = without_skew(time.lower as f64, self.skew(point)) as u64;
        Some(time)
    }

    /// The interval of a point's median wire rate; with the same doubt.
    pub(super) fn rate(&self, point: &SizePoint, round: Option<u16>) -> Option<Interval<Rate>> {
        let mut rate = rate_interval(self.times(point, round), point.bytes, self.rule.confidence)?;
        let shortest = without_skew(point.bytes.0 as f64 * 1e9 / rate.upper.0, self.skew(point));
        rate.upper = Rate(point.bytes.0 as f64 * 1e9 / shortest);
        Some(rate)
    }

    /// By how much the times of a point may be too long.
    pub(super) fn skew(&self, point: &SizePoint) -> Nanos {
        self.summaries[point.place].unseen_skew
    }

    /// The rounds in which all of these points were measured.
    pub(super) fn rounds(&self, points: &[&SizePoint]) -> Vec<u16> {
        let Some((first, rest)) = points.split_first() else {
            return Vec::new();
        };
        let has = |point: &SizePoint, number: u16| {
            let mut rounds = self.summaries[point.place].rounds.iter();
            rounds.any(|round| round.number == number)
        };
        let rounds = self.summaries[first.place].rounds.iter();
        rounds
            .map(|round| round.number)
            .filter(|number| rest.iter().all(|point| has(point, *number)))
            .collect()
    }

    /// The peers of a curve that have a point of this size.
    pub(super) fn peers_at(&self, curve: usize, size: Bytes) -> impl Iterator<Item = (usize, &SizePoint)> {
        let family = self.families[self.all[curve].family].iter();
        family
            .filter(move |other| **other != curve)
            .filter_map(move |other| {
                let mut points = self.all[*other].points.iter();
                Some((*other, points.find(|point| point.size == size)?))
            })
    }

    /// The median of the peers' median times over all rounds; none without peers.
    pub(super) fn peers_time(&self, curve: usize, point: &SizePoint) -> Option<f64> {
        let all = self.medians.get(&(self.all[curve].family, point.size))?;
        let own = median_of_sorted(self.times(point, None))?;
        let at = all.partition_point(|other| *other < own);
        median_without(all, at)
    }

    /// The same for one round, where all of them were measured in it; else over all rounds.
    pub(super) fn peers_time_in(&self, curve: usize, point: &SizePoint, round: u16) -> Option<f64> {
        let in_round = |(_, peer): (usize, &SizePoint)| median_of_sorted(self.times(peer, Some(round)));
        let medians: Option<Vec<f64>> = self.peers_at(curve, point.size).map(in_round).collect();
        match medians.and_then(|medians| median(&medians)) {
            Some(median) => Some(median),
            None => self.peers_time(curve, point),
        }
    }
}

/// The median of ascending values without the one at `at`.
fn median_without(sorted: &[f64], at: usize) -> Option<f64> {
    let count = sorted.len().checked_sub(1)?;
    let nth = |n: usize| sorted[if n >= at { n + 1 } else { n }];
    Some((nth(count.checked_sub(1)? / 2) + nth(count / 2)) / 2.0)
}

/// What curves must share to be peers: everything but size, ranks and rails.
fn family_key(cell: &Cell) -> impl Ord + '_ {
    (
        (&cell.test, cell.load, cell.collective, cell.algorithm),
        (cell.ranks.len(), cell.rails.len(), cell.to_rail.is_some()),
        (cell.flows, cell.group),
        (cell.transport, cell.device),
        (cell.dtype, cell.op, cell.placement),
        (cell.engine, cell.batch, cell.verbs),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_compared_with_the_others_and_not_with_itself() {
        assert_eq!(median_without(&[1.0], 0), None);
        assert_eq!(median_without(&[1.0, 9.0], 1), Some(1.0));
        assert_eq!(median_without(&[1.0, 2.0, 9.0], 0), Some(5.5));
        assert_eq!(median_without(&[1.0, 2.0, 3.0, 9.0], 3), Some(2.0));
    }
}
