//! Are there two clusters? The widest gap between neighbouring samples, beside the gaps that are usual among them.
//!
//! Gaps between sorted samples of a smooth distribution are about exponential, each with a mean that varies slowly. So the
//! chance that the widest of them is far wider than their mean falls off exponentially. Only gaps in the middle of the samples
//! are looked at: the tails of any distribution are thin. Times are compared as logarithms: a gap is a ratio.

/// Samples on either side of a gap, as a share: fewer are a tail, not a cluster.
const CLUSTER: f64 = 0.2;
/// Fewest samples that are looked at.
const FEWEST: usize = 16;
/// Usual gaps are taken to be this much wider than they are on average: towards the tails they are.
const CAUTION: f64 = 2.0;

/// The widest gap in the middle of some samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gap {
    /// Samples below it.
    pub below: usize,
    /// The sample above it over the one below it.
    pub ratio: f64,
    /// Chance of a gap as wide in samples that have one cluster only.
    pub p_value: f64,
}

/// The widest gap of ascending samples; none when they are too few.
pub fn widest_gap(sorted: &[u64]) -> Option<Gap> {
    let margin = (sorted.len() as f64 * CLUSTER).ceil() as usize;
    if sorted.len() < FEWEST || sorted[0] == 0 {
        return None;
    }
    let places = margin..=sorted.len() - margin;
    let gaps: Vec<f64> = places
        .map(|at| (sorted[at] as f64 / sorted[at - 1] as f64).ln())
        .collect();
    let widest = (0..gaps.len()).max_by(|a, b| gaps[*a].total_cmp(&gaps[*b]))?;
    let others = (gaps.len() - 1) as f64;
    let sum_of_others = gaps[..widest].iter().chain(&gaps[widest + 1..]).sum::<f64>();
    let mean = sum_of_others / others * CAUTION;
    let p_value = match mean > 0.0 {
        true => (others + 1.0) * (-gaps[widest] / mean).exp(),
        // All others are equal: there is nothing to tell a clock's step from two clusters by.
        false => 1.0,
    };
    Some(Gap {
        below: margin + widest,
        ratio: gaps[widest].exp(),
        p_value: p_value.min(1.0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::{Rng, SeedableRng};

    fn uniform(random: &mut ChaCha8Rng) -> f64 {
        ((random.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    fn lognormal(random: &mut ChaCha8Rng, spread: f64) -> f64 {
        let (radius, angle) = (uniform(random), uniform(random));
        (spread * (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()).exp()
    }

    fn sorted(mut samples: Vec<u64>) -> Vec<u64> {
        samples.sort_unstable();
        samples
    }

    #[test]
    fn two_speeds_are_seen() {
        let mut random = ChaCha8Rng::seed_from_u64(4);
        for slow in [8, 16, 24] {
            let samples = (0..32).map(|i| {
                let base = if i < slow { 1.5e6 } else { 1e6 };
                (base * lognormal(&mut random, 0.02)) as u64
            });
            let gap = widest_gap(&sorted(samples.collect())).unwrap();
            assert_eq!(gap.below, 32 - slow);
            assert!(gap.ratio > 1.35 && gap.p_value < 1e-6, "{gap:?}");
        }
    }

    #[test]
    fn one_cluster_of_any_width_is_not_taken_for_two() {
        let mut random = ChaCha8Rng::seed_from_u64(5);
        for (spread, count) in [(0.01, 20), (0.1, 40), (0.4, 20), (0.4, 100), (0.8, 60)] {
            let (trials, mut accused) = (2000, 0);
            for _ in 0..trials {
                let samples = (0..count).map(|_| (1e7 * lognormal(&mut random, spread)) as u64);
                let gap = widest_gap(&sorted(samples.collect())).unwrap();
                accused += u32::from(gap.p_value < 0.01);
            }
            assert!(
                accused <= trials / 100,
                "spread {spread}, {count} samples: {accused}"
            );
        }
    }

    #[test]
    fn a_few_outliers_and_equal_samples_are_no_cluster() {
        let mut samples = vec![1000u64; 30];
        assert_eq!(widest_gap(&samples).unwrap().p_value, 1.0);
        samples.extend([9000, 9100]);
        assert_eq!(widest_gap(&samples).unwrap().ratio, 1.0);
        assert_eq!(widest_gap(&[1, 2, 3]), None);
    }
}
