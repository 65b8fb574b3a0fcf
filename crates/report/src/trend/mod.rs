//! Every part over many runs, for people and for machines: what changed first, then every part with its course in a line of blocks.
//!
//! On a terminal what fits, in a log everything; a page with the courses of what changed as drawings; JSON as
//! `docs/trend.schema.json` describes it. Names that came from other machines are inert in each.

mod figure;
mod page;
mod rows;
mod text;

use std::io;

use record::{PartKind, Quantity, Trends};

pub use page::html;
pub use text::terminal;

/// Name of the page in a folder.
pub const FILE: &str = "trend.html";

/// Everything as JSON.
pub fn json(trends: &Trends) -> io::Result<String> {
    crate::json::pretty(trends)
}

/// Which parts are shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only parts whose name has this in it.
    pub part: Option<String>,
    /// Only parts of this kind.
    pub kind: Option<PartKind>,
    /// Only this quantity.
    pub quantity: Option<Quantity>,
}

impl Filter {
    fn lets(&self, kind: PartKind, part: &str, quantity: Quantity) -> bool {
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

#[cfg(test)]
mod tests;
