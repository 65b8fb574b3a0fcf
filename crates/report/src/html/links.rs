//! Cables: every one that is slow or suspected has a row; the others too, as long as they are few enough to be read.

use std::collections::BTreeMap;

use super::builder::HtmlBuilder;
use super::facts::Facts;
use crate::links;
use crate::table::{Entry, Table, figure, text};
use record::{LinkCoverage, LinkState};

/// Links that are neither slow nor suspected and have a row each; where there are more, they are summed up.
const MOST_ROWS: usize = 400;
/// Links of a sum that are named.
const NAMED: usize = 12;

/// What was asked of every cable, and what it carried.
pub(super) fn section(out: &mut HtmlBuilder, facts: &Facts<'_>) {
    let coverage = &facts.judgement.coverage;
    let Some(line) = links::in_one_line(coverage) else {
        out.paragraph("The run has no topology: single links are not judged.");
        return;
    };
    out.paragraph(&format!("{line}."));
    let (accused, others): (Vec<&LinkCoverage>, Vec<&LinkCoverage>) = links::in_order(coverage)
        .into_iter()
        .partition(|link| matches!(link.state, LinkState::Slow | LinkState::Suspected));
    if others.len() <= MOST_ROWS {
        let all: Vec<&LinkCoverage> = accused.into_iter().chain(others).collect();
        out.table(&links::table(&all));
        return;
    }
    out.table(&links::table(&accused));
    out.paragraph(&format!(
        "The other {} links, grouped by rail and state; findings.json has each of them.",
        others.len()
    ));
    out.table(&summed_up(&others));
}

/// Links that are alike in one row.
fn summed_up(others: &[&LinkCoverage]) -> Table {
    type LinkGroup<'a> = (LinkState, &'a str, &'a str);
    let mut kinds: BTreeMap<LinkGroup<'_>, Vec<&LinkCoverage>> = BTreeMap::new();
    for link in others {
        let kind = (
            link.state,
            link.rail.as_deref().unwrap_or("none"),
            link.why.as_deref().unwrap_or(""),
        );
        kinds.entry(kind).or_default().push(link);
    }
    let columns = [
        text("rail"),
        text("state"),
        figure("links"),
        figure("lowest share of its rate"),
        figure("median"),
        figure("highest"),
        text("links, least loaded first"),
    ];
    let mut table = Table::new("Links that are neither slow nor suspected, grouped", columns);
    for ((state, rail, why), links) in kinds {
        let mut shares: Vec<f64> = links.iter().filter_map(|link| link.share).collect();
        shares.sort_by(f64::total_cmp);
        let share =
            |share: Option<&f64>| Entry::or_dash(share.map(|share| format!("{:.0} %", share * 100.0)));
        let why = if why.is_empty() {
            String::new()
        } else {
            format!(": {why}")
        };
        let named: Vec<&str> = links.iter().take(NAMED).map(|link| link.link.as_str()).collect();
        let more = match links.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        table.row([
            Entry::from(rail),
            Entry::from(format!("{state}{why}")).toned(crate::links::tone(state)),
            Entry::ours(links.len()),
            share(shares.first()),
            share(shares.get(shares.len() / 2)),
            share(shares.last()),
            Entry::from(format!("{}{more}", named.join(", "))),
        ]);
    }
    table
}
