//! Our engine and NCCL side by side, as a table for `report.md` and in a line or two for the terminal.

use std::fmt::Write;

use super::escape::markdown as inert;
use crate::record::{Cell, Engine, EngineComparison, Judgement};
use crate::units::Rate;

/// The table; nothing when no cell was run by both. At most `most` rows; how many there are.
pub(super) fn table(out: &mut String, judgement: &Judgement, most: usize) -> Result<usize, std::fmt::Error> {
    let rows = &judgement.engines;
    if rows.is_empty() {
        return Ok(0);
    }
    writeln!(out, "## Engines side by side\n\n{}.\n", overview(rows))?;
    writeln!(
        out,
        "| what | size | ours | NCCL | ours, bus | NCCL, bus | ours / NCCL |\n|---|--:|--:|--:|--:|--:|--:|"
    )?;
    let rate = |rate: Option<Rate>| rate.map_or_else(|| "-".to_string(), |rate| rate.to_string());
    for row in rows.iter().take(most) {
        let cell = cell_of(judgement, row);
        writeln!(
            out,
            "| {} | {} | {} [{}, {}] | {} [{}, {}] | {} | {} | {:.2}{} |",
            inert(&what(row, cell)),
            cell.map(|cell| cell.size.to_string()).unwrap_or_default(),
            row.ours.median,
            row.ours.lower,
            row.ours.upper,
            row.nccl.median,
            row.nccl.lower,
            row.nccl.upper,
            rate(row.ours_bus),
            rate(row.nccl_bus),
            row.ratio,
            if row.faster.is_none() { " (alike)" } else { "" },
        )?;
    }
    Ok(rows.len())
}

/// The lines of the summary: the overview, and in a log every row.
pub(super) fn lines(judgement: &Judgement, every_row: bool) -> Vec<String> {
    let rows = &judgement.engines;
    if rows.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![format!("engines    {}", overview(rows))];
    for row in rows.iter().filter(|_| every_row) {
        let cell = cell_of(judgement, row);
        let size = cell.map(|cell| cell.size.to_string()).unwrap_or_default();
        let rate = |rate: Option<Rate>| rate.map_or_else(String::new, |rate| format!(" ({rate} bus)"));
        lines.push(format!(
            "           {} {size}: ours {}{}, NCCL {}{}, ours / NCCL {:.2}",
            super::escape::line(&what(row, cell)),
            row.ours.median,
            rate(row.ours_bus),
            row.nccl.median,
            rate(row.nccl_bus),
            row.ratio
        ));
    }
    lines
}

/// `ours / NCCL 0.97 to 1.41 over 30 cells: ours faster in 24, NCCL in 1, alike in 5`.
fn overview(rows: &[EngineComparison]) -> String {
    let ratios = || rows.iter().map(|row| row.ratio);
    let least = ratios().fold(f64::INFINITY, f64::min);
    let most = ratios().fold(f64::NEG_INFINITY, f64::max);
    let count = |engine: Option<Engine>| rows.iter().filter(|row| row.faster == engine).count();
    format!(
        "ours / NCCL {least:.2} to {most:.2} over {} cell{}: ours faster in {}, NCCL in {}, alike in {}",
        rows.len(),
        if rows.len() == 1 { "" } else { "s" },
        count(Some(Engine::Ours)),
        count(Some(Engine::Nccl)),
        count(None)
    )
}

fn cell_of<'a>(judgement: &'a Judgement, row: &EngineComparison) -> Option<&'a Cell> {
    let verdict = judgement.cells.iter().find(|cell| cell.cell.id == row.ours_cell);
    verdict.map(|verdict| &verdict.cell)
}

/// `all-reduce: ring all-reduce f32, 4 ranks`, with what else tells rows of one size apart.
fn what(row: &EngineComparison, cell: Option<&Cell>) -> String {
    let Some(cell) = cell else {
        return row.test.clone();
    };
    let batch = match cell.batch {
        1 => String::new(),
        batch => format!(", {batch} back to back"),
    };
    let ranks = match cell.ranks.as_slice() {
        [a, b] => format!("ranks {a}:{b}"),
        ranks => format!("{} ranks", ranks.len()),
    };
    format!(
        "{}: {} {} {} {} {}, {ranks}{batch}",
        row.test, cell.algorithm, cell.collective, cell.dtype, cell.op, cell.placement
    )
}
