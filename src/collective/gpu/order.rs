//! In which order a worker goes through its chunks: what the kernel does, said in Rust for those who work with it.

use std::collections::BTreeMap;

use super::DeviceProgram;
use crate::device::cuda::abi::{COUNT_ONLY, NO_PORT, Op};

/// One chunk that goes through a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk {
    /// Whose.
    pub worker: u32,
    /// Index of the op.
    pub op: usize,
    /// First element, in the payload of this rank.
    pub start: u64,
    /// Elements.
    pub elements: u64,
}

impl DeviceProgram {
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

    /// The chunks that go through `port` in one launch, in the order in which they pass.
    ///
    /// Workers take turns. Each worker has slots of its own, so one that is ahead does not hold up another, and because
    /// every worker goes through its own chunks in this order, waiting for them in this order cannot lock up.
    pub fn passing(&self, port: usize) -> impl Iterator<Item = Chunk> + '_ {
        let uses = move |op: &Op| {
            let ways = op.source.iter().chain(&op.target);
            ways.into_iter().any(|way| *way != NO_PORT && *way == port as u32)
        };
        let ops: Vec<usize> = (0..self.ops.len()).filter(|op| uses(&self.ops[*op])).collect();
        (0..self.iterations).flat_map(move |iteration| {
            let ops = ops.clone();
            ops.into_iter().flat_map(move |op| {
                (0..self.workers).filter_map(move |worker| {
                    let (start, elements) = self.chunk_at(op, worker, iteration)?;
                    Some(Chunk {
                        worker,
                        op,
                        start,
                        elements,
                    })
                })
            })
        })
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
    pub fn only_watches(&self) -> bool {
        !self.words && self.ops.iter().all(|op| op.flags & COUNT_ONLY != 0)
    }
}
