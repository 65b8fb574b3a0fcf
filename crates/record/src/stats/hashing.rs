//! Flows thrown at equal paths by a fair hash: how unevenly they fall, what that costs, and how many it takes.
//!
//! Fair means that every flow falls on every path with the same chance and without regard for the others. What that comes to is
//! not small: 64 flows over 8 paths leave the busiest with one and a half times the mean on average.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;

/// A number below `bound`, each with the same chance (up to one part in four billion); 0 when there is none.
#[inline]
pub fn pick(bound: usize, random: &mut ChaCha8Rng) -> usize {
    ((u64::from(random.next_u32()) * bound as u64) >> 32) as usize
}

/// Adds so many flows to `counts`, each on a path of its own choice.
pub fn throw(flows: u32, counts: &mut [u32], random: &mut ChaCha8Rng) {
    if counts.is_empty() {
        return;
    }
    for _ in 0..flows {
        counts[pick(counts.len(), random)] += 1;
    }
}

/// How far counts are from equal: the sum of squared distances from the mean, over the mean. 0 for equal counts, and for none.
pub fn chi_square(counts: &[u32]) -> f64 {
    let (flows, squares) = counts.iter().fold((0.0, 0.0), |(flows, squares), count| {
        let count = f64::from(*count);
        (flows + count, squares + count * count)
    });
    if flows == 0.0 {
        return 0.0;
    }
    // The sum of (count - mean)^2 / mean.
    squares * counts.len() as f64 / flows - flows
}

/// The busiest path over the mean; 1 for equal counts, and for none.
pub fn max_over_mean(counts: &[u32]) -> f64 {
    let flows: u64 = counts.iter().map(|count| u64::from(*count)).sum();
    let most = counts.iter().max().copied().unwrap_or(0);
    if flows == 0 {
        return 1.0;
    }
    f64::from(most) * counts.len() as f64 / flows as f64
}

/// Paths that have a flow.
pub fn covered(counts: &[u32]) -> u32 {
    counts.iter().filter(|count| **count > 0).count() as u32
}

/// What is left of the goodput of an even spread when everybody waits for the slowest, as a collective does: mean over maximum.
pub fn synchronised_share(counts: &[u32]) -> f64 {
    1.0 / max_over_mean(counts)
}

/// What is left of the goodput of an even spread when every flow takes what its path has left, up to `demand` (in capacities of
/// a path). With an infinite demand every path that has a flow is full.
pub fn goodput_share(counts: &[u32], demand: f64) -> f64 {
    let flows: f64 = counts.iter().map(|count| f64::from(*count)).sum();
    // No flow takes more than one path's worth, however evenly they are spread.
    let demand = demand.min(1.0);
    let even = (flows * demand).min(counts.len() as f64);
    if even <= 0.0 {
        return 1.0;
    }
    let delivered: f64 = counts
        .iter()
        .map(|count| (f64::from(*count) * demand).min(1.0))
        .sum();
    delivered / even
}

/// The chance that `flows` flows leave none of `paths` paths unused; exact.
pub fn chance_to_cover(flows: u32, paths: u32) -> f64 {
    let mut chances = Occupancy::of(paths);
    for _ in 0..flows {
        chances.another();
    }
    chances.all()
}

/// The fewest flows that leave no path unused with this probability; none when no number does.
pub fn flows_to_cover(paths: u32, probability: f64) -> Option<u32> {
    if !(0.0..1.0).contains(&probability) {
        return None;
    }
    let mut chances = Occupancy::of(paths);
    let mut flows = 0;
    while chances.all() < probability {
        chances.another();
        flows += 1;
    }
    Some(flows)
}

/// The chances that 0, 1, 2, ... paths are in use.
struct Occupancy(Vec<f64>);

impl Occupancy {
    fn of(paths: u32) -> Occupancy {
        let mut chances = vec![0.0; paths as usize + 1];
        chances[0] = 1.0;
        Occupancy(chances)
    }

    /// One more flow: it falls on a path in use, or on a new one.
    fn another(&mut self) {
        let paths = self.0.len() - 1;
        for used in (0..=paths).rev() {
            let stays = self.0[used] * used as f64 / paths.max(1) as f64;
            let comes = match used {
                0 => 0.0,
                _ => self.0[used - 1] * (paths - (used - 1)) as f64 / paths as f64,
            };
            self.0[used] = stays + comes;
        }
        if paths == 0 {
            self.0[0] = 1.0;
        }
    }

    fn all(&self) -> f64 {
        self.0.last().copied().unwrap_or(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Null;

    /// Busiest over mean of `flows` over `paths`: mean and 99th percentile.
    fn busiest(flows: u32, paths: usize) -> (f64, f64) {
        let null = Null::simulate(8000, 5, |random| {
            let mut counts = vec![0; paths];
            throw(flows, &mut counts, random);
            max_over_mean(&counts)
        });
        (null.mean(), null.quantile(0.99))
    }

    #[test]
    fn chance_alone_is_as_uneven_as_the_field_notes_say() {
        let published = [
            ((8, 8), (2.61, 5.0)),
            ((64, 8), (1.53, 2.12)),
            ((256, 8), (1.26, 1.53)),
            ((256, 16), (1.47, 1.88)),
        ];
        for ((flows, paths), (mean, p99)) in published {
            let found = busiest(flows, paths);
            // Both were drawn: exactly, 8 over 8 is 2.597, and the 99th percentile falls between 4 and 5.
            assert!((found.0 - mean).abs() < 0.03, "{flows} over {paths}: {found:?}");
            // Counts are whole: the quantile moves in steps of one flow.
            let step = paths as f64 / f64::from(flows);
            assert!(
                (found.1 - p99).abs() <= step + 0.005,
                "{flows} over {paths}: {found:?}"
            );
        }
    }

    #[test]
    fn so_many_labels_cover_all_paths_in_99_of_100_cases() {
        for (paths, flows) in [(4, 21), (8, 51), (16, 115), (32, 255)] {
            assert_eq!(flows_to_cover(paths, 0.99), Some(flows), "{paths} paths");
            assert!(chance_to_cover(flows - 1, paths) < 0.99);
        }
        assert_eq!((flows_to_cover(1, 0.99), flows_to_cover(4, 1.0)), (Some(1), None));
        assert_eq!(flows_to_cover(0, 0.5), Some(0), "nothing to cover");
        assert!((chance_to_cover(2, 2) - 0.5).abs() < 1e-12);
    }

    #[test]
    fn collisions_cost_what_they_cost() {
        let counts = [2, 0, 1, 1];
        assert_eq!(covered(&counts), 3);
        assert_eq!(max_over_mean(&counts), 2.0);
        assert_eq!(synchronised_share(&counts), 0.5);
        assert_eq!(goodput_share(&counts, f64::INFINITY), 0.75);
        assert_eq!(
            goodput_share(&counts, 0.5),
            1.0,
            "half a path each: no flow is in the way of another"
        );
        assert_eq!(goodput_share(&[8, 0], 0.25), 0.5);
        assert_eq!(chi_square(&[3, 3, 3]), 0.0);
        assert_eq!(chi_square(&[4, 0]), 4.0);
    }

    #[test]
    fn no_flows_and_no_paths_are_no_imbalance() {
        assert_eq!(
            (chi_square(&[]), max_over_mean(&[0, 0]), covered(&[])),
            (0.0, 1.0, 0)
        );
        assert_eq!((goodput_share(&[], 1.0), synchronised_share(&[])), (1.0, 1.0));
    }
}
