//! Chunks that are written over one queue pair to where they belong: the CPU posts requests and never touches a byte.
//!
//! That is the only way between the memory of two GPUs, and spares the copy out of a slot between the memory of two CPUs.
//! The receiver says where each chunk belongs by writing a *grant* (address, key, length) into the sender's ring of grants;
//! the sender writes the chunk there. What must hold: a chunk is sent only with a grant of its own, in order, and never
//! beyond it; a place in the ring is used again only when the chunk it was for has arrived.

use std::collections::VecDeque;
use std::sync::Arc;

use super::super::link::{
    ArrivedChunk, Backlog, DirectLink, GpuRange, Link, LinkError, Received, Sink, Waitable,
};
use super::memory::Registration;
use super::qp_connection::{CONTROL_BIT, QpConnection, QpEvent, widened};
use super::queue_pair::Opcode;
use super::receive_slots::{GRANT_BYTES, ReceiveSlots};
use crate::device::{ReadLease, Region, WriteLease};
use record::FlowRecord;

/// Where a chunk belongs, as it travels: address, key, length.
fn to_bytes(address: u64, key: u32, len: u32) -> [u8; GRANT_BYTES] {
    let mut bytes = [0; GRANT_BYTES];
    bytes[..8].copy_from_slice(&address.to_le_bytes());
    bytes[8..12].copy_from_slice(&key.to_le_bytes());
    bytes[12..].copy_from_slice(&len.to_le_bytes());
    bytes
}

fn from_bytes(bytes: &[u8]) -> (u64, u32, u32) {
    let number = |range: std::ops::Range<usize>| {
        let little = bytes[range].iter().rev();
        little.fold(0u64, |number, byte| number << 8 | u64::from(*byte))
    };
    (number(0..8), number(8..12) as u32, number(12..16) as u32)
}

/// A chunk that was posted: the number of its request, its length, and the lease of its memory where it has one.
type Posted = (u64, u64, Option<ReadLease>);

/// One queue pair whose chunks go where they belong.
pub struct VerbsDirectLink {
    /// Given back first: after that no NIC touches the memory below.
    connection: QpConnection,
    /// The peer's grants arrive here.
    grants: ReceiveSlots,
    /// Chunks posted and not yet done.
    posted: VecDeque<Posted>,
    /// Chunks sent, those whose memory is free again, and grants that came.
    sent: u64,
    left: u64,
    granted: u64,
    /// Payload bytes posted.
    moved: u64,
    /// Chunks that were given a place, and those of them that were taken out.
    expected: u64,
    taken: u64,
    /// Lengths of chunks that have arrived and were not taken out.
    arrived: VecDeque<u32>,
    /// Chunks that have a place and were not taken out: their lengths, and the leases of their memory where they have one.
    due: VecDeque<ArrivedChunk>,
}

impl VerbsDirectLink {
    /// Takes over a connected wire and the memory its peer writes grants to.
    pub fn new(connection: QpConnection, grants: ReceiveSlots) -> VerbsDirectLink {
        VerbsDirectLink {
            connection,
            grants,
            posted: VecDeque::new(),
            sent: 0,
            left: 0,
            granted: 0,
            moved: 0,
            expected: 0,
            taken: 0,
            arrived: VecDeque::new(),
            due: VecDeque::new(),
        }
    }

    fn process_events(&mut self) -> Result<(), LinkError> {
        while let Some(event) = self.connection.next() {
            match event {
                QpEvent::Message(bytes, _) => self.arrived.push_back(bytes),
                QpEvent::Control(granted) => self.granted = widened(granted, self.granted),
            }
        }
        while self
            .posted
            .front()
            .is_some_and(|(id, ..)| *id <= self.connection.completed())
        {
            self.posted.pop_front();
            self.left += 1;
        }
        if self.granted - self.sent > u64::from(self.grants.slots()) {
            return Err(self
                .connection
                .failed("it gave more chunks a place than there is room for"));
        }
        Ok(())
    }

    /// What the NIC calls a piece of memory: address, local key, remote key.
    fn name(&self, place: &GpuRange) -> Result<(u64, u32, u32), LinkError> {
        let registered = self.connection.with.nic.register_direct(&place.memory);
        let registered = registered.map_err(|error| {
            self.connection
                .failed(format!("GPU memory could not be registered: {error}"))
        })?;
        let address = registered.start() + place.range.start as u64;
        Ok((address, registered.local_key(), registered.remote_key()))
    }

    /// Whether the next chunk has a place and the queue room for it.
    fn may_send(&self) -> bool {
        let in_flight: u64 = self.posted.iter().map(|(_, len, _)| len).sum();
        in_flight < QpConnection::MAX_IN_FLIGHT && self.sent < self.granted && self.connection.has_room(2)
    }

    /// Writes a chunk (address, length, key) to the place the peer has named for it.
    ///
    /// # Safety
    ///
    /// Its memory stays as it is until the chunk has left.
    unsafe fn send(&mut self, chunk: (u64, u32, u32), lease: Option<ReadLease>) -> Result<(), LinkError> {
        // SAFETY: this grant has come, and the peer uses its place again only when the chunk has arrived there.
        let grant = unsafe { self.grants.message(self.sent, GRANT_BYTES) };
        let (to, key, room) = from_bytes(grant);
        let len = chunk.1;
        if len != room {
            return Err(self
                .connection
                .failed(format!("it expects a chunk of {room} bytes where {len} are due")));
        }
        let mut batch = Vec::with_capacity(1);
        let work = Opcode::WriteWithImm(self.sent as u32 & !CONTROL_BIT);
        let request = self
            .connection
            .add(&mut batch, work, chunk, (to, key), (true, false));
        // SAFETY: the caller's promise.
        unsafe { self.connection.post(&batch) }?;
        self.posted.push_back((request, u64::from(len), lease));
        self.sent += 1;
        self.moved += u64::from(len);
        Ok(())
    }

    /// Whether the peer's ring and the queue have room for another grant.
    fn may_grant(&self) -> bool {
        let ring = self.connection.with.peer.slots.min(self.grants.slots());
        self.expected - self.taken < u64::from(ring) && self.connection.has_room(1)
    }

    /// Tells the peer where the next chunk belongs: address, length, key.
    fn grant(&mut self, (address, len, key): (u64, u32, u32)) -> Result<(), LinkError> {
        let peer = &self.connection.with.peer;
        let to = peer.memory + self.expected % u64::from(peer.slots) * GRANT_BYTES as u64;
        let remote = (to, peer.key);
        let grant = to_bytes(address, key, len);
        self.expected += 1;
        let mut batch = Vec::with_capacity(1);
        let work = Opcode::WriteWithImm(self.expected as u32 & !CONTROL_BIT | CONTROL_BIT);
        let local = (grant.as_ptr() as u64, GRANT_BYTES as u32, 0);
        self.connection
            .add(&mut batch, work, local, remote, (false, true));
        // SAFETY: the grant travels within the request.
        unsafe { self.connection.post(&batch) }
    }

    /// What the NIC calls memory of this process.
    fn register(&self, region: &Arc<Region>) -> Result<Arc<Registration>, LinkError> {
        let registered = self.connection.with.nic.register(region);
        registered.map_err(|error| {
            self.connection
                .failed(format!("memory could not be registered: {error}"))
        })
    }
}

impl DirectLink for VerbsDirectLink {
    fn offer(&mut self, place: &GpuRange) -> Result<bool, LinkError> {
        if !self.may_send() {
            return Ok(false);
        }
        let (address, local, _) = self.name(place)?;
        // SAFETY: the registration keeps the GPU's memory, and the caller leaves the piece alone until it has left.
        unsafe { self.send((address, place.range.len() as u32, local), None) }?;
        Ok(true)
    }

    fn left(&self) -> u64 {
        self.left
    }

    fn expect(&mut self, place: &GpuRange) -> Result<bool, LinkError> {
        if !self.may_grant() {
            return Ok(false);
        }
        let (address, _, remote) = self.name(place)?;
        let len = place.range.len();
        self.grant((address, len as u32, remote))?;
        self.due.push_back(ArrivedChunk { len, memory: None });
        Ok(true)
    }

    fn expect_into(&mut self, memory: WriteLease) -> Result<Option<WriteLease>, LinkError> {
        if !self.may_grant() {
            return Ok(Some(memory));
        }
        let registered = self.register(memory.region())?;
        let (address, len) = (registered.start() + memory.range().start as u64, memory.len());
        self.grant((address, len as u32, registered.remote_key()))?;
        self.due.push_back(ArrivedChunk {
            len,
            memory: Some(memory),
        });
        Ok(None)
    }

    fn arrived(&mut self) -> Result<Option<ArrivedChunk>, LinkError> {
        if self.arrived.is_empty() {
            self.connection.poll_completions()?;
            self.process_events()?;
        }
        let Some(bytes) = self.arrived.pop_front() else {
            return Ok(None);
        };
        let due = self.due.pop_front();
        match due {
            Some(due) if due.len == bytes as usize => {
                self.taken += 1;
                Ok(Some(due))
            }
            due => {
                let due = due.map_or(0, |due| due.len);
                Err(self
                    .connection
                    .failed(format!("a chunk of {bytes} bytes came where {due} were due")))
            }
        }
    }
}

impl Link for VerbsDirectLink {
    fn offer(&mut self, chunk: ReadLease) -> Result<Option<ReadLease>, LinkError> {
        if !self.may_send() {
            return Ok(Some(chunk));
        }
        let registered = self.register(chunk.region())?;
        let memory = (
            registered.start() + chunk.range().start as u64,
            chunk.len() as u32,
            registered.local_key(),
        );
        // SAFETY: the lease is kept until the chunk has left.
        unsafe { self.send(memory, Some(chunk)) }?;
        Ok(None)
    }

    fn advance(&mut self) -> Result<bool, LinkError> {
        let event = self.connection.advance()?;
        self.process_events()?;
        Ok(event)
    }

    fn flushed(&self) -> bool {
        self.posted.is_empty()
    }

    fn receive(&mut self, _: usize, _: Sink<'_>) -> Result<Received, LinkError> {
        Err(self
            .connection
            .failed("chunks arrive where they belong on this link; they cannot be handed over"))
    }

    fn arrives_in_pieces(&self) -> bool {
        false
    }

    fn moved(&self) -> u64 {
        self.moved
    }

    fn abandon(&mut self) {
        self.connection.abandon();
    }

    fn backlog(&self) -> Option<Backlog> {
        Some(
            self.connection
                .backlog(self.posted.iter().map(|(_, len, _)| len).sum()),
        )
    }

    fn waitable(&self) -> Option<Waitable<'_>> {
        self.connection.waitable()
    }

    fn flow(&self) -> Option<&FlowRecord> {
        Some(&self.connection.with.flow)
    }

    fn direct(&mut self) -> Option<&mut dyn DirectLink> {
        Some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_says_the_same_at_both_ends() {
        let bytes = to_bytes(0x7fff_0011_2233_4455, 0xdead_beef, 524_288);
        assert_eq!(from_bytes(&bytes), (0x7fff_0011_2233_4455, 0xdead_beef, 524_288));
    }
}
