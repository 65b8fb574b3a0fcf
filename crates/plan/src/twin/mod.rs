//! A simulated fabric that produces recorded runs, for proving detectors at scales no lab has.
//!
//! The twin is told the truth about every link: what it should carry and what is left of it. Cells become flows, flows are
//! routed as ECMP switches route them, all flows of a slot share the links fairly (max-min), and the slowest flow of a cell
//! sets its time. Noise is drawn from what healthy runs of a real fabric were recorded to have. The same seed gives the same
//! events, on any number of cores.
//!
//! What hits several cells alike, and what parts have for good, are parts of a noise model (`noise::parts`).
//!
//! What it leaves out: congestion control (flows get their share at once), and what losses, stops and pauses cost.

mod clos;
mod congestion;
mod delays;
pub mod ecmp;
mod faults;
mod losses;
pub mod nights;

mod noise;
mod probes;
mod run;
mod shares;
mod streams;
mod transfers;

pub use clos::{Shape, clos};
pub use congestion::CongestionFault;
pub use delays::{DelayingLink, DelayingPart};
pub use faults::{Direction, LossyLink, LossyPart, SlowLink, SlowPart, random_faults};
pub use noise::{MODELS, Neighbours, Noise, NoiseParts, OsJitter, SecondSpeed, Spreads, Tails};
pub use run::TwinRun;

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher};

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use rayon::prelude::*;
use strum::{Display, EnumString};

use noise::FlowEnds;
use record::stats::{Sorted, samples_needed};
use record::units::{Nanos, Rate};
use record::{
    Cell, CellDone, Collective, CrossedPath, CrossedSwitch, Event, LinkTraffic, MOST_BUDGETS, PathPlacement,
    Sample, StopReason, TestRecord,
};
use topology::graph::{Crossing, Graph, LinkId, Path, fair_shares};
use transfers::Transfer;

/// What a link of unknown rate carries.
const UNKNOWN: Rate = Rate(25e9);
/// What two ranks of one host exchange.
const WITHIN_A_HOST: f64 = 50e9;
/// The part of its time that a rank works itself instead of waiting for the wire.
const OWN_WORK: f64 = 0.02;

/// A fabric whose links are what it is told they are.
#[derive(Debug, Clone)]
pub struct Twin<'g> {
    graph: &'g Graph,
    /// What every link really carries, in bytes per second.
    capacity: Vec<f64>,
    /// The same where nothing is wrong.
    nominal: Vec<f64>,
    /// Links that carry less now and then.
    come_and_go: Vec<SlowLink>,
    /// Links that lose packets.
    lossy: Vec<LossyLink>,
    /// Links that hold packets up.
    delaying: Vec<DelayingLink>,
    /// What shows under load only.
    congestion: Vec<CongestionFault>,
    noise: Noise,
    seed: u64,
    confidence: f64,
    placement: PathPlacement,
    answers: Answers,
    /// Switches that send all flows over the same of their equal links.
    polarised: Vec<String>,
}

/// What the switches of a twin say when they are asked about a flow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, EnumString, Display)]
#[strum(serialize_all = "kebab-case")]
pub enum Answers {
    /// The port by which it came in.
    #[default]
    Ports,
    /// Only which switch it is: an address of its own, or of the port by which the answer leaves.
    Switches,
    /// The port, for half of the flows: they are asked more often than they answer.
    Limited,
}

impl<'g> Twin<'g> {
    /// A twin of `graph` in which every link of `slow` has only that share of its rate left.
    pub fn new(graph: &'g Graph, slow: &[SlowLink], noise: Noise, seed: u64) -> Twin<'g> {
        let rate = |rate: Rate| if rate.0 > 0.0 { rate.0 } else { UNKNOWN.0 };
        let nominal: Vec<f64> = graph.links().map(|(_, link)| rate(link.rate)).collect();
        let mut capacity = nominal.clone();
        let (always, come_and_go): (Vec<SlowLink>, Vec<SlowLink>) =
            slow.iter().partition(|slow| slow.often >= 1.0);
        for slow in always {
            capacity[slow.link.index()] *= slow.share.clamp(1e-6, 1.0);
        }
        Twin {
            graph,
            capacity,
            nominal,
            come_and_go,
            lossy: Vec::new(),
            delaying: Vec::new(),
            congestion: Vec::new(),
            noise,
            seed,
            confidence: 0.95,
            placement: PathPlacement::Steady,
            answers: Answers::Ports,
            polarised: Vec::new(),
        }
    }

    /// The same with links that lose packets.
    pub fn with_losses(mut self, lossy: &[LossyLink]) -> Twin<'g> {
        self.lossy = lossy.to_vec();
        self
    }

    /// The same with links that hold packets up.
    pub fn with_delays(mut self, delaying: &[DelayingLink]) -> Twin<'g> {
        self.delaying = delaying.to_vec();
        self
    }

    /// The same with switches that answer otherwise.
    pub fn with_answers(mut self, answers: Answers) -> Twin<'g> {
        self.answers = answers;
        self
    }

    /// The same with switches that send all flows over the same of their equal links: their hash tells no flow from another.
    pub fn with_polarised(mut self, switches: &[String]) -> Twin<'g> {
        self.polarised = switches.to_vec();
        self
    }

    /// The same with switches that place flows otherwise. Unknown: by ports, but nothing says where.
    pub fn with_placement(mut self, placement: PathPlacement) -> Twin<'g> {
        self.placement = placement;
        self
    }

    /// How its switches place flows.
    pub fn placement(&self) -> PathPlacement {
        self.placement
    }

    /// The fabric it is a twin of.
    pub fn graph(&self) -> &'g Graph {
        self.graph
    }

    /// The path that data from one rank to another takes over a rail when its source port is `port`: every switch hashes what
    /// it sees of the flow, each with a seed of its own. None within a host, and where no cables lead.
    pub fn route(&self, from: u32, to: u32, rail: &str, port: u16) -> Option<Path> {
        self.graph.route(from, to, rail, |switch, links| {
            let drawn = match self.is_polarised(links) {
                true => hash((self.seed, switch)),
                false => hash((self.seed, switch, from, to, rail, port)),
            };
            drawn as usize % links.len().max(1)
        })
    }

    /// Whether the switch that these links leave is polarised.
    fn is_polarised(&self, links: &[LinkId]) -> bool {
        let name = links.first().map(|link| &self.graph.link(*link).from.node);
        name.is_some_and(|name| self.polarised.contains(name))
    }

    /// Measures cells, those of one slot at the same time; everything that is recorded about them, in order.
    pub fn measure(&self, cells: &[&Cell], test: &TestRecord, round: u16) -> Vec<Event> {
        let slots: Vec<&[&Cell]> = cells.chunk_by(|a, b| a.slot == b.slot).collect();
        let events = slots.par_iter().map(|slot| self.measure_slot(slot, test, round));
        events
            .collect::<Vec<Vec<Event>>>()
            .into_iter()
            .flatten()
            .collect()
    }

    fn measure_slot(&self, cells: &[&Cell], test: &TestRecord, round: u16) -> Vec<Event> {
        let mut running: Vec<Running> = Vec::new();
        let mut events = Vec::new();
        if cells.iter().all(|cell| streams::is_of_pattern(cell)) {
            return self.stream(cells, test, round);
        }
        for cell in cells {
            if let Some(terms) = &cell.probes {
                events.extend(self.probe(cell, terms, test, round));
                continue;
            }
            match self.prepare(cell, round) {
                Ok(prepared) => running.push(prepared),
                Err(reason) => events.push(Event::NotRun {
                    cell: cell.id,
                    reason,
                }),
            }
        }
        let slot = cells.first().map_or(0, |cell| cell.slot);
        let mut capacity = self.capacity_in(slot, round);
        if !self.congestion.is_empty() {
            self.congest(&running, round, capacity.to_mut());
        }
        self.share_the_links(&mut running, &capacity);
        let stop = self.iterate(&mut running, test);
        for cell in &running {
            events.extend(self.counters_of(cell, test, round));
            events.extend(self.events_of(cell, test, round, stop));
        }
        // As in a real run, only where it decides what is measured next.
        let asked = running.iter().filter(|_| test.adaptive);
        let paths: Vec<CrossedPath> = asked.filter_map(|cell| self.seen_within(cell)).collect();
        if !paths.is_empty() {
            events.push(Event::Crossed { paths });
        }
        events
    }

    /// The path of a flow as far as its switches say it when it is traced: the first switch, the second and so on.
    pub fn traced(&self, flow: (u32, u32, u16), path: &[LinkId]) -> Vec<Option<CrossedSwitch>> {
        let is_answered = |place: usize| match self.answers {
            Answers::Ports | Answers::Switches => true,
            Answers::Limited => hash((self.seed, "answers", flow, place)).is_multiple_of(2),
        };
        // The last link leads to the receiver.
        let switches = path.iter().take(path.len().saturating_sub(1)).enumerate();
        let hop = |(place, link): (usize, &LinkId)| {
            is_answered(place).then(|| CrossedSwitch {
                switch: self.graph.link(*link).to.node.clone(),
                link: (self.answers != Answers::Switches).then(|| self.graph.name(*link)),
            })
        };
        switches.map(hop).collect()
    }

    /// What its switches say within the connection of a cell whose path was not known.
    fn seen_within(&self, running: &Running<'_>) -> Option<CrossedPath> {
        let Cell { id, collective, .. } = running.cell;
        let [(_, path)] = running.flows.as_slice() else {
            return None;
        };
        let is_asked = running.cell.path.is_empty() && *collective == Collective::PointToPoint;
        if !is_asked || matches!(self.placement, PathPlacement::Sprayed | PathPlacement::Unknown) {
            return None;
        }
        let path: Path = path.iter().map(|(link, _)| *link).collect();
        let [from, to] = running.cell.ranks.as_slice() else {
            return None;
        };
        Some(CrossedPath {
            cell: *id,
            hops: self.traced((*from, *to, *id as u16), &path),
        })
    }

    /// The transfers of a cell and their paths, or why it cannot run.
    fn prepare<'c>(&self, cell: &'c Cell, round: u16) -> Result<Running<'c>, String> {
        let transfers = transfers::of(cell)?;
        let mut flows = Vec::new();
        for (index, transfer) in transfers.iter().enumerate() {
            let (from, to, rail) = (transfer.from, transfer.to, transfer.rail.as_str());
            for flow in 0..cell.flows.max(1) {
                // Source ports that are not pinned are chosen by the system.
                let any = || hash((self.seed, cell.id, round, from, flow)) as u16;
                let port = cell.port_of(from, flow).unwrap_or_else(any);
                let path = match self.crossed(from, to, rail, port, (cell.id, flow)) {
                    Some(path) => path,
                    None if self.is_one_host(from, to, rail) => Vec::new(),
                    None => return Err(format!("no path from rank {from} to rank {to} on rail {rail}")),
                };
                flows.push((index, path));
            }
        }
        let between_seed = hash((self.seed, "between", cell.id, round));
        let between = self.noise.between(&mut ChaCha8Rng::seed_from_u64(between_seed));
        let measurement = self
            .noise
            .parts
            .of_measurement(self.seed, cell.id, round, cell.slot);
        let factors = self.factors(cell, &transfers, round);
        let hosts = transfers.iter().flat_map(|transfer| {
            let ends = [transfer.from, transfer.to].into_iter();
            ends.map(|rank| self.host_of(rank, &transfer.rail))
        });
        let skew = self.noise.parts.skew(self.seed, hosts);
        Ok(Running {
            cell,
            transfers,
            flows,
            base: 0.0,
            skew,
            between: between * measurement,
            factors,
            random: ChaCha8Rng::seed_from_u64(hash((self.seed, "within", cell.id, round))),
            times: Vec::new(),
            sorted: Sorted::default(),
        })
    }

    /// What the times of transfers are multiplied with, for the ends that they have and the minute they run in.
    fn factors(&self, cell: &Cell, transfers: &[Transfer], round: u16) -> Vec<f64> {
        let factor = |transfer: &Transfer| {
            let rail = transfer.rail.as_str();
            let leaf = |rank: u32| self.graph.leaf_of(rank, rail).unwrap_or_default();
            let ends = FlowEnds {
                hosts: [self.host_of(transfer.from, rail), self.host_of(transfer.to, rail)],
                leaves: [leaf(transfer.from), leaf(transfer.to)],
                rail,
                slot: cell.slot,
                round,
            };
            self.noise.parts.of_flow(self.seed, ends)
        };
        transfers.iter().map(factor).collect()
    }

    /// The links that a connection crosses, and the share of it that does.
    fn crossed(
        &self,
        from: u32,
        to: u32,
        rail: &str,
        port: u16,
        connection: (u32, u16),
    ) -> Option<Vec<Crossing>> {
        let whole = |path: Path| path.into_iter().map(|link| (link, 1.0)).collect();
        match self.placement {
            PathPlacement::Steady | PathPlacement::Unknown => self.route(from, to, rail, port).map(whole),
            PathPlacement::PerConnection => {
                let drawn = self.graph.route(from, to, rail, |switch, links| {
                    hash((self.seed, "drawn", switch, connection, from, to)) as usize % links.len().max(1)
                });
                drawn.map(whole)
            }
            PathPlacement::Sprayed => {
                let crossed = self.graph.crossing_probabilities(from, to, rail);
                (!crossed.is_empty()).then_some(crossed)
            }
        }
    }

    /// The hosts' links that healthy noise makes slower for good by at least this share, of those that these ranks use: nothing was broken there,
    /// and whoever calls them slow is right all the same.
    pub fn slow_for_good(&self, ranks: &[u32], rails: &[&str], least: f64) -> Vec<LinkId> {
        let mut slow = Vec::new();
        for (rank, rail) in ranks
            .iter()
            .flat_map(|rank| rails.iter().map(move |rail| (*rank, *rail)))
        {
            let at = (
                self.host_of(rank, rail),
                self.graph.leaf_of(rank, rail).unwrap_or_default(),
            );
            let ends = [
                (self.graph.up(rank, rail), "out"),
                (self.graph.down(rank, rail), "in"),
            ];
            slow.extend(ends.into_iter().filter_map(|(link, direction)| {
                let factor = self.noise.parts.for_good(self.seed, at, rail, direction);
                link.filter(|_| 1.0 - factor.recip() >= least)
            }));
        }
        slow
    }

    fn is_one_host(&self, a: u32, b: u32, rail: &str) -> bool {
        let host = |rank| Some(&self.graph.link(self.graph.up(rank, rail)?).from.node);
        host(a).is_some() && host(a) == host(b)
    }

    fn host_of(&self, rank: u32, rail: &str) -> &'g str {
        let up = self.graph.up(rank, rail);
        up.map_or("", |up| self.graph.link(up).from.node.as_str())
    }

    /// What every link carries in a slot.
    fn capacity_in(&self, slot: u32, round: u16) -> Cow<'_, [f64]> {
        let is_slow = |slow: &&SlowLink| {
            let drawn = hash((self.seed, "comes and goes", slow.part, slot, round)) >> 11;
            (drawn as f64) < slow.often * (1u64 << 53) as f64
        };
        let mut capacity = Cow::Borrowed(self.capacity.as_slice());
        for slow in self.come_and_go.iter().filter(is_slow) {
            capacity.to_mut()[slow.link.index()] *= slow.share.clamp(1e-6, 1.0);
        }
        if self.noise.parts.neighbours.is_some() {
            for (link, _) in self.graph.links().filter(|(_, link)| !link.is_host) {
                let left = self
                    .noise
                    .parts
                    .left_by_neighbours(self.seed, link.index(), slot, round);
                if left < 1.0 {
                    capacity.to_mut()[link.index()] *= left;
                }
            }
        }
        capacity
    }

    /// Every cell's time without noise, given all concurrent flows and what links carry.
    fn share_the_links(&self, running: &mut [Running<'_>], capacity: &[f64]) {
        let paths = running
            .iter()
            .flat_map(|cell| cell.flows.iter().map(|(_, path)| path.as_slice()));
        let paths: Vec<&[Crossing]> = paths.collect();
        let mut shares = fair_shares(&paths, capacity);
        if self.placement == PathPlacement::Sprayed {
            shares::send_dropped_again(&paths, capacity, &self.nominal, &mut shares);
        }
        let mut shares = shares.into_iter();
        for cell in running {
            let per_transfer = f64::from(cell.cell.flows.max(1));
            let mut longest: f64 = 0.0;
            for (index, _) in &cell.flows {
                let share = shares
                    .next()
                    .filter(|share| share.is_finite())
                    .unwrap_or(WITHIN_A_HOST);
                let bytes = cell.transfers[*index].bytes.0 as f64 / per_transfer;
                longest = longest.max(bytes / (share * self.noise.efficiency) * cell.factors[*index]);
            }
            cell.base = (longest * 1e9 + self.noise.fixed_ns as f64) * cell.between + cell.skew;
        }
    }

    /// Iterates until every cell's median is known tightly enough, as a run does.
    fn iterate(&self, running: &mut [Running<'_>], test: &TestRecord) -> StopReason {
        let slowest = running
            .iter()
            .fold(0.0, |slowest: f64, cell| slowest.max(cell.base));
        let affordable = (test.budget.0 as f64 / slowest.max(1.0)) as u32;
        let most = test.max_iterations.max(1);
        // As in a run: what is slowed down goes on for an interval, as long as there.
        let needed = samples_needed(self.confidence).unwrap_or(0) as u32;
        for iteration in 1.. {
            for cell in running.iter_mut() {
                let hosts = cell.cell.ranks.len();
                let time = cell.base * self.noise.within(&mut cell.random);
                let delay = self.noise.parts.delay(hosts, &mut cell.random);
                let time = (time + delay).max(1.0) as u64;
                cell.times.push(time);
                cell.sorted.insert(time);
            }
            if iteration >= most {
                return StopReason::Iterations;
            }
            let is_tight = |cell: &Running<'_>| cell.sorted.is_tight(self.confidence, test.tight);
            if iteration >= test.min_iterations && running.iter().all(is_tight) {
                return StopReason::Tight;
            }
            if iteration >= affordable
                && (iteration >= needed || iteration >= MOST_BUDGETS * affordable.max(1))
            {
                return StopReason::Budget;
            }
        }
        StopReason::Iterations
    }

    fn events_of(
        &self,
        running: &Running<'_>,
        test: &TestRecord,
        round: u16,
        stop: StopReason,
    ) -> Vec<Event> {
        let cell = running.cell;
        let mut events = Vec::with_capacity(running.times.len() * cell.ranks.len() + 1);
        for (iter, time) in (0u32..).zip(&running.times) {
            for rank in &cell.ranks {
                let jitter = hash((self.seed, cell.id, round, iter, rank)) % 1000;
                let own = OWN_WORK * (0.9 + 0.0002 * jitter as f64);
                events.push(Event::Sample(Sample {
                    cell: cell.id,
                    round,
                    iter,
                    rank: *rank,
                    ns: *time - time * (jitter % 7) / 10_000,
                    wait_ns: (*time as f64 * (1.0 - own)) as u64,
                    late_ns: jitter,
                }));
            }
        }
        let iterations = running.times.len() as u32;
        let moved: Vec<LinkTraffic> = running.transfers.iter().map(Transfer::moved).collect();
        events.push(Event::CellDone(CellDone {
            cell: cell.id,
            round,
            iterations,
            verified: iterations.div_ceil(test.verify_every.max(1)) * u32::from(test.verify_every > 0),
            stop,
            max_skew_ns: Nanos(1000),
            unseen_skew_ns: self.noise.parts.unseen_skew(),
            planned: moved.clone(),
            moved,
            flows: Vec::new(),
            tcp: self.tcp_of(running, round),
            streams: Vec::new(),
            probes: Vec::new(),
        }));
        events
    }
}

/// A running cell.
struct Running<'c> {
    cell: &'c Cell,
    transfers: Vec<Transfer>,
    /// The transfer that each flow belongs to, and what it crosses.
    flows: Vec<(usize, Vec<Crossing>)>,
    /// Nanoseconds of an iteration before it is jittered.
    base: f64,
    /// How far its hosts start apart, in nanoseconds.
    skew: f64,
    between: f64,
    /// What the time of each transfer is multiplied with.
    factors: Vec<f64>,
    random: ChaCha8Rng,
    times: Vec<u64>,
    sorted: Sorted,
}

fn hash(what: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests;
