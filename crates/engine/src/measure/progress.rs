//! Progress of a run, for a terminal or a log.

use record::Cell;
use record::units::Rate;

/// Receives the progress of a run.
pub trait Progress {
    /// This many cells will be measured; called again when suspects are measured again.
    fn plan(&self, cells: usize);
    /// A slot is about to be measured.
    fn slot(&self, cells: &[&Cell], round: u16);
    /// A cell is done.
    fn cell_done(&self, result: &CellResult<'_>);
    /// A message for the operator.
    fn note(&self, text: &str);
}

/// The result of a finished cell.
pub struct CellResult<'a> {
    /// The cell.
    pub cell: &'a Cell,
    /// Measurement round.
    pub round: u16,
    /// Times of the timed iterations, ascending.
    pub times: &'a [u64],
    /// Wrong elements found, over all iterations and ranks; none when nothing was checked.
    pub wrong: Option<u64>,
    /// Median wire rate of the busiest link.
    pub rate: Option<Rate>,
}
