//! The path of every stream of the plan, traced before anything is measured.
//!
//! Switches may answer only so many questions a second: they are asked again, once a second, for as long as that tells something. Some
//! streams of every leaf are traced a second time; a path that differs then belongs to a fabric that does not pin flows to paths.

use std::collections::HashMap;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::error::CliError;
use engine::measure::{Progress, Session, TraceWanted, TracedFlow};
use plan::Plan;
use record::{Cell, StreamPath};
use topology::graph::{Graph, Path};

/// Switches that answer so seldom are asked this often: once a second is what most of them are limited to.
const PACE: Duration = Duration::from_secs(1);
/// How long they are asked for the paths of all streams.
const PATIENCE: Duration = Duration::from_secs(40);
/// The same for the streams that are traced again.
const PATIENCE_AGAIN: Duration = Duration::from_secs(6);
/// After so many rounds without a path that was not known, the others stay unknown.
const MOST_ROUNDS_IN_VAIN: usize = 3;
/// Streams of a leaf that are traced again.
const AGAIN_PER_LEAF: usize = 24;

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
    let first = trace(session, &wanted, graph, PATIENCE)?;
    let whole: Vec<TraceWanted> = wanted
        .iter()
        .filter(|flow| is_whole(&first, flow))
        .cloned()
        .collect();
    let again = trace(session, &some_of_every_leaf(&whole, graph), graph, PATIENCE_AGAIN)?;
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

/// Traces flows, and asks again for as long as `patience` lasts where switches that answer others have not answered.
fn trace(
    session: &mut Session,
    wanted: &[TraceWanted],
    graph: &Graph,
    patience: Duration,
) -> Result<HashMap<TraceWanted, TracedPath>, CliError> {
    let path = |traced: &TracedFlow| {
        let TracedFlow { flow, hops, arrived } = traced;
        graph.known_links_of_hops(flow.from, flow.to, &flow.rail, hops, *arrived)
    };
    let until = Instant::now() + patience;
    let mut asked = Instant::now();
    let mut known: HashMap<TraceWanted, TracedPath> = HashMap::new();
    let mut open: Vec<TraceWanted> = Vec::new();
    let mut has_answers = false;
    for traced in session.trace(wanted)? {
        let (links, is_whole) = path(&traced);
        has_answers |= traced.hops.iter().any(Option::is_some);
        // A path whose end was not reached is not known better by asking again.
        if !is_whole && traced.arrived {
            open.push(traced.flow.clone());
        }
        known.insert(traced.flow, (links, is_whole));
    }
    let mut in_vain = 0;
    while has_answers && !open.is_empty() && in_vain < MOST_ROUNDS_IN_VAIN && Instant::now() < until {
        sleep(PACE.saturating_sub(asked.elapsed()));
        asked = Instant::now();
        let before = open.len();
        for traced in session.complete_traces(&open)? {
            let found = path(&traced);
            known.insert(traced.flow, found);
        }
        open.retain(|flow| !is_whole(&known, flow));
        in_vain = if open.len() < before { 0 } else { in_vain + 1 };
    }
    Ok(known)
}

/// A few flows of every leaf, from as many of its hosts as there are.
fn some_of_every_leaf(flows: &[TraceWanted], graph: &Graph) -> Vec<TraceWanted> {
    let mut of_rank: HashMap<(u32, &str), usize> = HashMap::new();
    let mut in_turn: Vec<(usize, &TraceWanted)> = flows
        .iter()
        .map(|flow| {
            let turn = of_rank.entry((flow.from, &flow.rail)).or_default();
            *turn += 1;
            (*turn, flow)
        })
        .collect();
    in_turn.sort_by_key(|(turn, _)| *turn);
    let mut of_leaf: HashMap<Option<&str>, usize> = HashMap::new();
    let is_wanted = |flow: &&TraceWanted| {
        let count = of_leaf.entry(graph.leaf_of(flow.from, &flow.rail)).or_default();
        *count += 1;
        *count <= AGAIN_PER_LEAF
    };
    in_turn
        .into_iter()
        .map(|(_, flow)| flow)
        .filter(is_wanted)
        .cloned()
        .collect()
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
