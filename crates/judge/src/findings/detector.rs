//! What every detector provides.

use super::analysis::RunAnalysis;
use record::Finding;

/// Looks for one kind of fault in a recorded run.
pub trait Detector: Sync {
    /// The question it answers, for documentation.
    fn question(&self) -> &'static str;
    /// What it found, in a fixed order.
    fn find(&self, analysis: &RunAnalysis<'_>) -> Vec<Finding>;
}
