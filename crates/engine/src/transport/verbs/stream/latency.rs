//! One message at a time, there and back.
//!
//! The first end takes the time of every round trip; half of it is the latency (a read's is the whole: it goes there and
//! back by itself). Where completions are polled, writes are noticed as perftest does it, by watching the last byte in
//! memory; where they wake, writes carry a number along, because memory wakes nobody.

use super::super::queue_pair::Work;
use super::memory::Area;
use super::open::Stream;
use super::pattern::{Content, Place};
use super::talk::Word;
use super::vigil::Vigil;
use super::{Check, Checked, Extent, Operation, Outcome, StreamError, Trial};
use crate::launch::clock;
use record::units::{Bytes, Nanos};

/// Round trips before those that count.
const WARM_UP: u64 = 10;
/// Of requests that carry their bytes within them, one of so many shows up when it completes.
const INLINE_COMPLETIONS: u64 = 16;
/// Round trips between looks at what else happens.
const ROUNDS: u64 = 4096;
/// Messages that take so long that it may be done every time.
const LONG: Bytes = Bytes(256 << 10);

/// How far a ping-pong is.
struct Rally {
    /// Messages sent and arrived.
    sent: u64,
    arrived: u64,
    /// What the queue pair had counted before.
    arrived_before: u64,
    /// The request that used each source area last.
    used: [u64; 2],
    signalled: u64,
    checked: Checked,
}

/// The last byte of message `number`: never that of the message before.
fn stamp(number: u64) -> u8 {
    (number % 251) as u8 + 1
}

impl Stream {
    pub(super) fn latency(
        &mut self,
        trial: &Trial,
        moving: &mut dyn FnMut(),
    ) -> Result<Outcome, StreamError> {
        let len = trial.size.as_usize();
        let (me, peer) = (self.between.me, self.between.peer);
        let watches = self.watches(trial);
        let lane = &mut self.lanes[0];
        lane.expected = trial.size.0 as u32;
        let place = |from| Place {
            seed: trial.seed,
            from,
            queue_pair: 0,
            slot: 0,
        };
        // SAFETY: between trials nothing is under way in either direction.
        unsafe {
            lane.memory.fill(Area::Before, 0, len, place(me), Content::Last);
            lane.memory.fill(Area::Last, 0, len, place(me), Content::Last);
            lane.memory
                .fill(Area::Landing, 0, len, place(peer), Content::Untouched);
            if watches {
                // No message has this.
                lane.memory.clear_landing(len - 1);
            }
        }
        let mut rally = Rally {
            sent: 0,
            arrived: 0,
            arrived_before: lane.arrived,
            used: [0; 2],
            signalled: lane.posted,
            checked: Checked::default(),
        };
        self.meet(trial)?;
        let samples = match (trial.operation, self.between.is_first) {
            (Operation::Read, true) => self.read_one_by_one(trial, moving)?,
            (Operation::Read, false) => {
                self.wait_for_end(moving)?;
                Vec::new()
            }
            (_, true) => self.serve(trial, &mut rally, moving)?,
            (_, false) => {
                self.volley(trial, &mut rally, moving)?;
                Vec::new()
            }
        };
        self.settle()?;
        self.talk.say(Word::Done(rally.sent))?;
        if self.between.is_first {
            self.wait_for_end(moving)?;
        } else if trial.operation == Operation::Read {
            return Ok(Outcome::default());
        }
        let checked = match (trial.operation, trial.check) {
            (Operation::Read, _) => {
                // SAFETY: the last read has completed.
                unsafe { self.lanes[0].memory.check(0, len, place(peer)) }
            }
            (_, Check::Every) => rally.checked,
            (_, Check::Last) => self.check_message(trial, rally.arrived),
        };
        Ok(Outcome {
            sent: None,
            samples,
            checked: Some(checked),
        })
    }

    /// Whether arrivals are noticed in memory.
    fn watches(&self, trial: &Trial) -> bool {
        trial.operation == Operation::Write && !self.sleeps()
    }

    /// The first end: sends, waits for the answer, takes the time.
    fn serve(
        &mut self,
        trial: &Trial,
        rally: &mut Rally,
        moving: &mut dyn FnMut(),
    ) -> Result<Vec<u64>, StreamError> {
        let mut samples = Vec::new();
        let mut vigil = self.vigil();
        let mut begun = clock::now();
        let mut counted_from = begun;
        loop {
            self.send_message(trial, rally, &mut vigil)?;
            self.await_message(trial, rally, &mut vigil)?;
            let now = clock::now();
            match rally.arrived {
                arrived if arrived > WARM_UP => samples.push(now.since(begun).0 / 2),
                WARM_UP => counted_from = now,
                _ => {}
            }
            if trial.check == Check::Every {
                let one = self.check_message(trial, rally.arrived);
                rally.checked = std::mem::take(&mut rally.checked).and(one);
            }
            if is_enough(trial, samples.len() as u64, now.since(counted_from)) {
                return Ok(samples);
            }
            self.now_and_then(trial, rally.sent, &mut vigil, moving)?;
            begun = match trial.check {
                Check::Every => clock::now(),
                Check::Last => now,
            };
        }
    }

    /// The second end: answers whatever comes until the first says that it was the last.
    fn volley(
        &mut self,
        trial: &Trial,
        rally: &mut Rally,
        moving: &mut dyn FnMut(),
    ) -> Result<(), StreamError> {
        let mut vigil = self.vigil();
        loop {
            if self.await_message_or_end(trial, rally, &mut vigil)? {
                return Ok(());
            }
            if trial.check == Check::Every {
                let one = self.check_message(trial, rally.arrived);
                rally.checked = std::mem::take(&mut rally.checked).and(one);
            }
            self.send_message(trial, rally, &mut vigil)?;
            self.now_and_then(trial, rally.sent, &mut vigil, moving)?;
        }
    }

    fn now_and_then(
        &mut self,
        trial: &Trial,
        round: u64,
        vigil: &mut Vigil,
        moving: &mut dyn FnMut(),
    ) -> Result<(), StreamError> {
        let often = match trial.size >= LONG {
            true => 1,
            false if self.sleeps() => ROUNDS / 64,
            false => ROUNDS,
        };
        if round.is_multiple_of(often) {
            self.glance_around(vigil, "messages")?;
            moving();
        }
        Ok(())
    }

    /// Sends the next message.
    fn send_message(
        &mut self,
        trial: &Trial,
        rally: &mut Rally,
        vigil: &mut Vigil,
    ) -> Result<(), StreamError> {
        let len = trial.size.as_usize();
        let work = match (trial.operation, self.sleeps()) {
            (Operation::Write, false) => Work::Write,
            (Operation::Write, true) => Work::WriteWith(rally.sent as u32),
            _ => Work::Send,
        };
        let number = rally.sent + 1;
        let side = (number % 2) as usize;
        let area = [Area::Before, Area::Last][side];
        let inline = self.lanes[0].is_inline(work, len as u32);
        let until = match inline {
            // Its memory was free at once; only the queue may be full.
            true => (self.lanes[0].posted + 1).saturating_sub(u64::from(self.terms.depth)),
            false => rally.used[side],
        };
        while self.lanes[0].completed < until {
            if !self.look()? {
                self.idle(vigil, "completions")?;
            }
        }
        let lane = &mut self.lanes[0];
        // SAFETY: what used this area last has completed, or took a copy of it.
        unsafe {
            if trial.check == Check::Every {
                let place = Place {
                    seed: trial.seed,
                    from: self.between.me,
                    queue_pair: 0,
                    slot: number,
                };
                lane.memory.fill(area, 0, len, place, Content::Last);
            }
            lane.memory.set(area, len - 1, stamp(number));
        }
        let every = if inline {
            INLINE_COMPLETIONS.min(u64::from(self.terms.depth))
        } else {
            1
        };
        let signalled = lane.posted + 1 - rally.signalled >= every;
        let request = lane.request(work, len as u32, (area, 0), (Area::Landing, 0), signalled);
        rally.used[side] = lane.posted;
        if signalled {
            rally.signalled = lane.posted;
        }
        // SAFETY: the area is not touched before this request has completed.
        unsafe { lane.post(&[request]) }?;
        rally.sent = number;
        Ok(())
    }

    /// Whether the next message is there.
    fn has_arrived(&self, trial: &Trial, rally: &Rally) -> bool {
        let lane = &self.lanes[0];
        match self.watches(trial) {
            true => lane.memory.glance(trial.size.as_usize() - 1) == stamp(rally.arrived + 1),
            false => lane.arrived - rally.arrived_before > rally.arrived,
        }
    }

    fn await_message(
        &mut self,
        trial: &Trial,
        rally: &mut Rally,
        vigil: &mut Vigil,
    ) -> Result<(), StreamError> {
        match self.await_message_or_end(trial, rally, vigil)? {
            false => Ok(()),
            true => Err(StreamError::Failed("the other end stopped answering".to_string())),
        }
    }

    /// Waits for the next message; whether the other end has said instead that there is none.
    fn await_message_or_end(
        &mut self,
        trial: &Trial,
        rally: &mut Rally,
        vigil: &mut Vigil,
    ) -> Result<bool, StreamError> {
        let watches = self.watches(trial);
        let mut looks = 0u32;
        loop {
            if self.has_arrived(trial, rally) {
                rally.arrived += 1;
                vigil.moved();
                return Ok(false);
            }
            looks = looks.wrapping_add(1);
            // Memory tells nothing about failures.
            let asks = !watches || looks.is_multiple_of(64);
            let news = asks && self.look()?;
            if !news {
                self.idle(vigil, "a message")?;
            }
            if ((self.sleeps() && !news) || looks.is_multiple_of(1024))
                && let Some(Word::Done(_)) = self.talk.hear_now()?
            {
                return Ok(true);
            }
        }
    }

    /// Compares message `number`, which has arrived and was not answered, with what it should be.
    fn check_message(&mut self, trial: &Trial, number: u64) -> Checked {
        let len = trial.size.as_usize();
        let place = Place {
            seed: trial.seed,
            from: self.between.peer,
            queue_pair: 0,
            slot: match trial.check {
                Check::Every => number,
                Check::Last => 0,
            },
        };
        let memory = &mut self.lanes[0].memory;
        // The last byte is the number of the message.
        let last = memory.glance(len - 1);
        // SAFETY: the message has arrived, and the other end sends no other before it was answered.
        let mut checked = unsafe { memory.check(0, len - 1, place) };
        if last != stamp(number) {
            checked.wrong += 1;
            let problem = format!("the last byte of message {number} is {last:#04x}");
            checked.first.get_or_insert(problem);
        }
        checked
    }

    /// Reads, one after the other.
    fn read_one_by_one(&mut self, trial: &Trial, moving: &mut dyn FnMut()) -> Result<Vec<u64>, StreamError> {
        let mut samples = Vec::new();
        let mut vigil = self.vigil();
        let mut counted_from = clock::now();
        for round in 1.. {
            let begun = clock::now();
            let lane = &mut self.lanes[0];
            let request = lane.request(
                Work::Read,
                trial.size.0 as u32,
                (Area::Landing, 0),
                (Area::Last, 0),
                true,
            );
            // SAFETY: the landing area is looked at when the last read has completed.
            unsafe { lane.post(&[request]) }?;
            let number = lane.posted;
            while self.lanes[0].completed < number {
                if !self.look()? {
                    self.idle(&mut vigil, "a read")?;
                }
            }
            vigil.moved();
            let now = clock::now();
            match round {
                round if round > WARM_UP => samples.push(now.since(begun).0),
                WARM_UP => counted_from = now,
                _ => {}
            }
            if is_enough(trial, samples.len() as u64, now.since(counted_from)) {
                break;
            }
            self.now_and_then(trial, round, &mut vigil, moving)?;
        }
        Ok(samples)
    }

    /// Nothing to do but to hear when the other end is done.
    fn wait_for_end(&mut self, moving: &mut dyn FnMut()) -> Result<(), StreamError> {
        let mut vigil = self.vigil();
        loop {
            match self.talk.hear_now()? {
                Some(Word::Done(_)) => return Ok(()),
                Some(_) => {
                    vigil.moved();
                    moving();
                }
                None => {
                    self.look()?;
                    self.sleep(&mut vigil, false, "the other end's last message")?;
                }
            }
        }
    }

    /// Waits until nothing of this end is under way, but for requests that took their bytes along.
    fn settle(&mut self) -> Result<(), StreamError> {
        let mut vigil = self.vigil();
        let lane = &mut self.lanes[0];
        if lane.under_way() == 0 {
            return Ok(());
        }
        // An empty write behind all others: when it is done, they are.
        let request = lane.request(Work::Write, 0, (Area::Before, 0), (Area::Landing, 0), true);
        let number = lane.posted;
        // SAFETY: it names no memory of this side.
        unsafe { lane.post(&[request]) }?;
        while self.lanes[0].completed < number {
            if !self.look()? {
                self.idle(&mut vigil, "the last completions")?;
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
