//! All ranks of a cell at once: their fused ops, and the messages between them.
//!
//! Both ends of a message must agree on how it travels without asking each other, so every rank plans the whole cell. The plan is
//! a function of the cell and of which GPU reaches which memory, so it is the same on every rank.

use std::collections::BTreeMap;

use super::fuse::{FusedOp, OwnValue, fuse};
use super::limits::MemoryAccess;
use crate::collective::schedule::{Action, Schedule, Shape};
use crate::collective::{ProgramError, scheme_of};
use crate::device::cuda::abi::Mode;
use record::{Cell, Collective, Placement};

/// An op: position of its rank, and its index there.
pub(super) type OpAt = (usize, usize);

/// What one step of a schedule sends from one rank to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Message {
    /// Positions in the cell.
    pub from: usize,
    pub to: usize,
    /// The op that sends it, and the one that receives it.
    pub sent_by: OpAt,
    pub taken_by: OpAt,
    pub mode: Mode,
    /// Element ranges' beginnings in the payload of either side.
    pub sent_from: usize,
    pub taken_to: usize,
    pub elements: usize,
}

/// The plan of one cell for all ranks.
pub(super) struct CellPlan {
    pub schedules: Vec<Schedule>,
    pub ops: Vec<Vec<FusedOp>>,
    pub messages: Vec<Message>,
    /// For every op of every rank: the messages it takes, and those it sends, as indices.
    pub taken: Vec<Vec<Vec<usize>>>,
    pub sent: Vec<Vec<Vec<usize>>>,
    /// For every op of every rank: the length of the longest chain of messages before it.
    pub levels: Vec<Vec<u32>>,
}

impl CellPlan {
    /// `words`: whether the low-latency protocol carries everything. `levels`: whether they matter.
    pub fn new(
        cell: &Cell,
        words: bool,
        levels: bool,
        reach: &dyn Fn(u32, u32) -> MemoryAccess,
    ) -> Result<CellPlan, ProgramError> {
        let scheme = scheme_of(cell)?;
        let schedules: Vec<Schedule> = (0..cell.world())
            .map(|rank| {
                scheme.schedule(Shape {
                    rank,
                    ranks: cell.world(),
                    elements: cell.elements(),
                    root: cell.root as usize,
                })
            })
            .collect();
        let ops: Option<Vec<Vec<FusedOp>>> = schedules.iter().map(fuse).collect();
        let ops = ops.ok_or(ProgramError::TooManyConnections)?;
        let per_op = || ops.iter().map(|ops| vec![Vec::new(); ops.len()]).collect();
        let mut plan = CellPlan {
            messages: Vec::new(),
            taken: per_op(),
            sent: per_op(),
            levels: ops.iter().map(|ops| vec![0; ops.len()]).collect(),
            schedules,
            ops,
        };
        plan.match_messages(cell, words, reach);
        if levels {
            plan.measure_levels();
        }
        Ok(plan)
    }

    /// The k-th send of one rank to another is that rank's k-th receive from it.
    fn match_messages(&mut self, cell: &Cell, words: bool, reach: &dyn Fn(u32, u32) -> MemoryAccess) {
        let mut sends: BTreeMap<(usize, usize), Vec<(OpAt, usize)>> = BTreeMap::new();
        let mut receives = sends.clone();
        for (rank, schedule) in self.schedules.iter().enumerate() {
            let mut op_of = vec![0; schedule.steps.len()];
            for (index, op) in self.ops[rank].iter().enumerate() {
                for &step in op.receives.iter().chain(&op.sends) {
                    op_of[step] = index;
                }
            }
            for (at, step) in schedule.steps.iter().enumerate() {
                if step.action.sends() {
                    let sent = sends.entry((rank, step.peer)).or_default();
                    sent.push(((rank, op_of[at]), at));
                } else if step.action.receives() {
                    let received = receives.entry((step.peer, rank)).or_default();
                    received.push(((rank, op_of[at]), at));
                }
            }
        }
        for ((from, to), sent) in sends {
            let taken = receives.remove(&(from, to)).unwrap_or_default();
            for ((sent_by, send), (taken_by, receive)) in sent.into_iter().zip(taken) {
                let block = |rank: usize, step: usize| {
                    let schedule: &Schedule = &self.schedules[rank];
                    schedule.blocks[schedule.steps[step].block].clone()
                };
                let mode = match reach(cell.ranks[from], cell.ranks[to]) {
                    MemoryAccess::Proxy => Mode::Fifo,
                    MemoryAccess::Direct { .. } if words => Mode::Words,
                    MemoryAccess::Direct { .. } => self.direct_mode(cell, sent_by, to, receive),
                };
                self.sent[sent_by.0][sent_by.1].push(self.messages.len());
                self.taken[taken_by.0][taken_by.1].push(self.messages.len());
                self.messages.push(Message {
                    from,
                    to,
                    sent_by,
                    taken_by,
                    mode,
                    sent_from: block(from, send).start,
                    taken_to: block(to, receive).start,
                    elements: block(from, send).len(),
                });
            }
        }
    }

    /// How a message travels when one GPU reaches the other's memory.
    fn direct_mode(&self, cell: &Cell, sent_by: OpAt, to: usize, receive: usize) -> Mode {
        // A final value is written to its destination.
        if self.schedules[to].steps[receive].action == Action::RecvCopy {
            return Mode::Push;
        }
        // An input is read where it lies, if it stays there: it does out of place, in an all-reduce the result that
        // overwrites it has been through its reader, and elsewhere if the sender never writes the block.
        let op = &self.ops[sent_by.0][sent_by.1];
        let is_input =
            op.own == OwnValue::Input && op.receives.is_empty() && op.sends.len() == 1 && !op.keeps;
        let is_written = || {
            let same = |other: &FusedOp| other.block == op.block && !other.receives.is_empty();
            self.ops[sent_by.0].iter().any(same)
        };
        let stays = cell.placement == Placement::OutOfPlace
            || cell.collective == Collective::AllReduce
            || !is_written();
        if is_input && stays { Mode::Pull } else { Mode::Fifo }
    }

    /// Longest chain of messages before each op. Messages go back and forth between ranks, so this repeats until nothing
    /// changes.
    fn measure_levels(&mut self) {
        loop {
            let mut changed = false;
            for message in &self.messages {
                let before = self.levels[message.sent_by.0][message.sent_by.1];
                let after = &mut self.levels[message.taken_by.0][message.taken_by.1];
                if *after <= before {
                    *after = before + 1;
                    changed = true;
                }
            }
            if !changed {
                return;
            }
        }
    }
}
