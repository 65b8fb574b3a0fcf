//! The paths of flows through the fabric, traced before anything is measured.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::steady_paths::{CONTROL_PORTS, TracedTwice, are_rationed, control_flows, controls};
use crate::error::CliError;
use engine::measure::{Progress, Session, TraceWanted, TracedFlow};
use plan::adaptive::partners;
use plan::flow::PathTable;
use plan::line_rate::LineRates;
use plan::placement::Placements;
use plan::traffic::{first_port, pairs_to_trace};
use plan::{Choices, FabricKnowledge, Plan};
use record::{Cell, Collective, MiscabledRecord, TestKind, TransportKind, UnusedCableRecord, text};
use topology::discover::SeenPath;
use topology::graph::{Graph, Miswiring, Path, UnusedCable, UseEvidence, WiringEvidence, WrongCable};
use topology::suite::{Suite, TestCase};

/// First source port of TCP flows: below the ephemeral ports.
const FIRST_PORT: u16 = plan::traffic::FIRST_PORT;
/// First UDP source port of RoCE flows, which start at 49152.
const FIRST_ROCE_PORT: u16 = plan::traffic::FIRST_ROCE_PORT;
/// Ports tried per path: one path in 50 stays unseen by chance, more of them where [`MAX_PORTS`] is the limit (one in five of 32
/// paths).
const PORTS_PER_PATH: usize = 4;
const MIN_PORTS: usize = 8;
const MAX_PORTS: usize = 48;
/// Where nothing is known of the fabric: receivers of a rank that several flows are traced to.
const WELL_TRACED: usize = 24;
/// First source port of TCP flows that are not traced.
pub const FIRST_FRESH_PORT: u16 = FIRST_PORT + MAX_PORTS as u16 + CONTROL_PORTS;

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
    choices: &mut Choices,
    progress: &dyn Progress,
) -> Result<Arc<PathTable>, CliError> {
    let needing: Vec<&str> = suite
        .tests
        .iter()
        .filter(|test| test.needs_paths())
        .map(|test| test.name.as_str())
        .collect();
    let (Some(graph), false) = (choices.known.graph.clone(), needing.is_empty()) else {
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
        let on = (*transport, rail.as_str());
        wanted.extend(flows_of_tests(suite, &graph, &ranks, on, suite.run.seed()));
    }
    if wanted.is_empty() {
        return Ok(Arc::default());
    }
    let mut table = PathTable::default().with_fresh_ports(first_fresh_port(&transports));
    // Switches may answer only so many questions: first those that say whether paths are steady.
    let controls = TracedTwice::at_choices(session, &graph, &controls(&wanted))?;
    choices.known.controls = control_flows(controls.first().to_vec());
    let traced = session.trace(&wanted)?;
    let twice = match controls.settle(&graph, &traced) {
        true => TracedTwice::once(traced.clone()),
        false => TracedTwice::trace(session, traced.clone())?,
    };
    let compared = |graph: &Graph| {
        let mut placements = Placements::default();
        controls.compare(graph, &mut placements);
        twice.compare(graph, &mut placements);
        placements
    };
    let mut placements = compared(&graph);
    let corrected = true_graph(
        session,
        choices,
        Arc::clone(&graph),
        &twice,
        &placements,
        progress,
    )?;
    if !Arc::ptr_eq(&graph, &corrected) {
        placements = compared(&corrected);
    }
    let graph = corrected;
    let steady = twice.steady_paths(session, &graph, &mut placements)?;
    for (flow, path) in &steady {
        table.insert(flow.from, flow.to, &flow.rail, flow.port, path.clone());
    }
    let half_known = twice.half_known(&graph, &placements);
    let known = [steady.len(), half_known.len(), wanted.len()];
    for (flow, hops) in half_known {
        table.insert_half_known(flow.from, flow.to, &flow.rail, (flow.port, hops));
    }
    table = table
        .with_spraying(placements.spraying())
        .told_afterwards(!choices.known.controls.is_empty());
    let telling = telling_of_use(&traced, controls.first());
    note_unused(telling, &graph, &placements, &mut choices.known, progress);
    choices.known.placements = placements.clone();
    progress.note(&what_is_known(known, &placements));
    Ok(Arc::new(table))
}

/// What is said about paths once they were asked for: of how many flows they are known, of how many others some switches, of all.
fn what_is_known([known, half_known, of]: [usize; 3], placements: &Placements) -> String {
    let (unsteady, spraying) = (placements.unsteady().count(), placements.spraying().count());
    let switches = |count: usize| text::counted_as(count, "switch", "switches");
    match (known, half_known, unsteady) {
        (_, _, 1..) if spraying > 0 => format!(
            "{} place{} every packet anew: cables between switches are judged by all hosts of a leaf together",
            switches(spraying),
            if spraying == 1 { "s" } else { "" }
        ),
        (_, _, 1..) => format!(
            "{} placed the same flow on different paths: the paths of {known} of {of} flows are known beforehand; those of others are \
             asked for within their connections, or judged by their probabilities",
            switches(unsteady)
        ),
        (0, 0, 0) => {
            "no switch answers traces: cables between switches are judged by many connections".to_string()
        }
        (_, 0, 0) => format!("paths of {known} of {of} flows are known"),
        _ => format!(
            "paths of {known} of {of} flows are known, and of {half_known} the switches, but not each cable: those are judged by many \
             connections"
        ),
    }
}

/// The first source port that traced flows do not use.
fn first_fresh_port(transports: &[(TransportKind, String)]) -> u16 {
    let is_roce = |(transport, _): &(TransportKind, String)| *transport == TransportKind::Verbs;
    first_control_port(transports.iter().any(is_roce)) + CONTROL_PORTS
}

pub fn first_control_port(is_roce: bool) -> u16 {
    (if is_roce { FIRST_ROCE_PORT } else { FIRST_PORT }) + MAX_PORTS as u16
}

/// The graph of the cables as they are: where traces contradict the topology, it is corrected.
fn true_graph(
    session: &Session,
    choices: &mut Choices,
    written: Arc<Graph>,
    twice: &TracedTwice,
    placements: &Placements,
    progress: &dyn Progress,
) -> Result<Arc<Graph>, CliError> {
    let is_unsteady = placements.unsteady().next().is_some();
    let mut evidence = WiringEvidence::default();
    for TracedFlow { flow, hops, .. } in twice.first() {
        // Where every connection takes another path, so does every question: one switch does not follow another, but on the sender's.
        let reliable = if is_unsteady {
            hops.len().min(2)
        } else {
            hops.len()
        };
        evidence.note(&written, flow.from, &flow.rail, &hops[..reliable]);
    }
    let miswiring = evidence.miswiring(&written);
    for [one, other] in &miswiring.swapped {
        progress.note(&format!(
            "cables {} and {} are swapped against the topology file",
            one.cable, other.cable
        ));
    }
    for wrong in &miswiring.moved {
        progress.note(&format!(
            "the port of cable {} is connected to {}, not to {} as in the topology file",
            wrong.cable, wrong.found, wrong.written
        ));
    }
    let mut corrected = choices.topology.clone();
    if let Some(topology) = corrected.as_mut().filter(|_| !miswiring.swapped.is_empty()) {
        for [one, other] in &miswiring.swapped {
            topology.swap_cables(&one.cable, &other.cable);
        }
        choices.topology = corrected;
        choices.known.graph = graph(session, choices)?;
    }
    choices.known.miswiring.swapped.extend(miswiring.swapped);
    choices.known.miswiring.moved = miswiring.moved;
    let mut graph = choices.known.graph.clone().unwrap_or(written);
    if evidence.answers_leave_anywhere() {
        graph = Arc::new(Graph::clone(&graph).with_answers_of_switches());
        choices.known.graph = Some(Arc::clone(&graph));
    }
    Ok(graph)
}

/// The flows that tell which cables are used. Where answers are rationed, whether a flow's path is known depends on the path: switches that had least to
/// answer tell of more flows. Only those that were asked for first are known whatever they take.
fn telling_of_use<'t>(traced: &'t [TracedFlow], asked_first: &'t [TracedFlow]) -> &'t [TracedFlow] {
    match are_rationed(traced) {
        true => asked_first,
        false => traced,
    }
}

/// Finds the cables that no flow takes, where paths are steady and every cable is where the file says.
fn note_unused(
    traced: &[TracedFlow],
    graph: &Graph,
    placements: &Placements,
    known: &mut FabricKnowledge,
    progress: &dyn Progress,
) {
    if placements.unsteady().next().is_some() || !known.miswiring.moved.is_empty() {
        return;
    }
    let mut evidence = UseEvidence::default();
    for TracedFlow { flow, hops, .. } in traced {
        evidence.note(graph, flow.from, flow.to, &flow.rail, hops);
    }
    known.unused = evidence.unused(graph);
    let names: Vec<String> = known.unused.iter().map(|unused| unused.cable.clone()).collect();
    if !names.is_empty() {
        let cables = if names.len() == 1 { "cable" } else { "cables" };
        progress.note(&format!("no flow takes {cables} {}", text::list(&names)));
    }
}

/// The cables that no flow takes, for the record.
pub fn unused(known: &FabricKnowledge) -> Vec<UnusedCableRecord> {
    let record = |unused: &UnusedCable| UnusedCableRecord {
        cable: unused.cable.clone(),
        flows: unused.flows,
        expected: unused.expected,
    };
    known.unused.iter().map(record).collect()
}

/// The cables that are elsewhere than the topology file says, for the record.
pub fn miscabled(miswiring: &Miswiring) -> Vec<Vec<MiscabledRecord>> {
    let record = |wrong: &WrongCable| MiscabledRecord {
        cable: wrong.cable.clone(),
        written: wrong.written.clone(),
        found: wrong.found.clone(),
        answers: wrong.answers,
    };
    let swapped = miswiring
        .swapped
        .iter()
        .map(|pair| pair.iter().map(record).collect());
    let moved = miswiring.moved.iter().map(|wrong| vec![record(wrong)]);
    swapped.chain(moved).collect()
}

/// Who answers for flows between all ranks, when nothing is known of the fabric.
pub fn trace_everything(session: &mut Session, progress: &dyn Progress) -> Result<Vec<SeenPath>, CliError> {
    let fabric = session.fabric();
    let ranks: Vec<u32> = fabric.ranks.iter().map(|record| record.rank).collect();
    let mut wanted = Vec::new();
    for rail in fabric.common_rails() {
        for (place, from) in ranks.iter().enumerate() {
            // One flow to every rank shows who is at the same leaf; several to some, starting elsewhere for each, show all spines.
            let others = ranks.iter().cycle().skip(place + 1).take(ranks.len() - 1);
            for (turn, to) in others.enumerate() {
                let ports = if turn < WELL_TRACED { MIN_PORTS as u16 } else { 1 };
                wanted.extend((0..ports).map(|number| TraceWanted {
                    from: *from,
                    to: *to,
                    rail: rail.to_string(),
                    port: FIRST_PORT + number,
                    transport: TransportKind::Tcp,
                }));
            }
        }
    }
    progress.note(&format!(
        "tracing {} flows between {} ranks",
        wanted.len(),
        ranks.len()
    ));
    let seen = session
        .trace_patiently(&wanted)?
        .into_iter()
        .filter(|traced| traced.arrived);
    let seen = seen.map(|TracedFlow { flow, hops, .. }| SeenPath {
        from: flow.from,
        to: flow.to,
        rail: flow.rail,
        hops,
    });
    Ok(seen.collect())
}

/// The flows to trace on one rail for the tests of a suite: those that cross every cable, and those that patterns of traffic are made of.
pub fn flows_of_tests(
    suite: &Suite,
    graph: &Graph,
    ranks: &[u32],
    (transport, rail): (TransportKind, &str),
    seed: u64,
) -> Vec<TraceWanted> {
    let mut wanted = Vec::new();
    // A simulation traces for any suite.
    let is_of_patterns = |test: &&TestCase| test.kind == TestKind::Permutation;
    let has_others = suite.tests.iter().any(|test| test.schedule.needs_paths());
    let flows = suite.tests.iter().filter(is_of_patterns).map(|test| test.flows);
    let flows = flows.max();
    if has_others || flows.is_none() {
        wanted = flows_to_trace(graph, ranks, transport, rail, seed);
    }
    let first = first_port(transport);
    let pairs = flows.map(|_| pairs_to_trace(graph, ranks, rail));
    for (from, to) in pairs.into_iter().flatten() {
        let ports = first..first + flows.unwrap_or(1);
        let of_pair = ports.map(|port| TraceWanted {
            from,
            to,
            rail: rail.to_string(),
            port,
            transport,
        });
        wanted.extend(of_pair);
    }
    let mut seen = HashSet::new();
    wanted.retain(|flow| seen.insert((flow.from, flow.to, flow.port)));
    wanted
}

/// The flows to trace on one rail: for every pair with several paths, enough ports to see most of them.
fn flows_to_trace(
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
        let of_rank = wanted.len();
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
        // Where switches soon stop answering, something is known of every receiver.
        wanted[of_rank..].sort_by_key(|flow| flow.port);
    }
    wanted
}

/// Fills in the paths of planned flows with a pinned source port or a single path, so that tests of all pairs also know which
/// cables they crossed. Flows that were planned because no path is known are left as they are.
pub fn trace_pinned_flows(
    session: &mut Session,
    plan: &mut Plan,
    graph: &Graph,
    known: &PathTable,
    placements: &mut Placements,
) -> Result<(), CliError> {
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
            [_, ..] if flow.port != 0 && !known.is_fresh(flow.port) => _ = unknown.insert(flow),
            _ => {}
        }
    }
    let unknown: Vec<TraceWanted> = unknown.into_iter().collect();
    let first = session.trace(&unknown)?;
    let twice = TracedTwice::trace(session, first)?;
    twice.compare(graph, placements);
    for (flow, path) in twice.steady_paths(session, graph, placements)? {
        paths.insert(flow, names(&path));
    }
    for cell in &mut plan.cells {
        if let Some(path) = wanted(cell).and_then(|flow| paths.get(&flow)) {
            cell.path.clone_from(path);
        }
    }
    LineRates::of(Cow::Borrowed(graph)).note(&mut plan.cells);
    Ok(())
}

/// Adds to `choices` the graph and the traced paths that a plan may use, and puts wrong cables of the topology right.
pub fn discover(
    session: &mut Session,
    suite: &Suite,
    choices: &Choices,
    progress: &dyn Progress,
) -> Result<Choices, CliError> {
    let mut choices = choices.clone();
    choices.known = FabricKnowledge {
        graph: graph(session, &choices)?,
        // What was found wrong before is not seen again in a topology that was put right.
        miswiring: choices.known.miswiring.clone(),
        ..FabricKnowledge::default()
    };
    choices.known.paths = trace_paths(session, suite, &mut choices, progress)?;
    Ok(choices)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_answers_are_rationed_flows_that_were_asked_for_late_do_not_tell_which_cables_are_used() {
        let traced = |hops: [bool; 3]| TracedFlow {
            flow: TraceWanted {
                from: 0,
                to: 1,
                rail: "rail0".to_string(),
                port: FIRST_PORT,
                transport: TransportKind::Tcp,
            },
            hops: hops
                .map(|is_known| is_known.then_some([10, 0, 0, 1].into()))
                .to_vec(),
            arrived: true,
        };
        let controls = [traced([false, true, false])];
        let rationed = [traced([true, true, true]), traced([false, false, true])];
        assert_eq!(telling_of_use(&rationed, &controls), controls);
        let answered = [traced([true, true, true]), traced([true, true, true])];
        assert_eq!(telling_of_use(&answered, &controls), answered);
        // A tier that never answers is silent.
        let silent = [traced([true, false, true]), traced([true, false, true])];
        assert_eq!(telling_of_use(&silent, &controls), silent);
    }

    #[test]
    fn what_is_said_about_paths_tells_silence_from_answers_that_name_switches_only() {
        let said = |known| what_is_known(known, &Placements::default());
        assert!(said([0, 0, 40]).starts_with("no switch answers"));
        assert_eq!(said([39, 0, 40]), "paths of 39 of 40 flows are known");
        assert!(said([2, 38, 40]).starts_with("paths of 2 of 40 flows are known, and of 38 the switches"));
    }
}
