//! How long each rank of a cell is busy itself, apart from waiting for a peer or the wire, beside the other ranks.

use super::iterations::Iterations;
use record::stats::{MedianInterval, interval_of_sorted};
use record::{DecisionRule, Sample};

/// The share of a cell's time from which a rank's own work matters.
pub(super) const MATTERS: f64 = 0.1;

/// How long one rank of a cell was busy, beside the others.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Busy {
    /// World rank.
    pub(super) rank: u32,
    /// The interval of its median busy time.
    pub(super) own: MedianInterval,
    /// The median of the other ranks' medians.
    pub(super) others: f64,
    /// Iterations in which it was busy longer than the factor times the others' median.
    pub(super) above: u64,
    /// Iterations looked at.
    pub(super) of: u64,
    /// The same, round by round.
    rounds: Vec<BusyRound>,
}

/// How long one rank was busy in one round, beside the others.
#[derive(Debug, Clone, PartialEq)]
struct BusyRound {
    own: MedianInterval,
    others: f64,
}

impl Busy {
    /// How much longer than the others it was busy.
    pub(super) fn excess(&self) -> f64 {
        self.own.median - self.others
    }

    /// Whether it kept the others waiting in every round of a cell whose iterations take `time`.
    pub(super) fn keeps_waiting(&self, time: f64, rule: &DecisionRule) -> bool {
        let always = self.rounds.iter().all(|round| {
            round.own.lower as f64 > rule.straggler_factor * round.others
                && round.own.median - round.others >= MATTERS * time
        });
        always && !self.rounds.is_empty()
    }
}

/// Busy times per rank of one cell; empty when they cannot be compared.
pub(super) fn busy_of(iterations: &Iterations, rule: &DecisionRule) -> Vec<Busy> {
    if iterations.ranks.len() < 2 {
        return Vec::new();
    }
    let all: Vec<&[Sample]> = iterations.iter().collect();
    let Some(pooled) = beside_the_others(&all, rule) else {
        return Vec::new();
    };
    let above = above_the_others(&all, rule.straggler_factor);
    let round_of = |samples: &[Sample]| samples.first().map(|sample| sample.round);
    let rounds: Vec<Vec<BusyRound>> = all
        .chunk_by(|a, b| round_of(a) == round_of(b))
        .filter_map(|round| beside_the_others(round, rule))
        .collect();
    let busy = pooled.into_iter().enumerate().map(|(place, pooled)| Busy {
        rank: iterations.ranks[place],
        own: pooled.own,
        others: pooled.others,
        above: above[place],
        of: all.len() as u64,
        rounds: rounds.iter().map(|round| round[place].clone()).collect(),
    });
    busy.collect()
}

/// What a rank did itself, without waiting.
fn work(sample: &Sample) -> u64 {
    sample.ns.saturating_sub(sample.wait_ns)
}

/// For every rank the interval of its busy time and the median of the others' medians; none with too few iterations.
fn beside_the_others(iterations: &[&[Sample]], rule: &DecisionRule) -> Option<Vec<BusyRound>> {
    let ranks = iterations.first()?.len();
    let interval_of = |rank: usize| {
        let mut times: Vec<u64> = iterations.iter().map(|samples| work(&samples[rank])).collect();
        times.sort_unstable();
        interval_of_sorted(&times, rule.confidence)
    };
    let intervals: Vec<MedianInterval> = (0..ranks).map(interval_of).collect::<Option<_>>()?;
    let mut medians: Vec<u64> = intervals.iter().map(|interval| interval.median as u64).collect();
    medians.sort_unstable();
    let beside = intervals.into_iter().map(|own| BusyRound {
        own,
        others: median_without(&medians, own.median as u64),
    });
    Some(beside.collect())
}

/// For every rank the iterations in which it was busy longer than `factor` times the others' median.
fn above_the_others(iterations: &[&[Sample]], factor: f64) -> Vec<u64> {
    let mut above = vec![0; iterations.first().map_or(0, |samples| samples.len())];
    let mut sorted = Vec::with_capacity(above.len());
    for samples in iterations {
        sorted.clear();
        sorted.extend(samples.iter().map(work));
        sorted.sort_unstable();
        for (rank, sample) in samples.iter().enumerate() {
            let own = work(sample);
            above[rank] += u64::from(own as f64 > factor * median_without(&sorted, own));
        }
    }
    above
}

/// The median of ascending values, one occurrence of `value` left out.
fn median_without(sorted: &[u64], value: u64) -> f64 {
    let skipped = sorted.partition_point(|other| *other < value);
    let at = |position: usize| {
        sorted[if position < skipped {
            position
        } else {
            position + 1
        }] as f64
    };
    match sorted.len() - 1 {
        0 => 0.0,
        left if left % 2 == 1 => at(left / 2),
        left => (at(left / 2 - 1) + at(left / 2)) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::median_without;

    #[test]
    fn a_rank_is_compared_with_the_others_not_with_itself() {
        assert_eq!(median_without(&[1, 9], 9), 1.0);
        assert_eq!(median_without(&[1, 9], 1), 9.0);
        assert_eq!(median_without(&[1, 2, 3, 9], 9), 2.0);
        assert_eq!(median_without(&[2, 2, 2], 2), 2.0);
        assert_eq!(median_without(&[1, 2, 3, 4, 9], 3), 3.0);
        assert_eq!(median_without(&[7], 7), 0.0);
    }
}
