//! How findings word a comparison and the rule it broke, so that the same fact reads the same everywhere.

use super::speed::Comparison;
use record::text::percent;
use record::{Cell, DecisionRule};

/// `0.61 GB/s [0.60, 0.62] of 1.02 expected (median of 1 peer rail, margin 25 %)`.
pub(super) fn against(comparison: &Comparison) -> String {
    let (measured, expected) = (comparison.measured.to_string(), comparison.expected.to_string());
    // The unit is not said twice.
    let expected = match expected.split_once(' ') {
        Some((number, unit)) if measured.contains(unit) => number,
        _ => &expected,
    };
    format!("{measured} of {expected} expected ({})", comparison.from)
}

/// The rule a slow cell broke, with its numbers.
pub(super) fn rule(comparison: &Comparison, rule: &DecisionRule) -> String {
    format!(
        "slow: the upper end of the {} interval is below {} in each of {} rounds (at least {}), and the corrected p-value \
         is below {}",
        percent(rule.confidence),
        comparison.threshold,
        comparison.rounds.0,
        u32::from(rule.remeasure) + 1,
        rule.false_positive_budget
    )
}

/// What peers of a cell are called: they differ in their rail, or in their ranks.
pub(super) fn peer_noun<'a>(cell: &Cell, mut peers: impl Iterator<Item = &'a Cell>) -> &'static str {
    if peers.all(|peer| peer.ranks == cell.ranks && peer.rails != cell.rails) {
        "rail"
    } else if cell.ranks.len() == 2 {
        "pair"
    } else {
        "group"
    }
}
