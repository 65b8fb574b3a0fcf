//! Tables of trends, shared by the terminal and the page.

use crate::table::{Entry, Table, Tone, figure, text};
use record::text::signed_percent;
use record::{PartChange, PastChange, Trend, Trends};

/// Runs that a line of blocks shows: the last ones.
const MOST_RUNS: usize = 30;
/// From the least to the most.
const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The course of a part as a line of blocks, the last runs; a dot where it was not read.
pub(super) fn spark(values: &[Option<f64>]) -> String {
    let last = &values[values.len().saturating_sub(MOST_RUNS)..];
    let known = || last.iter().flatten().copied();
    let (low, high) = known().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
        (low.min(value), high.max(value))
    });
    // What differs by less than two percent is drawn as level, so that noise does not look like news.
    let room = (0.02 * high - (high - low)).max(0.0) / 2.0;
    let (low, high) = (low - room, high + room);
    let block = |value: &Option<f64>| match value {
        None => '·',
        Some(value) => {
            let share = ((value - low) / (high - low)).clamp(0.0, 1.0);
            BLOCKS[if share.is_nan() {
                0
            } else {
                (share * 7.0).round() as usize
            }
            .min(7)]
        }
    };
    last.iter().map(block).collect()
}

/// What a part's change is called in a table.
pub(super) fn change_of<'a>(trends: &'a Trends, series: &Trend) -> Option<&'a PartChange> {
    trends.changed.get(series.change? as usize)
}

/// Changes that last.
pub(super) fn changed(trends: &Trends) -> Table {
    let columns = [
        text("part"),
        text("quantity"),
        text("change"),
        figure("by"),
        figure("interval"),
        figure("usual"),
        figure("now"),
        text("since"),
        text("with"),
    ];
    let mut table = Table::new("Lasting changes, most certain first", columns);
    for change in &trends.changed {
        let (lower, upper) = change.effect_interval;
        let tone = if change.is_worse { Tone::Bad } else { Tone::Good };
        table.row([
            Entry::from(&change.part),
            Entry::ours(change.quantity),
            Entry::ours(if change.is_worse {
                format!("{}, worse", change.shape)
            } else {
                format!("{}, better", change.shape)
            })
            .toned(tone),
            Entry::ours(signed_percent(change.effect)),
            Entry::ours(format!("{} to {}", signed_percent(lower), signed_percent(upper))),
            Entry::ours(change.quantity.with_unit(change.before)),
            Entry::ours(change.quantity.with_unit(change.after)),
            Entry::from(format!("{} ({} runs)", change.since, change.runs)),
            Entry::from(change.with.join(", ")),
        ]);
    }
    table
}

/// Changes that are over.
pub(super) fn over(trends: &Trends, most: usize) -> Table {
    let columns = [
        text("part"),
        text("quantity"),
        figure("by"),
        text("since"),
        text("until"),
        text("ended by"),
    ];
    let mut table = Table::new("Past changes, latest first", columns);
    for PastChange {
        change,
        until,
        ending,
    } in trends.over.iter().take(most)
    {
        table.row([
            Entry::from(&change.part),
            Entry::ours(change.quantity),
            Entry::ours(signed_percent(change.effect)),
            Entry::from(&change.since),
            Entry::from(until),
            Entry::from(ending),
        ]);
    }
    table
}

/// Every part, those that changed first.
pub(super) fn parts(trends: &Trends, most: usize) -> Table {
    let columns = [
        text("part"),
        text("quantity"),
        figure("runs"),
        figure("usual"),
        figure("last"),
        figure("deviation"),
        text("since"),
        text("history"),
    ];
    let mut table = Table::new("Parts, changed ones first", columns);
    for series in ranked(trends).into_iter().take(most) {
        table.row(part(trends, series));
    }
    table
}

fn part(trends: &Trends, series: &Trend) -> [Entry; 8] {
    let change = change_of(trends, series);
    let tone = match change {
        Some(change) if change.is_worse => Tone::Bad,
        Some(_) => Tone::Good,
        None => Tone::Plain,
    };
    let figure = |value: Option<f64>| Entry::or_dash(value.map(|value| series.quantity.with_unit(value)));
    [
        Entry::from(&series.part),
        Entry::ours(series.quantity),
        Entry::ours(series.runs),
        figure(series.usual),
        figure(series.last),
        Entry::or_dash(series.deviation.map(signed_percent)).toned(tone),
        Entry::from(change.map_or("", |change| change.since.as_str())),
        Entry::ours(spark(&series.values)),
    ]
}

/// Parts in the order of how much there is to say of them: changed ones first, then by how far the last run is from the usual, for
/// the worse.
pub(super) fn ranked(trends: &Trends) -> Vec<&Trend> {
    let mut all: Vec<&Trend> = trends.series.iter().collect();
    let worse = |series: &Trend| {
        let deviation = series.deviation.unwrap_or(0.0);
        match series.quantity.is_better_when_higher() {
            true => -deviation,
            false => deviation,
        }
    };
    let change = |series: &Trend| series.change.unwrap_or(u32::MAX);
    all.sort_by(|a, b| change(a).cmp(&change(b)).then(worse(b).total_cmp(&worse(a))));
    all
}
