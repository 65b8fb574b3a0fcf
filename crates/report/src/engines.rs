//! Our engine and NCCL side by side, as a table for the report and in a line or two for the terminal.

use std::collections::HashMap;

use super::table::{Entry, Table, figure, text};
use record::units::{Nanos, Rate};
use record::{Cell, Engine, EngineComparison, Interval, Judgement};

/// The table of the first `most` cells that both ran.
pub(super) fn table(judgement: &Judgement, most: usize) -> Table {
    let columns = [
        text("what"),
        figure("size"),
        figure("ours"),
        figure("NCCL"),
        figure("ours, bus"),
        figure("NCCL, bus"),
        figure("ours / NCCL"),
    ];
    let mut table = Table::new("Cells that both engines ran", columns);
    let cells: HashMap<u32, &Cell> = judgement
        .cells
        .iter()
        .map(|cell| (cell.cell.id, &cell.cell))
        .collect();
    let time = |time: &Interval<Nanos>| format!("{} [{}, {}]", time.median, time.lower, time.upper);
    for row in judgement.engines.iter().take(most) {
        let cell = cells.get(&row.ours_cell).copied();
        let alike = if row.faster.is_none() {
            " (no difference)"
        } else {
            ""
        };
        table.row([
            Entry::from(what(row, cell)),
            Entry::ours(cell.map(|cell| cell.size.to_string()).unwrap_or_default()),
            Entry::ours(time(&row.ours)),
            Entry::ours(time(&row.nccl)),
            Entry::or_dash(row.ours_bus),
            Entry::or_dash(row.nccl_bus),
            Entry::ours(format!("{:.2}{alike}", row.ratio)),
        ]);
    }
    table
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
pub(super) fn overview(rows: &[EngineComparison]) -> String {
    let ratios = || rows.iter().map(|row| row.ratio);
    let least = ratios().fold(f64::INFINITY, f64::min);
    let most = ratios().fold(f64::NEG_INFINITY, f64::max);
    let count = |engine: Option<Engine>| rows.iter().filter(|row| row.faster == engine).count();
    format!(
        "ours / NCCL {least:.2} to {most:.2} over {} cell{}: ours faster in {}, NCCL faster in {}, no difference in {}",
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

/// `all-reduce: ring all-reduce f32, 4 ranks`, with what else distinguishes rows of one size.
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
