//! What a number of equal flows may expect of a number of equal paths when a fair hash spreads them.
//!
//! Senders offer what the paths carry together and no more: each flow asks for its equal share of it, but never for more than one
//! path has. Collisions then cost goodput in two ways. Independent flows lose what does not fit on the paths that were
//! chosen too often. One synchronised collective waits for its slowest flow, so the busiest path sets the pace of all.
//!
//! Held true: the same seed gives the same answer; shares are of all paths together, so fewer flows than paths never reach 1.

use rand_chacha::ChaCha8Rng;

use super::Null;
use super::hashing::{covered, goodput_share, synchronised_share, throw};

/// More flows than this are not tried: between two addresses there are no more source ports.
pub const MOST_FLOWS: u32 = 65_536;
/// How often flows are thrown for one answer.
const TRIALS: usize = 4000;
/// How often at least, however many flows there are.
const FEWEST_TRIALS: usize = 200;
/// So many flows are thrown for one answer, at most: more flows scatter less, so that fewer trials do.
const MOST_THROWN: usize = 8_000_000;

/// A share of what all paths carry together, over many trials.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shares {
    /// The mean.
    pub mean: f64,
    /// It is more than this in 95 of 100 cases.
    pub p5: f64,
    /// It is more than this in 99 of 100 cases.
    pub p1: f64,
}

impl Shares {
    fn of(null: &Null) -> Shares {
        Shares {
            mean: null.mean(),
            p5: null.quantile(0.05),
            p1: null.quantile(0.01),
        }
    }
}

/// What so many flows over so many paths may expect.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outlook {
    /// Flows.
    pub flows: u32,
    /// How often no path was left unused.
    pub all_used: f64,
    /// What independent flows deliver together.
    pub independent: Shares,
    /// What one collective delivers that waits for the slowest of them.
    pub collective: Shares,
}

impl Outlook {
    /// Throws `flows` flows at `paths` paths many times.
    pub fn of(flows: u32, paths: u32, seed: u64) -> Outlook {
        let trials = (MOST_THROWN / flows.max(1) as usize).clamp(FEWEST_TRIALS, TRIALS);
        let room = || vec![0; paths as usize];
        let [all_used, independent, collective] =
            Null::simulate_together(trials, seed, room, |counts, random| trial(flows, counts, random));
        Outlook {
            flows,
            all_used: all_used.mean(),
            independent: Shares::of(&independent),
            collective: Shares::of(&collective),
        }
    }
}

/// Whether all paths were used, and what is delivered without and with waiting for the slowest.
fn trial(flows: u32, counts: &mut [u32], random: &mut ChaCha8Rng) -> [f64; 3] {
    counts.fill(0);
    throw(flows, counts, random);
    let paths = counts.len() as f64;
    let demand = paths / f64::from(flows.max(1));
    // Fewer flows than paths cannot fill them, however evenly they are spread.
    let possible = (f64::from(flows) / paths).min(1.0);
    [
        f64::from(u8::from(covered(counts) as usize == counts.len())),
        goodput_share(counts, demand) * possible,
        synchronised_share(counts),
    ]
}

/// The fewest flows (to about 1 %) of which `of` expects at least `wanted`, a share of all paths together; none when
/// [`MOST_FLOWS`] are not enough.
pub fn flows_for(paths: u32, wanted: f64, seed: u64, of: impl Fn(&Outlook) -> f64) -> Option<u32> {
    let is_enough = |flows: u32| of(&Outlook::of(flows, paths, seed)) >= wanted;
    let mut enough = 1;
    while !is_enough(enough) {
        enough = enough.checked_mul(2).filter(|more| *more <= MOST_FLOWS)?;
    }
    let mut too_few = enough / 2;
    while enough - too_few > 1.max(enough / 100) {
        let middle = too_few + (enough - too_few) / 2;
        if is_enough(middle) {
            enough = middle;
        } else {
            too_few = middle;
        }
    }
    Some(enough)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::hashing::{chance_to_cover, flows_to_cover};

    #[test]
    fn simulated_exact_and_published_numbers_of_flows_to_cover_all_paths_agree() {
        let published = |m: f64, p: f64| ((1.0 - p.powf(1.0 / m)).ln() / ((m - 1.0) / m).ln()).ceil() as u32;
        for (paths, flows) in [(4, 21), (8, 51), (16, 115), (32, 255)] {
            assert_eq!(published(f64::from(paths), 0.99), flows);
            assert_eq!(flows_to_cover(paths, 0.99), Some(flows));
            let simulated = Outlook::of(flows, paths, 1).all_used;
            assert!((simulated - 0.99).abs() < 0.006, "{paths} paths: {simulated}");
            let half = Outlook::of(flows / 2, paths, 1).all_used;
            assert!((half - chance_to_cover(flows / 2, paths)).abs() < 0.03, "{half}");
        }
    }

    #[test]
    fn collisions_cost_independent_flows_little_and_a_collective_much() {
        let even = Outlook::of(8, 1, 1);
        assert_eq!(
            (even.all_used, even.independent.p1, even.collective.mean),
            (1.0, 1.0, 1.0)
        );
        // Eight flows over eight paths use 1 - (7/8)^8 of them, and the field notes' 2.61 flows share the busiest.
        let few = Outlook::of(8, 8, 1);
        assert!(
            (few.independent.mean - (1.0 - (7.0f64 / 8.0).powi(8))).abs() < 0.01,
            "{few:?}"
        );
        assert!((0.35..0.42).contains(&few.collective.mean), "{few:?}");
        let many = Outlook::of(256, 8, 1);
        assert!((0.78..0.82).contains(&many.collective.mean), "1 / 1.26: {many:?}");
        assert!(many.independent.mean > 0.9 && many.independent.p1 > many.collective.p1);
        for shares in [many.independent, many.collective] {
            assert!(shares.p1 < shares.p5 && shares.p5 < shares.mean, "{shares:?}");
        }
    }

    #[test]
    fn one_flow_of_four_paths_delivers_a_quarter() {
        let one = Outlook::of(1, 4, 1);
        assert_eq!((one.independent.mean, one.collective.mean), (0.25, 0.25));
    }

    #[test]
    fn so_many_flows_as_are_said_to_be_enough_are_enough_and_hardly_fewer_are() {
        let wanted = 0.8;
        for of in [
            |all: &Outlook| all.independent.mean,
            |all: &Outlook| all.collective.mean,
        ] {
            let flows = flows_for(8, wanted, 1, of).unwrap();
            assert!(of(&Outlook::of(flows, 8, 1)) >= wanted);
            assert!(of(&Outlook::of(flows * 9 / 10 - 1, 8, 1)) < wanted, "{flows}");
        }
        let independent = flows_for(8, wanted, 1, |all| all.independent.mean).unwrap();
        let collective = flows_for(8, wanted, 1, |all| all.collective.mean).unwrap();
        assert!(collective > 3 * independent, "{independent} and {collective}");
        assert_eq!(flows_for(512, 0.999, 1, |all| all.collective.mean), None);
        assert_eq!(flows_for(1, 0.99, 1, |all| all.collective.p1), Some(1));
    }
}
