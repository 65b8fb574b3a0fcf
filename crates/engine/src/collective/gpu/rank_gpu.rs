//! One rank's GPU for a whole run, and the memory on it that other ranks are told about.
//!
//! Memory is taken once, for the largest payload of the run: taking and giving back memory may wait for the whole GPU, and
//! another process opens it once and never again.

use std::sync::Arc;

use super::layout::arena_bytes;
use super::process_gpus::ProcessGpus;
use crate::device::cuda::{self, Allocation, CudaError, Direct, Gpu};
use crate::device::telemetry::GpuName;
use crate::transport::GpuEndpoint;
use record::units::Bytes;

/// The kernel whose size says how many thread blocks a GPU runs at the same time; all others promise as many.
const TYPICAL: &str = "rg_walk_f32_sum";

/// One rank's place on a GPU.
pub struct RankGpu {
    pub(super) process_gpus: Arc<ProcessGpus>,
    pub(super) gpu: Arc<Gpu>,
    arena: Arc<Allocation>,
    pub(super) largest: u64,
    end: GpuEndpoint,
}

impl RankGpu {
    /// Takes memory for payloads up to `largest` on the GPU of the rank that is number `local` of its host: GPUs are given
    /// out in turn.
    pub fn open(local: u32, largest: Bytes, process_gpus: &Arc<ProcessGpus>) -> Result<RankGpu, String> {
        let gpus = cuda::probe().map_err(|missing| missing.to_string())?;
        let info = gpus[local as usize % gpus.len()].clone();
        let told = |error: CudaError| format!("GPU {} ({}): {error}", info.ordinal, info.name);
        let gpu = Gpu::open(info.ordinal).map_err(told)?;
        let bytes = arena_bytes(largest.0);
        let arena = gpu.allocate(bytes as usize).map_err(|error| {
            if !error.is_out_of_memory() {
                return told(error);
            }
            let free = gpu.free_memory().map_or_else(|_| "?".to_string(), |free| Bytes(free).to_string());
            format!(
                "GPU {} ({}) has {free} of memory left, and payloads of {largest} need {} for every rank on it",
                info.ordinal,
                info.name,
                Bytes(bytes)
            )
        })?;
        let kernel = gpu.kernel(TYPICAL).map_err(told)?;
        let per_sm = kernel.resident_blocks(info.threads, 0).map_err(told)?;
        let handle = arena.export();
        if let Err(error) = &handle {
            tracing::debug!(gpu = info.ordinal, %error, "this memory cannot be opened by other processes");
        }
        let end = GpuEndpoint {
            process: process_gpus.process(),
            neighbours: cuda::neighbours(info.ordinal).map_err(told)?,
            blocks: per_sm * info.sms,
            address: arena.address(),
            bytes,
            handle: handle.ok(),
            gpu: info.clone(),
        };
        Ok(RankGpu {
            process_gpus: Arc::clone(process_gpus),
            gpu,
            arena: Arc::new(arena),
            largest: largest.0,
            end,
        })
    }

    /// The memory the others know, unless a cell has it already.
    pub(super) fn lend(&self) -> Option<Arc<Allocation>> {
        (Arc::strong_count(&self.arena) == 1).then(|| Arc::clone(&self.arena))
    }

    /// Some of its memory as NICs would know it; why they cannot, in words.
    pub fn direct(&self) -> Result<Arc<Direct>, String> {
        Direct::of(&self.arena).map(Arc::new)
    }

    /// Which GPU it is, for its sensors.
    pub(super) fn name(&self) -> GpuName {
        GpuName {
            uuid: self.end.gpu.uuid.clone(),
            pci: self.end.gpu.pci.clone(),
        }
    }

    /// What the other ranks are told.
    pub fn endpoint(&self) -> &GpuEndpoint {
        &self.end
    }
}
