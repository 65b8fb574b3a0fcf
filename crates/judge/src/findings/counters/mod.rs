//! Counters that moved: what the hardware reports about a rail.
//!
//! Traffic counters always move and are ignored here. A counter that was absent or unreadable is unknown, never zero.

pub(in crate::findings) mod breach;
pub(in crate::findings) mod diagnosis;
pub(in crate::findings) mod summary;
pub(in crate::findings) mod tally;

use std::cmp::Reverse;

use crate::findings::analysis::RunAnalysis;
use record::PortName;
use record::counters::named;
use record::text;
use tally::{CounterQuery, CountersByEnd, ends};

/// Counters that a sentence spells out; the others are counted.
const MOST_SPELLED: usize = 8;

/// One phrase per counter of `rail` that moved during these cells, or one that says that none could be read.
pub(super) fn evidence(analysis: &RunAnalysis<'_>, rail: &str, cells: &[u32]) -> Vec<String> {
    let query = CounterQuery {
        rail: Some(rail),
        cells: Some(cells),
        concerns: &|_| true,
    };
    of_ends(&ends(&analysis.index, &query), rail)
}

/// The same for ends that were looked up already.
fn of_ends(ends: &CountersByEnd<'_>, rail: &str) -> Vec<String> {
    if ends.values().all(|end| end.known.is_empty()) {
        return vec![format!("no counter of {rail} could be read")];
    }
    let kind = |name: &str| named(name).map(|counter| counter.kind);
    let mut moved: Vec<_> = ends
        .iter()
        .flat_map(|((_, host), end)| end.trouble().map(move |(name, by)| (host, name, by)))
        .collect();
    if moved.is_empty() {
        return vec![format!("no error counter of {rail} moved")];
    }
    // Wrong bits first, and of those the largest movement: waiting counters move everywhere under load.
    moved.sort_by_key(|(host, name, by)| {
        let kind = kind(name);
        (kind.is_none(), kind, Reverse(by.by), *name, **host)
    });
    let more = moved.len().saturating_sub(MOST_SPELLED);
    moved.truncate(MOST_SPELLED);
    let mut words: Vec<String> = moved
        .iter()
        .map(|(host, name, by)| {
            let port = PortName {
                node: host,
                port: rail,
            };
            format!("{name} {} on {port}", by.words())
        })
        .collect();
    if more > 0 {
        words.push(format!(
            "{more} more counter{} of {rail} moved",
            text::plural(more)
        ));
    }
    words
}
