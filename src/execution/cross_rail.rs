//! Pairs across rails: whether one rail reaches the other is checked before such a pair is measured.

use std::collections::HashSet;

use crate::error::CliError;
use engine::measure::{CrossRailPath, MeasureContext, Session};
use record::{Cell, Event};

/// The cells that can be measured. A pair of rails that do not reach each other is recorded as not run.
pub fn reachable_cells(
    cells: &[Cell],
    session: &mut Session,
    measuring: &mut MeasureContext<'_>,
) -> Result<Vec<Cell>, CliError> {
    let wanted: HashSet<CrossRailPath> = cells.iter().filter_map(cross_path).collect();
    if wanted.is_empty() {
        return Ok(cells.to_vec());
    }
    let wanted: Vec<CrossRailPath> = wanted.into_iter().collect();
    let answers = session.check_cross_rail(&wanted)?;
    let mut left = Vec::new();
    for cell in cells {
        let problem = cross_path(cell).and_then(|path| Some((answers.get(&path)?.as_ref()?, path)));
        match problem {
            None => left.push(cell.clone()),
            Some((why, path)) => measuring.sink.write(&Event::NotRun {
                cell: cell.id,
                reason: format!(
                    "{} of rank {} does not reach {} of rank {}: {why}",
                    path.rail, path.from, path.to_rail, path.to
                ),
            })?,
        }
    }
    measuring.sink.flush()?;
    if left.len() < cells.len() {
        measuring.progress.note(&format!(
            "{} of {} cells need a path between rails that does not exist",
            cells.len() - left.len(),
            cells.len()
        ));
    }
    measuring.progress.plan(left.len());
    Ok(left)
}

/// The path between different rails that a cell needs; its first rank connects.
fn cross_path(cell: &Cell) -> Option<CrossRailPath> {
    let (Some(to_rail), [from, to], [rail]) = (&cell.to_rail, cell.ranks.as_slice(), cell.rails.as_slice())
    else {
        return None;
    };
    Some(CrossRailPath {
        from: *from,
        to: *to,
        rail: rail.clone(),
        to_rail: to_rail.clone(),
    })
}
