//! The slowest rail so far, while a run goes on: a hint, never a verdict.
//!
//! Rates are compared only between peer cells (the same test, size and kind, on other parts). A cell that is measured again counts
//! once, with its last rate, so that suspects do not weigh more than the rest.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

use record::Cell;
use record::stats::{median, median_of_sorted};
use record::units::Rate;

/// The rates of every rail so far.
#[derive(Debug, Default)]
pub struct WorstRail {
    /// By what makes cells peers, then by rail.
    rates: BTreeMap<u64, BTreeMap<String, Rates>>,
}

/// A rail and its rate relative to the others.
#[derive(Debug, Clone, PartialEq)]
pub struct Lag {
    /// Rail by name.
    pub rail: String,
    /// Its median rate over that of the other rails; the median of all sizes and tests.
    pub share: f64,
}

impl fmt::Display for Lag {
    /// `rail1 at 61 % of the others`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {:.0} % of the others", self.rail, self.share * 100.0)
    }
}

impl WorstRail {
    /// Adds a cell's rate. Cells on no rail or on several are ignored.
    pub fn add(&mut self, cell: &Cell, rate: Option<Rate>) {
        let ([rail], None, Some(rate)) = (cell.rails.as_slice(), &cell.to_rail, rate) else {
            return;
        };
        if rate.0.is_finite() && rate.0 > 0.0 {
            let rails = self.rates.entry(peer_hash(cell)).or_default();
            rails.entry(rail.clone()).or_default().set(cell.id, rate.0);
        }
    }

    /// The slowest rail; none while there is nothing to compare.
    pub fn so_far(&self) -> Option<Lag> {
        let mut shares: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for rails in self.rates.values().filter(|rails| rails.len() > 1) {
            let medians: Vec<(&str, f64)> = rails
                .iter()
                .filter_map(|(rail, rates)| Some((rail.as_str(), median_of_sorted(&rates.sorted)?)))
                .collect();
            for (rail, own) in &medians {
                let others: Vec<f64> = medians
                    .iter()
                    .filter(|(other, _)| other != rail)
                    .map(|(_, rate)| *rate)
                    .collect();
                let share = median(&others).map(|others| own / others);
                shares.entry(rail).or_default().extend(share);
            }
        }
        let lags = shares.into_iter().filter_map(|(rail, shares)| {
            Some(Lag {
                rail: rail.to_string(),
                share: median(&shares)?,
            })
        });
        lags.min_by(|a, b| a.share.total_cmp(&b.share))
    }
}

/// Rates of one rail among peers.
#[derive(Debug, Default)]
struct Rates {
    last: BTreeMap<u32, f64>,
    sorted: Vec<f64>,
}

impl Rates {
    fn set(&mut self, cell: u32, rate: f64) {
        if let Some(old) = self.last.insert(cell, rate)
            && let Ok(at) = self.position(old)
        {
            self.sorted.remove(at);
        }
        let at = self.position(rate).unwrap_or_else(|at| at);
        self.sorted.insert(at, rate);
    }

    fn position(&self, rate: f64) -> Result<usize, usize> {
        self.sorted.binary_search_by(|other| other.total_cmp(&rate))
    }
}

/// The same for all peers of a cell.
fn peer_hash(cell: &Cell) -> u64 {
    let mut hasher = DefaultHasher::new();
    cell.peer_key().hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use judge::findings::fixture::Fixture;
    use record::units::Bytes;

    fn cells(rails: u32) -> Vec<Cell> {
        Fixture::rails(rails).run.cells
    }

    fn watched(cells: &[Cell], speed: impl Fn(&Cell) -> f64) -> WorstRail {
        let mut worst = WorstRail::default();
        cells
            .iter()
            .for_each(|cell| worst.add(cell, Some(Rate(speed(cell)))));
        worst
    }

    #[test]
    fn the_rail_that_lags_is_named_with_its_share_of_the_others() {
        let slow = |cell: &Cell| if cell.rails[0] == "rail2" { 6e8 } else { 1e9 };
        let lag = watched(&cells(4), slow).so_far().unwrap();
        assert_eq!(lag.to_string(), "rail2 at 60 % of the others");
    }

    #[test]
    fn a_rail_of_small_messages_is_not_called_slow_for_being_measured_at_another_size() {
        let by_size = |cell: &Cell| cell.size.0 as f64;
        let lag = watched(&cells(3), by_size).so_far().unwrap();
        assert!((lag.share - 1.0).abs() < 1e-9, "{lag}");
        let mut lonely = cells(2);
        lonely.retain(|cell| (cell.rails[0] == "rail0") == (cell.size == Bytes(1 << 20)));
        assert_eq!(
            watched(&lonely, by_size).so_far(),
            None,
            "no two rails share a size"
        );
    }

    #[test]
    fn a_cell_measured_again_counts_once_with_its_last_rate() {
        let cells = cells(2);
        let mut worst = watched(&cells, |_| 1e9);
        for rate in [1e8, 2e8, 1e9] {
            cells
                .iter()
                .filter(|cell| cell.rails[0] == "rail0")
                .for_each(|cell| worst.add(cell, Some(Rate(rate))));
        }
        assert!((worst.so_far().unwrap().share - 1.0).abs() < 1e-9);
    }

    #[test]
    fn one_rail_no_rate_or_several_rails_at_once_say_nothing() {
        assert_eq!(watched(&cells(1), |_| 1e9).so_far(), None);
        let mut worst = WorstRail::default();
        for (at, mut cell) in cells(2).into_iter().enumerate() {
            match at % 3 {
                0 => worst.add(&cell, None),
                1 => worst.add(&cell, Some(Rate(f64::NAN))),
                _ => {
                    cell.rails.push("rail9".into());
                    worst.add(&cell, Some(Rate(1.0)));
                }
            }
        }
        assert_eq!(worst.so_far(), None);
    }
}
