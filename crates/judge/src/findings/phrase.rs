//! The phrases findings are made of, so that the same fact reads the same everywhere.

use super::speed::Comparison;
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

/// `25 %`, with a decimal only where there is one.
pub(super) fn percent(share: f64) -> String {
    let percent = (share * 1000.0).round() / 10.0;
    format!("{percent} %")
}

/// A p-value as people read it: `p = 0.012`.
pub(super) fn p_value(p: f64) -> String {
    if p < 1e-6 {
        "p < 1e-6".into()
    } else if p < 0.001 {
        format!("p = {p:.1e}")
    } else {
        format!("p = {p:.3}")
    }
}

/// `s` unless there is exactly one.
pub(super) fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// `a`, `a and b`, `a, b and c`; the end of a long list is counted, not spelled out.
pub(super) fn list(items: &[String]) -> String {
    const MOST: usize = 6;
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [head @ .., last] if items.len() <= MOST => format!("{} and {last}", head.join(", ")),
        _ => format!("{} and {} more", items[..MOST].join(", "), items.len() - MOST),
    }
}

/// `rank 3`, `ranks 1, 2 and 3`.
pub(super) fn ranks(ranks: &[u32]) -> String {
    let names: Vec<String> = ranks.iter().map(u32::to_string).collect();
    format!("rank{} {}", plural(ranks.len()), list(&names))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_are_counted_not_spelled_out() {
        let names: Vec<String> = (0..9).map(|i| format!("rail{i}")).collect();
        assert_eq!(list(&names[..2]), "rail0 and rail1");
        assert_eq!(
            list(&names),
            "rail0, rail1, rail2, rail3, rail4, rail5 and 3 more"
        );
        assert_eq!(ranks(&[7]), "rank 7");
        assert_eq!(percent(0.125), "12.5 %");
    }
}
