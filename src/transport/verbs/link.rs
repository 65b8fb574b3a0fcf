//! Chunks over one queue pair, without ever blocking.
//!
//! A chunk is written straight into a slot of the peer's landing memory and announced by a number that comes with it; the
//! peer answers with another number, how many messages it has taken out, which is this side's credit for more. What must
//! hold: no more messages are under way than the peer has slots, so none is ever overwritten and no receiver is ever
//! without room; memory that is sent from is leased until the NIC is done with it.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::{Backlog, Link, LinkError, Received, Sink, Waitable};
use super::card::Card;
use super::completion::Completion;
use super::connect::ACK_TIMEOUT;
use super::failure::{End, FLUSHED, Failure};
use super::landing::Landing;
use super::nic::Nic;
use super::queue_pair::{ARRIVAL, QueuePair, Request, Work};
use crate::device::ReadLease;
use crate::record::FlowRecord;

/// The bit that tells a number of taken messages from the number of a message.
const CREDIT: u32 = 1 << 31;
/// Looks without news after which the NIC is asked to wake us.
const LOOKS_BEFORE_ARMING: u32 = 4;
/// Looks without news between two looks at the clock.
const LOOKS_BETWEEN_CHECKS: u32 = 64;
/// Time without news between two looks at peer and device.
const BETWEEN_CHECKS: Duration = Duration::from_millis(50);

/// What is known about a link besides its queue pair.
pub struct Settings {
    /// This end.
    pub here: End,
    /// The other.
    pub there: End,
    /// The other's landing memory.
    pub peer: Card,
    /// What it is called on the wire.
    pub flow: FlowRecord,
    /// Whether to sleep until the NIC wakes us, rather than to look again and again.
    pub sleeps: bool,
    /// The device.
    pub nic: Arc<Nic>,
}

/// One queue pair carrying chunks both ways.
pub struct VerbsLink {
    /// Given back first: after that no NIC touches the memory below.
    pair: QueuePair,
    landing: Landing,
    /// Where both met. Nothing is sent over it any more; the kernel closes it when the peer's process ends.
    stream: TcpStream,
    with: Settings,

    /// The chunk being sent, with how many of its bytes are posted.
    outgoing: Option<(ReadLease, usize)>,
    /// Chunks that are posted, by the id of their last request.
    posted: VecDeque<(u64, ReadLease)>,
    /// Requests posted, completed, and the last one that will show up when it completes.
    requests: u64,
    completed: u64,
    signalled: u64,
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

    failure: Option<Failure>,
    watch: Watch,
}

/// What is noticed while nothing happens.
#[derive(Default)]
struct Watch {
    /// Looks without news.
    looks: u32,
    armed: bool,
    checked: Option<Instant>,
    /// The oldest request that was not acknowledged when last looked, and since when.
    oldest: Option<(u64, Instant)>,
}

impl VerbsLink {
    /// Work requests that may be under way: messages, and credits between them.
    pub const REQUESTS: u32 = 48;

    /// Takes over a connected queue pair.
    pub fn new(pair: QueuePair, landing: Landing, stream: TcpStream, with: Settings) -> VerbsLink {
        VerbsLink {
            pair,
            landing,
            stream,
            with,
            outgoing: None,
            posted: VecDeque::new(),
            requests: 0,
            completed: 0,
            signalled: 0,
            sent: 0,
            taken: 0,
            moved: 0,
            arrived: VecDeque::new(),
            consumed: 0,
            told: 0,
            got: 0,
            assembly: Vec::new(),
            failure: None,
            watch: Watch::default(),
        }
    }

    fn failed(&self, what: impl std::fmt::Display) -> LinkError {
        let Settings {
            here, there, flow, ..
        } = &self.with;
        LinkError::Failed(format!("{} from {here} to {there}: {what}", flow.rail))
    }

    fn posting(&self, error: &io::Error) -> LinkError {
        match error.raw_os_error() {
            Some(nix::libc::EIO | nix::libc::ENODEV) => self.failed(format!(
                "the device took no more requests ({error}): it was removed or reset"
            )),
            _ => self.failed(format!("a request could not be posted: {error}")),
        }
    }

    /// Takes in what the NIC has to report; whether there was anything.
    fn look(&mut self) -> Result<bool, LinkError> {
        if let Some(failure) = self.failure {
            return Err(self.failed(failure));
        }
        let mut arrivals = 0;
        let (arrived, taken, completed, failure) = (
            &mut self.arrived,
            &mut self.taken,
            &mut self.completed,
            &mut self.failure,
        );
        let news = self.pair.completions().poll(|completion: Completion| {
            if let Some((status, vendor)) = completion.failure {
                let found = Failure {
                    status,
                    vendor,
                    sending: completion.id != ARRIVAL,
                };
                // The first says what happened; what comes after it is only flushed.
                if failure.is_none_or(|first| first.status == FLUSHED) {
                    *failure = Some(found);
                }
            } else if !completion.arrived {
                *completed = completion.id;
            } else {
                arrivals += 1;
                match completion.immediate & CREDIT {
                    0 => arrived.push_back(completion.bytes),
                    _ => *taken = widened(completion.immediate & !CREDIT, *taken),
                }
            }
        });
        let news = news.map_err(|error| self.failed(format!("completions cannot be read: {error}")))?;
        while self.posted.front().is_some_and(|(id, _)| *id <= self.completed) {
            self.posted.pop_front();
        }
        if self.taken > self.sent {
            return Err(self.failed("it says that it took more messages than were sent"));
        }
        if let Some(failure) = self.failure {
            return Err(self.failed(failure));
        }
        if news == 0 {
            return Ok(false);
        }
        // Room first, credit later: a peer that has credit can rely on room.
        self.pair
            .expect_numbers(arrivals)
            .map_err(|error| self.posting(&error))?;
        self.watch.looks = 0;
        if self.watch.armed {
            self.pair.completions().drain_events();
            self.watch.armed = false;
        }
        Ok(true)
    }

    /// Nothing happened: asks to be woken, and now and then whether peer and device are still there.
    fn idle(&mut self) -> Result<bool, LinkError> {
        self.watch.looks = self.watch.looks.saturating_add(1);
        if self.with.sleeps && !self.watch.armed && self.watch.looks >= LOOKS_BEFORE_ARMING {
            let armed = self.pair.completions_ref().arm();
            armed.map_err(|error| self.posting(&error))?;
            self.watch.armed = true;
            // What completed before that wakes nobody.
            return self.look();
        }
        if self.watch.looks.is_multiple_of(LOOKS_BETWEEN_CHECKS) {
            let now = Instant::now();
            let checked = *self.watch.checked.get_or_insert(now);
            if now.duration_since(checked) >= BETWEEN_CHECKS {
                self.watch.checked = Some(now);
                self.check(now)?;
            }
        }
        Ok(false)
    }

    fn check(&mut self, now: Instant) -> Result<(), LinkError> {
        let front = self.posted.front().map(|(id, _)| *id);
        self.watch.oldest = match (front, self.watch.oldest) {
            (Some(id), Some((same, since))) if id == same => Some((id, since)),
            (Some(id), _) => Some((id, now)),
            (None, _) => None,
        };
        let mut byte = [0];
        match self.stream.read(&mut byte) {
            Ok(0) => return Err(LinkError::Closed),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return Err(LinkError::Closed),
        }
        let nic = &self.with.nic;
        nic.context().port(nic.port.port).map_err(|error| {
            self.failed(format!(
                "{} does not answer any more ({error}): it was removed or reset",
                nic.port.device
            ))
        })?;
        Ok(())
    }

    /// Slots of the peer that are free.
    fn credit(&self) -> u64 {
        u64::from(self.with.peer.slots) - (self.sent - self.taken)
    }

    /// Whether another request fits, leaving room for a credit.
    fn has_room(&self) -> bool {
        self.requests - self.completed + 2 < u64::from(Self::REQUESTS)
    }

    /// Whether the next request must show up when it completes, so that room is known to be free again.
    fn must_signal(&self) -> bool {
        self.requests + 1 - self.signalled >= 8
    }

    /// Posts as much of the current chunk as the peer has credit for; whether anything was posted.
    fn push(&mut self) -> Result<bool, LinkError> {
        let Some((chunk, mut at)) = self.outgoing.take() else {
            return Ok(false);
        };
        let slot = self.with.peer.slot_bytes as usize;
        let inline = chunk.len() <= self.pair.inline() as usize;
        let registration = match inline {
            true => None,
            false => Some(
                self.with
                    .nic
                    .register(chunk.region())
                    .map_err(|error| self.failed(format!("memory could not be registered: {error}")))?,
            ),
        };
        let key = registration
            .as_ref()
            .map_or(0, |registration| registration.local_key());
        let mut requests = Vec::new();
        let mut is_done = false;
        while !is_done && self.credit() > 0 && self.has_room() {
            let len = (chunk.len() - at).min(slot);
            is_done = at + len == chunk.len();
            self.requests += 1;
            let signalled = (is_done && !inline) || self.must_signal();
            if signalled {
                self.signalled = self.requests;
            }
            let to = self.with.peer.memory + (self.sent % u64::from(self.with.peer.slots)) * slot as u64;
            requests.push(Request {
                id: self.requests,
                work: Work::WriteWith(self.sent as u32 & !CREDIT),
                local: (chunk[at..].as_ptr() as u64, len as u32, key),
                remote: (to, self.with.peer.key),
                signalled,
                inline,
            });
            self.sent += 1;
            self.moved += len as u64;
            at += len;
        }
        // SAFETY: the chunk's memory is leased, and the lease is kept until its last request has completed; inline requests
        // take a copy of it.
        let posted = unsafe { self.pair.post(&requests) };
        let any = !requests.is_empty();
        match (is_done, inline) {
            (false, _) => self.outgoing = Some((chunk, at)),
            (true, true) => {}
            (true, false) => self.posted.push_back((self.requests, chunk)),
        }
        posted.map_err(|error| self.posting(&error))?;
        Ok(any)
    }

    /// Tells the peer how many messages were taken out, when enough of them were.
    fn give_credit(&mut self) -> Result<(), LinkError> {
        if self.consumed - self.told < u64::from(self.landing.slots() / 2).max(1) {
            return Ok(());
        }
        if self.requests - self.completed + 1 >= u64::from(Self::REQUESTS) {
            // Later: requests complete without the peer's help.
            return Ok(());
        }
        self.requests += 1;
        let signalled = self.must_signal();
        if signalled {
            self.signalled = self.requests;
        }
        let request = Request {
            id: self.requests,
            work: Work::WriteWith(self.consumed as u32 & !CREDIT | CREDIT),
            local: (0, 0, 0),
            remote: (self.with.peer.memory, self.with.peer.key),
            signalled,
            inline: false,
        };
        // SAFETY: no memory of this side is named.
        let posted = unsafe { self.pair.post(&[request]) };
        posted.map_err(|error| self.posting(&error))?;
        self.told = self.consumed;
        Ok(())
    }
}

/// The full count whose lowest 31 bits are `low`, at or behind `known`.
fn widened(low: u32, known: u64) -> u64 {
    let ahead = low.wrapping_sub(known as u32) & !CREDIT;
    known + u64::from(ahead)
}

impl Link for VerbsLink {
    fn offer(&mut self, chunk: ReadLease) -> Result<Option<ReadLease>, LinkError> {
        if self.outgoing.is_some() {
            return Ok(Some(chunk));
        }
        if self.credit() == 0 || !self.has_room() {
            self.look()?;
            if self.credit() == 0 || !self.has_room() {
                return Ok(Some(chunk));
            }
        }
        self.outgoing = Some((chunk, 0));
        self.push()?;
        Ok(None)
    }

    fn advance(&mut self) -> Result<bool, LinkError> {
        let mut news = self.look()?;
        if !news {
            news = self.idle()?;
        }
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
        let slot = self.landing.slot_bytes() as usize;
        let due = (len - self.got).min(slot);
        if bytes != due {
            return Err(self.failed(format!("a message of {bytes} bytes came where {due} were due")));
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
        self.pair.fail();
    }

    fn backlog(&self) -> Option<Backlog> {
        let unacknowledged = self.posted.iter().map(|(_, chunk)| chunk.len() as u64);
        let timeout = Duration::from_nanos(4_096 << ACK_TIMEOUT);
        let since = self.watch.oldest.map(|(_, since)| since.elapsed());
        // The NIC does not tell how often it sent again, but it does so whenever this time has passed without an answer.
        let retransmits = since.map_or(0, |since| since.as_nanos() / timeout.as_nanos());
        Some(Backlog {
            bytes: unacknowledged.sum(),
            retransmits: u32::try_from(retransmits).unwrap_or(u32::MAX),
        })
    }

    fn waitable(&self) -> Option<Waitable<'_>> {
        self.with.sleeps.then(|| Waitable {
            fd: self.pair.completions_ref().descriptor(),
            wants_to_send: false,
            sleeps: true,
        })
    }

    fn flow(&self) -> Option<&FlowRecord> {
        Some(&self.with.flow)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_of_31_bits_is_widened_to_the_next_that_fits() {
        assert_eq!(widened(5, 3), 5);
        assert_eq!(widened(3, 3), 3);
        let known = (1u64 << 31) - 2;
        assert_eq!(widened(1, known), (1u64 << 31) + 1);
        assert_eq!(widened(7, (5u64 << 31) + 6), (5u64 << 31) + 7);
    }
}
