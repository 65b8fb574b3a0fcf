//! A connected queue pair with its bookkeeping: completed requests, arrived messages, and whether the peer is alive.
//!
//! Messages carry immediate data. With its uppermost bit set, the message is a control message without payload. The links built on
//! this define the rest.
//!
//! Control messages and payload share a queue, so a control message waits for all payload posted before it. Links therefore keep
//! only as much payload in flight as the wire needs to stay busy: with more, two ranks that both send would wait for each other's
//! control messages.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::link::{Backlog, LinkError, Waitable};
use super::completion::Completion;
use super::failure::{FLUSHED, Failure, QpEnd, not_posted};
use super::nic::Nic;
use super::queue_pair::{ARRIVAL, Opcode, QueuePair, WorkRequest};
use super::queue_pair_info::QueuePairInfo;
use record::FlowRecord;

/// Packets that are not acknowledged are sent again after 4.096 us times two to the power of this: 0.54 s. With seven tries
/// a flap of two seconds is survived, and a dead path is noticed after four.
pub const ACK_TIMEOUT: u8 = 17;
/// The bit of the immediate data that marks a control message.
pub const CONTROL_BIT: u32 = 1 << 31;
/// Empty polls before a notification is requested.
const POLLS_BEFORE_ARMING: u32 = 4;
/// Empty polls between two reads of the clock.
const IDLE_POLLS_BETWEEN_CHECKS: u32 = 64;
/// Polls between two reads of the clock while data moves.
const BUSY_POLLS_BETWEEN_CHECKS: u32 = 32;
/// Time between two checks of peer and device.
const BETWEEN_CHECKS: Duration = Duration::from_millis(50);

/// What is known about a connection besides its queue pair.
pub struct ConnectionInfo {
    /// This end.
    pub here: QpEnd,
    /// The other.
    pub there: QpEnd,
    /// The other's queue pair and memory.
    pub peer: QueuePairInfo,
    /// How it appears on the wire.
    pub flow: FlowRecord,
    /// Whether to sleep until a notification, rather than poll.
    pub sleeps: bool,
    /// The device.
    pub nic: Arc<Nic>,
}

/// What arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QpEvent {
    /// A message: its bytes, and its immediate data.
    Message(u32, u32),
    /// The immediate data of a control message, without its uppermost bit.
    Control(u32),
}

/// One end of a connection.
pub struct QpConnection {
    pair: QueuePair,
    /// The TCP connection of the setup. It is idle now; the kernel closes it when the peer's process ends.
    stream: TcpStream,
    /// Both ends.
    pub with: ConnectionInfo,
    /// Requests posted, requests completed, and the last signalled one.
    requests: u64,
    completed: u64,
    signalled: u64,
    /// Events that were not taken yet.
    events: VecDeque<QpEvent>,
    failure: Option<Failure>,
    idle: IdleState,
}

/// Polls and checks while nothing happens.
#[derive(Default)]
struct IdleState {
    /// All polls.
    polls: u32,
    /// Empty polls.
    idle_polls: u32,
    armed: bool,
    checked: Option<Instant>,
    /// Completed requests at the last check, when some were outstanding, and since when.
    stuck: Option<(u64, Instant)>,
}

impl QpConnection {
    /// Work requests in flight: messages, and control messages between them.
    pub const REQUESTS: u32 = 48;
    /// Payload bytes in flight: three of the longest chunks, several times the bandwidth-delay product of the fastest path.
    pub const MAX_IN_FLIGHT: u64 = 768 << 10;
    /// The most unsignalled requests in a row, so that free queue space is known.
    const MAX_UNSIGNALLED: u64 = 8;

    /// Takes over a connected queue pair.
    pub fn new(pair: QueuePair, stream: TcpStream, with: ConnectionInfo) -> QpConnection {
        QpConnection {
            pair,
            stream,
            with,
            requests: 0,
            completed: 0,
            signalled: 0,
            events: VecDeque::new(),
            failure: None,
            idle: IdleState::default(),
        }
    }

    /// An error with both ends.
    pub fn failed(&self, what: impl std::fmt::Display) -> LinkError {
        let ConnectionInfo {
            here, there, flow, ..
        } = &self.with;
        LinkError::Failed(format!("{} from {here} to {there}: {what}", flow.rail))
    }

    fn posting(&self, error: &io::Error) -> LinkError {
        self.failed(not_posted(error))
    }

    /// Polls the completion queue; whether there was anything.
    pub fn poll_completions(&mut self) -> Result<bool, LinkError> {
        if let Some(failure) = self.failure {
            return Err(self.failed(failure));
        }
        let mut arrivals = 0;
        let (queue, completed, failure) = (&mut self.events, &mut self.completed, &mut self.failure);
        let count = self.pair.completions().poll(|completion: Completion| {
            if let Some((status, vendor)) = completion.failure {
                let found = Failure {
                    status,
                    vendor,
                    sending: completion.id != ARRIVAL,
                };
                // The first failure is the cause; the others are only flushed.
                if failure.is_none_or(|first| first.status == FLUSHED) {
                    *failure = Some(found);
                }
            } else if !completion.arrived {
                *completed = completion.id;
            } else {
                arrivals += 1;
                queue.push_back(match completion.immediate & CONTROL_BIT {
                    0 => QpEvent::Message(completion.bytes, completion.immediate),
                    _ => QpEvent::Control(completion.immediate & !CONTROL_BIT),
                });
            }
        });
        let count = count.map_err(|error| self.failed(format!("completions cannot be read: {error}")))?;
        if let Some(failure) = self.failure {
            return Err(self.failed(failure));
        }
        if count == 0 {
            return Ok(false);
        }
        // Receives are posted before credits are returned: a peer with a credit can rely on a receive.
        self.pair
            .post_receives(arrivals)
            .map_err(|error| self.posting(&error))?;
        self.idle.idle_polls = 0;
        if self.idle.armed {
            self.pair.completions().drain_events();
            self.idle.armed = false;
        }
        Ok(true)
    }

    /// The next event.
    pub fn next(&mut self) -> Option<QpEvent> {
        self.events.pop_front()
    }

    /// Polls; when idle, requests a notification, and regularly checks peer and device.
    pub fn advance(&mut self) -> Result<bool, LinkError> {
        self.idle.polls = self.idle.polls.wrapping_add(1);
        if self.poll_completions()? {
            // A device can fail while data still moves.
            if self.idle.polls.is_multiple_of(BUSY_POLLS_BETWEEN_CHECKS) {
                self.check_periodically()?;
            }
            return Ok(true);
        }
        self.idle.idle_polls = self.idle.idle_polls.saturating_add(1);
        if self.with.sleeps && !self.idle.armed && self.idle.idle_polls >= POLLS_BEFORE_ARMING {
            let armed = self.pair.completions_ref().arm();
            armed.map_err(|error| self.posting(&error))?;
            self.idle.armed = true;
            // Earlier completions do not notify.
            return self.poll_completions();
        }
        // A sleeping rank polls rarely, so the clock costs nothing.
        if self.idle.armed || self.idle.idle_polls.is_multiple_of(IDLE_POLLS_BETWEEN_CHECKS) {
            self.check_periodically()?;
        }
        Ok(false)
    }

    fn check_periodically(&mut self) -> Result<(), LinkError> {
        let now = Instant::now();
        let checked = *self.idle.checked.get_or_insert(now);
        if now.duration_since(checked) < BETWEEN_CHECKS {
            return Ok(());
        }
        self.idle.checked = Some(now);
        self.check(now)
    }

    fn check(&mut self, now: Instant) -> Result<(), LinkError> {
        self.idle.stuck = match self.idle.stuck {
            _ if self.completed >= self.signalled => None,
            Some((done, since)) if done == self.completed => Some((done, since)),
            _ => Some((self.completed, now)),
        };
        let mut byte = [0];
        match self.stream.read(&mut byte) {
            Ok(0) => return Err(LinkError::Closed),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return Err(LinkError::Closed),
        }
        self.with.nic.answers().map_err(|why| self.failed(why))
    }

    /// Whether `more` requests fit.
    pub fn has_room(&self, more: u64) -> bool {
        self.requests - self.completed + more <= u64::from(Self::REQUESTS)
    }

    /// All requests up to this number are complete.
    pub fn completed(&self) -> u64 {
        self.completed
    }

    /// The most inline bytes.
    pub fn inline(&self) -> usize {
        self.pair.inline() as usize
    }

    /// Adds a request to `batch` and returns its number.
    pub fn add(
        &mut self,
        batch: &mut Vec<WorkRequest>,
        work: Opcode,
        local: (u64, u32, u32),
        remote: (u64, u32),
        (signalled, inline): (bool, bool),
    ) -> u64 {
        self.requests += 1;
        let signalled = signalled || self.requests - self.signalled >= Self::MAX_UNSIGNALLED;
        if signalled {
            self.signalled = self.requests;
        }
        batch.push(WorkRequest {
            id: self.requests,
            work,
            local,
            remote,
            signalled,
            inline,
        });
        self.requests
    }

    /// Posts a batch.
    ///
    /// # Safety
    ///
    /// As for [`QueuePair::post`].
    pub unsafe fn post(&mut self, batch: &[WorkRequest]) -> Result<(), LinkError> {
        // SAFETY: the caller's promise.
        let posted = unsafe { self.pair.post(batch) };
        posted.map_err(|error| self.posting(&error))
    }

    /// Moves the queue pair to the error state.
    pub fn abandon(&mut self) {
        self.pair.fail();
    }

    /// The backlog of `bytes` in flight, with an estimate of retransmissions.
    pub fn backlog(&self, bytes: u64) -> Backlog {
        let timeout = Duration::from_nanos(4_096 << ACK_TIMEOUT);
        let since = self.idle.stuck.map(|(_, since)| since.elapsed());
        // The NIC does not report retransmissions, but it retransmits after every timeout without an acknowledgement.
        let retransmits = since.map_or(0, |since| since.as_nanos() / timeout.as_nanos());
        Backlog {
            bytes,
            retransmits: u32::try_from(retransmits).unwrap_or(u32::MAX),
        }
    }

    /// What to sleep on, when completions notify.
    pub fn waitable(&self) -> Option<Waitable<'_>> {
        self.with.sleeps.then(|| Waitable {
            fd: self.pair.completions_ref().descriptor(),
            wants_to_send: false,
            sleeps: true,
        })
    }
}

/// The full count whose lowest 31 bits are `low`, at or after `known`.
pub fn widened(low: u32, known: u64) -> u64 {
    let ahead = low.wrapping_sub(known as u32) & !CONTROL_BIT;
    known + u64::from(ahead)
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
