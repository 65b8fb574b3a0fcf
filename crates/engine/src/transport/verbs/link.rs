//! Chunks of this process's own memory over one queue pair, without ever blocking.
//!
//! A chunk is written straight into a slot of the peer's landing memory. The number that comes with it says how many messages
//! this side has taken out of its own, which is the peer's credit for more; a side that has nothing to send says so by itself. What must
//! hold: no more messages are under way than the peer has slots, so none is ever overwritten and no receiver is ever
//! without room; memory that is sent from is leased until the NIC is done with it.

use std::collections::VecDeque;

use super::super::{Backlog, Link, LinkError, Received, Sink, Waitable};
use super::landing::Landing;
use super::queue_pair::Work;
use super::wire::{ANSWER, News, Wire, widened};
use crate::device::ReadLease;
use record::FlowRecord;

/// One queue pair carrying chunks both ways.
pub struct VerbsLink {
    /// Given back first: after that no NIC touches the memory below.
    wire: Wire,
    landing: Landing,
    /// The chunk being sent, with how many of its bytes are posted.
    outgoing: Option<(ReadLease, usize)>,
    /// Chunks that are posted, by the number of their last request.
    posted: VecDeque<(u64, ReadLease)>,
    /// Bytes of them.
    under_way: u64,
    /// Messages sent, and those of them that the peer has taken out.
    sent: u64,
    taken: u64,
    /// Payload bytes posted.
    moved: u64,
    /// Sizes of messages that have arrived and were not taken out.
    arrived: VecDeque<u32>,
    /// Messages taken out, and how many of them the peer knows of.
    consumed: u64,
    told: u64,
    /// Bytes of the current chunk that are there.
    got: usize,
    /// Where chunks longer than a slot are put together for a function.
    assembly: Vec<u8>,
}

impl VerbsLink {
    /// Takes over a connected wire and the memory its peer writes to.
    pub fn new(wire: Wire, landing: Landing) -> VerbsLink {
        VerbsLink {
            wire,
            landing,
            outgoing: None,
            posted: VecDeque::new(),
            under_way: 0,
            sent: 0,
            taken: 0,
            moved: 0,
            arrived: VecDeque::new(),
            consumed: 0,
            told: 0,
            got: 0,
            assembly: Vec::new(),
        }
    }

    /// Sorts what came over the wire.
    fn sort(&mut self) -> Result<(), LinkError> {
        while let Some(news) = self.wire.next() {
            match news {
                News::Message(bytes, taken) => {
                    self.arrived.push_back(bytes);
                    self.taken = widened(taken, self.taken);
                }
                News::Answer(taken) => self.taken = widened(taken, self.taken),
            }
        }
        while self
            .posted
            .front()
            .is_some_and(|(id, _)| *id <= self.wire.completed())
        {
            let left = self.posted.pop_front();
            self.under_way -= left.map_or(0, |(_, chunk)| chunk.len() as u64);
        }
        if self.taken > self.sent {
            return Err(self
                .wire
                .failed("it says that it took more messages than were sent"));
        }
        Ok(())
    }

    fn look(&mut self) -> Result<(), LinkError> {
        self.wire.look()?;
        self.sort()
    }

    /// Whether the peer has a free slot and the queue room for a message and an answer.
    fn has_room(&self) -> bool {
        self.under_way < Wire::UNDER_WAY
            && self.sent - self.taken < u64::from(self.wire.with.peer.slots)
            && self.wire.has_room(2)
    }

    /// Posts as much of the current chunk as there is room for; whether anything was posted.
    fn push(&mut self) -> Result<bool, LinkError> {
        let Some((chunk, mut at)) = self.outgoing.take() else {
            return Ok(false);
        };
        let slot = self.wire.with.peer.slot_bytes as usize;
        let inline = chunk.len() <= self.wire.inline();
        let key = match inline {
            true => 0,
            false => {
                let registered = self.wire.with.nic.register(chunk.region());
                registered
                    .map_err(|error| {
                        self.wire
                            .failed(format!("memory could not be registered: {error}"))
                    })?
                    .local_key()
            }
        };
        let (memory, peers_key) = (self.wire.with.peer.memory, self.wire.with.peer.key);
        let slots = u64::from(self.wire.with.peer.slots);
        let mut batch = Vec::new();
        let mut last = None;
        while last.is_none() && self.has_room() {
            let len = (chunk.len() - at).min(slot);
            let is_last = at + len == chunk.len();
            let request = self.wire.add(
                &mut batch,
                Work::WriteWith(self.consumed as u32 & !ANSWER),
                (chunk[at..].as_ptr() as u64, len as u32, key),
                (memory + (self.sent % slots) * slot as u64, peers_key),
                (is_last && !inline, inline),
            );
            last = is_last.then_some(request);
            self.told = self.consumed;
            self.sent += 1;
            self.moved += len as u64;
            at += len;
        }
        // SAFETY: the chunk's memory is leased, and the lease is kept until its last request has completed; inline requests
        // take a copy of it.
        let posted = unsafe { self.wire.post(&batch) };
        match last {
            None => self.outgoing = Some((chunk, at)),
            Some(_) if inline => {}
            Some(request) => {
                self.under_way += chunk.len() as u64;
                self.posted.push_back((request, chunk));
            }
        }
        posted.map(|()| !batch.is_empty())
    }

    /// Tells the peer how many messages were taken out, when enough of them were.
    fn give_credit(&mut self) -> Result<(), LinkError> {
        let enough = u64::from(self.landing.slots() / 2).max(1);
        // Without room it is done later: requests complete without the peer's help.
        if self.consumed - self.told < enough || !self.wire.has_room(1) {
            return Ok(());
        }
        let peer = (self.wire.with.peer.memory, self.wire.with.peer.key);
        let mut batch = Vec::with_capacity(1);
        let work = Work::WriteWith(self.consumed as u32 & !ANSWER | ANSWER);
        self.wire.add(&mut batch, work, (0, 0, 0), peer, (false, false));
        // SAFETY: no memory of this side is named.
        unsafe { self.wire.post(&batch) }?;
        self.told = self.consumed;
        Ok(())
    }
}

impl Link for VerbsLink {
    fn offer(&mut self, chunk: ReadLease) -> Result<Option<ReadLease>, LinkError> {
        if self.outgoing.is_some() {
            return Ok(Some(chunk));
        }
        if !self.has_room() {
            self.look()?;
            if !self.has_room() {
                return Ok(Some(chunk));
            }
        }
        self.outgoing = Some((chunk, 0));
        self.push()?;
        Ok(None)
    }

    fn advance(&mut self) -> Result<bool, LinkError> {
        let news = self.wire.advance()?;
        self.sort()?;
        self.give_credit()?;
        Ok(self.push()? || news)
    }

    fn flushed(&self) -> bool {
        self.outgoing.is_none() && self.posted.is_empty()
    }

    fn receive(&mut self, len: usize, sink: Sink<'_>) -> Result<Received, LinkError> {
        if self.arrived.is_empty() {
            self.look()?;
        }
        let Some(bytes) = self.arrived.pop_front() else {
            return Ok(Received::Nothing);
        };
        let bytes = bytes as usize;
        let due = (len - self.got).min(self.landing.slot_bytes() as usize);
        if bytes != due {
            return Err(self
                .wire
                .failed(format!("a message of {bytes} bytes came where {due} were due")));
        }
        // SAFETY: the message has arrived, and its slot is given back below.
        let message = unsafe { self.landing.message(self.consumed, bytes) };
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
        self.wire.abandon();
    }

    fn backlog(&self) -> Option<Backlog> {
        let unacknowledged = self.posted.iter().map(|(_, chunk)| chunk.len() as u64);
        Some(self.wire.backlog(unacknowledged.sum()))
    }

    fn waitable(&self) -> Option<Waitable<'_>> {
        self.wire.waitable()
    }

    fn flow(&self) -> Option<&FlowRecord> {
        Some(&self.wire.with.flow)
    }
}
