//! Latency: one message at a time, as ping-pong.
//!
//! The first end measures every round trip; half of it is the latency (the whole for a read, which is a round trip by itself). When
//! polling, writes are noticed as in perftest, by polling the last byte in memory; with notifications, writes carry immediate data.

use super::super::queue_pair::Opcode;
use super::buffers::Buffer;
use super::control::ControlMessage;
use super::open::RdmaStream;
use super::pattern::{Content, MessageId};
use super::stall_timer::StallTimer;
use super::{Check, CheckResult, Extent, Operation, StreamError, Trial, TrialResult};
use crate::launch::clock;
use record::units::{Bytes, Nanos};

/// Round trips before those that count.
const WARM_UP: u64 = 10;
/// Of inlined requests, one in so many is signalled.
const INLINE_COMPLETIONS: u64 = 16;
/// Round trips between two checks of clock and stop flag.
const ROUNDS: u64 = 4096;
/// Messages so long that the check may be made every time.
const LONG: Bytes = Bytes(256 << 10);

/// Progress of a ping-pong.
struct PingPong {
    /// Messages sent and arrived.
    sent: u64,
    arrived: u64,
    /// Arrived messages of the queue pair before the trial.
    arrived_before: u64,
    /// The last request that used each send buffer.
    used: [u64; 2],
    signalled: u64,
    checked: CheckResult,
}

/// The last byte of message `number`: never that of the message before.
fn stamp(number: u64) -> u8 {
    (number % 251) as u8 + 1
}

impl RdmaStream {
    pub(super) fn latency(
        &mut self,
        trial: &Trial,
        moving: &mut dyn FnMut(),
    ) -> Result<TrialResult, StreamError> {
        let len = trial.size.as_usize();
        let (me, peer) = (self.stream_ends.me, self.stream_ends.peer);
        let watches = self.watches(trial);
        let qp = &mut self.qps[0];
        qp.expected = trial.size.0 as u32;
        let place = |from| MessageId {
            seed: trial.seed,
            from,
            queue_pair: 0,
            slot: 0,
        };
        // SAFETY: between trials nothing is under way in either direction.
        unsafe {
            qp.memory.fill(Buffer::Before, 0, len, place(me), Content::Last);
            qp.memory.fill(Buffer::Last, 0, len, place(me), Content::Last);
            qp.memory
                .fill(Buffer::Receive, 0, len, place(peer), Content::Untouched);
            if watches {
                // No message has this.
                qp.memory.clear_receive(len - 1);
            }
        }
        let mut ping_pong = PingPong {
            sent: 0,
            arrived: 0,
            arrived_before: qp.arrived,
            used: [0; 2],
            signalled: qp.posted,
            checked: CheckResult::default(),
        };
        self.synchronise(trial)?;
        let samples = match (trial.operation, self.stream_ends.is_first) {
            (Operation::Read, true) => self.read_one_by_one(trial, moving)?,
            (Operation::Read, false) => {
                self.wait_for_end(moving)?;
                Vec::new()
            }
            (_, true) => self.ping(trial, &mut ping_pong, moving)?,
            (_, false) => {
                self.pong(trial, &mut ping_pong, moving)?;
                Vec::new()
            }
        };
        self.drain()?;
        self.control.send(ControlMessage::Done(ping_pong.sent))?;
        if self.stream_ends.is_first {
            self.wait_for_end(moving)?;
        } else if trial.operation == Operation::Read {
            return Ok(TrialResult::default());
        }
        let checked = match (trial.operation, trial.check) {
            (Operation::Read, _) => {
                // SAFETY: the last read has completed.
                unsafe { self.qps[0].memory.check(0, len, place(peer)) }
            }
            (_, Check::Every) => ping_pong.checked,
            (_, Check::Last) => self.check_message(trial, ping_pong.arrived),
        };
        Ok(TrialResult {
            sent: None,
            samples,
            checked: Some(checked),
        })
    }

    /// Whether arrivals are noticed by polling memory.
    fn watches(&self, trial: &Trial) -> bool {
        trial.operation == Operation::Write && !self.sleeps()
    }

    /// The first end: sends, waits for the answer, measures the time.
    fn ping(
        &mut self,
        trial: &Trial,
        ping_pong: &mut PingPong,
        moving: &mut dyn FnMut(),
    ) -> Result<Vec<u64>, StreamError> {
        let mut samples = Vec::new();
        let mut stall_timer = self.stall_timer();
        let mut begun = clock::now();
        let mut counted_from = begun;
        loop {
            self.send_message(trial, ping_pong, &mut stall_timer)?;
            self.await_message(trial, ping_pong, &mut stall_timer)?;
            let now = clock::now();
            match ping_pong.arrived {
                arrived if arrived > WARM_UP => samples.push(now.since(begun).0 / 2),
                WARM_UP => counted_from = now,
                _ => {}
            }
            if trial.check == Check::Every {
                let one = self.check_message(trial, ping_pong.arrived);
                ping_pong.checked = std::mem::take(&mut ping_pong.checked).and(one);
            }
            if is_enough(trial, samples.len() as u64, now.since(counted_from)) {
                return Ok(samples);
            }
            self.check_periodically(trial, ping_pong.sent, &mut stall_timer, moving)?;
            begun = match trial.check {
                Check::Every => clock::now(),
                Check::Last => now,
            };
        }
    }

    /// The second end: answers every message until the first end is done.
    fn pong(
        &mut self,
        trial: &Trial,
        ping_pong: &mut PingPong,
        moving: &mut dyn FnMut(),
    ) -> Result<(), StreamError> {
        let mut stall_timer = self.stall_timer();
        loop {
            if self.await_message_or_end(trial, ping_pong, &mut stall_timer)? {
                return Ok(());
            }
            if trial.check == Check::Every {
                let one = self.check_message(trial, ping_pong.arrived);
                ping_pong.checked = std::mem::take(&mut ping_pong.checked).and(one);
            }
            self.send_message(trial, ping_pong, &mut stall_timer)?;
            self.check_periodically(trial, ping_pong.sent, &mut stall_timer, moving)?;
        }
    }

    fn check_periodically(
        &mut self,
        trial: &Trial,
        round: u64,
        stall_timer: &mut StallTimer,
        moving: &mut dyn FnMut(),
    ) -> Result<(), StreamError> {
        let often = match trial.size >= LONG {
            true => 1,
            false if self.sleeps() => ROUNDS / 64,
            false => ROUNDS,
        };
        if round.is_multiple_of(often) {
            self.check_stop_and_stall(stall_timer, "messages")?;
            moving();
        }
        Ok(())
    }

    /// Sends the next message.
    fn send_message(
        &mut self,
        trial: &Trial,
        ping_pong: &mut PingPong,
        stall_timer: &mut StallTimer,
    ) -> Result<(), StreamError> {
        let len = trial.size.as_usize();
        let work = match (trial.operation, self.sleeps()) {
            (Operation::Write, false) => Opcode::Write,
            (Operation::Write, true) => Opcode::WriteWithImm(ping_pong.sent as u32),
            _ => Opcode::Send,
        };
        let number = ping_pong.sent + 1;
        let side = (number % 2) as usize;
        let area = [Buffer::Before, Buffer::Last][side];
        let inline = self.qps[0].is_inline(work, len as u32);
        let until = match inline {
            // Inlined: its memory was free at once; only the queue may be full.
            true => (self.qps[0].posted + 1).saturating_sub(u64::from(self.terms.depth)),
            false => ping_pong.used[side],
        };
        while self.qps[0].completed < until {
            if !self.poll_completions()? {
                self.idle(stall_timer, "completions")?;
            }
        }
        let qp = &mut self.qps[0];
        // SAFETY: what used this area last has completed, or took a copy of it.
        unsafe {
            if trial.check == Check::Every {
                let place = MessageId {
                    seed: trial.seed,
                    from: self.stream_ends.me,
                    queue_pair: 0,
                    slot: number,
                };
                qp.memory.fill(area, 0, len, place, Content::Last);
            }
            qp.memory.set(area, len - 1, stamp(number));
        }
        let every = if inline {
            INLINE_COMPLETIONS.min(u64::from(self.terms.depth))
        } else {
            1
        };
        let signalled = qp.posted + 1 - ping_pong.signalled >= every;
        let request = qp.request(work, len as u32, (area, 0), (Buffer::Receive, 0), signalled);
        ping_pong.used[side] = qp.posted;
        if signalled {
            ping_pong.signalled = qp.posted;
        }
        // SAFETY: the area is not touched before this request has completed.
        unsafe { qp.post(&[request]) }?;
        ping_pong.sent = number;
        Ok(())
    }

    /// Whether the next message is there.
    fn has_arrived(&self, trial: &Trial, ping_pong: &PingPong) -> bool {
        let qp = &self.qps[0];
        match self.watches(trial) {
            true => qp.memory.peek(trial.size.as_usize() - 1) == stamp(ping_pong.arrived + 1),
            false => qp.arrived - ping_pong.arrived_before > ping_pong.arrived,
        }
    }

    fn await_message(
        &mut self,
        trial: &Trial,
        ping_pong: &mut PingPong,
        stall_timer: &mut StallTimer,
    ) -> Result<(), StreamError> {
        match self.await_message_or_end(trial, ping_pong, stall_timer)? {
            false => Ok(()),
            true => Err(StreamError::Failed("the peer stopped answering".to_string())),
        }
    }

    /// Waits for the next message; true when the peer is done instead.
    fn await_message_or_end(
        &mut self,
        trial: &Trial,
        ping_pong: &mut PingPong,
        stall_timer: &mut StallTimer,
    ) -> Result<bool, StreamError> {
        let watches = self.watches(trial);
        let mut polls = 0u32;
        loop {
            if self.has_arrived(trial, ping_pong) {
                ping_pong.arrived += 1;
                stall_timer.moved();
                return Ok(false);
            }
            polls = polls.wrapping_add(1);
            // Polling memory does not show failures.
            let asks = !watches || polls.is_multiple_of(64);
            let news = asks && self.poll_completions()?;
            if !news {
                self.idle(stall_timer, "a message")?;
            }
            if ((self.sleeps() && !news) || polls.is_multiple_of(1024))
                && let Some(ControlMessage::Done(_)) = self.control.try_receive()?
            {
                return Ok(true);
            }
        }
    }

    /// Compares message `number`, which has arrived and was not answered, with what was sent.
    fn check_message(&mut self, trial: &Trial, number: u64) -> CheckResult {
        let len = trial.size.as_usize();
        let place = MessageId {
            seed: trial.seed,
            from: self.stream_ends.peer,
            queue_pair: 0,
            slot: match trial.check {
                Check::Every => number,
                Check::Last => 0,
            },
        };
        let memory = &mut self.qps[0].memory;
        // The last byte is the number of the message.
        let last = memory.peek(len - 1);
        // SAFETY: the message has arrived, and the other end sends no other before it was answered.
        let mut checked = unsafe { memory.check(0, len - 1, place) };
        if last != stamp(number) {
            checked.wrong += 1;
            let problem = format!("the last byte of message {number} is {last:#04x}");
            checked.first.get_or_insert(problem);
        }
        checked
    }

    /// RDMA reads, one after the other.
    fn read_one_by_one(&mut self, trial: &Trial, moving: &mut dyn FnMut()) -> Result<Vec<u64>, StreamError> {
        let mut samples = Vec::new();
        let mut stall_timer = self.stall_timer();
        let mut counted_from = clock::now();
        for round in 1.. {
            let begun = clock::now();
            let qp = &mut self.qps[0];
            let request = qp.request(
                Opcode::Read,
                trial.size.0 as u32,
                (Buffer::Receive, 0),
                (Buffer::Last, 0),
                true,
            );
            // SAFETY: the landing area is looked at when the last read has completed.
            unsafe { qp.post(&[request]) }?;
            let number = qp.posted;
            while self.qps[0].completed < number {
                if !self.poll_completions()? {
                    self.idle(&mut stall_timer, "a read")?;
                }
            }
            stall_timer.moved();
            let now = clock::now();
            match round {
                round if round > WARM_UP => samples.push(now.since(begun).0),
                WARM_UP => counted_from = now,
                _ => {}
            }
            if is_enough(trial, samples.len() as u64, now.since(counted_from)) {
                break;
            }
            self.check_periodically(trial, round, &mut stall_timer, moving)?;
        }
        Ok(samples)
    }

    /// Waits until the peer is done.
    fn wait_for_end(&mut self, moving: &mut dyn FnMut()) -> Result<(), StreamError> {
        let mut stall_timer = self.stall_timer();
        loop {
            match self.control.try_receive()? {
                Some(ControlMessage::Done(_)) => return Ok(()),
                Some(_) => {
                    stall_timer.moved();
                    moving();
                }
                None => {
                    self.poll_completions()?;
                    self.sleep(&mut stall_timer, false, "the other end's last message")?;
                }
            }
        }
    }

    /// Waits until no request of this end is in flight, except inlined ones.
    fn drain(&mut self) -> Result<(), StreamError> {
        let mut stall_timer = self.stall_timer();
        let qp = &mut self.qps[0];
        if qp.in_flight() == 0 {
            return Ok(());
        }
        // An empty write after all others: when it completes, they have.
        let request = qp.request(Opcode::Write, 0, (Buffer::Before, 0), (Buffer::Receive, 0), true);
        let number = qp.posted;
        // SAFETY: it names no memory of this side.
        unsafe { qp.post(&[request]) }?;
        while self.qps[0].completed < number {
            if !self.poll_completions()? {
                self.idle(&mut stall_timer, "the last completions")?;
            }
        }
        Ok(())
    }
}

fn is_enough(trial: &Trial, samples: u64, lasted: Nanos) -> bool {
    match trial.extent {
        Extent::Iterations(count) => samples >= count,
        Extent::Lasting(time) => samples > 0 && lasted >= time,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_messages_in_a_row_end_alike_and_none_ends_like_untouched_memory() {
        for number in 0..2000 {
            assert_ne!(stamp(number), stamp(number + 1));
            assert_ne!(stamp(number), 0);
        }
    }
}
