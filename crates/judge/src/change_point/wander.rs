//! How one reading of a part resembles the next, estimated from all parts of a kind.
//!
//! The model: a reading is its level, plus a wander of which each run keeps a share (`correlation`) from the run before, plus an
//! error that is new in every run. `share` is how much of the variance about the level wanders. Both follow from how much more two
//! readings of a part differ that are further apart: differences know nothing of the level, and their median over all parts
//! nothing of a few wild ones. What breaks it: parts of one kind that wander in different ways, and a wander that keeps its course.

use std::sync::LazyLock;

use super::baseline::{MEDIAN_COST, OF_MEDIAN_DEVIATION};
use record::stats::median;

/// Between readings so many runs apart differences are taken.
const LAGS: [usize; 6] = [1, 2, 3, 5, 8, 13];
/// What is assumed of parts before anything is known of them, and as how many runs that counts.
pub(crate) const ASSUMED: Wander = Wander {
    share: 0.5,
    correlation: 0.5,
};
const ASSUMED_RUNS: f64 = 2.0;
/// A difference of more spreads counts as that: a step is no wander.
const WIDEST: f64 = 6.0;
/// Shares and correlations that are tried, in steps of this.
const GRID: f64 = 0.05;
/// Nothing is taken to wander more, or longer, than this.
const MOST: f64 = 0.95;

/// How readings of a part vary about its level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Wander {
    /// The share of their variance that wanders; the rest is new in every run.
    pub(crate) share: f64,
    /// Correlation of the wander of one run with that of the next.
    pub(crate) correlation: f64,
}

impl Wander {
    /// Every reading is new.
    #[cfg(test)]
    pub(crate) const NONE: Wander = Wander {
        share: 0.0,
        correlation: 0.0,
    };

    /// By how much the median of so many runs errs about the level, in variances of one reading.
    pub(crate) fn level_variance(&self, runs: usize) -> f64 {
        let count = runs.max(1) as f64;
        let (mut kept, mut shared) = (1.0, 1.0);
        for lag in 1..runs {
            kept *= self.correlation;
            shared += 2.0 * (1.0 - lag as f64 / count) * kept;
        }
        (MEDIAN_COST * (1.0 - self.share) + self.share * shared) / count
    }

    /// Half of the mean square by which readings so many runs apart differ, in variances of one reading.
    fn difference(&self, lag: usize) -> f64 {
        1.0 - self.share * self.correlation.powi(lag as i32)
    }
}

/// Differences between readings of one part, one for each lag; none where it has no reading so long ago.
pub(crate) type Differences = [Option<f64>; LAGS.len()];

/// Differences of a reading from earlier ones of the same part, the latest last; `spread` is that of its peers. They are not divided
/// by it: a spread is wider where a part has wandered far, and grows with the runs it is taken from, and lags would not compare.
pub(crate) fn differences(now: f64, earlier: &[f64], spread: f64) -> Differences {
    LAGS.map(|lag| {
        let before = earlier.len().checked_sub(lag).map(|at| earlier[at])?;
        let size = (now - before).abs().min(WIDEST * spread);
        Some(size).filter(|size| size.is_finite())
    })
}

/// How much readings differ by the number of runs between them: a variogram, all parts of a kind together.
#[derive(Debug, Clone, Default)]
pub(crate) struct Variogram {
    /// For each lag the sum of half the squares, one of each run, and how many they are.
    lags: [(f64, f64); LAGS.len()],
}

impl Variogram {
    /// Adds the differences of one run, of all parts that have any.
    pub(crate) fn add(&mut self, parts: &[Differences]) {
        for (at, (sum, runs)) in self.lags.iter_mut().enumerate() {
            let sizes: Vec<f64> = parts.iter().filter_map(|part| part[at]).collect();
            if let Some(middle) = median(&sizes) {
                *sum += (OF_MEDIAN_DEVIATION * middle).powi(2) / 2.0;
                *runs += 1.0;
            }
        }
    }

    /// The wander that fits best, where `assumed` counts as some more runs.
    pub(crate) fn wander(&self, assumed: Wander) -> Wander {
        if self.lags.iter().all(|(sum, _)| *sum <= 0.0) {
            return assumed;
        }
        let beforehand = LAGS.map(|lag| (ASSUMED_RUNS * assumed.difference(lag), ASSUMED_RUNS));
        let misfit = |tried: &Tried| tried.deviance(&self.lags) + tried.deviance(&beforehand);
        TRIED
            .iter()
            .map(|tried| (tried.wander, misfit(tried)))
            .min_by(|a, b| a.1.total_cmp(&b.1))
            .map_or(assumed, |(wander, _)| wander)
    }
}

/// A wander, with what it makes of differences.
struct Tried {
    wander: Wander,
    /// For each lag one over the mean square, and its logarithm.
    lags: [(f64, f64); LAGS.len()],
}

static TRIED: LazyLock<Vec<Tried>> = LazyLock::new(|| {
    let steps = (MOST / GRID).round() as usize;
    let at = |step: usize| step as f64 * GRID;
    let tried = |share: usize, correlation: usize| {
        let wander = Wander {
            share: at(share),
            correlation: at(correlation),
        };
        let of = |lag: usize| (wander.difference(lag).recip(), wander.difference(lag).ln());
        Tried {
            wander,
            lags: LAGS.map(of),
        }
    };
    let all = (0..=steps).flat_map(|share| (1..=steps).map(move |correlation| (share, correlation)));
    all.map(|(share, correlation)| tried(share, correlation))
        .collect()
});

impl Tried {
    /// How badly it fits sums over so many runs: the deviance of variances whose scale is free, less what is the same for all that
    /// are tried.
    fn deviance(&self, sums: &[(f64, f64); LAGS.len()]) -> f64 {
        let (mut scaled, mut runs, mut logarithms) = (0.0, 0.0, 0.0);
        for ((sum, count), (inverse, logarithm)) in sums.iter().zip(&self.lags) {
            if *sum > 0.0 {
                scaled += sum * inverse;
                runs += count;
                logarithms += count * logarithm;
            }
        }
        if scaled > 0.0 {
            runs * (scaled / runs).ln() + logarithms
        } else {
            0.0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::burn_in::fixture::Noise;
    use proptest::prelude::*;

    /// What is estimated after some runs of so many parts, whose wander has a standard deviation of 1.5 beside errors of 1.
    fn estimated(parts: usize, runs: usize, correlation: f64, seed: u64) -> Wander {
        let mut noise = Noise::new(seed);
        let mut wanders: Vec<f64> = (0..parts).map(|_| noise.normal()).collect();
        let mut readings: Vec<Vec<f64>> = vec![Vec::new(); parts];
        let mut variogram = Variogram::default();
        for _ in 0..runs {
            let mut all = Vec::new();
            for (wander, earlier) in wanders.iter_mut().zip(&mut readings) {
                let kept = correlation * *wander;
                *wander = kept + (1.0 - correlation * correlation).sqrt() * noise.normal();
                let now = 1.5 * *wander + noise.normal();
                all.push(differences(now, earlier, 1.8));
                earlier.push(now);
            }
            variogram.add(&all);
        }
        variogram.wander(ASSUMED)
    }

    #[test]
    fn a_wander_is_estimated_from_how_differences_grow() {
        for correlation in [0.3, 0.5, 0.8, 0.9] {
            let found = estimated(64, 60, correlation, 5);
            // What matters is how alike readings are that are one and three runs apart.
            for lag in [1, 3] {
                let alike = |share: f64, correlation: f64| share * correlation.powi(lag);
                let (found, truth) = (
                    alike(found.share, found.correlation),
                    alike(2.25 / 3.25, correlation),
                );
                assert!(
                    (found - truth).abs() < 0.12,
                    "{correlation}, {lag}: {found} {truth}"
                );
            }
        }
        let none = estimated(64, 60, 0.0, 6);
        assert!(none.share * none.correlation < 0.08, "{none:?}");
    }

    #[test]
    fn nothing_known_is_what_is_assumed_and_a_few_runs_hardly_move_it() {
        let close = |found: Wander| {
            let alike = (found.share * found.correlation) - (ASSUMED.share * ASSUMED.correlation);
            assert!(alike.abs() < 0.1, "{found:?}");
        };
        close(Variogram::default().wander(ASSUMED));
        close(estimated(64, 2, 0.0, 7));
    }

    #[test]
    fn a_median_of_readings_that_wander_knows_its_level_less_well() {
        let new = Wander::NONE.level_variance(10);
        assert!((new - MEDIAN_COST / 10.0).abs() < 1e-12);
        let strong = Wander {
            share: 0.7,
            correlation: 0.9,
        };
        assert!(strong.level_variance(10) > 3.0 * new);
        assert!(strong.level_variance(40) < strong.level_variance(10));
    }

    proptest! {
        #[test]
        fn no_differences_are_too_odd(
            rows in prop::collection::vec(prop::collection::vec(prop::num::f64::ANY, 0..5), 0..20),
            spread in prop::num::f64::ANY,
        ) {
            let mut variogram = Variogram::default();
            for row in &rows {
                let parts: Vec<Differences> = row.iter().map(|now| differences(*now, row, spread)).collect();
                variogram.add(&parts);
            }
            let found = variogram.wander(ASSUMED);
            prop_assert!((0.0..=MOST + 1e-9).contains(&found.share));
            prop_assert!((0.0..=MOST + 1e-9).contains(&found.correlation));
        }
    }
}
