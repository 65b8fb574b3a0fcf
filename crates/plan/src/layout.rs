//! The slots of one test: every combination it asks for, before order and numbers.

use record::TestKind;
use std::collections::HashSet;

use record::units::Bytes;
use record::{
    Algorithm, Cell, Collective, DType, DeviceKind, Engine, Load, Placement, ReduceOp, TransportKind,
    Untested, VerbsTerms,
};
use topology::Fabric;
use topology::suite::{Groups, Striping, TestCase};

use super::verbs::ROCE_PORTS;
use super::{FabricKnowledge, PlanError, note};

/// More cells than this in one test would take weeks; refused before they are made.
const MOST_CELLS: u64 = 1_000_000;

/// Cells that run at the same time.
pub(super) type Slot = Vec<Cell>;

/// One test about to be laid out on a fabric.
pub(super) struct TestLayout<'a> {
    pub test: &'a TestCase,
    pub fabric: &'a Fabric,
    pub transport: TransportKind,
    pub device: DeviceKind,
    /// The terms of its cells, when they go over RDMA.
    pub verbs: Option<VerbsTerms>,
    /// Rails by name; empty for a transport without rails.
    pub rails: &'a [String],
    /// The fabric and the paths through it, as far as they are known.
    pub known: &'a FabricKnowledge,
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

impl TestLayout<'_> {
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
            TestKind::Fairness => self.fairness(),
            TestKind::Permutation => self.permutations(),
            TestKind::Probe => self.probes(),
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
            probes: None,
            line_mbit: None,
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
