//! What is usual: the median of earlier figures, and how far they lie from it.

use record::stats::median;

/// A standard deviation over the median absolute deviation, for normal noise.
pub(super) const OF_MEDIAN_DEVIATION: f64 = 1.4826;
/// How much more the median of a few runs errs than their mean would: pi over two.
pub(super) const MEDIAN_COST: f64 = std::f64::consts::FRAC_PI_2;

/// The median and the spread of some values, neither moved by a few wild ones.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Baseline {
    /// Their median.
    pub(crate) median: f64,
    /// Median distance from it, scaled to be a standard deviation where values are normal.
    pub(crate) spread: f64,
    /// How many they are.
    pub(crate) runs: usize,
}

impl Baseline {
    /// Of these values, in any order, which must be numbers; none without any.
    pub(crate) fn of(values: impl Iterator<Item = f64>) -> Option<Baseline> {
        let mut values: Vec<f64> = values.collect();
        let middle = median(&values)?;
        for value in &mut values {
            *value = (*value - middle).abs();
        }
        let distance = median(&values)?;
        Some(Baseline {
            median: middle,
            spread: OF_MEDIAN_DEVIATION * distance,
            runs: values.len(),
        })
    }

    /// Its spread, drawn towards that of its peers as if that rested on `weight` more runs: a few runs of one part say little.
    pub(crate) fn spread_among(&self, peers: f64, weight: f64, least: f64) -> f64 {
        let runs = self.runs as f64;
        let joined = (weight * peers * peers + runs * self.spread * self.spread) / (weight + runs);
        joined.sqrt().max(least)
    }
}

/// What parts have in common in one run: the median of how far each is from its own usual figure; none of fewer than `fewest`.
pub(crate) fn common_level(distances: &[f64], fewest: usize) -> Option<f64> {
    median(distances).filter(|_| distances.len() >= fewest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_wild_value_moves_neither_middle_nor_spread() {
        let calm = [1.0, 1.1, 0.9, 1.05, 0.95, 1.0];
        let usual = Baseline::of(calm.into_iter()).unwrap();
        let wild = Baseline::of(calm.into_iter().chain([50.0])).unwrap();
        assert_eq!((usual.median, wild.median), (1.0, 1.0));
        assert!(wild.spread < 2.0 * usual.spread && usual.spread > 0.0);
        assert_eq!(Baseline::of([].into_iter()), None);
    }

    #[test]
    fn a_short_past_borrows_its_spread_from_peers() {
        let equal = Baseline::of([2.0; 7].into_iter()).unwrap();
        assert_eq!(equal.spread, 0.0);
        let among = equal.spread_among(0.01, 20.0, 0.001);
        assert!((0.008..0.01).contains(&among), "{among}");
        assert_eq!(equal.spread_among(0.0, 20.0, 0.001), 0.001);
    }
}
