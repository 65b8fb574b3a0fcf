//! What one proxy thread does: it moves chunks from the GPU's slots into a channel, and from the channel into slots.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::layout::Layout;
use super::ports::PortPlan;
use super::program::DeviceProgram;
use crate::collective::wait::Waiter;
use crate::device::cuda::abi::FLAG_STRIDE;
use crate::device::cuda::{GpuDirectMemory, Registered};
use crate::device::{ReadLease, WriteLease};
use crate::transport::{Backlog, Channel, LinkError, Received, Sink};
use record::units::Bytes;
use record::{Cell, LinkTraffic};

/// A chunk that crosses the network in every collective.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ProxyChunk {
    /// Its slot ring, as an index into [`ProxyPlan::rings`].
    pub ring: usize,
    /// How many chunks of its ring precede it in a collective.
    pub number: u64,
    /// Its offset in the slot.
    pub phase: usize,
    pub bytes: usize,
}

/// Slots and flags of one worker at one port: offsets in pinned memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SlotRing {
    port: usize,
    worker: u32,
    tail: usize,
    head: usize,
    data: usize,
    slots: u64,
    slot_bytes: usize,
    /// Chunks of a collective.
    pub each: u64,
}

/// What two ranks exchange over the network in one collective, in order.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct ProxyPlan {
    pub rings: Vec<SlotRing>,
    pub out: Vec<ProxyChunk>,
    pub back: Vec<ProxyChunk>,
}

impl ProxyPlan {
    /// Between rank `me`, whose memory `layout` describes, and `peer`.
    pub fn new(me: u32, peer: u32, programs: &[DeviceProgram], layout: &Layout) -> Result<ProxyPlan, String> {
        let find = |rank: u32| programs.iter().find(|program| program.rank == rank);
        let (Some(mine), Some(theirs)) = (find(me), find(peer)) else {
            return Err(format!("ranks {me} and {peer} are not both in this cell"));
        };
        let mut plan = ProxyPlan::default();
        for (connection, port, chunk) in mine.sends_to(peer) {
            debug_assert!(mine.ports[port].connection == connection);
            let chunk = plan.number(mine, layout, port, chunk)?;
            plan.out.push(chunk);
        }
        for (connection, _, chunk) in theirs.sends_to(me) {
            let matching = |port: &PortPlan| {
                port.peer == peer && port.incoming && port.proxied && port.connection == connection
            };
            let port = mine.ports.iter().position(matching);
            let port =
                port.ok_or_else(|| format!("rank {peer} sends a chunk for which rank {me} has no port"))?;
            let chunk = plan.number(mine, layout, port, chunk)?;
            plan.back.push(chunk);
        }
        Ok(plan)
    }

    /// Numbers a chunk in its ring.
    fn number(
        &mut self,
        program: &DeviceProgram,
        layout: &Layout,
        port: usize,
        sent: SentChunk,
    ) -> Result<ProxyChunk, String> {
        let known = self
            .rings
            .iter()
            .position(|ring| (ring.port, ring.worker) == (port, sent.worker));
        let ring = match known {
            Some(ring) => ring,
            None => {
                self.rings
                    .push(SlotRing::new(program, layout, port, sent.worker)?);
                self.rings.len() - 1
            }
        };
        let number = self.rings[ring].each;
        self.rings[ring].each += 1;
        Ok(ProxyChunk {
            ring,
            number,
            phase: sent.phase,
            bytes: sent.bytes,
        })
    }
}

impl SlotRing {
    fn new(program: &DeviceProgram, layout: &Layout, port: usize, worker: u32) -> Result<SlotRing, String> {
        let (plan, place) = (&program.ports[port], &layout.port_offsets[port]);
        let (Some(tail), Some(head), Some(data)) = (place.tail, place.head, place.data) else {
            return Err("a proxied port has no pinned host memory".to_string());
        };
        let flag = worker as usize * FLAG_STRIDE * size_of::<u64>();
        let slots = plan.slots as usize * plan.slot_bytes as usize;
        Ok(SlotRing {
            port,
            worker,
            tail: tail as usize + flag,
            head: head as usize + flag,
            data: data as usize + worker as usize * slots,
            slots: u64::from(plan.slots),
            slot_bytes: plan.slot_bytes as usize,
            each: 0,
        })
    }

    /// Where the sender's count lies.
    pub fn tail(&self) -> usize {
        self.tail
    }

    /// Where the receiver's count lies.
    pub fn head(&self) -> usize {
        self.head
    }

    /// How many slots there are.
    pub fn slots(&self) -> u64 {
        self.slots
    }

    /// The bytes of a chunk that is number `count` over all collectives.
    pub fn range(&self, chunk: &ProxyChunk, count: u64) -> Range<usize> {
        let slot = self.data + (count % self.slots) as usize * self.slot_bytes;
        slot + chunk.phase..slot + chunk.phase + chunk.bytes
    }
}

/// One chunk as the sender cuts it.
pub(super) struct SentChunk {
    worker: u32,
    phase: usize,
    bytes: usize,
}

impl DeviceProgram {
    /// What goes to `peer` over the network in one collective, in order: connection, local port, chunk.
    ///
    /// Workers take turns. Each has its own slots and produces its chunks in this order, so waiting for them in this order
    /// cannot deadlock.
    fn sends_to(&self, peer: u32) -> Vec<(u32, usize, SentChunk)> {
        let mut sent = Vec::new();
        let proxied_ports = |op: usize| {
            let targets = self.ops[op].target.iter().map(|port| *port as usize);
            targets.filter(|port| {
                let plan = self.ports.get(*port);
                plan.is_some_and(|plan| plan.peer == peer && plan.proxied)
            })
        };
        for iteration in 0..self.iterations {
            for op in 0..self.ops.len() {
                for port in proxied_ports(op) {
                    for worker in 0..self.workers {
                        let Some((start, elements)) = self.chunk_at(op, worker, iteration) else {
                            continue;
                        };
                        let op = &self.ops[op];
                        let in_grid = start - op.begin + u64::from(op.skew);
                        let chunk = SentChunk {
                            worker,
                            phase: (in_grid * u64::from(self.element) % 16) as usize,
                            bytes: (elements * u64::from(self.element)) as usize,
                        };
                        sent.push((self.ports[port].connection, port, chunk));
                    }
                }
            }
        }
        sent
    }
}

/// What a cell puts on each link per collective, rail by rail: chunks are striped over the rails in turn, so the share of
/// each depends on how the senders cut their blocks.
pub(super) fn striped(cell: &Cell, programs: &[DeviceProgram]) -> Vec<LinkTraffic> {
    let mut planned = Vec::new();
    for program in programs {
        for (to, _) in program.sends() {
            let mut per_rail = vec![0u64; cell.rails.len()];
            for (number, (.., chunk)) in program.sends_to(to).iter().enumerate() {
                per_rail[number % cell.rails.len()] += chunk.bytes as u64;
            }
            let loaded = cell.rails.iter().zip(per_rail).filter(|(_, bytes)| *bytes > 0);
            planned.extend(loaded.map(|(rail, bytes)| LinkTraffic {
                from: program.rank,
                to,
                rail: Some(rail.clone()),
                bytes: Bytes(bytes),
            }));
        }
    }
    planned
}

/// How a proxy order ended.
#[derive(Debug, Default)]
pub(super) struct ProxyResult {
    /// The connection that broke.
    pub broken: Option<LinkError>,
    /// Rails on which packets do not get through.
    pub stuck: Vec<(String, Backlog)>,
}

/// Moves chunks between pinned memory and one channel.
pub(super) struct ProxyWorker {
    pub channel: Channel,
    pub plan: ProxyPlan,
    pub memory: Arc<Registered>,
    /// The GPU memory that holds the slots, when NICs reach it directly (GPUDirect).
    pub direct: Option<Arc<GpuDirectMemory>>,
    pub halt: Arc<AtomicBool>,
    pub trouble: Arc<AtomicBool>,
    pub crowded: bool,
    /// Collectives completed so far.
    pub collectives: u64,
}

/// Progress of one collective.
#[derive(Default)]
pub(super) struct ProxyProgress {
    pub sent: usize,
    /// Of the chunks sent from GPU memory, those whose slots the GPU may reuse.
    pub freed: usize,
    pub received: usize,
    /// Chunks whose receive slots were announced to the sender.
    pub expected: usize,
    outgoing: Option<ReadLease>,
    incoming: Option<WriteLease>,
    /// Chunks that still occupy their slots: ring, count, bytes.
    pub leaving: VecDeque<(usize, u64, Range<usize>)>,
}

impl ProxyWorker {
    /// Moves what `times` collectives send and receive, until it is halted.
    pub fn carry(&mut self, iteration: Option<u32>, times: u16) -> ProxyResult {
        let mut result = ProxyResult::default();
        let mut is_complete = true;
        for _ in 0..times {
            self.channel.begin(iteration);
            match self.collective() {
                Ok(true) => self.collectives += 1,
                Ok(false) => {
                    is_complete = false;
                    break;
                }
                Err(error) => {
                    is_complete = false;
                    result.broken = Some(error);
                    self.trouble.store(true, Ordering::Release);
                    break;
                }
            }
        }
        // Asking for the backlog takes longer than a small message.
        if !is_complete {
            let stuck = self.channel.stuck().into_iter();
            result.stuck = stuck
                .filter_map(|(rail, backlog)| Some((rail?, backlog)))
                .collect();
        }
        self.channel.note_tcp(iteration);
        result
    }

    /// Moves one collective; false when it was halted.
    fn collective(&mut self) -> Result<bool, LinkError> {
        let mut progress = ProxyProgress::default();
        let mut waiter = Waiter::new(self.crowded, true, false);
        loop {
            let mut moved = self.channel.advance()?;
            moved |= match self.direct.clone() {
                None => {
                    let freed = self.free(&mut progress);
                    let sent = self.send(&mut progress)?;
                    self.receive(&mut progress)? || sent || freed
                }
                Some(memory) => {
                    let freed = self.free_direct(&mut progress)?;
                    let sent = self.send_direct(&memory, &mut progress)?;
                    self.receive_direct(&memory, &mut progress)? || sent || freed
                }
            };
            let all_sent = progress.sent == self.plan.out.len() && progress.leaving.is_empty();
            if all_sent && progress.received == self.plan.back.len() && self.channel.flushed() {
                return Ok(true);
            }
            if moved {
                waiter.moved();
                continue;
            }
            if self.halt.load(Ordering::Acquire) {
                return Ok(false);
            }
            // The GPU signals through memory only, so waiting on the socket alone would miss it.
            waiter.wait(self.channel.waitables().chain(std::iter::once(None)));
        }
    }

    /// Returns slots whose chunks have left to the GPU.
    fn free(&self, progress: &mut ProxyProgress) -> bool {
        let mut moved = false;
        while let Some((ring, count, range)) = progress.leaving.front() {
            if self.memory.region().try_write(range.clone()).is_none() {
                break;
            }
            self.memory.store_u64(self.plan.rings[*ring].head, count + 1);
            progress.leaving.pop_front();
            moved = true;
        }
        moved
    }

    fn send(&mut self, progress: &mut ProxyProgress) -> Result<bool, LinkError> {
        let Some(chunk) = self.plan.out.get(progress.sent) else {
            return Ok(false);
        };
        let ring = &self.plan.rings[chunk.ring];
        let count = self.collectives * ring.each + chunk.number;
        let range = ring.range(chunk, count);
        if progress.outgoing.is_none() {
            if self.memory.load_u64(ring.tail) <= count {
                return Ok(false);
            }
            progress.outgoing = self.memory.region().try_read(range.clone());
        }
        let Some(lease) = progress.outgoing.take() else {
            return Ok(false);
        };
        progress.outgoing = self.channel.offer(lease)?;
        if progress.outgoing.is_some() {
            return Ok(false);
        }
        progress.leaving.push_back((chunk.ring, count, range));
        progress.sent += 1;
        Ok(true)
    }

    fn receive(&mut self, progress: &mut ProxyProgress) -> Result<bool, LinkError> {
        let Some(chunk) = self.plan.back.get(progress.received) else {
            return Ok(false);
        };
        let ring = &self.plan.rings[chunk.ring];
        let count = self.collectives * ring.each + chunk.number;
        if progress.incoming.is_none() {
            if count >= self.memory.load_u64(ring.head) + ring.slots {
                return Ok(false);
            }
            progress.incoming = self.memory.region().try_write(ring.range(chunk, count));
        }
        let Some(mut lease) = progress.incoming.take() else {
            return Ok(false);
        };
        let received = self.channel.receive(chunk.bytes, Sink::Into(&mut lease))?;
        match received {
            Received::Chunk => {
                drop(lease);
                self.memory.store_u64(ring.tail, count + 1);
                progress.received += 1;
            }
            Received::Some | Received::Nothing => progress.incoming = Some(lease),
        }
        Ok(received != Received::Nothing)
    }
}
