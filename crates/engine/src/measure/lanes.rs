//! NCCL on one rank: whether it is there, and the communicators this rank is part of.

use std::collections::HashMap;
use std::sync::Arc;

use super::orders::{Answer, Communicator, NcclCard};
use crate::collective::CellEngine;
use crate::collective::gpu::RankGpu;
use crate::collective::gpu::nccl::{NcclEngine, NcclPreparation, NcclThread};
use crate::device::cuda::nccl::{Nccl, UniqueId, set_host_id};
use crate::transport::{Endpoint, GpuEndpoint};

/// The communicators this rank is part of, by their ids.
#[derive(Default)]
pub(super) struct Lanes {
    kept: HashMap<String, Arc<NcclThread>>,
}

impl Lanes {
    /// Whether this rank has NCCL.
    pub fn card() -> NcclCard {
        match Nccl::get() {
            Ok(nccl) => NcclCard::There {
                version: nccl.version().0,
                library: nccl.name().to_string(),
            },
            Err(missing) => NcclCard::Missing(missing.to_string()),
        }
    }

    /// Where NCCL would refuse ranks because they share a GPU with a rank of another process, it is told that every process
    /// is on a host of its own: it then takes the network between them.
    pub fn settle(me: &GpuEndpoint, ends: &[Endpoint]) {
        let Ok(nccl) = Nccl::get() else { return };
        if nccl.version().refuses_shared_gpus() && processes_share_a_gpu(ends) {
            let done = set_host_id(&format!("railgauge-{:x}", me.process));
            tracing::debug!(
                done,
                "ranks of several processes share a GPU: NCCL_HOSTID per process"
            );
        }
    }

    /// Makes what NCCL's ranks need to find each other, where this rank is the one to do so.
    pub fn introduce(cell: u32, leads: bool) -> Answer {
        if !leads {
            return Answer::Introduced { cell, id: None };
        }
        let id = Nccl::get().map_err(|missing| missing.to_string());
        let id = id.and_then(|nccl| UniqueId::new(nccl).map_err(|error| error.to_string()));
        match id {
            Ok(id) => Answer::Introduced {
                cell,
                id: Some(id.to_hex()),
            },
            Err(reason) => Answer::CannotPrepare {
                cell,
                reason,
                waiting_for: None,
                rail: None,
                no_carrier: Vec::new(),
            },
        }
    }

    /// Makes NCCL ready for a cell, with a communicator from before when there is one.
    pub fn engine(
        &mut self,
        rank_gpu: &RankGpu,
        communicator: &Communicator,
        wanted: NcclPreparation<'_>,
    ) -> Result<Box<dyn CellEngine>, String> {
        self.kept
            .retain(|id, lane| communicator.live.contains(id) && lane.is_sound());
        let wanted = NcclPreparation {
            thread: self.kept.get(&communicator.id).cloned(),
            ..wanted
        };
        let engine = NcclEngine::prepare(rank_gpu, &wanted)?;
        self.kept
            .insert(communicator.id.clone(), Arc::clone(engine.thread()));
        Ok(Box::new(engine))
    }

    /// Gives all of them back.
    pub fn clear(&mut self) {
        self.kept.clear();
    }
}

/// Whether ranks of different processes are on the same GPU.
pub(super) fn processes_share_a_gpu(ends: &[Endpoint]) -> bool {
    let mut on: HashMap<&str, u64> = HashMap::new();
    let gpus = ends.iter().filter_map(|end| end.gpu.as_ref());
    gpus.into_iter()
        .any(|end| *on.entry(&end.gpu.uuid).or_insert(end.process) != end.process)
}
