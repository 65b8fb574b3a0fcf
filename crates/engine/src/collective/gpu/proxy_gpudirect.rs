//! A proxy thread with GPUDirect: the NIC reads and writes GPU memory itself, and the proxy passes on addresses only.

use std::sync::Arc;

use super::proxy_worker::{ProxyProgress, ProxyWorker};
use crate::device::cuda::GpuDirectMemory;
use crate::transport::{GpuRange, LinkError};

impl ProxyWorker {
    /// Returns slots whose chunks have left to the GPU.
    pub(super) fn free_direct(&mut self, progress: &mut ProxyProgress) -> Result<bool, LinkError> {
        let mut moved = false;
        while let Some((ring, count, _)) = progress.leaving.front() {
            if !self.channel.has_left(progress.freed)? {
                break;
            }
            self.memory.store_u64(self.plan.rings[*ring].head(), count + 1);
            progress.leaving.pop_front();
            progress.freed += 1;
            moved = true;
        }
        Ok(moved)
    }

    /// Sends the next chunk once the GPU has filled its slot and the peer has announced a receive slot.
    pub(super) fn send_direct(
        &mut self,
        memory: &Arc<GpuDirectMemory>,
        progress: &mut ProxyProgress,
    ) -> Result<bool, LinkError> {
        let Some(chunk) = self.plan.out.get(progress.sent) else {
            return Ok(false);
        };
        let ring = &self.plan.rings[chunk.ring];
        let count = self.collectives * ring.each + chunk.number;
        if self.memory.load_u64(ring.tail()) <= count {
            return Ok(false);
        }
        let range = ring.range(chunk, count);
        let range_on_gpu = GpuRange {
            memory: Arc::clone(memory),
            range: range.clone(),
        };
        if !self.channel.offer_direct(&range_on_gpu)? {
            return Ok(false);
        }
        progress.leaving.push_back((chunk.ring, count, range));
        progress.sent += 1;
        Ok(true)
    }

    /// Announces receive slots as far ahead as they are free, and signals arrived chunks to the GPU.
    pub(super) fn receive_direct(
        &mut self,
        memory: &Arc<GpuDirectMemory>,
        progress: &mut ProxyProgress,
    ) -> Result<bool, LinkError> {
        let mut moved = false;
        while let Some(chunk) = self.plan.back.get(progress.expected) {
            let ring = &self.plan.rings[chunk.ring];
            let count = self.collectives * ring.each + chunk.number;
            if count >= self.memory.load_u64(ring.head()) + ring.slots() {
                break;
            }
            let range_on_gpu = GpuRange {
                memory: Arc::clone(memory),
                range: ring.range(chunk, count),
            };
            if !self.channel.expect_direct(&range_on_gpu)? {
                break;
            }
            progress.expected += 1;
            moved = true;
        }
        if progress.received == progress.expected || self.channel.arrived_direct()?.is_none() {
            return Ok(moved);
        }
        let chunk = &self.plan.back[progress.received];
        let ring = &self.plan.rings[chunk.ring];
        let count = self.collectives * ring.each + chunk.number;
        memory.flush_nic_writes().map_err(|error| {
            LinkError::Failed(format!(
                "data that arrived in GPU memory could not be flushed: {error}"
            ))
        })?;
        self.memory.store_u64(ring.tail(), count + 1);
        progress.received += 1;
        Ok(true)
    }
}
