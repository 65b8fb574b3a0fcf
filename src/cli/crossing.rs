//! Pairs across rails: whether there is a way is found out before anything is measured on it.

use std::collections::HashSet;

use super::CliError;
use engine::measure::{CrossWay, MeasureContext, Session};
use record::{Cell, Event};

/// The cells for which there is a way. Where a pair uses two rails and nobody answers from one on the other, the record says
/// so and the cell is left out.
pub fn possible(
    cells: &[Cell],
    session: &mut Session,
    measuring: &mut MeasureContext<'_>,
) -> Result<Vec<Cell>, CliError> {
    let wanted: HashSet<CrossWay> = cells.iter().filter_map(way).collect();
    if wanted.is_empty() {
        return Ok(cells.to_vec());
    }
    let wanted: Vec<CrossWay> = wanted.into_iter().collect();
    let answers = session.check_cross_rail(&wanted)?;
    let mut left = Vec::new();
    for cell in cells {
        let hindrance = way(cell).and_then(|way| Some((answers.get(&way)?.as_ref()?, way)));
        match hindrance {
            None => left.push(cell.clone()),
            Some((why, way)) => measuring.sink.write(&Event::NotRun {
                cell: cell.id,
                reason: format!(
                    "{} of rank {} does not reach {} of rank {}: {why}",
                    way.rail, way.from, way.to_rail, way.to
                ),
            })?,
        }
    }
    measuring.sink.flush()?;
    if left.len() < cells.len() {
        measuring.progress.note(&format!(
            "{} of {} cells have no way from rail to rail",
            cells.len() - left.len(),
            cells.len()
        ));
    }
    measuring.progress.plan(left.len());
    Ok(left)
}

/// The way between different rails that a cell needs: its first rank dials.
fn way(cell: &Cell) -> Option<CrossWay> {
    let (Some(to_rail), [from, to], [rail]) = (&cell.to_rail, cell.ranks.as_slice(), cell.rails.as_slice())
    else {
        return None;
    };
    Some(CrossWay {
        from: *from,
        to: *to,
        rail: rail.clone(),
        to_rail: to_rail.clone(),
    })
}
