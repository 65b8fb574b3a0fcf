//! How often healthy pairs are slow, and what that says about the rounds of a cell: a collective is disturbed where one of its pairs is.

use super::comparison::Comparison;
use super::references::Applied;
use crate::findings::variation::Disturbances;

/// Fewer pairs do not show how slow collectives over them usually are.
const FEWEST_PAIRS: usize = 20;
/// The slowest pair counts as this far below what is expected, at least: as a logarithm, what healthy measurements differ by anyway.
const LEAST_SHORTFALL: f64 = 0.02;
/// How many times rarer a shortfall is that is ten times as large: ten to this power.
const TAIL: i32 = 4;

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

    /// The probability that a healthy cell over so many `pairs` is as slow as this one in so many of its rounds.
    pub(super) fn are_as_slow(
        &self,
        comparison: &Comparison,
        pairs: usize,
        (measured, slow): (u16, u16),
    ) -> f64 {
        let (slow, measured) = (usize::from(slow), usize::from(measured));
        let disturbed = self.disturbances.of_any(pairs).at_least(slow, measured);
        let as_slow = match pairs {
            0 | 1 => None,
            _ => self.pairs.are_as_slow(comparison, pairs, slow),
        };
        as_slow.map_or(disturbed, |as_slow| disturbed.max(as_slow))
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

    /// The probability that a collective over so many healthy `pairs` reaches as little as this in so many rounds; none where too few pairs were
    /// measured to say.
    fn are_as_slow(&self, comparison: &Comparison, pairs: usize, rounds: usize) -> Option<f64> {
        let reached = match comparison.is_spec {
            true => &self.of_spec,
            false => &self.of_peers,
        };
        let chances = chances_of_as_little(reached, comparison.reached(), rounds)?;
        Some(
            chances
                .map(|chance| 1.0 - (1.0 - chance).powf(pairs as f64))
                .product(),
        )
    }
}

/// The probability that one more healthy pair reaches as little as `share`, in each of so many rounds, given that one did in those before. Of N pairs
/// and one more that are alike, each is as likely to be the slowest: so it is 1 / (N + 1) that none of them was, and more in the next round. A
/// collective that is slower than all of them by far is less likely than that: beyond the slowest pair the curve falls as Student's with four degrees
/// of freedom does. `reached` is ascending; none where there are too few.
fn chances_of_as_little(
    reached: &[f64],
    share: f64,
    rounds: usize,
) -> Option<impl Iterator<Item = f64> + use<>> {
    let slowest = reached.first().filter(|_| reached.len() >= FEWEST_PAIRS)?;
    let as_slow = reached.partition_point(|pair| *pair <= share);
    let shortfall = |share: f64| -share.max(f64::MIN_POSITIVE).ln();
    let beyond = shortfall(share) / shortfall(*slowest).max(LEAST_SHORTFALL);
    let left = match as_slow {
        0 => beyond.max(1.0).powi(-TAIL),
        _ => 1.0,
    };
    let pairs = reached.len();
    Some((1..=rounds).map(move |round| left * (as_slow + round) as f64 / (pairs + round) as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 640 pairs that reach 92 to 108 % of what is expected.
    fn pairs() -> Vec<f64> {
        (0..640)
            .map(|number| 0.92 + f64::from(number) * 0.00025)
            .collect()
    }

    fn chance(share: f64, rounds: usize) -> f64 {
        let chances = chances_of_as_little(&pairs(), share, rounds).unwrap();
        chances.map(|chance| 1.0 - (1.0 - chance).powf(64.0)).product()
    }

    #[test]
    fn a_ring_a_little_slower_than_all_pairs_is_not_improbable_and_one_far_slower_is() {
        // The slowest of 64 is slower than 640 others once in eleven times.
        assert!((0.08..0.1).contains(&chance(0.9199, 1)), "{}", chance(0.9199, 1));
        assert!(chance(0.91, 3) > 1e-3, "{}", chance(0.91, 3));
        assert!(chance(0.75, 3) < 1e-8, "{}", chance(0.75, 3));
        assert!(chance(0.5, 3) < 1e-12, "{}", chance(0.5, 3));
    }

    #[test]
    fn what_happened_before_is_likelier_to_happen_again() {
        let (one, three) = (chance(0.9199, 1), chance(0.9199, 3));
        assert!(three > 2.0 * one.powi(3), "{one} {three}");
        assert!(chance(0.95, 2) > 0.9, "many pairs are as slow");
    }

    #[test]
    fn a_slowest_pair_as_fast_as_expected_makes_no_small_shortfall_rare() {
        let exact = vec![1.0; 100];
        let chances = chances_of_as_little(&exact, 0.985, 1).unwrap().next().unwrap();
        assert!((chances - 1.0 / 101.0).abs() < 1e-9, "{chances}");
        assert!(chances_of_as_little(&exact[..10], 0.5, 1).is_none());
    }
}
