//! Which paths are steady: flows traced again, in another connection, before, between and after measurements.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::path_discovery::first_control_port;
use crate::error::CliError;
use engine::measure::{PathQuestion, Session, TraceWanted, TracedFlow};
use plan::FabricKnowledge;
use plan::placement::{ControlFlow, Placements};
use record::{CrossedSwitch, PathPlacement, TransportKind};
use topology::graph::{Graph, LinkId, Path};

/// Source ports of flows that carry nothing and are traced again and again.
pub const CONTROL_PORTS: u16 = 2;
/// Control flows of a rank on a rail.
const CONTROLS_PER_RANK: usize = 6;
/// Flows of a rank on a rail of which several packets are traced.
const BURSTS_PER_RANK: usize = 3;

/// Control flows from every rank to some of those it has several paths to.
pub fn controls(wanted: &[TraceWanted]) -> Vec<TraceWanted> {
    let mut of_rank: BTreeMap<(u32, &str), BTreeSet<(u32, TransportKind)>> = BTreeMap::new();
    for flow in wanted {
        let receivers = of_rank.entry((flow.from, &flow.rail)).or_default();
        receivers.insert((flow.to, flow.transport));
    }
    let of_one = |((from, rail), receivers): ((u32, &str), BTreeSet<(u32, TransportKind)>)| {
        let ports = 0..CONTROL_PORTS;
        let flows = ports.flat_map(|number| {
            receivers.iter().map(move |(to, transport)| TraceWanted {
                from,
                to: *to,
                rail: rail.to_string(),
                port: first_control_port(*transport == TransportKind::Verbs) + number,
                transport: *transport,
            })
        });
        flows.take(CONTROLS_PER_RANK).collect::<Vec<_>>()
    };
    of_rank.into_iter().flat_map(of_one).collect()
}

/// Those of the control flows for which a switch answered.
pub fn control_flows(traced: Vec<TracedFlow>) -> Vec<ControlFlow> {
    traced.into_iter().filter(has_answer).map(control_flow).collect()
}

fn control_flow(traced: TracedFlow) -> ControlFlow {
    let TracedFlow { flow, hops, .. } = traced;
    ControlFlow {
        from: flow.from,
        to: flow.to,
        rail: flow.rail,
        port: flow.port,
        transport: flow.transport,
        hops,
    }
}

/// Traces the control flows again: how switches place flows by now, if that says more than before.
pub fn ask_again(session: &mut Session, known: &FabricKnowledge) -> Result<Option<Placements>, CliError> {
    let Some(graph) = known.graph.as_ref().filter(|_| !known.controls.is_empty()) else {
        return Ok(None);
    };
    let wanted = known.controls.iter().map(|control| TraceWanted {
        from: control.from,
        to: control.to,
        rail: control.rail.clone(),
        port: control.port,
        transport: control.transport,
    });
    let wanted: Vec<TraceWanted> = wanted.collect();
    let mut placements = known.placements.clone();
    for (control, again) in known.controls.iter().zip(session.trace(&wanted)?) {
        placements.compare(
            graph,
            (control.from, control.to, &control.rail),
            &control.hops,
            &again.hops,
        );
    }
    Ok((placements != known.placements).then_some(placements))
}

/// Whether switches beyond the first answered for some flows and not for as many others, or more.
pub fn are_rationed(traced: &[TracedFlow]) -> bool {
    let longest = traced.iter().map(|traced| traced.hops.len()).max().unwrap_or(0);
    (1..longest).any(|distance| {
        let hops = traced.iter().filter_map(|traced| traced.hops.get(distance));
        let (mut answered, mut silent) = (0, 0);
        hops.for_each(|hop| *(if hop.is_some() { &mut answered } else { &mut silent }) += 1);
        answered > 0 && silent >= answered
    })
}

fn has_answer(traced: &TracedFlow) -> bool {
    traced.hops.iter().any(Option::is_some)
}

/// Flows that were traced twice, each time in another connection, as far as a switch answered.
pub struct TracedTwice {
    first: Vec<TracedFlow>,
    again: Vec<TracedFlow>,
}

impl TracedTwice {
    /// Traces flows a second time.
    pub fn trace(session: &mut Session, first: Vec<TracedFlow>) -> Result<TracedTwice, CliError> {
        let first: Vec<TracedFlow> = first.into_iter().filter(has_answer).collect();
        let answered: Vec<TraceWanted> = first.iter().map(|traced| traced.flow.clone()).collect();
        let again = session.trace(&answered)?;
        Ok(TracedTwice { first, again })
    }

    /// Asks for flows twice what their switches chose, where they have a choice, and nothing else: answers may be rationed.
    pub fn at_choices(
        session: &mut Session,
        graph: &Graph,
        wanted: &[TraceWanted],
    ) -> Result<TracedTwice, CliError> {
        let question = |flow: &TraceWanted| {
            let paths = graph.paths(flow.from, flow.to, &flow.rail);
            let chooses = |link: &LinkId| {
                let switch = &graph.link(*link).to.node;
                graph.has_choice(switch, flow.to, &flow.rail)
            };
            // Who is asked is the one behind the one that chooses.
            let path = (2..).zip(paths.first().into_iter().flatten());
            PathQuestion {
                flow: flow.clone(),
                ttls: path
                    .filter(|(_, link)| chooses(link))
                    .map(|(ttl, _)| ttl)
                    .collect(),
            }
        };
        let questions: Vec<PathQuestion> = wanted.iter().map(question).collect();
        let first = session.ask_switches(&questions)?;
        let questions: Vec<PathQuestion> = questions
            .into_iter()
            .zip(&first)
            .filter(|(_, first)| has_answer(first))
            .map(|(question, _)| question)
            .collect();
        let again = session.ask_switches(&questions)?;
        let first = first.into_iter().filter(has_answer).collect();
        Ok(TracedTwice { first, again })
    }

    /// Flows that are not traced again.
    pub fn once(first: Vec<TracedFlow>) -> TracedTwice {
        let first: Vec<TracedFlow> = first.into_iter().filter(has_answer).collect();
        let silent = |traced: &TracedFlow| TracedFlow {
            hops: Vec::new(),
            ..traced.clone()
        };
        let again = first.iter().map(silent).collect();
        TracedTwice { first, again }
    }

    /// Whether these say enough about all switches that chose the paths of `traced`, and answers are so few that flows need not be traced twice.
    pub fn settle(&self, graph: &Graph, traced: &[TracedFlow]) -> bool {
        let mut placements = Placements::default();
        self.compare(graph, &mut placements);
        let is_settled = |traced: &TracedFlow| {
            let flow = &traced.flow;
            let path = graph.path_of_hops(flow.from, flow.to, &flow.rail, &traced.hops);
            path.is_none_or(|path| {
                let choosers = graph.choosers(&path, flow.to, &flow.rail);
                choosers
                    .iter()
                    .all(|switch| placements.of(switch) == PathPlacement::Steady)
            })
        };
        are_rationed(traced) && traced.iter().all(is_settled)
    }

    /// What was seen the first time.
    pub fn first(&self) -> &[TracedFlow] {
        &self.first
    }

    /// Takes note of what differs.
    pub fn compare(&self, graph: &Graph, placements: &mut Placements) {
        for (first, again) in self.first.iter().zip(&self.again) {
            let flow = &first.flow;
            placements.compare(graph, (flow.from, flow.to, &flow.rail), &first.hops, &again.hops);
        }
    }

    /// Those that took the same path both times, over switches that place flows by their ports. Where switches answer only so often,
    /// those that were traced again stand for all: a switch is steady or it is not.
    pub fn steady_paths(
        &self,
        session: &mut Session,
        graph: &Graph,
        placements: &mut Placements,
    ) -> Result<Vec<(TraceWanted, Path)>, CliError> {
        if placements.unsteady().next().is_some() {
            trace_packets(session, graph, &self.first, placements)?;
        }
        let path = |traced: &TracedFlow| {
            let flow = &traced.flow;
            graph.path_of_hops(flow.from, flow.to, &flow.rail, &traced.hops)
        };
        let is_usable = |flow: &TraceWanted, path: &Path, is_confirmed: bool| {
            let choosers = graph.choosers(path, flow.to, &flow.rail);
            choosers.iter().all(|switch| match placements.of(switch) {
                PathPlacement::Steady => true,
                PathPlacement::PerConnection | PathPlacement::Sprayed => false,
                PathPlacement::Unknown => is_confirmed,
            })
        };
        let mut steady = Vec::new();
        for (first, again) in self.first.iter().zip(&self.again) {
            let (one, other) = (path(first), path(again));
            // A second trace without an answer says nothing.
            if let Some(path) = one.filter(|one| other.as_ref().is_none_or(|other| other == one))
                && is_usable(&first.flow, &path, other.is_some())
            {
                steady.push((first.flow.clone(), path));
            }
        }
        Ok(steady)
    }
}

impl TracedTwice {
    /// Flows over steady switches of which only some switches are known, or not which of several cables between them: their ports are worth
    /// more than others.
    pub fn half_known(
        &self,
        graph: &Graph,
        placements: &Placements,
    ) -> Vec<(TraceWanted, Vec<Option<CrossedSwitch>>)> {
        let mut found = Vec::new();
        for (first, again) in self.first.iter().zip(&self.again) {
            let flow = &first.flow;
            let (one, other) = (graph.crossed_hops(&first.hops), graph.crossed_hops(&again.hops));
            let differs =
                |(one, other): (&Option<_>, &Option<_>)| one.is_some() && other.is_some() && one != other;
            let leaf = graph.leaf_of(flow.from, &flow.rail);
            let seen = one.iter().flatten().map(|hop| hop.switch);
            let mut choosers = leaf.into_iter().chain(seen);
            let is_steady = choosers.all(|switch| {
                !graph.has_choice(switch, flow.to, &flow.rail)
                    || placements.of(switch) == PathPlacement::Steady
            });
            let is_known = graph
                .path_of_hops(flow.from, flow.to, &flow.rail, &first.hops)
                .is_some();
            // The first switch is always the same.
            let says_something = one.iter().skip(1).any(Option::is_some);
            if !is_known && is_steady && says_something && !one.iter().zip(&other).any(differs) {
                let hops = one.into_iter().map(|hop| hop.map(|hop| graph.record_of_hop(hop)));
                found.push((flow.clone(), hops.collect()));
            }
        }
        found
    }
}

/// Where the same flow takes different paths: whether packets of one connection do as well. A few flows of every rank and rail are asked.
fn trace_packets(
    session: &mut Session,
    graph: &Graph,
    traced: &[TracedFlow],
    placements: &mut Placements,
) -> Result<(), CliError> {
    let mut asked: HashMap<(u32, &str), usize> = HashMap::new();
    let mut wanted = Vec::new();
    for TracedFlow { flow, .. } in traced {
        let count = asked.entry((flow.from, &flow.rail)).or_default();
        // Other receivers are on other leaves: one flow to each says more than several to one.
        let is_new = wanted
            .iter()
            .all(|other: &TraceWanted| (other.from, other.to) != (flow.from, flow.to));
        if *count < BURSTS_PER_RANK && is_new {
            *count += 1;
            wanted.push(flow.clone());
        }
    }
    for burst in session.trace_bursts(&wanted)? {
        let flow = &burst.flow;
        placements.note_burst(graph, (flow.from, flow.to, &flow.rail), &burst.hops);
    }
    Ok(())
}
