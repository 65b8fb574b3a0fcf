//! What a load does to others: a table for the report and a line for the terminal.

use super::table::{Entry, Table, figure, text};
use record::{Collective, Congestion, Judgement};

/// What the table shows, in a sentence.
pub(super) const ABOUT: &str = "The effect of load on two ranks that take no part in it. Impact is the median time under load divided by the median time alone.";

/// The table of these victims.
pub(super) fn table(rows: &[Congestion]) -> Table {
    let columns = [
        text("test"),
        text("rail"),
        text("load"),
        text("victim"),
        figure("alone"),
        figure("p99"),
        figure("under load"),
        figure("p99"),
        figure("impact"),
    ];
    let mut table = Table::new("Victims alone and under load", columns);
    for row in rows {
        table.row([
            Entry::from(&row.test),
            Entry::from(&row.rail),
            Entry::ours(load(row)),
            Entry::ours(victim(row)),
            Entry::ours(row.alone.median),
            Entry::ours(row.alone_p99),
            Entry::ours(row.under.median),
            Entry::ours(row.under_p99),
            Entry::ours(format!("{:.2}", row.impact)),
        ]);
    }
    table
}

/// The worst impacts in a line.
pub(super) fn summary(judgement: &Judgement) -> Option<String> {
    let worst = |kind: Collective| {
        let rows = judgement.congestion.iter().filter(|row| row.measured_by == kind);
        rows.max_by(|a, b| a.impact.total_cmp(&b.impact))
    };
    let parts = [Collective::PointToPoint, Collective::RoundTrip]
        .into_iter()
        .filter_map(worst)
        .map(|row| {
            let what = match row.measured_by {
                Collective::RoundTrip => "round trips",
                _ => "flows",
            };
            format!(
                "{what} up to {:.1} times as long ({}, {})",
                row.impact,
                load(row),
                victim(row)
            )
        });
    let parts: Vec<String> = parts.collect();
    (!parts.is_empty()).then(|| format!("congestion {}", parts.join("; ")))
}

fn load(row: &Congestion) -> String {
    match (row.load, row.loaders.split_first()) {
        (Collective::Incast, Some((receiver, senders))) => {
            format!("{} of {} ranks to rank {receiver}", row.load_size, senders.len())
        }
        _ => format!("{} all-to-all of {} ranks", row.load_size, row.loaders.len()),
    }
}

fn victim(row: &Congestion) -> String {
    let (between, what) = match row.measured_by {
        Collective::RoundTrip => ("<->", "round trip"),
        _ => ("->", "flow"),
    };
    let ranks: Vec<String> = row.victim.iter().map(u32::to_string).collect();
    format!("{what} {}", ranks.join(&format!(" {between} ")))
}
