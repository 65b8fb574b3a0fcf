//! GPUs: every one in trouble has a row; the others too, as long as they are few enough to be read.

use std::collections::BTreeMap;

use super::builder::HtmlBuilder;
use super::facts::Facts;
use crate::gpus::{self, errors, held_down, is_notable, nvlinks, of, pcie, unavailable};
use crate::table::{Entry, Table, figure, text};
use record::{Extremes, GpuSummary};

/// GPUs without trouble that have a row each; where there are more, those that are alike share one.
const MOST_ROWS: usize = 300;

/// What the sensors of all GPUs said.
pub(super) fn section(out: &mut HtmlBuilder, facts: &Facts<'_>) {
    let all = &facts.judgement.gpus;
    if all.is_empty() {
        out.paragraph("No GPU was monitored in this run.");
        return;
    }
    out.paragraph(gpus::ABOUT);
    let (notable, others): (Vec<&GpuSummary>, Vec<&GpuSummary>) = all.iter().partition(|gpu| is_notable(gpu));
    match others.len() <= MOST_ROWS {
        true => out.table(&gpus::table(
            &notable.into_iter().chain(others).collect::<Vec<_>>(),
        )),
        false => {
            out.table(&gpus::table(&notable));
            out.paragraph(&format!(
                "The other {} GPUs, grouped by equal values; findings.json has each of them.",
                others.len()
            ));
            out.table(&summed_up(&others));
        }
    }
    out.table(&unread(all));
}

/// GPUs that are alike in one row.
fn summed_up(others: &[&GpuSummary]) -> Table {
    let mut kinds: BTreeMap<[String; 4], Vec<&GpuSummary>> = BTreeMap::new();
    for gpu in others {
        // For how long a limit held differs from GPU to GPU; which it was is what they are grouped by.
        let held = match gpu.limited_by.is_empty() {
            true => held_down(gpu),
            false => gpu
                .limited_by
                .keys()
                .map(|limit| limit.words())
                .collect::<Vec<_>>()
                .join("; "),
        };
        let kind = [held, pcie(gpu), nvlinks(gpu), errors(gpu)];
        kinds.entry(kind).or_default().push(gpu);
    }
    let columns = [
        figure("GPUs"),
        figure("SM MHz"),
        figure("C"),
        figure("W"),
        text("throttled by"),
        text("PCIe"),
        text("NVLinks"),
        text("errors"),
    ];
    let mut table = Table::new("Other GPUs, grouped", columns);
    for (kind, gpus) in kinds {
        let join = |of: fn(&GpuSummary) -> Option<Extremes>| {
            gpus.iter().map(|gpu| of(gpu)).fold(None, Extremes::join)
        };
        let watts = join(|gpu| gpu.milliwatts).map(|power| Extremes {
            least: power.least / 1000,
            most: power.most / 1000,
        });
        let mut row = vec![
            Entry::ours(gpus.len()),
            Entry::ours(of(join(|gpu| gpu.sm_mhz), None)),
            Entry::ours(of(join(|gpu| gpu.celsius), None)),
            Entry::ours(of(watts, None)),
        ];
        row.extend(kind.map(Entry::from));
        table.row(row);
    }
    table
}

/// What could not be read, GPUs that lack the same for the same reason together.
fn unread(all: &[GpuSummary]) -> Table {
    let mut reasons: BTreeMap<(String, &str), usize> = BTreeMap::new();
    for gpu in all {
        for (why, what) in unavailable(gpu) {
            *reasons.entry((what.join(", "), why)).or_default() += 1;
        }
    }
    let columns = [text("sensors"), figure("GPUs"), text("why")];
    let mut table = Table::new("Not available", columns);
    for ((what, why), gpus) in reasons {
        table.row([Entry::from(what), Entry::ours(gpus), Entry::from(why)]);
    }
    table
}
