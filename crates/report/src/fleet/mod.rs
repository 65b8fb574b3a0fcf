//! Several runs at once: how each of them did, and which parts fail in more than one of them.
//!
//! A run that cannot be read is listed with the reason and is never healthy; the others are shown all the same. Runs are in the
//! order of their start, whatever order they were named in.

mod page;
mod runs;
mod text;

use std::io;

pub use page::html;
pub use runs::{Fleet, FleetRun, Repeated, Worst};
pub use text::{markdown, terminal};

/// Names of the files that a fleet is written to.
pub mod files {
    /// One page for a browser.
    pub const HTML: &str = "fleet.html";
    /// The same as Markdown.
    pub const MARKDOWN: &str = "fleet.md";
    /// The same for machines.
    pub const JSON: &str = "fleet.json";
}

/// The fleet as JSON.
pub fn json(fleet: &Fleet) -> io::Result<String> {
    crate::json::pretty(fleet)
}
