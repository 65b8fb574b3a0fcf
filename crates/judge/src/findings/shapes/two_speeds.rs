//! Two speeds: the times of one cell fall into two clusters with nothing in between, in every round, and those of its
//! peers do not. Alternating paths and a link that retrains look like this.

use super::candidate::{Candidate, RoundTally};
use super::curve::{Curves, SizePoint};
use record::stats::{median_of_sorted, widest_gap};
use record::text;
use record::units::Nanos;
use record::{FindingKind, Question};

/// Every point of one curve that has enough samples.
pub(super) fn of(curves: &Curves<'_>, number: usize) -> Vec<Candidate> {
    let points = curves.all[number].points.iter();
    points.filter_map(|point| one(curves, number, point)).collect()
}

fn one(curves: &Curves<'_>, number: usize, point: &SizePoint) -> Option<Candidate> {
    let gap = widest_gap(curves.times(point, None))?;
    let wanted = 1.0 + curves.rule.shapes.gap;
    let suspicious =
        is_split(curves, point, None, wanted) && !peers_split_alike(curves, number, point, wanted);
    let mut candidate = Candidate::new(FindingKind::Intermittent, number, vec![point.place], suspicious);
    if suspicious {
        candidate.p_value = gap.p_value;
        candidate.rounds_shown = RoundTally::at(&curves.rounds(&[point]), |round| {
            is_split(curves, point, Some(round), wanted)
        });
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
         or more, with a gap of {} or more between them",
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
fn peers_split_alike(curves: &Curves<'_>, number: usize, point: &SizePoint, wanted: f64) -> bool {
    let peers: Vec<bool> = curves
        .peers_at(number, point.size)
        .map(|(_, peer)| is_split(curves, peer, None, wanted))
        .collect();
    let alike = peers.iter().filter(|split| **split).count();
    alike > 0 && 4 * alike >= peers.len()
}
