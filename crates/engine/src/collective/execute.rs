//! Running a schedule on real memory over real channels, one rank's part of it.
//!
//! The executor knows no algorithm. It holds three things true: steps on one block happen in the schedule's order, chunk by
//! chunk; steps with one peer and direction happen in the schedule's order; nothing else is ordered. So while chunk k is
//! reduced, chunk k+1 is on the wire, and a chunk is passed on the moment it is complete. It never blocks: it looks at every
//! channel in turn, and when nothing moved for the deadline it says which step waits for whom.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::engine::{Conditions, Stopped, Took};
use super::memory::{Buffers, Memory};
use super::program::{Program, Work};
use super::schedule::Action;
use super::wait::Waiter;
use crate::device::{ReadLease, WriteLease};
use crate::launch::clock;
use crate::transport::{Backlog, Channel, LinkError, Received, Sink};
use record::units::Nanos;

/// One channel with this rank's program for it.
struct Side {
    channel: Channel,
    sends: Vec<usize>,
    receives: Vec<usize>,
    /// Position in `sends` and `receives`.
    send: usize,
    receive: usize,
    /// A chunk that the channel had no room for yet.
    outgoing: Option<ReadLease>,
    /// The memory the next chunk will be written to.
    incoming: Option<WriteLease>,
    /// Whether chunks arrive where this rank said they belong, and how far it has said so: position in `receives`, chunk.
    placed: bool,
    announced: (usize, usize),
}

/// One rank's part of a cell, ready to run any number of times.
pub struct Execution {
    program: Program,
    sides: Vec<Side>,
    /// Chunks done, per work item.
    done: Vec<usize>,
}

impl Execution {
    /// Joins a program with the channels to the peers it names.
    pub fn new(program: Program, channels: Vec<Channel>) -> Execution {
        let sides = channels
            .into_iter()
            .map(|mut channel| {
                let with_peer = |sends: bool| -> Vec<usize> {
                    let wanted = |work: &Work| work.peer == channel.peer() && work.action.sends() == sends;
                    let works = program.works.iter().enumerate();
                    works
                        .filter(|(_, work)| work.action != Action::Keep && wanted(work))
                        .map(|(at, _)| at)
                        .collect()
                };
                Side {
                    sends: with_peer(true),
                    receives: with_peer(false),
                    send: 0,
                    receive: 0,
                    outgoing: None,
                    incoming: None,
                    placed: channel.is_direct(),
                    announced: (0, 0),
                    channel,
                }
            })
            .collect();
        let done = vec![0; program.works.len()];
        Execution { program, sides, done }
    }

    /// The channels, for counting what they moved.
    pub fn channels(&self) -> impl Iterator<Item = &Channel> {
        self.sides.iter().map(|side| &side.channel)
    }

    /// Gives the channels back.
    pub fn into_channels(self) -> Vec<Channel> {
        self.sides.into_iter().map(|side| side.channel).collect()
    }

    /// Runs the collective once. `iteration` is the number of a timed iteration, none for warm-up.
    pub fn run(
        &mut self,
        buffers: &Buffers,
        iteration: Option<u32>,
        conditions: &Conditions<'_>,
    ) -> Result<Took, Stopped> {
        self.done.fill(0);
        for side in &mut self.sides {
            side.channel.begin(iteration);
            (side.send, side.receive) = (0, 0);
            (side.outgoing, side.incoming) = (None, None);
            side.announced = (0, 0);
        }
        let started = clock::now();
        let (sockets, sleeps) = self.waits_on();
        let mut waiter = Waiter::new(conditions.crowded, sockets, sleeps);
        let memory = Memory::stage(buffers);
        self.keep_own(&memory);
        let mut said = started;
        loop {
            let moved = self.pass(&memory, conditions)?;
            if self.is_done() {
                break;
            }
            let aborted = conditions.abort.load(Ordering::Relaxed);
            if moved && !aborted {
                waiter.moved();
                if let Some(say) = conditions.moving
                    && Duration::from(clock::now().since(said)) > conditions.deadline / 2
                {
                    say();
                    said = clock::now();
                }
                continue;
            }
            let idle = waiter.wait(self.sides.iter().flat_map(|side| side.channel.waitables()));
            if aborted || Duration::from(idle) > conditions.deadline {
                let problem = if aborted {
                    "the run is being ended"
                } else {
                    "nothing moved for the deadline"
                };
                return Err(self.stopped(problem, idle, aborted));
            }
        }
        waiter.moved();
        Ok(Took {
            started,
            total: clock::now().since(started),
            waited: waiter.waited(),
        })
    }

    /// Whether there are descriptors to wait on, and whether they are better slept on than looked at.
    fn waits_on(&self) -> (bool, bool) {
        let waitables = self.sides.iter().flat_map(|side| side.channel.waitables());
        waitables.flatten().fold((false, false), |(_, sleeps), waitable| {
            (true, sleeps || waitable.sleeps)
        })
    }

    /// Looks at every channel once; whether anything moved.
    fn pass(&mut self, memory: &Memory<'_>, conditions: &Conditions<'_>) -> Result<bool, Stopped> {
        let mut moved = false;
        for index in 0..self.sides.len() {
            let result = self.send_ready(index, memory).and_then(|sent| {
                let received = self.receive_ready(index, memory, conditions)?;
                Ok(sent || received)
            });
            match result {
                Ok(progress) => moved |= progress,
                Err(error) => {
                    let peer = self.sides[index].channel.peer();
                    let mut stopped = self.stopped(&error.to_string(), Nanos(0), false);
                    stopped.waiting_for = Some(peer);
                    return Err(stopped);
                }
            }
        }
        Ok(moved)
    }

    /// Whether everything that must come before chunk `chunk` of `work` has happened.
    fn is_ready(&self, work: usize, chunk: usize) -> bool {
        self.program.works[work]
            .after
            .iter()
            .all(|earlier| self.done[*earlier] > chunk)
    }

    /// Sends at most one chunk, so that sending and receiving keep pace with each other: a rank that only sends while it can
    /// leaves its peer without work later.
    fn send_ready(&mut self, index: usize, memory: &Memory<'_>) -> Result<bool, LinkError> {
        let moved = self.sides[index].channel.advance()?;
        let Some(&at) = self.sides[index].sends.get(self.sides[index].send) else {
            return Ok(moved);
        };
        let (work, chunk) = (&self.program.works[at], self.done[at]);
        if !self.is_ready(at, chunk) {
            return Ok(moved);
        }
        let source = memory.source(work);
        let side = &mut self.sides[index];
        let lease = side
            .outgoing
            .take()
            .or_else(|| source.try_read(work.chunk(chunk)));
        let Some(lease) = lease else { return Ok(moved) };
        side.outgoing = side.channel.offer(lease)?;
        if side.outgoing.is_some() {
            return Ok(moved);
        }
        self.done[at] += 1;
        if self.done[at] == work.chunks {
            side.send += 1;
        }
        Ok(true)
    }

    /// Receives at most one chunk, so that what it completes can be sent on before the next is looked at.
    fn receive_ready(
        &mut self,
        index: usize,
        memory: &Memory<'_>,
        conditions: &Conditions<'_>,
    ) -> Result<bool, LinkError> {
        let Some(&at) = self.sides[index].receives.get(self.sides[index].receive) else {
            return Ok(false);
        };
        if self.sides[index].placed {
            return self.receive_placed(index, at, memory);
        }
        let (work, chunk) = (&self.program.works[at], self.done[at]);
        if !self.is_ready(at, chunk) {
            return Ok(false);
        }
        let range = work.chunk(chunk);
        let side = &mut self.sides[index];
        let target = side
            .incoming
            .take()
            .or_else(|| memory.output.try_write(range.clone()));
        let Some(mut target) = target else {
            return Ok(false);
        };
        let program = &self.program;
        let input = if work.action != Action::RecvCopy && work.reads_input {
            let Some(input) = memory.input.try_read(range.clone()) else {
                side.incoming = Some(target);
                return Ok(false);
            };
            Some(input)
        } else {
            None
        };
        let reduce = |target: &mut [u8], a: Option<&[u8]>, b: &[u8]| {
            program.reduce(work, target, a, b, conditions.slowdown);
        };
        let received = match &input {
            _ if work.action == Action::RecvCopy => {
                side.channel.receive(range.len(), Sink::Into(&mut target))?
            }
            // What arrives piece by piece is put together where the result belongs, and the input is added to it there.
            Some(input) if side.channel.arrives_in_pieces() => {
                let received = side.channel.receive(range.len(), Sink::Into(&mut target))?;
                if received == Received::Chunk {
                    reduce(&mut target, None, input);
                }
                received
            }
            input => {
                let input = input.as_deref();
                let mut consume = |chunk: &[u8]| reduce(&mut target, input, chunk);
                side.channel.receive(range.len(), Sink::With(&mut consume))?
            }
        };
        match received {
            Received::Chunk => {
                drop(target);
                self.done[at] += 1;
                if self.done[at] == work.chunks {
                    side.receive += 1;
                }
            }
            Received::Some | Received::Nothing => side.incoming = Some(target),
        }
        Ok(received != Received::Nothing)
    }

    /// Says where coming chunks belong, as far ahead as their places are free, and notes at most one that is there.
    fn receive_placed(&mut self, index: usize, at: usize, memory: &Memory<'_>) -> Result<bool, LinkError> {
        let mut moved = false;
        loop {
            let (position, chunk) = self.sides[index].announced;
            let Some(&next) = self.sides[index].receives.get(position) else {
                break;
            };
            if !self.is_ready(next, chunk) {
                break;
            }
            let work = &self.program.works[next];
            let Some(target) = memory.output.try_write(work.chunk(chunk)) else {
                break;
            };
            let side = &mut self.sides[index];
            if side.channel.expect_into(target)?.is_some() {
                break;
            }
            side.announced = match chunk + 1 == work.chunks {
                true => (position + 1, 0),
                false => (position, chunk + 1),
            };
            moved = true;
        }
        let side = &mut self.sides[index];
        let due = (side.receive, self.done[at]);
        if due >= side.announced || side.channel.arrived_direct()?.is_none() {
            return Ok(moved);
        }
        self.done[at] += 1;
        if self.done[at] == self.program.works[at].chunks {
            side.receive += 1;
        }
        Ok(true)
    }

    /// Copies the blocks whose result is this rank's own input.
    fn keep_own(&mut self, memory: &Memory<'_>) {
        for (at, work) in self.program.works.iter().enumerate() {
            if work.action != Action::Keep {
                continue;
            }
            if !memory.in_place
                && let Some(mut target) = memory.output.try_write(work.bytes.clone())
                && let Some(source) = memory.input.try_read(work.bytes.clone())
            {
                target.copy_from_slice(&source);
            }
            self.done[at] = work.chunks;
        }
    }

    fn is_done(&self) -> bool {
        self.sides.iter().all(|side| {
            side.send == side.sends.len() && side.receive == side.receives.len() && side.channel.flushed()
        })
    }

    /// Ways on which packets do not get through: peer, rail, what is not acknowledged.
    pub fn stuck(&self) -> Vec<(u32, String, Backlog)> {
        let mut stuck = Vec::new();
        for side in &self.sides {
            let rails = side.channel.stuck().into_iter();
            stuck.extend(rails.filter_map(|(rail, backlog)| Some((side.channel.peer(), rail?, backlog))));
        }
        stuck
    }

    /// Where this rank stands, in words, and whom it waits for.
    fn stopped(&self, problem: &str, waited: Nanos, aborted: bool) -> Stopped {
        let ready = |at: &usize| self.is_ready(*at, self.done[*at]);
        let receiving = self
            .sides
            .iter()
            .find_map(|side| side.receives.get(side.receive).filter(|at| ready(at)));
        let sending = self
            .sides
            .iter()
            .find_map(|side| side.sends.get(side.send).filter(|at| ready(at)));
        let flushing = self.sides.iter().find(|side| !side.channel.flushed());
        let (step, waiting_for) = match (receiving.or(sending), flushing) {
            (Some(&at), _) => (
                self.program.describe(at, self.done[at]),
                Some(self.program.works[at].peer),
            ),
            (None, Some(side)) => {
                let peer = side.channel.peer();
                (format!("last chunk to rank {peer} not taken"), Some(peer))
            }
            (None, None) => ("between steps".to_string(), None),
        };
        Stopped {
            step,
            waiting_for,
            waited,
            problem: problem.to_string(),
            aborted,
        }
    }
}
