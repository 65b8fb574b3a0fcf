//! The binomial distribution: how many of n samples fall above the true median (p = 1/2), and how many of n measurements are disturbed.
//!
//! Terms are started from a logarithm and then multiplied along, so that n may be millions without overflow, and summed
//! only where they matter: the work is proportional to the square root of n.

use statrs::distribution::{Binomial, DiscreteCDF};
use statrs::function::beta::ln_beta;

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

/// A bound on the chance that a count of events which happen with probability `each` is ever as odd as `seen` of `of`, however often it is looked at
/// and whenever that ends.
///
/// The likelihood of the count under any larger probability (all equally likely), over its likelihood under `each`, is a martingale if `each` is
/// true: it ever reaches `x` with probability `1 / x` at most (Ville).
pub fn ever_of(seen: u64, of: u64, each: f64) -> f64 {
    if seen == 0 || seen > of || !(each > 0.0 && each < 1.0) {
        return 1.0;
    }
    let (seen, missed) = (seen as f64, (of - seen) as f64);
    if seen <= each * (seen + missed) {
        return 1.0;
    }
    let under_null = seen * each.ln() + missed * (1.0 - each).ln();
    let mixed = ln_any_probability(seen, seen + missed);
    (under_null - mixed).exp().min(1.0)
}

/// The logarithm of the likelihood of `seen` events in `of` trials, in a given order, if any probability of them is as likely.
pub fn ln_any_probability(seen: f64, of: f64) -> f64 {
    ln_beta(seen + 1.0, (of - seen).max(0.0) + 1.0)
}

/// Chance of at least `seen` of `of` events that happen with probability `each`.
pub fn at_least_of(seen: u64, of: u64, each: f64) -> f64 {
    if seen == 0 || each.is_nan() {
        return 1.0;
    }
    match Binomial::new(each.clamp(0.0, 1.0), of) {
        Ok(events) => events.sf(seen - 1),
        Err(_) => 1.0,
    }
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
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::{Rng, SeedableRng};

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
    fn a_count_that_is_watched_all_the_time_hardly_ever_looks_odd() {
        let mut random = ChaCha8Rng::seed_from_u64(5);
        let (trials, mut odd) = (2000, 0);
        for _ in 0..trials {
            let mut seen = 0;
            odd += u32::from((1..=100).any(|of| {
                seen += u64::from(random.next_u64() % 5 == 0);
                ever_of(seen, of, 0.2) < 0.05
            }));
        }
        assert!(odd <= trials / 20, "{odd} of {trials}");
        assert!(ever_of(3, 3, 0.006) < 1e-5);
        assert_eq!(ever_of(0, 10, 0.2), 1.0);
        assert_eq!(ever_of(1, 10, 0.2), 1.0, "rarer than usual");
        assert_eq!(ever_of(3, 2, 0.2), 1.0);
    }

    #[test]
    fn tails_of_rare_events_equal_counting_by_hand() {
        assert!((at_least_of(3, 3, 0.1) - 0.001).abs() < 1e-12);
        assert!((at_least_of(1, 2, 0.1) - 0.19).abs() < 1e-12);
        assert!(at_least_of(30, 100, 0.01) > 0.0);
        assert_eq!(at_least_of(0, 3, 0.1), 1.0);
        assert!(at_least_of(4, 3, 0.1) < 1e-12);
        assert_eq!(at_least_of(3, 3, f64::NAN), 1.0);
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
