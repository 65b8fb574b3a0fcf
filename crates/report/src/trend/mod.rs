//! Every part over many runs, for people and for machines: what changed first, then every part with its course in a line of blocks.
//!
//! On a terminal what fits, in a log everything; a page with the courses of what changed as drawings; JSON as
//! `docs/trend.schema.json` describes it. Names that came from other machines are inert in each.

mod drawing;
mod page;
mod rows;
mod text;

use std::io;

use super::escape;
use record::{Quantity, ReadPart, Trend, Trends};

pub use page::html;
pub use text::terminal;

/// Name of the page in a folder.
pub const FILE: &str = "trend.html";

/// Everything as JSON.
pub fn json(trends: &Trends) -> io::Result<String> {
    let mut text = escape::json(&serde_json::to_string_pretty(trends)?);
    text.push('\n');
    Ok(text)
}

/// Which parts are shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only parts whose name has this in it.
    pub part: Option<String>,
    /// Only parts of this kind.
    pub kind: Option<ReadPart>,
    /// Only this quantity.
    pub quantity: Option<Quantity>,
}

impl Filter {
    fn lets(&self, kind: ReadPart, part: &str, quantity: Quantity) -> bool {
        self.part.as_ref().is_none_or(|wanted| part.contains(wanted))
            && self.kind.is_none_or(|wanted| wanted == kind)
            && self.quantity.is_none_or(|wanted| wanted == quantity)
    }

    /// What is left of `trends`: what is not shown was judged all the same, so the verdict stays.
    pub fn apply(&self, mut trends: Trends) -> Trends {
        let lets = |kind, part: &str, quantity| self.lets(kind, part, quantity);
        let kept: Vec<bool> = trends
            .changed
            .iter()
            .map(|change| {
                let is_with = || {
                    change
                        .with
                        .iter()
                        .any(|with| lets(change.kind, with, change.quantity))
                };
                lets(change.kind, &change.part, change.quantity) || is_with()
            })
            .collect();
        // Series name their change by its place.
        let place = |old: u32| {
            let old = old as usize;
            let is_kept = kept.get(old).copied().unwrap_or(false);
            is_kept.then(|| kept[..old].iter().filter(|kept| **kept).count() as u32)
        };
        trends
            .series
            .retain(|series| lets(series.kind, &series.part, series.quantity));
        for series in &mut trends.series {
            series.change = series.change.and_then(place);
        }
        let mut kept = kept.iter();
        trends.changed.retain(|_| kept.next().is_some_and(|kept| *kept));
        trends
            .over
            .retain(|past| lets(past.change.kind, &past.change.part, past.change.quantity));
        trends.replaced.retain(|replaced| {
            self.part
                .as_ref()
                .is_none_or(|wanted| replaced.part.contains(wanted))
                && self.kind.is_none_or(|wanted| wanted == replaced.kind)
        });
        trends
    }
}

/// Parts in the order of how much there is to say of them: changed ones first, then by how far the last run is from the usual, for
/// the worse.
fn ranked(trends: &Trends) -> Vec<&Trend> {
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

#[cfg(test)]
mod tests;
