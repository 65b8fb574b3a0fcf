//! Percentiles of times, through an HDR histogram: three significant digits at any magnitude, in little memory.
//!
//! The ends are exact. Percentiles are those of the samples, with no correction for coordinated omission: iterations
//! follow each other, so none was left out while waiting.

use hdrhistogram::Histogram;

/// The spread of some times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spread {
    /// Shortest, exact.
    pub min: u64,
    /// Half are at or below.
    pub p50: u64,
    /// 95 % are at or below.
    pub p95: u64,
    /// 99 % are at or below.
    pub p99: u64,
    /// 99.9 % are at or below.
    pub p999: u64,
    /// Longest, exact.
    pub max: u64,
}

/// Three digits are kept by this power of two of steps between a time and its double.
const STEPS_OF_A_DOUBLING: u32 = 10;

/// All of `times`; none without any.
fn histogram_of(times: &[u64]) -> Option<Histogram<u32>> {
    let (min, max) = (*times.iter().min()?, *times.iter().max()?);
    // Steps finer than those at the shortest time are never used. Left out, percentiles are the same, and found in a fraction of the time.
    let finest = 1 << min.max(1).ilog2().saturating_sub(STEPS_OF_A_DOUBLING);
    // The histogram refuses a range below two steps and values near u64::MAX; the first is widened, the second saturates.
    let finest = finest.min(u64::MAX / 8);
    let mut histogram =
        Histogram::<u32>::new_with_bounds(finest, max.clamp(2 * finest, u64::MAX / 4), 3).ok()?;
    for time in times {
        histogram.saturating_record(*time);
    }
    Some(histogram)
}

/// Times to three digits, ascending, and how many there are of each.
pub fn counts(times: &[u64]) -> Vec<(u64, u64)> {
    let histogram = histogram_of(times);
    let steps = histogram.iter().flat_map(Histogram::iter_recorded);
    steps
        .map(|step| (step.value_iterated_to(), step.count_at_value()))
        .map(|(value, count)| (value, u64::from(count)))
        .collect()
}

/// The spread of `times`; none without any.
pub fn spread(times: &[u64]) -> Option<Spread> {
    let (min, max) = (*times.iter().min()?, *times.iter().max()?);
    let histogram = histogram_of(times)?;
    let at = |quantile| histogram.value_at_quantile(quantile).clamp(min, max);
    Some(Spread {
        min,
        p50: at(0.5),
        p95: at(0.95),
        p99: at(0.99),
        p999: at(0.999),
        max,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_right_to_three_digits() {
        let times: Vec<u64> = (1..=100_000).collect();
        let spread = spread(&times).unwrap();
        assert_eq!((spread.min, spread.max), (1, 100_000));
        for (got, want) in [
            (spread.p50, 50_000.0),
            (spread.p95, 95_000.0),
            (spread.p99, 99_000.0),
        ] {
            assert!((got as f64 / want - 1.0).abs() < 0.002, "{got} for {want}");
        }
    }

    #[test]
    fn times_are_counted_to_three_digits_whatever_they_are() {
        let kept = counts(&[1_000_000, 1_000_001, 5, 3_000_000_000, u64::MAX]);
        assert_eq!(kept.iter().map(|(_, count)| count).sum::<u64>(), 5, "{kept:?}");
        assert_eq!(kept[0], (5, 1));
        assert!(
            (kept[1].0 as f64 / 1e6 - 1.0).abs() < 0.002 && kept[1].1 == 2,
            "{kept:?}"
        );
        assert!((kept[2].0 as f64 / 3e9 - 1.0).abs() < 0.002, "{kept:?}");
        assert_eq!(counts(&[]), []);
    }

    #[test]
    fn percentiles_do_not_depend_on_where_steps_begin() {
        let times: Vec<u64> = (0..4_000_u64)
            .map(|at| 1_300_000 + at * at * 37 % 2_900_000)
            .collect();
        let beside_a_short_one: Vec<u64> = [1].into_iter().chain(times.iter().copied()).collect();
        assert_eq!(counts(&times), counts(&beside_a_short_one)[1..]);
    }

    #[test]
    fn extreme_times_are_kept_not_dropped() {
        let spread = spread(&[0, 0, u64::MAX]).unwrap();
        assert_eq!((spread.min, spread.p50, spread.max), (0, 0, u64::MAX));
        assert_eq!(super::spread(&[]), None);
    }
}
