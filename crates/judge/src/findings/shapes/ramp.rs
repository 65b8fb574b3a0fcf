//! A ramp that is too slow: smallest messages and best rate match those of the peers, but half of the best rate is
//! reached at much larger messages.

use super::candidate::{Candidate, RoundTally};
use super::curve::{Curve, Curves, SizePoint};
use record::FindingKind;
use record::stats::{median, sign_test_above};
use record::units::Bytes;

/// A ramp is drawn through this many sizes at least.
const FEWEST: usize = 4;

/// The ramp of one curve beside its peers'; none where it cannot be judged.
pub(super) fn of(curves: &Curves<'_>, number: usize, halves: &[Option<f64>]) -> Option<Candidate> {
    let curve = &curves.all[number];
    let own = halves[number]?;
    let family = curves.families[curve.family].iter();
    let peers = family
        .filter(|other| **other != number)
        .filter_map(|other| halves[*other]);
    let peers = median(&peers.collect::<Vec<f64>>())?;
    let factor = curves.rule.shapes.ramp_factor;
    let small = curve.points.first()?;
    let floor_is_fine = curves.time(small, None)?.median
        <= curves.rule.shapes.floor_factor * curves.peers_time(number, small)?;
    let (peak, still) = (best(curves, curve)?, last_within(curve, factor * peers)?);
    let top = curves.rate(peak, None)?;
    let below = |round: Option<u16>| match (curves.rate(peak, round), curves.rate(still, round)) {
        (Some(peak), Some(still)) => still.upper.0 < 0.5 * peak.lower.0,
        _ => false,
    };
    let suspicious = own >= factor * peers && floor_is_fine && below(None);
    let needed: Vec<&SizePoint> = curve.points.iter().collect();
    let places = needed.iter().map(|point| point.place).collect();
    let mut candidate = Candidate::new(FindingKind::SlowRamp, number, places, suspicious);
    if suspicious {
        candidate.p_value = sign_test_above(
            curves.times(still, None),
            still.bytes.0 as f64 * 1e9 / (0.5 * top.median.0),
        );
        candidate.rounds_shown = RoundTally::at(&curves.rounds(&needed), |round| below(Some(round)));
    }
    candidate.sentence = format!(
        "half of its best rate ({top} at {}) is reached at {}, {:.1} times the {} of its peers",
        peak.size,
        Bytes(own as u64),
        own / peers,
        Bytes(peers as u64)
    );
    candidate.rule = format!(
        "slow ramp: at {factor} times the size at which the peers reach half of \
         their best rate, it does not reach half of its own"
    );
    Some(candidate)
}

/// The size at which every curve reaches half of its best rate; none where it does not show.
pub(super) fn halves(curves: &Curves<'_>) -> Vec<Option<f64>> {
    curves.all.iter().map(|curve| half(curves, curve)).collect()
}

/// Interpolated between the sizes around it, both axes logarithmic.
fn half(curves: &Curves<'_>, curve: &Curve) -> Option<f64> {
    if curve.points.len() < FEWEST {
        return None;
    }
    let rate = |point: &SizePoint| curves.rate(point, None).map(|rate| rate.median.0);
    let wanted = 0.5 * rate(best(curves, curve)?)?;
    let after = curve
        .points
        .iter()
        .position(|point| rate(point).is_some_and(|rate| rate >= wanted))?;
    let before = after.checked_sub(1)?;
    let (low, high) = (&curve.points[before], &curve.points[after]);
    let (low_rate, high_rate) = (rate(low)?, rate(high)?);
    let share = (wanted / low_rate).ln() / (high_rate / low_rate).ln();
    let (low_size, high_size) = (low.size.0.max(1) as f64, high.size.0 as f64);
    let size = low_size * (high_size / low_size).powf(share);
    size.is_finite().then_some(size)
}

/// The point with the best rate.
fn best<'a>(curves: &Curves<'_>, curve: &'a Curve) -> Option<&'a SizePoint> {
    let rate = |point: &SizePoint| curves.rate(point, None).map_or(0.0, |rate| rate.median.0);
    curve.points.iter().max_by(|a, b| rate(a).total_cmp(&rate(b)))
}

/// The largest size that is not beyond `bound`.
fn last_within(curve: &Curve, bound: f64) -> Option<&SizePoint> {
    let mut points = curve.points.iter().rev();
    points.find(|point| point.size.0 as f64 <= bound)
}
