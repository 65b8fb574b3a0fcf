//! A fleet on a terminal, in a log and as Markdown.

use std::fmt::Write;
use std::io;

use super::page;
use super::runs::{Fleet, FleetRun};
use crate::escape::{self, markdown as inert};
use crate::terminal::Page;
use record::Verdict;

/// The fleet for a person: what fails in several runs first, then the runs, those that did not pass first.
pub fn terminal(fleet: &Fleet, page: Page) -> String {
    let headline = page.clip(&format!(
        "{} (exit code {})",
        escape::line(&fleet.summary),
        fleet.exit_code
    ));
    let mut lines = vec![page.verdict(&fleet.verdict(), &headline)];
    let most = page.most_lines();
    for part in fleet.repeated.iter().take(most / 4) {
        lines.push(page.clip(&format!(
            "repeated   {}: {} in {} of {} runs",
            escape::line(&part.part),
            part.kinds.join(", "),
            part.runs.len(),
            fleet.runs.len()
        )));
    }
    if fleet.repeated.len() > most / 4 {
        lines.push(format!(
            "... {} more parts that fail in several runs",
            fleet.repeated.len() - most / 4
        ));
    }
    let mut runs: Vec<&FleetRun> = fleet.runs.iter().collect();
    // Stable: within those that passed and those that did not, the order of their start stays.
    runs.sort_by_key(|run| run.verdict == Some(Verdict::Pass));
    let room = most.saturating_sub(lines.len() + 1);
    let shown = match runs.len() <= room {
        true => runs.len(),
        false => room.saturating_sub(1),
    };
    for run in runs.iter().take(shown) {
        lines.push(one_line(run, &page));
    }
    if shown < runs.len() {
        lines.push(format!(
            "... {} more runs: `--md` or `--json` has all",
            runs.len() - shown
        ));
    }
    lines.join("\n") + "\n"
}

fn one_line(run: &FleetRun, page: &Page) -> String {
    let word = run.word();
    let started = run.started.as_deref().unwrap_or("-");
    let text = page.clip(&format!(
        "{word:<13}{:<21}{}  {}/{} cells  {}",
        escape::line(started),
        escape::line(&run.name),
        run.measured,
        run.planned,
        escape::line(&run.said())
    ));
    let text = text.trim_end();
    let (word, rest) = text.split_at(word.len().min(text.len()));
    let verdict = run.verdict.clone();
    let verdict = verdict.unwrap_or_else(|| Verdict::NotRun(String::new()));
    format!("{}{rest}", page.verdict(&verdict, word))
}

/// The fleet as Markdown.
pub fn markdown(fleet: &Fleet) -> io::Result<String> {
    let mut out = String::new();
    sections(&mut out, fleet).map_err(io::Error::other)?;
    Ok(out)
}

fn sections(out: &mut String, fleet: &Fleet) -> Result<(), std::fmt::Error> {
    writeln!(
        out,
        "# Fleet\n\n**{}** (exit code {})\n",
        inert(&fleet.summary),
        fleet.exit_code
    )?;
    for table in [page::repeated(fleet), page::runs(fleet)] {
        if !table.rows.is_empty() {
            writeln!(out, "## {}\n", table.caption)?;
            table.markdown(out)?;
            writeln!(out)?;
        }
    }
    Ok(())
}
