//! The sign test: is the median above a threshold?
//!
//! Under the null hypothesis (the true median is at or below the threshold) each independent sample lies above it with
//! probability one half at most. The p-value is the exact binomial chance of seeing as many above as were seen. Samples
//! equal to the threshold say nothing and are left out. Nothing is assumed about the shape of the distribution.

use super::binomial;

/// Chance of at least `above` of `of` samples above the true median.
pub fn sign_test(above: u64, of: u64) -> f64 {
    if of == 0 {
        1.0
    } else {
        binomial::at_least(of, above)
    }
}

/// One-sided sign test of "the times are above `threshold`"; small means they are.
pub fn sign_test_above(times: &[u64], threshold: f64) -> f64 {
    if threshold.is_nan() {
        return 1.0;
    }
    let above = times.iter().filter(|time| **time as f64 > threshold).count();
    let equal = times.iter().filter(|time| **time as f64 == threshold).count();
    sign_test(above as u64, (times.len() - equal) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::{Rng, SeedableRng};

    #[test]
    fn all_of_ten_above_is_one_in_a_thousand() {
        let p = sign_test_above(&[11; 10], 10.0);
        assert!((p - 1.0 / 1024.0).abs() < 1e-12, "{p}");
        assert_eq!(sign_test_above(&[10; 10], 10.0), 1.0);
        assert_eq!(sign_test_above(&[], 10.0), 1.0);
        assert_eq!(sign_test_above(&[1], f64::NAN), 1.0);
    }

    #[test]
    fn a_healthy_part_is_accused_no_more_often_than_stated() {
        let mut random = ChaCha8Rng::seed_from_u64(11);
        let (trials, mut accused) = (5000, 0);
        for _ in 0..trials {
            let times: Vec<u64> = (0..50).map(|_| random.next_u64() % 2_000_001).collect();
            accused += u32::from(sign_test_above(&times, 1_000_000.0) < 0.05);
        }
        let rate = f64::from(accused) / f64::from(trials);
        assert!((0.015..=0.058).contains(&rate), "{rate}");
    }
}
