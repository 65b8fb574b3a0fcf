//! Our engine and NCCL side by side: the same cell, run by both, one right after the other.
//!
//! Where both miss what is expected of a cell, the fabric is slow and not the software; where only one does, it is
//! that engine's software. One is called faster only when the intervals of the medians do not overlap.

use super::analysis::RunAnalysis;
use super::summary::CellSummary;
use record::text;
use record::units::{Nanos, Rate};
use record::{Engine, EngineComparison, Finding, FindingKind, Interval};

/// Every cell that both engines ran.
pub(super) fn side_by_side(analysis: &RunAnalysis<'_>) -> Vec<EngineComparison> {
    let compare = |(place, summary): (usize, &CellSummary<'_>)| {
        let nccl = &analysis.summaries[analysis.counterparts[place]?];
        (summary.cell.engine == Engine::Ours)
            .then(|| comparison(summary, nccl, analysis.run().rule.confidence))?
    };
    analysis
        .summaries
        .iter()
        .enumerate()
        .filter_map(compare)
        .collect()
}

fn comparison(ours: &CellSummary<'_>, nccl: &CellSummary<'_>, confidence: f64) -> Option<EngineComparison> {
    let of = |summary: &CellSummary<'_>| {
        let time = summary.time(confidence).filter(|time| time.median > 0.0)?;
        Some(Interval {
            median: Nanos(time.median.round() as u64),
            lower: Nanos(time.lower),
            upper: Nanos(time.upper),
        })
    };
    let bus = |summary: &CellSummary<'_>, time: Interval<Nanos>| {
        let cell = summary.cell;
        let rate = Rate::of(cell.size, time.median).filter(|rate| rate.0 > 0.0)?;
        Some(rate * cell.collective.bus_factor(cell.world()))
    };
    let (our_time, nccl_time) = (of(ours)?, of(nccl)?);
    let faster = if our_time.upper < nccl_time.lower {
        Some(Engine::Ours)
    } else if nccl_time.upper < our_time.lower {
        Some(Engine::Nccl)
    } else {
        None
    };
    Some(EngineComparison {
        test: ours.cell.test.clone(),
        ours_cell: ours.cell.id,
        nccl_cell: nccl.cell.id,
        ours: our_time,
        nccl: nccl_time,
        ours_bus: bus(ours, our_time),
        nccl_bus: bus(nccl, nccl_time),
        ratio: nccl_time.median.0 as f64 / our_time.median.0.max(1) as f64,
        faster,
    })
}

/// Adds to findings about slow parts that both engines are slow there: then it is not the software.
pub(super) fn note_where_both_are_slow(analysis: &RunAnalysis<'_>, findings: &mut [Finding]) {
    let about_parts = [
        FindingKind::SlowRail,
        FindingKind::SlowPair,
        FindingKind::SlowCollective,
    ];
    for finding in findings
        .iter_mut()
        .filter(|finding| about_parts.contains(&finding.kind))
    {
        let is_slow_by_both = |id: &&u32| {
            let place = analysis.place(**id);
            let other = place.and_then(|place| analysis.counterparts[place]);
            other.is_some_and(|other| finding.cells.contains(&analysis.summaries[other].cell.id))
        };
        let both = finding.cells.iter().filter(is_slow_by_both).count() / 2;
        if both == 0 {
            continue;
        }
        let text = format!(
            "both engines, ours and NCCL, are slow in {both} cell{}: the fabric rather than the software",
            text::plural(both)
        );
        finding.sentence = format!("{}; {text}", finding.sentence);
        finding.evidence.push(text);
    }
}
