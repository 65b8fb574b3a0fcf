//! Medians and quantiles of times.
//!
//! A quantile between two samples is interpolated linearly (the common definition, type 7 of Hyndman and Fan); the median
//! is the quantile at one half.

/// The median; none without samples.
pub fn median(samples: &[u64]) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    median_of_sorted(&sorted)
}

/// The median of ascending samples; none without samples.
pub fn median_of_sorted(sorted: &[u64]) -> Option<f64> {
    quantile_of_sorted(sorted, 0.5)
}

/// The quantile at `fraction` (0 to 1) of ascending samples; none without samples or a fraction.
pub fn quantile_of_sorted(sorted: &[u64], fraction: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1).filter(|_| !fraction.is_nan())?;
    let position = fraction.clamp(0.0, 1.0) * last as f64;
    let below = (position as usize).min(last);
    let above = (below + 1).min(last);
    let (low, high) = (sorted[below] as f64, sorted[above] as f64);
    Some(low + (high - low) * (position - below as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_count_lies_between_the_middle_two() {
        assert_eq!(median(&[4, 1, 3, 2]), Some(2.5));
        assert_eq!(median(&[9, 1, 5]), Some(5.0));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn quantiles_reach_both_ends_and_survive_nonsense() {
        let sorted = [10, 20, 30];
        assert_eq!(quantile_of_sorted(&sorted, 0.0), Some(10.0));
        assert_eq!(quantile_of_sorted(&sorted, 1.0), Some(30.0));
        assert_eq!(quantile_of_sorted(&sorted, 7.0), Some(30.0));
        assert_eq!(quantile_of_sorted(&sorted, f64::NAN), None);
        assert_eq!(
            quantile_of_sorted(&[u64::MAX, u64::MAX], 0.5),
            Some(u64::MAX as f64)
        );
    }
}
