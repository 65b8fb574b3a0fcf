//! What stands for streams in a binary that was built without RDMA.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::super::VerbsMissing;
use super::{Between, Outcome, StreamError, Terms, Trial};
use crate::transport::Line;
use record::FlowRecord;

/// A stream that cannot exist.
pub enum Stream {}

impl Stream {
    /// Refuses.
    pub fn open(_: Line<'_>, _: Between, _: Terms, _: Arc<AtomicBool>) -> Result<Stream, StreamError> {
        Err(StreamError::Failed(VerbsMissing::NotBuilt.to_string()))
    }

    /// Cannot happen.
    pub fn flows(&self) -> Vec<FlowRecord> {
        match *self {}
    }

    /// Cannot happen.
    pub fn run(&mut self, _: &Trial, _: &mut dyn FnMut()) -> Result<Outcome, StreamError> {
        match *self {}
    }
}
