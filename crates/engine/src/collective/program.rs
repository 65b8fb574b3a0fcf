//! A schedule lowered for one rank and one cell: byte ranges, chunks, and dependencies.

use std::ops::Range;

use super::schedule::{Action, Schedule, Shape};
use super::{Scheme, find};
use record::units::Bytes;
use record::{Cell, DType, DeviceKind, LinkTraffic, Placement, ReduceOp, TransportKind};

/// The longest chunk: long enough to make its overhead negligible, short enough to stay in a core's cache between the wire and
/// the reduction.
const LARGEST_CHUNK: usize = 256 << 10;
/// The shortest chunk where a block is cut at all.
const SMALLEST_CHUNK: usize = 64 << 10;
/// A block is cut into at least this many chunks per link if it is long enough, so that links and steps overlap.
const CHUNKS_PER_LINK: usize = 4;

/// One step, in bytes and world ranks.
pub(super) struct ProgramStep {
    pub action: Action,
    /// World rank of the peer.
    pub peer: u32,
    pub block: usize,
    pub bytes: Range<usize>,
    pub chunk_bytes: usize,
    pub chunks: usize,
    /// Whether the value comes from the input rather than from the output.
    pub reads_input: bool,
    /// Steps whose chunk must be done before the same chunk of this one.
    pub after: Vec<usize>,
}

impl ProgramStep {
    /// The byte range of a chunk.
    pub fn chunk(&self, chunk: usize) -> Range<usize> {
        let start = self.bytes.start + chunk * self.chunk_bytes;
        start..(start + self.chunk_bytes).min(self.bytes.end)
    }
}

/// A cell that cannot be run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    /// There is no such algorithm.
    #[error("there is no {algorithm} algorithm for {collective}")]
    NoScheme {
        /// What was asked for.
        algorithm: String,
        /// For which collective.
        collective: String,
    },
    /// An algorithm that kernel ops cannot express.
    #[error("a rank has more connections at once than a kernel supports")]
    TooManyConnections,
    /// Kernels that must be resident together do not fit on the GPU together, and would deadlock.
    #[error(
        "{ranks} ranks of this cell share one GPU, which runs at most {blocks} thread blocks at a time: their kernels do not \
         fit together and would deadlock; use fewer ranks per GPU"
    )]
    DoNotFit {
        /// Ranks on the GPU.
        ranks: usize,
        /// Thread blocks that fit.
        blocks: u32,
    },
    /// The rank is not part of the cell.
    #[error("rank {0} takes no part in this cell")]
    NotAMember(u32),
}

/// What one rank does in one cell.
pub struct Program {
    pub(super) steps: Vec<ProgramStep>,
    pub(super) dtype: DType,
    pub(super) op: ReduceOp,
    pub(super) ranks: usize,
}

impl Program {
    /// World rank `me`'s program for `cell`.
    pub fn new(cell: &Cell, me: u32) -> Result<Program, ProgramError> {
        let scheme = scheme_of(cell)?;
        let rank = cell
            .ranks
            .iter()
            .position(|rank| *rank == me)
            .ok_or(ProgramError::NotAMember(me))?;
        let shape = Shape {
            rank,
            ranks: cell.world(),
            elements: cell.elements(),
            root: cell.root as usize,
        };
        let schedule = scheme.schedule(shape);
        Ok(Program {
            steps: lower(cell, &schedule),
            dtype: cell.dtype,
            op: cell.op,
            ranks: cell.world(),
        })
    }

    /// World ranks this rank exchanges data with, each once, in order of first use.
    pub fn peers(&self) -> Vec<u32> {
        let mut peers = Vec::new();
        for step in self.steps.iter().filter(|step| step.action != Action::Keep) {
            if !peers.contains(&step.peer) {
                peers.push(step.peer);
            }
        }
        peers
    }

    /// A step and its current chunk, in words.
    pub(super) fn describe(&self, at: usize, chunk: usize) -> String {
        let step = &self.steps[at];
        let what = match step.action {
            Action::Send | Action::SendInput => "send block",
            Action::RecvReduce | Action::RecvReduceLast => "receive and reduce block",
            Action::RecvCopy => "receive block",
            Action::Keep => "keep block",
        };
        let direction = if step.action.sends() { "to" } else { "from" };
        format!(
            "step {} of {}: {what} {}, chunk {} of {}, {direction} rank {}",
            at + 1,
            self.steps.len(),
            step.block,
            (chunk + 1).min(step.chunks),
            step.chunks,
            step.peer
        )
    }
}

/// Whether RDMA writes of this cell go straight to their destination: nothing is reduced, and messages are long enough that
/// announcing the destination costs less than a copy.
pub fn is_placed(cell: &Cell) -> bool {
    let block = match cell.collective.is_blocked() {
        true => cell.size.as_usize() / cell.world().max(1),
        false => cell.size.as_usize(),
    };
    let on_hosts = cell.transport == TransportKind::Verbs && cell.device == DeviceKind::Host;
    on_hosts && !cell.collective.reduces() && block >= LARGEST_CHUNK
}

/// The scheme a cell asks for.
pub fn scheme_of(cell: &Cell) -> Result<&'static dyn Scheme, ProgramError> {
    find(cell.collective, cell.algorithm).ok_or_else(|| ProgramError::NoScheme {
        algorithm: cell.algorithm.to_string(),
        collective: cell.collective.to_string(),
    })
}

/// What the cell's schedule puts on each link per iteration, rail by rail.
///
/// Chunks are striped over the links of a channel in turn, so with several rails the share of each depends on the chunks; this
/// counts them as both ends do.
pub fn planned_bytes(cell: &Cell) -> Result<Vec<LinkTraffic>, ProgramError> {
    let scheme = scheme_of(cell)?;
    let size = cell.dtype.size();
    if cell.rails.len() <= 1 {
        let rail = cell.rails.first().cloned();
        let loads = scheme.link_elements(cell.world(), cell.elements(), cell.root as usize);
        let moved = loads.into_iter().map(|load| LinkTraffic {
            from: cell.ranks[load.from],
            to: cell.ranks[load.to],
            rail: rail.clone(),
            bytes: Bytes((load.elements * size) as u64),
        });
        return Ok(moved.collect());
    }
    let mut planned = Vec::new();
    for &from in &cell.ranks {
        let program = Program::new(cell, from)?;
        for to in program.peers() {
            planned.extend(striped(cell, &program, from, to));
        }
    }
    Ok(planned)
}

/// What `from` sends to `to`, by rail.
fn striped(cell: &Cell, program: &Program, from: u32, to: u32) -> Vec<LinkTraffic> {
    let mut per_rail = vec![0u64; cell.rails.len()];
    let sends = program
        .steps
        .iter()
        .filter(|step| step.action.sends() && step.peer == to);
    let chunks = sends.flat_map(|step| (0..step.chunks).map(|chunk| step.chunk(chunk).len() as u64));
    for (number, bytes) in chunks.enumerate() {
        per_rail[number % cell.rails.len()] += bytes;
    }
    let loaded = cell.rails.iter().zip(per_rail).filter(|(_, bytes)| *bytes > 0);
    loaded
        .map(|(rail, bytes)| LinkTraffic {
            from,
            to,
            rail: Some(rail.clone()),
            bytes: Bytes(bytes),
        })
        .collect()
}

/// Links between two ranks of a cell.
fn width(cell: &Cell) -> usize {
    match cell.transport {
        TransportKind::Shm | TransportKind::Peer | TransportKind::Udp => 1,
        TransportKind::Tcp | TransportKind::Verbs => cell.rails.len().max(1) * usize::from(cell.flows.max(1)),
    }
}

/// How a block is cut; the same on both ends because it depends on the cell and the block's length alone.
fn chunk_bytes(cell: &Cell, block: usize) -> usize {
    let wanted = block.div_ceil(CHUNKS_PER_LINK * width(cell));
    wanted.clamp(SMALLEST_CHUNK, LARGEST_CHUNK).next_multiple_of(64)
}

fn lower(cell: &Cell, schedule: &Schedule) -> Vec<ProgramStep> {
    let size = cell.dtype.size();
    let out_of_place = cell.placement == Placement::OutOfPlace;
    // Per block: the last step that wrote it, and the steps that read it since.
    let mut written: Vec<Option<usize>> = vec![None; schedule.blocks.len()];
    let mut read_since: Vec<Vec<usize>> = vec![Vec::new(); schedule.blocks.len()];
    let mut steps = Vec::with_capacity(schedule.steps.len());
    for (at, step) in schedule.steps.iter().enumerate() {
        let elements = &schedule.blocks[step.block];
        let bytes = elements.start * size..elements.end * size;
        let chunk_bytes = chunk_bytes(cell, bytes.len());
        let after: Vec<usize> = match step.action {
            Action::SendInput => Vec::new(),
            Action::Send => written[step.block].into_iter().collect(),
            _ => written[step.block]
                .into_iter()
                .chain(read_since[step.block].drain(..))
                .collect(),
        };
        let untouched = written[step.block].is_none();
        match step.action {
            Action::Send => read_since[step.block].push(at),
            Action::SendInput => {}
            _ => written[step.block] = Some(at),
        }
        steps.push(ProgramStep {
            action: step.action,
            peer: cell.ranks[step.peer],
            block: step.block,
            chunks: bytes.len().div_ceil(chunk_bytes),
            bytes,
            chunk_bytes,
            reads_input: step.action == Action::SendInput || (out_of_place && untouched),
            after,
        });
    }
    steps
}
