//! One rank's part of a cell by NCCL, on the same memory and with the same checks as by our own kernels.
//!
//! Single iterations are timed by the GPU: the collective is enqueued behind a gate that opens at the agreed instant, and events
//! before and after it give its time. Batches are timed by the host, launches included.

mod thread;

pub use thread::NcclThread;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::layout::buffer;
use super::pattern_check::PatternCheck;
use super::rank_gpu::RankGpu;
use crate::collective::{CellEngine, Conditions, Oracle, Stopped, Took, WrongElement};
use crate::device::cuda::nccl::{CommunicatorConfig, Nccl, Operation, UniqueId};
use crate::device::cuda::{Allocation, CudaError};
use crate::device::telemetry::GpuName;
use crate::transport::{Channel, Endpoint};
use record::units::Nanos;
use record::{Cell, LinkTraffic, Placement, Stuck};

use thread::{Job, WaitLimit};

/// Most NCCL thread blocks for a rank that shares its GPU with at most one other: NCCL's default.
const MOST_BLOCKS: u32 = 32;
/// The same for ranks that share a GPU with more: with NCCL's defaults, kernels of four and of eight ranks deadlock; with this
/// limit they do not.
const MOST_BLOCKS_CROWDED: u32 = 16;

/// What a rank needs to prepare a cell for NCCL.
pub struct NcclPreparation<'a> {
    /// The cell.
    pub cell: &'a Cell,
    /// World rank.
    pub rank: u32,
    /// All ranks of the run.
    pub ends: &'a [Endpoint],
    /// Inputs and expected outputs.
    pub oracle: Oracle,
    /// The unique id of the communicator.
    pub id: UniqueId,
    /// The communicator and its thread, when an earlier cell made them.
    pub thread: Option<Arc<NcclThread>>,
    /// Limit of every wait.
    pub deadline: Duration,
    /// Set when the run is being ended.
    pub abort: &'a AtomicBool,
}

/// One rank's part of a cell by NCCL.
pub struct NcclEngine {
    gpu: GpuName,
    thread: Arc<NcclThread>,
    operation: Operation,
    pattern_check: PatternCheck,
    /// Where input and output lie.
    memory: Arc<Allocation>,
    input: u64,
    output: u64,
}

impl NcclEngine {
    /// Creates the communicator, unless there is one, and runs the collective once: NCCL connects on first use. All ranks of the
    /// cell call this at the same time.
    pub fn prepare(rank_gpu: &RankGpu, wanted: &NcclPreparation<'_>) -> Result<NcclEngine, String> {
        let message = |error: CudaError| error.to_string();
        let cell = wanted.cell;
        let position = cell.ranks.iter().position(|rank| *rank == wanted.rank);
        let position = position.ok_or_else(|| format!("rank {} takes no part in this cell", wanted.rank))?;
        let memory = rank_gpu
            .lend()
            .ok_or("two cells at once would use the same memory of this rank")?;
        let input = 0;
        let output = match cell.placement {
            Placement::InPlace => input,
            Placement::OutOfPlace => buffer(cell.size.0),
        };
        if output + cell.size.0 > memory.len() as u64 {
            return Err("the payload does not fit into the GPU arena of this rank".to_string());
        }
        let pattern_check =
            PatternCheck::new(&rank_gpu.gpu, wanted.oracle, position, wanted.deadline).map_err(message)?;
        let base = memory.address();
        let operation = Operation::new(cell, position, base + input, base + output);
        let operation = operation.map_err(|error| error.to_string())?;
        let limit = WaitLimit {
            deadline: wanted.deadline,
            abort: wanted.abort,
        };
        let in_words = |stopped: Stopped| format!("NCCL: {}", stopped.problem);
        let thread = match &wanted.thread {
            Some(thread) => Arc::clone(thread),
            None => {
                let terms = CommunicatorConfig {
                    id: wanted.id,
                    ranks: cell.world() as u32,
                    rank: position as u32,
                    algorithm: CommunicatorConfig::algorithm_of(cell),
                    most_blocks: most_blocks(wanted),
                };
                let nccl = Nccl::get().map_err(|missing| missing.to_string())?;
                let thread = NcclThread::open(nccl, &rank_gpu.gpu).map_err(message)?;
                thread
                    .run_job(Job::Make(terms), &memory, &limit)
                    .map_err(in_words)?;
                Arc::new(thread)
            }
        };
        let once = Job::Batch {
            at: Nanos(0),
            times: 1,
            operation: operation.clone(),
            crowded: false,
        };
        thread.run_job(once, &memory, &limit).map_err(in_words)?;
        Ok(NcclEngine {
            gpu: rank_gpu.name(),
            thread,
            operation,
            pattern_check,
            memory,
            input,
            output,
        })
    }

    /// The communicator and its thread, for later cells of the same ranks.
    pub fn thread(&self) -> &Arc<NcclThread> {
        &self.thread
    }
}

impl CellEngine for NcclEngine {
    fn fill(&mut self, pattern: u64) -> bool {
        self.pattern_check
            .fill(self.memory.address() + self.input, pattern)
    }

    /// NCCL does not report progress, so all of it must be over within the deadline.
    fn run(
        &mut self,
        at: Nanos,
        _iteration: Option<u32>,
        times: u16,
        conditions: &Conditions<'_>,
    ) -> Result<Took, Stopped> {
        self.pattern_check.require_input()?;
        let operation = self.operation.clone();
        let job = match times {
            0 | 1 => Job::Single { at, operation },
            _ => Job::Batch {
                at,
                times,
                operation,
                crowded: conditions.crowded,
            },
        };
        let limit = WaitLimit {
            deadline: conditions.deadline,
            abort: conditions.abort,
        };
        self.thread.run_job(job, &self.memory, &limit)
    }

    fn check(&mut self, pattern: u64) -> Option<Result<(), WrongElement>> {
        self.pattern_check.check(&self.memory, self.output, pattern)
    }

    fn stuck(&self) -> Vec<Stuck> {
        Vec::new()
    }

    fn gpu(&self) -> Option<GpuName> {
        Some(self.gpu.clone())
    }

    fn finish(self: Box<Self>) -> (Vec<LinkTraffic>, Vec<Channel>) {
        // NCCL does not report what it sent to which rank.
        (Vec::new(), Vec::new())
    }
}

/// How many thread blocks NCCL may use so that ranks that share a GPU are resident together; none leaves it to NCCL.
fn most_blocks(wanted: &NcclPreparation<'_>) -> Option<u32> {
    let gpu = |rank: u32| wanted.ends.iter().find(|end| end.rank == rank)?.gpu.as_ref();
    let mine = gpu(wanted.rank)?;
    let beside = wanted.cell.ranks.iter().filter_map(|rank| gpu(*rank));
    let ranks = beside.filter(|end| end.gpu.uuid == mine.gpu.uuid).count() as u32;
    let most = match ranks {
        0 | 1 => return None,
        2 => MOST_BLOCKS,
        _ => MOST_BLOCKS_CROWDED,
    };
    Some((mine.gpu.sms / ranks).clamp(1, most))
}
