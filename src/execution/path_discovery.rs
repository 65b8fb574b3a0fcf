//! The paths of flows through the fabric, traced before anything is measured.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::error::CliError;
use engine::measure::{Progress, Session, TraceWanted, TracedFlow};
use plan::adaptive::partners;
use plan::flow::PathTable;
use plan::{Choices, FabricKnowledge, Plan};
use record::{Cell, Collective, TransportKind};
use topology::graph::{Graph, Path};
use topology::suite::Suite;

/// First source port of TCP flows: below the ephemeral ports.
const FIRST_PORT: u16 = 24_000;
/// First UDP source port of RoCE flows, which start at 49152.
const FIRST_ROCE_PORT: u16 = 50_000;
/// Ports tried per path: one path in 50 stays unseen by chance, more of them where [`MAX_PORTS`] is the limit (one in five of 32
/// paths).
const PORTS_PER_PATH: usize = 4;
const MIN_PORTS: usize = 8;
const MAX_PORTS: usize = 48;

/// The graph of the topology file. A file that does not fit these ranks is refused.
fn graph(session: &Session, choices: &Choices) -> Result<Option<Arc<Graph>>, CliError> {
    let Some(topology) = &choices.topology else {
        return Ok(None);
    };
    let graph = Graph::of(topology, &session.fabric().ranks);
    graph
        .map(|graph| Some(Arc::new(graph)))
        .map_err(|error| CliError::Usage(error.to_string()))
}

/// Traces the paths that the suite's tests need, where the fabric has several.
fn trace_paths(
    session: &mut Session,
    suite: &Suite,
    choices: &Choices,
    progress: &dyn Progress,
) -> Result<Arc<PathTable>, CliError> {
    let needing: Vec<&str> = suite
        .tests
        .iter()
        .filter(|test| test.schedule.needs_paths())
        .map(|test| test.name.as_str())
        .collect();
    let (Some(graph), false) = (&choices.known.graph, needing.is_empty()) else {
        return Ok(Arc::default());
    };
    // The plan decides which transport a test uses.
    let plan = Plan::new(suite, session.fabric(), choices)?;
    let of_tests = |cell: &&Cell| needing.contains(&cell.test.as_str());
    let mut transports: Vec<(TransportKind, String)> = plan
        .cells
        .iter()
        .filter(of_tests)
        .flat_map(|cell| cell.rails.iter().map(|rail| (cell.transport, rail.clone())))
        .collect();
    transports.sort();
    transports.dedup();
    let ranks: Vec<u32> = session.fabric().ranks.iter().map(|record| record.rank).collect();
    let mut wanted = Vec::new();
    for (transport, rail) in &transports {
        wanted.extend(flows_to_trace(graph, &ranks, *transport, rail, suite.run.seed()));
    }
    if wanted.is_empty() {
        return Ok(Arc::default());
    }
    let mut table = PathTable::default();
    let mut found = 0;
    for traced in session.trace(&wanted)? {
        let flow = traced.flow;
        if let Some(path) = graph.path_of_hops(flow.from, flow.to, &flow.rail, &traced.hops) {
            table.insert(flow.from, flow.to, &flow.rail, flow.port, path);
            found += 1;
        }
    }
    progress.note(&match found {
        0 => "no switch answers traces: cables between switches cannot be distinguished".to_string(),
        _ => format!("paths of {found} of {} flows are known", wanted.len()),
    });
    Ok(Arc::new(table))
}

/// The flows to trace on one rail: for every pair with several paths, enough ports to see most of them.
pub fn flows_to_trace(
    graph: &Graph,
    ranks: &[u32],
    transport: TransportKind,
    rail: &str,
    seed: u64,
) -> Vec<TraceWanted> {
    let first = match transport {
        TransportKind::Verbs => FIRST_ROCE_PORT,
        _ => FIRST_PORT,
    };
    let partners = partners(graph, ranks, rail, seed);
    let mut wanted = Vec::new();
    for from in ranks {
        for to in partners.get(from).into_iter().flatten() {
            let paths = graph.paths(*from, *to, rail).len();
            if paths < 2 {
                continue;
            }
            let ports = (PORTS_PER_PATH * paths).clamp(MIN_PORTS, MAX_PORTS) as u16;
            wanted.extend((first..first + ports).map(|port| TraceWanted {
                from: *from,
                to: *to,
                rail: rail.to_string(),
                port,
                transport,
            }));
        }
    }
    wanted
}

/// Fills in the paths of planned flows with a pinned source port or a single path, so that tests of all pairs also know which
/// cables they crossed.
pub fn trace_pinned_flows(session: &mut Session, plan: &mut Plan, graph: &Graph) -> Result<(), CliError> {
    let is_flow = |cell: &Cell| {
        cell.collective == Collective::PointToPoint
            && cell.path.is_empty()
            && cell.rails.len() == 1
            && cell.to_rail.is_none()
            && cell.flows == 1
    };
    let wanted = |cell: &Cell| match (is_flow(cell), cell.ranks.as_slice()) {
        (true, [from, to]) => Some(TraceWanted {
            from: *from,
            to: *to,
            rail: cell.rails[0].clone(),
            port: cell.port_of(*from, 0).unwrap_or(0),
            transport: cell.transport,
        }),
        _ => None,
    };
    let mut paths: HashMap<TraceWanted, Vec<String>> = HashMap::new();
    let mut unknown: HashSet<TraceWanted> = HashSet::new();
    let names = |path: &Path| path.iter().map(|link| graph.name(*link)).collect();
    for flow in plan.cells.iter().filter_map(wanted) {
        match graph.paths(flow.from, flow.to, &flow.rail).as_slice() {
            [only] => _ = paths.insert(flow, names(only)),
            [_, ..] if flow.port != 0 => _ = unknown.insert(flow),
            _ => {}
        }
    }
    let unknown: Vec<TraceWanted> = unknown.into_iter().collect();
    for TracedFlow { flow, hops } in session.trace(&unknown)? {
        if let Some(path) = graph.path_of_hops(flow.from, flow.to, &flow.rail, &hops) {
            paths.insert(flow, names(&path));
        }
    }
    for cell in &mut plan.cells {
        if let Some(path) = wanted(cell).and_then(|flow| paths.get(&flow)) {
            cell.path.clone_from(path);
        }
    }
    Ok(())
}

/// The graph and the traced paths that a plan may use.
pub fn discover(
    session: &mut Session,
    suite: &Suite,
    choices: &Choices,
    progress: &dyn Progress,
) -> Result<FabricKnowledge, CliError> {
    let mut choices = choices.clone();
    choices.known.graph = graph(session, &choices)?;
    choices.known.paths = trace_paths(session, suite, &choices, progress)?;
    Ok(choices.known)
}
