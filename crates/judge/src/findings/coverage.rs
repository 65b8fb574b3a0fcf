//! What was measured of what was planned, and what was not, with the reason.

use super::summary::CellSummary;
use super::{Seen, link_coverage};
use record::{Coverage, EndReason, Event, Recorded, Untested};

/// The coverage of a run. What the plan left out, and what the record does not allow to judge, is listed as untested.
pub(super) fn of(seen: &Seen<'_>) -> Coverage {
    let recorded = seen.recorded;
    let mut untested = recorded.run.untested.clone();
    untested.extend(seen.stragglers.unjudged.iter().cloned());
    let links = link_coverage::of(seen);
    untested.extend(link_coverage::untested(&links));
    untested.extend(seen.shapes.unjudged.iter().cloned());
    Coverage {
        planned: seen.summaries.len() as u32,
        measured: seen.summaries.iter().filter(|summary| summary.done).count() as u32,
        not_measured: seen
            .summaries
            .iter()
            .filter(|summary| !summary.done)
            .map(|summary| Untested {
                what: summary.cell.describe(),
                why: why_not_measured(recorded, summary),
            })
            .collect(),
        untested,
        links,
    }
}

/// Why a cell was not measured to its end.
pub(super) fn why_not_measured(recorded: &Recorded, summary: &CellSummary<'_>) -> String {
    let ended = how_it_ended(recorded);
    match (summary.not_run, summary.times.len()) {
        (Some(reason), _) => reason.to_string(),
        (None, _) if summary.done => "no iteration is complete on all its ranks".to_string(),
        (None, 0) => format!("{ended} before it"),
        (None, n) => format!("{ended} in the middle of it, {n} complete iterations kept"),
    }
}

/// How a run ended, as the start of a reason.
pub(super) fn how_it_ended(recorded: &Recorded) -> &'static str {
    let end = recorded.events.iter().rev().find_map(|event| match event {
        Event::End { reason, .. } => Some(*reason),
        _ => None,
    });
    match end {
        Some(EndReason::Finished) => "the run finished",
        Some(EndReason::Interrupted) => "the run was interrupted",
        Some(EndReason::Budget) => "the run's time budget was spent",
        Some(EndReason::Lost) => "the run lost a rank or hung",
        Some(EndReason::Failed) => "the run failed",
        None => "the run was cut off",
    }
}
