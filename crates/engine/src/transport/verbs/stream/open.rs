//! A stream: its queue pairs brought up, and the waiting that both engines share.

use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::super::card::{self, Card};
use super::super::connect::{Opened, Tuning, bring_up, default_completion, end_of, introduce, patience};
use super::super::introduction::Introduction;
use super::super::nic::Nic;
use super::super::queue_pair::{Depths, QueuePair};
use super::lane::Lane;
use super::memory::Memory;
use super::talk::{Talk, Word};
use super::vigil::Vigil;
use super::{Between, Outcome, Question, StreamError, Terms, Trial};
use crate::transport::Line;
use record::{Completion, FlowRecord};

/// Messages a queue pair has room for.
const ROOM: u32 = 512;
/// Reads under way at a time, at most.
const READS: u8 = 16;
/// A receiver without room is asked again for ever: this side's own deadline ends it.
const FOR_EVER: u8 = 7;
/// The longest sleep: after it the clock and the order to stop are looked at.
const LONGEST_SLEEP: u16 = 100;
/// When nothing moves for so long, the device is asked whether it is still there.
const UNUSUAL: Duration = Duration::from_millis(300);

/// Queue pairs between two ranks, and the connection on which they met.
pub struct Stream {
    pub(super) lanes: Vec<Lane>,
    pub(super) talk: Talk,
    pub(super) between: Between,
    pub(super) terms: Terms,
    sleeps: bool,
    stop: Arc<AtomicBool>,
    nic: Arc<Nic>,
}

impl Stream {
    /// Makes the queue pairs and connects them, the same at both ends.
    pub fn open(
        line: Line<'_>,
        between: Between,
        terms: Terms,
        stop: Arc<AtomicBool>,
    ) -> Result<Stream, StreamError> {
        let mut stream = line.stream;
        let opened = line
            .nics
            .of(line.local, terms.verbs.gid_index)
            .and_then(|nic| connect(&mut stream, &nic, &between, &terms).map(|lanes| (nic, lanes)));
        let (nic, lanes) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                card::apologise(&mut stream, &error.to_string());
                let Between { me, peer, rail, .. } = &between;
                let reason = format!("{rail} between rank {me} and rank {peer}: {error}");
                return Err(StreamError::Failed(reason));
            }
        };
        let talk = Talk::new(stream).map_err(|error| StreamError::Failed(error.to_string()))?;
        let completion = terms.verbs.completion.unwrap_or_else(default_completion);
        Ok(Stream {
            lanes,
            talk,
            between,
            terms,
            sleeps: completion == Completion::Event,
            stop,
            nic,
        })
    }

    /// What its queue pairs are called on the wire.
    pub fn flows(&self) -> Vec<FlowRecord> {
        self.lanes.iter().map(|lane| lane.flow.clone()).collect()
    }

    /// Runs a trial together with the other end. `moving` is called now and then while messages move.
    pub fn run(&mut self, trial: &Trial, moving: &mut dyn FnMut()) -> Result<Outcome, StreamError> {
        let outcome = match trial.question {
            Question::Bandwidth | Question::Bidirectional => self.bandwidth(trial, moving),
            Question::Latency => self.latency(trial, moving),
        };
        if let Err(error) = &outcome {
            match error {
                StreamError::Peer(_) => {}
                StreamError::Failed(reason) => self.talk.apologise(reason),
                StreamError::Stopped => self.talk.apologise("it was told to stop"),
            }
            for lane in &mut self.lanes {
                lane.pair.fail();
            }
        }
        outcome
    }

    /// Whether it sleeps until it is woken.
    pub(super) fn sleeps(&self) -> bool {
        self.sleeps
    }

    /// Says that this end is ready and waits until the other is.
    pub(super) fn meet(&mut self, trial: &Trial) -> Result<(), StreamError> {
        self.talk.say(Word::Ready(trial.seed))?;
        let mut vigil = self.vigil();
        loop {
            match self.talk.hear_now()? {
                Some(Word::Ready(seed)) if seed == trial.seed => return Ok(()),
                Some(Word::Ready(_)) => {
                    let problem = "the two ends are not at the same trial";
                    return Err(StreamError::Failed(problem.to_string()));
                }
                Some(_) => {}
                None => self.sleep(&mut vigil, false, "the other end to get ready")?,
            }
        }
    }

    pub(super) fn vigil(&self) -> Vigil {
        Vigil::new()
    }

    /// Looks at all queue pairs; whether anything was new.
    pub(super) fn look(&mut self) -> Result<bool, StreamError> {
        let mut news = false;
        for lane in &mut self.lanes {
            news |= lane.look()?;
        }
        Ok(news)
    }

    /// Nothing was new: looks again at once, or sleeps until something is. Whether something was new after all, which nobody
    /// will be told of again.
    pub(super) fn idle(&mut self, vigil: &mut Vigil, waiting_for: &str) -> Result<bool, StreamError> {
        if !self.sleeps {
            if vigil.look() {
                self.glance_around(vigil, waiting_for)?;
            }
            return Ok(false);
        }
        for lane in &mut self.lanes {
            lane.arm()?;
        }
        // What completed before that wakes nobody.
        if self.look()? {
            vigil.moved();
            return Ok(true);
        }
        self.sleep(vigil, true, waiting_for)?;
        Ok(false)
    }

    /// Sleeps until the other end says something, or a queue pair does when they are armed.
    pub(super) fn sleep(
        &mut self,
        vigil: &mut Vigil,
        armed: bool,
        waiting_for: &str,
    ) -> Result<(), StreamError> {
        let mut wanted = vec![PollFd::new(self.talk.descriptor(), PollFlags::POLLIN)];
        if armed {
            let queues = self
                .lanes
                .iter()
                .map(|lane| lane.pair.completions_ref().descriptor());
            wanted.extend(queues.map(|queue| PollFd::new(queue, PollFlags::POLLIN)));
        }
        let woken = match poll(&mut wanted, PollTimeout::from(LONGEST_SLEEP)) {
            Ok(woken) => woken,
            Err(nix::errno::Errno::EINTR) => 0,
            Err(error) => return Err(StreamError::Failed(format!("cannot wait: {error}"))),
        };
        let is_set = |wanted: &PollFd<'_>| wanted.any().unwrap_or(false);
        let set: Vec<bool> = wanted.iter().map(is_set).collect();
        for (lane, _) in self.lanes.iter_mut().zip(&set[1..]).filter(|(_, set)| **set) {
            lane.wake();
        }
        if woken == 0 || set[0] {
            self.glance_around(vigil, waiting_for)?;
        }
        Ok(())
    }

    /// Looks at the clock and whether somebody wants this end to stop.
    pub(super) fn glance_around(&mut self, vigil: &mut Vigil, waiting_for: &str) -> Result<(), StreamError> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(StreamError::Stopped);
        }
        let now = Instant::now();
        let speaks = vigil.speaks(now);
        if speaks {
            self.talk.say(Word::Moving)?;
        }
        let silent = vigil.silent(now);
        if silent >= Duration::from(self.terms.deadline) {
            let Between { me, peer, rail, .. } = &self.between;
            let ends = self.lanes.first().map_or_else(
                || format!("{rail} between rank {me} and rank {peer}"),
                |lane| format!("{rail} from {} to {}", lane.here, lane.there),
            );
            return Err(StreamError::Failed(format!(
                "{ends}: nothing moved for {:.1} s while waiting for {waiting_for}",
                silent.as_secs_f64()
            )));
        }
        match speaks || silent >= UNUSUAL {
            true => self.nic_answers(),
            false => Ok(()),
        }
    }

    fn nic_answers(&self) -> Result<(), StreamError> {
        self.nic.answers().map_err(|why| match self.lanes.first() {
            Some(lane) => lane.failed(why),
            None => StreamError::Failed(why),
        })
    }
}

/// Both ends make their queue pairs, tell each other, connect, and tell each other that.
fn connect(
    stream: &mut TcpStream,
    nic: &Arc<Nic>,
    between: &Between,
    terms: &Terms,
) -> io::Result<Vec<Lane>> {
    let deadline = Instant::now() + Duration::from(terms.deadline);
    let limits = nic.context().limits();
    let most = limits.work_requests.min(limits.completions / 2);
    if terms.depth > most {
        return Err(io::Error::other(format!(
            "{} takes at most {most} requests at a time, {} were asked for",
            nic.port.device, terms.depth
        )));
    }
    let room = ROOM.min(most);
    let depths = Depths {
        sends: terms.depth,
        receives: room,
        inline: terms.inline,
    };
    let mut made = Vec::new();
    for _ in 0..terms.queue_pairs {
        let memory = Memory::new(nic, terms).map_err(|error| memory_refused(&error, terms))?;
        let pair = QueuePair::new(nic.domain(), nic.port.port, depths)?;
        let opened = Opened {
            memory: memory.start(),
            key: memory.remote_key(),
            slots: u32::from(limits.reads.clamp(1, READS)),
            slot_bytes: memory.area_bytes(),
        };
        let card = introduce(nic, &pair, opened)?;
        card.send(stream)?;
        made.push((pair, memory, card));
    }
    patience(stream, deadline)?;
    let mut lanes = Vec::new();
    for (number, (mut pair, memory, mine)) in (0..).zip(made) {
        let theirs = Card::receive(stream)?;
        if theirs.slot_bytes != mine.slot_bytes {
            return Err(io::Error::other("its memory is of another size"));
        }
        let wanted = Introduction {
            me: between.me,
            peer: between.peer,
            rail: between.rail.clone(),
            flow: number,
            flows: terms.queue_pairs,
            source_port: terms.source_port(between.me > between.peer, number),
            terms: terms.verbs,
            placed: false,
        };
        let tuning = Tuning {
            not_ready_retries: FOR_EVER,
            reads: mine.slots.min(theirs.slots).min(u32::from(READS)) as u8,
        };
        let flow = bring_up(&mut pair, nic, &mine, &theirs, &wanted, tuning)?;
        let ends = (end_of(between.me, &mine), end_of(between.peer, &theirs));
        let mut lane = Lane::new(pair, memory, theirs, ends, flow, room);
        lane.make_room()
            .map_err(|error| io::Error::other(error.to_string()))?;
        lanes.push(lane);
    }
    card::say_ready(stream)?;
    patience(stream, deadline)?;
    card::hear_ready(stream)?;
    Ok(lanes)
}

/// Locked memory is what most often is missing, and nothing in the error says so.
fn memory_refused(error: &io::Error, terms: &Terms) -> io::Error {
    let bytes = 3 * terms.area() * usize::from(terms.queue_pairs);
    let advice = match error.raw_os_error() {
        Some(nix::libc::ENOMEM) => "; raise the limit of locked memory (ulimit -l unlimited)",
        _ => "",
    };
    io::Error::other(format!(
        "{bytes} bytes of memory could not be registered: {error}{advice}"
    ))
}
