//! What a user would lose if judging went wrong, each as one recorded run.

mod congestion;
mod counter_diagnosis;
mod counters;
mod disturbances;
mod drift;
mod engines;
mod expectations;
mod flaps;
mod gpus;
pub(super) mod links;
mod shapes;
mod silence;
mod slowness;
mod start_skew;
mod trouble;

use record::{Cell, FindingKind, Judgement};

fn kinds(judgement: &Judgement) -> Vec<FindingKind> {
    judgement.findings.iter().map(|finding| finding.kind).collect()
}

fn on_rail(cell: &Cell, rail: &str) -> bool {
    cell.rails.iter().any(|name| name == rail)
}
