//! `report.md`: the whole judgement for people, summary first.

use std::fmt::Write;
use std::io;

use super::Writer;
use super::escape::{markdown as inert, markdown_code};
use super::terminal::words;
use crate::record::{CellVerdict, Event, Finding, Judgement, Recorded, Untested, Verdict, files};

/// Rows after which a table refers to `findings.json`.
const MOST_ROWS: usize = 500;

/// The report as Markdown.
pub(super) struct Markdown;

impl Writer for Markdown {
    fn file(&self) -> &'static str {
        files::MARKDOWN
    }

    fn render(&self, recorded: &Recorded, judgement: &Judgement) -> io::Result<String> {
        let mut out = String::new();
        let written = head(&mut out, judgement)
            .and_then(|()| findings(&mut out, judgement))
            .and_then(|()| tests(&mut out, judgement))
            .and_then(|()| super::ecmp::section(&mut out, judgement))
            .and_then(|()| interference(&mut out, judgement))
            .and_then(|()| congestion(&mut out, judgement))
            .and_then(|()| engines(&mut out, judgement))
            .and_then(|()| cells(&mut out, judgement))
            .and_then(|()| gpus(&mut out, judgement))
            .and_then(|()| counters(&mut out, judgement))
            .and_then(|()| super::rdma::section(&mut out, recorded, judgement, MOST_ROWS))
            .and_then(|()| super::inventory::section(&mut out, judgement, MOST_ROWS))
            .and_then(|()| links(&mut out, judgement))
            .and_then(|()| coverage(&mut out, judgement))
            .and_then(|()| method(&mut out, judgement))
            .and_then(|()| run(&mut out, recorded));
        written.map_err(io::Error::other)?;
        Ok(out)
    }
}

type Written = Result<(), std::fmt::Error>;

fn head(out: &mut String, judgement: &Judgement) -> Written {
    writeln!(
        out,
        "# {}: {}\n",
        inert(&judgement.suite),
        words(&judgement.verdict).0
    )?;
    writeln!(out, "**{}**\n", inert(&judgement.summary))?;
    let ended = judgement.ended.map_or("cut off".to_string(), |reason| {
        format!("{reason:?}").to_lowercase()
    });
    writeln!(
        out,
        "Started {}, ended: {ended}. Exit code {}. Judged by railgauge {}.\n",
        inert(&judgement.started),
        judgement.exit_code,
        inert(&judgement.version)
    )?;
    if !judgement.injected.is_empty() {
        writeln!(out, "This run is a negative control. Injected on purpose:\n")?;
        for fault in &judgement.injected {
            writeln!(out, "- {}", inert(fault))?;
        }
        writeln!(out)?;
    }
    writeln!(out, "![Wire rate over message size]({})\n", files::BANDWIDTH)
}

fn findings(out: &mut String, judgement: &Judgement) -> Written {
    writeln!(out, "## Findings\n")?;
    if judgement.findings.is_empty() {
        writeln!(out, "None.\n")?;
    }
    for (number, finding) in judgement.findings.iter().enumerate() {
        one_finding(out, number + 1, finding)?;
    }
    Ok(())
}

fn one_finding(out: &mut String, number: usize, finding: &Finding) -> Written {
    writeln!(
        out,
        "### {number}. {}\n\n{}\n",
        finding.kind,
        inert(&finding.sentence)
    )?;
    if let (Some(measured), Some(expected)) = (&finding.measured, finding.expected) {
        writeln!(out, "- measured: {measured}")?;
        writeln!(out, "- expected: {expected}")?;
    }
    writeln!(out, "- rule: {}", inert(&finding.rule))?;
    if let Some(confirmation) = &finding.confirmation {
        writeln!(
            out,
            "- confirmed in {} round(s), p = {:.2e} corrected for {} comparison(s)",
            confirmation.rounds, confirmation.p_value, confirmation.comparisons
        )?;
    }
    super::links::suspects(out, finding)?;
    for line in &finding.evidence {
        writeln!(out, "- evidence: {}", inert(line))?;
    }
    for part in &finding.not_told_apart_from {
        writeln!(out, "- cannot be told apart from: {}", inert(part))?;
    }
    writeln!(out, "- next: {}", inert(&finding.next_step))?;
    match &finding.repeat {
        Some(repeat) => writeln!(out, "- repeat:\n\n{}\n", markdown_code(repeat)),
        None => writeln!(out),
    }
}

fn tests(out: &mut String, judgement: &Judgement) -> Written {
    writeln!(
        out,
        "## Tests\n\n| test | verdict | measured | planned | why |\n|---|---|--:|--:|---|"
    )?;
    for test in &judgement.tests {
        let (word, why) = words(&test.verdict);
        let why = inert(why.unwrap_or_default());
        writeln!(
            out,
            "| {} | {word} | {} | {} | {why} |",
            inert(&test.name),
            test.measured,
            test.planned
        )?;
    }
    writeln!(out)
}

fn interference(out: &mut String, judgement: &Judgement) -> Written {
    if judgement.interference.is_empty() {
        return Ok(());
    }
    writeln!(out, "## Rails alone and together\n")?;
    writeln!(
        out,
        "| test | rail | size | alone | together | together / alone |\n|---|---|--:|--:|--:|--:|"
    )?;
    for row in judgement.interference.iter().take(MOST_ROWS) {
        let size = judgement
            .cells
            .iter()
            .find(|cell| cell.cell.id == row.alone_cell)
            .map(|cell| cell.cell.size);
        writeln!(
            out,
            "| {} | {} | {} | {} | {} | {:.2} |",
            inert(&row.test),
            inert(&row.rail),
            size.map(|size| size.to_string()).unwrap_or_default(),
            row.alone,
            row.together,
            row.ratio
        )?;
    }
    more(out, judgement.interference.len())
}

fn congestion(out: &mut String, judgement: &Judgement) -> Written {
    match super::congestion::table(out, judgement, MOST_ROWS)? {
        0 => Ok(()),
        rows => more(out, rows),
    }
}

fn engines(out: &mut String, judgement: &Judgement) -> Written {
    match super::engines::table(out, judgement, MOST_ROWS)? {
        0 => Ok(()),
        rows => more(out, rows),
    }
}

fn cells(out: &mut String, judgement: &Judgement) -> Written {
    writeln!(out, "## Cells\n")?;
    writeln!(
        out,
        "| cell | what | verdict | iterations | time | p99 | max | algorithm | bus | wire | expected | last to finish |"
    )?;
    writeln!(out, "|--:|---|---|--:|--:|--:|--:|--:|--:|--:|---|---|")?;
    for cell in judgement.cells.iter().take(MOST_ROWS) {
        one_cell(out, cell)?;
    }
    more(out, judgement.cells.len())
}

fn one_cell(out: &mut String, cell: &CellVerdict) -> Written {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_string());
    let (word, why) = words(&cell.verdict);
    let why = match &cell.verdict {
        Verdict::Pass => String::new(),
        _ => format!(": {}", inert(why.unwrap_or_default())),
    };
    let rounds = if cell.rounds > 1 {
        format!(" in {} rounds", cell.rounds)
    } else {
        String::new()
    };
    let outliers = if cell.outliers > 0 {
        format!(", outliers: {}", cell.outliers)
    } else {
        String::new()
    };
    writeln!(
        out,
        "| {} | {} | {word}{why} | {}{rounds}{outliers} | {} | {} | {} | {} | {} | {} | {} | {} |",
        cell.cell.id,
        inert(&cell.cell.describe()),
        cell.iterations,
        or_dash(
            cell.time
                .map(|time| format!("{} [{}, {}]", time.median, time.lower, time.upper))
        ),
        or_dash(cell.percentiles.map(|percentiles| percentiles.p99.to_string())),
        or_dash(cell.percentiles.map(|percentiles| percentiles.max.to_string())),
        or_dash(cell.algorithm_rate.map(|rate| rate.to_string())),
        or_dash(cell.bus_rate.map(|rate| rate.to_string())),
        or_dash(cell.wire_rate.map(|rate| rate.to_string())),
        or_dash(cell.expected.map(|expected| {
            format!(
                "{expected} ({})",
                inert(cell.expected_from.as_deref().unwrap_or_default())
            )
        })),
        or_dash(
            cell.slowest_rank
                .map(|(rank, share)| format!("rank {rank}, {:.0} %", share * 100.0))
        ),
    )
}

fn gpus(out: &mut String, judgement: &Judgement) -> Written {
    match super::gpus::section(out, judgement, MOST_ROWS)? {
        0 => Ok(()),
        rows => more(out, rows),
    }
}

fn counters(out: &mut String, judgement: &Judgement) -> Written {
    match super::counters::section(out, judgement, MOST_ROWS)? {
        0 => Ok(()),
        rows => more(out, rows),
    }
}

fn links(out: &mut String, judgement: &Judgement) -> Written {
    match super::links::section(out, &judgement.coverage, MOST_ROWS)? {
        0 => Ok(()),
        rows => more(out, rows),
    }
}

fn coverage(out: &mut String, judgement: &Judgement) -> Written {
    let coverage = &judgement.coverage;
    writeln!(
        out,
        "## Coverage\n\n{} of {} planned cells measured.\n",
        coverage.measured, coverage.planned
    )?;
    untested(out, "Planned but not measured", &coverage.not_measured)?;
    untested(out, "Not tested", &coverage.untested)
}

fn untested(out: &mut String, title: &str, entries: &[Untested]) -> Written {
    if entries.is_empty() {
        return Ok(());
    }
    writeln!(out, "{title}:\n")?;
    for entry in entries.iter().take(MOST_ROWS) {
        writeln!(out, "- {}: {}", inert(&entry.what), inert(&entry.why))?;
    }
    more(out, entries.len())
}

fn method(out: &mut String, judgement: &Judgement) -> Written {
    let rule = &judgement.rule;
    writeln!(
        out,
        "## How verdicts are reached\n\n\
         Times are medians with their {:.4} rank interval; a collective's time is that of its last rank; no sample is \
         dropped. Rates are decimal (1 GB/s = 1e9 B/s); the wire rate is what the busiest link carried, and is what is \
         judged. A part is called slow only when its interval lies below the reference less the margin, in every one of \
         at least {} rounds, with a chance of {} for one or more wrong accusations in this whole run.\n",
        rule.confidence,
        u32::from(rule.remeasure) + 1,
        rule.false_positive_budget
    )
}

fn run(out: &mut String, recorded: &Recorded) -> Written {
    let run = &recorded.run;
    writeln!(out, "## Run\n\n{}\n", markdown_code(&run.command.join(" ")))?;
    writeln!(
        out,
        "Recorded by railgauge {}, seed {}, {}.\n",
        inert(&run.version),
        run.seed,
        inert(&run.launch)
    )?;
    writeln!(out, "| host | cores | kernel | ranks |\n|---|--:|---|---|")?;
    for host in run.hosts.iter().take(MOST_ROWS) {
        let ranks: Vec<String> = run
            .ranks
            .iter()
            .filter(|rank| rank.host == host.name)
            .map(|rank| rank.rank.to_string())
            .collect();
        writeln!(
            out,
            "| {} | {} | {} | {} |",
            inert(&host.name),
            host.cores,
            inert(&host.kernel),
            ranks.join(" ")
        )?;
    }
    more(out, run.hosts.len())?;
    let strangers = recorded.events.iter().filter_map(|event| match event {
        Event::Intruder { what } => Some(what),
        _ => None,
    });
    for what in strangers.take(MOST_ROWS) {
        writeln!(out, "- a stranger knocked and was turned away: {}", inert(what))?;
    }
    Ok(())
}

fn more(out: &mut String, rows: usize) -> Written {
    match rows.saturating_sub(MOST_ROWS) {
        0 => writeln!(out),
        left => writeln!(
            out,
            "\n{left} more in [{}]({}).\n",
            files::FINDINGS,
            files::FINDINGS
        ),
    }
}
