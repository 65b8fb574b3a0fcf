//! Bandwidth: every queue pair kept full, one doorbell for many requests, few completions.

use super::super::queue_pair::{Opcode, WorkRequest};
use super::buffers::Buffer;
use super::control::ControlMessage;
use super::open::RdmaStream;
use super::pattern::{Content, MessageId};
use super::peak_rate::PeakRate;
use super::stream_qp::StreamQp;
use super::{CheckResult, Extent, Operation, SendResult, StreamError, Trial, TrialKind, TrialResult};
use crate::launch::clock;

/// Most requests posted with one doorbell.
const AT_ONCE: u64 = 64;
/// Rounds between two checks of clock and stop flag while messages move.
const ROUNDS: u32 = 4096;
/// Polls between two reads of the control connection while polling for messages.
const POLLS_BETWEEN_MESSAGES: u32 = 256;

/// Progress of one queue pair in a trial.
struct SendProgress {
    /// Posted requests when the trial began.
    posted_before: u64,
    /// The last signalled request.
    signalled: u64,
    /// Messages to send; unknown in a timed trial until its time is over.
    target: Option<u64>,
}

impl RdmaStream {
    pub(super) fn bandwidth(
        &mut self,
        trial: &Trial,
        moving: &mut dyn FnMut(),
    ) -> Result<TrialResult, StreamError> {
        let both = trial.question == TrialKind::Bidirectional;
        let (sends, hears) = (
            both || self.stream_ends.is_first,
            both || !self.stream_ends.is_first,
        );
        let size = trial.size.0 as u32;
        let before: Vec<u64> = self.qps.iter().map(|qp| qp.arrived).collect();
        for (number, qp) in (0..).zip(&mut self.qps) {
            qp.expected = size;
            prepare(qp, trial, self.stream_ends.me, self.stream_ends.peer, number);
        }
        self.synchronise(trial)?;
        let mut heard = None;
        let sent = match sends {
            true => Some(self.send_all(trial, &mut heard, moving)?),
            false => None,
        };
        if let Some(sent) = &sent {
            self.control.send(ControlMessage::Done(sent.messages))?;
        }
        if hears {
            let counts = trial.operation == Operation::Send;
            self.receive_all(counts.then_some(&before[..]), heard, moving)?;
        }
        // Data arrives at the end that reads, or that is written or sent to.
        let arrives_here = match trial.operation {
            Operation::Read => sends,
            Operation::Write | Operation::Send => hears,
        };
        let checked = arrives_here.then(|| self.check_all(trial, sent.as_ref()));
        Ok(TrialResult {
            sent,
            samples: Vec::new(),
            checked,
        })
    }

    fn send_all(
        &mut self,
        trial: &Trial,
        heard: &mut Option<u64>,
        moving: &mut dyn FnMut(),
    ) -> Result<SendResult, StreamError> {
        let mut progresses: Vec<SendProgress> =
            self.qps.iter().map(|qp| SendProgress::of(qp, trial)).collect();
        let mut peak_rate = PeakRate::default();
        let mut stall_timer = self.stall_timer();
        let (mut posted, mut rounds) = (0, 0u32);
        let started = clock::now();
        let mut now = started;
        loop {
            if let Extent::Lasting(time) = trial.extent
                && now.since(started) >= time
            {
                progresses
                    .iter_mut()
                    .zip(&self.qps)
                    .for_each(|(progress, qp)| progress.end(qp, trial));
            }
            let mut requests = 0;
            for (qp, progress) in self.qps.iter_mut().zip(&mut progresses) {
                requests += progress.post(qp, trial, self.terms.depth)?;
            }
            if requests > 0 {
                peak_rate.posting(posted, now);
                posted += requests;
            }
            let mut news = self.poll_completions()?;
            if !news && requests == 0 {
                // A completion it has seen counts: it may have been the last.
                news = self.idle(&mut stall_timer, "completions")?;
                if matches!(trial.extent, Extent::Lasting(_)) {
                    now = clock::now();
                }
                if let Some(ControlMessage::Done(messages)) = self.control.try_receive()? {
                    *heard = Some(messages);
                }
            }
            if news {
                now = clock::now();
                let done = self
                    .qps
                    .iter()
                    .zip(&progresses)
                    .map(|(qp, progress)| progress.completed(qp));
                let completed = done.sum();
                peak_rate.completed(completed, now);
                stall_timer.moved();
                if progresses
                    .iter()
                    .zip(&self.qps)
                    .all(|(progress, qp)| progress.is_done(qp))
                {
                    return Ok(SendResult {
                        messages: completed,
                        took: now.since(started),
                        peak: peak_rate.peak().unwrap_or(0.0),
                    });
                }
            }
            rounds = rounds.wrapping_add(1);
            if rounds.is_multiple_of(ROUNDS) || (self.sleeps() && rounds.is_multiple_of(ROUNDS / 64)) {
                self.check_stop_and_stall(&mut stall_timer, "completions")?;
                moving();
            }
        }
    }

    /// Waits until the peer has sent its last message, and until all have arrived where they can be counted.
    fn receive_all(
        &mut self,
        counted_from: Option<&[u64]>,
        mut heard: Option<u64>,
        moving: &mut dyn FnMut(),
    ) -> Result<(), StreamError> {
        let mut stall_timer = self.stall_timer();
        let waiting_for = "messages of the other end";
        let mut polls = 0u32;
        loop {
            let news = self.poll_completions()?;
            if news {
                stall_timer.moved();
            }
            polls = polls.wrapping_add(1);
            // Reading the control connection is a system call, so a polling end does it rarely. After its last message the
            // peer may be gone.
            let often =
                self.sleeps() || counted_from.is_none() || polls.is_multiple_of(POLLS_BETWEEN_MESSAGES);
            let asks = heard.is_none() && often;
            match asks.then(|| self.control.try_receive()).transpose()?.flatten() {
                Some(ControlMessage::Done(messages)) => heard = Some(messages),
                Some(_) => {
                    stall_timer.moved();
                    moving();
                }
                None => {}
            }
            let is_here = |messages: u64| {
                let arrived = counted_from.map(|before| {
                    let each = self
                        .qps
                        .iter()
                        .zip(before)
                        .map(|(qp, before)| qp.arrived - before);
                    each.sum::<u64>()
                });
                arrived.is_none_or(|arrived| arrived >= messages)
            };
            match (heard, counted_from) {
                (Some(messages), _) if is_here(messages) => return Ok(()),
                _ if news => {}
                (_, Some(_)) => drop(self.idle(&mut stall_timer, waiting_for)?),
                // There will be no completion: no need to poll the queue.
                (_, None) => self.sleep(&mut stall_timer, false, waiting_for)?,
            }
        }
    }

    /// Compares the received data with what the last messages carried. All have arrived.
    fn check_all(&mut self, trial: &Trial, sent: Option<&SendResult>) -> CheckResult {
        let from = self.stream_ends.peer;
        let qps = self.qps.len() as u64;
        // In a timed trial, at least one round of slots was sent.
        let each = match trial.extent {
            Extent::Iterations(count) => count,
            Extent::Lasting(_) => sent.map_or(u64::MAX, |sent| sent.messages / qps),
        };
        let mut checked = CheckResult::default();
        for (number, qp) in (0..).zip(&mut self.qps) {
            for slot in 0..(trial.slots() as u64).min(each) {
                let at = slot as usize * trial.stride();
                let place = place(trial, from, number, slot);
                // SAFETY: the other end has said that its last message is through, and sends no other before this end
                // says that it is ready for the next trial.
                let one = unsafe { qp.memory.check(at, trial.size.as_usize(), place) };
                checked = checked.and(one);
            }
        }
        checked
    }
}

fn place(trial: &Trial, from: u32, queue_pair: u16, slot: u64) -> MessageId {
    MessageId {
        seed: trial.seed,
        from,
        queue_pair,
        slot,
    }
}

/// Fills the send buffers, and the receive buffer with different data.
fn prepare(qp: &mut StreamQp, trial: &Trial, me: u32, peer: u32, number: u16) {
    let len = trial.size.as_usize();
    for slot in 0..trial.slots() {
        let at = slot * trial.stride();
        let mine = place(trial, me, number, slot as u64);
        let theirs = place(trial, peer, number, slot as u64);
        // SAFETY: between trials nothing is under way in either direction: this end has waited for its completions, and
        // the other waits until this one says that it is ready.
        unsafe {
            qp.memory.fill(Buffer::Before, at, len, mine, Content::Before);
            qp.memory.fill(Buffer::Last, at, len, mine, Content::Last);
            qp.memory
                .fill(Buffer::Receive, at, len, theirs, Content::Untouched);
        }
    }
}

impl SendProgress {
    fn of(qp: &StreamQp, trial: &Trial) -> SendProgress {
        SendProgress {
            posted_before: qp.posted,
            signalled: qp.posted,
            target: match trial.extent {
                Extent::Iterations(count) => Some(count),
                Extent::Lasting(_) => None,
            },
        }
    }

    fn posted(&self, qp: &StreamQp) -> u64 {
        qp.posted - self.posted_before
    }

    fn completed(&self, qp: &StreamQp) -> u64 {
        qp.completed.saturating_sub(self.posted_before)
    }

    fn is_done(&self, qp: &StreamQp) -> bool {
        self.target == Some(self.completed(qp))
    }

    /// The time is over: one more message into every slot.
    fn end(&mut self, qp: &StreamQp, trial: &Trial) {
        let last_round = self.posted(qp) + trial.slots() as u64;
        self.target.get_or_insert(last_round);
    }

    /// Posts what the queue can take; how many requests that were.
    fn post(&mut self, qp: &mut StreamQp, trial: &Trial, depth: u32) -> Result<u64, StreamError> {
        let free = u64::from(depth) - qp.in_flight();
        let left = self.target.map_or(u64::MAX, |target| target - self.posted(qp));
        let count = free.min(left).min(AT_ONCE);
        if count == 0 {
            return Ok(0);
        }
        let (slots, len) = (trial.slots() as u64, trial.size.0 as u32);
        let every = trial.requests_per_completion(depth);
        let mut requests: Vec<WorkRequest> = Vec::with_capacity(count as usize);
        for _ in 0..count {
            let message = self.posted(qp);
            let is_last = self.target.is_some_and(|target| message + slots >= target);
            let at = (message % slots) as usize * trial.stride();
            let source = if is_last { Buffer::Last } else { Buffer::Before };
            let is_end = self.target == Some(message + 1);
            let signalled = is_end || qp.posted + 1 - self.signalled >= every;
            let request = match trial.operation {
                Operation::Write => {
                    qp.request(Opcode::Write, len, (source, at), (Buffer::Receive, at), signalled)
                }
                Operation::Send => {
                    qp.request(Opcode::Send, len, (source, at), (Buffer::Receive, at), signalled)
                }
                Operation::Read => {
                    qp.request(Opcode::Read, len, (Buffer::Receive, at), (source, at), signalled)
                }
            };
            if signalled {
                self.signalled = qp.posted;
            }
            requests.push(request);
        }
        // SAFETY: what is sent is not changed until the next trial, before which all requests have completed; what is read
        // into is looked at after that, too.
        unsafe { qp.post(&requests) }?;
        Ok(count)
    }
}
