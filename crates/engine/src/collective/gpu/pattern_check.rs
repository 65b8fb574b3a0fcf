//! The oracle's data on a GPU: inputs are written and outputs compared where they lie.

use std::sync::Arc;
use std::time::Duration;

use crate::collective::Stopped;
use crate::collective::oracle::{Oracle, Source, WrongElement};
use crate::device::cuda::pattern_kernels::{Expectation, PatternKernels};
use crate::device::cuda::{Allocation, CudaError, Gpu, Stream};
use record::units::Nanos;

/// Fills and checks one rank's memory on its GPU.
pub(super) struct PatternCheck {
    oracle: Oracle,
    /// Position in the cell.
    position: usize,
    data: PatternKernels,
    stream: Stream,
    limit: Duration,
    /// Why the input is not in place.
    unfilled: Option<CudaError>,
}

impl PatternCheck {
    /// Loads the kernels now, so that no module is loaded while a cell runs.
    pub fn new(
        gpu: &Arc<Gpu>,
        oracle: Oracle,
        position: usize,
        limit: Duration,
    ) -> Result<PatternCheck, CudaError> {
        Ok(PatternCheck {
            data: PatternKernels::new(gpu, oracle.dtype)?,
            stream: gpu.stream()?,
            oracle,
            position,
            limit,
            unfilled: None,
        })
    }

    /// Writes the input of `iteration` to `address` and waits for it; whether it is in place.
    pub fn fill(&mut self, address: u64, iteration: u64) -> bool {
        self.unfilled = self.try_fill(address, iteration).err();
        self.unfilled.is_none()
    }

    /// An error when the last fill failed: a run on whatever is in memory would measure nothing.
    pub fn require_input(&mut self) -> Result<(), Stopped> {
        let Some(error) = self.unfilled.take() else {
            return Ok(());
        };
        Err(Stopped {
            step: "filling its input".to_string(),
            waiting_for: None,
            waited: Nanos(0),
            problem: error.to_string(),
            aborted: false,
        })
    }

    fn try_fill(&self, address: u64, iteration: u64) -> Result<(), CudaError> {
        let pattern = self.oracle.pattern(self.position, iteration);
        let elements = self.oracle.elements as u64;
        self.data.fill(&self.stream, address, &pattern, 0, elements)?;
        self.stream.synchronize_within(self.limit)
    }

    /// Compares the output at `offset` of `memory` with what the collective defines for this rank; none when it cannot be read.
    pub fn check(
        &self,
        memory: &Allocation,
        offset: u64,
        iteration: u64,
    ) -> Option<Result<(), WrongElement>> {
        let checked = self.try_check(memory, offset, iteration);
        checked
            .inspect_err(|error| {
                tracing::warn!(position = self.position, %error, "the result could not be checked");
            })
            .ok()
    }

    fn try_check(
        &self,
        memory: &Allocation,
        offset: u64,
        iteration: u64,
    ) -> Result<Result<(), WrongElement>, CudaError> {
        let size = self.oracle.dtype.size();
        let (mut first, mut wrong) = (None::<u64>, 0);
        for part in self.oracle.output_ranges(self.position) {
            let (rank, expectation) = match part.source {
                Source::Everyone => (
                    0,
                    Expectation::Reduction {
                        first: part.output.start as u64,
                        op: self.oracle.op,
                    },
                ),
                Source::Rank(rank, from) => (rank, Expectation::Copy { first: from as u64 }),
            };
            let pattern = self.oracle.pattern(rank, iteration);
            let at = memory.address() + offset + (part.output.start * size) as u64;
            let found = self.data.verify(
                &self.stream,
                at,
                part.output.len() as u64,
                &pattern,
                expectation,
                self.limit,
            )?;
            if let Some(found) = found {
                wrong += found.wrong;
                let element = part.output.start as u64 + found.element;
                first = Some(first.map_or(element, |first| first.min(element)));
            }
        }
        let Some(element) = first else { return Ok(Ok(())) };
        let mut bytes = [0; 8];
        let found = &mut bytes[..size];
        memory.download(offset as usize + element as usize * size, found)?;
        let first = self
            .oracle
            .explain(self.position, iteration, element as usize, found);
        Ok(Err(WrongElement {
            wrong_elements: wrong,
            ..first
        }))
    }
}
