//! How likely it is that something rare happens this often.

use statrs::distribution::{ContinuousCDF, Gamma};

use super::binomial::ln_gamma;

/// Beyond so many, terms are not added up one by one.
const MANY: f64 = 1e6;

/// P(X >= `seen`) of events that come one by one, `expected` of them on average. One where nothing can be said.
pub fn as_often(seen: u64, expected: f64) -> f64 {
    if seen == 0 || !expected.is_finite() || expected < 0.0 {
        return 1.0;
    }
    if expected == 0.0 {
        return 0.0;
    }
    let k = seen as f64;
    if k <= expected {
        // Not rare: it does not matter how much more likely than one half it is.
        return 1.0;
    }
    if expected > MANY {
        // Chernoff's bound: never less than the probability, and close enough where so many are expected.
        return f64::min((k - expected - k * (k / expected).ln()).exp(), 1.0);
    }
    let (mut term, mut sum, mut next) = ((k * expected.ln() - expected - ln_gamma(k + 1.0)).exp(), 0.0, k);
    while term > sum * 1e-17 && term > 0.0 {
        sum += term;
        next += 1.0;
        term *= expected / next;
    }
    f64::min(sum, 1.0)
}

/// The interval of how many events are expected where so many were seen (exact, after Garwood).
pub fn expected_of(seen: u64, confidence: f64) -> (f64, f64) {
    let outside = (1.0 - confidence.clamp(0.0, 1.0)) / 2.0;
    let at =
        |shape: f64, below: f64| Gamma::new(shape, 1.0).map_or(f64::NAN, |events| events.inverse_cdf(below));
    let seen = seen as f64;
    let lower = if seen == 0.0 { 0.0 } else { at(seen, outside) };
    (lower, at(seen + 1.0, 1.0 - outside))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_of_counts_are_those_of_the_tables() {
        // 95 %: none seen 0 to 3.689, ten seen 4.795 to 18.39.
        let near = |a: f64, b: f64| (a - b).abs() < 0.005;
        let (none, ten) = (expected_of(0, 0.95), expected_of(10, 0.95));
        assert!(none.0 == 0.0 && near(none.1, 3.689), "{none:?}");
        assert!(near(ten.0, 4.795) && near(ten.1, 18.39), "{ten:?}");
        assert!(expected_of(1_000_000, 0.95).0 > 997_000.0);
    }

    #[test]
    fn probabilities_are_those_of_the_tables() {
        let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert!(near(as_often(1, 0.1), 1.0 - (-0.1f64).exp()));
        assert!(near(as_often(3, 1.0), 1.0 - (-1.0f64).exp() * 2.5));
        assert!(as_often(4112, 24.0) < 1e-100);
        assert!(as_often(1_000_100, 1_000_000.0) > 0.4);
        let beyond = as_often(1_005_100, 1_000_001.0);
        assert!((1e-9..1e-5).contains(&beyond), "{beyond}");
    }

    #[test]
    fn what_cannot_be_said_accuses_nobody() {
        for (seen, expected) in [
            (0, 0.0),
            (0, 5.0),
            (5, f64::NAN),
            (5, f64::INFINITY),
            (5, -1.0),
            (5, 5.0),
        ] {
            assert_eq!(as_often(seen, expected), 1.0, "{seen} {expected}");
        }
        assert_eq!(as_often(1, 0.0), 0.0);
        assert!(as_often(u64::MAX, 1e-300) >= 0.0);
        assert!(as_often(u64::MAX, 1.8446744e19) <= 1.0, "and it ends");
    }
}
