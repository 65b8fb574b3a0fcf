//! One rank's part of a cell on its GPU, ready to run any number of times.
//!
//! Everything that may wait for the whole GPU (memory, modules, pinning) happens while the cell is prepared, when no kernel
//! waits for anybody. After that a run is: arrive at the gang, and read what the kernel left in pinned memory.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::carrier::striped;
use super::copies::Copies;
use super::gang::{Launcher, Seat, Shape};
use super::proxy::Proxies;
use super::station::Station;
use super::testing::Testing;
use super::{DeviceProgram, Gang, Layout, Limits, Reach, arena_bytes, standstill};
use crate::collective::{Conditions, Mismatch, Oracle, Stopped, Took};
use crate::device::cuda::{Allocation, CudaError, Pinned, abi};
use crate::transport::{Backlog, Channel, Endpoint, Flip, GpuEnd};
use record::units::Nanos;
use record::{Algorithm, Cell, Moved, TransportKind};

/// What a rank needs to be told about a cell.
pub struct Preparation<'a> {
    /// The cell.
    pub cell: &'a Cell,
    /// Measurement round.
    pub round: u16,
    /// World rank.
    pub rank: u32,
    /// All ranks of the run.
    pub ends: &'a [Endpoint],
    /// Cells that run at the same time on some rank, at most.
    pub at_once: u16,
    /// What goes in and must come out.
    pub oracle: Oracle,
    /// Connections to the ranks whose memory is not used directly.
    pub channels: Vec<Channel>,
    /// Of every wait.
    pub deadline: Duration,
    /// Set when the run is being ended.
    pub abort: Arc<AtomicBool>,
    /// A bit that is to be flipped on purpose.
    pub flip: Option<Flip>,
    /// Whether more ranks than cores share this host.
    pub crowded: bool,
}

/// One rank's part of a cell on a GPU, whatever moves the data.
pub trait GpuWork: Send {
    /// Puts the input of pattern `pattern` in place.
    fn fill(&mut self, pattern: u64) -> Result<(), CudaError>;

    /// Runs the collective `times` times, at the agreed instant.
    fn run(
        &mut self,
        at: Nanos,
        iteration: Option<u32>,
        times: u16,
        conditions: &Conditions<'_>,
    ) -> Result<Took, Stopped>;

    /// Compares the output with what the collective defines.
    fn check(&mut self, pattern: u64) -> Result<Result<(), Mismatch>, CudaError>;

    /// What one collective moves from this rank to each other: world rank and bytes.
    fn sends(&self) -> Vec<(u32, u64)>;

    /// Ways on which packets do not get through: peer, rail, what is not acknowledged.
    fn stuck(&self) -> Vec<(u32, String, Backlog)>;

    /// Gives the channels back.
    fn into_channels(self: Box<Self>) -> Vec<Channel>;
}

/// One rank's part of a cell, done by kernels.
struct Kernels {
    program: DeviceProgram,
    launcher: Arc<Launcher>,
    member: usize,
    testing: Testing,
    /// Where input and output lie.
    memory: Arc<Allocation>,
    layout: Layout,
    proxies: Proxies,
    flip: Option<Flip>,
    /// Kept because kernels use it.
    _status: Arc<Pinned>,
}

/// The programs of all ranks of a cell, from what all ranks say about themselves: the same on every rank.
pub fn programs(cell: &Cell, ends: &[Endpoint], at_once: u16) -> Result<Vec<DeviceProgram>, String> {
    let members = members(cell, ends)?;
    let end = |rank: u32| members.iter().find(|(member, _)| *member == rank);
    let reach = |a: u32, b: u32| {
        if cell.transport != TransportKind::Peer {
            return Reach::Proxy;
        }
        match (end(a), end(b)) {
            (Some((_, a)), Some((_, b))) if a.reach(b).is_direct() => Reach::Direct {
                same_gpu: a.gpu.uuid == b.gpu.uuid,
            },
            _ => Reach::Proxy,
        }
    };
    let mut gangs: Vec<(&str, Gang)> = Vec::new();
    for (rank, end) in &members {
        // Kernels of different processes take turns, or share the GPU where a service lets them: there is room for all.
        match gangs.iter_mut().find(|(gpu, _)| *gpu == end.gpu.uuid) {
            Some((_, gang)) => gang.ranks.push(*rank),
            None => gangs.push((
                &end.gpu.uuid,
                Gang {
                    ranks: vec![*rank],
                    capacity: end.blocks / u32::from(at_once.max(1)),
                },
            )),
        }
    }
    let threads = members.iter().map(|(_, end)| end.gpu.threads).min().unwrap_or(1);
    let limits = Limits::new(gangs.into_iter().map(|(_, gang)| gang).collect(), threads);
    DeviceProgram::all(cell, &reach, &limits).map_err(|error| error.to_string())
}

/// What the cell's schedule puts on each link per collective, rail by rail, counted the way the GPUs cut it.
pub fn planned_bytes(cell: &Cell, ends: &[Endpoint], at_once: u16) -> Result<Vec<Moved>, String> {
    if cell.rails.len() <= 1 {
        return crate::collective::planned_bytes(cell).map_err(|error| error.to_string());
    }
    Ok(striped(cell, &programs(cell, ends, at_once)?))
}

/// The GPU ends of a cell's ranks.
pub(super) fn members<'a>(cell: &Cell, ends: &'a [Endpoint]) -> Result<Vec<(u32, &'a GpuEnd)>, String> {
    let of = |rank: &u32| {
        let end = ends.iter().find(|end| end.rank == *rank)?;
        Some((*rank, end.gpu.as_ref()?))
    };
    let found: Option<Vec<_>> = cell.ranks.iter().map(of).collect();
    found.ok_or_else(|| "a rank of this cell has not told where its GPU memory is".to_string())
}

/// Makes everything ready on `station`. Ranks of this process that share its GPU prepare at the same time, each on a thread
/// of its own, and wait for each other here. Gives the channels back when it cannot be done.
pub fn prepare(
    station: &Station,
    mut wanted: Preparation<'_>,
) -> Result<Box<dyn GpuWork>, (String, Vec<Channel>)> {
    let mut channels = std::mem::take(&mut wanted.channels);
    let ready = match wanted.cell.algorithm {
        Algorithm::CopyEngine => {
            Copies::prepare(station, &wanted).map(|work| Box::new(work) as Box<dyn GpuWork>)
        }
        _ => Kernels::prepare(station, &wanted, &mut channels).map(|work| Box::new(work) as Box<dyn GpuWork>),
    };
    ready.map_err(|problem| (problem, channels))
}

impl GpuWork for Kernels {
    fn fill(&mut self, pattern: u64) -> Result<(), CudaError> {
        let input = self.memory.address() + self.layout.input;
        self.testing.fill(input, pattern)
    }

    fn run(
        &mut self,
        at: Nanos,
        iteration: Option<u32>,
        times: u16,
        conditions: &Conditions<'_>,
    ) -> Result<Took, Stopped> {
        self.proxies.begin(iteration, times);
        let ended = self.launcher.run(self.member, at, times, conditions);
        let ended = match ended {
            Ok(ended) => ended,
            Err(missing) => {
                self.proxies.halt();
                return Err(standstill::missing(missing));
            }
        };
        if let Some(stopped) = standstill::stopped(&self.program, &ended) {
            self.proxies.halt();
            // A connection that broke is why the kernel was told to stop; the kernel knows the step.
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
            strike(&self.flip, iteration, &self.memory, &self.layout, &self.program).map_err(failed)?;
        }
        let status = &ended.status;
        let total = match times {
            1 => status.ended.saturating_sub(status.started),
            _ => ended.seen.since(ended.opened).0 / u64::from(times),
        };
        Ok(Took {
            started: ended.opened,
            total: Nanos(total),
            waited: Nanos(status.waited.min(total)),
        })
    }

    fn check(&mut self, pattern: u64) -> Result<Result<(), Mismatch>, CudaError> {
        self.testing.check(&self.memory, self.layout.output, pattern)
    }

    fn sends(&self) -> Vec<(u32, u64)> {
        self.program.sends()
    }

    fn stuck(&self) -> Vec<(u32, String, Backlog)> {
        self.proxies.stuck()
    }

    fn into_channels(self: Box<Self>) -> Vec<Channel> {
        self.proxies.into_channels()
    }
}

/// Flips the bit that is to be flipped in what this rank received, where no channel does it.
pub(super) fn strike(
    flip: &Option<Flip>,
    iteration: Option<u32>,
    memory: &Allocation,
    layout: &Layout,
    program: &DeviceProgram,
) -> Result<(), CudaError> {
    let Some(flip) = flip else { return Ok(()) };
    let Some(at) = flip.strike(iteration, 0, program.payload as usize) else {
        return Ok(());
    };
    let mut byte = [0];
    let at = layout.output as usize + at;
    memory.download(at, &mut byte)?;
    byte[0] ^= flip.mask();
    memory.upload(at, &byte)
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

impl Kernels {
    fn prepare(
        station: &Station,
        wanted: &Preparation<'_>,
        channels: &mut Vec<Channel>,
    ) -> Result<Kernels, String> {
        let told = |error: CudaError| error.to_string();
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
        let ticket = station.site.launcher(key, &beside).ticket(me);
        let ticket = ticket.ok_or("this rank is not where it says it is")?;

        let mut programs = programs(cell, wanted.ends, wanted.at_once)?;
        let direct = cell.transport == TransportKind::Peer;
        let largest = if direct { station.largest } else { cell.size.0 };
        let too_long =
            || "flags and slots of this cell do not fit into the memory set aside for them".to_string();
        let layouts: Option<Vec<Layout>> = programs.iter().map(|program| program.layout(largest)).collect();
        let mut layouts = layouts.ok_or_else(too_long)?;
        let memory = match direct {
            true => station
                .lend()
                .ok_or("two cells at once would use the same memory of this rank")?,
            // Nobody else uses it, so it need not be the one that others were told about.
            false => Arc::new(
                station
                    .gpu
                    .allocate(arena_bytes(largest) as usize)
                    .map_err(told)?,
            ),
        };
        let position = cell.ranks.iter().position(|rank| *rank == me).unwrap_or(0);
        let control = layouts[position].control.clone();
        memory
            .zero(control.start as usize..control.end as usize)
            .map_err(told)?;

        let trouble = Arc::new(AtomicBool::new(false));
        let proxies = Proxies::new(
            station,
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
                let at = station.site.address_of(&station.gpu, mine, end);
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
        let ports = ports.ok_or("two ranks do not agree on the ways between them")?;
        memory
            .upload(layout.ops as usize, bytemuck::cast_slice(&program.ops))
            .map_err(told)?;
        memory
            .upload(layout.ports as usize, bytemuck::cast_slice(&ports))
            .map_err(told)?;
        let status = Arc::new(station.gpu.pin(size_of::<abi::Status>()).map_err(told)?);
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
        let seat = Seat {
            job,
            status: Arc::clone(&status),
            abort: Arc::clone(&wanted.abort),
            trouble,
        };
        let shape = Shape {
            gpu: Arc::clone(&station.gpu),
            kernel: program.kernel.clone(),
            threads: program.threads,
            at_once: u32::from(wanted.at_once.max(1)),
        };
        let testing = Testing::new(&station.gpu, wanted.oracle, position, wanted.deadline).map_err(told)?;
        let (launcher, member) = ticket.join(seat, &shape, wanted.deadline)?;
        Ok(Kernels {
            program: programs.swap_remove(position),
            launcher,
            member,
            testing,
            memory,
            layout: layouts.swap_remove(position),
            proxies,
            flip: wanted.flip.clone(),
            _status: status,
        })
    }
}
