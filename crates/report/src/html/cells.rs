//! Cells: whatever did not pass is on the page by itself, however many there are; what passed has rows while they can be read.
//!
//! Up to a bound every cell that did not pass has a row with all its figures. Beyond it, cells that differ in nothing but who took
//! part share a row, which still names each of them.

use std::collections::{BTreeMap, BTreeSet};

use super::builder::HtmlBuilder;
use super::facts::Facts;
use crate::cells;
use crate::table::{Entry, Table, Tone, figure, text};
use crate::verdict_words::verdict_words;
use record::text::counted;
use record::units::{Bytes, Rate};
use record::{Algorithm, Cell, CellVerdict, Collective, Engine, Load, Verdict};

/// Cells that did not pass and have a row each.
const MOST_NOT_PASSED: usize = 2500;
/// Cells that passed and have a row each; where there are more, they are summed up.
const MOST_PASSED: usize = 500;
/// Most reasons in a row of several cells.
const MOST_REASONS: usize = 3;

/// All cells, worst first.
pub(super) fn section(out: &mut HtmlBuilder, facts: &Facts<'_>) {
    let all = &facts.judgement.cells;
    if all.is_empty() {
        out.paragraph("None planned.");
        return;
    }
    let mut not_passed: Vec<&CellVerdict> = Vec::new();
    let mut passed: Vec<&CellVerdict> = Vec::new();
    for cell in all {
        match cell.verdict {
            Verdict::Pass => passed.push(cell),
            _ => not_passed.push(cell),
        }
    }
    not_passed.sort_by_key(|cell| (urgency(&cell.verdict), cell.cell.id));
    out.paragraph(&format!(
        "{}: {} passed, {} did not. Rates are of the busiest link, intervals of the median.",
        counted(all.len(), "cell"),
        passed.len(),
        not_passed.len()
    ));
    let (rows, grouped) = not_passed.split_at(not_passed.len().min(MOST_NOT_PASSED));
    out.table(&captioned(rows, "Cells that did not pass"));
    if !grouped.is_empty() {
        out.paragraph(&format!(
            "{} more did not pass. Cells that differ only in their ranks share a row that names each of them; findings.json \
             has every figure.",
            grouped.len()
        ));
        out.table(&by_kind(facts, grouped));
    }
    match passed.len() <= MOST_PASSED {
        true => out.table(&captioned(&passed, "Cells that passed")),
        false => {
            out.paragraph(&format!(
                "{} cells passed, more than {MOST_PASSED}: they are grouped by test, algorithm, size and rail. findings.json has each \
             of them.",
                passed.len()
            ));
            out.table(&summed_up(&passed));
        }
    }
}

fn captioned(rows: &[&CellVerdict], caption: &str) -> Table {
    let mut table = cells::table(rows);
    table.caption = caption.to_string();
    table
}

fn urgency(verdict: &Verdict) -> u8 {
    match verdict {
        Verdict::Fail(_) => 0,
        Verdict::Inconclusive(_) => 1,
        Verdict::NotRun(_) => 2,
        Verdict::Pass => 3,
    }
}

/// What cells of one row have in common.
type Kind<'a> = (
    (u8, &'a str, Collective, Algorithm, Engine),
    (Bytes, &'a [String], Option<&'a str>, Load),
);

fn kind(verdict: &CellVerdict) -> Kind<'_> {
    let cell = &verdict.cell;
    (
        (
            urgency(&verdict.verdict),
            &cell.test,
            cell.collective,
            cell.algorithm,
            cell.engine,
        ),
        (cell.size, &cell.rails, cell.to_rail.as_deref(), cell.load),
    )
}

fn kinds<'a>(cells: &[&'a CellVerdict]) -> BTreeMap<Kind<'a>, Vec<&'a CellVerdict>> {
    let mut kinds: BTreeMap<Kind<'a>, Vec<&'a CellVerdict>> = BTreeMap::new();
    for cell in cells {
        kinds.entry(kind(cell)).or_default().push(cell);
    }
    kinds
}

/// Test, what was done, size and rail: the entries that all rows of several cells begin with.
fn beginning(cell: &Cell) -> Vec<Entry> {
    let engine = match cell.engine {
        Engine::Ours => "",
        Engine::Nccl => "NCCL ",
    };
    let load = cell.load.suffix();
    let rails = match (&cell.to_rail, cell.rails.is_empty()) {
        (_, true) => "-".to_string(),
        (Some(other), _) => format!("{} to {other}", cell.rails.join("+")),
        (None, _) => cell.rails.join("+"),
    };
    vec![
        Entry::from(&cell.test),
        Entry::ours(format!("{engine}{} {}{load}", cell.algorithm, cell.collective)),
        Entry::ours(cell.size),
        Entry::from(rails),
    ]
}

/// Cells that did not pass, in a row for each kind.
fn by_kind(facts: &Facts<'_>, grouped: &[&CellVerdict]) -> Table {
    let columns = [
        text("test"),
        text("what"),
        figure("size"),
        text("rail"),
        text("verdict"),
        figure("cells"),
        text("who"),
        text("why"),
    ];
    let mut table = Table::new("More cells that did not pass", columns);
    for cells in kinds(grouped).into_values() {
        let Some(first) = cells.first() else { continue };
        let who: Vec<String> = cells.iter().map(|cell| who(facts, cell)).collect();
        let reasons: BTreeSet<&str> = cells
            .iter()
            .filter_map(|cell| verdict_words(&cell.verdict).1)
            .collect();
        let more = match reasons.len().saturating_sub(MOST_REASONS) {
            0 => String::new(),
            more => format!("; and {more} other reasons"),
        };
        let reasons: Vec<&str> = reasons.into_iter().take(MOST_REASONS).collect();
        let mut row = beginning(&first.cell);
        row.extend([
            Entry::ours(verdict_words(&first.verdict).0).toned(Tone::of(&first.verdict)),
            Entry::ours(cells.len()),
            Entry::from(who.join(", ")),
            Entry::from(format!("{}{more}", reasons.join("; "))),
        ]);
        table.row(row);
    }
    table
}

/// Who took part in a cell, and what a failed one reached.
fn who(facts: &Facts<'_>, cell: &CellVerdict) -> String {
    let who = match cell.cell.ranks.as_slice() {
        [from, to] => format!("{} to {}", facts.host(*from), facts.host(*to)),
        [one] => facts.host(*one),
        ranks => format!("{} ranks (cell {})", ranks.len(), cell.cell.id),
    };
    match (&cell.verdict, cell.wire_rate) {
        (Verdict::Fail(_), Some(rate)) => format!("{who} {}", rate.median),
        _ => who,
    }
}

/// Cells that passed, in a row for each kind.
fn summed_up(passed: &[&CellVerdict]) -> Table {
    let columns = [
        text("test"),
        text("what"),
        figure("size"),
        text("rail"),
        figure("cells"),
        figure("slowest wire rate"),
        figure("median"),
        figure("fastest"),
        figure("longest p99"),
    ];
    let mut table = Table::new("Cells that passed, grouped", columns);
    for cells in kinds(passed).into_values() {
        let Some(first) = cells.first() else { continue };
        let mut rates: Vec<f64> = cells
            .iter()
            .filter_map(|cell| cell.wire_rate.map(|rate| rate.median.0))
            .collect();
        rates.sort_by(f64::total_cmp);
        let rate = |rate: Option<&f64>| Entry::or_dash(rate.map(|rate| Rate(*rate)));
        let longest = cells
            .iter()
            .filter_map(|cell| cell.percentiles.map(|percentiles| percentiles.p99))
            .max();
        let mut row = beginning(&first.cell);
        row.extend([
            Entry::ours(cells.len()),
            rate(rates.first()),
            rate(rates.get(rates.len() / 2)),
            rate(rates.last()),
            Entry::or_dash(longest),
        ]);
        table.row(row);
    }
    table
}
