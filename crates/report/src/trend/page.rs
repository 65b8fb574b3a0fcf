//! Trends as one page for a browser: the courses of what changed as drawings, and every part as a row.

use std::io;

use super::figure;
use super::rows::{self, ranked};
use crate::figure::Figure;
use crate::html;
use crate::table::Tone;
use record::{Trend, Trends, Verdict};

/// Most courses that are drawn.
const MOST_DRAWN: usize = 12;
/// Courses that are drawn where nothing changed: the parts that are farthest from their usual.
const AT_LEAST: usize = 4;
/// Most rows of parts.
const MOST_ROWS: usize = 1000;

/// The page.
pub fn html(trends: &Trends) -> io::Result<String> {
    let title = format!("railgauge trend: {}", trends.suite);
    let all = ranked(trends);
    let changed = all.iter().filter(|series| series.change.is_some()).count();
    let drawn: Vec<&Trend> = all
        .iter()
        .take(changed.clamp(AT_LEAST, MOST_DRAWN))
        .copied()
        .collect();
    let figures: Vec<Figure> = drawn
        .iter()
        .enumerate()
        .map(|(number, series)| figure::figure(trends, series, number))
        .collect::<io::Result<_>>()?;
    let verdict = match trends.exit_code {
        0 => Verdict::Pass,
        12 => Verdict::Fail(String::new()),
        _ => Verdict::Inconclusive(String::new()),
    };
    let parts = rows::parts(trends, MOST_ROWS);
    let tables = [
        ("changed", "What changed", rows::changed(trends)),
        ("over", "Past changes", rows::over(trends, MOST_ROWS)),
    ];
    Ok(html::framed(&title, |out| {
        out.within("main", &[], |out| {
            out.within("section", &[("id", "verdict")], |out| {
                let class = html::class_of_verdict(Tone::of(&verdict));
                out.leaf("h1", &[("class", class)], &trends.summary);
                let span = match (trends.runs.first(), trends.runs.last()) {
                    (Some(first), Some(last)) => format!(
                        "Suite {}, {} runs from {} to {}; exit code {}.",
                        trends.suite,
                        trends.runs.len(),
                        first.started,
                        last.started,
                        trends.exit_code
                    ),
                    _ => format!("No run was read; exit code {}.", trends.exit_code),
                };
                out.paragraph(&span);
                let skipped = trends.skipped.iter().map(String::as_str);
                if skipped.len() > 0 {
                    out.paragraph("Folders that could not be used:");
                    out.list(skipped);
                }
            });
            for (id, title, table) in &tables {
                if !table.rows.is_empty() {
                    out.within("section", &[("id", id)], |out| {
                        out.leaf("h2", &[], title);
                        out.table(table);
                    });
                }
            }
            if !figures.is_empty() {
                out.within("section", &[("id", "courses")], |out| {
                    out.leaf("h2", &[], "Parts over the runs");
                    figures.iter().for_each(|figure| out.figure(figure));
                });
            }
            out.within("section", &[("id", "parts")], |out| {
                out.leaf("h2", &[], "Parts");
                if trends.series.len() > MOST_ROWS {
                    let left = format!(
                        "The first {MOST_ROWS} of {}; `--json` has all.",
                        trends.series.len()
                    );
                    out.paragraph(&left);
                }
                out.table(&parts);
            });
        });
        out.within("footer", &[], |out| {
            let made = format!("Judged by railgauge {}.", trends.version);
            out.leaf("p", &[("class", "hint")], &made);
        });
    }))
}
