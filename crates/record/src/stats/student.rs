//! Student's distribution: how far out a value lies when its scale is itself an estimate.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// Fewer degrees of freedom say nothing.
const FEWEST: f64 = 1.0;

fn student(freedom: f64) -> Option<StudentsT> {
    StudentsT::new(0.0, 1.0, freedom.max(FEWEST)).ok()
}

/// The probability of a value as large as this, in scales, or larger; 1 where it is no number.
pub fn student_above(value: f64, freedom: f64) -> f64 {
    match student(freedom) {
        Some(student) if !value.is_nan() => student.sf(value),
        _ => 1.0,
    }
}

/// The value that lies this far above the middle with the two-sided `confidence`.
pub fn student_score(confidence: f64, freedom: f64) -> f64 {
    if confidence.is_nan() {
        return f64::INFINITY;
    }
    let upper = 0.5 + confidence.clamp(0.0, 1.0 - 1e-12) / 2.0;
    student(freedom).map_or(f64::INFINITY, |student| student.inverse_cdf(upper))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_and_tails_match_their_tables() {
        for (freedom, score) in [(4.0, 2.776_445), (10.0, 2.228_139), (1000.0, 1.962_339)] {
            assert!((student_score(0.95, freedom) - score).abs() < 1e-4, "{freedom}");
            assert!((student_above(score, freedom) - 0.025).abs() < 1e-5, "{freedom}");
        }
        assert!((student_above(0.0, 5.0) - 0.5).abs() < 1e-12);
        let far = student_above(40.0, 30.0);
        assert!(far > 0.0 && far < 1e-20, "{far}");
    }

    #[test]
    fn what_is_no_number_proves_nothing() {
        assert_eq!(student_above(f64::NAN, 5.0), 1.0);
        assert!(student_above(f64::INFINITY, 5.0) < 1e-9);
        assert!(student_score(1.0, 0.0).is_finite());
        assert_eq!(student_score(f64::NAN, 5.0), f64::INFINITY);
    }
}
