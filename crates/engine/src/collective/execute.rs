//! Running a schedule on real memory over real channels, one rank's part of it.
//!
//! The executor knows no algorithm. It keeps two orders: steps on one block happen in the schedule's order, chunk by chunk, and so
//! do steps with one peer and direction; nothing else is ordered. So while chunk k is reduced, chunk k+1 is on the wire, and a
//! chunk is sent on as soon as it is complete. It never blocks: it polls every channel in turn, and when nothing moved for the
//! deadline it reports which step waits for which rank.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::engine::{Conditions, Stopped, Took};
use super::memory::{Buffers, StepMemory};
use super::program::{Program, ProgramStep};
use super::schedule::Action;
use super::wait::Waiter;
use crate::device::{ReadLease, WriteLease};
use crate::launch::clock;
use crate::transport::{Backlog, Channel, LinkError, Received, Sink};
use record::units::Nanos;

/// One channel with this rank's steps on it.
struct PeerSteps {
    channel: Channel,
    sends: Vec<usize>,
    receives: Vec<usize>,
    /// Position in `sends` and `receives`.
    send: usize,
    receive: usize,
    /// A chunk that the channel could not take yet.
    outgoing: Option<ReadLease>,
    /// The memory the next chunk will be written to.
    incoming: Option<WriteLease>,
    /// Whether the peer writes chunks to announced destinations, and how far they are announced: position in `receives`, chunk.
    placed: bool,
    announced: (usize, usize),
}

/// One rank's part of a cell, ready to run any number of times.
pub struct Execution {
    program: Program,
    peers: Vec<PeerSteps>,
    /// Chunks done, per step.
    done: Vec<usize>,
}

impl Execution {
    /// Joins a program with the channels to the peers it names.
    pub fn new(program: Program, channels: Vec<Channel>) -> Execution {
        let peers = channels
            .into_iter()
            .map(|mut channel| {
                let with_peer = |sends: bool| -> Vec<usize> {
                    let wanted =
                        |step: &ProgramStep| step.peer == channel.peer() && step.action.sends() == sends;
                    let steps = program.steps.iter().enumerate();
                    steps
                        .filter(|(_, step)| step.action != Action::Keep && wanted(step))
                        .map(|(at, _)| at)
                        .collect()
                };
                PeerSteps {
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
        let done = vec![0; program.steps.len()];
        Execution { program, peers, done }
    }

    /// The channels, for counting what they moved.
    pub fn channels(&self) -> impl Iterator<Item = &Channel> {
        self.peers.iter().map(|peer_steps| &peer_steps.channel)
    }

    /// The channels.
    pub fn channels_mut(&mut self) -> impl Iterator<Item = &mut Channel> {
        self.peers.iter_mut().map(|peer_steps| &mut peer_steps.channel)
    }

    /// Gives the channels back.
    pub fn into_channels(self) -> Vec<Channel> {
        self.peers
            .into_iter()
            .map(|peer_steps| peer_steps.channel)
            .collect()
    }

    /// Runs the collective once. `iteration` is the number of a timed iteration, none for warm-up.
    pub fn run(
        &mut self,
        buffers: &Buffers,
        iteration: Option<u32>,
        conditions: &Conditions<'_>,
    ) -> Result<Took, Stopped> {
        self.done.fill(0);
        for peer_steps in &mut self.peers {
            peer_steps.channel.begin(iteration);
            (peer_steps.send, peer_steps.receive) = (0, 0);
            (peer_steps.outgoing, peer_steps.incoming) = (None, None);
            peer_steps.announced = (0, 0);
        }
        let started = clock::now();
        let (sockets, sleeps) = self.waits_on();
        let mut waiter = Waiter::new(conditions.crowded, sockets, sleeps);
        let memory = StepMemory::stage(buffers);
        self.keep_own(&memory);
        let mut reported = started;
        loop {
            let moved = self.poll_all(&memory, conditions)?;
            if self.is_done() {
                break;
            }
            let aborted = conditions.abort.load(Ordering::Relaxed);
            if moved && !aborted {
                waiter.moved();
                if let Some(say) = conditions.moving
                    && Duration::from(clock::now().since(reported)) > conditions.deadline / 2
                {
                    say();
                    reported = clock::now();
                }
                continue;
            }
            let idle = waiter.wait(
                self.peers
                    .iter()
                    .flat_map(|peer_steps| peer_steps.channel.waitables()),
            );
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

    /// Whether there are descriptors to wait on, and whether sleeping on them is better than polling.
    fn waits_on(&self) -> (bool, bool) {
        let waitables = self
            .peers
            .iter()
            .flat_map(|peer_steps| peer_steps.channel.waitables());
        waitables.flatten().fold((false, false), |(_, sleeps), waitable| {
            (true, sleeps || waitable.sleeps)
        })
    }

    /// Polls every channel once; whether anything moved.
    fn poll_all(&mut self, memory: &StepMemory<'_>, conditions: &Conditions<'_>) -> Result<bool, Stopped> {
        let mut moved = false;
        for index in 0..self.peers.len() {
            let result = self.send_ready(index, memory).and_then(|sent| {
                let received = self.receive_ready(index, memory, conditions)?;
                Ok(sent || received)
            });
            match result {
                Ok(progress) => moved |= progress,
                Err(error) => {
                    let peer = self.peers[index].channel.peer();
                    let mut stopped = self.stopped(&error.to_string(), Nanos(0), false);
                    stopped.waiting_for = Some(peer);
                    return Err(stopped);
                }
            }
        }
        Ok(moved)
    }

    /// Whether everything that must come before chunk `chunk` of `step` has happened.
    fn is_ready(&self, step: usize, chunk: usize) -> bool {
        self.program.steps[step]
            .after
            .iter()
            .all(|earlier| self.done[*earlier] > chunk)
    }

    /// Sends at most one chunk, so that sending and receiving keep pace with each other: a rank that only sends while it can
    /// starves its peer later.
    fn send_ready(&mut self, index: usize, memory: &StepMemory<'_>) -> Result<bool, LinkError> {
        let moved = self.peers[index].channel.advance()?;
        let Some(&at) = self.peers[index].sends.get(self.peers[index].send) else {
            return Ok(moved);
        };
        let (step, chunk) = (&self.program.steps[at], self.done[at]);
        if !self.is_ready(at, chunk) {
            return Ok(moved);
        }
        let source = memory.source(step);
        let peer_steps = &mut self.peers[index];
        let lease = peer_steps
            .outgoing
            .take()
            .or_else(|| source.try_read(step.chunk(chunk)));
        let Some(lease) = lease else { return Ok(moved) };
        peer_steps.outgoing = peer_steps.channel.offer(lease)?;
        if peer_steps.outgoing.is_some() {
            return Ok(moved);
        }
        self.done[at] += 1;
        if self.done[at] == step.chunks {
            peer_steps.send += 1;
        }
        Ok(true)
    }

    /// Receives at most one chunk, so that what it completes is sent on before the next one is read.
    fn receive_ready(
        &mut self,
        index: usize,
        memory: &StepMemory<'_>,
        conditions: &Conditions<'_>,
    ) -> Result<bool, LinkError> {
        let Some(&at) = self.peers[index].receives.get(self.peers[index].receive) else {
            return Ok(false);
        };
        if self.peers[index].placed {
            return self.receive_placed(index, at, memory);
        }
        let (step, chunk) = (&self.program.steps[at], self.done[at]);
        if !self.is_ready(at, chunk) {
            return Ok(false);
        }
        let range = step.chunk(chunk);
        let peer_steps = &mut self.peers[index];
        let target = peer_steps
            .incoming
            .take()
            .or_else(|| memory.output.try_write(range.clone()));
        let Some(mut target) = target else {
            return Ok(false);
        };
        let program = &self.program;
        let input = if step.action != Action::RecvCopy && step.reads_input {
            let Some(input) = memory.input.try_read(range.clone()) else {
                peer_steps.incoming = Some(target);
                return Ok(false);
            };
            Some(input)
        } else {
            None
        };
        let reduce = |target: &mut [u8], a: Option<&[u8]>, b: &[u8]| {
            program.reduce(step, target, a, b, conditions.slowdown);
        };
        let received = match &input {
            _ if step.action == Action::RecvCopy => {
                peer_steps.channel.receive(range.len(), Sink::Into(&mut target))?
            }
            // A chunk that arrives in pieces is assembled in the output, and the input is added there.
            Some(input) if peer_steps.channel.arrives_in_pieces() => {
                let received = peer_steps.channel.receive(range.len(), Sink::Into(&mut target))?;
                if received == Received::Chunk {
                    reduce(&mut target, None, input);
                }
                received
            }
            input => {
                let input = input.as_deref();
                let mut consume = |chunk: &[u8]| reduce(&mut target, input, chunk);
                peer_steps
                    .channel
                    .receive(range.len(), Sink::With(&mut consume))?
            }
        };
        match received {
            Received::Chunk => {
                drop(target);
                self.done[at] += 1;
                if self.done[at] == step.chunks {
                    peer_steps.receive += 1;
                }
            }
            Received::Some | Received::Nothing => peer_steps.incoming = Some(target),
        }
        Ok(received != Received::Nothing)
    }

    /// Announces destinations as far ahead as they are free, and takes at most one arrived chunk.
    fn receive_placed(
        &mut self,
        index: usize,
        at: usize,
        memory: &StepMemory<'_>,
    ) -> Result<bool, LinkError> {
        let mut moved = false;
        loop {
            let (position, chunk) = self.peers[index].announced;
            let Some(&next) = self.peers[index].receives.get(position) else {
                break;
            };
            if !self.is_ready(next, chunk) {
                break;
            }
            let step = &self.program.steps[next];
            let Some(target) = memory.output.try_write(step.chunk(chunk)) else {
                break;
            };
            let peer_steps = &mut self.peers[index];
            if peer_steps.channel.expect_into(target)?.is_some() {
                break;
            }
            peer_steps.announced = match chunk + 1 == step.chunks {
                true => (position + 1, 0),
                false => (position, chunk + 1),
            };
            moved = true;
        }
        let peer_steps = &mut self.peers[index];
        let due = (peer_steps.receive, self.done[at]);
        if due >= peer_steps.announced || peer_steps.channel.arrived_direct()?.is_none() {
            return Ok(moved);
        }
        self.done[at] += 1;
        if self.done[at] == self.program.steps[at].chunks {
            peer_steps.receive += 1;
        }
        Ok(true)
    }

    /// Copies the blocks whose result is this rank's own input.
    fn keep_own(&mut self, memory: &StepMemory<'_>) {
        for (at, step) in self.program.steps.iter().enumerate() {
            if step.action != Action::Keep {
                continue;
            }
            if !memory.in_place
                && let Some(mut target) = memory.output.try_write(step.bytes.clone())
                && let Some(source) = memory.input.try_read(step.bytes.clone())
            {
                target.copy_from_slice(&source);
            }
            self.done[at] = step.chunks;
        }
    }

    fn is_done(&self) -> bool {
        self.peers.iter().all(|peer_steps| {
            peer_steps.send == peer_steps.sends.len()
                && peer_steps.receive == peer_steps.receives.len()
                && peer_steps.channel.flushed()
        })
    }

    /// Connections with unacknowledged data: peer, rail, backlog.
    pub fn stuck(&self) -> Vec<(u32, String, Backlog)> {
        let mut stuck = Vec::new();
        for peer_steps in &self.peers {
            let rails = peer_steps.channel.stuck().into_iter();
            stuck.extend(
                rails.filter_map(|(rail, backlog)| Some((peer_steps.channel.peer(), rail?, backlog))),
            );
        }
        stuck
    }

    /// The step this rank is in, and which rank it waits for.
    fn stopped(&self, problem: &str, waited: Nanos, aborted: bool) -> Stopped {
        let ready = |at: &usize| self.is_ready(*at, self.done[*at]);
        let receiving = self
            .peers
            .iter()
            .find_map(|peer_steps| peer_steps.receives.get(peer_steps.receive).filter(|at| ready(at)));
        let sending = self
            .peers
            .iter()
            .find_map(|peer_steps| peer_steps.sends.get(peer_steps.send).filter(|at| ready(at)));
        let flushing = self.peers.iter().find(|peer_steps| !peer_steps.channel.flushed());
        let (step, waiting_for) = match (receiving.or(sending), flushing) {
            (Some(&at), _) => (
                self.program.describe(at, self.done[at]),
                Some(self.program.steps[at].peer),
            ),
            (None, Some(peer_steps)) => {
                let peer = peer_steps.channel.peer();
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
