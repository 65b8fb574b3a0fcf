//! The rank interval of the median: which two samples the true median lies between.
//!
//! Each independent sample falls above the true median with probability one half, whatever the distribution. So the
//! number that do is binomial, and the k-th smallest and k-th largest sample enclose the median with a probability that
//! is known exactly. The interval uses the largest k whose coverage is at least the confidence asked for. Six samples are
//! the fewest that can carry 95 %; five or fewer are refused at any confidence (Hoefler and Belli, SC'15).

use super::binomial;
use super::median::median_of_sorted;

/// Samples below which no interval is given.
const FEWEST: usize = 6;

/// The median of some samples and the interval the true median lies in.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MedianInterval {
    /// Median of the samples.
    pub median: f64,
    /// Lower end: a sample.
    pub lower: u64,
    /// Upper end: a sample.
    pub upper: u64,
}

impl MedianInterval {
    /// Half the interval's width over the median; infinite when the median is zero and the interval is not.
    pub fn relative_half_width(&self) -> f64 {
        let half = self.upper.saturating_sub(self.lower) as f64 / 2.0;
        if half == 0.0 { 0.0 } else { half / self.median }
    }
}

/// The interval of the median of ascending samples; none when they are too few for that confidence.
pub fn interval_of_sorted(sorted: &[u64], confidence: f64) -> Option<MedianInterval> {
    let (low, high) = interval_ranks(sorted.len(), confidence)?;
    Some(MedianInterval {
        median: median_of_sorted(sorted)?,
        lower: sorted[low],
        upper: sorted[high],
    })
}

/// Positions (from 0) of the two samples that bound the median of `n`.
fn interval_ranks(n: usize, confidence: f64) -> Option<(usize, usize)> {
    if n < FEWEST || !(0.0..1.0).contains(&confidence) {
        return None;
    }
    let rank = binomial::low_rank(n as u64, (1.0 - confidence) / 2.0) as usize;
    let low = rank.min(n.div_ceil(2)).checked_sub(1)?;
    Some((low, n - 1 - low))
}

/// The fewest samples that carry an interval at this confidence; none when no number does.
pub fn samples_needed(confidence: f64) -> Option<usize> {
    (FEWEST..=64).find(|n| interval_ranks(*n, confidence).is_some())
}

/// Whether the median's interval is no wider than `half_width` of the median to either side.
pub fn is_tight(samples: &[u64], confidence: f64, half_width: f64) -> bool {
    let mut sorted = Sorted::default();
    sorted.extend(samples);
    sorted.is_tight(confidence, half_width)
}

/// Samples kept in order as they arrive, so that the stop rule can be asked after every one of them.
///
/// An insertion moves at most n numbers, a question touches the square root of n: microseconds for thousands.
#[derive(Debug, Clone, Default)]
pub struct Sorted(Vec<u64>);

impl Sorted {
    /// Adds one sample.
    pub fn insert(&mut self, sample: u64) {
        let position = self.0.partition_point(|kept| *kept <= sample);
        self.0.insert(position, sample);
    }

    /// Adds many samples.
    pub fn extend(&mut self, samples: &[u64]) {
        self.0.extend_from_slice(samples);
        self.0.sort_unstable();
    }

    /// The samples, ascending.
    pub fn as_slice(&self) -> &[u64] {
        &self.0
    }

    /// The interval of their median.
    pub fn interval(&self, confidence: f64) -> Option<MedianInterval> {
        interval_of_sorted(&self.0, confidence)
    }

    /// Whether that interval is no wider than `half_width` of the median to either side.
    pub fn is_tight(&self, confidence: f64, half_width: f64) -> bool {
        self.interval(confidence)
            .is_some_and(|interval| interval.relative_half_width() <= half_width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::{Rng, SeedableRng};

    #[test]
    fn five_samples_are_too_few_and_six_are_enough() {
        assert_eq!(interval_of_sorted(&[1, 2, 3, 4, 5], 0.5), None);
        let interval = interval_of_sorted(&[1, 2, 3, 4, 5, 6], 0.95).unwrap();
        assert_eq!((interval.lower, interval.upper), (1, 6));
        assert_eq!(samples_needed(0.95), Some(6));
        assert_eq!(samples_needed(0.99), Some(8));
        assert_eq!(samples_needed(1.0), None);
        assert_eq!(samples_needed(f64::NAN), None);
    }

    #[test]
    fn the_interval_covers_the_true_median_as_often_as_it_says() {
        let mut random = ChaCha8Rng::seed_from_u64(7);
        let (trials, mut covered) = (4000, 0);
        for _ in 0..trials {
            let mut samples: Vec<u64> = (0..41).map(|_| random.next_u64() % 2_000_001).collect();
            samples.sort_unstable();
            let interval = interval_of_sorted(&samples, 0.95).unwrap();
            covered += u32::from(interval.lower <= 1_000_000 && 1_000_000 <= interval.upper);
        }
        let share = f64::from(covered) / f64::from(trials);
        assert!((0.945..0.975).contains(&share), "{share}");
    }

    #[test]
    fn the_stop_rule_gives_the_same_answer_one_by_one_and_at_once() {
        let samples: Vec<u64> = (0..200).map(|i| 1000 + (i * 7919) % 100).collect();
        let mut running = Sorted::default();
        for (i, sample) in samples.iter().enumerate() {
            running.insert(*sample);
            assert_eq!(running.is_tight(0.95, 0.02), is_tight(&samples[..=i], 0.95, 0.02));
        }
        assert!(running.is_tight(0.95, 0.02));
        assert!(!running.is_tight(0.95, 0.0001));
    }

    #[test]
    fn times_of_zero_do_not_divide() {
        assert!(is_tight(&[0; 10], 0.95, 0.01));
        assert!(!is_tight(&[0, 0, 0, 0, 0, 9], 0.95, 0.01));
    }
}
