//! Drift as a detector of recorded runs: what the run's own inventory says, judged once.

use super::super::{Detector, Seen};
use super::{effect, findings, judge};
use record::{Drift, Finding, files};
use topology::suite::Golden;

/// Findings about what the nodes of a run are made of.
pub(in crate::findings) struct FirmwareDrift;

impl Detector for FirmwareDrift {
    fn question(&self) -> &'static str {
        "Is a part made of something else than its like, or than it should be, or than it was?"
    }

    fn find(&self, seen: &Seen<'_>) -> Vec<Finding> {
        seen.drift().map(findings).unwrap_or_default()
    }
}

/// What the inventory of a run says; none without one. A golden file that cannot be read is told of, and the rest is judged.
pub(in crate::findings) fn of_run(seen: &Seen<'_>) -> Option<Drift> {
    let recorded = seen.recorded;
    let inventory = recorded.inventory.as_ref()?;
    let golden = recorded
        .golden
        .as_ref()
        .map(|text| Golden::parse(text, files::GOLDEN));
    let (golden, trouble) = match golden {
        Some(Ok(golden)) => (Some(golden), None),
        Some(Err(error)) => (None, Some(error.to_string())),
        None => (None, None),
    };
    let mut drift = judge(inventory, golden.as_ref(), recorded.inventory_before.as_ref());
    drift.troubles.extend(trouble);
    effect::fill(seen, &mut drift);
    Some(drift)
}
