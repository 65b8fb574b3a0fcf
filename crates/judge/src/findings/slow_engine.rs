//! One engine misses what is expected where the other reaches it: software, not the fabric.

use super::analysis::RunAnalysis;
use super::detector::Detector;
use super::repeat;
use super::slow_cells::slow_places;
use record::{Engine, Finding, FindingKind};

/// One finding per engine and test.
pub(super) struct SlowEngine;

impl Detector for SlowEngine {
    fn question(&self) -> &'static str {
        "Is one engine slow where the other is as fast as expected?"
    }

    fn find(&self, analysis: &RunAnalysis<'_>) -> Vec<Finding> {
        let blamed = analysis.blame.engine.iter();
        blamed
            .filter_map(|((engine, test), places)| one_engine(analysis, *engine, test, places))
            .collect()
    }
}

fn one_engine(analysis: &RunAnalysis<'_>, engine: Engine, test: &str, places: &[usize]) -> Option<Finding> {
    let mut finding = slow_places(analysis, FindingKind::SlowEngine, places, None)?;
    let (slow, other, next_step) = match engine {
        Engine::Ours => (
            "railgauge's own engine",
            "NCCL",
            "nothing to replace: take the bandwidth of this machine from the NCCL cells, and report the \
             run's folder so that the engine can be fixed",
        ),
        Engine::Nccl => (
            "NCCL",
            "railgauge's own engine",
            "nothing to replace: look at what NCCL chose (NCCL_DEBUG=INFO shows \
             transport, interfaces, channels, algorithm), at NCCL_* variables and \
             nccl.conf, and at its version",
        ),
    };
    finding.sentence = format!(
        "{test} by {slow}: {}; {other} is as fast as expected in the same cells: software, not the fabric",
        finding.sentence
    );
    finding.not_told_apart_from = vec![format!("settings of {slow} that do not fit this machine")];
    for place in places {
        let Some(other_place) = analysis.counterparts[*place] else {
            continue;
        };
        let rate = |place: usize| analysis.summaries[place].wire_rate(analysis.run().rule.confidence);
        if let (Some(slow_rate), Some(good)) = (rate(*place), rate(other_place)) {
            let size = analysis.summaries[*place].cell.size;
            let line = format!("{size}: {slow_rate} by {slow}, {good} by {other}");
            finding.evidence.push(line);
        }
    }
    // Both engines again: one alone does not distinguish software from fabric.
    finding.repeat = Some(repeat::command(analysis.run(), &[("test", test)]));
    finding.next_step = next_step.to_string();
    Some(finding)
}
