//! What the next readings of a part are expected to be, if it did not change: its usual level, and what is left of its wander.

use super::baseline::Baseline;
use super::wander::Wander;

/// A reading farther from what was expected, in standard deviations, moves what is expected of the next by no more than this.
const FARTHEST: f64 = 2.5;

/// What is expected of the readings after some, the first of them at 0.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Forecast {
    wander: Wander,
    level: f64,
    spread: f64,
    /// Where the wander was in the last reading, in spreads.
    last: f64,
    /// How uncertain that is, and how uncertain the level, in squares of the spread.
    last_variance: f64,
    level_variance: f64,
    /// The share of a lasting distance from the level that is taken for wander.
    followed: f64,
}

impl Forecast {
    /// After these readings, the oldest first, whose usual level and spread are known.
    pub(crate) fn after(readings: &[f64], usual: &Baseline, spread: f64, wander: Wander) -> Forecast {
        let Wander { share, correlation } = wander;
        let (mut last, mut variance, mut gain) = (0.0, share, 0.0);
        for (at, reading) in readings.iter().enumerate() {
            if at > 0 {
                last *= correlation;
                variance = share + correlation * correlation * (variance - share);
            }
            let all = (variance + 1.0 - share).max(f64::MIN_POSITIVE);
            let most = FARTHEST * all.sqrt();
            let surprise = ((reading - usual.median) / spread - last).clamp(-most, most);
            gain = variance / all;
            last += gain * surprise;
            variance *= 1.0 - gain;
        }
        Forecast {
            wander,
            level: usual.median,
            spread,
            last,
            last_variance: variance,
            level_variance: wander.level_variance(usual.runs),
            followed: gain / (1.0 - correlation * (1.0 - gain)),
        }
    }

    /// How far a reading lies from what is expected, in standard deviations of that.
    pub(crate) fn distance(&self, ahead: usize, reading: f64) -> f64 {
        let expected = self.kept(ahead) * self.last;
        ((reading - self.level) / self.spread - expected) / self.covariance(ahead, ahead).sqrt()
    }

    /// How the errors of two forecasts vary together, in squares of the spread.
    pub(crate) fn covariance(&self, one: usize, other: usize) -> f64 {
        self.of_readings(one, other) + self.of_level(one) * self.of_level(other)
    }

    /// The part of that which is not the level's.
    pub(crate) fn of_readings(&self, one: usize, other: usize) -> f64 {
        let Wander { share, correlation } = self.wander;
        let (first, second) = (self.kept(one), self.kept(other));
        let apart = correlation.powi(one.abs_diff(other) as i32);
        let renewed = share * (apart - first * second);
        let own = if one == other { 1.0 - share } else { 0.0 };
        own + renewed + first * second * self.last_variance
    }

    /// The standard deviation that an uncertain level adds: what of its error was not taken for wander.
    fn of_level(&self, ahead: usize) -> f64 {
        (1.0 - self.kept(ahead) * self.followed) * self.level_variance.sqrt()
    }

    /// The same, as a share of the standard deviation of a forecast.
    pub(crate) fn level_error(&self, ahead: usize) -> f64 {
        self.of_level(ahead) / self.covariance(ahead, ahead).sqrt()
    }

    /// The share of the last wander that is left.
    fn kept(&self, ahead: usize) -> f64 {
        self.wander.correlation.powi(ahead as i32 + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STRONG: Wander = Wander {
        share: 0.7,
        correlation: 0.9,
    };

    fn after(readings: &[f64], wander: Wander) -> Forecast {
        let usual = Baseline {
            median: 10.0,
            spread: 2.0,
            runs: readings.len(),
        };
        Forecast::after(readings, &usual, 2.0, wander)
    }

    #[test]
    fn where_nothing_wanders_the_level_is_expected_whatever_was_read_last() {
        let mut readings = vec![10.0; 20];
        readings.extend([6.0, 6.0, 6.0]);
        let forecast = after(&readings, Wander::NONE);
        let unit = 2.0 * (1.0 + Wander::NONE.level_variance(23)).sqrt();
        for ahead in [0, 3] {
            assert!((forecast.distance(ahead, 6.0) + 4.0 / unit).abs() < 1e-12);
        }
        assert!((forecast.of_readings(0, 0) - 1.0).abs() < 1e-12 && forecast.of_readings(0, 1) == 0.0);
    }

    #[test]
    fn a_part_that_wandered_low_is_expected_there_and_then_less_and_less() {
        let mut readings = vec![10.0; 20];
        readings.extend([6.0, 6.0, 6.0]);
        let forecast = after(&readings, STRONG);
        let distances: Vec<f64> = [0, 3, 12].map(|ahead| forecast.distance(ahead, 6.0)).to_vec();
        assert!(distances.is_sorted_by(|a, b| a > b), "{distances:?}");
        assert!(distances[0].abs() < 1.0 && distances[2] < -1.0, "{distances:?}");
        // Forecasts of the near future are surer, and err alike.
        assert!(forecast.covariance(0, 0) < forecast.covariance(8, 8));
        assert!(forecast.of_readings(0, 1) > 0.1);
    }

    #[test]
    fn one_wild_reading_moves_the_next_forecast_little() {
        let mut readings = vec![10.0; 20];
        readings.push(-1000.0);
        let wild = after(&readings, STRONG).distance(0, 10.0);
        assert!((0.0..2.5).contains(&wild), "{wild}");
    }
}
