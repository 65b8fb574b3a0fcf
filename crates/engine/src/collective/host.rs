//! Cells on the CPU: the schedule runs over channels on memory of this process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::engine::{CellEngine, Conditions, Stopped, Took, moved_over, stuck_records};
use super::execute::Execution;
use super::memory::Buffers;
use super::oracle::{Oracle, WrongElement};
use super::program::{Program, ProgramError, scheme_of};
use crate::device::Region;
use crate::launch::clock;
use crate::transport::Channel;
use record::units::Nanos;
use record::{Cell, LinkTraffic, Stuck};

/// A rank whose data lies in CPU memory.
pub struct HostEngine {
    rank: u32,
    /// Position in the cell.
    position: usize,
    execution: Execution,
    buffers: Buffers,
    oracle: Oracle,
    deadline: Duration,
    abort: Arc<AtomicBool>,
}

impl HostEngine {
    /// Takes memory for `cell` and joins the program with its channels.
    pub fn new(
        cell: &Cell,
        rank: u32,
        oracle: Oracle,
        program: Program,
        channels: Vec<Channel>,
        deadline: Duration,
        abort: Arc<AtomicBool>,
    ) -> Result<HostEngine, ProgramError> {
        let stages = scheme_of(cell)?.stages_input_in_place();
        let position = cell.ranks.iter().position(|member| *member == rank);
        Ok(HostEngine {
            rank,
            position: position.ok_or(ProgramError::NotAMember(rank))?,
            execution: Execution::new(program, channels),
            buffers: Buffers::for_cell(cell, stages),
            oracle,
            deadline,
            abort,
        })
    }

    /// Leases a whole region; a peer may still be reading the last chunk of it for a moment.
    fn lease_all<L>(
        &self,
        region: &Arc<Region>,
        lease: impl Fn(&Arc<Region>, std::ops::Range<usize>) -> Option<L>,
    ) -> Option<L> {
        let until = Instant::now() + self.deadline;
        loop {
            if let Some(leased) = lease(region, 0..region.len()) {
                return Some(leased);
            }
            if Instant::now() > until || self.abort.load(Ordering::Relaxed) {
                return None;
            }
            std::thread::yield_now();
        }
    }
}

impl CellEngine for HostEngine {
    fn fill(&mut self, pattern: u64) -> bool {
        let input = self.lease_all(&self.buffers.input, Region::try_write);
        let Some(mut input) = input else { return false };
        self.oracle.input(self.position, pattern, &mut input);
        true
    }

    fn run(
        &mut self,
        at: Nanos,
        iteration: Option<u32>,
        times: u16,
        conditions: &Conditions<'_>,
    ) -> Result<Took, Stopped> {
        clock::wait_until(at, conditions.crowded);
        if times <= 1 {
            return self.execution.run(&self.buffers, iteration, conditions);
        }
        let started = clock::now();
        let mut waited = Nanos(0);
        for _ in 0..times {
            let took = self.execution.run(&self.buffers, iteration, conditions)?;
            waited = waited + took.waited;
        }
        let total = clock::now().since(started);
        Ok(Took {
            started,
            total: Nanos(total.0 / u64::from(times)),
            waited: Nanos(waited.0 / u64::from(times)),
        })
    }

    fn check(&mut self, pattern: u64) -> Option<Result<(), WrongElement>> {
        let output = self.lease_all(&self.buffers.output, Region::try_read)?;
        Some(self.oracle.check(self.position, pattern, &output))
    }

    fn stuck(&self) -> Vec<Stuck> {
        stuck_records(self.execution.stuck())
    }

    fn note_tcp(&mut self, iteration: Option<u32>) {
        self.execution
            .channels_mut()
            .for_each(|channel| channel.note_tcp(iteration));
    }

    fn finish(self: Box<Self>) -> (Vec<LinkTraffic>, Vec<Channel>) {
        let moved = moved_over(self.rank, self.execution.channels());
        (moved, self.execution.into_channels())
    }
}
