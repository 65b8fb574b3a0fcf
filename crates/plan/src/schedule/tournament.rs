//! Every pair once, in rounds of disjoint pairs.
//!
//! The circle method: one player stays, the others move on by one place each round, and those opposite each other meet.
//! `n` players need `n - 1` rounds, or `n` when `n` is odd and one player sits out each round.

/// The rounds of a tournament of `players`; each pair has the smaller number first.
pub fn rounds(players: usize) -> Vec<Vec<(usize, usize)>> {
    if players < 2 {
        return Vec::new();
    }
    let seats = players.next_multiple_of(2);
    let moving = seats - 1;
    (0..moving)
        .map(|round| {
            let seated = |seat: usize| {
                if seat == 0 {
                    0
                } else {
                    1 + (seat - 1 + round) % moving
                }
            };
            (0..seats / 2)
                .map(|seat| (seated(seat), seated(seats - 1 - seat)))
                .map(|(a, b)| (a.min(b), a.max(b)))
                .filter(|(_, later)| *later < players)
                .collect()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_pair_meets_exactly_once_and_nobody_is_in_two_pairs_of_a_round() {
        for players in 2..=65 {
            let rounds = rounds(players);
            assert_eq!(rounds.len(), players - 1 + players % 2, "{players} players");
            let mut met = HashSet::new();
            for round in &rounds {
                assert_eq!(round.len(), players / 2, "{players} players");
                let mut busy = HashSet::new();
                for (a, b) in round {
                    assert!(a < b && *b < players);
                    assert!(met.insert((*a, *b)), "{a}:{b} of {players} meet twice");
                    assert!(busy.insert(*a) && busy.insert(*b), "{a}:{b} of {players}");
                }
            }
            assert_eq!(met.len(), players * (players - 1) / 2, "{players} players");
        }
    }

    #[test]
    fn one_player_alone_has_nobody_to_meet() {
        assert!(rounds(0).is_empty());
        assert!(rounds(1).is_empty());
    }
}
