//! The path of every stream, traced before it is measured.
//!
//! Switches may answer only so many questions a second: then they are asked at that pace, about flows drawn by lot, for as long as that may
//! take. Some streams of every leaf are traced a second time; a path that differs then belongs to a fabric that does not pin flows to paths.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::error::CliError;
use engine::measure::{PathQuestion, Progress, Session, TraceWanted, TracedFlow};
use record::{Cell, StreamPath};
use topology::graph::{Graph, Path};

/// Switches that answer so seldom are asked this often: once a second is what most of them are limited to.
pub const PACE: Duration = Duration::from_millis(1050);
/// Flows of an asker that are traced at first: more than any switch that counts its answers gives at once.
const FIRST: usize = 12;
/// Questions that a leaf is asked at first: one less than Linux answers at once.
const AT_ONCE: usize = 5;
/// A question without an answer is asked again so often.
const MOST_TRIES: usize = 3;
/// Flows of an asker without an answer of which it is seen how far they get.
const MOST_UNANSWERED: usize = 4;
/// How long they are asked for the paths of all streams.
const PATIENCE: Duration = Duration::from_secs(18);
/// The same for the streams that are traced again.
const PATIENCE_AGAIN: Duration = Duration::from_secs(4);
/// After so many rounds without a path that was not known, the others stay unknown.
const MOST_ROUNDS_IN_VAIN: usize = 4;
/// Streams of a leaf that are traced again.
const AGAIN_PER_LEAF: usize = 24;

/// The known links of a path, and whether they are all of it.
type TracedPath = (Path, bool);

/// Fills in the paths of all streams of `cells` that have several to choose from. In rounds that repeat others it is known whether they are `steady`.
pub fn discover(
    session: &mut Session,
    cells: &mut [Cell],
    graph: &Graph,
    is_repeated: bool,
    progress: &dyn Progress,
) -> Result<(), CliError> {
    let mut wanted: Vec<TraceWanted> = cells.iter().flat_map(|cell| streams(cell, graph)).collect();
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
    let again = match is_repeated {
        true => KnownPaths::new(),
        false => trace(session, &some_of_every_leaf(&whole, graph), graph, PATIENCE_AGAIN)?,
    };
    progress.note(&match whole.len() {
        0 => "no switch answers traces: streams are judged by their rates alone".to_string(),
        known => format!(
            "the paths of {known} of {} streams are known from end to end",
            wanted.len()
        ),
    });
    for cell in cells {
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

/// What is known of the paths of flows.
type KnownPaths = HashMap<TraceWanted, TracedPath>;

/// Traces flows: all at once where switches answer everything, else at the pace they do, for as long as `patience` lasts.
fn trace(
    session: &mut Session,
    wanted: &[TraceWanted],
    graph: &Graph,
    patience: Duration,
) -> Result<KnownPaths, CliError> {
    let until = Instant::now() + patience;
    let mut of_asker: HashMap<(u32, &str), usize> = HashMap::new();
    let (mut first, mut rest) = (Vec::new(), Vec::new());
    for flow in wanted {
        let count = of_asker.entry((flow.from, &flow.rail)).or_default();
        *count += 1;
        let half = if *count <= FIRST { &mut first } else { &mut rest };
        half.push(flow.clone());
    }
    let mut traced = session.trace_patiently(&first)?;
    let is_limited = answer_sometimes(&traced);
    if !is_limited {
        traced.extend(session.trace_patiently(&rest)?);
    }
    let mut known: KnownPaths = traced
        .iter()
        .map(|traced| (traced.flow.clone(), path(graph, traced)))
        .collect();
    match is_limited {
        true => ask_at_their_pace(session, wanted, graph, until, &mut known)?,
        false => ask_again(session, &traced, graph, until, &mut known)?,
    }
    Ok(known)
}

fn path(graph: &Graph, traced: &TracedFlow) -> TracedPath {
    let TracedFlow { flow, hops, arrived } = traced;
    graph.known_links_of_hops(flow.from, flow.to, &flow.rail, hops, *arrived)
}

/// Whether switches answer for some flows and not for others that arrive: they are asked too often. The sender's own switch says it, or the
/// first that answers at all; answers of those further away may be lost where a path is dead.
fn answer_sometimes(traced: &[TracedFlow]) -> bool {
    let arrived = || traced.iter().filter(|traced| traced.arrived);
    // All of these cross several switches: a flow of which nothing is known met silence there.
    let answered_at = |place: usize| {
        let answered = arrived().filter(|traced| matches!(traced.hops.get(place), Some(Some(_))));
        answered.count()
    };
    let longest = arrived().map(|traced| traced.hops.len()).max().unwrap_or(0);
    let first = (0..longest).map(answered_at).find(|answered| *answered > 0);
    // A packet may be lost.
    first.is_some_and(|answered| (arrived().count() - answered) * 10 > arrived().count())
}

/// Where all switches answer, a missing answer was lost: asked for again as long as that tells a path.
fn ask_again(
    session: &mut Session,
    traced: &[TracedFlow],
    graph: &Graph,
    until: Instant,
    known: &mut KnownPaths,
) -> Result<(), CliError> {
    let question = |traced: &TracedFlow| PathQuestion {
        flow: traced.flow.clone(),
        ttls: (1..)
            .zip(&traced.hops)
            .filter(|(_, hop)| hop.is_none())
            .map(|(ttl, _)| ttl)
            .collect(),
    };
    // A path whose end was not reached is not known better by asking again, nor is one where nobody answers.
    let is_open = |traced: &&TracedFlow| traced.arrived && traced.hops.iter().any(Option::is_some);
    let mut open: Vec<PathQuestion> = traced.iter().filter(is_open).map(question).collect();
    open.retain(|question| !question.ttls.is_empty() && !is_whole(known, &question.flow));
    let seen = traced.iter().map(|traced| (traced.flow.clone(), traced.clone()));
    let mut seen: HashMap<TraceWanted, TracedFlow> = seen.collect();
    while !open.is_empty() && Instant::now() < until {
        sleep(PACE);
        let before = open.len();
        for answers in session.ask_switches(&open)? {
            if let Some(traced) = seen.get_mut(&answers.flow) {
                for (hop, answer) in traced.hops.iter_mut().zip(answers.hops) {
                    *hop = hop.or(answer);
                }
                known.insert(answers.flow, path(graph, traced));
            }
        }
        open.retain(|question| !is_whole(known, &question.flow));
        if open.len() == before {
            break;
        }
    }
    Ok(())
}

/// Where switches answer an asker only so often: every sender asks about one flow to every leaf at a time, so that no switch is asked more
/// often than it answers, and which flows become known does not depend on their paths.
fn ask_at_their_pace(
    session: &mut Session,
    wanted: &[TraceWanted],
    graph: &Graph,
    until: Instant,
    known: &mut KnownPaths,
) -> Result<(), CliError> {
    // What was known so far came mostly from the switches that had least to answer.
    known.clear();
    let mut queues = queues(wanted, graph);
    let mut unanswered: Vec<TraceWanted> = Vec::new();
    let mut in_vain = 0;
    let mut is_first = true;
    while queues.iter().any(|queue| !queue.flows.is_empty())
        && in_vain < MOST_ROUNDS_IN_VAIN
        && Instant::now() < until
    {
        let asked = Instant::now();
        let turn = queues.iter_mut().enumerate();
        let turn: Vec<(usize, Queued)> = turn
            .flat_map(|(queue, waiting)| {
                let at_once = if is_first { waiting.at_once } else { 1 };
                let some = waiting.flows.drain(..at_once.min(waiting.flows.len()));
                some.map(move |queued| (queue, queued)).collect::<Vec<_>>()
            })
            .collect();
        is_first = false;
        let questions: Vec<PathQuestion> = turn.iter().map(|(_, (question, _))| question.clone()).collect();
        in_vain += 1;
        for (mut traced, (queue, (question, tries))) in
            session.ask_switches(&questions)?.into_iter().zip(turn)
        {
            // All that tells its path: it need not be known whether it arrives.
            let is_answered = |ttl: &u8| matches!(traced.hops.get(usize::from(*ttl) - 1), Some(Some(_)));
            traced.arrived = question.ttls.iter().all(is_answered);
            let found = path(graph, &traced);
            match found.1 {
                true => in_vain = 0,
                false if tries + 1 < MOST_TRIES => queues[queue].flows.push_back((question, tries + 1)),
                false => unanswered.push(question.flow),
            }
            known.insert(traced.flow, found);
        }
        sleep(PACE.saturating_sub(asked.elapsed()));
    }
    // These may not arrive: how far do they get?
    let mut of_asker: HashMap<u32, usize> = HashMap::new();
    unanswered.retain(|flow| {
        let count = of_asker.entry(flow.from).or_default();
        *count += 1;
        *count <= MOST_UNANSWERED
    });
    for traced in session.trace_patiently(&unanswered)? {
        known.insert(traced.flow.clone(), path(graph, &traced));
    }
    Ok(())
}

/// A question, and how often it was asked.
type Queued = (PathQuestion, usize);

/// Questions of which one is asked at a time.
#[derive(Default)]
struct Queue {
    flows: VecDeque<Queued>,
    /// So many may be asked at first.
    at_once: usize,
}

/// Questions that may be asked at the same time, one of each queue: the leaf at the end of a path answers about flows to its own hosts, any
/// other switch hears about all flows of an asker. Where a switch in the middle tells as much, an asker's flows are shared among it and the leaves. Within a
/// queue flows are in an order that has nothing to do with their paths. Only a leaf may be asked several at first: which of the switches in the middle have
/// answered before depends on paths.
fn queues(wanted: &[TraceWanted], graph: &Graph) -> Vec<Queue> {
    let mut queues: BTreeMap<(u32, &str, Option<&str>), Queue> = BTreeMap::new();
    let mut leaves: HashMap<(u32, &str), BTreeSet<Option<&str>>> = HashMap::new();
    for flow in wanted {
        let of_asker = leaves.entry((flow.from, &flow.rail)).or_default();
        of_asker.insert(graph.leaf_of(flow.to, &flow.rail));
    }
    let mut turns: HashMap<(u32, &str), usize> = HashMap::new();
    let mut order: Vec<&TraceWanted> = wanted.iter().collect();
    order.sort_by_cached_key(|flow| {
        let mut hasher = DefaultHasher::new();
        flow.hash(&mut hasher);
        hasher.finish()
    });
    for flow in order {
        let ttls = graph.telling_switches(flow.from, flow.to, &flow.rail);
        let paths = graph.paths(flow.from, flow.to, &flow.rail);
        let last = paths.first().map_or(0, |path| path.len() - 1);
        let leaf = graph.leaf_of(flow.to, &flow.rail);
        let leaf = leaf.filter(|_| matches!(ttls.as_slice(), [ttl] if usize::from(*ttl) == last));
        let asker = (flow.from, flow.rail.as_str());
        let turn = turns.entry(asker).or_default();
        *turn += 1;
        let is_for_the_middle = leaf.is_some() && turn.is_multiple_of(leaves[&asker].len() + 1);
        let middle = graph
            .telling_in_the_middle(flow.from, flow.to, &flow.rail)
            .filter(|_| is_for_the_middle);
        let (leaf, ttls) = match middle {
            Some(ttl) => (None, vec![ttl]),
            None => (leaf, ttls),
        };
        let queue = queues.entry((flow.from, &flow.rail, leaf)).or_default();
        queue.at_once = if leaf.is_some() { AT_ONCE } else { 1 };
        queue.flows.push_back((
            PathQuestion {
                flow: flow.clone(),
                ttls,
            },
            0,
        ));
    }
    queues.into_values().collect()
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

/// The streams of a cell in order; none where there is only one path, or where which one they take does not matter.
fn streams(cell: &Cell, graph: &Graph) -> Vec<TraceWanted> {
    let (Some(terms), [from, to], [rail]) = (&cell.streams, cell.ranks.as_slice(), cell.rails.as_slice())
    else {
        return Vec::new();
    };
    if terms.into_one || graph.paths(*from, *to, rail).len() < 2 {
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

#[cfg(test)]
mod tests {
    use super::*;
    use record::TransportKind;

    fn traced(hops: &[Option<u8>], arrived: bool) -> TracedFlow {
        TracedFlow {
            flow: TraceWanted {
                from: 0,
                to: 1,
                rail: "rail0".to_string(),
                port: 24_000,
                transport: TransportKind::Tcp,
            },
            hops: hops
                .iter()
                .map(|hop| hop.map(|last| [10, 0, 0, last].into()))
                .collect(),
            arrived,
        }
    }

    #[test]
    fn switches_that_answer_some_of_many_questions_are_asked_too_often_and_dead_paths_are_not_that() {
        let whole = || traced(&[Some(1), Some(2), Some(3)], true);
        let several = |other: TracedFlow| vec![whole(), whole(), other.clone(), other];
        assert!(!answer_sometimes(&[]));
        assert!(!answer_sometimes(&several(whole())));
        assert!(answer_sometimes(&several(traced(&[None, Some(2), None], true))));
        // Nobody answered for a flow, and nothing is written down of it.
        assert!(answer_sometimes(&several(traced(&[], true))));
        // The answer of the last switch is lost on its way back.
        assert!(!answer_sometimes(&several(traced(
            &[Some(1), Some(2), None],
            true
        ))));
        assert!(!answer_sometimes(&several(traced(&[Some(1)], false))), "dead");
        // A tier that never answers is silent, whatever is asked.
        let silent = |hops: &[Option<u8>]| traced(hops, true);
        assert!(!answer_sometimes(&[
            silent(&[None, Some(2), None]),
            silent(&[None, Some(2), None])
        ]));
        assert!(answer_sometimes(&[
            silent(&[None, Some(2), None]),
            silent(&[None, None, None])
        ]));
    }
}
