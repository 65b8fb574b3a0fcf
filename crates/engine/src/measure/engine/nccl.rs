//! NCCL as engine: the library that users run, on the memory of the rank's GPU.

use std::sync::Arc;

use super::Engine;
use crate::collective::gpu::Station;
use crate::collective::gpu::nccl::{Lane, NcclExecution, NcclPreparation};
use crate::collective::{Conditions, Mismatch, Stopped, Took};
use crate::device::telemetry::GpuName;
use crate::transport::Channel;
use record::units::Nanos;
use record::{Moved, Stuck};

/// A rank whose cell NCCL runs.
pub(in crate::measure) struct ByNccl {
    rank: u32,
    gpu: GpuName,
    execution: NcclExecution,
    /// Why the input is not there.
    unfilled: Option<String>,
}

impl ByNccl {
    /// Makes the cell ready; all its ranks do so at the same time.
    pub fn new(station: &Station, wanted: &NcclPreparation<'_>) -> Result<ByNccl, String> {
        let info = &station.end().gpu;
        Ok(ByNccl {
            rank: wanted.rank,
            gpu: GpuName {
                uuid: info.uuid.clone(),
                pci: info.pci.clone(),
            },
            execution: NcclExecution::prepare(station, wanted)?,
            unfilled: None,
        })
    }

    /// The communicator, for later cells of the same ranks.
    pub fn lane(&self) -> Arc<Lane> {
        Arc::clone(self.execution.lane())
    }
}

impl Engine for ByNccl {
    fn fill(&mut self, pattern: u64) -> bool {
        self.unfilled = self.execution.fill(pattern).err().map(|error| error.to_string());
        self.unfilled.is_none()
    }

    fn run(
        &mut self,
        at: Nanos,
        _iteration: Option<u32>,
        times: u16,
        conditions: &Conditions<'_>,
    ) -> Result<Took, Stopped> {
        if let Some(problem) = self.unfilled.take() {
            return Err(Stopped {
                step: "filling its input".to_string(),
                waiting_for: None,
                waited: Nanos(0),
                problem,
                aborted: false,
            });
        }
        self.execution.run(at, times, conditions)
    }

    fn check(&mut self, pattern: u64) -> Option<Result<(), Mismatch>> {
        match self.execution.check(pattern) {
            Ok(verdict) => Some(verdict),
            Err(error) => {
                tracing::warn!(rank = self.rank, %error, "the result could not be checked");
                None
            }
        }
    }

    fn stuck(&self) -> Vec<Stuck> {
        Vec::new()
    }

    fn gpu(&self) -> Option<GpuName> {
        Some(self.gpu.clone())
    }

    fn finish(self: Box<Self>) -> (Vec<Moved>, Vec<Channel>) {
        // What NCCL sent to whom is not known.
        (Vec::new(), Vec::new())
    }
}
