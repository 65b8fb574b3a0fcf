//! What a load does to others: a table for `report.md` and a line for the terminal.

use std::fmt::Write;

use super::escape::markdown as inert;
use crate::record::{Collective, Congestion, Judgement};

/// The table; nothing when no victim was measured. At most `most` rows; how many there are.
pub(super) fn table(out: &mut String, judgement: &Judgement, most: usize) -> Result<usize, std::fmt::Error> {
    let rows = &judgement.congestion;
    if rows.is_empty() {
        return Ok(0);
    }
    writeln!(
        out,
        "## Congestion\n\nWhat a load does to two ranks that take no part in it: impact is the median time under load over that alone.\n"
    )?;
    writeln!(
        out,
        "| test | rail | load | victim | alone | p99 | under load | p99 | impact |\n|---|---|---|---|--:|--:|--:|--:|--:|"
    )?;
    for row in rows.iter().take(most) {
        writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {:.2} |",
            inert(&row.test),
            inert(&row.rail),
            load(row),
            victim(row),
            row.alone.median,
            row.alone_p99,
            row.under.median,
            row.under_p99,
            row.impact
        )?;
    }
    Ok(rows.len())
}

/// The worst impacts in a line.
pub(super) fn summary(judgement: &Judgement) -> Option<String> {
    let worst = |kind: Collective| {
        let rows = judgement.congestion.iter().filter(|row| row.measured_by == kind);
        rows.max_by(|a, b| a.impact.total_cmp(&b.impact))
    };
    let told = [Collective::PointToPoint, Collective::RoundTrip]
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
    let told: Vec<String> = told.collect();
    (!told.is_empty()).then(|| format!("congestion {}", told.join("; ")))
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
