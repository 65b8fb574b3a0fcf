//! Progress of a run: a bar on a terminal, a line per tenth in a log, nothing with --quiet.
//!
//! Both show the cells done, the round, the time left and the slowest rail so far. A terminal whose cursor cannot be moved
//! (`TERM=dumb`) gets lines instead of a bar.

pub mod diagnosis;
mod worst_rail;

use std::cell::{Cell as Mutable, RefCell};
use std::fmt::Write;
use std::time::{Duration, Instant};

use indicatif::{HumanDuration, ProgressBar, ProgressState, ProgressStyle};

use self::worst_rail::WorstRail;
use crate::terminal::{self, can_move_cursor};
use engine::measure::{CellResult, Progress};
use record::Cell;
use report::escape;

/// The progress display that fits standard error.
pub fn for_stderr(quiet: bool) -> Box<dyn Progress> {
    match (quiet, can_move_cursor(&std::io::stderr())) {
        (true, _) => Box::new(QuietProgress),
        (false, true) => Box::new(BarProgress::new()),
        (false, false) => Box::new(LogProgress::new()),
    }
}

struct QuietProgress;

impl Progress for QuietProgress {
    fn plan(&self, _cells: usize) {}
    fn slot(&self, _cells: &[&Cell], _round: u16) {}
    fn cell_done(&self, _result: &CellResult<'_>) {}
    fn note(&self, _text: &str) {}
}

/// A bar, on a terminal.
struct BarProgress {
    bar: ProgressBar,
    round: Mutable<u16>,
    worst: RefCell<WorstRail>,
}

impl BarProgress {
    fn new() -> BarProgress {
        let bar = ProgressBar::new(0);
        let template = "{bar:16} {pos}/{len} cells, {prefix}{left}: {wide_msg}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(
                style.with_key("left", |state: &ProgressState, out: &mut dyn Write| {
                    let cells = state.len().unwrap_or(0) as usize;
                    // A bar that cannot be drawn must not stop a run.
                    let _ = out.write_str(&time_left(state.elapsed(), state.pos() as usize, cells));
                }),
            );
        }
        bar.set_prefix("round 1");
        BarProgress {
            bar,
            round: Mutable::new(0),
            worst: RefCell::default(),
        }
    }

    fn refresh(&self) {
        let round = self.round.get() + 1;
        let text = match self.worst.borrow().so_far() {
            Some(lag) => format!("round {round}, worst {}", escape::line(&lag.to_string())),
            None => format!("round {round}"),
        };
        self.bar.set_prefix(text);
    }
}

impl Progress for BarProgress {
    fn plan(&self, cells: usize) {
        self.bar.inc_length(cells as u64);
    }

    fn slot(&self, cells: &[&Cell], round: u16) {
        self.round.set(round);
        self.refresh();
        if let Some(first) = cells.first() {
            self.bar.set_message(escape::line(&first.describe()));
        }
    }

    fn cell_done(&self, result: &CellResult<'_>) {
        self.worst.borrow_mut().add(result.cell, result.rate);
        self.refresh();
        self.bar.inc(1);
    }

    fn note(&self, text: &str) {
        self.bar.println(escape::block(text));
    }
}

impl Drop for BarProgress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// A line for every tenth of the run, for logs.
struct LogProgress {
    started: Instant,
    cells: Mutable<usize>,
    done: Mutable<usize>,
    worst: RefCell<WorstRail>,
}

impl LogProgress {
    fn new() -> LogProgress {
        LogProgress {
            started: Instant::now(),
            cells: Mutable::new(0),
            done: Mutable::new(0),
            worst: RefCell::default(),
        }
    }
}

impl Progress for LogProgress {
    fn plan(&self, cells: usize) {
        self.cells.set(self.cells.get() + cells);
        terminal::note(format_args!("{cells} cells to measure"));
    }

    fn slot(&self, _cells: &[&Cell], _round: u16) {}

    fn cell_done(&self, result: &CellResult<'_>) {
        self.worst.borrow_mut().add(result.cell, result.rate);
        let (done, cells) = (self.done.get() + 1, self.cells.get());
        self.done.set(done);
        let tenth = (cells / 10).max(1);
        if done.is_multiple_of(tenth) || done == cells {
            let left = time_left(self.started.elapsed(), done, cells);
            let worst = self.worst.borrow().so_far();
            let worst = worst.map_or_else(String::new, |lag| format!("; worst rail so far: {lag}"));
            let rate = result.rate.map_or_else(String::new, |rate| format!(": {rate}"));
            terminal::note(format_args!(
                "{done} of {cells} cells, round {}{left}{worst}; last {}{rate}",
                result.round + 1,
                result.cell.describe()
            ));
        }
    }

    fn note(&self, text: &str) {
        terminal::note(text);
    }
}

/// `, about 3 minutes left`, extrapolated from the cells done; empty before the first cell and after the last.
fn time_left(elapsed: Duration, done: usize, cells: usize) -> String {
    match (done, cells.saturating_sub(done)) {
        (0, _) | (_, 0) => String::new(),
        (done, left) => {
            let left = elapsed.mul_f64(left as f64 / done as f64);
            format!(", about {} left", HumanDuration(left))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_is_that_of_the_cells_left() {
        assert_eq!(
            time_left(Duration::from_secs(40), 10, 40),
            ", about 2 minutes left"
        );
        assert_eq!(time_left(Duration::from_secs(30), 40, 40), "");
        assert_eq!(time_left(Duration::from_secs(30), 0, 40), "", "not known yet");
    }
}
