//! Counting outliers: samples beyond Tukey's fences, 1.5 interquartile ranges outside the quartiles.
//!
//! They are counted so that a reader sees sporadic slow iterations; they are never dropped, and no verdict rests on them.

use super::median::quantile_of_sorted;

/// How many of these ascending samples lie beyond the fences.
pub fn beyond_fences(sorted: &[u64]) -> usize {
    let (Some(first), Some(third)) = (quantile_of_sorted(sorted, 0.25), quantile_of_sorted(sorted, 0.75))
    else {
        return 0;
    };
    let reach = 1.5 * (third - first);
    let below = sorted.partition_point(|sample| (*sample as f64) < first - reach);
    let inside_or_below = sorted.partition_point(|sample| *sample as f64 <= third + reach);
    below + (sorted.len() - inside_or_below)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sporadic_pause_is_counted() {
        let mut times: Vec<u64> = (100..200).collect();
        assert_eq!(beyond_fences(&times), 0);
        times.extend([40_000, 200_000]);
        assert_eq!(beyond_fences(&times), 2);
        assert_eq!(beyond_fences(&[]), 0);
    }
}
