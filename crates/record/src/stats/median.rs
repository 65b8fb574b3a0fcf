//! Medians and quantiles of times (whole nanoseconds) and of figures.
//!
//! A quantile between two samples is interpolated linearly (the common definition, type 7 of Hyndman and Fan); the median
//! is the quantile at one half.

use std::cmp::Ordering;

/// What a median can be taken of.
pub trait Number: Copy {
    /// Its value.
    fn value(self) -> f64;

    /// Which of two comes first.
    fn order(&self, other: &Self) -> Ordering;
}

impl Number for u64 {
    fn value(self) -> f64 {
        self as f64
    }

    fn order(&self, other: &u64) -> Ordering {
        self.cmp(other)
    }
}

impl Number for f64 {
    fn value(self) -> f64 {
        self
    }

    fn order(&self, other: &f64) -> Ordering {
        self.total_cmp(other)
    }
}

/// The median of samples in any order; none without samples.
pub fn median<T: Number>(samples: &[T]) -> Option<f64> {
    let mut samples = samples.to_vec();
    let half = samples.len().checked_sub(1)? / 2;
    let is_even = samples.len().is_multiple_of(2);
    let (_, low, above) = samples.select_nth_unstable_by(half, T::order);
    let low = low.value();
    match above.iter().copied().min_by(T::order) {
        Some(high) if is_even => Some((low + high.value()) / 2.0),
        _ => Some(low),
    }
}

/// The median of ascending samples; none without samples.
pub fn median_of_sorted<T: Number>(sorted: &[T]) -> Option<f64> {
    let low = sorted.get(sorted.len().checked_sub(1)? / 2)?.value();
    let high = sorted.get(sorted.len() / 2)?.value();
    Some(if low == high { low } else { (low + high) / 2.0 })
}

/// The quantile at `fraction` (0 to 1) of ascending samples; none without samples or a fraction.
pub fn quantile_of_sorted<T: Number>(sorted: &[T], fraction: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1).filter(|_| !fraction.is_nan())?;
    let position = fraction.clamp(0.0, 1.0) * last as f64;
    let below = (position as usize).min(last);
    let above = (below + 1).min(last);
    let (low, high) = (sorted[below].value(), sorted[above].value());
    Some(low + (high - low) * (position - below as f64))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_median_of_an_even_count_lies_between_the_middle_two() {
        assert_eq!(median(&[4, 1, 3, 2]), Some(2.5));
        assert_eq!(median(&[9, 1, 5]), Some(5.0));
        assert_eq!(median(&[3.0, 1.0, 2.0, 10.0]), Some(2.5));
        assert_eq!(median::<u64>(&[]), None);
        assert_eq!(median_of_sorted::<f64>(&[]), None);
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

    proptest! {
        #[test]
        fn sorted_or_not_the_median_is_the_same(mut samples in prop::collection::vec(-1e9..1e9f64, 0..30)) {
            let found = median(&samples);
            samples.sort_by(f64::total_cmp);
            prop_assert_eq!(found, median_of_sorted(&samples));
        }
    }
}
