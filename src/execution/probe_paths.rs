//! The paths of probes, traced before they are sent, and what follows from them: how fast they may be sent, and what they tell apart.

use std::collections::HashMap;

use super::steady_paths::TracedTwice;
use crate::error::CliError;
use engine::measure::{Progress, Session, TraceWanted};
use plan::Plan;
use plan::placement::Placements;
use plan::probes::{Identifiability, share_out_by_paths, what_is_sent};
use record::{Cell, StreamPath, TransportKind, text};
use topology::graph::{Graph, Path};

/// Fills in the paths of all probes that have several to choose from, where they are steady, and notes how switches place them.
pub fn discover(
    session: &mut Session,
    plan: &mut Plan,
    graph: &Graph,
    placements: &mut Placements,
    progress: &dyn Progress,
) -> Result<(), CliError> {
    if plan.cells.iter().all(|cell| cell.probes.is_none()) {
        return Ok(());
    }
    let mut wanted: Vec<TraceWanted> = plan
        .cells
        .iter()
        .flat_map(|cell| several_ways(cell, graph))
        .collect();
    wanted.sort_by_key(|flow| (flow.from, flow.to, flow.port));
    wanted.dedup();
    let mut known: HashMap<TraceWanted, Path> = HashMap::new();
    if !wanted.is_empty() {
        progress.note(&format!("tracing the paths of {} flows of probes", wanted.len()));
        let traced = session.trace(&wanted)?;
        let twice = TracedTwice::trace(session, traced)?;
        twice.compare(graph, placements);
        known.extend(twice.steady_paths(session, graph, placements)?);
        progress.note(&format!(
            "the paths of {} of {} are known",
            known.len(),
            text::counted(wanted.len(), "flow")
        ));
    }
    for cell in &mut plan.cells {
        let Some(terms) = &mut cell.probes else { continue };
        for flow in &mut terms.flows {
            let only = || match graph.paths(flow.from, flow.to, &flow.rail).as_slice() {
                [path] => Some(path.clone()),
                _ => None,
            };
            let path = known.get(&question(flow)).cloned().or_else(only);
            flow.way = path.map(|path| StreamPath {
                links: path.iter().map(|link| graph.name(*link)).collect(),
                whole: true,
                steady: None,
            });
        }
    }
    share_out_by_paths(&mut plan.cells, graph, plan.wire);
    progress.note(&what_is_sent(plan, graph));
    let told = Identifiability::of(&plan.cells, graph);
    progress.note(&told.in_words());
    plan.untested.extend(told.untested(graph));
    Ok(())
}

fn question(flow: &record::ProbeFlow) -> TraceWanted {
    TraceWanted {
        from: flow.from,
        to: flow.to,
        rail: flow.rail.clone(),
        port: flow.port,
        transport: TransportKind::Udp,
    }
}

fn several_ways(cell: &Cell, graph: &Graph) -> Vec<TraceWanted> {
    let flows = cell.probes.iter().flat_map(|terms| &terms.flows);
    let has_choice = |flow: &&record::ProbeFlow| graph.paths(flow.from, flow.to, &flow.rail).len() > 1;
    flows.filter(has_choice).map(question).collect()
}
