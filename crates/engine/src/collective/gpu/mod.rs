//! A cell on GPUs: the host's schedules, lowered to ops that a kernel executes.
//!
//! Lowering is pure: a function of the cell, of which GPU reaches which memory, and of how many thread blocks fit. Every rank
//! lowers the whole cell, so both ends of every connection agree without exchanging anything, and tests run the result in memory
//! without a GPU.

mod cell_plan;
mod copy_engine;
mod fuse;
mod kernel_engine;
mod launch_group;
mod launch_monitor;
mod layout;
mod limits;
pub mod nccl;
mod pattern_check;
mod ports;
mod preparation;
mod process_gpus;
mod program;
mod proxy;
mod proxy_gpudirect;
mod proxy_worker;
mod rank_gpu;
mod stop_reason;
mod tuning;

#[cfg(test)]
mod interpret_tests;

pub use layout::{Layout, PortOffsets, arena_bytes};
pub use limits::{LaunchGroup, Limits, MemoryAccess};
pub use ports::PortPlan;
pub use preparation::{Preparation, planned_bytes, programs};
pub use process_gpus::ProcessGpus;
pub use program::DeviceProgram;
pub use rank_gpu::RankGpu;
pub use tuning::Tuning;

use super::CellEngine;
use crate::transport::Channel;
use copy_engine::CopyEngine;
use kernel_engine::KernelEngine;
use record::Algorithm;

/// Prepares a cell on `rank_gpu`. Ranks of this process that share its GPU call this at the same time, each on its own thread,
/// and wait for each other here. An error returns the channels.
pub fn prepare(
    rank_gpu: &RankGpu,
    mut wanted: Preparation<'_>,
) -> Result<Box<dyn CellEngine>, (String, Vec<Channel>)> {
    let mut channels = std::mem::take(&mut wanted.channels);
    let ready = match wanted.cell.algorithm {
        Algorithm::CopyEngine => {
            CopyEngine::prepare(rank_gpu, &wanted).map(|engine| Box::new(engine) as Box<dyn CellEngine>)
        }
        _ => KernelEngine::prepare(rank_gpu, &wanted, &mut channels)
            .map(|engine| Box::new(engine) as Box<dyn CellEngine>),
    };
    ready.map_err(|problem| (problem, channels))
}
