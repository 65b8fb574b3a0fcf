//! The Mann-Whitney rank-sum test: are these times longer than those?
//!
//! Under the null hypothesis both sets come from one distribution, of any shape, and every interleaving is equally likely.
//! With fewer than nine samples on both sides and no ties the p-value is exact, by counting interleavings; otherwise it is
//! the normal approximation with continuity and tie correction, good from about eight samples on. Independence of the
//! samples is assumed.

/// Largest number of samples on either side that is counted exactly.
const EXACT: usize = 8;

/// One-sided test of "`own` tends to be above `others`"; small means it does. Values that are not finite say nothing.
pub fn rank_sum_above(own: &[f64], others: &[f64]) -> f64 {
    let (n, m) = (own.len(), others.len());
    let finite = own.iter().chain(others).all(|value| value.is_finite());
    if n == 0 || m == 0 || !finite {
        return 1.0;
    }
    let ranking = rank(own, others);
    if n <= EXACT && m <= EXACT && !ranking.tied {
        exact(n, m, ranking.u as usize)
    } else {
        normal(n as f64, m as f64, &ranking)
    }
}

/// How two sets of samples interleave.
struct Ranking {
    /// Pairs in which the own sample is above the other; a tie counts half.
    u: f64,
    /// Sum over groups of equal values of t^3 - t.
    ties: f64,
    tied: bool,
}

fn rank(own: &[f64], others: &[f64]) -> Ranking {
    let mut all: Vec<(f64, bool)> = Vec::with_capacity(own.len() + others.len());
    all.extend(own.iter().map(|value| (*value, true)));
    all.extend(others.iter().map(|value| (*value, false)));
    all.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let mut ranking = Ranking {
        u: 0.0,
        ties: 0.0,
        tied: false,
    };
    let mut others_below = 0.0;
    for group in all.chunk_by(|a, b| a.0 == b.0) {
        let own_here = group.iter().filter(|(_, is_own)| *is_own).count() as f64;
        let size = group.len() as f64;
        let others_here = size - own_here;
        ranking.u += own_here * (others_below + others_here / 2.0);
        others_below += others_here;
        ranking.ties += size * size * size - size;
        ranking.tied |= group.len() > 1;
    }
    ranking
}

/// P(U >= u) when all interleavings of n and m samples are equally likely.
fn exact(n: usize, m: usize, u: usize) -> f64 {
    // ways[i][v]: interleavings of i own samples with the others seen so far that have U = v.
    let mut ways = vec![vec![0.0f64; n * m + 1]; n + 1];
    for row in &mut ways {
        row[0] = 1.0;
    }
    for _ in 0..m {
        for i in 1..=n {
            // With one more other sample allowed, each own sample above it adds one to U.
            for value in (0..=n * m).rev() {
                ways[i][value] = if value >= i { ways[i][value - i] } else { 0.0 } + ways[i - 1][value];
            }
        }
    }
    let total: f64 = ways[n].iter().sum();
    ways[n][u.min(n * m)..].iter().sum::<f64>() / total
}

fn normal(n: f64, m: f64, ranking: &Ranking) -> f64 {
    let total = n + m;
    let variance = n * m / 12.0 * (total + 1.0 - ranking.ties / (total * (total - 1.0)));
    if variance.is_nan() || variance <= 0.0 {
        return 1.0;
    }
    upper_normal_tail((ranking.u - n * m / 2.0 - 0.5) / variance.sqrt())
}

/// P(Z > z) of the standard normal distribution, to about seven significant digits, far into the tail.
fn upper_normal_tail(z: f64) -> f64 {
    if z < 0.0 {
        return 1.0 - upper_normal_tail(-z);
    }
    let density = (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
    if z < 3.0 {
        // 1/2 minus the series of the distribution function around zero.
        let (mut term, mut sum, mut k) = (z, z, 1.0);
        while term > sum * 1e-16 {
            k += 2.0;
            term *= z * z / k;
            sum += term;
        }
        0.5 - density * sum
    } else {
        // Laplace's continued fraction, which converges fast out here.
        let fraction = (1..=60).rev().fold(z, |tail, k| z + f64::from(k) / tail);
        density / fraction
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::{Rng, SeedableRng};

    fn noise(random: &mut ChaCha8Rng, n: usize) -> Vec<f64> {
        (0..n).map(|_| (random.next_u64() >> 20) as f64).collect()
    }

    #[test]
    fn the_normal_tail_matches_its_table() {
        for (z, tail) in [
            (0.0, 0.5),
            (1.6448536, 0.05),
            (2.9, 0.0018658),
            (3.0902323, 0.001),
            (6.0, 9.8659e-10),
        ] {
            let got = upper_normal_tail(z);
            assert!((got / tail - 1.0).abs() < 1e-4, "{z}: {got}");
        }
    }

    #[test]
    fn small_samples_are_counted_exactly() {
        // Three above three: one interleaving of twenty.
        assert!((rank_sum_above(&[4.0, 5.0, 6.0], &[1.0, 2.0, 3.0]) - 0.05).abs() < 1e-12);
        assert!((rank_sum_above(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]) - 1.0).abs() < 1e-12);
        // U = 8 or 9 of 9: two of twenty.
        assert!((rank_sum_above(&[3.0, 5.0, 6.0], &[1.0, 2.0, 4.0]) - 0.10).abs() < 1e-12);
    }

    #[test]
    fn exact_and_normal_agree_where_they_meet() {
        let own: Vec<f64> = (0..8).map(|i| f64::from(i * 2 + 5)).collect();
        let others: Vec<f64> = (0..8).map(|i| f64::from(i * 2)).collect();
        let ranking = rank(&own, &others);
        let (counted, approximated) = (exact(8, 8, ranking.u as usize), normal(8.0, 8.0, &ranking));
        assert!(
            (counted / approximated - 1.0).abs() < 0.1,
            "{counted} {approximated}"
        );
    }

    #[test]
    fn equal_distributions_are_told_apart_no_more_often_than_stated() {
        let mut random = ChaCha8Rng::seed_from_u64(3);
        for (n, m) in [(6, 7), (12, 60), (40, 40)] {
            let (trials, mut accused) = (3000, 0);
            for _ in 0..trials {
                let (own, others) = (noise(&mut random, n), noise(&mut random, m));
                accused += u32::from(rank_sum_above(&own, &others) < 0.05);
            }
            let rate = f64::from(accused) / f64::from(trials);
            assert!((0.03..=0.062).contains(&rate), "{n} against {m}: {rate}");
        }
    }

    #[test]
    fn samples_that_are_all_equal_or_not_numbers_accuse_nobody() {
        assert_eq!(rank_sum_above(&[5.0; 20], &[5.0; 20]), 1.0);
        assert_eq!(rank_sum_above(&[f64::NAN; 20], &[5.0; 20]), 1.0);
        assert_eq!(rank_sum_above(&[], &[1.0]), 1.0);
    }
}
