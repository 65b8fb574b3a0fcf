//! What running all rails together costs each rail: the same cell alone and together, side by side.

use std::collections::{BTreeMap, BTreeSet};

use super::analysis::RunAnalysis;
use super::summary::CellSummary;
use record::{Cell, Interference, Load};

/// One row for each rail and measurement that was done alone and together.
pub(super) fn of(analysis: &RunAnalysis<'_>) -> Vec<Interference> {
    // Victims of congestion have rows of their own.
    let congested = congestion_tests(analysis);
    let congested = &congested;
    let is_under = |load: Load| {
        move |summary: &&CellSummary<'_>| {
            summary.cell.load == load && !congested.contains(summary.cell.test.as_str())
        }
    };
    let mut together_by_key = BTreeMap::new();
    for together in analysis.summaries.iter().filter(is_under(Load::Together)) {
        together_by_key.entry(key(together.cell)).or_insert(together);
    }
    let mut rows = Vec::new();
    for alone in analysis.summaries.iter().filter(is_under(Load::Alone)) {
        let [rail] = alone.cell.rails.as_slice() else {
            continue;
        };
        let Some(together) = together_by_key.get(&key(alone.cell)) else {
            continue;
        };
        let confidence = analysis.recorded.run.rule.confidence;
        let (Some(before), Some(after)) = (alone.wire_rate(confidence), together.wire_rate(confidence))
        else {
            continue;
        };
        rows.push(Interference {
            test: alone.cell.test.clone(),
            rail: rail.clone(),
            alone_cell: alone.cell.id,
            together_cell: together.cell.id,
            alone: before,
            together: after,
            ratio: after.median.0 / before.median.0,
        });
    }
    rows
}

/// What identifies a measurement apart from its load: cells with equal keys differ only in what else was on the wire.
pub(super) fn key(cell: &Cell) -> impl Ord + '_ {
    (
        (
            &cell.test,
            cell.collective,
            cell.algorithm,
            &cell.ranks,
            cell.root,
            (&cell.rails, &cell.to_rail),
        ),
        (cell.flows, cell.transport, cell.device, cell.size),
        (cell.dtype, cell.op, cell.placement, cell.engine, cell.batch),
    )
}

/// Names of the tests that measure congestion.
pub(super) fn congestion_tests<'a>(analysis: &RunAnalysis<'a>) -> BTreeSet<&'a str> {
    let tests = analysis.run().tests.iter();
    tests
        .filter(|test| test.kind.loads_rails())
        .map(|test| test.name.as_str())
        .collect()
}
