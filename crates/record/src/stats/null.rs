//! What a statistic comes to when nothing is wrong, by trying it out.
//!
//! A null hypothesis such as "every flow picks its path at random" is simple to act out and hard to solve. So it is acted out
//! thousands of times with the very structure of what was measured, and the value measured is placed among the values that came
//! out. The p-value counts the measured value as one more trial: (1 + as extreme) / (1 + trials). That is exact for any number
//! of trials, never zero, and on average no smaller than it should be.
//!
//! Held true: the same seed gives the same values on any number of cores.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use rayon::prelude::*;

/// Trials that share one stream of random numbers: small enough to keep all cores busy, large enough to cost nothing.
const TRIALS_PER_STREAM: usize = 64;

/// The values of a statistic over many trials of a null hypothesis.
#[derive(Debug, Clone, PartialEq)]
pub struct Null {
    /// Ascending.
    values: Vec<f64>,
}

impl Null {
    /// Acts the hypothesis out: `trial` makes one value from random numbers.
    pub fn simulate(trials: usize, seed: u64, trial: impl Fn(&mut ChaCha8Rng) -> f64 + Sync) -> Null {
        let [null] = Null::simulate_together(trials, seed, || (), |(), random| [trial(random)]);
        null
    }

    /// The same for several statistics of the same trial. `room` makes what a trial needs to work in, once for many trials.
    pub fn simulate_together<R, const K: usize>(
        trials: usize,
        seed: u64,
        room: impl Fn() -> R + Sync,
        trial: impl Fn(&mut R, &mut ChaCha8Rng) -> [f64; K] + Sync,
    ) -> [Null; K] {
        let streams = trials.div_ceil(TRIALS_PER_STREAM);
        let drawn: Vec<[f64; K]> = (0..streams)
            .into_par_iter()
            .flat_map_iter(|stream| {
                let mut random = ChaCha8Rng::seed_from_u64(seed);
                random.set_stream(stream as u64);
                let mut room = room();
                let left = trials - stream * TRIALS_PER_STREAM;
                let of_stream: Vec<[f64; K]> = (0..left.min(TRIALS_PER_STREAM))
                    .map(|_| trial(&mut room, &mut random))
                    .collect();
                of_stream
            })
            .collect();
        std::array::from_fn(|statistic| Null::of(drawn.iter().map(|values| values[statistic]).collect()))
    }

    /// From values that were drawn elsewhere. What is not a number is left out.
    pub fn of(mut values: Vec<f64>) -> Null {
        values.retain(|value| !value.is_nan());
        values.sort_unstable_by(f64::total_cmp);
        Null { values }
    }

    /// How many trials there were.
    pub fn trials(&self) -> usize {
        self.values.len()
    }

    /// The chance of this value or a larger one.
    pub fn p_upper(&self, value: f64) -> f64 {
        self.p(
            value,
            |own| self.values.partition_point(|drawn| *drawn < own),
            true,
        )
    }

    /// The chance of this value or a smaller one.
    pub fn p_lower(&self, value: f64) -> f64 {
        self.p(
            value,
            |own| self.values.partition_point(|drawn| *drawn <= own),
            false,
        )
    }

    fn p(&self, value: f64, split: impl Fn(f64) -> usize, upper: bool) -> f64 {
        if value.is_nan() {
            return 1.0;
        }
        let below = split(value);
        let extreme = if upper { self.values.len() - below } else { below };
        (1 + extreme) as f64 / (1 + self.values.len()) as f64
    }

    /// The value that this share of the trials stays at or below; not a number without trials.
    pub fn quantile(&self, fraction: f64) -> f64 {
        let Some(last) = self.values.len().checked_sub(1) else {
            return f64::NAN;
        };
        let position = fraction.clamp(0.0, 1.0) * last as f64;
        let (below, above) = (position.floor() as usize, position.ceil() as usize);
        let (low, high) = (self.values[below.min(last)], self.values[above.min(last)]);
        low + (high - low) * position.fract()
    }

    /// The median; not a number without trials.
    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// The mean; not a number without trials.
    pub fn mean(&self) -> f64 {
        self.values.iter().sum::<f64>() / self.values.len() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_chacha::rand_core::Rng;

    fn die(random: &mut ChaCha8Rng) -> f64 {
        (random.next_u64() % 6 + 1) as f64
    }

    #[test]
    fn a_die_is_as_likely_as_it_is_and_never_impossible() {
        let null = Null::simulate(6000, 1, die);
        assert_eq!(null.trials(), 6000);
        assert!((null.p_upper(6.0) - 1.0 / 6.0).abs() < 0.02);
        assert!((null.p_lower(2.0) - 2.0 / 6.0).abs() < 0.02);
        assert_eq!(null.p_upper(7.0), 1.0 / 6001.0);
        assert_eq!((null.p_upper(1.0), null.p_lower(6.0)), (1.0, 1.0));
        assert!((null.mean() - 3.5).abs() < 0.1);
        assert_eq!((null.quantile(0.0), null.quantile(1.0)), (1.0, 6.0));
    }

    #[test]
    fn a_seed_gives_the_same_judgement_on_any_number_of_cores() {
        let on = |cores: usize| {
            let pool = rayon::ThreadPoolBuilder::new()
                .num_threads(cores)
                .build()
                .unwrap();
            pool.install(|| Null::simulate(1000, 7, die))
        };
        assert_eq!(on(1), on(3));
        assert_ne!(on(1), Null::simulate(1000, 8, die));
    }

    #[test]
    fn nothing_drawn_accuses_nobody() {
        let none = Null::simulate(0, 1, die);
        assert_eq!((none.p_upper(5.0), none.p_lower(5.0)), (1.0, 1.0));
        assert!(none.median().is_nan());
        assert_eq!(Null::of(vec![f64::NAN, 1.0]).trials(), 1);
        assert_eq!(Null::of(vec![1.0]).p_upper(f64::NAN), 1.0);
    }

    #[test]
    fn p_values_of_healthy_parts_are_uniform() {
        let null = Null::simulate(4000, 1, |random| (random.next_u64() >> 11) as f64);
        let mut random = ChaCha8Rng::seed_from_u64(99);
        let low = (0..4000)
            .filter(|_| null.p_upper((random.next_u64() >> 11) as f64) < 0.1)
            .count();
        assert!((320..480).contains(&low), "{low} of 4000");
    }
}
