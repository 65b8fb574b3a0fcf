//! Congestion impact: victims of an incast or all-to-all, alone and under load, side by side.

use std::collections::BTreeMap;

use super::analysis::RunAnalysis;
use super::interference::{congestion_tests, key};
use super::summary::CellSummary;
use record::stats::spread;
use record::units::Nanos;
use record::{Congestion, Interval, Load};

/// One row for every victim that was measured alone and under load.
pub(super) fn of(analysis: &RunAnalysis<'_>) -> Vec<Congestion> {
    let tests = congestion_tests(analysis);
    let cells = || {
        let of_these = |summary: &&CellSummary<'_>| tests.contains(summary.cell.test.as_str());
        analysis.summaries.iter().filter(of_these)
    };
    let is_load = |summary: &CellSummary<'_>| summary.cell.collective.is_load();
    let mut alone = BTreeMap::new();
    let mut loads = BTreeMap::new();
    for summary in cells() {
        match summary.cell.load {
            Load::Alone => drop(alone.entry(key(summary.cell)).or_insert(summary)),
            Load::Together if is_load(summary) => drop(loads.insert(summary.cell.slot, summary)),
            _ => {}
        }
    }
    let is_beside = |load: Load| matches!(load, Load::Together | Load::AcrossRails);
    let victims = cells().filter(|summary| is_beside(summary.cell.load) && !is_load(summary));
    victims
        .filter_map(|under| {
            let (alone, load) = (alone.get(&key(under.cell))?, loads.get(&under.cell.slot)?);
            row(analysis, alone, under, load)
        })
        .collect()
}

fn row(
    analysis: &RunAnalysis<'_>,
    alone: &CellSummary<'_>,
    under: &CellSummary<'_>,
    load: &CellSummary<'_>,
) -> Option<Congestion> {
    let time = |summary: &CellSummary<'_>| {
        let time = summary.time(analysis.run().rule.confidence)?;
        Some(Interval {
            median: Nanos(time.median as u64),
            lower: Nanos(time.lower),
            upper: Nanos(time.upper),
        })
    };
    let (before, after) = (time(alone)?, time(under)?);
    if before.median.0 == 0 || !load.done {
        return None;
    }
    Some(Congestion {
        test: under.cell.test.clone(),
        rail: under.cell.rails.first()?.clone(),
        load_rail: (load.cell.rails != under.cell.rails)
            .then(|| load.cell.rails.first().cloned())
            .flatten(),
        load: load.cell.collective,
        loaders: load.cell.ranks.clone(),
        load_size: load.cell.size,
        victim: under.cell.ranks.clone(),
        measured_by: under.cell.collective,
        alone_cell: alone.cell.id,
        under_cell: under.cell.id,
        load_cell: load.cell.id,
        alone: before,
        under: after,
        alone_p99: Nanos(spread(&alone.times)?.p99),
        under_p99: Nanos(spread(&under.times)?.p99),
        impact: after.median.0 as f64 / before.median.0 as f64,
    })
}
