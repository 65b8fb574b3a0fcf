//! One rank's GPU for a whole run, with the memory arena on it that other ranks map.
//!
//! The arena is allocated once, for the largest payload of the run: allocating and freeing may synchronise the whole GPU, and
//! other processes open the arena only once.

use std::sync::Arc;

use super::layout::arena_bytes;
use super::process_gpus::ProcessGpus;
use crate::device::cuda::{self, Allocation, CudaError, Gpu, GpuDirectMemory};
use crate::device::telemetry::GpuName;
use crate::transport::GpuEndpoint;
use record::units::Bytes;

/// The kernel whose occupancy gives the number of resident thread blocks; all other kernels have at least the same occupancy.
const TYPICAL: &str = "rg_walk_f32_sum";

/// One rank's GPU and its memory on it.
pub struct RankGpu {
    pub(super) process_gpus: Arc<ProcessGpus>,
    pub(super) gpu: Arc<Gpu>,
    arena: Arc<Allocation>,
    pub(super) largest: u64,
    end: GpuEndpoint,
}

impl RankGpu {
    /// Allocates the arena for payloads up to `largest` on the GPU of local rank `local`; ranks take the GPUs of a host in turn.
    pub fn open(local: u32, largest: Bytes, process_gpus: &Arc<ProcessGpus>) -> Result<RankGpu, String> {
        let gpus = cuda::probe().map_err(|missing| missing.to_string())?;
        let info = gpus[local as usize % gpus.len()].clone();
        let message = |error: CudaError| format!("GPU {} ({}): {error}", info.ordinal, info.name);
        let gpu = Gpu::open(info.ordinal).map_err(message)?;
        let bytes = arena_bytes(largest.0);
        let arena = gpu.allocate(bytes as usize).map_err(|error| {
            if !error.is_out_of_memory() {
                return message(error);
            }
            let free = gpu.free_memory().map_or_else(|_| "?".to_string(), |free| Bytes(free).to_string());
            format!(
                "GPU {} ({}) has {free} of memory left, and payloads of {largest} need {} for every rank on it",
                info.ordinal,
                info.name,
                Bytes(bytes)
            )
        })?;
        let kernel = gpu.kernel(TYPICAL).map_err(message)?;
        let per_sm = kernel.resident_blocks(info.threads, 0).map_err(message)?;
        let handle = arena.export();
        if let Err(error) = &handle {
            tracing::debug!(gpu = info.ordinal, %error, "other processes cannot open this memory");
        }
        let end = GpuEndpoint {
            process: process_gpus.process(),
            neighbours: cuda::peer_gpus(info.ordinal).map_err(message)?,
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

    /// The arena, unless another cell uses it.
    pub(super) fn lend(&self) -> Option<Arc<Allocation>> {
        (Arc::strong_count(&self.arena) == 1).then(|| Arc::clone(&self.arena))
    }

    /// The arena for registration with NICs (GPUDirect), or why it cannot be registered.
    pub fn direct(&self) -> Result<Arc<GpuDirectMemory>, String> {
        GpuDirectMemory::of(&self.arena).map(Arc::new)
    }

    /// Which GPU it is, for its sensors.
    pub(super) fn name(&self) -> GpuName {
        GpuName {
            uuid: self.end.gpu.uuid.clone(),
            pci: self.end.gpu.pci.clone(),
        }
    }

    /// What the other ranks need to know about it.
    pub fn endpoint(&self) -> &GpuEndpoint {
        &self.end
    }
}
