//! The same thing measured in two ways: rails alone and together, our engine and NCCL, victims alone and under load.

use super::super::{cells, congestion, engines};
use super::Facts;
use super::out::Out;

/// Rows of one table; a comparison is never a verdict, so those behind them are only counted.
const MOST_ROWS: usize = 600;

/// Everything that was measured in two ways.
pub(super) fn section(out: &mut Out, facts: &Facts<'_>) {
    let judgement = facts.judgement;
    if judgement.interference.is_empty() && judgement.engines.is_empty() && judgement.congestion.is_empty() {
        out.paragraph(
            "None: no cell of this run was measured both alone and together, by two engines, or under load.",
        );
        return;
    }
    if !judgement.interference.is_empty() {
        out.paragraph("What running all rails together costs one rail: 1.00 is nothing.");
        out.table(&cells::interference(judgement, MOST_ROWS));
        left(out, judgement.interference.len());
    }
    if !judgement.engines.is_empty() {
        out.paragraph(&format!("{}.", engines::overview(&judgement.engines)));
        out.table(&engines::table(judgement, MOST_ROWS));
        left(out, judgement.engines.len());
    }
    if !judgement.congestion.is_empty() {
        out.paragraph(congestion::ABOUT);
        let shown = judgement.congestion.len().min(MOST_ROWS);
        out.table(&congestion::table(&judgement.congestion[..shown]));
        left(out, judgement.congestion.len());
    }
}

fn left(out: &mut Out, rows: usize) {
    if let left @ 1.. = rows.saturating_sub(MOST_ROWS) {
        out.paragraph(&format!("{left} more in findings.json."));
    }
}
