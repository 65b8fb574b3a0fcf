//! Which way flows take through the fabric, asked of the fabric itself before anything is measured.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::CliError;
use engine::measure::{Progress, Session, TraceWanted, Traced};
use plan::adaptive::partners;
use plan::flow::PathTable;
use plan::{Choices, Known, Plan};
use record::{Cell, Collective, TransportKind};
use topology::graph::{Graph, Path};
use topology::suite::Suite;

/// Source ports of TCP flows start here: below what systems hand out by themselves.
const FIRST_PORT: u16 = 24_000;
/// RoCE's datagrams have source ports from 49152 on.
const FIRST_ROCE_PORT: u16 = 50_000;
/// So many ports are tried for every path there is: one path in 50 stays unseen by chance, more of them where the most that are
/// tried are fewer (of 32 paths one in five).
const PORTS_PER_PATH: usize = 4;
const FEWEST_PORTS: usize = 8;
const MOST_PORTS: usize = 48;

/// The fabric as the topology file says it. A file that cannot be about these ranks is refused.
pub fn graph(session: &Session, choices: &Choices) -> Result<Option<Arc<Graph>>, CliError> {
    let Some(topology) = &choices.topology else {
        return Ok(None);
    };
    let graph = Graph::of(topology, &session.fabric().ranks);
    graph
        .map(|graph| Some(Arc::new(graph)))
        .map_err(|error| CliError::Usage(error.to_string()))
}

/// Asks for the paths that the suite's tests need, when the fabric has several to choose from.
pub fn probe(
    session: &mut Session,
    suite: &Suite,
    choices: &Choices,
    progress: &dyn Progress,
) -> Result<Arc<PathTable>, CliError> {
    let asking: Vec<&str> = suite
        .tests
        .iter()
        .filter(|test| test.schedule.needs_paths())
        .map(|test| test.name.as_str())
        .collect();
    let (Some(graph), false) = (&choices.known.graph, asking.is_empty()) else {
        return Ok(Arc::default());
    };
    // Which transport a test will have is the plan's to say.
    let plan = Plan::new(suite, session.fabric(), choices)?;
    let of_tests = |cell: &&Cell| asking.contains(&cell.test.as_str());
    let mut ways: Vec<(TransportKind, String)> = plan
        .cells
        .iter()
        .filter(of_tests)
        .flat_map(|cell| cell.rails.iter().map(|rail| (cell.transport, rail.clone())))
        .collect();
    ways.sort();
    ways.dedup();
    let ranks: Vec<u32> = session.fabric().ranks.iter().map(|record| record.rank).collect();
    let mut wanted = Vec::new();
    for (transport, rail) in &ways {
        wanted.extend(probes(graph, &ranks, *transport, rail, suite.run.seed()));
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
        0 => "no switch tells which way a flow takes: cables between switches will not be told apart"
            .to_string(),
        _ => format!("paths of {found} of {} flows are known", wanted.len()),
    });
    Ok(Arc::new(table))
}

/// What to ask on one rail: for every pair with several ways, enough ports to meet most of them.
pub(super) fn probes(
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
            let ports = (PORTS_PER_PATH * paths).clamp(FEWEST_PORTS, MOST_PORTS) as u16;
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

/// Fills in the paths of planned flows that have one pinned source port, or one way only: whoever measures all pairs then also
/// knows which cables they crossed.
pub fn of_pinned_flows(session: &mut Session, plan: &mut Plan, graph: &Graph) -> Result<(), CliError> {
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
    for Traced { flow, hops } in session.trace(&unknown)? {
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

/// What the plan may know of the fabric.
pub fn known(
    session: &mut Session,
    suite: &Suite,
    choices: &Choices,
    progress: &dyn Progress,
) -> Result<Known, CliError> {
    let mut choices = choices.clone();
    choices.known.graph = graph(session, &choices)?;
    choices.known.paths = probe(session, suite, &choices, progress)?;
    Ok(choices.known)
}
