//! A cell on GPUs: the host's schedules, made into ops that a kernel walks through.
//!
//! Lowering is pure: a function of the cell, of who reaches whose memory, and of how many thread blocks fit. Every rank
//! works out the whole cell, so both ends of every way agree without a word; and it is proven right in memory before a
//! GPU is touched.

mod carrier;
mod cell_plan;
mod copies;
mod direct;
mod execute;
mod fuse;
mod gang;
mod layout;
pub mod nccl;
mod order;
mod ports;
mod proxy;
mod site;
mod standstill;
mod station;
mod testing;
mod tuning;
mod watch;

#[cfg(test)]
mod interpret;

pub use execute::{GpuWork, Preparation, planned_bytes, prepare, programs};
pub use layout::{Layout, PortPlace, arena_bytes};
pub use ports::PortPlan;
pub use site::Site;
pub use station::Station;
pub use tuning::Tuning;

use cell_plan::CellPlan;
use fuse::Own;
use ports::Ports;

use super::{ProgramError, scheme_of};
use crate::device::cuda::abi::{self, Mode, NO_PORT, Op};
use record::{Cell, Collective, Placement, ReduceOp};

/// How one rank's GPU gets at another rank's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// By address: the same GPU, or a peer's memory that is mapped.
    Direct {
        /// Whether both are on one GPU, so that flags need the GPU's scope only.
        same_gpu: bool,
    },
    /// Not at all: threads on both hosts carry the data over a network.
    Proxy,
}

/// Ranks that share a GPU, whose kernels must fit on it together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gang {
    /// World ranks, of this cell.
    pub ranks: Vec<u32>,
    /// Thread blocks that fit on the GPU at once, for this cell.
    pub capacity: u32,
}

/// Ranks whose ops and ways the low-latency kernel has room for.
const MOST_RANKS_IN_WORDS: usize = 32;

/// What the machines allow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Every rank of the cell is in exactly one.
    pub gangs: Vec<Gang>,
    /// Threads of a block.
    pub threads: u32,
    /// Overrides for measurements of the engine itself.
    pub words_up_to: Option<usize>,
    /// See [`Tuning::chunk`].
    pub longest_chunk: Option<usize>,
    /// See [`Tuning::lag`].
    pub lag: Option<u32>,
}

impl Limits {
    /// What these gangs allow.
    pub fn new(gangs: Vec<Gang>, threads: u32) -> Limits {
        Limits {
            gangs,
            threads,
            words_up_to: None,
            longest_chunk: None,
            lag: None,
        }
    }

    /// Whether the low-latency protocol may carry a cell: only where every rank's result depends on every rank.
    fn words_allowed(&self, cell: &Cell) -> bool {
        cell.collective == Collective::AllReduce && (2..=MOST_RANKS_IN_WORDS).contains(&cell.world())
    }
}

/// What one rank does in one cell, for a kernel to walk through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceProgram {
    /// World rank.
    pub rank: u32,
    /// In the order in which they are done.
    pub ops: Vec<Op>,
    /// Ways to and from others.
    pub ports: Vec<PortPlan>,
    /// Workers, the same on all ranks.
    pub workers: u32,
    /// Thread blocks of this rank: one when it only watches.
    pub blocks: u32,
    /// Threads of a block.
    pub threads: u32,
    /// Elements of a chunk.
    pub chunk: u32,
    /// Bytes of an element.
    pub element: u32,
    /// Most iterations of a worker.
    pub iterations: u32,
    /// Whether the low-latency protocol carries it.
    pub words: bool,
    /// Name of the kernel.
    pub kernel: String,
    /// Bytes of the payload.
    pub payload: u64,
    /// Whether the input must be set aside before it is overwritten in place.
    pub stages: bool,
    /// Whether input and output are the same memory.
    pub in_place: bool,
}

impl DeviceProgram {
    /// The programs of all ranks of `cell`, in the order of its ranks.
    pub fn all(
        cell: &Cell,
        reach: &dyn Fn(u32, u32) -> Reach,
        limits: &Limits,
    ) -> Result<Vec<DeviceProgram>, ProgramError> {
        let all_direct = || {
            let pairs = cell
                .ranks
                .iter()
                .flat_map(|a| cell.ranks.iter().map(move |b| (*a, *b)));
            pairs
                .filter(|(a, b)| a != b)
                .all(|(a, b)| reach(a, b) != Reach::Proxy)
        };
        let direct = all_direct();
        // Who moves data decides how many workers fit, and is the same whatever the number of workers.
        let small = Tuning::choose(cell, limits, 1, direct);
        let plan = CellPlan::new(cell, small.words, small.lag > 0, reach)?;
        let drafts: Vec<Vec<Op>> = (0..cell.world())
            .map(|position| draft(cell, &plan, position, 0))
            .collect();
        let moves = |position: usize| {
            small.words || drafts[position].iter().any(|op| op.flags & abi::COUNT_ONLY == 0)
        };
        let movers = most_workers(cell, limits, &moves)?;
        let tuning = Tuning::choose(cell, limits, movers, direct);
        let ports = Ports::new(cell, &plan, &tuning, reach);
        let stages = cell.placement == Placement::InPlace && scheme_of(cell)?.stages_input_in_place();
        let element = cell.dtype.size() as u32;
        let chunk = (tuning.chunk / cell.dtype.size()) as u32;
        let operator = match cell.op {
            ReduceOp::Sum | ReduceOp::Avg => ReduceOp::Sum,
            other => other,
        };
        let kind = if tuning.words { "words" } else { "walk" };
        let mut programs = Vec::with_capacity(cell.world());
        for (position, &rank) in cell.ranks.iter().enumerate() {
            let mut ops = draft(cell, &plan, position, tuning.lag);
            ports.attach(&plan, position, &mut ops);
            let ports = ports.of(position).to_vec();
            if ops.len() > abi::MOST_OPS || ports.len() > abi::MOST_PORTS {
                return Err(ProgramError::TooManyWays);
            }
            let mut program = DeviceProgram {
                rank,
                ops,
                ports,
                workers: tuning.workers,
                blocks: if moves(position) { tuning.workers } else { 1 },
                threads: tuning.threads,
                chunk,
                element,
                iterations: 0,
                words: tuning.words,
                kernel: format!("rg_{kind}_{}_{operator}", cell.dtype),
                payload: cell.size.0,
                stages,
                in_place: cell.placement == Placement::InPlace,
            };
            // Who only watches has nothing to go through.
            program.iterations = if program.only_watches() {
                0
            } else {
                program.most_iterations()
            };
            programs.push(program);
        }
        Ok(programs)
    }
}

/// Workers that fit for every rank that moves data; an error when not even one does.
fn most_workers(cell: &Cell, limits: &Limits, moves: &dyn Fn(usize) -> bool) -> Result<u32, ProgramError> {
    let mut most = u32::MAX;
    for gang in &limits.gangs {
        let positions = cell
            .ranks
            .iter()
            .enumerate()
            .filter(|(_, rank)| gang.ranks.contains(rank));
        let (movers, watchers): (Vec<_>, Vec<_>) = positions.partition(|(position, _)| moves(*position));
        let left = gang.capacity.saturating_sub(watchers.len() as u32);
        let fits = match movers.len() as u32 {
            0 => left,
            movers => left / movers,
        };
        if fits == 0 {
            return Err(ProgramError::DoNotFit {
                ranks: movers.len() + watchers.len(),
                blocks: gang.capacity,
            });
        }
        if !movers.is_empty() {
            most = most.min(fits);
        }
    }
    Ok(if most == u32::MAX { 1 } else { most })
}

/// One rank's ops, without their ports.
fn draft(cell: &Cell, plan: &CellPlan, position: usize, lag: u32) -> Vec<Op> {
    let schedule = &plan.schedules[position];
    let line = 128 / cell.dtype.size();
    let ops = plan.ops[position].iter().enumerate().map(|(index, fused)| {
        let block = &schedule.blocks[fused.block];
        let modes = |messages: &[usize]| -> Vec<Mode> {
            messages.iter().map(|index| plan.messages[*index].mode).collect()
        };
        let incoming = modes(&plan.taken[position][index]);
        let outgoing = modes(&plan.sent[position][index]);
        // Both ends of a message cut it alike: as it lies at the sender.
        let taken = plan.taken[position][index].first();
        let begin = taken.map_or(block.start, |message| plan.messages[*message].sent_from);
        let pushed = fused.copies && incoming.contains(&Mode::Push);
        let mut flags = match fused.own {
            Own::Nothing => 0,
            Own::Input => abi::OWN_INPUT,
            Own::Output => abi::OWN_OUTPUT,
        };
        let already_there = cell.placement == Placement::InPlace
            && fused.receives.is_empty()
            && !scheme_of(cell).is_ok_and(|scheme| scheme.stages_input_in_place());
        if fused.keeps && !pushed && !already_there {
            flags |= abi::KEEP;
        }
        if fused.completes && cell.op == ReduceOp::Avg {
            flags |= abi::FINISH;
        }
        let moves = flags & abi::KEEP != 0 || outgoing.iter().any(|mode| *mode != Mode::Pull);
        if !moves {
            flags = abi::COUNT_ONLY;
        }
        Op {
            begin: block.start as u64,
            elements: block.len() as u64,
            source_at: [0; 2],
            target_at: [0; 2],
            source: [NO_PORT; 2],
            target: [NO_PORT; 2],
            flags,
            lag: lag * plan.levels[position][index],
            skew: (begin % line) as u32,
            unused: 0,
        }
    });
    ops.collect()
}
