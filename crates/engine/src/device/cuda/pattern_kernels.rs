//! Kernels that fill and verify pattern data on the GPU, by the rules of `device::pattern`.

use std::sync::Arc;
use std::time::Duration;

use bytemuck::{Zeroable, bytes_of, bytes_of_mut};

use super::abi;
use super::error::CudaError;
use super::gpu::Gpu;
use super::kernel::Kernel;
use super::memory::Allocation;
use super::stream::Stream;
use crate::device::Pattern;
use record::{DType, ReduceOp};

/// Blocks a multiprocessor gets: enough to fill it, few enough that launching costs nothing.
const BLOCKS_PER_SM: u32 = 4;

/// What output elements must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expectation {
    /// The input of the pattern's rank, from this element on.
    Copy {
        /// First element of that input.
        first: u64,
    },
    /// The reduction of the inputs of all ranks of the pattern, from this element on.
    Reduction {
        /// First element of the payload.
        first: u64,
        /// How they are reduced.
        op: ReduceOp,
    },
}

/// The kernels that fill and verify one element type, loaded before they are needed.
pub struct PatternKernels {
    dtype: DType,
    fill: Kernel,
    verify: Kernel,
    /// The result of a verification.
    found: Allocation,
}

impl PatternKernels {
    /// Loads what is needed for an element type.
    pub fn new(gpu: &Arc<Gpu>, dtype: DType) -> Result<PatternKernels, CudaError> {
        Ok(PatternKernels {
            dtype,
            fill: gpu.kernel(&format!("rg_fill_{dtype}"))?,
            verify: gpu.kernel(&format!("rg_verify_{dtype}"))?,
            found: gpu.allocate(size_of::<abi::Mismatch>())?,
        })
    }

    /// Writes elements `first..first + elements` of a pattern to `address`, on a stream; returns at once.
    pub fn fill(
        &self,
        stream: &Stream,
        address: u64,
        pattern: &Pattern,
        first: u64,
        elements: u64,
    ) -> Result<(), CudaError> {
        if elements == 0 {
            return Ok(());
        }
        let job = abi::Fill {
            to: address,
            elements,
            first,
            pattern: self.rule(pattern, pattern.rank, 1),
        };
        let (grid, block) = self.shape(stream, elements);
        stream.launch(&self.fill, grid, block, 0, &job, false)
    }

    /// Compares the elements at `address` with what they must be, after everything on the stream; waits for the answer, but
    /// not longer than `limit`. The index of the first wrong element, counted from `address`, and how many are wrong.
    pub fn verify(
        &self,
        stream: &Stream,
        address: u64,
        elements: u64,
        pattern: &Pattern,
        expectation: Expectation,
        limit: Duration,
    ) -> Result<Option<abi::Mismatch>, CudaError> {
        if elements == 0 {
            return Ok(None);
        }
        let (first, rule, op) = match expectation {
            Expectation::Copy { first } => (first, self.rule(pattern, pattern.rank, 1), ReduceOp::Sum),
            Expectation::Reduction { first, op } => (first, self.rule(pattern, 0, pattern.ranks), op),
        };
        let mut found = abi::Mismatch {
            element: u64::MAX,
            wrong: 0,
        };
        self.found.upload(0, bytes_of(&found))?;
        let job = abi::Verify {
            found: address,
            elements,
            first,
            result: self.found.address(),
            pattern: rule,
            op: operator(op),
            unused: 0,
        };
        let (grid, block) = self.shape(stream, elements);
        stream.launch(&self.verify, grid, block, 0, &job, false)?;
        stream.synchronize_within(limit)?;
        found = abi::Mismatch::zeroed();
        self.found.download(0, bytes_of_mut(&mut found))?;
        Ok((found.wrong > 0).then_some(found))
    }

    fn rule(&self, pattern: &Pattern, rank: u32, ranks: u32) -> abi::PatternRule {
        debug_assert_eq!(
            pattern.dtype, self.dtype,
            "these kernels are for another element type"
        );
        let rule = pattern.rule();
        abi::PatternRule {
            seed: pattern.seed,
            iteration: pattern.iteration,
            rank,
            ranks,
            least: rule.least,
            mask: rule.mask,
            slots: rule.slots,
            turns: rule.turns,
        }
    }

    /// Blocks and threads for so many elements.
    fn shape(&self, stream: &Stream, elements: u64) -> (u32, u32) {
        let info = stream.gpu().info();
        let most = u64::from(info.sms * BLOCKS_PER_SM);
        let needed = elements.div_ceil(u64::from(info.threads));
        (needed.clamp(1, most.max(1)) as u32, info.threads)
    }
}

/// See `RgReduce`.
fn operator(op: ReduceOp) -> u32 {
    match op {
        ReduceOp::Sum => 0,
        ReduceOp::Prod => 1,
        ReduceOp::Min => 2,
        ReduceOp::Max => 3,
        ReduceOp::Avg => 4,
    }
}
