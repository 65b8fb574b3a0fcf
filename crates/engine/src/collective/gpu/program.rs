//! What each rank of a cell does, as ops that a kernel executes.

use std::collections::BTreeMap;

use super::cell_plan::CellPlan;
use super::fuse::OwnValue;
use super::limits::{Limits, MemoryAccess};
use super::ports::{PortPlan, Ports};
use super::tuning::Tuning;
use crate::collective::{ProgramError, scheme_of};
use crate::device::cuda::abi::{self, COUNT_ONLY, Mode, NO_PORT, Op};
use record::{Cell, Placement, ReduceOp};

/// What one rank does in one cell, as its kernel executes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceProgram {
    /// World rank.
    pub rank: u32,
    /// In order of execution.
    pub ops: Vec<Op>,
    /// Its ends of the connections to other ranks.
    pub ports: Vec<PortPlan>,
    /// Workers, the same on all ranks.
    pub workers: u32,
    /// Thread blocks of this rank: one when it is passive.
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
        reach: &dyn Fn(u32, u32) -> MemoryAccess,
        limits: &Limits,
    ) -> Result<Vec<DeviceProgram>, ProgramError> {
        let all_direct = || {
            let pairs = cell
                .ranks
                .iter()
                .flat_map(|a| cell.ranks.iter().map(move |b| (*a, *b)));
            pairs
                .filter(|(a, b)| a != b)
                .all(|(a, b)| reach(a, b) != MemoryAccess::Proxy)
        };
        let direct = all_direct();
        // Which ranks move data decides how many workers fit, and does not depend on the number of workers.
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
                return Err(ProgramError::TooManyConnections);
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
            // A passive rank has no chunks of its own.
            program.iterations = if program.is_passive() {
                0
            } else {
                program.most_iterations()
            };
            programs.push(program);
        }
        Ok(programs)
    }

    /// Chunks of an op, over all workers.
    fn cells(&self, op: &Op) -> u64 {
        if op.elements == 0 {
            return 0;
        }
        (u64::from(op.skew) + op.elements).div_ceil(u64::from(self.chunk))
    }

    /// Iterations until the last worker is done with its last op.
    pub(super) fn most_iterations(&self) -> u32 {
        let last = |op: &Op| self.cells(op).div_ceil(u64::from(self.workers)) as u32 + op.lag;
        self.ops.iter().map(last).max().unwrap_or(0)
    }

    /// What `worker` does in iteration `iteration` of op `op`, if anything: first element and number of elements.
    pub(super) fn chunk_at(&self, op: usize, worker: u32, iteration: u32) -> Option<(u64, u64)> {
        let op = &self.ops[op];
        let number = u64::from(iteration.checked_sub(op.lag)?);
        let cell = number * u64::from(self.workers) + u64::from(worker);
        let (chunk, skew) = (u64::from(self.chunk), u64::from(op.skew));
        let first = (cell * chunk).max(skew);
        let last = (cell * chunk + chunk).min(skew + op.elements);
        (first < last).then(|| (op.begin + first - skew, last - first))
    }

    /// What one collective moves from this rank to each other: world rank and bytes, counted over its ops.
    pub fn sends(&self) -> Vec<(u32, u64)> {
        let mut sends: BTreeMap<u32, u64> = BTreeMap::new();
        for op in &self.ops {
            let ports = op.target.iter().filter_map(|port| self.ports.get(*port as usize));
            for port in ports {
                *sends.entry(port.peer).or_default() += op.elements * u64::from(self.element);
            }
        }
        sends.into_iter().filter(|(_, bytes)| *bytes > 0).collect()
    }

    /// Whether no op moves data here: others read this rank's input and write its output.
    pub fn is_passive(&self) -> bool {
        !self.words && self.ops.iter().all(|op| op.flags & COUNT_ONLY != 0)
    }
}

/// Workers that fit for every rank that moves data; an error when not even one fits.
fn most_workers(cell: &Cell, limits: &Limits, moves: &dyn Fn(usize) -> bool) -> Result<u32, ProgramError> {
    let mut most = u32::MAX;
    for group in &limits.launch_groups {
        let positions = cell
            .ranks
            .iter()
            .enumerate()
            .filter(|(_, rank)| group.ranks.contains(rank));
        let (movers, watchers): (Vec<_>, Vec<_>) = positions.partition(|(position, _)| moves(*position));
        let left = group.capacity.saturating_sub(watchers.len() as u32);
        let fits = match movers.len() as u32 {
            0 => left,
            movers => left / movers,
        };
        if fits == 0 {
            return Err(ProgramError::DoNotFit {
                ranks: movers.len() + watchers.len(),
                blocks: group.capacity,
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
        // Both ends cut a message by its alignment at the sender.
        let taken = plan.taken[position][index].first();
        let begin = taken.map_or(block.start, |message| plan.messages[*message].sent_from);
        let pushed = fused.copies && incoming.contains(&Mode::Push);
        let mut flags = match fused.own {
            OwnValue::Nothing => 0,
            OwnValue::Input => abi::OWN_INPUT,
            OwnValue::Output => abi::OWN_OUTPUT,
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
