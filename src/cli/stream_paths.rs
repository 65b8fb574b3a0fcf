//! Which way every stream of the plan takes, asked of the fabric before anything is measured, and asked again.
//!
//! A way that is another one when asked again belongs to a fabric that does not pin flows to paths.

use std::collections::HashMap;

use super::CliError;
use engine::measure::{Progress, Session, TraceWanted, Traced};
use plan::Plan;
use record::{Cell, StreamPath};
use topology::graph::{Graph, Path};

/// What was seen of a way, and whether that is all of it.
type Seen = (Path, bool);

/// Fills in the ways of all planned streams that may take several.
pub fn ask(
    session: &mut Session,
    plan: &mut Plan,
    graph: &Graph,
    progress: &dyn Progress,
) -> Result<(), CliError> {
    let mut wanted: Vec<TraceWanted> = plan.cells.iter().flat_map(|cell| streams(cell, graph)).collect();
    wanted.sort_by_key(|flow| (flow.from, flow.to, flow.port));
    wanted.dedup();
    if wanted.is_empty() {
        return Ok(());
    }
    progress.note(&format!(
        "asking the fabric which way {} streams take",
        wanted.len()
    ));
    let first = look(session, &wanted, graph)?;
    let whole: Vec<TraceWanted> = wanted
        .iter()
        .filter(|flow| is_whole(&first, flow))
        .cloned()
        .collect();
    let again = look(session, &whole, graph)?;
    progress.note(&match whole.len() {
        0 => "no switch tells which way a stream takes: what they deliver must do".to_string(),
        known => format!(
            "the ways of {known} of {} streams are known from end to end",
            wanted.len()
        ),
    });
    for cell in &mut plan.cells {
        let ways = streams(cell, graph).into_iter().map(|flow| {
            let (path, whole) = first.get(&flow).cloned().unwrap_or_default();
            let steady = again.get(&flow).filter(|(_, again)| whole && *again);
            StreamPath {
                steady: steady.map(|(again, _)| *again == path),
                links: path.iter().map(|link| graph.name(*link)).collect(),
                whole,
            }
        });
        let ways: Vec<StreamPath> = ways.collect();
        if let Some(terms) = cell
            .streams
            .as_mut()
            .filter(|_| ways.iter().any(|way| !way.links.is_empty()))
        {
            terms.ways = ways;
        }
    }
    Ok(())
}

fn is_whole(seen: &HashMap<TraceWanted, Seen>, flow: &TraceWanted) -> bool {
    seen.get(flow).is_some_and(|(_, whole)| *whole)
}

fn look(
    session: &mut Session,
    wanted: &[TraceWanted],
    graph: &Graph,
) -> Result<HashMap<TraceWanted, Seen>, CliError> {
    let seen = session.trace(wanted)?.into_iter().map(|Traced { flow, hops }| {
        let seen = graph.known_links_of_hops(flow.from, flow.to, &flow.rail, &hops);
        (flow, seen)
    });
    Ok(seen.collect())
}

/// The streams of a cell in their order; none for other cells, and where no switch has a choice.
fn streams(cell: &Cell, graph: &Graph) -> Vec<TraceWanted> {
    let (Some(_), [from, to], [rail]) = (&cell.streams, cell.ranks.as_slice(), cell.rails.as_slice()) else {
        return Vec::new();
    };
    if graph.paths(*from, *to, rail).len() < 2 {
        return Vec::new();
    }
    let wanted = |flow| TraceWanted {
        from: *from,
        to: *to,
        rail: rail.clone(),
        port: cell.port_of(*from, flow).unwrap_or(0),
        transport: cell.transport,
    };
    (0..cell.flows).map(wanted).collect()
}
