//! What patterns of traffic deliver, beside what the topology should carry and what the paths of their flows explain (docs/method.md, "Worst traffic").
//!
//! A collision is no fault of a part: it is told with its cable and costs nothing, unless the suite asks for a share of what the topology should carry.
//! Nothing is said of a pattern on one round alone.

mod finding;
mod model;
mod outcome;
#[cfg(test)]
mod tests;

pub(super) use finding::BadTraffic;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use model::{Capacity, Flow, ideal, predicted};
use outcome::{Judged, judge};
use record::stats::median;
use record::{
    Cell, CellDone, Event, PathPlacement, Recorded, StreamRecord, TrafficOutcome, TrafficRow, Verdict, files,
};
use topology::Topology;
use topology::graph::{Graph, Path};

/// With fewer flows that share their cables with nobody, it is not known what hosts reach.
const FEWEST_ALONE: usize = 3;
/// What hosts reach of their cables where it is not known.
const USUAL: f64 = 0.95;
/// The worst patterns of a rail that are measured again.
const CONFIRMED: usize = 3;
/// Only those that get less than this of what the topology should carry.
const WORTH_CONFIRMING: f64 = 0.9;
/// Rounds that a verdict takes.
pub(super) const ROUNDS: usize = 2;

/// What became of the patterns of a run.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    /// A row for every pattern, the worst of a rail first.
    pub(super) rows: Vec<TrafficRow>,
    /// Ids of cells to measure again.
    pub(super) suspected: BTreeSet<u32>,
    /// The percentages that the suite asks of patterns, in the order of rows.
    floors: Vec<Option<u8>>,
    /// By cell, its row.
    of_cell: HashMap<u32, usize>,
}

/// The cells of a pattern and their flows.
struct Measured<'a> {
    cells: Vec<&'a Cell>,
    flows: Vec<Flow>,
    rounds: usize,
}

impl Traffic {
    /// Judges the patterns of a run; empty when it has none.
    pub(super) fn of(recorded: &Recorded) -> Traffic {
        let mut patterns: BTreeMap<(&str, &str, &str), Vec<&Cell>> = BTreeMap::new();
        for cell in &recorded.run.cells {
            let pattern = cell.streams.as_ref().and_then(|terms| terms.pattern.as_ref());
            if let (Some(pattern), [rail]) = (pattern, cell.rails.as_slice()) {
                let key = (cell.test.as_str(), rail.as_str(), pattern.name.as_str());
                patterns.entry(key).or_default().push(cell);
            }
        }
        if patterns.is_empty() {
            return Traffic::default();
        }
        let graph = recorded.topology.as_ref().and_then(|text| {
            let topology = Topology::parse(files::TOPOLOGY, text).ok()?;
            Graph::of(&topology, &recorded.run.ranks).ok()
        });
        let Some(graph) = graph else {
            return Traffic::default();
        };
        let done = rounds_done(recorded);
        let sprayed: BTreeSet<&str> = placed(recorded, PathPlacement::Sprayed);
        let unsteady: BTreeSet<&str> = placed(recorded, PathPlacement::PerConnection);
        let mut rails: BTreeMap<(&str, &str), Vec<Measured<'_>>> = BTreeMap::new();
        for ((test, rail, _), cells) in patterns {
            let measured = Measured::of(cells, &graph, &done, (&sprayed, &unsteady));
            rails.entry((test, rail)).or_default().push(measured);
        }
        let mut traffic = Traffic::default();
        for ((_, rail), measured) in rails {
            let (nominal, is_known) = Capacity::nominal(&graph, rail);
            let reached = reached(&measured, &nominal, &graph, rail, is_known);
            let capacity = nominal.reaching(&graph, reached, is_known);
            let mut judged: Vec<(Judged, &Measured<'_>)> = measured
                .iter()
                .map(|one| (judge_one(recorded, one, &capacity, &graph, rail), one))
                .collect();
            judged.sort_by(|(a, _), (b, _)| {
                let by_share = a.row.worst_share.total_cmp(&b.row.worst_share);
                by_share.then(b.row.sharing.cmp(&a.row.sharing))
            });
            traffic.add(judged);
        }
        traffic
    }

    fn add(&mut self, judged: Vec<(Judged, &Measured<'_>)>) {
        let is_wanted = |judged: &Judged| judged.row.worst_share < WORTH_CONFIRMING || judged.is_suspicious;
        let worst = judged.iter().filter(|(judged, _)| is_wanted(judged));
        let again = worst
            .enumerate()
            .filter(|(place, (judged, _))| *place < CONFIRMED || judged.is_suspicious)
            .map(|(_, both)| both)
            .filter(|(_, measured)| measured.rounds > 0 && measured.rounds < ROUNDS);
        for (_, measured) in again {
            self.suspected.extend(measured.cells.iter().map(|cell| cell.id));
        }
        for (judged, measured) in judged {
            let ids = measured.cells.iter().map(|cell| (cell.id, self.rows.len()));
            self.of_cell.extend(ids);
            let terms = measured.cells[0].streams.as_ref();
            let pattern = terms.and_then(|terms| terms.pattern.as_ref());
            self.floors.push(pattern.and_then(|pattern| pattern.at_least));
            self.rows.push(judged.row);
        }
    }

    /// The verdict of a cell that is part of a pattern.
    pub(super) fn says(&self, cell: &Cell) -> Option<Verdict> {
        cell.streams.as_ref()?.pattern.as_ref()?;
        let Some(row) = self.of_cell.get(&cell.id).map(|row| &self.rows[*row]) else {
            let why = "what its pattern should get is not known: there is no topology";
            return Some(Verdict::Inconclusive(why.into()));
        };
        Some(match row.outcome {
            TrafficOutcome::Carried | TrafficOutcome::ByDesign | TrafficOutcome::Collides => Verdict::Pass,
            TrafficOutcome::BelowFloor => Verdict::Fail(row.sentence.clone()),
            TrafficOutcome::BelowPrediction | TrafficOutcome::Unclear => {
                Verdict::Inconclusive(row.sentence.clone())
            }
        })
    }
}

/// What was recorded of every cell, round by round.
fn rounds_done(recorded: &Recorded) -> HashMap<u32, BTreeMap<u16, &CellDone>> {
    let mut done: HashMap<u32, BTreeMap<u16, &CellDone>> = HashMap::new();
    for event in &recorded.events {
        if let Event::CellDone(of_cell) = event {
            done.entry(of_cell.cell)
                .or_default()
                .insert(of_cell.round, of_cell);
        }
    }
    done
}

/// The switches that place flows so, by the last word on it.
fn placed(recorded: &Recorded, wanted: PathPlacement) -> BTreeSet<&str> {
    let later = recorded.events.iter().rev().find_map(|event| match event {
        Event::Placement { switches } => Some(switches),
        _ => None,
    });
    let switches = later.unwrap_or(&recorded.run.placement).iter();
    switches
        .filter(|switch| switch.placement == wanted)
        .map(|switch| switch.switch.as_str())
        .collect()
}

impl<'a> Measured<'a> {
    fn of(
        cells: Vec<&'a Cell>,
        graph: &Graph,
        done: &HashMap<u32, BTreeMap<u16, &CellDone>>,
        (sprayed, unsteady): (&BTreeSet<&str>, &BTreeSet<&str>),
    ) -> Measured<'a> {
        let rounds: BTreeSet<u16> = cells
            .iter()
            .filter_map(|cell| done.get(&cell.id))
            .flat_map(|rounds| rounds.keys().copied())
            .collect();
        let mut flows = Vec::new();
        for cell in &cells {
            let ([from, to], [rail]) = (cell.ranks.as_slice(), cell.rails.as_slice()) else {
                continue;
            };
            let leaf = graph.leaf_of(*from, rail).unwrap_or_default();
            let is_sprayed = sprayed.contains(leaf);
            let only = match graph.paths(*from, *to, rail).as_slice() {
                [only] => Some(only.clone()),
                _ => None,
            };
            let split = graph.crossing_probabilities(*from, *to, rail);
            let window = cell
                .streams
                .as_ref()
                .map_or(0.0, |terms| terms.window.0 as f64 / 1e9);
            for stream in 0..cell.flows {
                let traced = || known_path(cell, stream, graph).filter(|_| !unsteady.contains(leaf));
                let of_round = |round: &u16| {
                    let of_cell = done.get(&cell.id)?.get(round)?;
                    let of_stream = of_cell.streams.iter().find(|one| one.stream == stream)?;
                    rate(of_stream, window)
                };
                flows.push(Flow {
                    ranks: (*from, *to),
                    ends: [graph.up(*from, rail), graph.down(*to, rail)],
                    path: only.clone().or_else(|| traced().filter(|_| !is_sprayed)),
                    is_sprayed: is_sprayed && only.is_none(),
                    split: split.clone(),
                    delivered: rounds.iter().map(of_round).collect(),
                });
            }
        }
        Measured {
            cells,
            flows,
            rounds: rounds.len(),
        }
    }
}

/// The path of a stream, as far as it was traced from end to end and stays.
fn known_path(cell: &Cell, stream: u16, graph: &Graph) -> Option<Path> {
    let way = cell.streams.as_ref()?.ways.get(usize::from(stream))?;
    let is_known = way.whole && way.steady != Some(false);
    let path: Option<Path> = way.links.iter().map(|name| graph.named(name)).collect();
    path.filter(|_| is_known)
}

/// What arrived of a stream per second, in the median window; none of one that was never connected.
fn rate(stream: &StreamRecord, window: f64) -> Option<f64> {
    let bytes = median(&stream.bytes)?;
    (window > 0.0 && (stream.problem.is_none() || bytes > 0.0)).then(|| bytes / window)
}

/// The share of a host's cable that flows reach which share it with nobody: the median.
fn reached(measured: &[Measured<'_>], nominal: &Capacity, graph: &Graph, rail: &str, is_known: bool) -> f64 {
    let mut shares = Vec::new();
    for pattern in measured {
        let prediction = predicted(&pattern.flows, nominal, graph, rail);
        if prediction.is_drawn() {
            continue;
        }
        for (flow, rate) in pattern.flows.iter().zip(&prediction.rates) {
            let line = nominal.line(flow);
            if let (Some(Some(delivered)), true) = (flow.delivered.first(), *rate >= 0.99 * line) {
                shares.push(delivered / line);
            }
        }
    }
    let known = median(&shares).filter(|share| shares.len() >= FEWEST_ALONE && *share > 0.0);
    match (known, is_known) {
        (Some(share), true) => share.clamp(0.01, 1.0),
        (Some(share), false) => share,
        (None, _) => USUAL,
    }
}

fn judge_one(
    recorded: &Recorded,
    measured: &Measured<'_>,
    capacity: &Capacity,
    graph: &Graph,
    rail: &str,
) -> Judged {
    let ideal = ideal(&measured.flows, capacity);
    let prediction = predicted(&measured.flows, capacity, graph, rail);
    judge(recorded, measured, capacity, (&ideal, &prediction), graph)
}
