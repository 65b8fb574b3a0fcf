//! How often healthy pairs are slow, and what that says about the rounds of a cell: a collective is disturbed where one of its pairs is.

use super::comparison::Comparison;
use super::references::Applied;
use crate::findings::variation::Disturbances;

/// Fewer pairs do not show how slow collectives over them usually are.
const FEWEST_PAIRS: usize = 20;

/// What happens to healthy cells of a run now and then.
pub(super) struct HealthyCells {
    disturbances: Disturbances,
    pairs: ReachedByPairs,
}

impl HealthyCells {
    pub(super) fn of<'a>(applied: impl Iterator<Item = &'a Applied> + Clone) -> HealthyCells {
        HealthyCells {
            disturbances: disturbances(applied.clone()),
            pairs: ReachedByPairs::of(applied),
        }
    }

    /// The probability that a healthy cell over so many `pairs` is slow in as many of its rounds as this one.
    pub(super) fn are_slow_as_often(&self, comparison: &Comparison, pairs: usize) -> f64 {
        let (measured, slow) = comparison.rounds;
        let (slow, measured) = (usize::from(slow), usize::from(measured));
        let as_slow = self.pairs.as_slow_as(comparison).filter(|_| pairs > 1);
        let chances = [Some(self.disturbances), as_slow].into_iter().flatten();
        chances
            .map(|chance| chance.of_any(pairs).at_least(slow, measured))
            .fold(0.0, f64::max)
    }
}

/// How often a pair was slow in some of its rounds and not in others. A ring is disturbed where one of its pairs is.
fn disturbances<'a>(cells: impl Iterator<Item = &'a Applied>) -> Disturbances {
    let (mut disturbed, mut all, mut pairs) = (0, 0, 0);
    for applied in cells {
        let rounds = applied.comparisons.iter().map(|comparison| comparison.rounds);
        // A cell that misses one reference every time is not disturbed, whatever the other says.
        let Some((measured, slow)) = rounds.max_by_key(|(_, slow)| *slow) else {
            continue;
        };
        all += usize::from(measured);
        pairs += usize::from(measured) * applied.pairs;
        disturbed += usize::from(if slow < measured { slow } else { 0 });
    }
    Disturbances::of_pairs(disturbed, all, pairs)
}

/// What pairs reached of what is expected of them, ascending: of an absolute figure, and of their peers. A collective is as slow as the slowest pair it
/// crosses, so how often pairs are that slow says how often it is.
struct ReachedByPairs {
    of_spec: Vec<f64>,
    of_peers: Vec<f64>,
}

impl ReachedByPairs {
    fn of<'a>(cells: impl Iterator<Item = &'a Applied> + Clone) -> ReachedByPairs {
        let of = |is_spec: bool| {
            let pairs = cells.clone().filter(|applied| applied.pairs == 1);
            let comparisons = pairs.flat_map(|applied| &applied.comparisons);
            let alike = comparisons.filter(|comparison| comparison.is_spec == is_spec);
            let mut reached: Vec<f64> = alike.map(Comparison::reached).collect();
            reached.sort_by(f64::total_cmp);
            reached
        };
        ReachedByPairs {
            of_spec: of(true),
            of_peers: of(false),
        }
    }

    /// How often a pair reaches as little as this; none where too few were measured to say.
    fn as_slow_as(&self, comparison: &Comparison) -> Option<Disturbances> {
        let reached = match comparison.is_spec {
            true => &self.of_spec,
            false => &self.of_peers,
        };
        let as_slow = reached.partition_point(|share| *share <= comparison.reached());
        (reached.len() >= FEWEST_PAIRS).then(|| Disturbances::seen(as_slow, reached.len()))
    }
}
