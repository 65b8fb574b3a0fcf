//! Chunks written over one queue pair straight to their destinations: the CPU posts requests and never touches the data.
//!
//! This is the only path between the memory of two GPUs, and saves the copy out of a receive slot between two CPUs. The receiver
//! announces each destination by writing a *grant* (address, key, length) into the sender's ring of grants; the sender writes the
//! chunk there. Invariants: a chunk is sent only with its own grant, in order, and never beyond it; a ring slot is reused only
//! after the chunk it was for has arrived.

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

/// A grant as it travels: address, key, length.
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

/// One queue pair that writes chunks to announced destinations.
pub struct VerbsDirectLink {
    /// Dropped first: after that no NIC touches the memory below.
    connection: QpConnection,
    /// The peer's grants arrive here.
    grants: ReceiveSlots,
    /// Chunks posted and not yet done.
    posted: VecDeque<Posted>,
    /// Chunks sent, chunks that have left, and grants received.
    sent: u64,
    left: u64,
    granted: u64,
    /// Payload bytes posted.
    moved: u64,
    /// Announced chunks, and those of them that were consumed.
    expected: u64,
    taken: u64,
    /// Lengths of chunks that have arrived and were not consumed.
    arrived: VecDeque<u32>,
    /// Announced chunks that were not consumed: their lengths, and the leases of their memory where they have one.
    due: VecDeque<ArrivedChunk>,
}

impl VerbsDirectLink {
    /// Takes over a connected queue pair and the slots for the peer's grants.
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
            return Err(self.connection.failed("it sent more grants than there are slots"));
        }
        Ok(())
    }

    /// A range of GPU memory for the NIC: address, local key, remote key.
    fn name(&self, place: &GpuRange) -> Result<(u64, u32, u32), LinkError> {
        let registered = self.connection.with.nic.register_direct(&place.memory);
        let registered = registered.map_err(|error| {
            self.connection
                .failed(format!("GPU memory could not be registered: {error}"))
        })?;
        let address = registered.start() + place.range.start as u64;
        Ok((address, registered.local_key(), registered.remote_key()))
    }

    /// Whether there is a grant for the next chunk and queue space for it.
    fn may_send(&self) -> bool {
        let in_flight: u64 = self.posted.iter().map(|(_, len, _)| len).sum();
        in_flight < QpConnection::MAX_IN_FLIGHT && self.sent < self.granted && self.connection.has_room(2)
    }

    /// Writes a chunk (address, length, key) to the destination of its grant.
    ///
    /// # Safety
    ///
    /// Its memory stays as it is until the chunk has left.
    unsafe fn send(&mut self, chunk: (u64, u32, u32), lease: Option<ReadLease>) -> Result<(), LinkError> {
        // SAFETY: this grant has arrived, and the peer reuses its slot only when the chunk has arrived there.
        let grant = unsafe { self.grants.message(self.sent, GRANT_BYTES) };
        let (to, key, room) = from_bytes(grant);
        let len = chunk.1;
        if len != room {
            return Err(self
                .connection
                .failed(format!("its grant is for {room} bytes, the chunk has {len}")));
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

    /// Whether the peer's ring and the queue can take another grant.
    fn may_grant(&self) -> bool {
        let ring = self.connection.with.peer.slots.min(self.grants.slots());
        self.expected - self.taken < u64::from(ring) && self.connection.has_room(1)
    }

    /// Grants the destination of the next chunk: address, length, key.
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
        // SAFETY: the grant is inlined in the request.
        unsafe { self.connection.post(&batch) }
    }

    /// The registration of memory of this process.
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
                    .failed(format!("received a chunk of {bytes} bytes, expected {due}")))
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
            .failed("this link writes chunks to announced destinations; it cannot hand them over"))
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
