//! A part whose shape was looked at, and in how many rounds it showed.

use record::{DecisionRule, FindingKind, Question};

/// Rounds in which a shape was tested, and in how many of them it showed.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(in crate::findings) struct RoundTally {
    /// Rounds with all that it takes.
    pub(super) rounds: u16,
    /// Of those, rounds that show it.
    pub(super) shown: u16,
}

impl RoundTally {
    pub(super) fn at(rounds: &[u16], shows: impl Fn(u16) -> bool) -> RoundTally {
        let count = |number: usize| u16::try_from(number).unwrap_or(u16::MAX);
        RoundTally {
            rounds: count(rounds.len()),
            shown: count(rounds.iter().filter(|round| shows(**round)).count()),
        }
    }
}

/// A part whose shape was looked at.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::findings) struct Candidate {
    /// What it would be.
    pub(super) kind: FindingKind,
    /// The curve, where it is about one.
    pub(super) curve: Option<usize>,
    /// Positions of the cells that show it.
    pub(super) places: Vec<usize>,
    /// Positions of cells they are compared with on the same curve.
    pub(super) beside: Vec<usize>,
    /// Ranks concerned.
    pub(super) ranks: Vec<u32>,
    /// Rails concerned.
    pub(super) rails: Vec<String>,
    /// Whether all rounds together show it.
    pub(super) suspicious: bool,
    /// Round by round.
    pub(super) rounds_shown: RoundTally,
    /// P-value of this data for a healthy part, corrected once all are known.
    pub(super) p_value: f64,
    /// Dropped where its cells are called slow: that is more specific.
    pub(super) unless_slow: bool,
    /// Where it need not be the fabric, what else it may be: then its cells are inconclusive, and no part is accused.
    pub(super) doubt: Option<String>,
    /// What was seen, in words.
    pub(super) sentence: String,
    /// The rule, in words.
    pub(super) rule: String,
}

impl Candidate {
    pub(super) fn new(kind: FindingKind, curve: usize, places: Vec<usize>, suspicious: bool) -> Candidate {
        Candidate {
            curve: Some(curve),
            suspicious,
            ..Candidate::of_part(kind, places)
        }
    }

    pub(super) fn of_part(kind: FindingKind, places: Vec<usize>) -> Candidate {
        Candidate {
            kind,
            curve: None,
            places,
            beside: Vec::new(),
            ranks: Vec::new(),
            rails: Vec::new(),
            suspicious: true,
            rounds_shown: RoundTally::default(),
            p_value: 1.0,
            unless_slow: false,
            doubt: None,
            sentence: String::new(),
            rule: String::new(),
        }
    }

    /// Whether another round may confirm it.
    pub(super) fn may_be_confirmed(&self, rule: &DecisionRule) -> bool {
        let RoundTally { rounds, shown } = self.rounds_shown;
        rounds <= rule.remeasure || (shown == rounds && rounds <= rule.most_rounds_again())
    }

    pub(super) fn is_confirmed(&self, rule: &DecisionRule) -> bool {
        self.suspicious
            && self.doubt.is_none()
            && self.rounds_shown.rounds > rule.remeasure
            && self.rounds_shown.shown == self.rounds_shown.rounds
            && self.p_value < rule.budget_of(Question::Shapes)
    }
}
