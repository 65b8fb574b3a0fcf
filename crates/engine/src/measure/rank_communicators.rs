//! NCCL on one rank: whether it can be used, and the communicators of this rank.

use std::collections::HashMap;
use std::sync::Arc;

use super::capabilities::processes_share_a_gpu;
use super::protocol::{Answer, Communicator, NcclSupport};
use crate::collective::CellEngine;
use crate::collective::gpu::RankGpu;
use crate::collective::gpu::nccl::{NcclEngine, NcclPreparation, NcclThread};
use crate::device::cuda::nccl::{Nccl, UniqueId, set_host_id};
use crate::transport::{Endpoint, GpuEndpoint};

/// The communicators of this rank, by their ids.
#[derive(Default)]
pub(super) struct RankCommunicators {
    by_id: HashMap<String, Arc<NcclThread>>,
}

impl RankCommunicators {
    /// Whether this rank has NCCL.
    pub fn support() -> NcclSupport {
        match Nccl::get() {
            Ok(nccl) => NcclSupport::Available {
                version: nccl.version().0,
                library: nccl.name().to_string(),
            },
            Err(missing) => NcclSupport::Missing(missing.to_string()),
        }
    }

    /// NCCL refuses ranks of several processes on one GPU. Where the run has some, gives every process a host id of its own, so
    /// that NCCL uses the network between them.
    pub fn set_host_ids(me: &GpuEndpoint, ends: &[Endpoint]) {
        let Ok(nccl) = Nccl::get() else { return };
        if nccl.version().refuses_shared_gpus() && processes_share_a_gpu(ends) {
            let done = set_host_id(&format!("railgauge-{:x}", me.process));
            tracing::debug!(
                done,
                "ranks of several processes share a GPU: NCCL_HOSTID per process"
            );
        }
    }

    /// Creates the NCCL unique id of a cell, if this rank is to.
    pub fn create_id(cell: u32, is_creator: bool) -> Answer {
        if !is_creator {
            return Answer::NcclId { cell, id: None };
        }
        let id = Nccl::get().map_err(|missing| missing.to_string());
        let id = id.and_then(|nccl| UniqueId::new(nccl).map_err(|error| error.to_string()));
        match id {
            Ok(id) => Answer::NcclId {
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

    /// Prepares NCCL for a cell, with an earlier communicator when there is one.
    pub fn engine(
        &mut self,
        rank_gpu: &RankGpu,
        communicator: &Communicator,
        wanted: NcclPreparation<'_>,
    ) -> Result<Box<dyn CellEngine>, String> {
        self.by_id
            .retain(|id, thread| communicator.live.contains(id) && thread.is_sound());
        let wanted = NcclPreparation {
            thread: self.by_id.get(&communicator.id).cloned(),
            ..wanted
        };
        let engine = NcclEngine::prepare(rank_gpu, &wanted)?;
        self.by_id
            .insert(communicator.id.clone(), Arc::clone(engine.thread()));
        Ok(Box::new(engine))
    }

    /// Destroys all of them.
    pub fn clear(&mut self) {
        self.by_id.clear();
    }
}
