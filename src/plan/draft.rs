//! The slots of one test: every combination it asks for, before order and numbers.

use std::collections::HashSet;

use crate::fabric::Fabric;
use crate::fabric::graph::Graph;
use crate::record::{
    Algorithm, Cell, Collective, DType, DeviceKind, Engine, Load, Placement, ReduceOp, TransportKind,
    Untested, VerbsTerms,
};
use crate::suite::{Groups, Schedule, Striping, TestCase, TestKind};
use crate::units::Bytes;

use super::adaptive::Adaptive;
use super::schedule::{by_topology, random, tournament};
use super::verbs::ROCE_PORTS;
use super::{Known, PlanError, note};

/// More cells than this in one test would take weeks; refused before they are made.
const MOST_CELLS: u64 = 1_000_000;

/// How often an adaptive test crosses every link before it asks what is suspicious.
const OPENING: u32 = 2;

/// Cells that run at the same time.
pub(super) type Slot = Vec<Cell>;

/// One test about to be laid out on a fabric.
pub(super) struct Draft<'a> {
    pub test: &'a TestCase,
    pub fabric: &'a Fabric,
    pub transport: TransportKind,
    pub device: DeviceKind,
    /// The terms of its cells, when they go over RDMA.
    pub verbs: Option<VerbsTerms>,
    /// Rails by name; empty for a transport without rails.
    pub rails: &'a [String],
    /// The fabric and the paths through it, as far as they are known.
    pub known: &'a Known,
    /// What adaptive tests look at; everything when it names nothing.
    pub focus: &'a [String],
    pub seed: u64,
    pub untested: &'a mut Vec<Untested>,
}

/// What a cell does, apart from where.
#[derive(Clone, Copy)]
pub(super) struct Work {
    pub(super) collective: Collective,
    pub(super) algorithm: Algorithm,
    pub(super) dtype: DType,
    pub(super) op: ReduceOp,
    pub(super) placement: Placement,
    pub(super) size: Bytes,
}

impl Draft<'_> {
    /// All slots of the test, in no particular order.
    pub fn slots(&mut self) -> Result<Vec<Slot>, PlanError> {
        self.check_ports()?;
        match self.test.kind {
            TestKind::Collective => self.collective(),
            TestKind::Rails => self.rails(),
            TestKind::Pairs | TestKind::Latency => self.pairs(),
            TestKind::Incast | TestKind::AllToAll => self.congestion(),
            TestKind::Groups => self.fabric_groups(),
            TestKind::Ecmp => self.streams(),
        }
    }

    /// Each group by itself, on each rail by itself and, if asked for, striped over all rails.
    fn collective(&mut self) -> Result<Vec<Slot>, PlanError> {
        let groups = self.groups()?;
        let each = self.rails.iter().map(|rail| vec![rail.clone()]);
        let rail_sets: Vec<Vec<String>> = match (self.test.stripe, self.rails) {
            (_, []) => vec![Vec::new()],
            (Striping::Each, _) => each.collect(),
            (Striping::All, all) => vec![all.to_vec()],
            (Striping::EachAndAll, [_]) => each.collect(),
            (Striping::EachAndAll, all) => each.chain([all.to_vec()]).collect(),
        };
        if self.test.stripe == Striping::EachAndAll && self.rails.len() < 2 {
            let why = if self.rails.is_empty() {
                "this transport has no rails"
            } else {
                "there is one rail only"
            };
            self.leave_out("the payload striped over rails", why);
        }
        self.check_count(groups.len() * rail_sets.len())?;
        let mut slots = Vec::new();
        for group in &groups {
            for work in self.work(group.len())? {
                for rails in &rail_sets {
                    slots.push(vec![self.cell(work, group.clone(), rails.clone(), Load::Alone)]);
                }
            }
        }
        Ok(slots)
    }

    /// For every size each rail alone, then all rails at the same time.
    fn rails(&mut self) -> Result<Vec<Slot>, PlanError> {
        if !self.transport.has_rails() {
            let why = format!(
                "transport {} has no rails; use --transport tcp or verbs",
                self.transport
            );
            self.leave_out("all of it", &why);
            return Ok(Vec::new());
        }
        let world = self.world();
        if world.len() < 2 {
            self.leave_out("all of it", "one rank alone has no link to measure");
            return Ok(Vec::new());
        }
        if self.rails.len() < 2 {
            self.leave_out("rails at the same time", "there is one rail only");
        }
        self.check_count(2 * self.rails.len())?;
        let mut slots = Vec::new();
        for work in self.work(world.len())? {
            let on = |rail: &String, load| self.cell(work, world.clone(), vec![rail.clone()], load);
            slots.extend(self.rails.iter().map(|rail| vec![on(rail, Load::Alone)]));
            if self.rails.len() > 1 {
                slots.push(self.rails.iter().map(|rail| on(rail, Load::Together)).collect());
            }
        }
        Ok(slots)
    }

    /// Every pair of ranks, on each rail. Where every rank has a host to itself the pairs of a round run at the same time;
    /// where ranks share a host they would measure each other, so pairs run one after another.
    fn pairs(&mut self) -> Result<Vec<Slot>, PlanError> {
        let world = self.world();
        if world.len() < 2 {
            self.leave_out("all of it", "one rank alone has no partner");
            return Ok(Vec::new());
        }
        match self.test.schedule {
            Schedule::Adaptive => return self.adaptive(&world),
            Schedule::Topology => return self.by_topology(&world),
            Schedule::Tournament | Schedule::Random(_) => {}
        }
        let rail_sets = self.pairs_of_rails();
        let partners = match self.test.schedule {
            Schedule::Random(rounds) => rounds as usize,
            _ => world.len() - 1,
        };
        self.check_count(world.len() * partners * rail_sets.len())?;
        let at_once = self.fabric.is_one_rank_per_host() && world.len() > 3;
        let load = if at_once { Load::Together } else { Load::Alone };
        let mut slots = Vec::new();
        for work in self.work(2)? {
            for (number, (rails, to_rail)) in rail_sets.iter().enumerate() {
                let rounds = match self.test.schedule {
                    // Other pairs on every rail: together they say more.
                    Schedule::Random(rounds) => {
                        random::rounds(world.len(), rounds, self.seed.wrapping_add(number as u64))
                    }
                    _ => tournament::rounds(world.len()),
                };
                for round in rounds {
                    for forward in directions(work.collective) {
                        let cells = round.iter().map(|(a, b)| {
                            let (a, b) = (world[*a], world[*b]);
                            let ranks = if *forward { vec![a, b] } else { vec![b, a] };
                            Cell {
                                to_rail: to_rail.clone(),
                                ..self.cell(work, ranks, rails.clone(), load)
                            }
                        });
                        if at_once {
                            slots.push(cells.collect());
                        } else {
                            slots.extend(cells.map(|cell| vec![cell]));
                        }
                    }
                }
            }
        }
        Ok(slots)
    }

    /// The rails of the two ranks of a pair: the first one's, and the second one's where it is another.
    fn pairs_of_rails(&mut self) -> Vec<(Vec<String>, Option<String>)> {
        if !self.transport.has_rails() {
            return vec![(Vec::new(), None)];
        }
        let mut sets = Vec::new();
        if self.test.pairing.has_same() {
            sets.extend(self.rails.iter().map(|rail| (vec![rail.clone()], None)));
        }
        if self.test.pairing.has_cross() {
            if self.transport != TransportKind::Tcp {
                let why = format!(
                    "transport {} has pairs on one rail only; use --transport tcp",
                    self.transport
                );
                self.leave_out("pairs across rails", &why);
                return sets;
            }
            if self.rails.len() < 2 {
                self.leave_out("pairs across rails", "there is one rail only");
            }
            for rail in self.rails {
                let others = self.rails.iter().filter(|other| *other != rail);
                sets.extend(others.map(|other| (vec![rail.clone()], Some(other.clone()))));
            }
        }
        sets
    }

    /// Whether its transport crosses no links, so that there is nothing to choose paths over; that is noted.
    fn has_no_links(&mut self) -> bool {
        let has_links = self.transport.has_rails();
        if !has_links {
            let why = format!(
                "transport {} has no links; use --transport tcp or verbs",
                self.transport
            );
            self.leave_out("all of it", &why);
        }
        !has_links
    }

    /// Neighbours on a leaf, then leaf to leaf over every way; slots that ask no link for more than it carries.
    fn by_topology(&mut self, world: &[u32]) -> Result<Vec<Slot>, PlanError> {
        if self.has_no_links() {
            return Ok(Vec::new());
        }
        let known = self.known;
        let Some(graph) = known.graph.as_deref().filter(|graph| !graph.is_inferred()) else {
            let why = "its schedule follows the topology, which is not known; say it with --topology FILE";
            self.leave_out("all of it", why);
            return Ok(Vec::new());
        };
        let mut slots = Vec::new();
        for rail in self.rails {
            let matchings = by_topology::matchings(graph, &known.paths, world, rail);
            let flows = matchings.iter().map(Vec::len).sum();
            self.check_count(flows)?;
            if matchings.iter().flatten().any(|flow| flow.path.is_empty()) {
                let why = "which source port leads over which spine was not found out";
                self.leave_out(&format!("every way between leaves of {rail}"), why);
            }
            for work in self.work(2)? {
                for flows in &matchings {
                    // What goes both ways at once is measured once.
                    let both_ways = work.collective != Collective::PointToPoint;
                    let flows: Vec<_> = flows
                        .iter()
                        .filter(|flow| !both_ways || flow.from < flow.to)
                        .collect();
                    let load = match flows.len() {
                        0 | 1 => Load::Alone,
                        _ => Load::Together,
                    };
                    let cells = flows.iter().map(|flow| {
                        let cell = self.cell(work, vec![flow.from, flow.to], vec![rail.clone()], load);
                        flow.as_cell(cell, graph)
                    });
                    slots.push(cells.collect());
                }
            }
        }
        slots.retain(|slot: &Slot| !slot.is_empty());
        if slots.is_empty() {
            self.leave_out("all of it", "no two hosts have a way between them on a rail");
        }
        Ok(slots)
    }

    /// Flows that cross every link a few times; what tells suspects apart is decided while measuring.
    fn adaptive(&mut self, world: &[u32]) -> Result<Vec<Slot>, PlanError> {
        if self.has_no_links() {
            return Ok(Vec::new());
        }
        let inferred;
        let graph = match &self.known.graph {
            Some(graph) => graph.as_ref(),
            None => {
                inferred = Graph::inferred(&self.fabric.ranks);
                &inferred
            }
        };
        let mut slots = Vec::new();
        for work in self.work(2)? {
            let mut adaptive = Adaptive::new(graph, &self.known.paths, world, self.rails, self.seed);
            for flows in adaptive.opening(OPENING, self.focus) {
                let load = if flows.len() > 1 {
                    Load::Together
                } else {
                    Load::Alone
                };
                let cells = flows.iter().map(|flow| {
                    let cell = self.cell(work, vec![flow.from, flow.to], vec![flow.rail.clone()], load);
                    flow.as_cell(cell, graph)
                });
                slots.push(cells.collect());
            }
        }
        if slots.is_empty() {
            self.leave_out("all of it", "no two hosts have a way between them on a rail");
        }
        Ok(slots)
    }

    pub(super) fn world(&self) -> Vec<u32> {
        self.fabric.ranks.iter().map(|record| record.rank).collect()
    }

    /// The groups that run the collective; ranks that are in none are noted.
    fn groups(&mut self) -> Result<Vec<Vec<u32>>, PlanError> {
        let world = self.world();
        let size = match &self.test.groups {
            Groups::World => {
                if world.len() < 2 {
                    self.leave_out("any link", "there is one rank only");
                }
                return Ok(vec![world]);
            }
            Groups::Listed(groups) => {
                for alone in groups.iter().filter(|group| group.len() < 2).flatten() {
                    self.leave_out(&format!("any link of rank {alone}"), "it is alone in its group");
                }
                let unknown = groups.iter().flatten().find(|rank| !world.contains(rank));
                return match unknown {
                    None => Ok(groups.clone()),
                    Some(rank) => Err(PlanError::UnknownRank {
                        test: self.test.name.clone(),
                        rank: *rank,
                        last: world.last().copied().unwrap_or(0),
                    }),
                };
            }
            Groups::Pairs => 2,
            Groups::Halves => world.len() / 2,
        };
        if size < 2 {
            let why = format!("{} ranks do not make two groups of two", world.len());
            self.leave_out("all of it", &why);
            return Ok(Vec::new());
        }
        let groups = world.chunks_exact(size);
        for rank in groups.remainder() {
            let what = self.fabric.rank_name(*rank);
            self.leave_out(
                &what,
                &format!("groups of {size} do not use up {} ranks", world.len()),
            );
        }
        Ok(groups.map(<[u32]>::to_vec).collect())
    }

    /// Every combination of the test's lists for a group of `ranks`. Sizes are whole elements, each size once.
    pub(super) fn work(&mut self, ranks: usize) -> Result<Vec<Work>, PlanError> {
        let test = self.test;
        if test.collectives.iter().any(|collective| collective.has_root()) && test.root as usize >= ranks {
            return Err(PlanError::RootOutside {
                test: test.name.clone(),
                root: test.root,
                ranks,
            });
        }
        let mut works = Vec::new();
        for collective in test.collectives.iter().copied() {
            for dtype in test.dtypes.iter().copied() {
                for size in self.sizes(collective, dtype, ranks) {
                    for algorithm in test.algorithms_of(collective).iter().copied() {
                        if algorithm == Algorithm::CopyEngine && self.transport != TransportKind::Peer {
                            let what = format!("{collective} by copy engine");
                            let why =
                                "copy engines move data between GPUs; use --device cuda and peer memory";
                            self.leave_out(&what, why);
                            continue;
                        }
                        for op in test.ops_of(collective).iter().copied() {
                            let of = |placement| Work {
                                collective,
                                algorithm,
                                dtype,
                                op,
                                placement,
                                size,
                            };
                            works.extend(test.placements.iter().copied().map(of));
                        }
                    }
                }
            }
        }
        Ok(works)
    }

    /// The payloads, rounded down to whole elements (in every block, for blocked collectives).
    fn sizes(&mut self, collective: Collective, dtype: DType, ranks: usize) -> Vec<Bytes> {
        let blocks = if collective.is_blocked() { ranks } else { 1 };
        let unit = (dtype.size() * blocks) as u64;
        let mut sizes = Vec::new();
        let mut seen = HashSet::new();
        for asked in &self.test.sizes {
            let size = Bytes(asked.0 - asked.0 % unit);
            if size.0 == 0 && asked.0 > 0 {
                let what = format!("{asked} {collective} of {dtype} over {ranks} ranks");
                self.leave_out(&what, &format!("less than the {unit} B of one element per block"));
            } else if seen.insert(size) {
                sizes.push(size);
            }
        }
        sizes
    }

    pub(super) fn cell(&self, work: Work, ranks: Vec<u32>, rails: Vec<String>, load: Load) -> Cell {
        let has_root = work.collective.has_root();
        Cell {
            id: 0,
            test: self.test.name.clone(),
            slot: 0,
            load,
            collective: work.collective,
            algorithm: work.algorithm,
            ranks,
            root: if has_root { self.test.root } else { 0 },
            rails,
            flows: self.test.flows,
            source_port: self.test.source_port,
            transport: self.transport,
            device: self.device,
            size: work.size,
            dtype: work.dtype,
            op: work.op,
            placement: work.placement,
            engine: Engine::Ours,
            batch: self.test.batch,
            verbs: self.verbs,
            path: Vec::new(),
            to_rail: None,
            group: None,
            streams: None,
        }
    }

    pub(super) fn leave_out(&mut self, what: &str, why: &str) {
        note(self.untested, format!("test `{}`: {what}", self.test.name), why);
    }

    fn check_ports(&self) -> Result<(), PlanError> {
        let ranks = self
            .fabric
            .ranks
            .iter()
            .map(|record| record.rank as usize + 1)
            .max()
            .unwrap_or(0);
        match self.test.source_port {
            Some(first) if self.transport == TransportKind::Verbs && first < *ROCE_PORTS.start() => {
                Err(PlanError::PortNotOfRoce {
                    test: self.test.name.clone(),
                    first,
                })
            }
            Some(first) if usize::from(first) + ranks * usize::from(self.test.flows) > 1 << 16 => {
                Err(PlanError::TooManyPorts {
                    test: self.test.name.clone(),
                    first,
                    flows: self.test.flows,
                    ranks,
                })
            }
            _ => Ok(()),
        }
    }

    /// Refuses a test that makes too many cells, before making them.
    pub(super) fn check_count(&self, places: usize) -> Result<(), PlanError> {
        let cells = (places as u64).saturating_mul(self.test.combinations() as u64);
        if cells > MOST_CELLS {
            let test = self.test.name.clone();
            return Err(PlanError::TooManyCells {
                test,
                cells,
                most: MOST_CELLS,
            });
        }
        Ok(())
    }
}

/// Whether a pair is measured from the first to the second, or that and back.
fn directions(collective: Collective) -> &'static [bool] {
    match collective {
        Collective::PointToPoint => &[true, false],
        _ => &[true],
    }
}
