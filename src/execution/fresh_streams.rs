//! Streams that look wrong are repeated from fresh source ports, whose paths are traced first.

use super::stream_paths;
use crate::error::CliError;
use engine::measure::{MeasureContext, Session};
use plan::FabricKnowledge;
use plan::fresh_streams::{NextRound, with_fresh_ports, with_known_paths};
use record::{Cell, Event};

/// The cells of a new round, in which cells of fresh streams replace those that have streams. The new ones are recorded.
pub fn replace_streams(
    session: &mut Session,
    again: Vec<Cell>,
    recorded: &[Cell],
    round: u16,
    known: &FabricKnowledge,
    measuring: &mut MeasureContext<'_>,
) -> Result<Vec<Cell>, CliError> {
    let NextRound {
        as_they_are: mut cells,
        mut fresh,
        chosen,
    } = with_fresh_ports(again, recorded, round);
    if let Some(graph) = known.graph.as_ref().filter(|_| !fresh.is_empty()) {
        stream_paths::discover(session, &mut fresh, graph, true, measuring.progress)?;
    }
    let why = "streams from fresh ports, to confirm how suspects are spread";
    add(why, &fresh, measuring)?;
    add(
        "streams of known paths once more, to confirm what links carry",
        &chosen,
        measuring,
    )?;
    cells.extend(fresh);
    cells.extend(chosen);
    Ok(cells)
}

/// The streams whose paths are known, as new cells, where too many others are not known to judge what links carry. They are recorded.
pub fn known_streams(recorded: &[Cell], measuring: &mut MeasureContext<'_>) -> Result<Vec<Cell>, CliError> {
    let chosen = with_known_paths(recorded);
    let why = "streams of known paths alone: what do links carry?";
    add(why, &chosen, measuring)?;
    Ok(chosen)
}

/// Records new cells, if there are any.
fn add(why: &str, cells: &[Cell], measuring: &mut MeasureContext<'_>) -> Result<(), CliError> {
    if cells.is_empty() {
        return Ok(());
    }
    measuring.sink.write(&Event::Added {
        why: why.to_string(),
        cells: cells.to_vec(),
    })?;
    measuring.sink.flush()?;
    Ok(())
}
