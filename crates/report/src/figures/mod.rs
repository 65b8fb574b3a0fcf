//! The figures of a report: one file per kind, each a pure function from a judged run to drawings with their words.
//!
//! Held true: a run that has nothing to show gives no figure rather than an empty frame; whatever is failing is visible however large
//! the fabric is, and what is drawn together or left out is said; nothing is told by colour alone; the same facts are in words
//! ([`Figure::alternative`]); the same run gives the same bytes.

mod alone_together;
mod bandwidth;
mod cabling;
mod canvas;
pub(super) mod course;
pub(super) mod courses;
mod ecmp_load;
mod frame;
mod gpus;
mod heat_map;
mod latency;
mod pair_matrix;
pub mod palette;
mod rate_lines;
mod rows;
mod shares;
mod svg;
mod timeline;
mod times;
mod topology;

use std::io;

use super::figure::{Drawing, Figure};
use record::{Judgement, Recorded};

pub(super) use bandwidth::Bandwidth;
pub(super) use ecmp_load::{EcmpLoad, MOST_PANELS};

/// Every kind of figure there is, in the order of a report. A new one is a file here and a line in this list.
pub const DRAWINGS: &[&dyn Drawing] = &[
    &topology::Topology,
    &heat_map::HeatMap,
    &pair_matrix::PairMatrix,
    &bandwidth::Bandwidth,
    &alone_together::AloneTogether,
    &ecmp_load::EcmpLoad,
    &latency::Latency,
    &timeline::Timeline,
    &gpus::Gpus,
];

/// All figures of a run.
pub fn all(recorded: &Recorded, judgement: &Judgement) -> io::Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for drawing in DRAWINGS {
        figures.extend(drawing.figures(recorded, judgement)?);
    }
    Ok(figures)
}

/// `97 %`.
fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// `1 node`, `3 nodes`.
fn count(number: usize, of: &str) -> String {
    match number {
        1 => format!("1 {of}"),
        number => format!("{number} {of}s"),
    }
}

/// The first of them, and how many more there are.
fn listed(parts: &[String], most: usize, between: &str) -> String {
    named(parts, most, between, String::clone)
}

/// The same of parts that have yet to be named; only those that are shown are.
fn named<T>(parts: &[T], most: usize, between: &str, name: impl Fn(&T) -> String) -> String {
    let first: Vec<String> = parts.iter().take(most).map(name).collect();
    let first = first.join(between);
    match parts.len().saturating_sub(most) {
        0 => first,
        more => format!("{first}{between}and {more} more"),
    }
}

#[cfg(test)]
mod limits_tests;
#[cfg(test)]
mod proofs;
#[cfg(test)]
mod scale_tests;
