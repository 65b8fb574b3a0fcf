//! The registered buffers of one queue pair: two to send from and one to receive into.

use std::io;
use std::sync::Arc;

use super::super::memory::Registration;
use super::super::nic::Nic;
use super::pattern::{Content, MessageId};
use super::{CheckResult, StreamConfig};
use crate::device::Region;

/// The buffers of a queue pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Buffer {
    /// Send buffer of all messages but the last ones.
    Before,
    /// Send buffer of the last messages.
    Last,
    /// Receive buffer.
    Receive,
}

/// How many there are.
const AREAS: usize = 3;

/// Registered memory, exposed to the peer.
pub struct StreamBuffers {
    /// Deregistered before its memory is freed.
    registration: Registration,
    region: Arc<Region>,
    area: usize,
    offset: usize,
}

impl StreamBuffers {
    /// Allocates what the largest message needs.
    pub fn new(nic: &Nic, terms: &StreamConfig) -> io::Result<StreamBuffers> {
        let area = terms.area();
        let region = Region::new(AREAS * area);
        let registration = Registration::of_region(nic.domain(), &region)?;
        Ok(StreamBuffers {
            registration,
            region,
            area,
            offset: terms.offset as usize,
        })
    }

    /// Its address for the peer.
    pub fn start(&self) -> u64 {
        self.registration.start()
    }

    /// The key for the peer.
    pub fn remote_key(&self) -> u32 {
        self.registration.remote_key()
    }

    /// The key for this side.
    pub fn local_key(&self) -> u32 {
        self.registration.local_key()
    }

    /// Bytes of an area.
    pub fn area_bytes(&self) -> u32 {
        self.area as u32
    }

    /// The offset of byte `at` of a buffer: the same at both ends.
    pub fn position(&self, area: Buffer, at: usize) -> u64 {
        (area as usize * self.area + self.offset + at) as u64
    }

    /// Fills a message with its content.
    ///
    /// # Safety
    ///
    /// No request in flight uses that memory.
    pub unsafe fn fill(&mut self, area: Buffer, at: usize, len: usize, place: MessageId, content: Content) {
        // SAFETY: the caller's promise.
        place.fill(content, unsafe { self.bytes(area, at, len) });
    }

    /// Sets one byte of a message.
    ///
    /// # Safety
    ///
    /// No request in flight uses that memory.
    pub unsafe fn set(&mut self, area: Buffer, at: usize, byte: u8) {
        // SAFETY: the caller's promise.
        unsafe { self.bytes(area, at, 1)[0] = byte };
    }

    /// Sets a byte of the receive buffer to one that no message ends with.
    ///
    /// # Safety
    ///
    /// As above.
    pub unsafe fn clear_receive(&mut self, at: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.set(Buffer::Receive, at, 0) };
    }

    /// Compares a message with what it should hold.
    ///
    /// # Safety
    ///
    /// It has arrived, and no other is written there meanwhile.
    pub unsafe fn check(&mut self, at: usize, len: usize, place: MessageId) -> CheckResult {
        // SAFETY: the caller's promise.
        let message = unsafe { self.bytes(Buffer::Receive, at, len) };
        let (wrong, first) = place.compare(Content::Last, message);
        let MessageId {
            from,
            queue_pair,
            slot,
            ..
        } = place;
        CheckResult {
            messages: 1,
            wrong,
            first: first.map(|(byte, found, expected)| {
                format!(
                    "byte {byte} of a message of rank {from} on its queue pair number {queue_pair} (slot {slot}) is \
                     {found:#04x}, should be {expected:#04x}"
                )
            }),
        }
    }

    /// The byte at an offset which the peer may be writing.
    pub fn peek(&self, at: usize) -> u8 {
        let position = self.position(Buffer::Receive, at) as usize;
        assert!(position < self.region.len());
        // SAFETY: the position lies within the region, which is mapped. A single byte is read as it is at that moment,
        // whoever writes it.
        unsafe { self.region.start().as_ptr().add(position).read_volatile() }
    }

    /// # Safety
    ///
    /// Nobody else touches these bytes while the slice is used.
    unsafe fn bytes(&mut self, area: Buffer, at: usize, len: usize) -> &mut [u8] {
        let position = self.position(area, at) as usize;
        assert!(position + len <= (area as usize + 1) * self.area);
        // SAFETY: the range lies within the region, no lease of it is ever given out, and the rest is the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.region.start().as_ptr().add(position), len) }
    }
}
