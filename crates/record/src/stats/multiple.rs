//! Many comparisons, one budget of false accusations: Holm's step-down correction.
//!
//! The adjusted values can each be compared with the budget for the whole family: the chance that one or more true null
//! hypotheses fall below it is at most the budget, however the comparisons depend on each other.

/// P-values adjusted for their number, in the order given. What is not a number counts as 1.
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let sane = |p: f64| if p.is_nan() { 1.0 } else { p.clamp(0.0, 1.0) };
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|a, b| sane(p_values[*a]).total_cmp(&sane(p_values[*b])));
    let mut adjusted = vec![1.0; p_values.len()];
    let mut largest = 0.0f64;
    for (step, index) in order.into_iter().enumerate() {
        let remaining = (p_values.len() - step) as f64;
        largest = largest.max((sane(p_values[index]) * remaining).min(1.0));
        adjusted[index] = largest;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::{Rng, SeedableRng};

    #[test]
    fn a_worked_example_comes_out_as_in_the_textbook() {
        let adjusted = holm(&[0.01, 0.04, 0.03, 0.005]);
        let expected = [0.03, 0.06, 0.06, 0.02];
        for (got, want) in adjusted.iter().zip(expected) {
            assert!((got - want).abs() < 1e-12, "{adjusted:?}");
        }
        assert_eq!(holm(&[]), Vec::<f64>::new());
        assert_eq!(holm(&[f64::NAN, 2.0]), vec![1.0, 1.0]);
    }

    #[test]
    fn a_thousand_healthy_parts_stay_within_one_budget() {
        let mut random = ChaCha8Rng::seed_from_u64(5);
        let (families, mut accusing) = (2000, 0);
        for _ in 0..families {
            let p: Vec<f64> = (0..1000)
                .map(|_| (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64)
                .collect();
            accusing += u32::from(holm(&p).iter().any(|p| *p < 0.05));
        }
        let rate = f64::from(accusing) / f64::from(families);
        assert!((0.03..=0.062).contains(&rate), "{rate}");
    }
}
