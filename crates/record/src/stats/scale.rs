//! How far values of healthy things lie apart, when up to half of them are not healthy.
//!
//! The shortest stretch that holds a third of the values finds the densest crowd, however the others lie. From there, all values within [`FAR`] deviations
//! are taken and their deviation is computed anew, until none is added or left out. So a second group of values, even of half of them, does not widen the scale, as long
//! as the two are some deviations apart. (Simulated normal values, 8 to 100: 0.9 to 1.0 of the true deviation on average; half of them moved by 7 deviations: 1.1 to 1.2 of 20 or more.)

/// Values that are further from the middle, in deviations, are not of the crowd.
const FAR: f64 = 2.7;
/// A normal curve that is cut off there has this share less deviation.
const CUT_OFF: f64 = 1.04;
/// Values without which a third of them is too few.
const FEW: usize = 20;
/// How often the crowd is taken anew.
const PASSES: usize = 10;
/// The share of a value's information about the deviation that is used.
pub const EFFICIENCY: f64 = 0.5;

/// Where a crowd is, and how wide.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scale {
    /// Its middle.
    pub middle: f64,
    /// Its standard deviation, if it is normal.
    pub deviation: f64,
    /// How many values are of the crowd.
    pub values: usize,
}

impl Scale {
    /// The scale of these values; none of fewer than three. Values that are no number are left out.
    pub fn of(values: &[f64]) -> Option<Scale> {
        let mut sorted: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let mut scale = densest(&sorted)?;
        for _ in 0..PASSES {
            let reach = FAR * scale.deviation;
            let from = sorted.partition_point(|value| *value < scale.middle - reach);
            let to = sorted.partition_point(|value| *value <= scale.middle + reach);
            let crowd = &sorted[from..to];
            let Some(anew) = moments(crowd).filter(|anew| anew.values != scale.values) else {
                break;
            };
            scale = anew;
        }
        scale.deviation *= CUT_OFF;
        Some(scale)
    }
}

/// The scale by the densest part of ascending values.
fn densest(sorted: &[f64]) -> Option<Scale> {
    let count = sorted.len();
    // The part of the values, the deviations of a normal curve that it reaches to each side, and how much closer few values lie.
    let (part, reach, few) = match count < FEW {
        true => (0.4, 0.5244, 8.0),
        false => (0.3, 0.3853, 4.0),
    };
    let part = ((part * count as f64).ceil() as usize).max(3);
    if count < part {
        return None;
    }
    let (first, length) = (0..=count - part)
        .map(|first| (first, sorted[first + part - 1] - sorted[first]))
        .min_by(|a, b| a.1.total_cmp(&b.1))?;
    Some(Scale {
        middle: (sorted[first] + sorted[first + part - 1]) / 2.0,
        deviation: length / 2.0 / reach * (1.0 + few / count as f64),
        values: 0,
    })
}

fn moments(values: &[f64]) -> Option<Scale> {
    if values.len() < 2 {
        return None;
    }
    let count = values.len() as f64;
    let middle = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - middle).powi(2)).sum();
    Some(Scale {
        middle,
        deviation: (squares / (count - 1.0)).sqrt(),
        values: values.len(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::{Rng, SeedableRng};

    fn normal(count: usize, deviation: f64, seed: u64) -> Vec<f64> {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut uniform = move || (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        let mut value = move || (0..12).map(|_| uniform()).sum::<f64>() - 6.0;
        (0..count).map(|_| value() * deviation).collect()
    }

    fn mean_deviation(values: impl Fn(u64) -> Vec<f64>) -> f64 {
        let scales = (0..200).filter_map(|seed| Scale::of(&values(seed)));
        scales.map(|scale| scale.deviation).sum::<f64>() / 200.0
    }

    #[test]
    fn the_deviation_of_a_normal_crowd_is_found_with_few_values_and_with_many() {
        for count in [8, 20, 100, 1000] {
            let found = mean_deviation(|seed| normal(count, 0.02, seed));
            assert!((0.016..0.022).contains(&found), "{count}: {found}");
        }
    }

    #[test]
    fn a_third_of_slow_values_hardly_widens_it() {
        let found = mean_deviation(|seed| {
            let mut values = normal(60, 0.02, seed);
            values.extend(normal(30, 0.02, seed + 1000).iter().map(|value| value - 0.5));
            values
        });
        assert!((0.016..0.026).contains(&found), "{found}");
    }

    #[test]
    fn half_of_slow_values_are_a_crowd_of_their_own() {
        let found = mean_deviation(|seed| {
            let mut values = normal(50, 0.02, seed);
            values.extend(normal(50, 0.02, seed + 1000).iter().map(|value| value - 0.5));
            values
        });
        assert!((0.016..0.022).contains(&found), "{found}");
    }

    #[test]
    fn half_of_few_values_that_are_slow_by_a_third_do_not_hide_it() {
        let found = mean_deviation(|seed| {
            let mut values = normal(5, 0.02, seed);
            values.extend(normal(5, 0.02, seed + 1000).iter().map(|value| value - 0.36));
            values
        });
        assert!((0.01..0.03).contains(&found), "{found}");
    }

    #[test]
    fn what_has_no_scale_has_none() {
        assert_eq!(Scale::of(&[1.0, 2.0]), None);
        assert_eq!(Scale::of(&[f64::NAN, 1.0, 2.0]), None);
        let alike = Scale::of(&[1.0, 1.0, 1.0, 7.0]).unwrap();
        assert_eq!((alike.middle, alike.deviation, alike.values), (1.0, 0.0, 3));
    }
}
