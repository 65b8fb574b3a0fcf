//! Whether the rounds of a rail agree: a part is at fault when every round accuses it of the same.
//!
//! Rounds are other times and other source ports, and each is judged by itself. What one of them shows and another does not is
//! neither healthy nor a fault.

use std::collections::{HashMap, HashSet};

use super::accusations::{Accusation, Accused};
use record::{DecisionRule, EcmpCause};

/// Fewest rounds that accuse a part, whatever the suite says.
const FEWEST_ROUNDS: u16 = 2;

/// The number of rounds that must agree.
pub(super) fn rounds_wanted(rule: &DecisionRule) -> u16 {
    rule.remeasure.saturating_add(1).max(FEWEST_ROUNDS)
}

/// What the accusations of one round are, and whether all of it was measured.
pub(super) struct RoundAccusations {
    pub(super) accusations: Vec<Accusation>,
    pub(super) is_complete: bool,
}

/// What some rounds accuse the same part of.
#[derive(Debug, Clone)]
pub(super) struct Agreement {
    pub(super) cause: EcmpCause,
    /// The parts that fit in each of these rounds, the named one first.
    pub(super) parts: Vec<Accused>,
    /// Ids of the cells concerned, of all these rounds.
    pub(super) cells: Vec<u32>,
    /// Rounds that show it.
    shown: u16,
    /// Rounds that could have shown it.
    measured: u16,
    wanted: u16,
}

impl Agreement {
    /// Whether enough rounds were measured, and all of them show it.
    pub(super) fn is_confirmed(&self) -> bool {
        self.shown == self.measured && self.measured >= self.wanted
    }

    /// Whether another round may confirm it.
    pub(super) fn is_open(&self) -> bool {
        self.shown == self.measured && self.measured < self.wanted
    }

    /// What it is, in words, and why it is not confirmed.
    pub(super) fn suspicion(&self) -> String {
        let at = match &self.parts[0] {
            Accused::Link(name) | Accused::Switch(name, _) | Accused::Host(name) => format!(" at {name}"),
            Accused::Rail => String::new(),
        };
        let why = match self.is_open() {
            true => format!("not re-measured ({} of {} rounds)", self.measured, self.wanted),
            false => format!("seen in {} of {} rounds only", self.shown, self.measured),
        };
        format!("suspected {}{at}, {why}", self.cause)
    }
}

/// Which accusations of the rounds are the same: the same cause, and a part that fits in all of them.
pub(super) fn agreements(rounds: &[RoundAccusations], wanted: u16) -> Vec<Agreement> {
    let place_of: Vec<HashMap<(EcmpCause, &Accused), usize>> = rounds.iter().map(places).collect();
    let mut taken: Vec<HashSet<usize>> = vec![HashSet::new(); rounds.len()];
    let mut agreements = Vec::new();
    for (number, round) in rounds.iter().enumerate() {
        for (place, first) in round.accusations.iter().enumerate() {
            if !taken[number].insert(place) {
                continue;
            }
            let mut parts = first.parts.clone();
            let mut cells = first.cells.clone();
            let mut shows: Vec<bool> = (0..rounds.len()).map(|other| other == number).collect();
            for later in number + 1..rounds.len() {
                let of_part = |part: &Accused| place_of[later].get(&(first.cause, part)).copied();
                let Some(same) = parts.iter().find_map(of_part) else {
                    continue;
                };
                if !taken[later].insert(same) {
                    continue;
                }
                let same = &rounds[later].accusations[same];
                parts.retain(|part| same.parts.contains(part));
                cells.extend(&same.cells);
                shows[later] = true;
            }
            let shown = shows.iter().filter(|shows| **shows).count() as u16;
            let could = rounds.iter().zip(&shows);
            let measured = could
                .filter(|(round, shows)| **shows || round.is_complete)
                .count() as u16;
            agreements.push(Agreement {
                cause: first.cause,
                parts,
                cells,
                shown,
                measured,
                wanted,
            });
        }
    }
    agreements
}

fn places(round: &RoundAccusations) -> HashMap<(EcmpCause, &Accused), usize> {
    let mut places = HashMap::new();
    for (place, accusation) in round.accusations.iter().enumerate() {
        for part in &accusation.parts {
            places.entry((accusation.cause, part)).or_insert(place);
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(links: &[&[&str]]) -> RoundAccusations {
        let accusation = |names: &&[&str]| Accusation {
            cause: EcmpCause::SlowMember,
            parts: names.iter().map(|name| Accused::Link(name.to_string())).collect(),
            cells: vec![7],
        };
        RoundAccusations {
            accusations: links.iter().map(accusation).collect(),
            is_complete: true,
        }
    }

    #[test]
    fn links_that_only_one_round_holds_for_possible_are_cleared_by_the_other() {
        let found = agreements(&[round(&[&["a", "b"]]), round(&[&["b", "c"]])], 2);
        assert_eq!(found.len(), 1);
        assert!(found[0].is_confirmed());
        assert_eq!(found[0].parts, [Accused::Link("b".into())]);
    }

    #[test]
    fn rounds_that_accuse_different_links_accuse_none() {
        let found = agreements(&[round(&[&["a"]]), round(&[&["b"]])], 2);
        let said: Vec<String> = found.iter().map(Agreement::suspicion).collect();
        assert_eq!(
            said,
            [
                "suspected slow-member at a, seen in 1 of 2 rounds only",
                "suspected slow-member at b, seen in 1 of 2 rounds only"
            ]
        );
        assert!(!found.iter().any(|found| found.is_confirmed() || found.is_open()));
    }

    #[test]
    fn a_round_that_was_cut_off_does_not_clear_what_it_does_not_show() {
        let cut_off = RoundAccusations {
            is_complete: false,
            ..round(&[])
        };
        let found = agreements(&[round(&[&["a"]]), cut_off], 2);
        assert!(found[0].is_open() && !found[0].is_confirmed());
        assert!(found[0].suspicion().ends_with("not re-measured (1 of 2 rounds)"));
    }

    #[test]
    fn a_suite_without_remeasuring_accuses_no_part_of_how_flows_are_spread() {
        let of = |remeasure| {
            rounds_wanted(&DecisionRule {
                remeasure,
                ..DecisionRule::default()
            })
        };
        assert_eq!((of(0), of(1), of(2)), (2, 2, 3));
    }
}
