//! Connections between ranks: which messages share one, and where each message lies in it.

use std::collections::BTreeMap;

use super::cell_plan::{CellPlan, Message};
use super::limits::MemoryAccess;
use super::tuning::Tuning;
use crate::device::cuda::abi::{COUNT_ONLY, Mode, Op};
use record::{Cell, Collective};

/// Slots of a connection beyond those that the schedule keeps between sender and receiver.
const SPARE_SLOTS: u32 = 2;

/// One end of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortPlan {
    /// World rank at the other end.
    pub peer: u32,
    /// Its number among the connections between the two ranks; the same at both ends.
    pub connection: u32,
    /// How it moves data.
    pub mode: Mode,
    /// Whether this end receives.
    pub incoming: bool,
    /// Whether proxy threads move its data over a network.
    pub proxied: bool,
    /// Whether its slots lie on the GPU although it is proxied (GPUDirect).
    pub direct: bool,
    /// Whether flags need system scope.
    pub system: bool,
    /// Slots per worker.
    pub slots: u32,
    /// Bytes of a slot.
    pub slot_bytes: u32,
    /// Whether the sender waits at the end until everything was read.
    pub drain: bool,
    /// Bytes of one half of the words.
    pub half_bytes: u32,
}

/// The connections of a cell.
pub(super) struct Ports {
    /// Per rank's position.
    ends: Vec<Vec<PortPlan>>,
    /// Per message: index of its port at the sender and at the receiver, and its offset among the words.
    message_ports: Vec<(u32, u32, u64)>,
}

impl Ports {
    pub fn new(
        cell: &Cell,
        plan: &CellPlan,
        tuning: &Tuning,
        reach: &dyn Fn(u32, u32) -> MemoryAccess,
    ) -> Ports {
        let mut connections: BTreeMap<(usize, usize, Mode), Vec<usize>> = BTreeMap::new();
        for (index, message) in plan.messages.iter().enumerate() {
            let connection = connections.entry((message.from, message.to, message.mode));
            connection.or_default().push(index);
        }
        let mut ports = Ports {
            ends: vec![Vec::new(); cell.world()],
            message_ports: vec![(0, 0, 0); plan.messages.len()],
        };
        for ((from, to, mode), mut messages) in connections {
            messages.sort_by_key(|index| plan.messages[*index].sent_by);
            let reach = reach(cell.ranks[from], cell.ranks[to]);
            let groups = if mode == Mode::Words || keeps_order(plan, &messages, tuning) {
                vec![messages]
            } else {
                messages.into_iter().map(|index| vec![index]).collect()
            };
            for (number, messages) in groups.into_iter().enumerate() {
                ports.open(
                    cell,
                    plan,
                    tuning,
                    reach,
                    (from, to, mode),
                    number as u32,
                    &messages,
                );
            }
        }
        ports
    }

    #[allow(clippy::too_many_arguments)]
    fn open(
        &mut self,
        cell: &Cell,
        plan: &CellPlan,
        tuning: &Tuning,
        reach: MemoryAccess,
        (from, to, mode): (usize, usize, Mode),
        connection: u32,
        messages: &[usize],
    ) {
        let apart = messages
            .iter()
            .map(|index| lags(plan, &plan.messages[*index], tuning));
        let apart = apart.map(|(sent, taken)| taken.saturating_sub(sent)).max();
        // An iteration puts one chunk of every message in, and the receiver is some iterations behind.
        let between = apart.map_or(0, |apart| {
            if apart == 0 {
                0
            } else {
                (apart + 1) * messages.len() as u32
            }
        });
        let element = cell.dtype.size();
        let mut words = 0;
        for &index in messages {
            let ends = (self.ends[from].len() as u32, self.ends[to].len() as u32);
            self.message_ports[index] = (ends.0, ends.1, words);
            words += (plan.messages[index].elements * element).div_ceil(element.max(4)) as u64
                * (element.max(4) / 4) as u64;
        }
        let is_fifo = mode == Mode::Fifo;
        let end = |peer: usize, incoming| PortPlan {
            peer: cell.ranks[peer],
            connection,
            mode,
            incoming,
            proxied: reach == MemoryAccess::Proxy,
            direct: reach == MemoryAccess::Proxy && cell.is_gpudirect(),
            system: reach != MemoryAccess::Direct { same_gpu: true },
            slots: if is_fifo { between + SPARE_SLOTS } else { 0 },
            // A chunk may begin at any offset within 16 bytes.
            slot_bytes: if is_fifo {
                (tuning.chunk + 128).next_multiple_of(128) as u32
            } else {
                0
            },
            drain: mode == Mode::Pull && cell.collective != Collective::AllReduce,
            half_bytes: if mode == Mode::Words {
                (words * 8).next_multiple_of(128) as u32
            } else {
                0
            },
        };
        let (sender, receiver) = (end(to, false), end(from, true));
        self.ends[from].push(sender);
        self.ends[to].push(receiver);
    }

    /// The ports of the rank at `position`.
    pub fn of(&self, position: usize) -> &[PortPlan] {
        &self.ends[position]
    }

    /// Connects a rank's ops with their ports.
    pub fn attach(&self, plan: &CellPlan, position: usize, ops: &mut [Op]) {
        for (index, op) in ops.iter_mut().enumerate() {
            for (end, &at) in plan.sent[position][index].iter().enumerate() {
                let (message, (sender, _, words)) = (&plan.messages[at], self.message_ports[at]);
                op.target[end] = sender;
                op.target_at[end] = if message.mode == Mode::Words {
                    words
                } else {
                    message.taken_to as u64
                };
            }
            for (end, &at) in plan.taken[position][index].iter().enumerate() {
                let (message, (_, receiver, words)) = (&plan.messages[at], self.message_ports[at]);
                op.source[end] = receiver;
                op.source_at[end] = match message.mode {
                    Mode::Words => words,
                    Mode::Pull => message.sent_from as u64,
                    Mode::Push | Mode::Fifo => message.taken_to as u64,
                };
            }
        }
        debug_assert!(
            ops.iter()
                .all(|op| op.flags & COUNT_ONLY == 0 || op.flags == COUNT_ONLY)
        );
    }
}

fn lags(plan: &CellPlan, message: &Message, tuning: &Tuning) -> (u32, u32) {
    let lag = |(rank, op): (usize, usize)| tuning.lag * plan.levels[rank][op];
    (lag(message.sent_by), lag(message.taken_by))
}

/// Whether both ends handle the chunks of these messages, sorted by the sender's ops, in the same order.
fn keeps_order(plan: &CellPlan, messages: &[usize], tuning: &Tuning) -> bool {
    let all = || messages.iter().map(|index| &plan.messages[*index]);
    let mut apart = all().map(|message| {
        let (sent, taken) = lags(plan, message, tuning);
        i64::from(taken) - i64::from(sent)
    });
    let first = apart.next();
    apart.all(|other| Some(other) == first) && all().is_sorted_by_key(|message| message.taken_by)
}
