//! How rare a distance from the usual is, by what the fleet's own past shows.
//!
//! Distances of all parts of one kind over many runs are pooled. How often the pool exceeds a distance is its probability, and
//! that becomes a normal score: where one reading in five hundred is wild, a wild reading is not very rare and pages no one. A pool that is small or calm cannot show how rare the rarest is, so [`IMAGINED`] more distances of a long-tailed curve
//! (Student's t with four degrees of freedom) are thought of as part of it: with few runs they decide, with many they hardly matter.

use record::stats::normal_score;

/// Distances that are thought of as part of every pool.
const IMAGINED: f64 = 50.0;
/// Of those, the share that is wild on either side, however far out that is: runs go wrong for reasons that no curve knows.
const WILD: f64 = 0.001;
/// From here on every second distance is dropped: the curve is known well enough.
const MOST: usize = 200_000;

/// Distances from the usual, of all parts of one kind.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pool {
    /// Ascending.
    sorted: Vec<f64>,
}

impl Pool {
    /// Adds distances, in any order.
    pub(crate) fn add(&mut self, mut distances: Vec<f64>) {
        if distances.is_empty() {
            return;
        }
        distances.sort_by(f64::total_cmp);
        // Two ascending stretches: what a merge sort is fastest at.
        self.sorted.extend(distances);
        self.sorted.sort_by(f64::total_cmp);
        if self.sorted.len() > MOST {
            let mut keep = false;
            self.sorted.retain(|_| {
                keep = !keep;
                keep
            });
        }
    }

    /// The normal score of a distance, with its sign.
    pub(crate) fn score(&self, distance: f64) -> f64 {
        normal_score(self.share_beyond(distance).min(0.5)).copysign(distance)
    }

    /// How often a distance is at least as far out, on the same side.
    pub(crate) fn share_beyond(&self, distance: f64) -> f64 {
        let beyond = match distance < 0.0 {
            true => self.sorted.partition_point(|pooled| *pooled <= distance),
            false => self.sorted.len() - self.sorted.partition_point(|pooled| *pooled < distance),
        };
        let imagined = IMAGINED * (upper_tail(distance.abs()) + WILD);
        (beyond as f64 + imagined) / (self.sorted.len() as f64 + IMAGINED)
    }
}

/// How often Student's t with four degrees of freedom, scaled to the same median distance as a normal curve, exceeds `distance`.
fn upper_tail(distance: f64) -> f64 {
    // The quartile of t4 over that of the normal curve.
    const SCALE: f64 = 0.740697 / 0.674490;
    let t = distance * SCALE;
    let q = (1.0 + t * t / 4.0).sqrt().recip();
    // 1/2 - 3/8 u (1 - u^2/12) with u = t q; far out its difference is lost to rounding, and the leading term is 3 / t^4 there.
    let u = t * q;
    match t > 50.0 {
        true => 3.0 / t.powi(4),
        false => 0.5 - 0.375 * u * (1.0 - u * u / 12.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_curve_that_is_imagined_is_students() {
        // Upper 5 %, 1 % and 0.1 % points of t with four degrees of freedom.
        for (t, share) in [(2.131847, 0.05), (3.746947, 0.01), (7.173182, 0.001)] {
            let found = upper_tail(t * 0.674490 / 0.740697);
            assert!((found / share - 1.0).abs() < 1e-4, "{t}: {found}");
        }
        let (near, far) = (upper_tail(45.0), upper_tail(46.5));
        assert!(near > far && far > 0.0);
        assert!((upper_tail(45.5) / upper_tail(45.6) - 1.0).abs() < 0.05);
    }

    #[test]
    fn what_happens_now_and_then_is_not_rare() {
        let mut calm = Pool::default();
        let mut wild = Pool::default();
        let quiet = || (0..20_000).map(|at| f64::from(at % 200 - 100) / 50.0);
        calm.add(quiet().collect());
        wild.add(quiet().chain((0..40).map(|at| -10.0 - f64::from(at))).collect());
        assert!(calm.score(-10.0) < -4.0, "{}", calm.score(-10.0));
        assert!(wild.score(-10.0) > -3.2, "{}", wild.score(-10.0));
        // What is wild is wild downwards only.
        assert!(wild.score(10.0) > 4.0);
        // Nothing known: rare, but no more than long tails allow.
        let nothing = Pool::default();
        assert!((2.4..3.0).contains(&nothing.score(5.0)), "{}", nothing.score(5.0));
        assert!(nothing.score(0.0).abs() < 1e-9);
        assert!(nothing.score(1e6) < 3.1, "{}", nothing.score(1e6));
    }

    #[test]
    fn scores_grow_with_distance_whatever_is_pooled() {
        let mut pool = Pool::default();
        pool.add((0..500).map(|at| (f64::from(at) - 250.0) / 100.0).collect());
        let scores: Vec<f64> = (-80..=80).map(|at| pool.score(f64::from(at) / 10.0)).collect();
        assert!(scores.is_sorted(), "{scores:?}");
        assert!(pool.score(f64::INFINITY) > 3.0 && pool.score(f64::INFINITY).is_finite());
    }
}
