//! Does something happen more often here than elsewhere? Fisher's exact test of two shares.
//!
//! Under the null hypothesis the events are spread over all trials at random; the number that falls on our own is then
//! hypergeometric, and the p-value is the exact chance of as many as were seen.

use super::binomial::ln_gamma;

/// Chance of at least `own` events in `own_trials` when `own + others` events fall on all trials at random.
pub fn more_often(own: u64, own_trials: u64, others: u64, others_trials: u64) -> f64 {
    if own == 0 || own > own_trials || others > others_trials {
        return 1.0;
    }
    let (events, trials) = (own + others, own_trials + others_trials);
    let ln_choose = |n: u64, k: u64| {
        let (n, k) = (n as f64, k as f64);
        ln_gamma(n + 1.0) - ln_gamma(k + 1.0) - ln_gamma(n - k + 1.0)
    };
    let chance = |here: u64| {
        let elsewhere = events - here;
        (ln_choose(own_trials, here) + ln_choose(others_trials, elsewhere) - ln_choose(trials, events)).exp()
    };
    let possible = own..=events.min(own_trials);
    let possible = possible.filter(|here| events - here <= others_trials);
    possible.map(chance).sum::<f64>().min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lady_tasting_tea_is_right_once_in_seventy() {
        assert!((more_often(4, 4, 0, 4) - 1.0 / 70.0).abs() < 1e-12);
        assert!((more_often(3, 4, 1, 4) - 17.0 / 70.0).abs() < 1e-12);
    }

    #[test]
    fn events_that_are_as_frequent_elsewhere_say_nothing() {
        assert!(more_often(10, 1000, 100, 10_000) > 0.4);
        assert_eq!(more_often(0, 100, 5, 100), 1.0);
        assert_eq!(more_often(7, 5, 0, 100), 1.0, "more events than trials");
    }

    #[test]
    fn events_on_one_part_of_many_stand_out() {
        assert!(more_often(6, 100, 1, 10_000) < 1e-8);
        assert!(more_often(3, 30, 0, 30) > 0.05, "three of thirty may be chance");
    }
}
