//! What became of probes: a table for the report and a line for the terminal.

use super::table::{Entry, Table, figure, text};
use record::{Judgement, ProbeSummary};

/// What the table shows, in a sentence.
pub(super) const ABOUT: &str = "Small packets between many pairs, rail by rail. Lost: sent and never seen again, not counting those that a queue or the receiver's own socket \
     dropped. Waits are how much longer a packet took than the fastest of its flow in the same second: of the middle packet, of the slowest one of a second (medians), \
     and the longest of all.";

/// The table of these rails.
pub(super) fn table(rows: &[ProbeSummary]) -> Table {
    let columns = [
        text("test"),
        text("rail"),
        figure("flows"),
        figure("links"),
        figure("packets"),
        figure("lost"),
        figure("lost in queues"),
        figure("reordered"),
        figure("duplicated"),
        figure("middle wait"),
        figure("slowest of a second"),
        figure("longest"),
    ];
    let mut table = Table::new("Probes", columns);
    for row in rows {
        table.row([
            Entry::from(&row.test),
            Entry::from(&row.rail),
            Entry::ours(row.flows),
            Entry::ours(match row.links {
                0 => "unknown".to_string(),
                links => links.to_string(),
            }),
            Entry::ours(row.sent),
            Entry::ours(row.lost),
            Entry::ours(row.lost_in_queue),
            Entry::ours(row.reordered),
            Entry::ours(row.duplicated),
            Entry::ours(row.typical),
            Entry::ours(row.worst),
            Entry::ours(row.longest),
        ]);
    }
    table
}

/// All rails in a line.
pub(super) fn summary(judgement: &Judgement) -> Option<String> {
    let rows = &judgement.probes;
    let sum = |of: fn(&ProbeSummary) -> u64| rows.iter().map(of).sum::<u64>();
    let longest = rows.iter().map(|row| row.longest).max()?;
    let in_queues = match sum(|row| row.lost_in_queue) {
        0 => String::new(),
        lost => format!(", {lost} in queues"),
    };
    Some(format!(
        "probes     {} of {} packets lost{in_queues} on {}; the longest wait was {longest}",
        sum(|row| row.lost),
        sum(|row| row.sent),
        record::text::counted(rows.len(), "rail")
    ))
}
