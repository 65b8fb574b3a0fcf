//! Streams that look wrong are repeated from fresh source ports, whose paths are traced first.

use super::stream_paths;
use crate::error::CliError;
use engine::measure::{MeasureContext, Session};
use plan::FabricKnowledge;
use plan::fresh_streams::with_fresh_ports;
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
    let (mut cells, mut fresh) = with_fresh_ports(again, recorded, round);
    if fresh.is_empty() {
        return Ok(cells);
    }
    if let Some(graph) = &known.graph {
        stream_paths::discover(session, &mut fresh, graph, measuring.progress)?;
    }
    measuring.sink.write(&Event::Added {
        why: "streams from fresh ports, to confirm how suspects are spread".to_string(),
        cells: fresh.clone(),
    })?;
    measuring.sink.flush()?;
    cells.extend(fresh);
    Ok(cells)
}
