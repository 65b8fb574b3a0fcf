//! The memory layout of a rank: one arena on the GPU, and pinned host memory for proxied ports.

use super::program::DeviceProgram;
use crate::device::cuda::abi::{self, FLAG_STRIDE, Mode};

/// Bytes of the arena for flags, slots and low-latency words.
const CONTROL: u64 = 128 << 20;

/// Alignment of buffers and areas; a payload may begin anywhere within the first such unit.
const ALIGNMENT: u64 = 512;

/// Bytes of a rank's arena for payloads up to `largest`.
pub fn arena_bytes(largest: u64) -> u64 {
    3 * buffer(largest) + CONTROL
}

/// Bytes reserved for a payload.
pub(super) fn buffer(largest: u64) -> u64 {
    (largest + ALIGNMENT).next_multiple_of(ALIGNMENT)
}

/// What this end of a connection holds: offsets in the arena, or in pinned host memory for a proxied port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PortOffsets {
    /// The sender's count; with the receiver.
    pub tail: Option<u64>,
    /// The receiver's count; with the sender.
    pub head: Option<u64>,
    /// Slots or words; with the receiver.
    pub data: Option<u64>,
}

/// Offsets in a rank's memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// In the arena.
    pub input: u64,
    /// In the arena; equal to `input` in place, unless the input is staged.
    pub output: u64,
    /// In the arena.
    pub scratch: u64,
    /// In the arena: the rank's [`abi::Op`]s.
    pub ops: u64,
    /// In the arena: the rank's [`abi::Port`]s.
    pub ports: u64,
    /// The area that must be zero before the first launch.
    pub control: std::ops::Range<u64>,
    /// Port by port.
    pub port_offsets: Vec<PortOffsets>,
    /// Bytes of pinned host memory.
    pub host_bytes: u64,
}

impl DeviceProgram {
    /// The layout in an arena for payloads up to `largest`; none when it does not fit.
    pub fn layout(&self, largest: u64) -> Option<Layout> {
        let mut arena = BumpAllocator(3 * buffer(largest));
        let mut host = BumpAllocator(0);
        let scratch = arena.take(size_of::<abi::Scratch>() as u64);
        let ops = arena.take((self.ops.len() * size_of::<abi::Op>()) as u64);
        let ports = arena.take((self.ports.len() * size_of::<abi::Port>()) as u64);
        let flags = u64::from(self.workers) * FLAG_STRIDE as u64 * 8;
        let mut port_offsets = Vec::with_capacity(self.ports.len());
        for port in &self.ports {
            let area = if port.proxied { &mut host } else { &mut arena };
            let with_receiver = port.incoming || port.proxied;
            let with_sender = !port.incoming || port.proxied;
            let data = match port.mode {
                Mode::Fifo => u64::from(self.workers) * u64::from(port.slots) * u64::from(port.slot_bytes),
                Mode::Words => 2 * u64::from(port.half_bytes),
                Mode::Pull | Mode::Push => 0,
            };
            let (tail, head) = (
                with_receiver.then(|| area.take(flags)),
                with_sender.then(|| area.take(flags)),
            );
            let area = if port.direct { &mut arena } else { area };
            port_offsets.push(PortOffsets {
                tail,
                head,
                data: (with_receiver && data > 0).then(|| area.take(data)),
            });
        }
        let begin = 3 * buffer(largest);
        (arena.0 <= arena_bytes(largest)).then_some(Layout {
            input: if self.stages { 2 * buffer(largest) } else { 0 },
            output: if self.in_place { 0 } else { buffer(largest) },
            scratch,
            ops,
            ports,
            control: begin..arena.0,
            port_offsets,
            host_bytes: host.0,
        })
    }

    /// The ports as the kernel sees them. `arena` and `host` are this rank's addresses; `peer` gives a rank's arena address
    /// (as seen from here), program and layout.
    pub fn resolve<'a>(
        &self,
        layout: &Layout,
        arena: u64,
        host: u64,
        peer: &dyn Fn(u32) -> Option<(u64, &'a DeviceProgram, &'a Layout)>,
    ) -> Option<Vec<abi::Port>> {
        let resolved = self.ports.iter().zip(&layout.port_offsets).map(|(port, place)| {
            let mut flags = 0;
            for (flag, set) in [
                (abi::INCOMING, port.incoming),
                (abi::SYSTEM, port.system),
                (abi::DRAIN, port.drain),
            ] {
                flags |= if set { flag } else { 0 };
            }
            let (tail, head, data);
            if port.proxied {
                let slots = if port.direct { arena } else { host };
                (tail, head, data) = (host + place.tail?, host + place.head?, slots + place.data?);
            } else {
                let (base, program, theirs) = peer(port.peer)?;
                let other = program.ports.iter().position(|other| {
                    other.peer == self.rank
                        && (other.mode, other.connection) == (port.mode, port.connection)
                        && other.incoming != port.incoming
                })?;
                let other = &theirs.port_offsets[other];
                tail = place
                    .tail
                    .map(|at| arena + at)
                    .or(other.tail.map(|at| base + at))?;
                head = place
                    .head
                    .map(|at| arena + at)
                    .or(other.head.map(|at| base + at))?;
                data = match (port.mode, port.incoming) {
                    (Mode::Pull, true) => base + theirs.input,
                    (Mode::Push, false) => base + theirs.output,
                    (Mode::Push, true) => arena + layout.output,
                    (Mode::Pull, false) => arena + layout.input,
                    (Mode::Fifo | Mode::Words, true) => arena + place.data?,
                    (Mode::Fifo | Mode::Words, false) => base + other.data?,
                };
            }
            Some(abi::Port {
                data,
                tail,
                head,
                mode: port.mode as u32,
                flags,
                slots: port.slots,
                slot_bytes: port.slot_bytes,
                peer: port.peer,
                half_bytes: port.half_bytes,
            })
        });
        resolved.collect()
    }
}

/// Hands out aligned space from the front.
struct BumpAllocator(u64);

impl BumpAllocator {
    fn take(&mut self, bytes: u64) -> u64 {
        let at = self.0.next_multiple_of(ALIGNMENT);
        self.0 = at + bytes;
        at
    }
}
