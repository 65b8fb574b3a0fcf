//! What a person sees while a run goes on: a bar on a terminal, a line per slot in a log, nothing when asked.

use std::cell::Cell as Mutable;

use indicatif::{ProgressBar, ProgressStyle};

use super::say::tell;
use crate::measure::{CellResult, Progress};
use crate::record::Cell;
use crate::report::escape;

/// Says nothing.
pub struct Silent;

impl Progress for Silent {
    fn plan(&self, _cells: usize) {}
    fn slot(&self, _cells: &[&Cell], _round: u16) {}
    fn cell_done(&self, _result: &CellResult<'_>) {}
    fn note(&self, _text: &str) {}
}

/// A bar that moves, on a terminal.
pub struct Watched {
    bar: ProgressBar,
}

impl Watched {
    /// A bar of unknown length.
    pub fn new() -> Watched {
        let bar = ProgressBar::new(0);
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} cells, {eta} left: {wide_msg}")
        {
            bar.set_style(style);
        }
        Watched { bar }
    }
}

impl Progress for Watched {
    fn plan(&self, cells: usize) {
        self.bar.inc_length(cells as u64);
    }

    fn slot(&self, cells: &[&Cell], _round: u16) {
        self.bar.set_message(escape::line(&cells[0].describe()));
    }

    fn cell_done(&self, _result: &CellResult<'_>) {
        self.bar.inc(1);
    }

    fn note(&self, text: &str) {
        self.bar.println(escape::block(text));
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// A line for every tenth of the run, for logs.
#[derive(Default)]
pub struct Plain {
    cells: Mutable<usize>,
    done: Mutable<usize>,
}

impl Progress for Plain {
    fn plan(&self, cells: usize) {
        self.cells.set(self.cells.get() + cells);
        eprintln!("{cells} cells to measure");
    }

    fn slot(&self, _cells: &[&Cell], _round: u16) {}

    fn cell_done(&self, result: &CellResult<'_>) {
        let (done, cells) = (self.done.get() + 1, self.cells.get());
        self.done.set(done);
        let tenth = (cells / 10).max(1);
        if done.is_multiple_of(tenth) || done == cells {
            let rate = result.rate.map_or_else(String::new, |rate| format!(": {rate}"));
            tell(format_args!(
                "{done} of {cells} cells; last {}{rate}",
                result.cell.describe()
            ));
        }
    }

    fn note(&self, text: &str) {
        tell(text);
    }
}
