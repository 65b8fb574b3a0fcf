//! Trends on a terminal and in a log.

use super::rows::{change_of, ranked, spark};
use crate::escape;
use crate::terminal::Page;
use record::text::signed_percent;
use record::{PartChange, Trend, Trends, Verdict};

/// Parts that are shown beside those that changed, in a log.
const MOST_IN_LOG: usize = 200;

/// The trends for a person: what changed, then the parts, those that say most first.
pub fn terminal(trends: &Trends, page: Page) -> String {
    let verdict = match trends.exit_code {
        0 => Verdict::Pass,
        12 => Verdict::Fail(String::new()),
        _ => Verdict::Inconclusive(String::new()),
    };
    let word = match verdict {
        Verdict::Pass => "STEADY",
        Verdict::Fail(_) => "CHANGED",
        _ => "TOO FEW",
    };
    let runs = trends.runs.len();
    let headline = page.clip(&format!(
        "{word:<9}{}, {runs} runs (exit code {})",
        escape::line(&trends.suite),
        trends.exit_code
    ));
    let mut lines = vec![match headline.split_at_checked(word.len()) {
        Some((word, rest)) => format!("{}{rest}", page.verdict(&verdict, word)),
        None => headline,
    }];
    lines.extend(page.wrap("", &trends.summary, 3));
    let most = page.most_lines();
    let mut changes: Vec<&PartChange> = trends.changed.iter().collect();
    changes.sort_by_key(|change| !change.is_worse);
    let room = if page.is_log() { changes.len() } else { 6 };
    for change in changes.iter().take(room) {
        let label = if change.is_worse { "worse" } else { "better" };
        let with = match change.with.as_slice() {
            [] => String::new(),
            [one] => format!(", with {one}"),
            [one, rest @ ..] => format!(", with {one} and {} more", rest.len()),
        };
        lines.push(page.clip(&format!(
            "{label:<9}{}{}",
            escape::line(&change.sentence),
            escape::line(&with)
        )));
    }
    if changes.len() > room {
        lines.push(format!(
            "... {} more changes: `--json` has all",
            changes.len() - room
        ));
    }
    for replaced in trends.replaced.iter().rev().take(3) {
        lines.push(page.clip(&format!(
            "replaced {} ({} -> {}) in {}",
            escape::line(&replaced.part),
            escape::line(&replaced.before),
            escape::line(&replaced.after),
            escape::line(&replaced.since)
        )));
    }
    for skipped in trends
        .skipped
        .iter()
        .take(if page.is_log() { usize::MAX } else { 2 })
    {
        lines.push(page.clip(&format!("skipped  {}", escape::line(skipped))));
    }
    let parts = ranked(trends);
    let room = match page.is_log() {
        true => MOST_IN_LOG,
        false => most.saturating_sub(lines.len() + 3),
    };
    if !parts.is_empty() && room > 0 {
        lines.push(String::new());
        lines.extend(
            table(trends, &parts[..parts.len().min(room)])
                .into_iter()
                .map(|line| page.clip(&line)),
        );
    }
    if parts.len() > room {
        lines.push(format!(
            "... {} more parts: `--html FILE` or `--json` has all",
            parts.len() - room
        ));
    }
    lines.join("\n") + "\n"
}

/// Columns as wide as their widest entry; the course comes last, because it may be cut.
fn table(trends: &Trends, parts: &[&Trend]) -> Vec<String> {
    let figure = |series: &Trend, value: Option<f64>| {
        value.map_or_else(|| "-".to_string(), |value| series.quantity.with_unit(value))
    };
    let head = [
        "part", "quantity", "runs", "usual", "last", "change", "since", "history",
    ]
    .map(str::to_string);
    let row = |series: &&Trend| {
        let change = change_of(trends, series);
        let by = change.map_or(series.deviation, |change| Some(change.effect));
        [
            short(&escape::line(&series.part)),
            series.quantity.to_string(),
            series.runs.to_string(),
            figure(series, series.usual),
            figure(series, series.last),
            by.map_or_else(|| "-".to_string(), signed_percent),
            change.map_or_else(String::new, |change| short(&escape::line(&change.since))),
            spark(&series.values),
        ]
    };
    let rows: Vec<[String; 8]> = std::iter::once(head).chain(parts.iter().map(row)).collect();
    let widths: Vec<usize> = (0..8)
        .map(|column| {
            rows.iter()
                .map(|row| row[column].chars().count())
                .max()
                .unwrap_or(0)
        })
        .collect();
    let is_figure = |column: usize| (2..=5).contains(&column);
    let line = |row: &[String; 8]| {
        let cell = |column: usize| match is_figure(column) {
            true => format!("{:>width$}", row[column], width = widths[column]),
            false => format!("{:<width$}", row[column], width = widths[column]),
        };
        let cells: Vec<String> = (0..8).map(cell).collect();
        cells.join("  ").trim_end().to_string()
    };
    rows.iter().map(line).collect()
}

/// A name of which the end is cut where it is long.
fn short(name: &str) -> String {
    const MOST: usize = 34;
    match name.chars().count() > MOST {
        true => name.chars().take(MOST - 1).chain(['…']).collect(),
        false => name.to_string(),
    }
}
