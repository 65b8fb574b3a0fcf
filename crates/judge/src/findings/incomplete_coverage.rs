//! Something planned was not measured, or the run did not record its end.

use super::analysis::RunAnalysis;
use super::detector::Detector;
use super::repeat;
use super::summary::how_it_ended;
use record::{EndReason, Event, Finding, FindingKind, Place};

/// At most one finding per run. What the plan left out on purpose is listed as coverage, not here.
pub(super) struct IncompleteCoverage;

impl Detector for IncompleteCoverage {
    fn question(&self) -> &'static str {
        "Was everything measured that was planned?"
    }

    fn find(&self, analysis: &RunAnalysis<'_>) -> Vec<Finding> {
        let missing: Vec<_> = analysis
            .summaries
            .iter()
            .filter(|summary| !summary.done)
            .collect();
        let is_finished = analysis
            .recorded
            .events
            .iter()
            .rev()
            .find_map(|event| match event {
                Event::End { reason, .. } => Some(*reason == EndReason::Finished),
                _ => None,
            });
        if missing.is_empty() && is_finished == Some(true) {
            return Vec::new();
        }
        let planned = analysis.summaries.len();
        let ended = how_it_ended(analysis.recorded);
        let first = missing.first().map(|summary| {
            let why = summary.why_not_measured(analysis.recorded);
            format!("; first missing: {} ({why})", summary.cell.describe())
        });
        let sentence = format!(
            "{} of {planned} cells measured; {ended}{}",
            planned - missing.len(),
            first.unwrap_or_default()
        );
        let mut evidence = Vec::new();
        if is_finished.is_none() {
            evidence.push("the record has no end line: the run was killed or is still running".into());
        }
        if analysis.recorded.truncated {
            evidence.push("its last line is truncated".into());
        }
        let cells = missing.iter().map(|summary| summary.cell.id);
        let finding = Finding::new(FindingKind::IncompleteCoverage, Place::default())
            .with_sentence(sentence)
            .with_rule(
                "incomplete: every planned cell is measured to its end, and the run records that it \
                 finished",
            )
            .with_evidence(evidence)
            .with_cells(cells)
            .with_next_step(
                "run it again to its end; what was measured is judged, the rest is not known to be healthy",
            )
            .with_repeat(repeat::command(analysis.run(), &[]));
        vec![finding]
    }
}
