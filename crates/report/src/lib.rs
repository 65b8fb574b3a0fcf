//! Rendering a judged run: pure functions from the record and its judgement to text.
//!
//! Held true: the same input gives the same bytes; names that came from other machines are data and stay inert in every
//! format ([`escape`]); a file is either the old one or the new one, never half of one.

mod cells;
pub mod certificate;
pub mod compare;
mod congestion;
mod counters;
mod csv;
mod ecmp;
mod engines;
pub mod escape;
pub mod figure;
pub mod figures;
pub mod fleet;
mod gpus;
mod history;
mod html;
pub mod inventory;
mod json;
mod junit;
mod links;
mod markdown;
mod metrics;
mod probes;
mod rdma;
#[cfg(test)]
mod schema;
mod summary;
mod table;
pub mod terminal;
mod traffic;
pub mod trend;
mod verdict_words;
mod writer;

use std::io;
use std::path::Path;

pub use record::replace;
use record::{Judgement, Recorded};
pub use writer::Writer;

/// Every file a report consists of. A new format is a file here and a line in this list.
pub const WRITERS: &[&dyn Writer] = &[
    &json::Findings,
    &json::Readings,
    &figures::Bandwidth,
    &figures::EcmpLoad,
    &markdown::Markdown,
    &junit::JUnit,
    &metrics::Metrics,
    &summary::Summary,
    &html::Html,
];

/// Files that are written only on request.
pub const ON_REQUEST: &[&dyn Writer] = &[&csv::Csv];

/// The writer of the file of this name.
pub fn writer_of(file: &str) -> Option<&'static dyn Writer> {
    let mut writers = WRITERS.iter().chain(ON_REQUEST);
    writers.find(|writer| writer.file() == file).copied()
}

/// Writes every report into the folder of the run, each atomically.
pub fn write_all(folder: &Path, recorded: &Recorded, judgement: &Judgement) -> io::Result<()> {
    for writer in WRITERS.iter().filter(|writer| writer.is_wanted(judgement)) {
        let content = writer.render(recorded, judgement)?;
        replace(&folder.join(writer.file()), content.as_bytes())?;
    }
    Ok(())
}

#[cfg(test)]
mod compare_tests;
#[cfg(test)]
mod contrast_tests;
#[cfg(test)]
mod fleet_tests;
#[cfg(test)]
mod gpus_tests;
#[cfg(test)]
mod history_tests;
#[cfg(test)]
mod hostile_tests;
#[cfg(test)]
mod junit_tests;
#[cfg(test)]
mod report_tests;
#[cfg(test)]
mod stability_tests;
#[cfg(test)]
mod summary_tests;
#[cfg(test)]
mod terminal_tests;
