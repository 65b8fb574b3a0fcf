//! Our engine and NCCL side by side: the same cell, run by both, one right after the other.
//!
//! Where both miss what is expected of a cell, the fabric is slow and not the software; where one does and the other does
//! not, it is that one's software. Which is faster is said only when the intervals of their medians do not overlap.

use std::collections::BTreeMap;

use super::Seen;
use super::summary::CellSummary;
use record::text;
use record::units::{Nanos, Rate};
use record::{Engine, EngineComparison, Finding, FindingKind, Interval};

/// For every cell the place of the same cell by the other engine, where there is one.
pub(super) fn counterparts(summaries: &[CellSummary<'_>]) -> Vec<Option<usize>> {
    let mut found = vec![None; summaries.len()];
    let mut by_nccl = BTreeMap::new();
    let of = |engine: Engine| {
        let places = summaries.iter().enumerate();
        places.filter(move |(_, summary)| summary.cell.engine == engine)
    };
    for (place, summary) in of(Engine::Nccl) {
        by_nccl.entry(summary.cell.work_key()).or_insert(place);
    }
    if by_nccl.is_empty() {
        return found;
    }
    for (ours, summary) in of(Engine::Ours) {
        // A cell that was planned anew after a loss stands for the same work: the first takes the counterpart.
        if let Some(nccl) = by_nccl.remove(&summary.cell.work_key()) {
            (found[ours], found[nccl]) = (Some(nccl), Some(ours));
        }
    }
    found
}

/// Every cell that both engines ran.
pub(super) fn side_by_side(seen: &Seen<'_>) -> Vec<EngineComparison> {
    let compare = |(place, summary): (usize, &CellSummary<'_>)| {
        let nccl = &seen.summaries[seen.counterparts[place]?];
        (summary.cell.engine == Engine::Ours)
            .then(|| comparison(summary, nccl, seen.run().rule.confidence))?
    };
    seen.summaries.iter().enumerate().filter_map(compare).collect()
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

/// Says of findings about slow parts when both engines are slow there: then it is not the software.
pub(super) fn tell_fabric_from_software(seen: &Seen<'_>, findings: &mut [Finding]) {
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
            let place = seen.place(**id);
            let other = place.and_then(|place| seen.counterparts[place]);
            other.is_some_and(|other| finding.cells.contains(&seen.summaries[other].cell.id))
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
