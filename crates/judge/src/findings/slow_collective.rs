//! A collective below its reference that no single rail, pair or rank explains.

use super::analysis::RunAnalysis;
use super::detector::Detector;
use super::slow_cells::slow_places;
use record::{Finding, FindingKind};

/// One finding per test with unexplained slow cells.
pub(super) struct SlowCollective;

impl Detector for SlowCollective {
    fn question(&self) -> &'static str {
        "Is a collective slower than it should be, and no single part explains it?"
    }

    fn find(&self, analysis: &RunAnalysis<'_>) -> Vec<Finding> {
        analysis
            .blame
            .test
            .iter()
            .filter_map(|(test, places)| one_test(analysis, test, places))
            .collect()
    }
}

fn one_test(analysis: &RunAnalysis<'_>, test: &str, places: &[usize]) -> Option<Finding> {
    let mut finding = slow_places(analysis, FindingKind::SlowCollective, places, None)?;
    let cell = analysis.summaries[*places.first()?].cell;
    finding.sentence = format!(
        "{test} ({} {}): {}",
        cell.algorithm, cell.collective, finding.sentence
    );
    finding.not_told_apart_from = vec![
        "any rail or link it uses".into(),
        "a limit of the hosts themselves (CPU, PCIe, memory)".into(),
    ];
    let slowest = places
        .iter()
        .filter_map(|place| analysis.summaries[*place].slowest_rank);
    if let Some((rank, share)) = slowest.max_by(|a, b| a.1.total_cmp(&b.1)) {
        let name = analysis.run().rank_name(rank);
        finding.evidence.push(format!(
            "{name} finished last in {:.0} % of the iterations",
            share * 100.0
        ));
    }
    finding.next_step =
        "run the rails and pairs tests on the same ranks: they distinguish a slow part from a limit that \
         all parts share"
            .into();
    Some(finding)
}
