//! Point-to-point by the copy engine: the sender has the driver copy its input into the receiver's output, times the copy on the
//! GPU, and then writes a completion record into the receiver's memory.
//!
//! The receiver only polls for that record and takes its time from it, so the polling interval does not enter the measurement.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::layout::Layout;
use super::pattern_check::PatternCheck;
use super::preparation::{Preparation, flip_output, members, programs};
use super::program::DeviceProgram;
use super::rank_gpu::RankGpu;
use crate::collective::engine::moved_directly;
use crate::collective::{CellEngine, Conditions, Stopped, Took, WrongElement};
use crate::device::cuda::{Allocation, CudaError, Event, Progress, Stream};
use crate::device::telemetry::GpuName;
use crate::launch::clock;
use crate::transport::{Channel, Flip};
use record::units::Nanos;
use record::{LinkTraffic, Stuck, TransportKind};

/// How often a receiver polls.
const POLL_INTERVAL: Duration = Duration::from_micros(20);
/// Where in the receiver's scratch the completion record lies: number of the run, nanoseconds.
const RECEIVED_RECORD: u64 = 0;
/// Where in the sender's scratch it is written before it is copied.
const SENT_RECORD: u64 = 16;

/// One rank's part of a copy.
pub(super) struct CopyEngine {
    gpu: GpuName,
    program: DeviceProgram,
    layout: Layout,
    memory: Arc<Allocation>,
    /// The receiver, and the addresses of its output and its scratch; none for a rank that sends nothing.
    sends_to: Option<(u32, u64, u64)>,
    receives_from: Option<u32>,
    stream: Stream,
    begin: Event,
    end: Event,
    pattern_check: PatternCheck,
    flip: Option<Flip>,
    /// Runs so far.
    runs: u64,
    /// Whether data goes into the memory of other ranks, where no connection counts it.
    direct: bool,
    /// Collectives run so far.
    collectives: u64,
}

impl CopyEngine {
    /// Prepares the cell on `rank_gpu`.
    pub fn prepare(rank_gpu: &RankGpu, wanted: &Preparation<'_>) -> Result<CopyEngine, String> {
        let message = |error: CudaError| error.to_string();
        let (cell, me) = (wanted.cell, wanted.rank);
        let members = members(cell, wanted.ends)?;
        let mut programs = programs(cell, wanted.ends, wanted.at_once)?;
        let layouts: Option<Vec<Layout>> = programs
            .iter()
            .map(|program| program.layout(rank_gpu.largest))
            .collect();
        let mut layouts = layouts.ok_or("this cell does not fit into the GPU arena of this rank")?;
        let position = cell.ranks.iter().position(|rank| *rank == me);
        let position = position.ok_or_else(|| format!("rank {me} takes no part in this cell"))?;
        let memory = rank_gpu
            .lend()
            .ok_or("two cells at once would use the same memory of this rank")?;
        let scratch = layouts[position].scratch as usize;
        memory.zero(scratch..scratch + 32).map_err(message)?;
        let mut sends_to = None;
        for (peer, _) in programs[position].sends() {
            let there = cell
                .ranks
                .iter()
                .position(|rank| *rank == peer)
                .unwrap_or(position);
            let at = rank_gpu
                .process_gpus
                .address_of(&rank_gpu.gpu, members[position].1, members[there].1);
            let at = at.map_err(|problem| format!("rank {peer}: {problem}"))?;
            sends_to = Some((peer, at + layouts[there].output, at + layouts[there].scratch));
        }
        let sender = programs
            .iter()
            .find(|program| program.sends().iter().any(|(to, _)| *to == me));
        let receives_from = sender.map(|program| program.rank);
        Ok(CopyEngine {
            program: programs.swap_remove(position),
            layout: layouts.swap_remove(position),
            memory,
            sends_to,
            receives_from,
            stream: rank_gpu.gpu.stream().map_err(message)?,
            begin: rank_gpu.gpu.event().map_err(message)?,
            end: rank_gpu.gpu.event().map_err(message)?,
            pattern_check: PatternCheck::new(&rank_gpu.gpu, wanted.oracle, position, wanted.deadline)
                .map_err(message)?,
            flip: wanted.flip.clone(),
            runs: 0,
            direct: cell.transport == TransportKind::Peer,
            collectives: 0,
            gpu: rank_gpu.name(),
        })
    }

    /// CopyEngine `times` times and waits for that; how long one copy took.
    fn send(&self, to: u64, times: u16, conditions: &Conditions<'_>) -> Result<Nanos, CudaError> {
        let from = self.memory.address() + self.layout.input;
        let bytes = self.program.payload as usize;
        let opened = clock::now();
        self.stream.record(&self.begin)?;
        for _ in 0..times {
            self.stream.copy(to, from, bytes)?;
        }
        self.stream.record(&self.end)?;
        while self.end.query()? == Progress::Busy {
            if Duration::from(clock::now().since(opened)) > conditions.deadline {
                return Err(CudaError::Overdue { what: "a copy" });
            }
            match conditions.crowded {
                true => std::thread::yield_now(),
                false => std::hint::spin_loop(),
            }
        }
        match times {
            1 => self.end.since(&self.begin),
            _ => Ok(Nanos(clock::now().since(opened).0 / u64::from(times))),
        }
    }

    /// Writes the completion record to the receiver, the number of the run last.
    fn send_record(&self, scratch: u64, took: Nanos, conditions: &Conditions<'_>) -> Result<(), CudaError> {
        let own = self.layout.scratch + SENT_RECORD;
        self.memory
            .upload(own as usize, bytemuck::cast_slice(&[took.0, self.runs]))?;
        let from = self.memory.address() + own;
        self.stream.copy(scratch + RECEIVED_RECORD + 8, from, 8)?;
        self.stream.copy(scratch + RECEIVED_RECORD, from + 8, 8)?;
        self.stream.synchronize_within(conditions.deadline)
    }

    /// Waits for the sender's completion record.
    fn wait_for_record(&self, from: u32, conditions: &Conditions<'_>) -> Result<Nanos, Stopped> {
        let since = clock::now();
        loop {
            let mut record = [0u64; 2];
            let at = (self.layout.scratch + RECEIVED_RECORD) as usize;
            let looked = self.memory.download(at, bytemuck::cast_slice_mut(&mut record));
            looked.map_err(|error| self.stopped(Some(from), since, error.to_string(), false))?;
            if record[0] >= self.runs {
                return Ok(Nanos(record[1]));
            }
            let aborted = conditions.abort.load(Ordering::Relaxed);
            if aborted {
                return Err(self.stopped(Some(from), since, "the run is being ended".to_string(), true));
            }
            if Duration::from(clock::now().since(since)) > conditions.deadline {
                let problem = "nothing arrived within the deadline".to_string();
                return Err(self.stopped(Some(from), since, problem, false));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    fn stopped(&self, peer: Option<u32>, since: Nanos, problem: String, aborted: bool) -> Stopped {
        let step = match (self.sends_to, self.receives_from) {
            (_, Some(from)) if peer == Some(from) => {
                format!("step 1 of 1: receive by copy engine from rank {from}")
            }
            (Some((to, ..)), _) => format!("step 1 of 1: send by copy engine to rank {to}"),
            _ => "before its first step".to_string(),
        };
        Stopped {
            step,
            waiting_for: peer,
            waited: clock::now().since(since),
            problem,
            aborted,
        }
    }
}

impl CellEngine for CopyEngine {
    fn fill(&mut self, pattern: u64) -> bool {
        self.pattern_check
            .fill(self.memory.address() + self.layout.input, pattern)
    }

    fn run(
        &mut self,
        at: Nanos,
        iteration: Option<u32>,
        times: u16,
        conditions: &Conditions<'_>,
    ) -> Result<Took, Stopped> {
        self.pattern_check.require_input()?;
        clock::wait_until(at, conditions.crowded);
        let started = clock::now();
        self.runs += 1;
        let mut total = Nanos(0);
        if let Some((peer, output, scratch)) = self.sends_to {
            let sent = self.send(output, times, conditions).and_then(|took| {
                self.send_record(scratch, took, conditions)?;
                Ok(took)
            });
            total = sent.map_err(|error| self.stopped(Some(peer), started, error.to_string(), false))?;
        }
        if let Some(from) = self.receives_from {
            total = total.max(self.wait_for_record(from, conditions)?);
            let struck = flip_output(&self.flip, iteration, &self.memory, &self.layout, &self.program);
            struck.map_err(|error| self.stopped(None, started, error.to_string(), false))?;
        }
        self.collectives += u64::from(times);
        Ok(Took {
            started,
            total,
            waited: Nanos(0),
        })
    }

    fn check(&mut self, pattern: u64) -> Option<Result<(), WrongElement>> {
        self.pattern_check
            .check(&self.memory, self.layout.output, pattern)
    }

    fn stuck(&self) -> Vec<Stuck> {
        Vec::new()
    }

    fn gpu(&self) -> Option<GpuName> {
        Some(self.gpu.clone())
    }

    fn finish(self: Box<Self>) -> (Vec<LinkTraffic>, Vec<Channel>) {
        let sends = if self.direct {
            self.program.sends()
        } else {
            Vec::new()
        };
        (
            moved_directly(self.program.rank, &sends, self.collectives),
            Vec::new(),
        )
    }
}
