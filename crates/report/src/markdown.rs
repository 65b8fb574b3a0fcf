//! `report.md`: the whole judgement for people, summary first.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::io;

use super::cells;
use super::escape::{markdown as inert, markdown_code};
use crate::verdict_words::verdict_words;
use crate::writer::Writer;
use record::{CellVerdict, Event, Finding, Judgement, Recorded, SwitchPlacement, Untested, files};

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
            .and_then(|()| super::history::section(&mut out, recorded.history.as_ref(), MOST_ROWS))
            .and_then(|()| tests(&mut out, judgement))
            .and_then(|()| super::ecmp::section(&mut out, judgement))
            .and_then(|()| interference(&mut out, judgement))
            .and_then(|()| congestion(&mut out, judgement))
            .and_then(|()| under_load(&mut out, judgement))
            .and_then(|()| fair_shares(&mut out, judgement))
            .and_then(|()| traffic(&mut out, judgement))
            .and_then(|()| probes(&mut out, judgement))
            .and_then(|()| engines(&mut out, judgement))
            .and_then(|()| all_cells(&mut out, judgement))
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

fn head(out: &mut String, judgement: &Judgement) -> fmt::Result {
    writeln!(
        out,
        "# {}: {}\n",
        inert(&judgement.suite),
        verdict_words(&judgement.verdict).0
    )?;
    writeln!(out, "**{}**\n", inert(&judgement.summary))?;
    let ended = judgement.ended.map_or("interrupted".to_string(), |reason| {
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

fn findings(out: &mut String, judgement: &Judgement) -> fmt::Result {
    writeln!(out, "## Findings\n")?;
    if judgement.findings.is_empty() {
        writeln!(out, "None.\n")?;
    }
    for (number, finding) in judgement.findings.iter().enumerate() {
        one_finding(out, number + 1, finding)?;
    }
    Ok(())
}

fn one_finding(out: &mut String, number: usize, finding: &Finding) -> fmt::Result {
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
            "- confirmed in {} rounds, p = {:.2e} corrected for {} comparisons",
            confirmation.rounds, confirmation.p_value, confirmation.comparisons
        )?;
    }
    if let Some(suspects) = super::links::suspects(finding) {
        writeln!(out)?;
        suspects.markdown(out)?;
        writeln!(out)?;
    }
    for line in &finding.evidence {
        writeln!(out, "- evidence: {}", inert(line))?;
    }
    for part in &finding.not_told_apart_from {
        writeln!(out, "- ambiguous with: {}", inert(part))?;
    }
    writeln!(out, "- next: {}", inert(&finding.next_step))?;
    match &finding.repeat {
        Some(repeat) => writeln!(out, "- repeat:\n\n{}\n", markdown_code(repeat)),
        None => writeln!(out),
    }
}

fn tests(out: &mut String, judgement: &Judgement) -> fmt::Result {
    writeln!(out, "## Tests\n")?;
    cells::tests(&judgement.tests).markdown(out)?;
    writeln!(out)
}

fn interference(out: &mut String, judgement: &Judgement) -> fmt::Result {
    if judgement.interference.is_empty() {
        return Ok(());
    }
    writeln!(out, "## Rails alone and together\n")?;
    cells::interference(judgement, MOST_ROWS).markdown(out)?;
    more(out, judgement.interference.len())
}

fn congestion(out: &mut String, judgement: &Judgement) -> fmt::Result {
    let rows = &judgement.congestion;
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(out, "## Congestion\n\n{}\n", super::congestion::ABOUT)?;
    super::congestion::table(&rows[..rows.len().min(MOST_ROWS)]).markdown(out)?;
    more(out, rows.len())
}

fn under_load(out: &mut String, judgement: &Judgement) -> fmt::Result {
    let rows = &judgement.under_load;
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(out, "## Under load\n\n{}\n", super::congestion::ABOUT_UNDER_LOAD)?;
    super::congestion::under_load(&rows[..rows.len().min(MOST_ROWS)]).markdown(out)?;
    more(out, rows.len())
}

fn fair_shares(out: &mut String, judgement: &Judgement) -> fmt::Result {
    let rows = &judgement.fair_shares;
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(out, "## Fair shares\n\n{}\n", super::congestion::ABOUT_SHARES)?;
    super::congestion::shares(&rows[..rows.len().min(MOST_ROWS)]).markdown(out)?;
    more(out, rows.len())
}

fn traffic(out: &mut String, judgement: &Judgement) -> fmt::Result {
    let rows = &judgement.traffic;
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(out, "## Worst traffic\n\n{}\n", super::traffic::ABOUT)?;
    super::traffic::table(&rows[..rows.len().min(MOST_ROWS)]).markdown(out)?;
    more(out, rows.len())
}

fn probes(out: &mut String, judgement: &Judgement) -> fmt::Result {
    if judgement.probes.is_empty() {
        return Ok(());
    }
    writeln!(out, "## Probes\n\n{}\n", super::probes::ABOUT)?;
    super::probes::table(&judgement.probes).markdown(out)
}

fn engines(out: &mut String, judgement: &Judgement) -> fmt::Result {
    let rows = &judgement.engines;
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "## Engine comparison\n\n{}.\n",
        super::engines::overview(rows)
    )?;
    super::engines::table(judgement, MOST_ROWS).markdown(out)?;
    more(out, rows.len())
}

fn all_cells(out: &mut String, judgement: &Judgement) -> fmt::Result {
    writeln!(out, "## Cells\n")?;
    let shown: Vec<&CellVerdict> = judgement.cells.iter().take(MOST_ROWS).collect();
    cells::table(&shown).markdown(out)?;
    more(out, judgement.cells.len())
}

fn gpus(out: &mut String, judgement: &Judgement) -> fmt::Result {
    match super::gpus::section(out, judgement, MOST_ROWS)? {
        0 => Ok(()),
        rows => more(out, rows),
    }
}

fn counters(out: &mut String, judgement: &Judgement) -> fmt::Result {
    match super::counters::section(out, judgement, MOST_ROWS)? {
        0 => Ok(()),
        rows => more(out, rows),
    }
}

fn links(out: &mut String, judgement: &Judgement) -> fmt::Result {
    let coverage = &judgement.coverage;
    let Some(line) = super::links::in_one_line(coverage) else {
        return Ok(());
    };
    writeln!(out, "## Links\n\n{line}.\n")?;
    let links = super::links::in_order(coverage);
    super::links::table(&links[..links.len().min(MOST_ROWS)]).markdown(out)?;
    more(out, links.len())
}

fn coverage(out: &mut String, judgement: &Judgement) -> fmt::Result {
    let coverage = &judgement.coverage;
    writeln!(
        out,
        "## Coverage\n\n{} of {} planned cells measured.\n",
        coverage.measured, coverage.planned
    )?;
    untested(out, "Planned but not measured", &coverage.not_measured)?;
    untested(out, "Left out by the plan", &coverage.untested)
}

fn untested(out: &mut String, title: &str, entries: &[Untested]) -> fmt::Result {
    if entries.is_empty() {
        return Ok(());
    }
    writeln!(out, "{title}:\n")?;
    for entry in entries.iter().take(MOST_ROWS) {
        writeln!(out, "- {}: {}", inert(&entry.what), inert(&entry.why))?;
    }
    more(out, entries.len())
}

fn method(out: &mut String, judgement: &Judgement) -> fmt::Result {
    writeln!(out, "## Method\n\n{}\n", cells::method(&judgement.rule))
}

fn run(out: &mut String, recorded: &Recorded) -> fmt::Result {
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
    let mut ranks_of: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for rank in &run.ranks {
        ranks_of
            .entry(&rank.host)
            .or_default()
            .push(rank.rank.to_string());
    }
    for host in run.hosts.iter().take(MOST_ROWS) {
        let ranks = ranks_of.get(host.name.as_str()).cloned().unwrap_or_default();
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
    for line in SwitchPlacement::in_words(&run.placement) {
        writeln!(out, "- paths: {}", inert(&line))?;
    }
    let strangers = recorded.events.iter().filter_map(|event| match event {
        Event::Intruder { what } => Some(what),
        _ => None,
    });
    for what in strangers.take(MOST_ROWS) {
        writeln!(
            out,
            "- connection without the token of this run refused: {}",
            inert(what)
        )?;
    }
    Ok(())
}

fn more(out: &mut String, rows: usize) -> fmt::Result {
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
