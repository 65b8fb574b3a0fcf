//! How much too long the time of a cell may be because its ranks did not start together (docs/method.md, "Clocks").
//!
//! A rank that starts early waits for the others, and its wait is part of the time. What the coordinator saw of that is in the
//! samples like any other noise. What it could not see, because clocks are not known better, is the same in every iteration: no
//! number of them shows it. It is recorded with every round. A clock that turns out to have jumped may have done so at any time
//! since it was compared last.

use std::collections::HashMap;

use record::units::Nanos;
use record::{Cell, Event, Recorded};

/// Of a time, at least this share is taken to be the collective's own.
const OWN_SHARE: f64 = 0.1;

/// For every cell by how much its time may be too long; `place_of` has the places of cells by their ids.
pub(super) fn unseen_skews(recorded: &Recorded, place_of: &HashMap<u32, usize>) -> Vec<Nanos> {
    let cells = &recorded.run.cells;
    let mut skews = vec![Nanos(0); cells.len()];
    // Cells that are done, with what is known of their skew, in the order they were done.
    let mut done: Vec<(usize, Nanos)> = Vec::new();
    // How many were done when the clock of a rank was compared last.
    let mut compared: HashMap<u32, usize> = HashMap::new();
    for event in &recorded.events {
        match event {
            Event::CellDone(cell) => {
                if let (Some(place), Some(skew)) = (place_of.get(&cell.cell), cell.unseen_skew_ns) {
                    done.push((*place, skew));
                    skews[*place] = skews[*place].max(skew);
                }
            }
            Event::Clock(comparison) => {
                let since = comparison.ranks.iter().map(|rank| compared.get(rank).copied());
                let since = since.map(Option::unwrap_or_default).min().unwrap_or(0);
                if let Some(jump) = comparison.jump_ns {
                    let jump = Nanos(jump.unsigned_abs()) + Nanos(comparison.uncertainty_ns);
                    for (place, skew) in &done[since..] {
                        if is_between(&cells[*place], &comparison.ranks) {
                            skews[*place] = skews[*place].max(*skew + jump);
                        }
                    }
                }
                compared.extend(comparison.ranks.iter().map(|rank| (*rank, done.len())));
            }
            _ => {}
        }
    }
    // A batch starts once, and its time is shared by its collectives.
    let per_collective = |(skew, cell): (Nanos, &Cell)| Nanos(skew.0 / u64::from(cell.batch.max(1)));
    skews.into_iter().zip(cells).map(per_collective).collect()
}

/// Whether a cell runs between ranks with this clock and others.
fn is_between(cell: &Cell, ranks: &[u32]) -> bool {
    let have_it = cell.ranks.iter().filter(|rank| ranks.contains(rank)).count();
    have_it > 0 && have_it < cell.ranks.len()
}

/// The shortest that a time of so many nanoseconds may really have been.
pub(super) fn without_skew(time: f64, skew: Nanos) -> f64 {
    (time - skew.0 as f64).max(time * OWN_SHARE)
}
