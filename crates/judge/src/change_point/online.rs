//! Steps and slopes in the scores of one part.
//!
//! Every run of the last few may be the one where a change began. A step lifts all scores since by the same, a slope each by more
//! than the one before; the sum of scores, weighted so, over what chance makes of it is how far out that is. Scores of one part
//! share the error of its baseline and may be alike for other reasons: `likeness` says how much, and chance is given that more.
//!
//! A step has a second proof. That every run since lies at least as far out as the least of them is as rare as that one, to the
//! power of their number. Where wild runs are common, a row of runs that all lie out by the same is the rarer thing.

use super::pool::Pool;
use record::ChangeShape;
use record::stats::normal_score;

/// Runs that a step must have lasted.
pub(crate) const LEAST_STEP: usize = 2;
/// Runs that a slope must have lasted.
pub(crate) const LEAST_SLOPE: usize = 4;
/// Without its rarest run a change must still be this far out: one wild run and a middling one beside it are none.
const WITHOUT_RAREST: f64 = 3.0;

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

/// How far out the last `age` scores are as a change of that shape.
pub(crate) fn fit(scores: &[f64], shape: ChangeShape, age: usize, likeness: f64) -> Option<Fit> {
    let since = scores.len().checked_sub(age).map(|from| &scores[from..])?;
    let weight = |at: usize| match shape {
        ChangeShape::Slope => (at + 1) as f64,
        ChangeShape::Step | ChangeShape::Blip => 1.0,
    };
    let (mut sum, mut weights, mut squares) = (0.0, 0.0, 0.0);
    for (at, score) in since.iter().enumerate() {
        sum += weight(at) * score;
        weights += weight(at);
        squares += weight(at) * weight(at);
    }
    let out = |sum: f64, weights: f64, squares: f64| {
        let chance = (1.0 - likeness) * squares + likeness * weights * weights;
        if chance > 0.0 { sum / chance.sqrt() } else { 0.0 }
    };
    let score = out(sum, weights, squares);
    let without = |at: usize| {
        let weight = weight(at);
        let rest = out(
            sum - weight * since[at],
            weights - weight,
            squares - weight * weight,
        );
        rest * score.signum()
    };
    let without_rarest = (0..age).map(without).fold(f64::INFINITY, f64::min);
    score.is_finite().then_some(Fit {
        shape,
        age,
        score,
        without_rarest,
    })
}

/// How far out it is that all of these distances lie at least as far as the least of them, with its sign; 0 when they lie on both
/// sides. Their baseline errs by a standard deviation of `error`, alike for all: that is averaged over.
pub(crate) fn row(distances: &[f64], error: f64, pool: &Pool) -> f64 {
    let least = distances
        .iter()
        .copied()
        .fold(f64::INFINITY, |least, next| least.min(next.abs()));
    let side = distances.first().map_or(1.0, |first| first.signum());
    if distances.iter().any(|distance| distance.signum() != side) {
        return 0.0;
    }
    // Three points that stand for a normal curve.
    let points = [
        (-3f64.sqrt(), 1.0 / 6.0),
        (0.0, 2.0 / 3.0),
        (3f64.sqrt(), 1.0 / 6.0),
    ];
    let rare = |(at, weight): (f64, f64)| {
        let share = pool
            .share_beyond((least - at * error).max(0.0).copysign(side))
            .min(0.5);
        weight * share.powi(distances.len() as i32)
    };
    side * normal_score(points.into_iter().map(rare).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_rarer_than_its_sum_where_wild_runs_are_common() {
        let mut pool = Pool::default();
        let calm = (0..10_000).map(|at| f64::from(at % 200 - 100) / 60.0);
        pool.add(calm.chain((0..60).map(|at| -4.0 - f64::from(at))).collect(), &[]);
        let distances = [-4.0, -4.2, -4.1, -4.4];
        let scores = distances.map(|distance| pool.score(distance));
        let sum = fit(&scores, ChangeShape::Step, 4, 0.04).unwrap().score;
        let row = row(&distances, 0.2, &pool);
        assert!(row < sum && sum < 0.0, "{row} {sum}");
        assert_eq!(self::row(&[-4.0, 4.0], 0.2, &pool), 0.0);
        // A baseline that errs more makes it less rare.
        assert!(self::row(&distances, 0.5, &pool) > row);
    }

    fn best(scores: &[f64]) -> Fit {
        let all = shapes(scores.len(), 14).filter_map(|(shape, age)| fit(scores, shape, age, 0.03));
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
    }

    #[test]
    fn a_slope_is_told_from_a_step() {
        let scores: Vec<f64> = (0..20).map(|at| -0.45 * f64::from((at - 9).max(0))).collect();
        let found = best(&scores);
        assert_eq!(found.shape, ChangeShape::Slope);
        assert!((9..=12).contains(&found.age), "{found:?}");
    }

    #[test]
    fn what_is_alike_by_itself_needs_more() {
        let scores = [-2.5; 4];
        let unlike = fit(&scores, ChangeShape::Step, 4, 0.0).unwrap();
        let alike = fit(&scores, ChangeShape::Step, 4, 0.5).unwrap();
        assert!(unlike.score.abs() > 1.3 * alike.score.abs());
    }
}
