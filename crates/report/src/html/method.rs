//! How verdicts were reached, with what, and how to do the same again.

use std::collections::BTreeMap;

use super::builder::HtmlBuilder;
use super::clocks;
use super::facts::Facts;
use crate::table::{Entry, Table, figure, ranges, text};
use crate::{cells, rdma};
use record::text::counted;
use record::{Event, Reference, Run, SwitchPlacement};

/// Refused connections that are listed.
const MOST_REFUSED: usize = 100;
/// Rows of RDMA ports.
const MOST_PORTS: usize = 300;

/// Rule, seeds, versions, command line, engines, clocks.
pub(super) fn section(out: &mut HtmlBuilder, facts: &Facts<'_>) {
    let run = &facts.recorded.run;
    out.paragraph(&cells::method(&facts.judgement.rule));
    out.paragraph("This run was started with:");
    let started = run.started_as.iter().chain(&run.command).map(String::as_str);
    out.command(&started.collect::<Vec<_>>().join(" "));
    out.paragraph("To judge the run again and rewrite its reports from its folder, without any hardware:");
    out.command("railgauge report RUN");
    out.table(&about(facts));
    out.table(&rule(facts));
    out.table(&expectations(run));
    out.table(&hosts(run));
    let mut ports = rdma::ports(facts.recorded);
    let left = ports.rows.len().saturating_sub(MOST_PORTS);
    ports.rows.truncate(MOST_PORTS);
    out.table(&ports);
    if left > 0 {
        out.paragraph(&format!("{left} more in run.json."));
    }
    out.table(&rdma::terms(facts.judgement));
    if let Some(line) = rdma::flows(facts.recorded) {
        out.paragraph(&line);
    }
    if !facts.judgement.injected.is_empty() {
        out.paragraph("Injected on purpose:");
        out.list(facts.judgement.injected.iter().map(String::as_str));
    }
    placement(out, facts);
    strangers(out, facts);
}

/// What the run was made with.
fn about(facts: &Facts<'_>) -> Table {
    let (run, judgement) = (&facts.recorded.run, facts.judgement);
    let mut table = Table::new("The run", [text("what"), text("is")]);
    let mut row = |what: &str, is: String| table.row([Entry::ours(what), Entry::from(is)]);
    row("suite", run.suite.clone());
    if !run.description.is_empty() {
        row("purpose of the suite", run.description.clone());
    }
    row("recorded by", format!("railgauge {}", run.version));
    row("judged by", format!("railgauge {}", judgement.version));
    row("seed", run.seed.to_string());
    row("launch", run.launch.clone());
    let nccl = run.nccl.as_ref();
    row(
        "NCCL",
        nccl.map_or_else(
            || "not used".to_string(),
            |nccl| format!("{} ({})", nccl.version, nccl.library),
        ),
    );
    row(
        "engines",
        format!(
            "{} by railgauge, {} by NCCL",
            engines(facts, false),
            engines(facts, true)
        ),
    );
    row("cost of reading the clock, at most", run.timer_ns.to_string());
    row("clocks", clocks::at_start(run));
    if let Some(clocks) = clocks::during_run(facts.recorded) {
        row("clocks while it measured", clocks);
    }
    row("samples", facts.recorded.samples.len().to_string());
    if facts.recorded.truncated {
        row("last line of samples.jsonl", "incomplete, left out".to_string());
    }
    table
}

fn engines(facts: &Facts<'_>, nccl: bool) -> String {
    let cells = facts.judgement.cells.iter();
    let count = cells
        .filter(|cell| (cell.cell.engine == record::Engine::Nccl) == nccl)
        .count();
    counted(count, "cell")
}

/// The rule with its numbers.
fn rule(facts: &Facts<'_>) -> Table {
    let rule = &facts.judgement.rule;
    let shapes = &rule.shapes;
    let mut table = Table::new("Decision rule", [text("what"), figure("bound")]);
    let mut row = |what: &str, bound: String| table.row([Entry::ours(what), Entry::ours(bound)]);
    row(
        "confidence of intervals around medians",
        rule.confidence.to_string(),
    );
    row(
        "accepted chance of one or more false positives in the run",
        rule.false_positive_budget.to_string(),
    );
    row(
        "repeated measurements of a suspect",
        counted(usize::from(rule.remeasure), "time"),
    );
    row(
        "a straggler is busy this many times longer than the others",
        rule.straggler_factor.to_string(),
    );
    row(
        "accepted flaps of a link",
        counted(rule.flaps_allowed as usize, "time"),
    );
    row(
        "accepted drop of the rate as messages grow",
        shapes.dip.to_string(),
    );
    row(
        "accepted time of the smallest messages, relative to peers",
        shapes.floor_factor.to_string(),
    );
    row(
        "accepted message size for half of the best rate, relative to peers",
        shapes.ramp_factor.to_string(),
    );
    row("a stalled iteration takes longer by", shapes.stall.to_string());
    row("least gap between two modes of speed", shapes.gap.to_string());
    table
}

/// What every test was compared with, and where that comes from.
fn expectations(run: &Run) -> Table {
    let columns = [
        text("test"),
        text("kind"),
        text("compared with"),
        figure("iterations"),
        figure("checked"),
    ];
    let mut table = Table::new("References of the tests", columns);
    for test in &run.tests {
        let mut with: Vec<String> = test.references.iter().map(in_words).collect();
        with.extend(
            test.missing_references
                .iter()
                .map(|missing| format!("asked for but not available: {missing}")),
        );
        if with.is_empty() {
            with.push("nothing".to_string());
        }
        let checked = match test.verify_every {
            0 => "none".to_string(),
            1 => "all".to_string(),
            every => format!("1 of {every}"),
        };
        table.row([
            Entry::from(&test.name),
            Entry::ours(test.kind.to_string()),
            Entry::from(with.join("; ")),
            Entry::ours(format!("{} to {}", test.min_iterations, test.max_iterations)),
            Entry::ours(checked),
        ]);
    }
    table
}

fn in_words(reference: &Reference) -> String {
    match reference {
        Reference::Spec(row) => format!(
            "spec {}: {} less {:.0} % from {} on ({}; source: {})",
            row.id,
            row.rate,
            row.tolerance * 100.0,
            row.from_size,
            row.scale,
            row.source
        ),
        Reference::Peers { margin } => format!("peers, less {:.0} %", margin * 100.0),
        Reference::Baseline { run, margin, rates } => format!(
            "baseline {run}, less {:.0} % ({})",
            margin * 100.0,
            counted(rates.len(), "cell")
        ),
    }
}

/// Hosts, those that are alike in one row.
fn hosts(run: &Run) -> Table {
    let mut ranks_of: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for rank in &run.ranks {
        ranks_of.entry(&rank.host).or_default().push(rank.rank);
    }
    let mut alike: BTreeMap<(&str, u32), Vec<&str>> = BTreeMap::new();
    for host in &run.hosts {
        alike
            .entry((&host.kernel, host.cores))
            .or_default()
            .push(&host.name);
    }
    let columns = [
        text("kernel"),
        figure("cores"),
        figure("how many"),
        text("hosts"),
        text("ranks"),
    ];
    let mut table = Table::new("Hosts", columns);
    for ((kernel, cores), names) in alike {
        let ranks = names.iter().filter_map(|name| ranks_of.get(name)).flatten();
        let mut ranks: Vec<u32> = ranks.copied().collect();
        ranks.sort_unstable();
        ranks.dedup();
        table.row([
            Entry::from(kernel),
            Entry::ours(cores),
            Entry::ours(names.len()),
            Entry::from(names.join(", ")),
            Entry::ours(ranges(&ranks)),
        ]);
    }
    table
}

fn placement(out: &mut HtmlBuilder, facts: &Facts<'_>) {
    for line in SwitchPlacement::in_words(&facts.recorded.run.placement) {
        out.paragraph(&format!("Paths: {line}."));
    }
}

fn strangers(out: &mut HtmlBuilder, facts: &Facts<'_>) {
    let strangers = facts.recorded.events.iter().filter_map(|event| match event {
        Event::Intruder { what } => Some(what.as_str()),
        _ => None,
    });
    let strangers: Vec<&str> = strangers.collect();
    if strangers.is_empty() {
        return;
    }
    out.paragraph(&format!(
        "{} without the token of this run refused:",
        counted(strangers.len(), "connection")
    ));
    out.list(strangers.into_iter().take(MOST_REFUSED));
}
