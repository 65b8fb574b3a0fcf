//! Counters that moved: what the hardware itself says about a rail.
//!
//! Traffic counters always move and say nothing. A counter that was absent or unreadable is unknown, never zero.

use std::collections::BTreeMap;

use super::Seen;
use crate::record::{CounterDelta, Event};

/// One sentence part per counter of `rail` that moved during these cells, or one that says that nothing is known.
pub(super) fn evidence(seen: &Seen<'_>, rail: &str, cells: &[u32]) -> Vec<String> {
    evidence_at(seen, rail, cells, |_| true)
}

/// The same, of the ranks that `concerns` picks.
pub(super) fn evidence_at(
    seen: &Seen<'_>,
    rail: &str,
    cells: &[u32],
    concerns: impl Fn(u32) -> bool,
) -> Vec<String> {
    let is_asked = |counter: &&CounterDelta| {
        counter.rail == rail && cells.contains(&counter.cell) && concerns(counter.rank)
    };
    let mut known = false;
    // Ranks of one host read the same counter: per cell and round, the largest reading counts once.
    let mut largest: BTreeMap<(&str, String, u32, u16), u64> = BTreeMap::new();
    for counter in counters(seen).filter(is_asked) {
        let (Some(before), Some(after)) = (counter.before, counter.after) else {
            continue;
        };
        known = true;
        let moved = after.saturating_sub(before);
        if moved > 0 && !is_traffic(&counter.name) {
            let host = seen
                .host(counter.rank)
                .map_or(format!("rank {}", counter.rank), str::to_string);
            let entry = largest
                .entry((&counter.name, host, counter.cell, counter.round))
                .or_default();
            *entry = moved.max(*entry);
        }
    }
    let mut moved: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for ((name, host, ..), delta) in &largest {
        let sum = moved.entry((name, host)).or_default();
        *sum = sum.saturating_add(*delta);
    }
    if !known {
        return vec![format!("no counter of {rail} could be read")];
    }
    if moved.is_empty() {
        return vec![format!("no error counter of {rail} moved")];
    }
    moved
        .into_iter()
        .map(|((name, host), delta)| format!("{name} +{delta} on {host}/{rail}"))
        .collect()
}

fn counters<'a>(seen: &Seen<'a>) -> impl Iterator<Item = &'a CounterDelta> {
    seen.recorded.events.iter().filter_map(|event| match event {
        Event::Counter(counter) => Some(counter),
        _ => None,
    })
}

fn is_traffic(name: &str) -> bool {
    const OF_PORTS: [&str; 4] = ["port_rcv_data", "port_xmit_data", "rcvd_pkts", "sent_pkts"];
    name.ends_with("_bytes") || name.ends_with("_packets") || OF_PORTS.contains(&name)
}
