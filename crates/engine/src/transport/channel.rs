//! All links to one peer that a cell uses, with chunks striped over them in turn.
//!
//! Both ends compute the same order: chunk `k` of a direction travels on link `k modulo links`. So the payload spreads evenly over
//! rails and flows, a slow link slows down the whole as in a real collective, and chunks need no header.

use std::collections::HashMap;
use std::time::Instant;

use super::inject::{Flip, Pacer};
use super::link::{ArrivedChunk, Backlog, DirectLink, GpuRange, Link, LinkError, Received, Sink, Waitable};
use super::route::Route;
use super::tcp::TcpTally;
use crate::device::{ReadLease, WriteLease};
use record::{FlowRecord, TcpFlow};

/// One link of a channel.
pub(super) struct ChannelLink {
    pub route: Route,
    pub link: Box<dyn Link>,
    pub pacer: Option<Pacer>,
    /// Bytes the link had moved before this channel used it.
    pub moved_before: u64,
    /// Chunks of GPU memory that had left before the iteration began.
    pub left_before: u64,
    /// What TCP counted, where it is TCP.
    pub tcp: Option<TcpTally>,
}

/// Everything between this rank and one peer, for one cell.
pub struct Channel {
    peer: u32,
    links: Vec<ChannelLink>,
    chunks_out: usize,
    chunks_expected: usize,
    chunks_in: usize,
    flip: Option<Flip>,
    iteration: Option<u32>,
    bytes_in: u64,
}

impl Channel {
    pub(super) fn new(peer: u32, links: Vec<ChannelLink>, flip: Option<Flip>) -> Channel {
        Channel {
            peer,
            links,
            chunks_out: 0,
            chunks_expected: 0,
            chunks_in: 0,
            flip,
            iteration: None,
            bytes_in: 0,
        }
    }

    pub(super) fn into_links(self) -> Vec<ChannelLink> {
        self.links
    }

    /// Abandons all links, with whatever is in flight.
    pub fn abandon(mut self) {
        self.links
            .iter_mut()
            .for_each(|channel_link| channel_link.link.abandon());
    }

    /// World rank at the other end.
    pub fn peer(&self) -> u32 {
        self.peer
    }

    /// Links in the channel.
    pub fn width(&self) -> usize {
        self.links.len()
    }

    /// Marks the start of an iteration: `Some` for timed ones. Both ends start at the first link again.
    pub fn begin(&mut self, iteration: Option<u32>) {
        self.iteration = iteration;
        self.bytes_in = 0;
        self.chunks_in = 0;
        self.chunks_out = 0;
        self.chunks_expected = 0;
        for channel_link in &mut self.links {
            channel_link.left_before = channel_link.link.direct().map_or(0, |link| link.left());
        }
    }

    /// Takes the next outgoing chunk; returns it when its link cannot take it now.
    pub fn offer(&mut self, chunk: ReadLease) -> Result<Option<ReadLease>, LinkError> {
        let width = self.links.len();
        let channel_link = &mut self.links[self.chunks_out % width];
        if let Some(pacer) = &mut channel_link.pacer
            && !pacer.lets_pass(chunk.len(), Instant::now())
        {
            return Ok(Some(chunk));
        }
        let returned = channel_link.link.offer(chunk)?;
        if returned.is_none() {
            self.chunks_out += 1;
        }
        Ok(returned)
    }

    /// Receives the next incoming chunk of `len` bytes.
    pub fn receive(&mut self, len: usize, sink: Sink<'_>) -> Result<Received, LinkError> {
        let width = self.links.len();
        let link = &mut self.links[self.chunks_in % width].link;
        let trigger = |flip: &Flip| {
            flip.trigger(self.iteration, self.bytes_in, len)
                .map(|at| (at, flip.mask))
        };
        let received = match sink {
            Sink::Into(memory) => {
                let received = link.receive(len, Sink::Into(&mut *memory))?;
                if received == Received::Chunk
                    && let Some((at, mask)) = self.flip.as_ref().and_then(trigger)
                {
                    memory[at] ^= mask;
                }
                received
            }
            Sink::With(consume) => {
                let flip = self.flip.as_ref();
                link.receive(
                    len,
                    Sink::With(&mut |chunk| match flip.and_then(trigger) {
                        None => consume(chunk),
                        Some((at, mask)) => {
                            let mut damaged = chunk.to_vec();
                            damaged[at] ^= mask;
                            consume(&damaged);
                        }
                    }),
                )?
            }
        };
        if received == Received::Chunk {
            self.chunks_in += 1;
            self.bytes_in += len as u64;
        }
        Ok(received)
    }

    /// Whether the peer writes chunks to announced destinations.
    pub fn is_direct(&mut self) -> bool {
        !self.links.is_empty()
            && self
                .links
                .iter_mut()
                .all(|channel_link| channel_link.link.direct().is_some())
    }

    /// Takes the next outgoing chunk of GPU memory; false when its link cannot take it now.
    pub fn offer_direct(&mut self, place: &GpuRange) -> Result<bool, LinkError> {
        let width = self.links.len();
        let channel_link = &mut self.links[self.chunks_out % width];
        if let Some(pacer) = &mut channel_link.pacer
            && !pacer.lets_pass(place.range.len(), Instant::now())
        {
            return Ok(false);
        }
        let taken = direct(channel_link)?.offer(place)?;
        self.chunks_out += usize::from(taken);
        Ok(taken)
    }

    /// Whether chunk `number` of those offered since the beginning has left, so that its memory is free again.
    pub fn has_left(&mut self, number: usize) -> Result<bool, LinkError> {
        let width = self.links.len();
        let channel_link = &mut self.links[number % width];
        let before = channel_link.left_before;
        Ok(direct(channel_link)?.left() - before > (number / width) as u64)
    }

    /// Announces the destination of the next unannounced chunk; false when the link cannot announce it now.
    pub fn expect_direct(&mut self, place: &GpuRange) -> Result<bool, LinkError> {
        let width = self.links.len();
        let taken = direct(&mut self.links[self.chunks_expected % width])?.expect(place)?;
        self.chunks_expected += usize::from(taken);
        Ok(taken)
    }

    /// The length of the next incoming chunk once it has arrived at its destination.
    pub fn arrived_direct(&mut self) -> Result<Option<usize>, LinkError> {
        let width = self.links.len();
        let arrived = direct(&mut self.links[self.chunks_in % width])?.arrived()?;
        let Some(ArrivedChunk { len, memory }) = arrived else {
            return Ok(None);
        };
        let flip = self.flip.as_ref();
        let trigger =
            flip.and_then(|flip| Some((flip.trigger(self.iteration, self.bytes_in, len)?, flip.mask)));
        if let (Some((at, mask)), Some(mut memory)) = (trigger, memory) {
            memory[at] ^= mask;
        }
        self.chunks_in += 1;
        self.bytes_in += len as u64;
        Ok(Some(len))
    }

    /// As `expect_direct`, for memory of this process; returns it when the link cannot announce it now.
    pub fn expect_into(&mut self, memory: WriteLease) -> Result<Option<WriteLease>, LinkError> {
        let width = self.links.len();
        let returned = direct(&mut self.links[self.chunks_expected % width])?.expect_into(memory)?;
        self.chunks_expected += usize::from(returned.is_none());
        Ok(returned)
    }

    /// Whether chunks arrive piece by piece.
    pub fn arrives_in_pieces(&self) -> bool {
        self.links
            .iter()
            .any(|channel_link| channel_link.link.arrives_in_pieces())
    }

    /// Pushes taken chunks on; whether anything moved.
    pub fn advance(&mut self) -> Result<bool, LinkError> {
        let mut moved = false;
        for channel_link in &mut self.links {
            moved |= channel_link.link.advance()?;
        }
        Ok(moved)
    }

    /// Whether every taken chunk has left.
    pub fn flushed(&self) -> bool {
        self.links.iter().all(|channel_link| channel_link.link.flushed())
    }

    /// Payload bytes that left since the channel was made, per rail (none for transports without rails).
    pub fn moved(&self) -> Vec<(Option<String>, u64)> {
        let mut moved: Vec<(Option<String>, u64)> = Vec::new();
        for channel_link in &self.links {
            let bytes = channel_link.link.moved() - channel_link.moved_before;
            match moved
                .iter_mut()
                .find(|(rail, _)| *rail == channel_link.route.rail)
            {
                Some((_, sum)) => *sum += bytes,
                None => moved.push((channel_link.route.rail.clone(), bytes)),
            }
        }
        moved
    }

    /// The rails with unacknowledged data, each with its worst link.
    pub fn stuck(&self) -> Vec<(Option<String>, Backlog)> {
        let mut stuck: Vec<(Option<String>, Backlog)> = Vec::new();
        for channel_link in &self.links {
            let Some(backlog) = channel_link
                .link
                .backlog()
                .filter(|backlog| backlog.retransmits > 0)
            else {
                continue;
            };
            match stuck
                .iter_mut()
                .find(|(rail, _)| *rail == channel_link.route.rail)
            {
                Some((_, worst)) if worst.retransmits >= backlog.retransmits => {}
                Some((_, worst)) => *worst = backlog,
                None => stuck.push((channel_link.route.rail.clone(), backlog)),
            }
        }
        stuck
    }

    /// Assigns what TCP has counted since the last call to an iteration; to none when it was not timed. To be called when the iteration is
    /// over, outside of what is timed.
    pub fn note_tcp(&mut self, iteration: Option<u32>) {
        for channel_link in &mut self.links {
            if let (Some(tally), Some(now)) = (&mut channel_link.tcp, channel_link.link.tcp_counts()) {
                tally.note(iteration, now);
            }
        }
    }

    /// What TCP counted of this rank's flows to the peer during timed iterations. What has become known since the last of them is its.
    pub fn tcp_flows(&mut self, from: u32) -> Vec<TcpFlow> {
        let mut numbers: HashMap<String, u16> = HashMap::new();
        let mut flows = Vec::new();
        for channel_link in &mut self.links {
            let Some(rail) = &channel_link.route.rail else {
                continue;
            };
            let number = numbers.entry(rail.clone()).or_default();
            let flow = *number;
            *number += 1;
            if let (Some(tally), Some(now)) = (&mut channel_link.tcp, channel_link.link.tcp_counts()) {
                let (source_port, to_port) = channel_link.link.ports().unwrap_or_default();
                flows.push(TcpFlow {
                    from,
                    to: self.peer,
                    rail: rail.clone(),
                    flow,
                    source_port,
                    to_port,
                    ..tally.flow(now)
                });
            }
        }
        flows.retain(|flow| flow.segments > 0);
        flows
    }

    /// How its links appear on the wire, where that is recorded.
    pub fn flows(&self) -> Vec<FlowRecord> {
        let flows = self
            .links
            .iter()
            .filter_map(|channel_link| channel_link.link.flow());
        flows.cloned().collect()
    }

    /// What to wait on when nothing moves.
    pub fn waitables(&self) -> impl Iterator<Item = Option<Waitable<'_>>> {
        self.links.iter().map(|channel_link| channel_link.link.waitable())
    }
}

/// The interface of a link for memory that only the NIC reaches.
fn direct(channel_link: &mut ChannelLink) -> Result<&mut dyn DirectLink, LinkError> {
    let none = || LinkError::Failed("this link has no GPUDirect support".to_string());
    channel_link.link.direct().ok_or_else(none)
}
