//! Two speeds: the times of one cell fall into two clusters with nothing in between, in every round, and those of its
//! peers do not. Alternating paths and a link that retrains look like this.
//!
//! Iterations are no independent draws: machines have two speeds of their own now and then. So a cell must show them in more rounds than
//! cells elsewhere do, by the bound that also rules out disturbances (`variation`).

use super::candidate::{Candidate, RoundTally};
use super::curve::{Curves, SizePoint};
use crate::findings::variation::Disturbances;
use rayon::prelude::*;
use record::stats::{median_of_sorted, widest_gap};
use record::text;
use record::units::Nanos;
use record::{FindingKind, Question};

/// Which cells show two speeds.
pub(super) struct Splits {
    /// In how many of its rounds each measured cell shows them.
    of_rounds: Vec<(usize, RoundTally)>,
    /// Per cell of the plan whether all its iterations together show them.
    as_a_whole: Vec<bool>,
}

impl Splits {
    pub(super) fn of(curves: &Curves<'_>) -> Splits {
        let wanted = 1.0 + curves.rule.shapes.gap;
        let points = curves.all.par_iter().flat_map_iter(|curve| &curve.points);
        let tally = |point: &SizePoint| {
            let shows = |round| is_split(curves, point, Some(round), wanted);
            let of_rounds = RoundTally::at(&curves.rounds(&[point]), shows);
            ((point.place, of_rounds), is_split(curves, point, None, wanted))
        };
        let (of_rounds, whole): (Vec<_>, Vec<bool>) = points.map(tally).unzip();
        let mut as_a_whole = vec![false; curves.summaries.len()];
        for ((place, _), is_split) in of_rounds.iter().zip(whole) {
            as_a_whole[*place] |= is_split;
        }
        Splits {
            of_rounds,
            as_a_whole,
        }
    }

    /// How often cells show them that share no end of a rail with this one and have as many iterations, half of them at least; none for a group
    /// with which all cells share one: it says about no part that it is unlike others.
    fn elsewhere(&self, curves: &Curves<'_>, point: &SizePoint) -> Option<Disturbances> {
        let own = curves.cell(point);
        let per_round = |place: usize| {
            let summary = &curves.summaries[place];
            summary.times.len() / summary.rounds.len().max(1)
        };
        let (mut split, mut all) = (0, 0);
        for (place, tally) in &self.of_rounds {
            let other = curves.summaries[*place].cell;
            let shares_rail = other.rails.iter().any(|rail| own.rails.contains(rail));
            let shares_end = shares_rail && other.ranks.iter().any(|rank| own.ranks.contains(rank));
            if shares_end || 2 * per_round(*place) < per_round(point.place) {
                continue;
            }
            split += usize::from(tally.shown);
            all += usize::from(tally.rounds);
        }
        (all > 0 || own.ranks.len() <= 2).then(|| Disturbances::seen(split, all))
    }
}

/// Every point of one curve that has enough samples.
pub(super) fn of(curves: &Curves<'_>, splits: &Splits, number: usize) -> Vec<Candidate> {
    let points = curves.all[number].points.iter();
    points
        .filter_map(|point| one(curves, splits, number, point))
        .collect()
}

fn one(curves: &Curves<'_>, splits: &Splits, number: usize, point: &SizePoint) -> Option<Candidate> {
    let gap = widest_gap(curves.times(point, None))?;
    let wanted = 1.0 + curves.rule.shapes.gap;
    let suspicious = splits.as_a_whole[point.place] && !peers_split_alike(curves, splits, number, point);
    let mut candidate = Candidate::new(FindingKind::Intermittent, number, vec![point.place], suspicious);
    if suspicious {
        candidate.rounds_shown = RoundTally::at(&curves.rounds(&[point]), |round| {
            is_split(curves, point, Some(round), wanted)
        });
        let (shown, rounds) = (candidate.rounds_shown.shown, candidate.rounds_shown.rounds);
        let elsewhere = splits.elsewhere(curves, point);
        let usual = elsewhere.map_or(1.0, |elsewhere| {
            elsewhere.ever(usize::from(shown), usize::from(rounds))
        });
        candidate.p_value = gap.p_value.max(usual);
    }
    let times = curves.times(point, None);
    let (fast, slow) = times.split_at(gap.below);
    let typical = |times: &[u64]| Nanos(median_of_sorted(times).unwrap_or(0.0) as u64);
    candidate.sentence = format!(
        "{} messages have two speeds: {} in {} of {} iterations, {} in the others",
        point.size,
        typical(fast),
        fast.len(),
        times.len(),
        typical(slow)
    );
    candidate.rule = format!(
        "two speeds: the times fall into two clusters, each of a fifth of them \
         or more, with a gap of {} or more between them, more often than elsewhere",
        text::percent(wanted - 1.0)
    );
    Some(candidate)
}

/// Whether the times of a point fall into two clusters.
fn is_split(curves: &Curves<'_>, point: &SizePoint, round: Option<u16>, wanted: f64) -> bool {
    let bound = curves.rule.budget_of(Question::Shapes);
    widest_gap(curves.times(point, round)).is_some_and(|gap| gap.ratio >= wanted && gap.p_value < bound)
}

/// Whether a quarter of the peers or more look the same: then the cause is shared.
fn peers_split_alike(curves: &Curves<'_>, splits: &Splits, number: usize, point: &SizePoint) -> bool {
    let (mut alike, mut peers) = (0, 0);
    for (_, peer) in curves.peers_at(number, point.size) {
        alike += usize::from(splits.as_a_whole[peer.place]);
        peers += 1;
    }
    alike > 0 && 4 * alike >= peers
}
