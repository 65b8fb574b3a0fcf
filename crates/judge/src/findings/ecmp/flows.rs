//! Flows: what switches can distinguish, with the path each one takes and what it delivered.
//!
//! Streams of one pair of hosts from one source port are one flow, whatever their number: no switch can separate
//! them. A flow that could not be connected, or broke, and delivered nothing is dead; one that is connected and
//! starves is not: its packets got through. A flow of which nothing was recorded is left out.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::choosers::{Choice, Choosers};
use record::{Cell, Collective, Event, Recorded, StreamRecord, StreamTerms};
use topology::graph::{Graph, LinkId};

/// One flow: a distinct five-tuple, as far as ports show.
#[derive(Debug, Clone)]
pub(super) struct Flow {
    /// Id of its cell.
    pub(super) cell: u32,
    /// Flows of one slot are on the wire at the same time.
    pub(super) slot: u32,
    /// Sending and receiving rank.
    pub(super) ranks: (u32, u32),
    /// Number of its pair of hosts.
    pub(super) pair: usize,
    /// Its source port, when known.
    pub(super) port: Option<u16>,
    /// What arrived per second, iteration by iteration.
    pub(super) rates: Vec<f64>,
    /// Whether it broke or was never connected, and nothing ever arrived.
    pub(super) dead: bool,
    /// The links it is known to cross, from its sender on.
    pub(super) path: Vec<LinkId>,
    /// Whether that is all of them.
    pub(super) whole: bool,
    /// Whether it took the same path when traced again.
    pub(super) steady: Option<bool>,
    /// Whether its five-tuple is new in this test: only those are independent draws.
    pub(super) fresh: bool,
    /// The choices that switches had for it, in order.
    pub(super) choices: Vec<Choice>,
}

impl Flow {
    /// What it delivered on average.
    pub(super) fn rate(&self) -> f64 {
        match self.rates.len() {
            0 => 0.0,
            count => self.rates.iter().sum::<f64>() / count as f64,
        }
    }
}

/// A cell whose sender does not vary its ports.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct LowEntropyCell {
    /// Id of the cell.
    pub(super) cell: u32,
    /// The sending host.
    pub(super) host: String,
    /// Streams it was to send.
    pub(super) streams: u32,
    /// Source ports they came from.
    pub(super) ports: u32,
}

/// The flows of one test on one rail, in one round.
pub(super) struct RailFlows<'a> {
    /// Name of the test.
    pub(super) test: &'a str,
    /// Rail by name.
    pub(super) rail: &'a str,
    /// 0 for planned streams, 1 and up for those that repeat them from fresh ports.
    pub(super) round: u16,
    /// Whether its flows were chosen for their paths: they show what links carry, and nothing about how a hash spreads.
    pub(super) chosen: bool,
    /// Ids of its measured cells, in plan order.
    pub(super) cells: Vec<u32>,
    /// All flows.
    pub(super) flows: Vec<Flow>,
    /// Pairs of hosts, by number.
    pub(super) pairs: Vec<(String, String)>,
    /// The switches that had a choice.
    pub(super) choosers: Choosers,
    /// Per chooser: its flows, as indices into `flows`.
    by_chooser: Vec<Vec<usize>>,
    /// Cells without entropy.
    pub(super) low_entropy: Vec<LowEntropyCell>,
}

impl RailFlows<'_> {
    /// Whether it is the first round of flows that were chosen for their paths: what it shows is suspected, and the next one decides.
    pub(super) fn is_first_of_chosen(&self) -> bool {
        self.chosen && self.round == 0
    }

    /// The flows that a chooser had, in order.
    pub(super) fn of_chooser(&self, number: usize) -> impl Iterator<Item = &Flow> + Clone {
        let own = self.by_chooser.get(number).map_or(&[][..], Vec::as_slice);
        own.iter().map(|at| &self.flows[*at])
    }
}

/// Fewest streams of a pair of hosts from one port before its sender has too little entropy.
const FEWEST_STREAMS: u32 = 2;
/// This many streams per port are too many.
const STREAMS_PER_PORT: u32 = 4;

/// The flows of a run, by test, rail and round, in plan order.
pub(super) fn by_rail<'a>(recorded: &'a Recorded, graph: Option<&Graph>) -> Vec<RailFlows<'a>> {
    let hosts: HashMap<u32, &str> = recorded
        .run
        .ranks
        .iter()
        .map(|record| (record.rank, record.host.as_str()))
        .collect();
    let mut delivered: HashMap<u32, Vec<&[StreamRecord]>> = HashMap::new();
    for event in &recorded.events {
        if let Event::CellDone(done) = event {
            delivered.entry(done.cell).or_default().push(&done.streams);
        }
    }
    let mut rails: Vec<Collector<'a, '_>> = Vec::new();
    for cell in &recorded.run.cells {
        let (Collective::Streams, [_, _], [rail]) =
            (cell.collective, cell.ranks.as_slice(), cell.rails.as_slice())
        else {
            continue;
        };
        let is_other = |terms: &StreamTerms| terms.into_one || terms.pattern.is_some();
        if cell.streams.as_ref().is_some_and(is_other) {
            continue;
        }
        let Some(rounds) = delivered.get(&cell.id) else {
            continue;
        };
        let round = cell.streams.as_ref().map_or(0, |terms| terms.round);
        let chosen = cell.streams.as_ref().is_some_and(|terms| terms.is_chosen());
        let known = rails.iter().position(|known| {
            let RailFlows { test, rail, .. } = known.of;
            (test, rail, known.of.round, known.of.chosen)
                == (&cell.test, cell.rails[0].as_str(), round, chosen)
        });
        let place = known.unwrap_or_else(|| {
            rails.push(Collector::new(&cell.test, rail, (round, chosen), graph));
            rails.len() - 1
        });
        rails[place].add(cell, rounds, &hosts);
    }
    rails.into_iter().map(|collector| collector.of).collect()
}

/// Flows of one rail as they are put together.
struct Collector<'a, 'g> {
    of: RailFlows<'a>,
    graph: Option<&'g Graph>,
    pair_of: HashMap<(&'a str, &'a str), usize>,
    tuples: HashSet<(usize, u16)>,
}

impl<'a, 'g> Collector<'a, 'g> {
    fn new(
        test: &'a str,
        rail: &'a str,
        (round, chosen): (u16, bool),
        graph: Option<&'g Graph>,
    ) -> Collector<'a, 'g> {
        Collector {
            of: RailFlows {
                test,
                rail,
                round,
                chosen,
                cells: Vec::new(),
                flows: Vec::new(),
                pairs: Vec::new(),
                choosers: Choosers::default(),
                by_chooser: Vec::new(),
                low_entropy: Vec::new(),
            },
            graph,
            pair_of: HashMap::new(),
            tuples: HashSet::new(),
        }
    }

    fn add(&mut self, cell: &'a Cell, rounds: &[&[StreamRecord]], hosts: &HashMap<u32, &'a str>) {
        let (from, to) = (cell.ranks[0], cell.ranks[1]);
        let (Some(sender), Some(receiver)) = (hosts.get(&from), hosts.get(&to)) else {
            return;
        };
        self.of.cells.push(cell.id);
        let pairs = &mut self.of.pairs;
        let pair = *self.pair_of.entry((sender, receiver)).or_insert_with(|| {
            pairs.push((sender.to_string(), receiver.to_string()));
            pairs.len() - 1
        });
        let streams = merged(cell, from, rounds);
        let ports: HashSet<u16> = streams.iter().filter_map(|stream| stream.port).collect();
        let (count, distinct) = (streams.len() as u32, ports.len() as u32);
        let all_known = streams.iter().all(|stream| stream.port.is_some());
        if all_known && count >= FEWEST_STREAMS && (distinct == 1 || distinct * STREAMS_PER_PORT <= count) {
            self.of.low_entropy.push(LowEntropyCell {
                cell: cell.id,
                host: sender.to_string(),
                streams: count,
                ports: distinct,
            });
        }
        for (port, streams) in by_port(streams) {
            let path = cell
                .streams
                .as_ref()
                .and_then(|terms| terms.ways.get(usize::from(streams[0].number)));
            let links: Option<Vec<LinkId>> = match (path, self.graph) {
                (Some(path), Some(graph)) => path.links.iter().map(|name| graph.named(name)).collect(),
                _ => None,
            };
            let links = links.unwrap_or_default();
            let most = streams.iter().map(|stream| stream.rates.len()).max().unwrap_or(0);
            let rates: Vec<f64> = (0..most)
                .map(|at| streams.iter().filter_map(|stream| stream.rates.get(at)).sum())
                .collect();
            let fresh = port.is_none_or(|port| self.tuples.insert((pair, port)));
            let dead = streams.iter().all(|stream| stream.broke) && rates.iter().all(|rate| *rate == 0.0);
            let (choices, rest) = match self.graph {
                Some(graph) => self.of.choosers.choices(graph, (from, to), self.of.rail, &links),
                None => (Vec::new(), None),
            };
            let mut whole = path.is_some_and(|path| path.whole) && !links.is_empty();
            let mut links = links;
            // A flow that delivers continued where the last switch that answered leads, if it leads to one link only.
            let goes_on =
                |rest: &Vec<LinkId>| !dead && !whole && !links.is_empty() && rest.starts_with(&links);
            if let Some(rest) = rest.filter(goes_on) {
                (links, whole) = (rest, true);
            }
            self.of
                .by_chooser
                .resize_with(self.of.choosers.all.len(), Vec::new);
            for choice in &choices {
                let own = &mut self.of.by_chooser[choice.chooser];
                if own.last() != Some(&self.of.flows.len()) {
                    own.push(self.of.flows.len());
                }
            }
            self.of.flows.push(Flow {
                cell: cell.id,
                slot: cell.slot,
                ranks: (from, to),
                pair,
                port,
                dead,
                rates,
                whole,
                steady: path.and_then(|path| path.steady),
                path: links,
                fresh,
                choices,
            });
        }
    }
}

/// One stream over all measurements of its cell.
struct Stream {
    number: u16,
    port: Option<u16>,
    rates: Vec<f64>,
    /// Whether it could not be connected, or broke.
    broke: bool,
}

/// The streams of a cell of which something was recorded, in order.
fn merged(cell: &Cell, from: u32, rounds: &[&[StreamRecord]]) -> Vec<Stream> {
    let window = cell
        .streams
        .as_ref()
        .map_or(0.0, |terms| terms.window.as_secs_f64());
    let mut streams: BTreeMap<u16, Stream> = BTreeMap::new();
    for record in rounds.iter().copied().flatten() {
        let stream = streams.entry(record.stream).or_insert_with(|| Stream {
            number: record.stream,
            port: record.port.or_else(|| cell.port_of(from, record.stream)),
            rates: Vec::new(),
            broke: false,
        });
        stream.broke |= record.problem.is_some();
        if window > 0.0 {
            let rates = record.bytes.iter().map(|bytes| *bytes as f64 / window);
            stream.rates.extend(rates);
        }
        if record.bytes.is_empty() && record.problem.is_some() {
            stream.rates.push(0.0);
        }
    }
    streams
        .into_values()
        .filter(|stream| !stream.rates.is_empty())
        .collect()
}

/// Streams from the same port are together; those whose port is not known are each on their own.
fn by_port(streams: Vec<Stream>) -> Vec<(Option<u16>, Vec<Stream>)> {
    let mut flows: Vec<(Option<u16>, Vec<Stream>)> = Vec::with_capacity(streams.len());
    let mut place_of: HashMap<u16, usize> = HashMap::new();
    for stream in streams {
        let place = stream.port.and_then(|port| place_of.get(&port).copied());
        match place {
            Some(place) => flows[place].1.push(stream),
            None => {
                if let Some(port) = stream.port {
                    place_of.insert(port, flows.len());
                }
                flows.push((stream.port, vec![stream]));
            }
        }
    }
    flows
}
