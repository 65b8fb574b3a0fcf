//! What a comparison comes to: worse, better, the same, incomplete or incomparable.

use record::{Comparison, ComparisonCounts, FindingKind, FindingState, Outcome, Verdict};

/// Whether a finding of this kind is a fault, and not only a gap in what is known.
pub(super) fn is_fault(kind: FindingKind) -> bool {
    kind.exit_code() != Outcome::Incomplete.exit_code()
}

/// Whether more cells are unclear than clear: what is worse may be among them.
pub(super) fn is_mostly_unclear(counts: &ComparisonCounts) -> bool {
    counts.unclear > counts.compared - counts.unclear + counts.without_speed
}

pub(super) fn outcome(comparison: &Comparison) -> Outcome {
    let counts = &comparison.counts;
    let new_findings = || {
        let findings = comparison.findings.iter();
        findings.filter(|finding| finding.state == FindingState::New)
    };
    let passed = |verdict: &Option<Verdict>| *verdict == Some(Verdict::Pass);
    let newly_failing = new_findings().any(|finding| is_fault(finding.kind))
        || comparison
            .tests
            .iter()
            .any(|test| passed(&test.old) && matches!(test.new, Some(Verdict::Fail(_))));
    let decided = counts.compared - counts.unclear + counts.without_speed;
    let lost = !comparison.no_longer_tested.is_empty()
        || is_mostly_unclear(counts)
        || new_findings().any(|finding| !is_fault(finding.kind))
        || comparison
            .tests
            .iter()
            .any(|test| passed(&test.old) && !passed(&test.new));
    let is_better = counts.faster > 0
        || comparison
            .findings
            .iter()
            .any(|finding| finding.state == FindingState::Gone);
    match () {
        () if counts.compared + counts.without_speed == 0 => Outcome::Incomparable,
        () if counts.slower > 0 || newly_failing => Outcome::Worse,
        () if decided == 0 => Outcome::Incomparable,
        () if lost => Outcome::Incomplete,
        () if is_better => Outcome::Better,
        () => Outcome::Same,
    }
}
