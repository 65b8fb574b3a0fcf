//! Links between ranks of one process.
//!
//! A chunk is not copied into the link: the sender leases its memory to the receiver, who reads it in place and gives the
//! lease back by dropping it. A chunk counts as sent when the receiver is done with it. Closing either end is seen by the
//! other. The memory itself is kept safe by `device::Region`'s leases, so this file needs no `unsafe`.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crossbeam_queue::ArrayQueue;

use super::link::{Link, LinkError, Received, Sink, Waitable};
use crate::device::ReadLease;

/// Chunks the sender may be ahead of the receiver.
const DEPTH: usize = 16;

/// One direction between two ranks.
struct ShmQueue {
    chunks: ArrayQueue<ReadLease>,
    consumed: AtomicU64,
    closed: AtomicBool,
}

impl ShmQueue {
    fn new() -> Arc<ShmQueue> {
        Arc::new(ShmQueue {
            chunks: ArrayQueue::new(DEPTH),
            consumed: AtomicU64::new(0),
            closed: AtomicBool::new(false),
        })
    }
}

/// Sender, receiver, and the instance of the link between them.
type ShmQueueKey = (u32, u32, u16);

/// Where the ranks of one process find each other's queues.
#[derive(Default)]
pub struct Hub {
    queues: Mutex<HashMap<ShmQueueKey, Arc<ShmQueue>>>,
}

impl Hub {
    /// An empty hub, to be shared by all ranks of the process.
    pub fn new() -> Arc<Hub> {
        Arc::new(Hub::default())
    }

    /// Rank `me`'s end of link number `instance` to `peer`.
    pub fn link(&self, me: u32, peer: u32, instance: u16) -> ShmLink {
        let mut queues = self
            .queues
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        let mut queue =
            |from, to| Arc::clone(queues.entry((from, to, instance)).or_insert_with(ShmQueue::new));
        ShmLink {
            outgoing: queue(me, peer),
            incoming: queue(peer, me),
            offered: 0,
            moved: 0,
        }
    }
}

/// One rank's end of a shared-memory link.
pub struct ShmLink {
    outgoing: Arc<ShmQueue>,
    incoming: Arc<ShmQueue>,
    offered: u64,
    moved: u64,
}

impl Link for ShmLink {
    fn offer(&mut self, chunk: ReadLease) -> Result<Option<ReadLease>, LinkError> {
        if self.outgoing.closed.load(Ordering::Relaxed) {
            return Err(LinkError::Closed);
        }
        let bytes = chunk.len() as u64;
        match self.outgoing.chunks.push(chunk) {
            Ok(()) => {
                self.offered += 1;
                self.moved += bytes;
                Ok(None)
            }
            Err(chunk) => Ok(Some(chunk)),
        }
    }

    fn advance(&mut self) -> Result<bool, LinkError> {
        if self.outgoing.closed.load(Ordering::Relaxed) && !self.flushed() {
            return Err(LinkError::Closed);
        }
        Ok(false)
    }

    fn flushed(&self) -> bool {
        self.outgoing.consumed.load(Ordering::Acquire) == self.offered
    }

    fn receive(&mut self, len: usize, sink: Sink<'_>) -> Result<Received, LinkError> {
        let Some(chunk) = self.incoming.chunks.pop() else {
            return if self.incoming.closed.load(Ordering::Relaxed) {
                Err(LinkError::Closed)
            } else {
                Ok(Received::Nothing)
            };
        };
        if chunk.len() != len {
            return Err(LinkError::Failed(format!(
                "received a chunk of {} bytes, expected {len}",
                chunk.len()
            )));
        }
        match sink {
            Sink::Into(memory) => memory.copy_from_slice(&chunk),
            Sink::With(consume) => consume(&chunk),
        }
        drop(chunk);
        self.incoming.consumed.fetch_add(1, Ordering::Release);
        Ok(Received::Chunk)
    }

    fn arrives_in_pieces(&self) -> bool {
        false
    }

    fn moved(&self) -> u64 {
        self.moved
    }

    fn waitable(&self) -> Option<Waitable<'_>> {
        None
    }
}

impl Drop for ShmLink {
    fn drop(&mut self) {
        self.outgoing.closed.store(true, Ordering::Relaxed);
        self.incoming.closed.store(true, Ordering::Relaxed);
        // Unread leases go back to their owner.
        while self.incoming.chunks.pop().is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Region;

    #[test]
    fn a_chunk_is_read_in_place_and_its_memory_comes_back() {
        let hub = Hub::new();
        let (mut left, mut right) = (hub.link(0, 1, 0), hub.link(1, 0, 0));
        let region = Region::new(4);
        region.try_write(0..4).unwrap().copy_from_slice(&[1, 2, 3, 4]);
        assert!(left.offer(region.try_read(0..4).unwrap()).unwrap().is_none());
        assert!(!left.flushed() && region.try_write(0..4).is_none());
        let mut memory = [0; 4];
        assert_eq!(right.receive(4, Sink::Into(&mut memory)), Ok(Received::Chunk));
        assert_eq!(memory, [1, 2, 3, 4]);
        assert!(left.flushed() && region.try_write(0..4).is_some());
        assert_eq!(right.receive(4, Sink::Into(&mut memory)), Ok(Received::Nothing));
    }

    #[test]
    fn a_full_link_gives_the_chunk_back_and_a_closed_one_says_so() {
        let hub = Hub::new();
        let (mut left, right) = (hub.link(0, 1, 0), hub.link(1, 0, 0));
        let region = Region::new(1);
        for _ in 0..DEPTH {
            assert!(left.offer(region.try_read(0..1).unwrap()).unwrap().is_none());
        }
        assert!(left.offer(region.try_read(0..1).unwrap()).unwrap().is_some());
        drop(right);
        assert_eq!(left.advance(), Err(LinkError::Closed));
        assert!(
            region.try_write(0..1).is_some(),
            "leases of a closed link are released"
        );
    }
}
