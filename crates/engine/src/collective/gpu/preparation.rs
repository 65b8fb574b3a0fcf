//! What a rank needs to know to prepare a cell on its GPU, and what all ranks derive from it alike.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::layout::Layout;
use super::limits::{LaunchGroup, Limits, MemoryAccess};
use super::program::DeviceProgram;
use super::proxy_worker::striped;
use crate::collective::Oracle;
use crate::device::cuda::{Allocation, CudaError};
use crate::transport::{Channel, Endpoint, Flip, GpuEndpoint};
use record::{Cell, LinkTraffic, TransportKind};

/// What a rank needs to prepare a cell on its GPU.
pub struct Preparation<'a> {
    /// The cell.
    pub cell: &'a Cell,
    /// Measurement round.
    pub round: u16,
    /// World rank.
    pub rank: u32,
    /// All ranks of the run.
    pub ends: &'a [Endpoint],
    /// Cells that run at the same time on some rank, at most.
    pub at_once: u16,
    /// Inputs and expected outputs.
    pub oracle: Oracle,
    /// Connections to the ranks whose memory is not used directly.
    pub channels: Vec<Channel>,
    /// Limit of every wait.
    pub deadline: Duration,
    /// Set when the run is being ended.
    pub abort: Arc<AtomicBool>,
    /// A bit to flip on purpose.
    pub flip: Option<Flip>,
    /// Whether more ranks than cores share this host.
    pub crowded: bool,
}

/// The programs of all ranks of a cell. Every rank derives the same ones from the endpoints of all ranks.
pub fn programs(cell: &Cell, ends: &[Endpoint], at_once: u16) -> Result<Vec<DeviceProgram>, String> {
    let members = members(cell, ends)?;
    let end = |rank: u32| members.iter().find(|(member, _)| *member == rank);
    let reach = |a: u32, b: u32| {
        if cell.transport != TransportKind::Peer {
            return MemoryAccess::Proxy;
        }
        match (end(a), end(b)) {
            (Some((_, a)), Some((_, b))) if a.reach(b).is_direct() => MemoryAccess::Direct {
                same_gpu: a.gpu.uuid == b.gpu.uuid,
            },
            _ => MemoryAccess::Proxy,
        }
    };
    let mut launch_groups: Vec<(&str, LaunchGroup)> = Vec::new();
    for (rank, end) in &members {
        // Kernels of different processes take turns, or share the GPU under MPS: each process has the whole capacity.
        match launch_groups.iter_mut().find(|(gpu, _)| *gpu == end.gpu.uuid) {
            Some((_, group)) => group.ranks.push(*rank),
            None => launch_groups.push((
                &end.gpu.uuid,
                LaunchGroup {
                    ranks: vec![*rank],
                    capacity: end.blocks / u32::from(at_once.max(1)),
                },
            )),
        }
    }
    let threads = members.iter().map(|(_, end)| end.gpu.threads).min().unwrap_or(1);
    let limits = Limits::new(
        launch_groups.into_iter().map(|(_, group)| group).collect(),
        threads,
    );
    DeviceProgram::all(cell, &reach, &limits).map_err(|error| error.to_string())
}

/// What the cell's schedule puts on each link per collective, rail by rail, counted by the chunks that GPUs send.
pub fn planned_bytes(cell: &Cell, ends: &[Endpoint], at_once: u16) -> Result<Vec<LinkTraffic>, String> {
    if cell.rails.len() <= 1 {
        return crate::collective::planned_bytes(cell).map_err(|error| error.to_string());
    }
    Ok(striped(cell, &programs(cell, ends, at_once)?))
}

/// The GPU endpoints of a cell's ranks.
pub(super) fn members<'a>(cell: &Cell, ends: &'a [Endpoint]) -> Result<Vec<(u32, &'a GpuEndpoint)>, String> {
    let of = |rank: &u32| {
        let end = ends.iter().find(|end| end.rank == *rank)?;
        Some((*rank, end.gpu.as_ref()?))
    };
    let found: Option<Vec<_>> = cell.ranks.iter().map(of).collect();
    found.ok_or_else(|| "a rank of this cell has not announced its GPU memory".to_string())
}

/// Applies an injected bit flip to this rank's output, where no channel does it.
pub(super) fn flip_output(
    flip: &Option<Flip>,
    iteration: Option<u32>,
    memory: &Allocation,
    layout: &Layout,
    program: &DeviceProgram,
) -> Result<(), CudaError> {
    let Some(flip) = flip else { return Ok(()) };
    let Some(at) = flip.trigger(iteration, 0, program.payload as usize) else {
        return Ok(());
    };
    let mut byte = [0];
    let at = layout.output as usize + at;
    memory.download(at, &mut byte)?;
    byte[0] ^= flip.mask();
    memory.upload(at, &byte)
}
