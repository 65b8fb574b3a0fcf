//! What a finding is called by: the same part on the page, on the terminal, in a pipeline and on a dashboard.

use crate::record::Finding;

/// The part that a finding names: its first suspect, else the most precise place that it has. Not escaped.
pub fn part(finding: &Finding) -> String {
    finding.part()
}

/// The finding that a reader should see first: they are kept in that order, worst first.
pub fn worst(findings: &[Finding]) -> Option<&Finding> {
    findings.first()
}
