//! How soon a judge could find a step at best: one that knows all but the levels of parts, which part stepped, and when.
//!
//! It knows how hosts and cables wander, the errors, and that what happens is a step of one part. It takes them for normal. It looks
//! at the part and its siblings together: their sum over all that wander together does wander, what differs among them does not.
//! Steps that began 2 to 14 nights ago are tried by generalised least squares, levels being unknown. It may raise as many
//! wrong alarms as the rule, [`ALARMS`] in 30 nights over all parts. That there are wild readings, too, it is spared: whoever has to
//! live with them finds steps later.

use plan::twin::nights::Nights;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use record::stats::normal_score;

/// Wrong alarms that are accepted in 30 nights.
const ALARMS: f64 = 0.3;
/// Nights before the step: as many as in the median history.
const BEFORE: usize = 29;
/// Nights after it that are looked at.
const AFTER: usize = 20;
/// Ages of a step that are tried.
const AGES: std::ops::RangeInclusive<usize> = 2..=14;
/// Histories that are drawn.
const HISTORIES: usize = 2_000;
/// Where wrong alarms are frequent enough to be counted; from there on they get rarer as a normal curve does.
const COUNTED: f64 = 2.5;

/// What is known of a fleet.
pub struct Oracle {
    /// Parts that can step.
    pub parts: usize,
    /// Parts that wander together.
    pub together: usize,
    /// Standard deviation of what wanders, and its correlation.
    pub deviation: f64,
    /// The same from night to night.
    pub correlation: f64,
    /// Standard deviation of the errors.
    pub error: f64,
}

/// What differs among siblings, or their sum, night by night: its covariance, and the share of a step of one part that it shows.
struct Component {
    wander: f64,
    shown: f64,
    /// For each night after the step and each age, what every night counts in the score; scores have variance 1.
    weights: Vec<Vec<Vec<f64>>>,
}

impl Oracle {
    /// The night of a step by `share` in which half of such steps are found; none within 20 nights.
    pub fn median_night(&self, share: f64) -> Option<usize> {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let components = self.components();
        let healthy: Vec<Vec<f64>> = (0..HISTORIES)
            .map(|_| self.scores(&components, 0.0, &mut random))
            .collect();
        // New alarms of one part and night at a score that is exceeded often.
        let counted = healthy
            .iter()
            .flat_map(|scores| scores.windows(2))
            .filter(|pair| pair[0] < COUNTED && pair[1] >= COUNTED)
            .count();
        let ways = counted as f64 / (HISTORIES * (AFTER - 2)) as f64 / upper_tail(COUNTED);
        let threshold = normal_score(ALARMS / 30.0 / self.parts as f64 / ways.max(1.0));
        let mut nights: Vec<usize> = (0..HISTORIES)
            .map(|_| {
                let scores = self.scores(&components, (1.0 - share).ln().abs(), &mut random);
                let found = scores.iter().position(|score| *score >= threshold);
                found.map_or(usize::MAX, |at| at + AGES.start())
            })
            .collect();
        nights.sort_unstable();
        Some(nights[HISTORIES / 2]).filter(|night| *night < usize::MAX)
    }

    fn components(&self) -> [Component; 2] {
        let together = self.together as f64;
        let (variance, shown) = (self.deviation * self.deviation, 1.0 / together);
        [(together * variance, shown), (0.0, 1.0 - shown)]
            .map(|(wander, shown)| Component {
                wander,
                shown: shown.sqrt(),
                weights: Vec::new(),
            })
            .map(|component| self.weighed(component))
    }

    /// Generalised least squares: what a step shows beyond an unknown level, times the inverse of the covariance.
    fn weighed(&self, component: Component) -> Component {
        let of_night = |after: usize| {
            let nights = BEFORE + after;
            let covariance = |one: usize, other: usize| {
                let apart = one.abs_diff(other) as i32;
                let error = if one == other {
                    self.error * self.error
                } else {
                    0.0
                };
                component.wander * self.correlation.powi(apart) + error
            };
            let level = solved(nights, covariance, &vec![1.0; nights]);
            let of_age = |age: usize| {
                let step: Vec<f64> = (0..nights)
                    .map(|night| {
                        if night + age >= nights {
                            component.shown
                        } else {
                            0.0
                        }
                    })
                    .collect();
                let mut weights = solved(nights, covariance, &step);
                let total: f64 = weights.iter().sum::<f64>() / level.iter().sum::<f64>();
                for (weight, level) in weights.iter_mut().zip(&level) {
                    *weight -= total * level;
                }
                weights
            };
            AGES.map(of_age).collect()
        };
        let weights = (*AGES.start()..=AFTER).map(of_night).collect();
        Component { weights, ..component }
    }

    /// The best score of every night from the second of the step.
    fn scores(&self, components: &[Component], step: f64, random: &mut ChaCha8Rng) -> Vec<f64> {
        let renewed = (1.0 - self.correlation * self.correlation).sqrt();
        let courses: Vec<Vec<f64>> = components
            .iter()
            .map(|component| {
                let mut wander = normal(random);
                (0..BEFORE + AFTER)
                    .map(|night| {
                        let lost = if night >= BEFORE {
                            step * component.shown
                        } else {
                            0.0
                        };
                        let tonight = component.wander.sqrt() * wander + self.error * normal(random) + lost;
                        wander = self.correlation * wander + renewed * normal(random);
                        tonight
                    })
                    .collect()
            })
            .collect();
        let of_age = |night: usize, age: usize| {
            let (mut sum, mut information) = (0.0, 0.0);
            for (component, course) in components.iter().zip(&courses) {
                let weights = &component.weights[night][age];
                sum += weights.iter().zip(course).map(|(a, b)| a * b).sum::<f64>();
                information += weights.iter().rev().take(age + AGES.start()).sum::<f64>() * component.shown;
            }
            sum / information.sqrt()
        };
        let ages = AGES.count();
        (0..=AFTER - AGES.start())
            .map(|night| (0..ages).map(|age| of_age(night, age)).fold(f64::MIN, f64::max))
            .collect()
    }
}

/// The standard deviation of readings that do not wander, wild ones left out.
pub fn error() -> f64 {
    let nights = Nights {
        hosts: 16,
        outliers: 0.0,
        ..Nights::healthy(1)
    };
    let row = nights.nights();
    let logs: Vec<Vec<f64>> = row
        .iter()
        .map(|night| night.readings.parts.iter().map(|part| part.value.ln()).collect())
        .collect();
    // Two nights of a part differ by twice the variance, less what nights have in common.
    let (mut squares, mut pairs) = (0.0, 0.0);
    for pair in logs.windows(2) {
        let differences: Vec<f64> = pair[0].iter().zip(&pair[1]).map(|(a, b)| a - b).collect();
        let mean = differences.iter().sum::<f64>() / differences.len() as f64;
        squares += differences.iter().map(|one| (one - mean).powi(2)).sum::<f64>();
        pairs += differences.len() as f64 - 1.0;
    }
    (squares / pairs / 2.0).sqrt()
}

/// Solves `matrix x = values` for a positive definite matrix, by its Cholesky root.
fn solved(size: usize, matrix: impl Fn(usize, usize) -> f64, values: &[f64]) -> Vec<f64> {
    let mut root = vec![vec![0.0; size]; size];
    for row in 0..size {
        for column in 0..=row {
            let known: f64 = (0..column).map(|at| root[row][at] * root[column][at]).sum();
            let rest = matrix(row, column) - known;
            root[row][column] = if row == column {
                rest.sqrt()
            } else {
                rest / root[column][column]
            };
        }
    }
    let mut found = values.to_vec();
    for row in 0..size {
        let known: f64 = (0..row).map(|at| root[row][at] * found[at]).sum();
        found[row] = (found[row] - known) / root[row][row];
    }
    for row in (0..size).rev() {
        let known: f64 = (row + 1..size).map(|at| root[at][row] * found[at]).sum();
        found[row] = (found[row] - known) / root[row][row];
    }
    found
}

/// How often a normal value exceeds one that is not small.
fn upper_tail(score: f64) -> f64 {
    let (mut least, mut most) = (1e-12_f64, 0.5_f64);
    for _ in 0..60 {
        let middle = (least * most).sqrt();
        match normal_score(middle) > score {
            true => least = middle,
            false => most = middle,
        }
    }
    most
}

fn normal(random: &mut ChaCha8Rng) -> f64 {
    normal_score(((random.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64)
}
