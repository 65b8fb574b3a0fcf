//! The whole product on GPUs, without one: the driver is the CPU shim, which runs the kernels' own source.

mod cells;
mod losses;

use crate::harness::{Bench, done};
use record::Recorded;

/// A folder with `suite`, whose commands find the shim first.
fn bench(suite: &str) -> Bench {
    Bench::new(suite).with("LD_LIBRARY_PATH", &crate::shim::folder().to_string_lossy())
}

/// Every cell was measured, every timed iteration was checked and right, and what was moved is what was planned.
fn all_is_right(recorded: &Recorded, cells: usize) {
    let done = done(recorded);
    assert_eq!(done.len(), cells);
    for cell in done {
        assert_eq!(
            cell.verified, cell.iterations,
            "cell {} was not checked",
            cell.cell
        );
        assert_eq!(cell.moved, cell.planned, "cell {}", cell.cell);
    }
    let wrong = |event: &&record::Event| matches!(event, record::Event::Corruption(_));
    assert_eq!(recorded.events.iter().find(wrong), None);
}
