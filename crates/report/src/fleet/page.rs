//! A fleet as one page for a browser, without a script; its tables are those of Markdown as well.

use super::runs::{Fleet, FleetRun};
use crate::html;
use crate::table::{Entry, Table, Tone, figure, text};

/// The page.
pub fn html(fleet: &Fleet) -> String {
    let title = format!("railgauge fleet: {}", fleet.summary);
    html::framed(&title, |out| {
        out.within("main", &[], |out| {
            out.within("section", &[("id", "verdict")], |out| {
                let class = html::class_of_verdict(Tone::of(&fleet.verdict()));
                out.leaf("h1", &[("class", class)], &fleet.summary);
                out.paragraph(&format!("Exit code {}.", fleet.exit_code));
            });
            for (id, title, table) in [
                ("repeated", "Repeated failures", repeated(fleet)),
                ("runs", "Runs", runs(fleet)),
            ] {
                if !table.rows.is_empty() {
                    out.within("section", &[("id", id)], |out| {
                        out.leaf("h2", &[], title);
                        out.table(&table);
                    });
                }
            }
        });
        out.within("footer", &[], |out| {
            let made = format!("Judged by railgauge {}.", fleet.version);
            out.leaf("p", &[("class", "hint")], &made);
        });
    })
}

/// Parts that fail in more than one run; no rows where there is none.
pub(super) fn repeated(fleet: &Fleet) -> Table {
    let columns = [text("part"), text("findings"), figure("runs"), text("which")];
    let mut table = Table::new("Parts that fail in more than one run", columns);
    for part in &fleet.repeated {
        table.row([
            Entry::from(&part.part),
            Entry::ours(part.kinds.join(", ")),
            Entry::ours(format!("{} of {}", part.runs.len(), fleet.runs.len())),
            Entry::from(part.runs.join(", ")),
        ]);
    }
    table
}

/// Every run, in the order they were started.
pub(super) fn runs(fleet: &Fleet) -> Table {
    let columns = [
        text("started"),
        text("run"),
        text("suite"),
        text("verdict"),
        text("worst part"),
        figure("findings"),
        figure("measured"),
        text("finding"),
    ];
    let mut table = Table::new("Runs, oldest first", columns);
    for run in &fleet.runs {
        table.row(row(run));
    }
    table
}

fn row(run: &FleetRun) -> [Entry; 8] {
    let verdict = match run.negative_control {
        true => format!("{} (negative control)", run.word()),
        false => run.word().to_string(),
    };
    let tone = run.verdict.as_ref().map_or(Tone::Unclear, Tone::of);
    let sentence = run.worst.as_ref().map(|worst| worst.sentence.as_str());
    [
        Entry::from(run.started.as_deref().unwrap_or("-")),
        Entry::from(&run.name),
        Entry::from(run.suite.as_deref().unwrap_or("-")),
        Entry::ours(verdict).toned(tone),
        Entry::from(run.said()),
        Entry::ours(run.findings),
        Entry::ours(format!("{} of {}", run.measured, run.planned)),
        Entry::from(sentence.unwrap_or_default()),
    ]
}
