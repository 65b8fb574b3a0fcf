//! Steps and slopes in the scores of one part.
//!
//! Every run of the last few may be the one where a change began. A step lifts all scores since by the same, a slope each by more
//! than the one before. Scores of one part share the error of its baseline and what is left of its wander, so each counts by what it
//! says that the others do not (generalised least squares, by the covariance of its [`Forecast`]).
//!
//! A step has a second proof. That every run since lies at least as far out as the least of them is as rare as that one, to the
//! power of their number, beside what they share. Where wild runs are common, a row of runs that all lie out by the same is the
//! rarer thing: wild runs are not correlated.

use super::forecast::Forecast;
use super::pool::Pool;
use record::ChangeShape;
use record::stats::normal_score;

/// Runs that a step must have lasted.
pub(crate) const LEAST_STEP: usize = 2;
/// Runs that a slope must have lasted.
pub(crate) const LEAST_SLOPE: usize = 4;
/// Without its rarest run a change must still be this far out: one wild run and a middling one beside it are none.
const WITHOUT_RAREST: f64 = 3.0;

/// Rows of so many runs share one wander.
const SHORT: usize = 3;

/// The best explanation of the last scores by a change.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Fit {
    /// How.
    pub(crate) shape: ChangeShape,
    /// Runs since it began, the last one included.
    pub(crate) age: usize,
    /// How far out, in standard deviations of what chance does, with its sign.
    pub(crate) score: f64,
    /// The same without the run that speaks most for it.
    pub(crate) without_rarest: f64,
}

impl Fit {
    /// Whether it is beyond chance, and more than one wild run.
    pub(crate) fn is_beyond(&self, threshold: f64) -> bool {
        self.score.abs() >= threshold && self.without_rarest >= WITHOUT_RAREST
    }
}

/// Every shape and every age that the scores (the oldest first) can show, at most `most` runs old.
pub(crate) fn shapes(runs: usize, most: usize) -> impl Iterator<Item = (ChangeShape, usize)> {
    let most = most.min(runs);
    let steps = (LEAST_STEP..=most).map(|age| (ChangeShape::Step, age));
    steps.chain((LEAST_SLOPE..=most).map(|age| (ChangeShape::Slope, age)))
}

/// How far out the last `age` scores are as a change of that shape, if each is new: a first look.
pub(crate) fn glance(scores: &[f64], shape: ChangeShape, age: usize) -> f64 {
    let since = &scores[scores.len().saturating_sub(age)..];
    let (mut sum, mut squares) = (0.0, 0.0);
    for (at, score) in since.iter().enumerate() {
        sum += weight(shape, at) * score;
        squares += weight(shape, at).powi(2);
    }
    sum / squares.max(1.0).sqrt()
}

/// How far out these scores, all of them since the change began, are as a change of that shape.
pub(crate) fn fit(scores: &[f64], shape: ChangeShape, forecast: &Forecast) -> Option<Fit> {
    let runs: Vec<usize> = (0..scores.len()).collect();
    let score = out(scores, shape, forecast, &runs)?;
    let without = |left_out: usize| {
        let rest: Vec<usize> = runs.iter().copied().filter(|run| *run != left_out).collect();
        out(scores, shape, forecast, &rest).map_or(0.0, |rest| rest * score.signum())
    };
    // Few are far enough out for it to matter.
    let without_rarest = match score.abs() > WITHOUT_RAREST {
        true => runs.iter().map(|run| without(*run)).fold(f64::INFINITY, f64::min),
        false => 0.0,
    };
    Some(Fit {
        shape,
        age: scores.len(),
        score,
        without_rarest,
    })
}

/// What a change of that shape makes of the run at this place after its beginning.
fn weight(shape: ChangeShape, at: usize) -> f64 {
    match shape {
        ChangeShape::Slope => (at + 1) as f64,
        ChangeShape::Step | ChangeShape::Blip => 1.0,
    }
}

/// The same of some of the runs: the change that fits them best, over its standard error.
fn out(scores: &[f64], shape: ChangeShape, forecast: &Forecast, runs: &[usize]) -> Option<f64> {
    let deviation: Vec<f64> = runs
        .iter()
        .map(|run| forecast.covariance(*run, *run).sqrt())
        .collect();
    let correlation = |one: usize, other: usize| {
        forecast.covariance(runs[one], runs[other]) / (deviation[one] * deviation[other])
    };
    let root = cholesky(runs.len(), correlation)?;
    let expected: Vec<f64> = runs
        .iter()
        .zip(&deviation)
        .map(|(run, deviation)| weight(shape, *run) / deviation)
        .collect();
    let expected = whitened(&root, &expected);
    let found: Vec<f64> = runs.iter().map(|run| scores[*run]).collect();
    let found = whitened(&root, &found);
    let product: f64 = expected.iter().zip(&found).map(|(a, b)| a * b).sum();
    let square: f64 = expected.iter().map(|a| a * a).sum();
    Some(product / square.sqrt()).filter(|score| score.is_finite())
}

/// How alike forecasts of so many runs err, on average over all pairs.
fn likeness(runs: usize, forecast: &Forecast) -> f64 {
    let deviation: Vec<f64> = (0..runs)
        .map(|run| forecast.covariance(run, run).sqrt())
        .collect();
    let (mut sum, mut pairs) = (0.0, 0.0);
    for one in 0..runs {
        for other in 0..one {
            sum += forecast.covariance(one, other) / (deviation[one] * deviation[other]);
            pairs += 1.0;
        }
    }
    if pairs > 0.0 {
        (sum / pairs).clamp(0.0, 1.0)
    } else {
        0.0
    }
}

/// As how many independent runs so many runs count, by what they share besides the level.
fn worth(runs: usize, forecast: &Forecast) -> f64 {
    let deviation = |run: usize| forecast.of_readings(run, run).sqrt();
    let correlation =
        |one: usize, other: usize| forecast.of_readings(one, other) / (deviation(one) * deviation(other));
    match cholesky(runs, correlation) {
        Some(root) => whitened(&root, &vec![1.0; runs])
            .iter()
            .map(|one| one * one)
            .sum(),
        None => 1.0,
    }
}

/// The lower triangle whose product with itself is the matrix, row by row; none when there is none.
fn cholesky(size: usize, matrix: impl Fn(usize, usize) -> f64) -> Option<Vec<Vec<f64>>> {
    let mut root: Vec<Vec<f64>> = Vec::with_capacity(size);
    for row in 0..size {
        let mut next: Vec<f64> = Vec::with_capacity(row + 1);
        for (column, above) in root.iter().enumerate() {
            let known: f64 = next.iter().zip(above).map(|(a, b)| a * b).sum();
            next.push((matrix(row, column) - known) / above[column]);
        }
        let rest = matrix(row, row) - next.iter().map(|known| known * known).sum::<f64>();
        if rest.is_nan() || rest <= 0.0 {
            return None;
        }
        next.push(rest.sqrt());
        root.push(next);
    }
    Some(root)
}

/// Values whose correlation is taken out: those that make `values` when multiplied with the triangle.
fn whitened(root: &[Vec<f64>], values: &[f64]) -> Vec<f64> {
    let mut white: Vec<f64> = Vec::with_capacity(values.len());
    for (row, value) in root.iter().zip(values) {
        let known: f64 = row.iter().zip(&white).map(|(a, b)| a * b).sum();
        white.push((value - known) / row[white.len()]);
    }
    white
}

/// How far out it is that all of these distances lie at least as far as the least of them, with its sign; 0 when they lie on both
/// sides. What they share is averaged over: of a short row the error of the level and the wander, of a longer one, in which the wander
/// has time to change, the error of the level alone; its runs then count as fewer.
pub(crate) fn row(distances: &[f64], forecast: &Forecast, pool: &Pool) -> f64 {
    let least = distances
        .iter()
        .copied()
        .fold(f64::INFINITY, |least, next| least.min(next.abs()));
    let side = distances.first().map_or(1.0, |first| first.signum());
    if distances.iter().any(|distance| distance.signum() != side) {
        return 0.0;
    }
    let runs = distances.len();
    let (error, worth) = match runs <= SHORT {
        true => (likeness(runs, forecast).sqrt(), runs as f64),
        false => (forecast.level_error(runs - 1), worth(runs, forecast)),
    };
    // A normal curve, half a standard deviation at a time.
    let (mut rare, mut all) = (0.0, 0.0);
    for at in -12..=12 {
        let at = 0.5 * f64::from(at);
        let weight = (-0.5 * at * at).exp();
        let share = pool
            .share_beyond((least - at * error).max(0.0).copysign(side))
            .min(0.5);
        rare += weight * share.powf(worth);
        all += weight;
    }
    side * normal_score(rare / all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change_point::{Baseline, Wander};

    /// After so many readings that were all usual.
    fn calm(runs: usize, wander: Wander) -> Forecast {
        let usual = Baseline {
            median: 0.0,
            spread: 1.0,
            runs,
        };
        Forecast::after(&vec![0.0; runs], &usual, 1.0, wander)
    }

    fn strong() -> Wander {
        Wander {
            share: 0.7,
            correlation: 0.9,
        }
    }

    #[test]
    fn a_row_is_rarer_than_its_sum_where_wild_runs_are_common() {
        let mut pool = Pool::default();
        let middle = (0..10_000).map(|at| f64::from(at % 200 - 100) / 60.0);
        pool.add(middle.chain((0..60).map(|at| -4.0 - f64::from(at))).collect());
        let distances = [-4.0, -4.2, -4.1, -4.4];
        let scores = distances.map(|distance| pool.score(distance));
        let forecast = calm(42, Wander::NONE);
        let sum = fit(&scores, ChangeShape::Step, &forecast).unwrap().score;
        let row = row(&distances, &forecast, &pool);
        assert!(row < sum && sum < 0.0, "{row} {sum}");
        assert_eq!(self::row(&[-4.0, 4.0], &forecast, &pool), 0.0);
        // A level that errs more makes it less rare, and so do nights that resemble each other.
        assert!(self::row(&distances, &calm(7, Wander::NONE), &pool) > row);
        assert!(self::row(&distances, &calm(42, strong()), &pool) > row);
    }

    fn best(scores: &[f64]) -> Fit {
        let forecast = calm(42, Wander::NONE);
        let of = |(shape, age): (ChangeShape, usize)| fit(&scores[scores.len() - age..], shape, &forecast);
        let all = shapes(scores.len(), 14).filter_map(of);
        all.max_by(|a, b| a.score.abs().total_cmp(&b.score.abs()))
            .unwrap()
    }

    #[test]
    fn a_step_is_dated_to_its_first_run() {
        let scores = [0.3, -0.5, 0.1, 0.4, -0.2, -4.0, -4.1, -3.9];
        let found = best(&scores);
        assert_eq!((found.shape, found.age), (ChangeShape::Step, 3));
        assert!(found.is_beyond(5.0) && found.score < 0.0);
    }

    #[test]
    fn one_wild_run_is_no_change_however_wild() {
        let scores = [0.3, -0.5, 0.1, 0.4, -0.2, 0.3, -9.0];
        let found = best(&scores);
        assert!(found.score < -5.0 && !found.is_beyond(5.0), "{found:?}");
        let followed = [0.3, -0.5, 0.1, 0.4, -0.2, 0.3, -9.0, -0.4];
        assert!(!best(&followed).is_beyond(5.0));
        for wander in [Wander::NONE, strong()] {
            let found = fit(&[-9.0, -0.4, 0.1], ChangeShape::Step, &calm(42, wander)).unwrap();
            assert!(!found.is_beyond(4.0), "{found:?}");
        }
    }

    #[test]
    fn a_slope_is_told_from_a_step() {
        let scores: Vec<f64> = (0..20).map(|at| -0.45 * f64::from((at - 9).max(0))).collect();
        let found = best(&scores);
        assert_eq!(found.shape, ChangeShape::Slope);
        assert!((9..=12).contains(&found.age), "{found:?}");
    }

    #[test]
    fn runs_that_resemble_each_other_by_themselves_prove_less() {
        let scores = [-2.5; 4];
        let of = |wander| fit(&scores, ChangeShape::Step, &calm(42, wander)).unwrap().score;
        assert!(of(Wander::NONE).abs() > 1.3 * of(strong()).abs());
    }

    #[test]
    fn where_nothing_wanders_runs_share_the_error_of_the_level_only() {
        // Seven runs of which the median is usual: each score has that error and its own.
        let scores = [-2.0, -3.0, -2.5];
        let shared = std::f64::consts::FRAC_PI_2 / 7.0;
        let likeness = shared / (1.0 + shared);
        let expected = -7.5 / (3.0 * (1.0 - likeness) + 9.0 * likeness).sqrt();
        let found = fit(&scores, ChangeShape::Step, &calm(7, Wander::NONE)).unwrap();
        assert!((found.score - expected).abs() < 1e-9, "{found:?} {expected}");
    }
}
