//! What a part is above or below its level for some nights on end: a first-order autoregressive wander.

use rand_chacha::ChaCha8Rng;

use super::normal;

/// A wander from night to night. It never settles and comes back by itself: nothing is wrong with the part.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Wander {
    /// Standard deviation of a night, as a share (0.015 = 1.5 %).
    pub deviation: f64,
    /// Correlation of one night with the next, from 0 (nights are independent) to less than 1.
    pub correlation: f64,
}

impl Wander {
    /// So many nights in a row, as logarithms. The first is as far out as any other.
    pub(super) fn course(&self, nights: usize, random: &mut ChaCha8Rng) -> Vec<f64> {
        let correlation = self.correlation.clamp(0.0, 1.0);
        let renewed = (1.0 - correlation * correlation).sqrt();
        let mut now = normal(random);
        (0..nights)
            .map(|_| {
                let tonight = self.deviation * now;
                now = correlation * now + renewed * normal(random);
                tonight
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_chacha::rand_core::SeedableRng;

    #[test]
    fn a_wander_is_as_wide_and_as_correlated_as_it_is_told_to_be() {
        for correlation in [0.0, 0.5, 0.9] {
            let wander = Wander {
                deviation: 0.015,
                correlation,
            };
            let course = wander.course(100_000, &mut ChaCha8Rng::seed_from_u64(1));
            let mean_of = |lag: usize| {
                let products = course.windows(lag + 1).map(|row| row[0] * row[lag]);
                products.sum::<f64>() / (course.len() - lag) as f64
            };
            let variance = mean_of(0);
            assert!((variance.sqrt() / 0.015 - 1.0).abs() < 0.03, "{variance}");
            for lag in 1..4 {
                let found = mean_of(lag) / variance;
                assert!(
                    (found - correlation.powi(lag as i32)).abs() < 0.03,
                    "{lag}: {found}"
                );
            }
        }
    }
}
