//! As much as goes through: every queue pair kept full, one bell for many requests, few completions.

use super::super::queue_pair::{Request, Work};
use super::lane::Lane;
use super::marks::Marks;
use super::memory::Area;
use super::open::Stream;
use super::pattern::{Content, Place};
use super::talk::Word;
use super::{Checked, Extent, Operation, Outcome, Question, Sent, StreamError, Trial};
use crate::launch::clock;

/// Requests posted with one ring of the bell, at most.
const AT_ONCE: u64 = 64;
/// While messages keep coming, how many rounds pass between looks at what else happens.
const ROUNDS: u32 = 4096;
/// While messages are polled for, how many looks pass between asking whether the other end has said something.
const LOOKS_BETWEEN_WORDS: u32 = 256;

/// How far one queue pair is in a trial.
struct Course {
    /// Numbers of the lane when the trial began.
    posted_before: u64,
    /// The last request that shows up when it completes.
    signalled: u64,
    /// Messages to send; not known yet in a trial that lasts for a time.
    target: Option<u64>,
}

impl Stream {
    pub(super) fn bandwidth(
        &mut self,
        trial: &Trial,
        moving: &mut dyn FnMut(),
    ) -> Result<Outcome, StreamError> {
        let both = trial.question == Question::Bidirectional;
        let (sends, hears) = (both || self.between.is_first, both || !self.between.is_first);
        let size = trial.size.0 as u32;
        let before: Vec<u64> = self.lanes.iter().map(|lane| lane.arrived).collect();
        for (number, lane) in (0..).zip(&mut self.lanes) {
            lane.expected = size;
            prepare(lane, trial, self.between.me, self.between.peer, number);
        }
        self.meet(trial)?;
        let mut heard = None;
        let sent = match sends {
            true => Some(self.send_all(trial, &mut heard, moving)?),
            false => None,
        };
        if let Some(sent) = &sent {
            self.talk.say(Word::Done(sent.messages))?;
        }
        if hears {
            let counts = trial.operation == Operation::Send;
            self.hear_all(counts.then_some(&before[..]), heard, moving)?;
        }
        // Who reads has the data here; who is written or sent to, too.
        let arrives_here = match trial.operation {
            Operation::Read => sends,
            Operation::Write | Operation::Send => hears,
        };
        let checked = arrives_here.then(|| self.check_all(trial, sent.as_ref()));
        Ok(Outcome {
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
    ) -> Result<Sent, StreamError> {
        let mut courses: Vec<Course> = self.lanes.iter().map(|lane| Course::of(lane, trial)).collect();
        let mut marks = Marks::default();
        let mut vigil = self.vigil();
        let (mut posted, mut rounds) = (0, 0u32);
        let started = clock::now();
        let mut now = started;
        loop {
            if let Extent::Lasting(time) = trial.extent
                && now.since(started) >= time
            {
                courses
                    .iter_mut()
                    .zip(&self.lanes)
                    .for_each(|(course, lane)| course.end(lane, trial));
            }
            let mut requests = 0;
            for (lane, course) in self.lanes.iter_mut().zip(&mut courses) {
                requests += course.post(lane, trial, self.terms.depth)?;
            }
            if requests > 0 {
                marks.posting(posted, now);
                posted += requests;
            }
            let mut news = self.look()?;
            if !news && requests == 0 {
                // What it has seen counts, too: it may have been the last there is.
                news = self.idle(&mut vigil, "completions")?;
                if matches!(trial.extent, Extent::Lasting(_)) {
                    now = clock::now();
                }
                if let Some(Word::Done(messages)) = self.talk.hear_now()? {
                    *heard = Some(messages);
                }
            }
            if news {
                now = clock::now();
                let done = self
                    .lanes
                    .iter()
                    .zip(&courses)
                    .map(|(lane, course)| course.completed(lane));
                let completed = done.sum();
                marks.completed(completed, now);
                vigil.moved();
                if courses
                    .iter()
                    .zip(&self.lanes)
                    .all(|(course, lane)| course.is_done(lane))
                {
                    return Ok(Sent {
                        messages: completed,
                        took: now.since(started),
                        peak: marks.peak().unwrap_or(0.0),
                    });
                }
            }
            rounds = rounds.wrapping_add(1);
            if rounds.is_multiple_of(ROUNDS) || (self.sleeps() && rounds.is_multiple_of(ROUNDS / 64)) {
                self.glance_around(&mut vigil, "completions")?;
                moving();
            }
        }
    }

    /// Waits until the other end has sent its last message, and until all of them are here where they can be counted.
    fn hear_all(
        &mut self,
        counted_from: Option<&[u64]>,
        mut heard: Option<u64>,
        moving: &mut dyn FnMut(),
    ) -> Result<(), StreamError> {
        let mut vigil = self.vigil();
        let waiting_for = "messages of the other end";
        let mut looks = 0u32;
        loop {
            let news = self.look()?;
            if news {
                vigil.moved();
            }
            looks = looks.wrapping_add(1);
            // Asking costs a call to the kernel, which who polls does not make often. After its last word the other end may be
            // gone, and rightly so.
            let often = self.sleeps() || counted_from.is_none() || looks.is_multiple_of(LOOKS_BETWEEN_WORDS);
            let asks = heard.is_none() && often;
            match asks.then(|| self.talk.hear_now()).transpose()?.flatten() {
                Some(Word::Done(messages)) => heard = Some(messages),
                Some(_) => {
                    vigil.moved();
                    moving();
                }
                None => {}
            }
            let is_here = |messages: u64| {
                let arrived = counted_from.map(|before| {
                    let each = self
                        .lanes
                        .iter()
                        .zip(before)
                        .map(|(lane, before)| lane.arrived - before);
                    each.sum::<u64>()
                });
                arrived.is_none_or(|arrived| arrived >= messages)
            };
            match (heard, counted_from) {
                (Some(messages), _) if is_here(messages) => return Ok(()),
                _ if news => {}
                (_, Some(_)) => drop(self.idle(&mut vigil, waiting_for)?),
                // Nothing will show up in a queue: there is no need to watch it.
                (_, None) => self.sleep(&mut vigil, false, waiting_for)?,
            }
        }
    }

    /// Compares what the last messages left with what they were. All have arrived.
    fn check_all(&mut self, trial: &Trial, sent: Option<&Sent>) -> Checked {
        let from = self.between.peer;
        let lanes = self.lanes.len() as u64;
        // In a trial that lasts for a time, at least one round of places was sent.
        let each = match trial.extent {
            Extent::Iterations(count) => count,
            Extent::Lasting(_) => sent.map_or(u64::MAX, |sent| sent.messages / lanes),
        };
        let mut checked = Checked::default();
        for (number, lane) in (0..).zip(&mut self.lanes) {
            for slot in 0..(trial.slots() as u64).min(each) {
                let at = slot as usize * trial.stride();
                let place = place(trial, from, number, slot);
                // SAFETY: the other end has said that its last message is through, and sends no other before this end
                // says that it is ready for the next trial.
                let one = unsafe { lane.memory.check(at, trial.size.as_usize(), place) };
                checked = checked.and(one);
            }
        }
        checked
    }
}

fn place(trial: &Trial, from: u32, queue_pair: u16, slot: u64) -> Place {
    Place {
        seed: trial.seed,
        from,
        queue_pair,
        slot,
    }
}

/// Fills what is sent, and what is waited for with something else.
fn prepare(lane: &mut Lane, trial: &Trial, me: u32, peer: u32, number: u16) {
    let len = trial.size.as_usize();
    for slot in 0..trial.slots() {
        let at = slot * trial.stride();
        let mine = place(trial, me, number, slot as u64);
        let theirs = place(trial, peer, number, slot as u64);
        // SAFETY: between trials nothing is under way in either direction: this end has waited for its completions, and
        // the other waits until this one says that it is ready.
        unsafe {
            lane.memory.fill(Area::Before, at, len, mine, Content::Before);
            lane.memory.fill(Area::Last, at, len, mine, Content::Last);
            lane.memory
                .fill(Area::Landing, at, len, theirs, Content::Untouched);
        }
    }
}

impl Course {
    fn of(lane: &Lane, trial: &Trial) -> Course {
        Course {
            posted_before: lane.posted,
            signalled: lane.posted,
            target: match trial.extent {
                Extent::Iterations(count) => Some(count),
                Extent::Lasting(_) => None,
            },
        }
    }

    fn posted(&self, lane: &Lane) -> u64 {
        lane.posted - self.posted_before
    }

    fn completed(&self, lane: &Lane) -> u64 {
        lane.completed.saturating_sub(self.posted_before)
    }

    fn is_done(&self, lane: &Lane) -> bool {
        self.target == Some(self.completed(lane))
    }

    /// The time is over: one more message into every place, and that is all.
    fn end(&mut self, lane: &Lane, trial: &Trial) {
        let last_round = self.posted(lane) + trial.slots() as u64;
        self.target.get_or_insert(last_round);
    }

    /// Posts what there is room for; how many requests that were.
    fn post(&mut self, lane: &mut Lane, trial: &Trial, depth: u32) -> Result<u64, StreamError> {
        let free = u64::from(depth) - lane.under_way();
        let left = self.target.map_or(u64::MAX, |target| target - self.posted(lane));
        let count = free.min(left).min(AT_ONCE);
        if count == 0 {
            return Ok(0);
        }
        let (slots, len) = (trial.slots() as u64, trial.size.0 as u32);
        let every = trial.requests_per_completion(depth);
        let mut requests: Vec<Request> = Vec::with_capacity(count as usize);
        for _ in 0..count {
            let message = self.posted(lane);
            let is_last = self.target.is_some_and(|target| message + slots >= target);
            let at = (message % slots) as usize * trial.stride();
            let source = if is_last { Area::Last } else { Area::Before };
            let is_end = self.target == Some(message + 1);
            let signalled = is_end || lane.posted + 1 - self.signalled >= every;
            let request = match trial.operation {
                Operation::Write => {
                    lane.request(Work::Write, len, (source, at), (Area::Landing, at), signalled)
                }
                Operation::Send => {
                    lane.request(Work::Send, len, (source, at), (Area::Landing, at), signalled)
                }
                Operation::Read => {
                    lane.request(Work::Read, len, (Area::Landing, at), (source, at), signalled)
                }
            };
            if signalled {
                self.signalled = lane.posted;
            }
            requests.push(request);
        }
        // SAFETY: what is sent is not changed until the next trial, before which all requests have completed; what is read
        // into is looked at after that, too.
        unsafe { lane.post(&requests) }?;
        Ok(count)
    }
}
