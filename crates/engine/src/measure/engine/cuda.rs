//! A GPU as engine: kernels of ours walk through the schedule on memory of the GPU.

use super::{Engine, as_recorded, moved_over};
use crate::collective::gpu::{self, GpuWork, Preparation, Station};
use crate::collective::{Conditions, Mismatch, Stopped, Took};
use crate::device::cuda::CudaError;
use crate::device::telemetry::GpuName;
use crate::transport::Channel;
use record::units::{Bytes, Nanos};
use record::{Cell, Moved, Stuck, TransportKind};

/// A rank whose data lies on a GPU.
pub(in crate::measure) struct OnGpu {
    rank: u32,
    gpu: GpuName,
    work: Box<dyn GpuWork>,
    /// What one collective puts into the memory of others, where no connection counts it.
    sends: Vec<(u32, u64)>,
    collectives: u64,
    /// Why the input is not there.
    unfilled: Option<CudaError>,
}

impl OnGpu {
    /// Makes the cell ready on the rank's GPU; gives the channels back when that is not possible.
    pub fn new(station: &Station, wanted: Preparation<'_>) -> Result<OnGpu, (String, Vec<Channel>)> {
        let (rank, direct) = (wanted.rank, is_direct(wanted.cell));
        let work = gpu::prepare(station, wanted)?;
        let info = &station.end().gpu;
        Ok(OnGpu {
            rank,
            gpu: GpuName {
                uuid: info.uuid.clone(),
                pci: info.pci.clone(),
            },
            sends: if direct { work.sends() } else { Vec::new() },
            work,
            collectives: 0,
            unfilled: None,
        })
    }
}

fn is_direct(cell: &Cell) -> bool {
    cell.transport == TransportKind::Peer
}

impl Engine for OnGpu {
    fn fill(&mut self, pattern: u64) -> bool {
        self.unfilled = self.work.fill(pattern).err();
        self.unfilled.is_none()
    }

    fn run(
        &mut self,
        at: Nanos,
        iteration: Option<u32>,
        times: u16,
        conditions: &Conditions<'_>,
    ) -> Result<Took, Stopped> {
        if let Some(error) = self.unfilled.take() {
            return Err(Stopped {
                step: "filling its input".to_string(),
                waiting_for: None,
                waited: Nanos(0),
                problem: error.to_string(),
                aborted: false,
            });
        }
        let took = self.work.run(at, iteration, times, conditions)?;
        self.collectives += u64::from(times);
        Ok(took)
    }

    fn check(&mut self, pattern: u64) -> Option<Result<(), Mismatch>> {
        match self.work.check(pattern) {
            Ok(verdict) => Some(verdict),
            Err(error) => {
                tracing::warn!(rank = self.rank, %error, "the result could not be checked");
                None
            }
        }
    }

    fn stuck(&self) -> Vec<Stuck> {
        as_recorded(self.work.stuck())
    }

    fn gpu(&self) -> Option<GpuName> {
        Some(self.gpu.clone())
    }

    fn finish(self: Box<Self>) -> (Vec<Moved>, Vec<Channel>) {
        let direct = self.sends.iter().map(|(to, bytes)| Moved {
            from: self.rank,
            to: *to,
            rail: None,
            bytes: Bytes(bytes * self.collectives),
        });
        let mut moved: Vec<Moved> = direct.collect();
        let channels = self.work.into_channels();
        moved.extend(moved_over(self.rank, channels.iter()));
        (moved, channels)
    }
}
