//! What a load does to others, and what senders get that share a receiver: tables for the report and lines for the terminal.

use super::table::{Entry, Table, figure, text};
use record::{Collective, Congestion, FairShares, Judgement, UnderLoad, UnderLoadAnswer, UnderLoadQuestion};

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
            Entry::from(&match &row.load_rail {
                Some(loaded) => format!("{} (load on {loaded})", row.rail),
                None => row.rail.clone(),
            }),
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
        let is_asked = |row: &&Congestion| row.measured_by == kind && row.load_rail.is_none();
        let rows = judgement.congestion.iter().filter(is_asked);
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

/// What the table of answers shows, in a sentence.
pub(super) const ABOUT_UNDER_LOAD: &str = "What counters of the hosts' ports said in slots under load: whether packets are lost that pauses should protect, whether senders are slowed down \
     by marks before they are paused, which receivers pause others, and whether a load on one rail is felt on another.";

/// The table of these answers.
pub(super) fn under_load(rows: &[UnderLoad]) -> Table {
    let columns = [
        text("rail"),
        text("question"),
        text("answer"),
        text("what was seen"),
    ];
    let mut table = Table::new("Under load", columns);
    for row in rows {
        table.row([
            Entry::from(&row.rail),
            Entry::ours(asked(row.question)),
            Entry::ours(answer(row.answer)),
            Entry::from(&row.seen),
        ]);
    }
    table
}

/// How many questions have which answer, in a line.
pub(super) fn summary_under_load(judgement: &Judgement) -> Option<String> {
    let rows = &judgement.under_load;
    if rows.is_empty() {
        return None;
    }
    let answers = [
        UnderLoadAnswer::Fault,
        UnderLoadAnswer::Open,
        UnderLoadAnswer::Fine,
        UnderLoadAnswer::NotSeen,
    ];
    let counted = answers.into_iter().filter_map(|wanted| {
        let count = rows.iter().filter(|row| row.answer == wanted).count();
        (count > 0).then(|| format!("{count} {}", answer(wanted)))
    });
    let counted: Vec<String> = counted.collect();
    Some(format!(
        "under load {} on losses, marks, pauses and other rails",
        counted.join(", ")
    ))
}

fn asked(question: UnderLoadQuestion) -> &'static str {
    match question {
        UnderLoadQuestion::Lossless => "is nothing lost that pauses protect?",
        UnderLoadQuestion::MarksFirst => "do marks come before pauses?",
        UnderLoadQuestion::Pauses => "do receivers keep up?",
        UnderLoadQuestion::RailsApart => "do loads on other rails stay there?",
    }
}

fn answer(answer: UnderLoadAnswer) -> &'static str {
    match answer {
        UnderLoadAnswer::Fine => "yes",
        UnderLoadAnswer::Fault => "no",
        UnderLoadAnswer::Open => "open",
        UnderLoadAnswer::NotSeen => "not seen",
    }
}

/// What the table of shares shows, in a sentence.
pub(super) const ABOUT_SHARES: &str = "Many send to one at the same time, one host after another being the receiver. What a sender gets is told relative to what others get \
     that are as far from the receiver; 1 is as much as they. Would show: so many times as much as others, or so many times less, would have been found with probability 0.9.";

/// The table of these rails.
pub(super) fn shares(rows: &[FairShares]) -> Table {
    let columns = [
        text("test"),
        text("rail"),
        figure("senders"),
        figure("receivers"),
        text("gets least"),
        figure("share"),
        text("gets most"),
        figure("share"),
        figure("would show"),
    ];
    let mut table = Table::new("Fair shares", columns);
    for row in rows {
        table.row([
            Entry::from(&row.test),
            Entry::from(&row.rail),
            Entry::ours(row.senders),
            Entry::ours(row.receivers),
            Entry::from(&row.least.host),
            Entry::ours(format!("{:.2}", row.least.share)),
            Entry::from(&row.most.host),
            Entry::ours(format!("{:.2}", row.most.share)),
            Entry::ours(
                row.shown
                    .map_or_else(|| "nothing".to_string(), |shown| format!("{shown:.1}")),
            ),
        ]);
    }
    table
}

/// The rail on which senders differ most, in a line.
pub(super) fn summary_of_shares(judgement: &Judgement) -> Option<String> {
    let rows = judgement.fair_shares.iter();
    let farthest = |row: &&FairShares| (row.most.share / row.least.share.max(f64::MIN_POSITIVE)).ln();
    let row = rows.max_by(|a, b| farthest(a).total_cmp(&farthest(b)))?;
    let shown = match row.shown {
        Some(shown) => format!("{shown:.1} times as much or as little would have shown"),
        None => "nobody could be compared".to_string(),
    };
    Some(format!(
        "shares     {} of {} to {} ({}) of what others get on {}, of {} senders; {shown}",
        format_args!("{:.2}", row.least.share),
        row.least.host,
        format_args!("{:.2}", row.most.share),
        row.most.host,
        row.rail,
        row.senders
    ))
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
