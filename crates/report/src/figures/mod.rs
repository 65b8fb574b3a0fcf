//! The figures of a report: one file per kind, each a pure function from a judged run to drawings with their words.
//!
//! Held true: a run that has nothing to show gives no figure rather than an empty frame; whatever is failing is visible however large
//! the fabric is, and what is drawn together or left out is said; nothing is shown by colour alone; the same facts are in words
//! ([`Figure::alternative`]); the same run gives the same bytes.

mod alone_together;
mod bandwidth;
mod cabling;
mod canvas;
pub(super) mod cycle_chart;
mod ecmp_load;
mod frame;
mod gpus;
mod heat_map;
mod iterations;
mod latency;
mod loss_map;
mod node_rows;
mod pair_matrix;
pub mod palette;
mod rate_lines;
pub(super) mod run_chart;
mod shares;
mod svg;
mod timeline;
mod topology;

use std::io;

use crate::figure::{Figure, FigureKind};
use record::{Judgement, Recorded};

pub(super) use bandwidth::Bandwidth;
pub(super) use ecmp_load::EcmpLoad;

/// Every kind of figure there is, in the order of a report. A new one is a file here and a line in this list.
pub const FIGURE_KINDS: &[&dyn FigureKind] = &[
    &topology::Topology,
    &loss_map::LossMap,
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
    for kind in FIGURE_KINDS {
        figures.extend(kind.figures(recorded, judgement)?);
    }
    Ok(figures)
}

#[cfg(test)]
mod limits_tests;
#[cfg(test)]
mod scale_tests;
#[cfg(test)]
mod tests;
