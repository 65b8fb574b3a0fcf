//! The path of every stream of the plan, traced twice before anything is measured.
//!
//! A path that differs in the second trace belongs to a fabric that does not pin flows to paths.

use std::collections::HashMap;

use crate::error::CliError;
use engine::measure::{Progress, Session, TraceWanted, TracedFlow};
use plan::Plan;
use record::{Cell, StreamPath};
use topology::graph::{Graph, Path};

/// The known links of a path, and whether they are all of it.
type TracedPath = (Path, bool);

/// Fills in the paths of all planned streams that have several to choose from.
pub fn discover(
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
    progress.note(&format!("tracing the paths of {} streams", wanted.len()));
    let first = trace(session, &wanted, graph)?;
    let whole: Vec<TraceWanted> = wanted
        .iter()
        .filter(|flow| is_whole(&first, flow))
        .cloned()
        .collect();
    let again = trace(session, &whole, graph)?;
    progress.note(&match whole.len() {
        0 => "no switch answers traces: streams are judged by their rates alone".to_string(),
        known => format!(
            "the paths of {known} of {} streams are known from end to end",
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

fn is_whole(traced: &HashMap<TraceWanted, TracedPath>, flow: &TraceWanted) -> bool {
    traced.get(flow).is_some_and(|(_, whole)| *whole)
}

fn trace(
    session: &mut Session,
    wanted: &[TraceWanted],
    graph: &Graph,
) -> Result<HashMap<TraceWanted, TracedPath>, CliError> {
    let traced = session
        .trace(wanted)?
        .into_iter()
        .map(|TracedFlow { flow, hops }| {
            let path = graph.known_links_of_hops(flow.from, flow.to, &flow.rail, &hops);
            (flow, path)
        });
    Ok(traced.collect())
}

/// The streams of a cell in order; none where there is only one path.
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
