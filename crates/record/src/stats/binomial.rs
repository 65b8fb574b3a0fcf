//! The binomial distribution with p = 1/2: how many of n samples fall above the true median.
//!
//! Terms are started from a logarithm and then multiplied along, so that n may be millions without overflow, and summed
//! only where they matter: the work is proportional to the square root of n.

/// Natural logarithm of the gamma function for `x >= 1`, by Stirling's series after shifting `x` up.
pub(super) fn ln_gamma(x: f64) -> f64 {
    let (mut x, mut shift) = (x, 0.0);
    while x < 12.0 {
        shift += x.ln();
        x += 1.0;
    }
    let inverse = 1.0 / x;
    let square = inverse * inverse;
    let series = inverse * (1.0 / 12.0 - square * (1.0 / 360.0 - square * (1.0 / 1260.0 - square / 1680.0)));
    (x - 0.5) * x.ln() - x + 0.5 * (2.0 * std::f64::consts::PI).ln() + series - shift
}

/// P(X = k) of n fair coins.
fn term(n: u64, k: u64) -> f64 {
    let (n, k) = (n as f64, k as f64);
    let ln_choose = ln_gamma(n + 1.0) - ln_gamma(k + 1.0) - ln_gamma(n - k + 1.0);
    (ln_choose - n * std::f64::consts::LN_2).exp()
}

/// P(X >= k) of n fair coins.
pub(super) fn at_least(n: u64, k: u64) -> f64 {
    if k == 0 {
        return 1.0;
    }
    if k > n {
        return 0.0;
    }
    if 2 * k <= n {
        return 1.0 - at_least(n, n - k + 1);
    }
    let (mut probability, mut sum, mut heads) = (term(n, k), 0.0, k);
    while heads <= n && probability > sum * 1e-17 {
        sum += probability;
        probability *= (n - heads) as f64 / (heads + 1) as f64;
        heads += 1;
    }
    f64::min(sum, 1.0)
}

/// The largest k with P(X < k) <= `tail`: the order statistic (counted from 1) that lies above the true median at most
/// that often. Zero when not even the smallest sample does.
pub(super) fn low_rank(n: u64, tail: f64) -> u64 {
    // Ten standard deviations below the middle, nothing that a tail of 1e-16 could notice is left.
    let start = (n as f64 / 2.0 - 5.0 * (n as f64).sqrt()).max(0.0) as u64;
    let (mut probability, mut below, mut k) = (term(n, start), 0.0, start);
    while k < n && below + probability <= tail {
        below += probability;
        probability *= (n - k) as f64 / (k + 1) as f64;
        k += 1;
    }
    k
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_tails_equal_counting_by_hand() {
        assert!((at_least(6, 6) - 1.0 / 64.0).abs() < 1e-11);
        assert!((at_least(5, 4) - 6.0 / 32.0).abs() < 1e-11);
        assert!((at_least(4, 2) - 11.0 / 16.0).abs() < 1e-11);
        assert_eq!(at_least(4, 0), 1.0);
        assert_eq!(at_least(4, 5), 0.0);
    }

    #[test]
    fn large_tails_agree_with_the_normal_curve() {
        // 1.6449 standard deviations above the middle of a million coins: 5 %.
        let tail = at_least(1_000_000, 500_000 + 823);
        assert!((tail - 0.05).abs() < 0.001, "{tail}");
    }

    #[test]
    fn rank_of_the_lower_end_matches_published_tables() {
        // Order statistics of the 95 % interval of the median.
        for (n, rank) in [(5, 0), (6, 1), (8, 1), (9, 2), (20, 6), (100, 40)] {
            assert_eq!(low_rank(n, 0.025), rank, "n = {n}");
        }
    }
}
