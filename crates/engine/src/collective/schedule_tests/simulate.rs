//! Runs the schedules of all ranks in memory, in the worst order that the rules of [`Action`] allow.
//!
//! Blocks move in small chunks, and any chunk that may move next may be the next to move: what passes here for every
//! order does not depend on timing on a real fabric. Messages between two ranks stay in order; that is all a transport
//! promises.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use rand::seq::{IndexedRandom, SliceRandom};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::collective::{Action, Oracle, Schedule, Scheme, Shape, Step, WrongElement};
use crate::device::host;
use record::{DType, Placement, ReduceOp};

/// Why a schedule is wrong.
#[derive(Debug, PartialEq)]
pub enum Fault {
    /// Nothing can move, and this rank still waits at this step.
    Deadlock { rank: usize, step: usize, waiting: Step },
    /// A message that nobody took.
    Unmatched { from: usize, to: usize },
    /// A message of another length than the receiver's block has room for.
    Length { rank: usize, step: usize },
    /// The input changed although the result goes elsewhere.
    InputTouched { rank: usize },
    /// A block is called a result that the collective does not define.
    Undefined { rank: usize, block: usize },
    /// The oracle disagrees, after everything that is not called a result was overwritten.
    Wrong { rank: usize, wrong: WrongElement },
}

/// How to run a schedule.
#[derive(Debug, Clone, Copy)]
pub struct Conditions {
    pub placement: Placement,
    /// Elements that move at a time.
    pub chunk: usize,
    /// Whether sending the input waits for the block's earlier steps too; both must work.
    pub strict: bool,
    /// What decides the order.
    pub seed: u64,
}

/// Runs the collective on all ranks and checks every output.
pub fn simulate(scheme: &dyn Scheme, oracle: &Oracle, conditions: Conditions) -> Result<(), Fault> {
    let schedules: Vec<Schedule> = (0..oracle.ranks)
        .map(|rank| {
            let (ranks, elements, root) = (oracle.ranks, oracle.elements, oracle.root);
            scheme.schedule(Shape {
                rank,
                ranks,
                elements,
                root,
            })
        })
        .collect();
    simulate_schedules(&schedules, scheme.stages_input_in_place(), oracle, conditions)
}

/// The same, for schedules from anywhere.
pub fn simulate_schedules(
    schedules: &[Schedule],
    stages_input: bool,
    oracle: &Oracle,
    conditions: Conditions,
) -> Result<(), Fault> {
    const ITERATION: u64 = 5;
    let mut wire = Wire::new();
    let mut workers: Vec<Worker> = schedules
        .iter()
        .enumerate()
        .map(|(rank, schedule)| {
            let mut input = vec![0; oracle.elements * oracle.dtype.size()];
            oracle.input(rank, ITERATION, &mut input);
            Worker::new(rank, schedule, input, stages_input, oracle, conditions)
        })
        .collect();

    let mut random = ChaCha8Rng::seed_from_u64(conditions.seed);
    let mut lanes: Vec<(usize, usize)> = workers
        .iter()
        .flat_map(|w| (0..w.lanes.len()).map(|lane| (w.rank, lane)))
        .collect();
    loop {
        lanes.retain(|&(rank, lane)| !workers[rank].lanes[lane].is_empty());
        if lanes.is_empty() {
            break;
        }
        lanes.shuffle(&mut random);
        let mut moved = false;
        for &(rank, lane) in &lanes {
            for _ in 0..random.random_range(1..4) {
                moved |= workers[rank].advance(lane, &mut wire)?;
            }
        }
        if !moved {
            let (rank, lane) = lanes.iter().copied().min().expect("lanes are left");
            let step = workers[rank].lanes[lane][0];
            return Err(Fault::Deadlock {
                rank,
                step,
                waiting: workers[rank].schedule.steps[step],
            });
        }
    }

    if let Some((&(from, to), _)) = wire.iter().find(|(_, queue)| !queue.is_empty()) {
        return Err(Fault::Unmatched { from, to });
    }
    for mut worker in workers {
        let rank = worker.rank;
        if let Some(input) = &worker.input {
            let mut original = vec![0; input.len()];
            oracle.input(rank, ITERATION, &mut original);
            if *input != original {
                return Err(Fault::InputTouched { rank });
            }
        }
        worker.scribble_outside_results();
        oracle
            .check(rank, ITERATION, &worker.output)
            .map_err(|wrong| Fault::Wrong { rank, wrong })?;
        if let Some(&block) = schedules[rank].results.choose(&mut random) {
            worker.output[schedules[rank].blocks[block].start * oracle.dtype.size()] ^= 1;
            if oracle.check(rank, ITERATION, &worker.output).is_ok() {
                return Err(Fault::Undefined { rank, block });
            }
        }
    }
    Ok(())
}

/// Messages under way, per sender and receiver.
type Wire = BTreeMap<(usize, usize), VecDeque<Vec<u8>>>;

struct Worker<'a> {
    rank: usize,
    ranks: usize,
    dtype: DType,
    op: ReduceOp,
    chunk: usize,
    schedule: &'a Schedule,
    /// The input, where the output does not lie on top of it.
    input: Option<Vec<u8>>,
    /// What the input was, when it is set aside in place.
    staged: Option<Vec<u8>>,
    output: Vec<u8>,
    /// Chunks of each block that were written, so that their current value is the output.
    written: Vec<usize>,
    /// Per step: chunks done.
    done: Vec<usize>,
    /// Per step: the step on the same block that must be ahead of it.
    follows: Vec<Option<usize>>,
    /// Steps still to do per peer and direction; own copies have one lane each.
    lanes: Vec<VecDeque<usize>>,
}

impl<'a> Worker<'a> {
    fn new(
        rank: usize,
        schedule: &'a Schedule,
        input: Vec<u8>,
        stages_input: bool,
        oracle: &Oracle,
        conditions: Conditions,
    ) -> Worker<'a> {
        let in_place = conditions.placement == Placement::InPlace;
        let mut latest = vec![None; schedule.blocks.len()];
        let mut lanes: BTreeMap<(usize, bool, bool), VecDeque<usize>> = BTreeMap::new();
        let mut follows = Vec::new();
        for (index, step) in schedule.steps.iter().enumerate() {
            lanes
                .entry((step.peer, step.action.sends(), step.action.receives()))
                .or_default()
                .push_back(index);
            if step.action == Action::SendInput && !conditions.strict {
                follows.push(None);
            } else {
                follows.push(latest[step.block].replace(index));
            }
        }
        Worker {
            rank,
            ranks: oracle.ranks,
            dtype: oracle.dtype,
            op: oracle.op,
            chunk: conditions.chunk,
            schedule,
            output: if in_place {
                input.clone()
            } else {
                vec![0xa5; input.len()]
            },
            staged: (in_place && stages_input).then(|| input.clone()),
            input: (!in_place).then_some(input),
            written: vec![0; schedule.blocks.len()],
            done: vec![0; schedule.steps.len()],
            follows,
            lanes: lanes.into_values().collect(),
        }
    }

    /// Moves one chunk of the lane's first step, if the rules allow; says whether it did.
    fn advance(&mut self, lane: usize, wire: &mut Wire) -> Result<bool, Fault> {
        let Some(&index) = self.lanes[lane].front() else {
            return Ok(false);
        };
        let Step { action, peer, block } = self.schedule.steps[index];
        let chunk = self.done[index];
        if self.follows[index].is_some_and(|earlier| self.done[earlier] <= chunk) {
            return Ok(false);
        }
        let range = self.chunk_bytes(block, chunk);
        match action {
            Action::Send => {
                let value = self.current(block, chunk)[range].to_vec();
                wire.entry((self.rank, peer)).or_default().push_back(value);
            }
            Action::SendInput => {
                let input = self
                    .staged
                    .as_ref()
                    .or(self.input.as_ref())
                    .unwrap_or(&self.output);
                wire.entry((self.rank, peer))
                    .or_default()
                    .push_back(input[range].to_vec());
            }
            Action::Keep => {
                if let Some(input) = &self.input {
                    self.output[range.clone()].copy_from_slice(&input[range]);
                }
                self.written[block] = chunk + 1;
            }
            Action::RecvCopy | Action::RecvReduce | Action::RecvReduceLast => {
                let Some(message) = wire.get_mut(&(peer, self.rank)).and_then(VecDeque::pop_front) else {
                    return Ok(false);
                };
                if message.len() != range.len() {
                    return Err(Fault::Length {
                        rank: self.rank,
                        step: index,
                    });
                }
                self.receive(action, block, chunk, range, &message);
                self.written[block] = self.written[block].max(chunk + 1);
            }
        }
        self.done[index] += 1;
        if self.done[index] == self.schedule.blocks[block].len().div_ceil(self.chunk) {
            self.lanes[lane].pop_front();
        }
        Ok(true)
    }

    fn receive(&mut self, action: Action, block: usize, chunk: usize, range: Range<usize>, message: &[u8]) {
        if action == Action::RecvCopy {
            self.output[range].copy_from_slice(message);
            return;
        }
        let value = self.current(block, chunk)[range.clone()].to_vec();
        host::reduce_into(
            self.dtype,
            self.op,
            &mut self.output[range.clone()],
            &value,
            message,
        );
        if action == Action::RecvReduceLast && self.op == ReduceOp::Avg {
            host::finish_avg(self.dtype, &mut self.output[range], self.ranks);
        }
    }

    fn scribble_outside_results(&mut self) {
        let Schedule { blocks, results, .. } = self.schedule;
        let size = self.dtype.size();
        let mut scribbled = vec![0x5a; self.output.len()];
        for block in results.iter().map(|&block| &blocks[block]) {
            let bytes = block.start * size..block.end * size;
            scribbled[bytes.clone()].copy_from_slice(&self.output[bytes]);
        }
        self.output = scribbled;
    }

    /// Where the current value of a chunk lies.
    fn current(&self, block: usize, chunk: usize) -> &[u8] {
        match &self.input {
            Some(input) if chunk >= self.written[block] => input,
            _ => &self.output,
        }
    }

    fn chunk_bytes(&self, block: usize, chunk: usize) -> Range<usize> {
        let Range { start, end } = self.schedule.blocks[block];
        let (first, size) = (start + chunk * self.chunk, self.dtype.size());
        first * size..(first + self.chunk).min(end) * size
    }
}
