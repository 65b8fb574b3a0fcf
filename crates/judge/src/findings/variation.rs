//! What varies between measurements of healthy cells, estimated from the run itself (docs/method.md, "What varies where nothing is wrong").
//!
//! Cells of a kind measure the same on other parts. Their rounds show how far healthy measurements lie apart: that is the uncertainty
//! of each of them, beyond what its own iterations show. Where few were measured, what is assumed beforehand weighs more.

use std::collections::BTreeMap;

use super::summary::{CellSummary, rate_interval};
use record::Interval;
use record::stats::{
    EFFICIENCY, MedianInterval, Scale, at_least_of, ever_of, median, normal_score, student_above,
    student_score,
};
use record::units::Rate;

/// The deviation of the logarithm of a healthy measurement that is assumed beforehand: that of the lab's recorded runs.
const ASSUMED: f64 = 0.02;
/// How many measurements that assumption is worth.
const WORTH: f64 = 8.0;
/// Fewer measurements of a kind say nothing: one slow one of four is a quarter of them.
const FEWEST: usize = 6;
/// Variance of the median of normal values, times their number.
const ERROR_OF_MEDIAN: f64 = std::f64::consts::FRAC_PI_2;
/// So many healthy measurements of a kind may look slow, on average, and be measured again.
const UNUSUAL: f64 = 0.05;
/// Disturbed measurements that are assumed beforehand, and among how many.
const DISTURBED: (f64, f64) = (0.2, 10.0);

/// How far healthy measurements of a kind lie apart.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Variation {
    /// Deviation of the logarithm of the rate, beyond the error of each median.
    pub(crate) deviation: f64,
    /// Degrees of freedom of that estimate.
    pub(crate) freedom: f64,
    /// Deviations that the intervals reach to each side.
    score: f64,
    /// Where the crowd of them is, as a logarithm, and how many measurements it has.
    crowd: Option<(f64, usize)>,
    /// How many measurements of the kind there are.
    measured: usize,
    /// Deviations below what is expected from which on one of them is unusual: against peers, and against an absolute figure, where both the cell by itself
    /// and all of a kind are looked at.
    unusual_from: [f64; 2],
}

impl Variation {
    /// What is assumed before anything is measured.
    pub(crate) fn assumed(confidence: f64) -> Variation {
        Variation {
            deviation: ASSUMED,
            freedom: WORTH,
            score: student_score(confidence, WORTH),
            crowd: None,
            measured: 1,
            unusual_from: Variation::unusual_from(1, WORTH),
        }
    }

    /// The scores of a measurement that is one of so many.
    fn unusual_from(measured: usize, freedom: f64) -> [f64; 2] {
        let of = |looks: f64| student_score(1.0 - 2.0 * Variation::unusual_of(measured) / looks, freedom);
        [of(1.0), of(2.0)]
    }

    /// Of measurements of a kind: the logarithm of each rate, and the error of that median.
    pub(super) fn of(measured: &[(f64, f64)], confidence: f64) -> Variation {
        let assumed = Variation {
            measured: measured.len(),
            unusual_from: Variation::unusual_from(measured.len(), WORTH),
            ..Variation::assumed(confidence)
        };
        if measured.len() < FEWEST {
            return assumed;
        }
        let logarithms: Vec<f64> = measured.iter().map(|(logarithm, _)| *logarithm).collect();
        let errors: Vec<f64> = measured.iter().map(|(_, error)| error * error).collect();
        let (Some(scale), Some(error)) = (Scale::of(&logarithms), median(&errors)) else {
            return assumed;
        };
        let between = (scale.deviation.powi(2) - error).max(0.0);
        let known = EFFICIENCY * scale.values as f64;
        Variation {
            deviation: ((WORTH * ASSUMED.powi(2) + known * between) / (WORTH + known)).sqrt(),
            freedom: WORTH + known,
            score: student_score(confidence, WORTH + known),
            crowd: Some((scale.middle, scale.values)),
            measured: measured.len(),
            unusual_from: Variation::unusual_from(measured.len(), WORTH + known),
        }
    }

    /// The p-value from which on one of so many measurements is unusual.
    pub(super) fn unusual_of(measured: usize) -> f64 {
        UNUSUAL / measured.max(1) as f64
    }

    /// The degrees of freedom that so many measurements would give, if they were all healthy.
    pub(super) fn freedom_of(measured: usize) -> f64 {
        match measured < FEWEST {
            true => WORTH,
            false => WORTH + EFFICIENCY * measured as f64,
        }
    }

    /// Half the length of the interval of a logarithm that was measured in so many rounds, given that of its own median.
    fn half_length(&self, own: f64, rounds: usize) -> f64 {
        let between = self.score * self.deviation / (rounds.max(1) as f64).sqrt();
        own.hypot(between)
    }

    /// The interval of a rate with what varies between measurements, from that of its own median.
    pub(crate) fn of_rate(&self, own: Interval<Rate>, rounds: usize) -> Interval<Rate> {
        let middle = own.median.0;
        let below = self.half_length((middle / own.lower.0).ln(), rounds);
        let above = self.half_length((own.upper.0 / middle).ln(), rounds);
        Interval {
            median: own.median,
            lower: Rate(middle * (-below).exp()),
            upper: Rate(middle * above.exp()),
        }
    }

    /// The same of a time.
    pub(crate) fn of_time(&self, own: MedianInterval, rounds: usize) -> MedianInterval {
        if own.median <= 0.0 {
            return own;
        }
        let below = self.half_length((own.median / own.lower.max(1) as f64).ln(), rounds);
        let above = self.half_length((own.upper as f64 / own.median).ln(), rounds);
        MedianInterval {
            median: own.median,
            lower: (own.median * (-below).exp()).floor() as u64,
            upper: (own.median * above.exp()).ceil() as u64,
        }
    }

    /// What a healthy measurement reaches: what is expected of it, or less where that is an absolute figure and all of its kind do.
    pub(super) fn healthy(&self, expected: Rate, is_absolute: bool) -> Rate {
        let crowd = self.crowd.filter(|_| is_absolute);
        Rate(
            expected
                .0
                .min(crowd.map_or(f64::INFINITY, |(middle, _)| middle.exp())),
        )
    }

    /// The probability that a healthy measurement gives a rate as low as this, where this is expected of it: the median of so many `peers`, or an absolute
    /// figure.
    pub(super) fn p_of_rate(
        &self,
        own: &Interval<Rate>,
        expected: Rate,
        peers: Option<usize>,
        confidence: f64,
    ) -> f64 {
        shortfall(
            (self.healthy(expected, peers.is_none()).0 / own.median.0).ln(),
            self.deviation_beside(peers).hypot(error_of(own, confidence)),
            self.freedom,
        )
    }

    /// The probability that healthy measurements of the kind all together are as far below a threshold as they are; 1 unless one in the
    /// middle of them, known as well as `own`, is below it.
    pub(super) fn p_of_crowd(&self, own: &Interval<Rate>, threshold: Rate) -> f64 {
        let Some((middle, values)) = self.crowd else {
            return 1.0;
        };
        if middle.exp() * own.upper.0 / own.median.0 >= threshold.0 {
            return 1.0;
        }
        let deviation = self.deviation / (values.max(1) as f64).sqrt();
        shortfall(threshold.0.ln() - middle, deviation, self.freedom)
    }

    /// The rate below which a measurement like `own` is unusual, where this is expected of it; as [`Variation::p_of_rate`] says.
    pub(super) fn unusual_below(
        &self,
        own: &Interval<Rate>,
        expected: Rate,
        peers: Option<usize>,
        confidence: f64,
    ) -> Rate {
        let deviation = self.deviation_beside(peers).hypot(error_of(own, confidence));
        let below = self.unusual_from[usize::from(peers.is_none())] * deviation;
        self.healthy(expected, peers.is_none()) * (-below).exp()
    }

    /// The deviation of a rate from what is expected. That is uncertain itself where it is the median of so many `peers`.
    fn deviation_beside(&self, peers: Option<usize>) -> f64 {
        let of_reference = peers.map_or(0.0, |peers| ERROR_OF_MEDIAN / peers.max(1) as f64);
        // Further rounds of a cell say nothing about the level that its parts have for good.
        self.deviation * (1.0 + of_reference).sqrt()
    }

    /// How far a rate is below the crowd of its kind, as a logarithm; none where few of the kind were measured.
    pub(super) fn below_crowd(&self, rate: Rate) -> Option<f64> {
        let (middle, _) = self.crowd?;
        Some(middle - rate.0.ln()).filter(|below| below.is_finite())
    }

    /// Whether a rate with this p-value is lower than those of healthy measurements, as many as there are, would be.
    pub(super) fn is_unusual(&self, p_value: f64) -> bool {
        p_value <= Variation::unusual_of(self.measured)
    }
}

/// The probability that a logarithm with this deviation lies as far below what is expected, or further.
pub(super) fn shortfall(below: f64, deviation: f64, freedom: f64) -> f64 {
    student_above(below / deviation, freedom)
}

/// The error of a median's logarithm towards higher rates, by its own interval: where iterations have two speeds, the two sides differ.
pub(super) fn error_of(own: &Interval<Rate>, confidence: f64) -> f64 {
    let score = normal_score((1.0 - confidence) / 2.0);
    (own.upper.0 / own.median.0).ln() / score.max(1.0)
}

/// How probable it is that a healthy measurement looks slow, for a reason outside the fabric.
#[derive(Debug, Clone, Copy)]
pub(super) struct Disturbances {
    probability: f64,
    /// One standard error more.
    at_most: f64,
}

impl Disturbances {
    /// So many of all measurements were slow while what they crossed is not.
    pub(super) fn seen(slow: usize, all: usize) -> Disturbances {
        Disturbances::of_pairs(slow, all, all)
    }

    /// The same per pair of ranks, where measurements of groups cross many `pairs` each; that is how many all of them crossed.
    pub(super) fn of_pairs(slow: usize, all: usize, pairs: usize) -> Disturbances {
        let (assumed, among) = DISTURBED;
        let pairs_each = pairs.max(1) as f64 / all.max(1) as f64;
        let among = pairs as f64 + among * pairs_each.max(1.0);
        let probability = ((slow as f64 + assumed) / among).min(1.0);
        Disturbances {
            probability,
            at_most: probability + (probability * (1.0 - probability) / among).sqrt(),
        }
    }

    /// A bound on the probability that so many of these measurements were disturbed, when they were asked for until that showed.
    pub(super) fn ever(&self, slow: usize, of: usize) -> f64 {
        ever_of(slow as u64, of.max(slow) as u64, self.at_most)
    }

    /// The probability that so many of these measurements were disturbed.
    pub(super) fn at_least(&self, slow: usize, of: usize) -> f64 {
        at_least_of(slow as u64, of.max(slow) as u64, self.probability)
    }

    /// The probability that a healthy measurement is disturbed, at most.
    pub(super) fn at_most(&self) -> f64 {
        self.at_most
    }

    /// How probable it is that one of so many is disturbed.
    pub(super) fn of_any(&self, pairs: usize) -> Disturbances {
        let any = |one: f64| 1.0 - (1.0 - one.min(1.0)).powf(pairs.max(1) as f64);
        Disturbances {
            probability: any(self.probability),
            at_most: any(self.at_most),
        }
    }
}

/// Sets what varies for every cell, from the rounds of all cells of its kind.
pub(crate) fn estimate(summaries: &mut [CellSummary<'_>], confidence: f64) {
    let mut numbers = BTreeMap::new();
    let mut kinds: Vec<Vec<Vec<(f64, f64)>>> = Vec::new();
    let mut kind_of = Vec::with_capacity(summaries.len());
    for summary in summaries.iter() {
        let number = *numbers.entry(summary.cell.peer_key()).or_insert(kinds.len());
        if number == kinds.len() {
            kinds.push(Vec::new());
        }
        kind_of.push(number);
        let tells = summary.done && summary.is_typical;
        let Some(bytes) = summary.wire.bytes().filter(|_| tells) else {
            continue;
        };
        let rounds = summary.rounds.iter();
        let rates = rounds.filter_map(|round| rate_interval(&round.times, bytes, confidence));
        let measured = rates.map(|rate| (rate.median.0.ln(), error_of(&rate, confidence)));
        kinds[number].push(measured.collect());
    }
    // Suspects are measured again, and must not weigh more for that: only rounds that all of a kind have count.
    let variation = |cells: &Vec<Vec<(f64, f64)>>| {
        let rounds = cells.iter().map(Vec::len).filter(|rounds| *rounds > 0).min();
        let first =
            |cell: &Vec<(f64, f64)>| cell.iter().take(rounds.unwrap_or(0)).copied().collect::<Vec<_>>();
        Variation::of(&cells.iter().flat_map(first).collect::<Vec<_>>(), confidence)
    };
    let variations: Vec<Variation> = kinds.iter().map(variation).collect();
    for (summary, kind) in summaries.iter_mut().zip(kind_of) {
        summary.variation = variations[kind];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Measurements that lie `step` apart in logarithms, around 1 GB/s, each known exactly.
    fn spread(count: i32, step: f64) -> Vec<(f64, f64)> {
        (0..count)
            .map(|number| ((1e9f64).ln() + step * f64::from(number - count / 2), 0.0))
            .collect()
    }

    fn exactly(rate: f64) -> Interval<Rate> {
        Interval {
            median: Rate(rate),
            lower: Rate(rate),
            upper: Rate(rate),
        }
    }

    #[test]
    fn what_varies_is_estimated_where_enough_was_measured_and_assumed_where_not() {
        assert_eq!(Variation::of(&spread(3, 0.5), 0.95).deviation, ASSUMED);
        let quiet = Variation::of(&spread(40, 0.0), 0.95);
        let noisy = Variation::of(&spread(40, 0.005), 0.95);
        assert!(quiet.deviation < ASSUMED, "{quiet:?}");
        assert!((0.04..0.07).contains(&noisy.deviation), "{noisy:?}");
        assert!(noisy.freedom > Variation::assumed(0.95).freedom);
    }

    #[test]
    fn a_measurement_within_what_varies_is_not_unusual_however_well_its_median_is_known() {
        let noisy = Variation::of(&spread(40, 0.005), 0.95);
        let p_of = |rate: f64| noisy.p_of_rate(&exactly(rate), Rate(1e9), None, 0.95);
        assert!(!noisy.is_unusual(p_of(0.9e9)));
        assert!(noisy.is_unusual(p_of(0.7e9)));
        let wide = noisy.of_rate(exactly(1e9), 1);
        assert!(wide.lower.0 < 0.92e9 && wide.upper.0 > 1.08e9, "{wide:?}");
    }

    #[test]
    fn a_fabric_that_misses_its_spec_as_a_whole_is_unusual_for_the_spec() {
        let slow = Variation::of(&spread(40, 0.001), 0.95);
        assert!(slow.p_of_crowd(&exactly(1e9), Rate(1.4e9)) < 1e-9);
        assert_eq!(slow.p_of_crowd(&exactly(1e9), Rate(0.9e9)), 1.0);
    }

    #[test]
    fn disturbances_that_were_seen_make_more_of_them_likely() {
        let (quiet, noisy) = (Disturbances::seen(0, 100), Disturbances::seen(20, 100));
        assert!(quiet.ever(3, 3) * 300.0 < 0.004);
        assert!(noisy.ever(3, 3) > 0.01 && noisy.ever(12, 12) < 1e-5);
        assert!(
            quiet.of_any(16).ever(2, 2) > 100.0 * quiet.ever(2, 2),
            "a ring is disturbed where any of its pairs is"
        );
        let rings = Disturbances::of_pairs(0, 10, 160);
        let (ring, pair) = (rings.of_any(16).ever(3, 3), Disturbances::seen(0, 10).ever(3, 3));
        assert!(
            (ring / pair - 1.0).abs() < 0.1,
            "rings alone: as pairs alone, {ring} {pair}"
        );
    }
}
