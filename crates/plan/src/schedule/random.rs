//! A few rounds of random pairs: every rank is in a pair in every round, and with few rounds no pair repeats.
//!
//! k rounds say about every rank what k different partners say about it, at a cost that does not grow with the cluster.

use std::collections::HashSet;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

/// How often a round is drawn anew before pairs that met before are accepted.
const TRIES: usize = 20;

/// So many rounds of random pairs; each pair has the smaller number first. With an odd number one sits out each round.
pub fn rounds(players: usize, rounds: u32, seed: u64) -> Vec<Vec<(usize, usize)>> {
    if players < 2 {
        return Vec::new();
    }
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut met: HashSet<(usize, usize)> = HashSet::new();
    let mut seats: Vec<usize> = (0..players).collect();
    (0..rounds)
        .map(|_| {
            let mut best: Option<(usize, Vec<(usize, usize)>)> = None;
            for _ in 0..TRIES {
                seats.shuffle(&mut random);
                let pair = |pair: &[usize]| (pair[0].min(pair[1]), pair[0].max(pair[1]));
                let drawn: Vec<(usize, usize)> = seats.chunks_exact(2).map(pair).collect();
                let again = drawn.iter().filter(|pair| met.contains(pair)).count();
                if best.as_ref().is_none_or(|(fewest, _)| again < *fewest) {
                    best = Some((again, drawn));
                }
                if again == 0 {
                    break;
                }
            }
            let round = best.map(|(_, drawn)| drawn).unwrap_or_default();
            met.extend(&round);
            round
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_in_two_pairs_of_a_round_and_only_an_odd_one_sits_out() {
        for players in 2..=33 {
            for (seed, round) in
                (0..5).flat_map(|seed| rounds(players, 6, seed).into_iter().map(move |r| (seed, r)))
            {
                let mut busy = HashSet::new();
                for (a, b) in &round {
                    assert!(a < b && *b < players);
                    assert!(
                        busy.insert(*a) && busy.insert(*b),
                        "{players} players, seed {seed}"
                    );
                }
                assert_eq!(round.len(), players / 2);
            }
        }
    }

    #[test]
    fn a_seed_gives_the_same_rounds_and_another_one_others() {
        assert_eq!(rounds(16, 4, 7), rounds(16, 4, 7));
        assert_ne!(rounds(16, 4, 7), rounds(16, 4, 8));
        assert_eq!(rounds(16, 4, 7).len(), 4);
        assert!(rounds(1, 4, 7).is_empty());
    }

    #[test]
    fn in_a_large_cluster_nobody_meets_the_same_partner_twice() {
        let mut met = HashSet::new();
        for round in rounds(512, 4, 3) {
            for pair in round {
                assert!(met.insert(pair), "{pair:?}");
            }
        }
    }
}
