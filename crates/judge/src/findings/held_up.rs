//! Hosts that hold up iterations now and then, as operating systems do. A group waits for the slowest of its hosts in every iteration, so it is late more often
//! than any pair: with many hosts nearly always, and nothing of the fabric is slow. How often is known from the pairs of the run.

use super::summary::CellSummary;
use record::stats::{at_least_of, median_of_sorted};

/// The share of its iterations in which a group of so many `hosts` would be late by this many nanoseconds, if each of them held up as many as hosts do in the
/// pairs of this run; none where there are no pairs. One standard error more than they show: pairs are few. Pairs whose messages take longer than `longest` nanoseconds
/// are left out: what they are late by is mostly theirs, not their hosts'.
pub(super) fn share_of_group(
    summaries: &[CellSummary<'_>],
    hosts: usize,
    late: f64,
    longest: f64,
) -> Option<f64> {
    let (mut delayed, mut all) = (0, 0);
    let is_short =
        |pair: &&CellSummary<'_>| median_of_sorted(&pair.times).is_some_and(|median| median <= longest);
    let pairs = summaries
        .iter()
        .filter(|one| one.done && one.cell.ranks.len() == 2)
        .filter(is_short);
    for round in pairs.flat_map(|pair| &pair.rounds) {
        let bound = median_of_sorted(&round.times).unwrap_or(0.0) + late;
        delayed += round.times.len() - round.times.partition_point(|time| (*time as f64) < bound);
        all += round.times.len();
    }
    if all == 0 {
        return None;
    }
    let of_pairs = (delayed as f64 + 0.5) / (all as f64 + 1.0);
    let of_pairs = (of_pairs + (of_pairs * (1.0 - of_pairs) / all as f64).sqrt()).min(1.0);
    let of_host = 1.0 - (1.0 - of_pairs).sqrt();
    Some(1.0 - (1.0 - of_host).powf(hosts as f64))
}

/// The probability that so many iterations of a group are as late as its slower half, which misses what was asked of it by `late` nanoseconds, if its hosts do no
/// worse than in the pairs of this run; 0 where it is no group, or there are no pairs.
pub(super) fn makes_slow(summaries: &[CellSummary<'_>], group: &CellSummary<'_>, late: f64) -> f64 {
    let hosts = group.cell.ranks.len();
    if hosts <= 2 || late <= 0.0 {
        return 0.0;
    }
    let median = median_of_sorted(&group.times).unwrap_or(0.0);
    let of_group = share_of_group(summaries, hosts, late, median);
    let half = group.times.len().div_ceil(2) as u64;
    of_group.map_or(0.0, |of_group| {
        at_least_of(half, group.times.len() as u64, of_group)
    })
}
