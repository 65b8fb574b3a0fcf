//! The paths of probes, traced before they are sent, and what follows from them: how fast they may be sent, and what they tell apart.

use std::collections::HashMap;

use super::adaptive::SessionMeasurer;
use super::steady_paths::TracedTwice;
use crate::error::CliError;
use engine::measure::{Progress, Session, TraceWanted};
use plan::Plan;
use plan::diagnose::Measurer;
use plan::placement::Placements;
use plan::probes::{
    Identifiability, ProbeMeasurer, aim, cover, flows_to_try, keep_few, share_out_by_paths, what_is_sent,
};
use plan::replan::LostParts;
use record::{Cell, EndReason, ProbeFlow, Recorded, StreamPath, TransportKind, text};
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
    let flows = plan.cells.iter().filter_map(|cell| cell.probes.as_ref());
    let wanted = several_ways(flows.flat_map(|terms| &terms.flows), graph);
    let known = trace(session, graph, placements, &wanted, progress)?;
    let terms = plan.cells.iter_mut().filter_map(|cell| cell.probes.as_mut());
    terms.for_each(|terms| fill_in(&mut terms.flows, graph, &known));
    keep_few(plan, graph);
    let mut tried = flows_to_try(plan, &session.fabric().ranks, graph);
    let wanted = several_ways(tried.iter(), graph);
    let known = trace(session, graph, placements, &wanted, progress)?;
    fill_in(&mut tried, graph, &known);
    cover(plan, graph, tried);
    share_out_by_paths(&mut plan.cells, graph, plan.wire);
    progress.note(&what_is_sent(plan, graph));
    let told = Identifiability::of(&plan.cells, graph);
    progress.note(&told.in_words());
    plan.untested.extend(told.untested(graph));
    Ok(())
}

fn question(flow: &ProbeFlow) -> TraceWanted {
    TraceWanted {
        from: flow.from,
        to: flow.to,
        rail: flow.rail.clone(),
        port: flow.port,
        transport: TransportKind::Udp,
    }
}

/// Those of some flows that have several paths to choose from.
fn several_ways<'f>(flows: impl Iterator<Item = &'f ProbeFlow>, graph: &Graph) -> Vec<TraceWanted> {
    let has_choice = |flow: &&ProbeFlow| graph.paths(flow.from, flow.to, &flow.rail).len() > 1;
    let mut wanted: Vec<TraceWanted> = flows.filter(has_choice).map(question).collect();
    wanted.sort_by(|a, b| (a.from, a.to, a.port, &a.rail).cmp(&(b.from, b.to, b.port, &b.rail)));
    wanted.dedup();
    wanted
}

/// The paths of flows over switches that place them by their ports.
fn trace(
    session: &mut Session,
    graph: &Graph,
    placements: &mut Placements,
    wanted: &[TraceWanted],
    progress: &dyn Progress,
) -> Result<HashMap<TraceWanted, Path>, CliError> {
    if wanted.is_empty() {
        return Ok(HashMap::new());
    }
    progress.note(&format!("tracing the paths of {} flows of probes", wanted.len()));
    let traced = session.trace(wanted)?;
    let twice = TracedTwice::trace(session, traced)?;
    twice.compare(graph, placements);
    let known: HashMap<TraceWanted, Path> = twice
        .steady_paths(session, graph, placements)?
        .into_iter()
        .collect();
    progress.note(&format!(
        "the paths of {} of {} are known",
        known.len(),
        text::counted(wanted.len(), "flow")
    ));
    Ok(known)
}

/// Fills in the paths that were traced, and those of flows that have no choice.
fn fill_in(flows: &mut [ProbeFlow], graph: &Graph, known: &HashMap<TraceWanted, Path>) {
    for flow in flows {
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

/// Sends more probes over links that could explain what is open about those sent before, from and to ranks that are there.
pub fn narrow(
    measurer: SessionMeasurer<'_, '_>,
    plan: &Plan,
    lost: &LostParts,
) -> Result<EndReason, CliError> {
    let graph = measurer.known.graph.clone();
    let has_probes = plan.cells.iter().any(|cell| cell.probes.is_some());
    let Some(graph) = graph.filter(|_| has_probes) else {
        return Ok(EndReason::Finished);
    };
    let mut prober = Prober {
        measurer,
        graph: &graph,
        lost,
    };
    aim(&mut prober, &graph, plan)
}

/// Measures with the ranks of a session that are left.
struct Prober<'a, 's, 'm> {
    measurer: SessionMeasurer<'s, 'm>,
    graph: &'a Graph,
    lost: &'a LostParts,
}

impl Measurer for Prober<'_, '_, '_> {
    type Error = CliError;

    fn measure(&mut self, why: &str, cells: &[Cell]) -> Result<EndReason, CliError> {
        self.measurer.measure(why, cells)
    }

    fn recorded(&mut self) -> Result<Recorded, CliError> {
        self.measurer.recorded()
    }
}

impl Prober<'_, '_, '_> {
    fn is_there(&self, rank: u32, rail: &str) -> bool {
        let ranks = &self.measurer.session.fabric().ranks;
        let record = ranks.iter().find(|record| record.rank == rank);
        record.is_some_and(|record| !self.lost.includes(record, rail))
    }
}

impl ProbeMeasurer for Prober<'_, '_, '_> {
    fn can_send(&self, flow: &ProbeFlow) -> bool {
        self.is_there(flow.from, &flow.rail) && self.is_there(flow.to, &flow.rail)
    }

    fn trace(&mut self, mut flows: Vec<ProbeFlow>) -> Result<Vec<ProbeFlow>, CliError> {
        flows.retain(|flow| self.can_send(flow));
        let SessionMeasurer {
            session,
            known,
            measuring,
            ..
        } = &mut self.measurer;
        let progress = measuring.progress;
        progress.note("packets were lost or late, and it is open why: probing more paths");
        let wanted = several_ways(flows.iter(), self.graph);
        let traced = trace(session, self.graph, &mut known.placements, &wanted, progress)?;
        fill_in(&mut flows, self.graph, &traced);
        Ok(flows)
    }
}
