//! Many streams from one rank to another, each as fast as its own path allows.
//!
//! Unlike a collective, streams have no natural end: they send for a settling time and then for a window in which the receiver
//! counts what arrives. Each stream repeats one message that differs from every other stream's, so whatever arrives can be checked
//! without knowing which message it was. Data still in flight at the end of the window arrives in the next iteration, before its
//! window opens.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::engine::{CellEngine, Conditions, Stopped, Took};
use super::oracle::WrongElement;
use super::wait::Waiter;
use crate::device::Region;
use crate::device::pattern::Pattern;
use crate::launch::clock;
use crate::transport::{Channel, Received, Sink, StreamLink, Streams};
use record::units::Nanos;
use record::{Cell, DType, LinkTraffic, ReduceOp, StreamRecord, StreamTerms, Stuck};

/// Messages that one stream sends or receives before the next stream is polled.
const IN_A_ROW: usize = 4;

/// The problem of a stream that was connected and never delivered anything.
const SILENT: &str = "it was connected, and nothing ever arrived";

/// One end of a cell of streams, ready to run any number of times.
pub struct StreamEngine {
    streams: Streams,
    sends: bool,
    peer: u32,
    /// Requested streams: more than connections when all share one.
    asked: u16,
    settling: Nanos,
    window: Nanos,
    /// The message of every stream, concatenated.
    messages: Arc<Region>,
    message: usize,
    /// What arrived in the window of every timed iteration, stream by stream.
    arrived: Vec<Vec<u64>>,
    /// Streams that ever delivered anything, counted or not.
    alive: Vec<bool>,
    /// The first received byte that was not what had been sent.
    wrong: Option<WrongElement>,
}

impl StreamEngine {
    /// World rank `me`'s end of the streams of `cell`, with their data.
    pub fn new(cell: &Cell, terms: &StreamTerms, me: u32, seed: u64, mut streams: Streams) -> StreamEngine {
        let (links, message) = (streams.links().len(), cell.size.as_usize().max(1));
        let messages = Region::new(links * message);
        if let Some(mut memory) = messages.try_write(0..messages.len()) {
            for (stream, memory) in memory.chunks_mut(message).enumerate() {
                pattern(seed, stream).fill(0, memory);
            }
        }
        StreamEngine {
            streams,
            sends: cell.ranks.first() == Some(&me),
            peer: cell.ranks.iter().copied().find(|rank| *rank != me).unwrap_or(me),
            asked: cell.flows,
            settling: terms.settling(),
            window: terms.window,
            messages,
            message,
            arrived: Vec::new(),
            alive: vec![false; links],
            wrong: None,
        }
    }

    /// Sends or receives until the window is over; `at` is when all ranks began.
    pub fn run_window(
        &mut self,
        at: Nanos,
        iteration: Option<u32>,
        conditions: &Conditions<'_>,
    ) -> Result<Took, Stopped> {
        let started = clock::now();
        let window = at + self.settling..at + self.settling + self.window;
        let mut arrived = vec![0; self.streams.links().len()];
        let mut waiter = Waiter::new(conditions.crowded, true, false);
        let mut reported = started;
        loop {
            let now = clock::now();
            if now >= window.end {
                break;
            }
            if conditions.abort.load(Ordering::Relaxed) {
                return Err(self.aborted());
            }
            if now.since(reported) > Nanos(1_000_000_000) {
                conditions.moving.inspect(|say| say());
                reported = now;
            }
            let moved = match self.sends {
                true => self.send(),
                false => self.receive(iteration, now, &window, &mut arrived),
            };
            match moved {
                true => waiter.moved(),
                false => _ = waiter.wait(self.streams.links().iter().filter_map(waitable)),
            }
        }
        if iteration.is_some() && !self.sends {
            self.arrived.push(arrived);
        }
        Ok(Took {
            started,
            total: self.window,
            waited: waiter.waited(),
        })
    }

    /// Whether everything received so far was what had been sent.
    pub fn check_received(&mut self) -> Result<(), WrongElement> {
        match self.wrong.take() {
            Some(wrong) => Err(wrong),
            None => Ok(()),
        }
    }

    /// The record of each stream as this end knows it: only the receiver knows what arrived.
    pub fn records(&mut self) -> Vec<StreamRecord> {
        let links = self.streams.links();
        // Streams that share a connection share what it carried.
        let shared_by = u64::from(self.asked) / (links.len() as u64).max(1);
        let lane_of = |stream: u16| usize::from(stream).min(links.len().saturating_sub(1));
        let record = |stream: u16| {
            let number = lane_of(stream);
            let stream_link = links.get(number);
            // A connected queue pair may lose all its packets long before an error reports it.
            let silent =
                (!self.sends && !self.arrived.is_empty() && !self.alive[number]).then(|| SILENT.to_string());
            StreamRecord {
                stream,
                port: stream_link.and_then(|stream_link| stream_link.port),
                bytes: self
                    .arrived
                    .iter()
                    .map(|bytes| bytes[number] / shared_by.max(1))
                    .collect(),
                problem: stream_link
                    .and_then(|stream_link| stream_link.problem.clone())
                    .or(silent),
            }
        };
        (0..self.asked).map(record).collect()
    }

    fn send(&mut self) -> bool {
        let (mut moved, message) = (false, self.message);
        for number in 0..self.streams.links().len() {
            for _ in 0..IN_A_ROW {
                if !self.streams.lets_pass(message) {
                    return moved;
                }
                let stream_link = &mut self.streams.links()[number];
                let Some(link) = &mut stream_link.link else { break };
                let range = number * message..(number + 1) * message;
                let Some(lease) = self.messages.try_read(range) else {
                    break;
                };
                let went = match link.advance() {
                    Ok(went) => link.offer(lease).map(|back| (went, back.is_none())),
                    Err(error) => Err(error),
                };
                match went {
                    Ok((went, taken)) => {
                        moved |= went || taken;
                        if !taken {
                            break;
                        }
                    }
                    Err(error) => stream_link.fail(error.to_string()),
                }
            }
        }
        moved
    }

    fn receive(
        &mut self,
        iteration: Option<u32>,
        now: Nanos,
        window: &Range<Nanos>,
        arrived: &mut [u64],
    ) -> bool {
        self.streams.admit();
        let (mut moved, message) = (false, self.message);
        let Some(sent) = self.messages.try_read(0..self.messages.len()) else {
            return false;
        };
        let flip = self.streams.flip().cloned();
        for (number, stream_link) in self.streams.links().iter_mut().enumerate() {
            let expected = &sent[number * message..(number + 1) * message];
            for _ in 0..IN_A_ROW {
                let Some(link) = &mut stream_link.link else { break };
                let (wrong, before) = (&mut self.wrong, arrived[number]);
                let trigger = |data: &[u8]| {
                    let flip = flip.as_ref().filter(|_| number == 0)?;
                    let at = flip.trigger(iteration, before, data.len())?;
                    let mut damaged = data.to_vec();
                    damaged[at] ^= flip.mask();
                    Some(damaged)
                };
                let received = link.receive(
                    message,
                    Sink::With(&mut |data| match trigger(data) {
                        Some(damaged) => compare(expected, &damaged, wrong),
                        None => compare(expected, data, wrong),
                    }),
                );
                match received {
                    Ok(Received::Chunk) => {
                        (moved, self.alive[number]) = (true, true);
                        arrived[number] += if window.contains(&now) { message as u64 } else { 0 };
                    }
                    Ok(Received::Some) => (moved, self.alive[number]) = (true, true),
                    Ok(Received::Nothing) => break,
                    Err(error) => stream_link.fail(error.to_string()),
                }
                // Over RDMA the receiver returns credits to the sender.
                if let Some(Err(error)) = stream_link.link.as_mut().map(|link| link.advance()) {
                    stream_link.fail(error.to_string());
                }
            }
        }
        moved
    }

    fn aborted(&self) -> Stopped {
        let way = if self.sends {
            "sending to"
        } else {
            "receiving from"
        };
        Stopped {
            step: format!("{way} rank {} by {} streams", self.peer, self.asked),
            waiting_for: None,
            waited: Nanos(0),
            problem: "the run is being ended".to_string(),
            aborted: true,
        }
    }
}

impl CellEngine for StreamEngine {
    fn fill(&mut self, _pattern: u64) -> bool {
        // The messages were written when the cell was prepared, and stay.
        true
    }

    fn run(
        &mut self,
        at: Nanos,
        iteration: Option<u32>,
        _times: u16,
        conditions: &Conditions<'_>,
    ) -> Result<Took, Stopped> {
        clock::wait_until(at, conditions.crowded);
        self.run_window(at, iteration, conditions)
    }

    fn check(&mut self, _pattern: u64) -> Option<Result<(), WrongElement>> {
        Some(self.check_received())
    }

    fn stuck(&self) -> Vec<Stuck> {
        Vec::new()
    }

    fn streams(&mut self) -> Vec<StreamRecord> {
        self.records()
    }

    fn finish(self: Box<Self>) -> (Vec<LinkTraffic>, Vec<Channel>) {
        // A stream's source port must be free for the next cell, so no connection is kept.
        (Vec::new(), Vec::new())
    }
}

/// The data of one stream's message.
fn pattern(seed: u64, stream: usize) -> Pattern {
    Pattern {
        seed,
        iteration: stream as u64,
        rank: 0,
        ranks: 1,
        dtype: DType::U8,
        op: ReduceOp::Max,
    }
}

/// What to wait on for one stream; nothing for a failed one.
fn waitable(stream_link: &StreamLink) -> Option<Option<crate::transport::Waitable<'_>>> {
    stream_link.link.as_ref().map(|link| link.waitable())
}

/// Notes the first byte that is not what was sent, and counts all of them.
fn compare(expected: &[u8], found: &[u8], wrong: &mut Option<WrongElement>) {
    if expected == found {
        return;
    }
    let differ = || (0..expected.len()).filter(|at| expected[*at] != found[*at]);
    let Some(first) = differ().next() else { return };
    let count = differ().count() as u64;
    let known = wrong.get_or_insert(WrongElement {
        element: first as u64,
        byte_offset: first as u64,
        expected_bits: format!("0x{:02x}", expected[first]),
        found_bits: format!("0x{:02x}", found[first]),
        wrong_elements: 0,
    });
    known.wrong_elements += count;
}
