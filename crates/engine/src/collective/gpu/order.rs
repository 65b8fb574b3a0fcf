//! In which order a worker goes through its chunks: what the kernel does, said in Rust for those who work with it.

use std::collections::BTreeMap;

use super::DeviceProgram;
use crate::device::cuda::abi::{COUNT_ONLY, Op};

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
