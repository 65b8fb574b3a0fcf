//! What became of probes, rail by rail, for reports.

use std::collections::{BTreeMap, BTreeSet};

use super::flows::{loaded_rails, probed, rounds_of_probes};
use crate::findings::analysis::RunAnalysis;
use record::units::Nanos;
use record::{ProbeSummary, Untested, text};

/// What is summed up of a rail.
#[derive(Default)]
struct Rail<'r> {
    flows: BTreeSet<(u32, u32, u16)>,
    links: BTreeSet<&'r str>,
    sets: BTreeSet<(u32, u16)>,
    typical: Vec<u64>,
    worst: Vec<u64>,
    sums: ProbeSummary,
}

/// One row for every test and rail.
pub(in crate::findings) fn of(analysis: &RunAnalysis<'_>) -> Vec<ProbeSummary> {
    let rounds_of = rounds_of_probes(analysis.recorded);
    let loaded = loaded_rails(analysis.recorded, &analysis.summaries, &rounds_of);
    let mut rails: BTreeMap<(&str, &str), Rail<'_>> = BTreeMap::new();
    for probed in probed(&analysis.summaries, &rounds_of) {
        let (flow, counts) = (probed.flow, probed.counts);
        let rail = rails
            .entry((probed.cell.test.as_str(), flow.rail.as_str()))
            .or_default();
        rail.flows.insert((flow.from, flow.to, flow.port));
        let way = flow.way.as_ref().filter(|way| way.whole);
        rail.links
            .extend(way.iter().flat_map(|way| way.links.iter().map(String::as_str)));
        rail.sets.insert((probed.cell.id, probed.round));
        rail.typical.extend(&counts.typical_ns);
        rail.worst.extend(&counts.worst_ns);
        let sums = &mut rail.sums;
        sums.sent += counts.packets();
        sums.lost += counts.losses();
        sums.lost_in_queue += counts.lost_in_queue.iter().copied().map(u64::from).sum::<u64>();
        sums.duplicated += counts.duplicated;
        sums.reordered += counts.reordered;
        // Each of its flows says what their socket dropped: the most is what it was.
        sums.dropped_at_receiver = sums.dropped_at_receiver.max(counts.dropped_at_receiver);
    }
    let middle = |mut values: Vec<u64>| {
        values.sort_unstable();
        Nanos(values.get(values.len() / 2).copied().unwrap_or(0))
    };
    let row = |((test, name), rail): ((&str, &str), Rail<'_>)| {
        let is_loaded = |(cell, round): &&(u32, u16)| loaded.contains(&(*cell, *round, name));
        ProbeSummary {
            test: test.to_string(),
            rail: name.to_string(),
            flows: rail.flows.len() as u32,
            links: rail.links.len() as u32,
            longest: Nanos(rail.worst.iter().copied().max().unwrap_or(0)),
            typical: middle(rail.typical),
            worst: middle(rail.worst),
            loaded: (
                rail.sets.iter().filter(is_loaded).count() as u32,
                rail.sets.len() as u32,
            ),
            ..rail.sums
        }
    };
    rails.into_iter().map(row).collect()
}

/// On which rails it was not judged who holds packets up, at least not all the time.
pub(in crate::findings) fn unjudged(rows: &[ProbeSummary]) -> Vec<Untested> {
    let loaded = rows.iter().filter(|row| row.loaded.0 > 0);
    let untested = loaded.map(|row| Untested {
        what: format!(
            "test `{}`: what holds packets up on {}, in {} of {}",
            row.test,
            row.rail,
            row.loaded.0,
            text::counted(row.loaded.1 as usize, "set")
        ),
        why: "others' traffic was on the rail: packets wait in its queues without a fault".to_string(),
    });
    untested.collect()
}
