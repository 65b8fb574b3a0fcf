//! Tests and cells of a run as rows, and the words about how they are judged.

use std::collections::HashMap;

use super::table::{Entry, Table, Tone, figure, text};
use crate::verdict_words::verdict_words;
use record::units::Bytes;
use record::{CellVerdict, DecisionRule, Judgement, TestVerdict, Verdict};

/// How every test of the suite did.
pub(super) fn tests(tests: &[TestVerdict]) -> Table {
    let columns = [
        text("test"),
        text("verdict"),
        figure("measured"),
        figure("planned"),
        text("why"),
    ];
    let mut table = Table::new("Tests of the suite", columns);
    for test in tests {
        let (word, why) = verdict_words(&test.verdict);
        table.row([
            Entry::from(&test.name),
            Entry::ours(word).toned(Tone::of(&test.verdict)),
            Entry::ours(test.measured),
            Entry::ours(test.planned),
            Entry::from(why.unwrap_or_default()),
        ]);
    }
    table
}

/// Rails alone against rails together: the first `most` of them.
pub(super) fn interference(judgement: &Judgement, most: usize) -> Table {
    let columns = [
        text("test"),
        text("rail"),
        figure("size"),
        figure("alone"),
        figure("together"),
        figure("together / alone"),
    ];
    let mut table = Table::new("Rails alone and together", columns);
    let sizes: HashMap<u32, Bytes> = judgement
        .cells
        .iter()
        .map(|cell| (cell.cell.id, cell.cell.size))
        .collect();
    for row in judgement.interference.iter().take(most) {
        let size = sizes.get(&row.alone_cell);
        table.row([
            Entry::from(&row.test),
            Entry::from(&row.rail),
            Entry::ours(size.map(|size| size.to_string()).unwrap_or_default()),
            Entry::ours(row.alone),
            Entry::ours(row.together),
            Entry::ours(format!("{:.2}", row.ratio)),
        ]);
    }
    table
}

/// Everything that was measured of these cells.
pub(super) fn table(cells: &[&CellVerdict]) -> Table {
    let columns = [
        figure("cell"),
        text("what"),
        text("verdict"),
        figure("iterations"),
        figure("time"),
        figure("p99"),
        figure("max"),
        figure("algorithm"),
        figure("bus"),
        figure("wire"),
        text("expected"),
        text("slowest rank"),
    ];
    let mut table = Table::new("Cells", columns);
    for cell in cells {
        table.row(row(cell));
    }
    table
}

fn row(cell: &CellVerdict) -> Vec<Entry> {
    let verdict = match (&cell.verdict, verdict_words(&cell.verdict)) {
        (Verdict::Pass, (word, _)) => Entry::ours(word).toned(Tone::Good),
        (verdict, _) => Entry::verdict(verdict),
    };
    let rounds = match cell.rounds {
        0 | 1 => String::new(),
        rounds => format!(" in {rounds} rounds"),
    };
    let outliers = match cell.outliers {
        0 => String::new(),
        outliers => format!(", outliers: {outliers}"),
    };
    let time = cell
        .time
        .map(|time| format!("{} [{}, {}]", time.median, time.lower, time.upper));
    let expected = cell.expected.map_or_else(
        || Entry::ours("-"),
        |rate| {
            Entry::from(format!(
                "{rate} ({})",
                cell.expected_from.as_deref().unwrap_or_default()
            ))
        },
    );
    let last = cell
        .slowest_rank
        .map(|(rank, share)| format!("rank {rank}, {:.0} %", share * 100.0));
    vec![
        Entry::ours(cell.cell.id),
        Entry::from(cell.cell.describe()),
        verdict,
        Entry::ours(format!("{}{rounds}{outliers}", cell.iterations)),
        Entry::or_dash(time),
        Entry::or_dash(cell.percentiles.map(|percentiles| percentiles.p99)),
        Entry::or_dash(cell.percentiles.map(|percentiles| percentiles.max)),
        Entry::or_dash(cell.algorithm_rate),
        Entry::or_dash(cell.bus_rate),
        Entry::or_dash(cell.wire_rate),
        expected,
        Entry::or_dash(last),
    ]
}

/// How verdicts are reached, in a paragraph.
pub(super) fn method(rule: &DecisionRule) -> String {
    format!(
        "Times are medians with a {:.4} rank interval. The time of a collective is that of its last rank. No sample is \
         dropped. Rates are decimal (1 GB/s = 1e9 B/s). The wire rate, which is judged, is what the busiest link carried. \
         A part is called slow only if its interval lies below the reference minus the margin in each of at least {} \
         rounds. The chance of one or more false positives in the run is at most {}.",
        rule.confidence,
        u32::from(rule.remeasure) + 1,
        rule.false_positive_budget
    )
}
