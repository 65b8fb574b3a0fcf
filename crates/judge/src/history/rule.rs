//! What counts as a change.

use record::Quantity;
use record::stats::normal_score;

/// Shapes, dates and directions in which a change is looked for, as far as they are independent of each other.
const WAYS: f64 = 12.0;

/// What counts as a change, and on how much evidence. The figures of [`Rule::default`] are those of `docs/history.md`, which says
/// what each costs and what it saves.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// Runs without which a part has no past to be compared with.
    pub least_runs: usize,
    /// Runs before a change that are looked at; also how long a new level takes to become the usual one.
    pub window: usize,
    /// How many runs ago a change may have begun.
    pub reach: usize,
    /// Wrong alarms per run that are accepted, all parts together.
    pub false_alarms: f64,
    /// A smaller change of bandwidth does not matter (0.02 = 2 %); of other quantities in proportion.
    pub least_effect: f64,
}

impl Default for Rule {
    fn default() -> Self {
        Rule {
            least_runs: 7,
            window: 42,
            reach: 14,
            false_alarms: 0.01,
            least_effect: 0.02,
        }
    }
}

impl Rule {
    /// The score that chance exceeds in so few runs as the rule accepts, anywhere among so many parts.
    pub fn threshold(&self, parts: u32) -> f64 {
        let comparisons = f64::from(parts.max(1)) * WAYS;
        normal_score((self.false_alarms / comparisons).clamp(1e-12, 0.01))
    }

    /// The smallest change of a quantity that is worth a word.
    pub(super) fn least_effect_of(&self, quantity: Quantity) -> f64 {
        self.least_effect
            * match quantity {
                Quantity::Bandwidth | Quantity::Clock => 1.0,
                Quantity::Latency => 2.5,
                Quantity::Temperature => 4.0,
                Quantity::Tail => 10.0,
            }
    }
}

/// The least spread that a quantity is taken to have, as a share of itself: readings are rounded, and a row of equal ones is no
/// proof that the next one may not differ.
pub(super) fn least_spread(quantity: Quantity) -> f64 {
    match quantity {
        Quantity::Bandwidth | Quantity::Latency => 0.001,
        Quantity::Clock => 0.002,
        Quantity::Tail => 0.01,
        Quantity::Temperature => 0.015,
    }
}
