//! What a run can find: the smallest loss of rate on a part that is found with probability 0.9 (docs/method.md, "What could have been found").
//!
//! The same rules as in `localise::evidence`, asked the other way round: a part loses so much; how probable is it that enough measurements over it
//! look slow, and that they are neither the slow end of what varies nor all disturbed?

use super::analysis::RunAnalysis;
use super::variation::{Disturbances, Variation};
use record::stats::{ever_of, median, normal_score, student_above, student_score};
use record::{DecisionRule, Question, Recorded};

/// A loss counts as found from this probability on.
pub const WANTED: f64 = 0.9;

/// Measurements over a suspect beyond those of the opening, after which an adaptive test gives up.
pub const FURTHER: usize = 32;

/// Levels of parts are drawn at so many points of equal probability.
const LEVELS: usize = 25;
/// No larger loss is looked for: a part that carries nothing is silent, not slow.
const LARGEST: f64 = 0.95;
/// The deviation of the levels of healthy parts that is assumed beforehand.
pub(super) const ASSUMED_LEVEL: f64 = 0.01;
/// As so many measurements counts what would be normal, beside those of the run.
const WORTH: f64 = 8.0;
/// How much wider the scale of measurements seems to be, over the share of them that is far off: half of them are in the densest crowd, at normal noise.
const WIDENED: f64 = 1.25;
/// The smallest loss is found to this precision.
const PRECISION: f64 = 0.0005;

/// What a healthy measurement was like.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HealthyMeasurement {
    /// How far it is below the middle of its kind, as a logarithm.
    pub below: f64,
    /// The error of its own median.
    pub error: f64,
}

/// What decides whether a loss is found.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Detectability {
    /// The losses, as logarithms, from which on each of the healthy measurements would have looked slow, the smallest first: what varies between them,
    /// however far that is from normal. None where nothing was measured.
    pub would_show: Vec<f64>,
    /// Deviation of the logarithm of healthy measurements.
    pub deviation: f64,
    /// Degrees of freedom of that estimate.
    pub freedom: f64,
    /// The share of its variance that a part has for good.
    pub of_levels: f64,
    /// The error of a measurement's own median.
    pub error: f64,
    /// What is tolerated: the logarithm of what healthy measurements reach over the threshold.
    pub tolerated: f64,
    /// How far healthy measurements lie above what is expected of them, as a logarithm: a loss counts from there.
    pub above: f64,
    /// How often a healthy measurement may look slow.
    pub unusual: f64,
    /// The probability that a healthy measurement is disturbed.
    pub disturbed: f64,
    /// The p-value that accuses one part: the budget, over all parts that were crossed.
    pub accepted: f64,
    /// Measurements that an accusation needs at least.
    pub least: usize,
    /// How many measurements say what varies between healthy ones; those over the part are among them.
    pub typical: usize,
}

impl Detectability {
    /// The probability that a loss (0.2 = 20 %) on a part is found that measurements cross in so many slots, and `further` ones if one of those looks
    /// slow.
    pub fn power(&self, loss: f64, slots: usize, further: usize) -> f64 {
        let enough = self.enough_against_chance(slots + further);
        self.power_given(loss, slots, &enough)
    }

    /// The smallest loss that is found with the probability [`WANTED`]; none where not even the largest is.
    pub fn smallest_loss(&self, slots: usize, further: usize) -> Option<f64> {
        let enough = self.enough_against_chance(slots + further);
        let is_found = |loss: f64| self.power_given(loss, slots, &enough) >= WANTED;
        if slots == 0 || !is_found(LARGEST) {
            return None;
        }
        let (mut missed, mut found) = (0.0, LARGEST);
        while found - missed > PRECISION {
            let middle = (missed + found) / 2.0;
            match is_found(middle) {
                true => found = middle,
                false => missed = middle,
            }
        }
        Some(found)
    }

    /// For every number of measurements up to `most`: how many of them must be slow for that to be no chance.
    fn enough_against_chance(&self, most: usize) -> Vec<usize> {
        let of = |measured: usize| {
            let is_enough =
                |slow: usize| ever_of(slow as u64, measured as u64, self.disturbed) < self.accepted;
            let counts: Vec<usize> = (0..=measured).collect();
            counts.partition_point(|slow| !is_enough(*slow))
        };
        (0..=most).map(of).collect()
    }

    /// The loss, as a logarithm, from which on one half of the measurements looks slow.
    fn usually_shows(&self) -> f64 {
        median(&self.would_show).unwrap_or_else(|| self.slow_from(self.error))
    }

    /// The probability that a measurement over a part that has lost so much looks slow: the share of the healthy ones that would have. Where they are few,
    /// what is normal counts as some more.
    fn looks_slow(&self, own: f64) -> f64 {
        let middle = self.usually_shows();
        let normal = student_above((middle - own) / self.between(), self.freedom);
        // What their parts have for good is drawn separately.
        let without_levels = (1.0 - self.of_levels.clamp(0.0, 1.0)).sqrt().max(1e-6);
        let loss = middle + (own - middle) / without_levels;
        let slow = self.would_show.partition_point(|shows| *shows <= loss) as f64;
        (slow + WORTH * normal) / (self.would_show.len() as f64 + WORTH)
    }

    /// The power, given how many of each number of measurements are no chance; there are as many as that list has.
    fn power_given(&self, loss: f64, slots: usize, enough: &[usize]) -> f64 {
        let lost = -(1.0 - loss.clamp(0.0, 1.0 - f64::EPSILON)).ln();
        let level = self.deviation * self.of_levels.clamp(0.0, 1.0).sqrt();
        let shows = self.usually_shows();
        // What the part has lost seems to be among what varies.
        let own_share = slots as f64 / self.typical.max(slots).max(1) as f64;
        let widened = WIDENED * own_share * (shows - self.above).max(0.0);
        let of_level = |number: usize| {
            let share = (number as f64 + 0.5) / LEVELS as f64;
            let own = lost - widened + level * normal_score(share);
            let looks_slow = self.looks_slow(own);
            // Those that look slow are the slower ones.
            let least = self.enough_against_variation(own.max(shows), enough.len());
            found(looks_slow, slots, enough, least.max(self.least))
        };
        (0..LEVELS).map(of_level).sum::<f64>() / LEVELS as f64
    }

    /// Deviation of one measurement around the level of its part.
    fn between(&self) -> f64 {
        let own = self.deviation.powi(2) * (1.0 - self.of_levels.clamp(0.0, 1.0));
        (own + self.error.powi(2)).sqrt().max(1e-9)
    }

    /// The shortfall, as a logarithm, from which on a measurement whose median has this error looks slow.
    fn slow_from(&self, error: f64) -> f64 {
        let unusual = student_score(1.0 - 2.0 * self.unusual.clamp(1e-12, 0.5), self.freedom);
        self.tolerated
            .max(self.above + unusual * self.deviation.hypot(error))
    }

    /// How many slow measurements that fall short by so much on average are no slow end of what varies; `most` where no number is.
    fn enough_against_variation(&self, shortfall: f64, most: usize) -> usize {
        let level = self.deviation.powi(2) * self.of_levels.clamp(0.0, 1.0);
        let is_enough = |slow: usize| {
            let variance = level + self.between().powi(2) / slow as f64;
            student_above((shortfall - self.above) / variance.sqrt(), self.freedom) < self.accepted
        };
        let counts: Vec<usize> = (1..most).collect();
        1 + counts.partition_point(|slow| !is_enough(*slow))
    }
}

/// The probability that a part is found whose measurements look slow with this probability: as soon as `least` are, and more than chance explains
/// (`enough`, per number of measurements).
fn found(looks_slow: f64, slots: usize, enough: &[usize], least: usize) -> f64 {
    let mut found = 0.0;
    // The probability of so many slow ones so far, while nothing is settled.
    let mut slow = vec![1.0];
    for (measured, enough) in enough.iter().enumerate().skip(1) {
        if measured == slots + 1 {
            // Nobody asks about a part that was never slow.
            slow[0] = 0.0;
        }
        let mut next = vec![0.0; measured + 1];
        for (count, probability) in slow.iter().enumerate() {
            next[count] += probability * (1.0 - looks_slow);
            next[count + 1] += probability * looks_slow;
        }
        // Fixed tests judge once, at the end.
        if measured >= slots {
            let settled = next.iter_mut().skip(least.max(*enough));
            found += settled.map(std::mem::take).sum::<f64>();
        }
        slow = next;
    }
    found
}

/// What healthy measurements are like, before a run is made: as assumed, or as another run showed it.
#[derive(Debug, Clone, PartialEq)]
pub struct HealthyNoise {
    /// Those of the run; none where it is assumed.
    pub measured: Vec<HealthyMeasurement>,
    /// Deviation of the logarithm of their rates.
    pub deviation: f64,
    /// The share of its variance that a part has for good.
    pub of_levels: f64,
    /// The error of one measurement's own median.
    pub error: f64,
    /// How many of those that were seen were disturbed.
    pub disturbed: (usize, usize),
}

impl HealthyNoise {
    /// What is assumed before anything is measured.
    pub fn assumed() -> HealthyNoise {
        let deviation = Variation::assumed(0.95).deviation;
        HealthyNoise {
            measured: Vec::new(),
            deviation,
            of_levels: (ASSUMED_LEVEL / deviation).powi(2).min(1.0),
            error: 0.0,
            disturbed: (0, 0),
        }
    }

    /// What a recorded run showed; none without flows between hosts.
    pub fn of(recorded: &Recorded) -> Option<HealthyNoise> {
        let analysis = RunAnalysis::of(recorded);
        let localisation = analysis.localisation.as_ref()?;
        let (summaries, rule) = (&analysis.summaries, &recorded.run.rule);
        let deviations = localisation.deviations(summaries);
        let measured = localisation.healthy_measurements(summaries, rule);
        let errors: Vec<f64> = measured.iter().map(|one| one.error).collect();
        Some(HealthyNoise {
            deviation: median(&deviations)?,
            of_levels: localisation.of_levels(),
            error: median(&errors)?,
            disturbed: localisation.disturbed(),
            measured,
        })
    }

    /// What decides whether a loss is found in a run of so many such measurements over a `family` of parts, where so much (0.1 = 10 %) is tolerated.
    pub fn detectability(
        &self,
        measurements: usize,
        family: usize,
        tolerance: f64,
        rule: &DecisionRule,
    ) -> Detectability {
        let (slow, all) = self.disturbed;
        // What a run says about disturbances holds for as many measurements as this one has.
        let share = measurements as f64 / all.max(1) as f64;
        let disturbances = Disturbances::seen((slow as f64 * share).round() as usize, measurements);
        let model = Detectability {
            would_show: Vec::new(),
            deviation: self.deviation,
            freedom: Variation::freedom_of(measurements),
            of_levels: self.of_levels,
            error: self.error,
            tolerated: -(1.0 - tolerance.clamp(0.0, 0.99)).ln(),
            above: 0.0,
            unusual: Variation::unusual_of(measurements),
            disturbed: disturbances.at_most(),
            accepted: rule.budget_of(Question::Parts) / family.max(1) as f64,
            least: usize::from(rule.remeasure) + 1,
            typical: measurements,
        };
        let shows = |one: &HealthyMeasurement| model.slow_from(one.error) - one.below;
        let mut would_show: Vec<f64> = self.measured.iter().map(shows).collect();
        would_show.sort_by(f64::total_cmp);
        Detectability { would_show, ..model }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A quiet fabric: 2 %, a tolerance of 10 %, 100 parts.
    fn quiet() -> Detectability {
        Detectability {
            deviation: 0.02,
            freedom: 40.0,
            of_levels: 0.25,
            error: 0.0,
            tolerated: -(0.9f64).ln(),
            above: 0.0,
            unusual: 0.05 / 80.0,
            disturbed: 0.005,
            accepted: 0.004 / 100.0,
            least: 3,
            typical: 100,
            ..Detectability::default()
        }
    }

    #[test]
    fn a_quiet_fabric_finds_what_misses_its_tolerance_and_little_less() {
        let loss = quiet().smallest_loss(2, FURTHER).unwrap();
        assert!((0.10..0.14).contains(&loss), "{loss}");
        assert!(quiet().power(0.5, 2, FURTHER) > 0.999);
        assert!(
            quiet().power(0.05, 2, FURTHER) < 0.001,
            "what is tolerated is not found"
        );
    }

    #[test]
    fn noise_and_few_measurements_hide_losses() {
        let noisy = Detectability {
            deviation: 0.06,
            ..quiet()
        };
        let of = |model: Detectability, slots| model.smallest_loss(slots, FURTHER).unwrap();
        assert!(of(noisy, 2) > of(quiet(), 2) + 0.05);
        assert_eq!(quiet().smallest_loss(0, FURTHER), None, "nothing crossed it");
        assert_eq!(
            quiet().smallest_loss(2, 0),
            None,
            "two measurements settle nothing"
        );
        assert!(quiet().smallest_loss(6, 0).is_some());
    }

    #[test]
    fn a_larger_loss_is_never_found_less_often() {
        for slots in [1, 2, 5, 9] {
            let power: Vec<f64> = (0..20)
                .map(|step| quiet().power(f64::from(step) / 20.0, slots, FURTHER))
                .collect();
            let grows = power.windows(2).all(|pair| pair[1] >= pair[0] - 1e-9);
            assert!(
                grows && power.iter().all(|one| (0.0..=1.0 + 1e-9).contains(one)),
                "{power:?}"
            );
        }
    }

    #[test]
    fn figures_that_are_no_numbers_find_nothing() {
        let broken = Detectability {
            deviation: f64::NAN,
            ..quiet()
        };
        assert_eq!(broken.smallest_loss(5, FURTHER), None);
    }
}
