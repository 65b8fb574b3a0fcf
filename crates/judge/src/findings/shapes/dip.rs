//! A dip: the rate falls as messages grow, and recovers for larger ones.
//!
//! A fall without recovery is a dip only where the peers do not fall alike: caches and token buckets make every curve
//! of a healthy machine fall at its end. Where such a part is called slow at those sizes, the dip is dropped.

use super::candidate::{Candidate, RoundTally};
use super::curve::{Curve, Curves, SizePoint};
use record::FindingKind;
use record::stats::{median, rank_sum_above};
use record::text;

/// A fall of the rate over one curve.
struct RateDip<'a> {
    peak: &'a SizePoint,
    bottom: &'a SizePoint,
    /// The best of the larger sizes, when it is back up.
    recovered: Option<&'a SizePoint>,
}

/// The deepest dip of one curve; none where it has too few points.
pub(super) fn of(curves: &Curves<'_>, number: usize) -> Option<Candidate> {
    let curve = &curves.all[number];
    if curve.points.len() < 2 {
        return None;
    }
    let margin = curves.rule.shapes.dip;
    let kind = FindingKind::Dip;
    let healthy = || Candidate::new(kind, number, Vec::new(), false);
    let Some(dip) = deepest(curves, curve, margin) else {
        return Some(healthy());
    };
    let alike = peers_dip_alike(curves, number, &dip, margin);
    if dip.recovered.is_none() && alike {
        return Some(healthy());
    }
    let mut candidate = Candidate::new(kind, number, vec![dip.bottom.place], true);
    candidate.beside = std::iter::once(dip.peak)
        .chain(dip.recovered)
        .map(|point| point.place)
        .collect();
    candidate.unless_slow = dip.recovered.is_none();
    candidate.p_value = p_value(curves, &dip, margin);
    let needed: Vec<&SizePoint> = [dip.peak, dip.bottom].into_iter().chain(dip.recovered).collect();
    candidate.rounds_shown = RoundTally::at(&curves.rounds(&needed), |round| {
        let at = |point: &SizePoint| curves.rate(point, Some(round));
        let below = |high: &SizePoint| match (at(high), at(dip.bottom)) {
            (Some(high), Some(low)) => low.upper.0 < (1.0 - margin) * high.lower.0,
            _ => false,
        };
        below(dip.peak) && dip.recovered.is_none_or(below)
    });
    let (peak, bottom) = (curves.rate(dip.peak, None)?, curves.rate(dip.bottom, None)?);
    let after = match dip.recovered {
        Some(point) => format!("{} at {} again", curves.rate(point, None)?, point.size),
        None => "its peers do not".to_string(),
    };
    candidate.sentence = format!(
        "the rate falls from {peak} at {} to {bottom} at {}; {after}",
        dip.peak.size, dip.bottom.size
    );
    candidate.rule = format!(
        "dip: as messages grow the rate falls by more than {} beyond both intervals, and recovers, or the \
         rate of the peers does not fall",
        text::percent(margin)
    );
    Some(candidate)
}

/// The fall that loses the largest share, beyond both intervals; one that recovers goes first.
fn deepest<'a>(curves: &Curves<'_>, curve: &'a Curve, margin: f64) -> Option<RateDip<'a>> {
    let rates: Vec<_> = curve
        .points
        .iter()
        .map(|point| curves.rate(point, None))
        .collect::<Option<_>>()?;
    let mut best: Option<((bool, f64), RateDip<'a>)> = None;
    for bottom in 1..rates.len() {
        let highest = |range: std::ops::Range<usize>| {
            range.max_by(|a, b| rates[*a].lower.0.total_cmp(&rates[*b].lower.0))
        };
        let Some(peak) = highest(0..bottom) else { continue };
        let below = |other: usize| rates[bottom].upper.0 < (1.0 - margin) * rates[other].lower.0;
        if !below(peak) {
            continue;
        }
        let recovered = highest(bottom + 1..rates.len()).filter(|later| below(*later));
        let lost = 1.0 - rates[bottom].median.0 / rates[peak].median.0;
        let depth = (recovered.is_some(), lost);
        if best
            .as_ref()
            .is_none_or(|(deepest, _)| depth.partial_cmp(deepest).is_some_and(|order| order.is_gt()))
        {
            let dip = RateDip {
                peak: &curve.points[peak],
                bottom: &curve.points[bottom],
                recovered: recovered.map(|later| &curve.points[later]),
            };
            best = Some((depth, dip));
        }
    }
    best.map(|(_, dip)| dip)
}

/// Whether the peers' curves fall by about as much between the same two sizes; true when there are none.
fn peers_dip_alike(curves: &Curves<'_>, number: usize, dip: &RateDip<'_>, margin: f64) -> bool {
    let rate = |point: &SizePoint| curves.rate(point, None).map(|rate| rate.median.0);
    let ratios = curves
        .peers_at(number, dip.bottom.size)
        .filter_map(|(peer, bottom)| {
            let mut points = curves.all[peer].points.iter();
            let peak = points.find(|point| point.size == dip.peak.size)?;
            Some(rate(bottom)? / rate(peak)?)
        });
    let own = match (rate(dip.bottom), rate(dip.peak)) {
        (Some(bottom), Some(peak)) => bottom / peak,
        _ => return true,
    };
    median(&ratios.collect::<Vec<f64>>()).is_none_or(|peers| own >= (1.0 - margin) * peers)
}

/// P-value: times per byte at the bottom against those at the peak, with the margin.
fn p_value(curves: &Curves<'_>, dip: &RateDip<'_>, margin: f64) -> f64 {
    let per_byte = |point: &SizePoint, scale: f64| -> Vec<f64> {
        let times = curves.times(point, None).iter();
        times
            .map(|time| *time as f64 / point.bytes.0 as f64 * scale)
            .collect()
    };
    let against =
        |high: &SizePoint| rank_sum_above(&per_byte(dip.bottom, 1.0), &per_byte(high, 1.0 / (1.0 - margin)));
    let p_value = against(dip.peak);
    dip.recovered.map_or(p_value, |later| p_value.max(against(later)))
}
