//! Cells executed by our kernels.
//!
//! Everything that may synchronise the whole GPU (allocating, loading modules, pinning) happens while the cell is prepared, when
//! no kernel waits for a peer. A run only joins the launch group and reads the status that the kernel left in pinned memory.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::launch_group::{LaunchShape, Launcher};
use super::launch_monitor::RankJob;
use super::layout::{Layout, arena_bytes};
use super::pattern_check::PatternCheck;
use super::preparation::{Preparation, flip_output, members, programs};
use super::program::DeviceProgram;
use super::proxy::Proxies;
use super::rank_gpu::RankGpu;
use super::stop_reason;
use crate::collective::engine::{moved_directly, moved_over, stuck_records};
use crate::collective::{CellEngine, Conditions, Stopped, Took, WrongElement};
use crate::device::cuda::{Allocation, CudaError, Pinned, abi};
use crate::device::telemetry::GpuName;
use crate::transport::{Channel, Flip};
use record::units::Nanos;
use record::{LinkTraffic, Stuck, TransportKind};

/// One rank's part of a cell, executed by kernels.
pub(super) struct KernelEngine {
    gpu: GpuName,
    program: DeviceProgram,
    launcher: Arc<Launcher>,
    member: usize,
    pattern_check: PatternCheck,
    /// Where input and output lie.
    memory: Arc<Allocation>,
    layout: Layout,
    proxies: Proxies,
    flip: Option<Flip>,
    /// Whether data goes into the memory of other ranks, where no connection counts it.
    direct: bool,
    /// Collectives run so far.
    collectives: u64,
    /// Held because kernels write to it.
    _status: Arc<Pinned>,
}

impl CellEngine for KernelEngine {
    fn fill(&mut self, pattern: u64) -> bool {
        let input = self.memory.address() + self.layout.input;
        self.pattern_check.fill(input, pattern)
    }

    fn run(
        &mut self,
        at: Nanos,
        iteration: Option<u32>,
        times: u16,
        conditions: &Conditions<'_>,
    ) -> Result<Took, Stopped> {
        self.pattern_check.require_input()?;
        self.proxies.begin(iteration, times);
        let ended = self.launcher.run(self.member, at, times, conditions);
        let ended = match ended {
            Ok(ended) => ended,
            Err(missing) => {
                self.proxies.halt();
                return Err(stop_reason::missing(missing));
            }
        };
        if let Some(stopped) = stop_reason::stopped(&self.program, &ended) {
            self.proxies.halt();
            // A broken connection is why the kernel was stopped; the kernel knows the step.
            return Err(match self.proxies.problem() {
                Some(broken) => Stopped {
                    step: stopped.step,
                    ..broken
                },
                None => stopped,
            });
        }
        self.proxies.end(conditions)?;
        if self.proxies.is_empty() {
            flip_output(&self.flip, iteration, &self.memory, &self.layout, &self.program).map_err(failed)?;
        }
        let status = &ended.status;
        let total = match times {
            1 => status.ended.saturating_sub(status.started),
            _ => ended.seen.since(ended.opened).0 / u64::from(times),
        };
        self.collectives += u64::from(times);
        Ok(Took {
            started: ended.opened,
            total: Nanos(total),
            waited: Nanos(status.waited.min(total)),
        })
    }

    fn check(&mut self, pattern: u64) -> Option<Result<(), WrongElement>> {
        self.pattern_check
            .check(&self.memory, self.layout.output, pattern)
    }

    fn stuck(&self) -> Vec<Stuck> {
        stuck_records(self.proxies.stuck())
    }

    fn gpu(&self) -> Option<GpuName> {
        Some(self.gpu.clone())
    }

    fn finish(self: Box<Self>) -> (Vec<LinkTraffic>, Vec<Channel>) {
        let rank = self.program.rank;
        let sends = if self.direct {
            self.program.sends()
        } else {
            Vec::new()
        };
        let mut moved = moved_directly(rank, &sends, self.collectives);
        let channels = self.proxies.into_channels();
        moved.extend(moved_over(rank, channels.iter()));
        (moved, channels)
    }
}

fn failed(error: CudaError) -> Stopped {
    Stopped {
        step: "after its last step".to_string(),
        waiting_for: None,
        waited: Nanos(0),
        problem: error.to_string(),
        aborted: false,
    }
}

impl KernelEngine {
    pub fn prepare(
        rank_gpu: &RankGpu,
        wanted: &Preparation<'_>,
        channels: &mut Vec<Channel>,
    ) -> Result<KernelEngine, String> {
        let message = |error: CudaError| error.to_string();
        let (cell, me) = (wanted.cell, wanted.rank);
        let members = members(cell, wanted.ends)?;
        let end = |rank: u32| {
            members
                .iter()
                .find(|(member, _)| *member == rank)
                .map(|(_, end)| *end)
        };
        let mine = end(me).ok_or_else(|| format!("rank {me} takes no part in this cell"))?;
        let beside = members
            .iter()
            .filter(|(_, end)| end.process == mine.process && end.gpu.uuid == mine.gpu.uuid);
        let beside: Vec<u32> = beside.map(|(rank, _)| *rank).collect();
        let key = (cell.id, wanted.round, mine.gpu.uuid.clone());
        let reservation = rank_gpu.process_gpus.launcher(key, &beside).reservation(me);
        let reservation = reservation.ok_or("this rank is not a member of the launch group on its GPU")?;

        let mut programs = programs(cell, wanted.ends, wanted.at_once)?;
        let direct = cell.transport == TransportKind::Peer;
        let largest = if direct { rank_gpu.largest } else { cell.size.0 };
        let too_long = || {
            "the flags and receive slots of this cell do not fit into the control memory of the GPU arena"
                .to_string()
        };
        let layouts: Option<Vec<Layout>> = programs.iter().map(|program| program.layout(largest)).collect();
        let mut layouts = layouts.ok_or_else(too_long)?;
        let memory = match direct {
            true => rank_gpu
                .lend()
                .ok_or("two cells at once would use the same memory of this rank")?,
            // No other rank uses it, so it need not be the arena that others have mapped.
            false => Arc::new(
                rank_gpu
                    .gpu
                    .allocate(arena_bytes(largest) as usize)
                    .map_err(message)?,
            ),
        };
        let position = cell.ranks.iter().position(|rank| *rank == me).unwrap_or(0);
        let control = layouts[position].control.clone();
        memory
            .zero(control.start as usize..control.end as usize)
            .map_err(message)?;

        let trouble = Arc::new(AtomicBool::new(false));
        let proxies = Proxies::new(
            rank_gpu,
            &memory,
            wanted,
            &programs,
            &layouts[position],
            channels,
            &trouble,
        )?;
        let mut addresses = Vec::with_capacity(members.len());
        for ((rank, end), (program, layout)) in members.iter().zip(programs.iter().zip(&layouts)) {
            let used = programs[position]
                .ports
                .iter()
                .any(|port| port.peer == *rank && !port.proxied);
            if used {
                let at = rank_gpu.process_gpus.address_of(&rank_gpu.gpu, mine, end);
                let at = at.map_err(|problem| format!("rank {rank}: {problem}"))?;
                addresses.push((*rank, at, program, layout));
            }
        }
        let peer = |rank: u32| {
            let found = addresses.iter().find(|(other, ..)| *other == rank)?;
            Some((found.1, found.2, found.3))
        };
        let base = memory.address();
        let (program, layout) = (&programs[position], &layouts[position]);
        let ports = program.resolve(layout, base, proxies.address(), &peer);
        let ports = ports.ok_or("two ranks do not agree on the connections between them")?;
        memory
            .upload(layout.ops as usize, bytemuck::cast_slice(&program.ops))
            .map_err(message)?;
        memory
            .upload(layout.ports as usize, bytemuck::cast_slice(&ports))
            .map_err(message)?;
        let status = Arc::new(rank_gpu.gpu.pin(size_of::<abi::Status>()).map_err(message)?);
        let job = abi::Job {
            input: base + layout.input,
            output: base + layout.output,
            ops: base + layout.ops,
            ports: base + layout.ports,
            status: status.address(),
            scratch: base + layout.scratch,
            op_count: program.ops.len() as u32,
            port_count: ports.len() as u32,
            workers: program.workers,
            blocks: program.blocks,
            first_block: 0,
            chunk: program.chunk,
            ranks: cell.world() as u32,
            iterations: program.iterations,
        };
        let rank_job = RankJob {
            job,
            status: Arc::clone(&status),
            abort: Arc::clone(&wanted.abort),
            trouble,
        };
        let shape = LaunchShape {
            gpu: Arc::clone(&rank_gpu.gpu),
            kernel: program.kernel.clone(),
            threads: program.threads,
            at_once: u32::from(wanted.at_once.max(1)),
        };
        let pattern_check =
            PatternCheck::new(&rank_gpu.gpu, wanted.oracle, position, wanted.deadline).map_err(message)?;
        let (launcher, member) = reservation.join(rank_job, &shape, wanted.deadline)?;
        Ok(KernelEngine {
            gpu: rank_gpu.name(),
            direct,
            collectives: 0,
            program: programs.swap_remove(position),
            launcher,
            member,
            pattern_check,
            memory,
            layout: layouts.swap_remove(position),
            proxies,
            flip: wanted.flip.clone(),
            _status: status,
        })
    }
}
