//! A latency floor that is too high: the smallest messages of one part take longer than those of its peers, while its large
//! ones are as fast as theirs.

use super::candidate::{Candidate, RoundTally};
use super::curve::{Curves, SizePoint};
use crate::findings::start_skew::without_skew;
use record::FindingKind;
use record::stats::rank_sum_above;
use record::units::{Bytes, Nanos};

/// Up to this size, latency and not bandwidth sets the time of a message.
const SMALL: Bytes = Bytes(8 << 10);

/// The floor of one curve beside its peers'; none where it cannot be judged.
pub(super) fn of(curves: &Curves<'_>, number: usize) -> Option<Candidate> {
    let curve = &curves.all[number];
    let point = curve.points.first().filter(|point| point.size <= SMALL)?;
    let factor = curves.rule.shapes.floor_factor;
    let peers = curves.peers_time(number, point)?;
    let own = curves.time(point, None)?;
    let suspicious = own.lower as f64 > factor * peers;
    let mut candidate = Candidate::new(FindingKind::LatencyFloor, number, vec![point.place], suspicious);
    if suspicious {
        candidate.p_value = p_value(curves, number, point, factor);
        candidate.rounds_shown = RoundTally::at(&curves.rounds(&[point]), |round| {
            let own = curves.time(point, Some(round));
            let peers = curves.peers_time_in(number, point, round);
            matches!((own, peers), (Some(own), Some(peers)) if own.lower as f64 > factor * peers)
        });
    }
    candidate.sentence = format!(
        "{} messages take {} [{}, {}], {:.1} times the {} of its peers",
        point.size,
        Nanos(own.median as u64),
        Nanos(own.lower),
        Nanos(own.upper),
        own.median / peers,
        Nanos(peers as u64)
    );
    candidate.rule = format!(
        "latency floor: messages of {} take more than {factor} times as long as the median of the peers",
        point.size
    );
    Some(candidate)
}

/// P-value: own times against those of the median peer, times the factor.
fn p_value(curves: &Curves<'_>, number: usize, point: &SizePoint, factor: f64) -> f64 {
    let Some(middle) = curves.peers_time(number, point) else {
        return 1.0;
    };
    let distance = |peer: &SizePoint| {
        let median = curves.time(peer, None).map(|time| time.median);
        median.map_or(f64::INFINITY, |median| (median - middle).abs())
    };
    let peers = curves.peers_at(number, point.size).map(|(_, peer)| peer);
    let Some(nearest) = peers.min_by(|a, b| distance(a).total_cmp(&distance(b))) else {
        return 1.0;
    };
    let own: Vec<f64> = curves
        .times(point, None)
        .iter()
        .map(|time| without_skew(*time as f64, curves.skew(point)))
        .collect();
    let others = curves.times(nearest, None).iter();
    let others: Vec<f64> = others.map(|time| *time as f64 * factor).collect();
    rank_sum_above(&own, &others)
}
