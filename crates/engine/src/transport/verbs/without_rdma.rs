//! Verbs in a binary that was built without them: every call fails with an error that says how to build one with RDMA.

use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use super::super::link::Link;
use super::super::tcp::LocalRail;
use super::out_of_band::OutOfBand;
use super::stream::{StreamConfig, StreamEnds, StreamError, Trial, TrialResult};
use super::{QueuePairRequest, VerbsUnavailable};
use crate::device::cuda::GpuDirectMemory;
use record::FlowRecord;

/// No devices.
#[derive(Default)]
pub struct Nics {}

impl Nics {
    /// Refuses.
    pub fn begin(
        &mut self,
        _: TcpStream,
        _: &LocalRail,
        _: QueuePairRequest,
    ) -> io::Result<PendingQueuePair> {
        Err(io::Error::other(VerbsUnavailable::NotBuilt.to_string()))
    }

    /// Refuses.
    pub fn register_gpu_memory(
        &mut self,
        _: &[(String, LocalRail)],
        _: &Arc<GpuDirectMemory>,
    ) -> Result<(), String> {
        Err(VerbsUnavailable::NotBuilt.to_string())
    }
}

/// A queue pair that cannot exist.
pub enum PendingQueuePair {}

impl PendingQueuePair {
    /// Cannot happen.
    pub fn exchange_info(self, _: Instant) -> io::Result<ConnectedQueuePair> {
        match self {}
    }
}

/// A connected queue pair that cannot exist.
pub enum ConnectedQueuePair {}

impl ConnectedQueuePair {
    /// Cannot happen.
    pub fn finish(self, _: Instant) -> io::Result<Box<dyn Link>> {
        match self {}
    }
}

/// A stream that cannot exist.
pub enum RdmaStream {}

impl RdmaStream {
    /// Refuses.
    pub fn open(
        _: OutOfBand<'_>,
        _: StreamEnds,
        _: StreamConfig,
        _: Arc<AtomicBool>,
    ) -> Result<RdmaStream, StreamError> {
        Err(StreamError::Failed(VerbsUnavailable::NotBuilt.to_string()))
    }

    /// Cannot happen.
    pub fn flows(&self) -> Vec<FlowRecord> {
        match *self {}
    }

    /// Cannot happen.
    pub fn run(&mut self, _: &Trial, _: &mut dyn FnMut()) -> Result<TrialResult, StreamError> {
        match *self {}
    }
}
