//! Chunks of this process's own memory over one queue pair, without ever blocking.
//!
//! A chunk is written into a receive slot of the peer. Its immediate data returns credits: how many messages this side has consumed;
//! a side with nothing to send returns credits in control messages. Invariants: no more messages are in flight than the peer has
//! slots, so none is overwritten and no RNR occurs; memory that is sent from is leased until the NIC is done with it.

use std::collections::VecDeque;

use super::super::link::{Backlog, Link, LinkError, Received, Sink, Waitable};
use super::qp_connection::{CONTROL_BIT, QpConnection, QpEvent, widened};
use super::queue_pair::Opcode;
use super::receive_slots::ReceiveSlots;
use crate::device::ReadLease;
use record::FlowRecord;

/// One queue pair carrying chunks both ways.
pub struct VerbsLink {
    /// Dropped first: after that no NIC touches the memory below.
    connection: QpConnection,
    receive_slots: ReceiveSlots,
    /// The chunk being sent, with how many of its bytes are posted.
    outgoing: Option<(ReadLease, usize)>,
    /// Chunks that are posted, by the number of their last request.
    posted: VecDeque<(u64, ReadLease)>,
    /// Bytes of them.
    in_flight: u64,
    /// Messages sent, and those the peer has consumed.
    sent: u64,
    taken: u64,
    /// Payload bytes posted.
    moved: u64,
    /// Sizes of messages that have arrived and were not consumed.
    arrived: VecDeque<u32>,
    /// Messages consumed, and credits returned to the peer.
    consumed: u64,
    credits_returned: u64,
    /// Bytes of the current chunk that have arrived.
    got: usize,
    /// Where chunks longer than a slot are assembled for a function.
    assembly: Vec<u8>,
}

impl VerbsLink {
    /// Takes over a connected queue pair and its receive slots.
    pub fn new(connection: QpConnection, receive_slots: ReceiveSlots) -> VerbsLink {
        VerbsLink {
            connection,
            receive_slots,
            outgoing: None,
            posted: VecDeque::new(),
            in_flight: 0,
            sent: 0,
            taken: 0,
            moved: 0,
            arrived: VecDeque::new(),
            consumed: 0,
            credits_returned: 0,
            got: 0,
            assembly: Vec::new(),
        }
    }

    /// Processes arrived messages and completions.
    fn process_events(&mut self) -> Result<(), LinkError> {
        while let Some(event) = self.connection.next() {
            match event {
                QpEvent::Message(bytes, taken) => {
                    self.arrived.push_back(bytes);
                    self.taken = widened(taken, self.taken);
                }
                QpEvent::Control(taken) => self.taken = widened(taken, self.taken),
            }
        }
        while self
            .posted
            .front()
            .is_some_and(|(id, _)| *id <= self.connection.completed())
        {
            let left = self.posted.pop_front();
            self.in_flight -= left.map_or(0, |(_, chunk)| chunk.len() as u64);
        }
        if self.taken > self.sent {
            return Err(self
                .connection
                .failed("it returned more credits than messages were sent"));
        }
        Ok(())
    }

    fn poll_completions(&mut self) -> Result<(), LinkError> {
        self.connection.poll_completions()?;
        self.process_events()
    }

    /// Whether there is a credit, and queue space for a message and a control message.
    fn has_room(&self) -> bool {
        self.in_flight < QpConnection::MAX_IN_FLIGHT
            && self.sent - self.taken < u64::from(self.connection.with.peer.slots)
            && self.connection.has_room(2)
    }

    /// Posts as much of the current chunk as credits allow; whether anything was posted.
    fn push(&mut self) -> Result<bool, LinkError> {
        let Some((chunk, mut at)) = self.outgoing.take() else {
            return Ok(false);
        };
        let slot = self.connection.with.peer.slot_bytes as usize;
        let inline = chunk.len() <= self.connection.inline();
        let key = match inline {
            true => 0,
            false => {
                let registered = self.connection.with.nic.register(chunk.region());
                registered
                    .map_err(|error| {
                        self.connection
                            .failed(format!("memory could not be registered: {error}"))
                    })?
                    .local_key()
            }
        };
        let (memory, peers_key) = (self.connection.with.peer.memory, self.connection.with.peer.key);
        let slots = u64::from(self.connection.with.peer.slots);
        let mut batch = Vec::new();
        let mut last = None;
        while last.is_none() && self.has_room() {
            let len = (chunk.len() - at).min(slot);
            let is_last = at + len == chunk.len();
            let request = self.connection.add(
                &mut batch,
                Opcode::WriteWithImm(self.consumed as u32 & !CONTROL_BIT),
                (chunk[at..].as_ptr() as u64, len as u32, key),
                (memory + (self.sent % slots) * slot as u64, peers_key),
                (is_last && !inline, inline),
            );
            last = is_last.then_some(request);
            self.credits_returned = self.consumed;
            self.sent += 1;
            self.moved += len as u64;
            at += len;
        }
        // SAFETY: the chunk's memory is leased, and the lease is kept until its last request has completed; inline requests
        // take a copy of it.
        let posted = unsafe { self.connection.post(&batch) };
        match last {
            None => self.outgoing = Some((chunk, at)),
            Some(_) if inline => {}
            Some(request) => {
                self.in_flight += chunk.len() as u64;
                self.posted.push_back((request, chunk));
            }
        }
        posted.map(|()| !batch.is_empty())
    }

    /// Returns credits to the peer once enough messages were consumed.
    fn give_credit(&mut self) -> Result<(), LinkError> {
        let enough = u64::from(self.receive_slots.slots() / 2).max(1);
        // With a full queue it is done later: requests complete without the peer's help.
        if self.consumed - self.credits_returned < enough || !self.connection.has_room(1) {
            return Ok(());
        }
        let peer = (self.connection.with.peer.memory, self.connection.with.peer.key);
        let mut batch = Vec::with_capacity(1);
        let work = Opcode::WriteWithImm(self.consumed as u32 & !CONTROL_BIT | CONTROL_BIT);
        self.connection
            .add(&mut batch, work, (0, 0, 0), peer, (false, false));
        // SAFETY: no memory of this side is named.
        unsafe { self.connection.post(&batch) }?;
        self.credits_returned = self.consumed;
        Ok(())
    }
}

impl Link for VerbsLink {
    fn offer(&mut self, chunk: ReadLease) -> Result<Option<ReadLease>, LinkError> {
        if self.outgoing.is_some() {
            return Ok(Some(chunk));
        }
        if !self.has_room() {
            self.poll_completions()?;
            if !self.has_room() {
                return Ok(Some(chunk));
            }
        }
        self.outgoing = Some((chunk, 0));
        self.push()?;
        Ok(None)
    }

    fn advance(&mut self) -> Result<bool, LinkError> {
        let event = self.connection.advance()?;
        self.process_events()?;
        self.give_credit()?;
        Ok(self.push()? || event)
    }

    fn flushed(&self) -> bool {
        self.outgoing.is_none() && self.posted.is_empty()
    }

    fn receive(&mut self, len: usize, sink: Sink<'_>) -> Result<Received, LinkError> {
        if self.arrived.is_empty() {
            self.poll_completions()?;
        }
        let Some(bytes) = self.arrived.pop_front() else {
            return Ok(Received::Nothing);
        };
        let bytes = bytes as usize;
        let due = (len - self.got).min(self.receive_slots.slot_bytes() as usize);
        if bytes != due {
            return Err(self
                .connection
                .failed(format!("received a message of {bytes} bytes, expected {due}")));
        }
        // SAFETY: the message has arrived, and its credit is returned below.
        let message = unsafe { self.receive_slots.message(self.consumed, bytes) };
        let whole = self.got + bytes == len;
        match sink {
            Sink::Into(memory) => memory[self.got..self.got + bytes].copy_from_slice(message),
            Sink::With(consume) if whole && self.got == 0 => consume(message),
            Sink::With(consume) => {
                if self.assembly.len() < len {
                    self.assembly.resize(len, 0);
                }
                self.assembly[self.got..self.got + bytes].copy_from_slice(message);
                if whole {
                    consume(&self.assembly[..len]);
                }
            }
        }
        self.consumed += 1;
        self.got = if whole { 0 } else { self.got + bytes };
        self.give_credit()?;
        Ok(if whole { Received::Chunk } else { Received::Some })
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
        let unacknowledged = self.posted.iter().map(|(_, chunk)| chunk.len() as u64);
        Some(self.connection.backlog(unacknowledged.sum()))
    }

    fn waitable(&self) -> Option<Waitable<'_>> {
        self.connection.waitable()
    }

    fn flow(&self) -> Option<&FlowRecord> {
        Some(&self.connection.with.flow)
    }
}
