//! Many streams as engine: no schedule, but as much as arrives within some time.

use super::Engine;
use crate::collective::{Conditions, Mismatch, Stopped, StreamExecution, Took};
use crate::launch::clock;
use crate::transport::Channel;
use record::units::Nanos;
use record::{Moved, StreamRecord, Stuck};

/// One end of a cell of streams.
pub(in crate::measure) struct ByStreams(pub StreamExecution);

impl Engine for ByStreams {
    fn fill(&mut self, _pattern: u64) -> bool {
        // The messages were written when the cell was prepared, and stay.
        true
    }

    fn run(
        &mut self,
        at: Nanos,
        iteration: Option<u32>,
        _times: u16,
        conditions: &Conditions<'_>,
    ) -> Result<Took, Stopped> {
        clock::wait_until(at, conditions.crowded);
        self.0.run(at, iteration, conditions)
    }

    fn check(&mut self, _pattern: u64) -> Option<Result<(), Mismatch>> {
        Some(self.0.check())
    }

    fn stuck(&self) -> Vec<Stuck> {
        Vec::new()
    }

    fn streams(&mut self) -> Vec<StreamRecord> {
        self.0.records()
    }

    fn finish(self: Box<Self>) -> (Vec<Moved>, Vec<Channel>) {
        // A stream's source port must be free for the next cell: nothing is kept.
        (Vec::new(), Vec::new())
    }
}
