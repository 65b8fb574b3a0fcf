//! One queue pair of a stream with its buffers: posted and completed requests, arrived messages.

use std::io;

use super::super::completion::Completion;
use super::super::failure::{FLUSHED, Failure, QpEnd, not_posted};
use super::super::queue_pair::{ARRIVAL, Opcode, QueuePair, WorkRequest};
use super::super::queue_pair_info::QueuePairInfo;
use super::StreamError;
use super::buffers::{Buffer, StreamBuffers};
use record::FlowRecord;

/// A connected queue pair.
pub struct StreamQp {
    /// Dropped before the memory, so that no NIC touches it.
    pub pair: QueuePair,
    pub memory: StreamBuffers,
    pub peer: QueuePairInfo,
    pub here: QpEnd,
    pub there: QpEnd,
    pub flow: FlowRecord,
    /// Receives to keep posted.
    pub wanted_receives: u32,
    /// Posted receives that were not used.
    receives: u32,
    /// Expected bytes of every message.
    pub expected: u32,
    /// Requests posted, and requests known to be complete.
    pub posted: u64,
    pub completed: u64,
    /// Messages that have arrived.
    pub arrived: u64,
    failure: Option<Failure>,
    /// The length of a message that was not the expected one.
    unexpected_length: Option<u32>,
    armed: bool,
}

impl StreamQp {
    /// Of a connected queue pair.
    pub fn new(
        pair: QueuePair,
        memory: StreamBuffers,
        peer: QueuePairInfo,
        ends: (QpEnd, QpEnd),
        flow: FlowRecord,
        wanted_receives: u32,
    ) -> StreamQp {
        let (here, there) = ends;
        StreamQp {
            pair,
            memory,
            peer,
            here,
            there,
            flow,
            wanted_receives,
            receives: 0,
            expected: 0,
            posted: 0,
            completed: 0,
            arrived: 0,
            failure: None,
            unexpected_length: None,
            armed: false,
        }
    }

    /// An error of this queue pair, with both of its ends.
    pub fn failed(&self, what: impl std::fmt::Display) -> StreamError {
        let StreamQp {
            here, there, flow, ..
        } = self;
        StreamError::Failed(format!("{} from {here} to {there}: {what}", flow.rail))
    }

    fn posting(&self, error: &io::Error) -> StreamError {
        self.failed(not_posted(error))
    }

    /// Posts receives again once half of them are used.
    pub fn post_receives(&mut self) -> Result<(), StreamError> {
        if self.receives > self.wanted_receives / 2 || self.wanted_receives == 0 {
            return Ok(());
        }
        let count = self.wanted_receives - self.receives;
        let start = self.memory.start() + self.memory.position(Buffer::Receive, 0);
        let bytes =
            self.memory.area_bytes() - (start - self.memory.start()) as u32 % self.memory.area_bytes();
        let memory = Some((start, bytes, self.memory.local_key()));
        // SAFETY: the landing area belongs to what arrives: it is read only when a message has arrived and the peer
        // sends no other until it was answered or the trial is over.
        let posted = unsafe { self.pair.post_receives_into(count as usize, memory) };
        posted.map_err(|error| self.posting(&error))?;
        self.receives = self.wanted_receives;
        Ok(())
    }

    /// Posts requests, which are numbered on.
    ///
    /// # Safety
    ///
    /// As for [`QueuePair::post`]: memory they name is not touched until they have completed.
    pub unsafe fn post(&mut self, requests: &[WorkRequest]) -> Result<(), StreamError> {
        // SAFETY: the caller's promise.
        let posted = unsafe { self.pair.post(requests) };
        posted.map_err(|error| self.posting(&error))
    }

    /// The next request for a message: `from` a buffer and offset of this side `to` one of the peer.
    pub fn request(
        &mut self,
        work: Opcode,
        len: u32,
        from: (Buffer, usize),
        to: (Buffer, usize),
        signalled: bool,
    ) -> WorkRequest {
        self.posted += 1;
        let local = self.memory.start() + self.memory.position(from.0, from.1);
        let remote = self.peer.memory + self.memory.position(to.0, to.1);
        WorkRequest {
            id: self.posted,
            work,
            local: (local, len, self.memory.local_key()),
            remote: (remote, self.peer.key),
            signalled,
            inline: self.is_inline(work, len),
        }
    }

    /// Whether a message is inlined.
    pub fn is_inline(&self, work: Opcode, len: u32) -> bool {
        work != Opcode::Read && len <= self.pair.inline()
    }

    /// Requests in flight.
    pub fn in_flight(&self) -> u64 {
        self.posted - self.completed
    }

    /// Polls the completion queue; whether there was anything.
    pub fn poll_completions(&mut self) -> Result<bool, StreamError> {
        let (failure, unexpected_length, completed, arrived) = (
            &mut self.failure,
            &mut self.unexpected_length,
            &mut self.completed,
            &mut self.arrived,
        );
        let expected = self.expected;
        let mut arrivals = 0;
        let news = self.pair.completions().poll(|completion: Completion| {
            if let Some((status, vendor)) = completion.failure {
                // The first failure is the cause; the others are only flushed.
                if failure.is_none_or(|first: Failure| first.status == FLUSHED) {
                    *failure = Some(Failure {
                        status,
                        vendor,
                        sending: completion.id != ARRIVAL,
                    });
                }
            } else if completion.arrived {
                arrivals += 1;
                if completion.bytes != expected {
                    *unexpected_length = Some(completion.bytes);
                }
            } else {
                *completed = completion.id;
            }
        });
        *arrived += u64::from(arrivals);
        let news = news.map_err(|error| self.failed(format!("completions cannot be read: {error}")))?;
        if let Some(failure) = self.failure {
            return Err(self.failed(failure));
        }
        if let Some(bytes) = self.unexpected_length {
            return Err(self.failed(format!(
                "received a message of {bytes} bytes, expected {expected}"
            )));
        }
        if arrivals > 0 {
            self.receives = self.receives.saturating_sub(arrivals);
            self.post_receives()?;
        }
        Ok(news > 0)
    }

    /// Requests a notification; poll once more after this.
    pub fn arm(&mut self) -> Result<(), StreamError> {
        if !self.armed {
            self.pair
                .completions_ref()
                .arm()
                .map_err(|error| self.posting(&error))?;
            self.armed = true;
        }
        Ok(())
    }

    /// Takes the notifications.
    pub fn wake(&mut self) {
        self.pair.completions().drain_events();
        self.armed = false;
    }
}
