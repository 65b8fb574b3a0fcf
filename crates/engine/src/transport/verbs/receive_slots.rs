//! Receive slots: registered memory into which the peer writes messages.
//!
//! Invariant: the peer writes to a slot only with a credit for it, so an arrived message stays intact until its credit is
//! returned. The link counts the credits.

use std::io;
use std::sync::Arc;

use super::memory::Registration;
use super::nic::Nic;
use crate::device::Region;

/// Bytes of a slot for payload: the longest chunk that host programs cut.
pub const CHUNK_BYTES: usize = 256 << 10;
/// Bytes of a slot for a grant.
pub const GRANT_BYTES: usize = 16;

/// Receive slots of a queue pair.
pub struct ReceiveSlots {
    /// Deregistered before its memory is freed.
    registration: Registration,
    region: Arc<Region>,
    slots: u32,
    slot_bytes: usize,
}

impl ReceiveSlots {
    /// `slots` slots of `slot_bytes`, exposed to the peer.
    pub fn new(nic: &Arc<Nic>, slots: u32, slot_bytes: usize) -> io::Result<ReceiveSlots> {
        let region = Region::new(slots as usize * slot_bytes);
        let registration = Registration::of_region(nic.domain(), &region)?;
        Ok(ReceiveSlots {
            registration,
            region,
            slots,
            slot_bytes,
        })
    }

    /// The address of the first slot.
    pub fn start(&self) -> u64 {
        self.registration.start()
    }

    /// The remote key of the slots.
    pub fn key(&self) -> u32 {
        self.registration.remote_key()
    }

    /// Number of slots.
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// Bytes of a slot.
    pub fn slot_bytes(&self) -> u32 {
        self.slot_bytes as u32
    }

    /// Receives to post: one per slot, and one per control message that answers ours.
    pub fn expected(&self) -> usize {
        2 * self.slots as usize + 8
    }

    /// What has arrived in message `number`, `bytes` long.
    ///
    /// # Safety
    ///
    /// The message has arrived, and its credit was not returned to the peer.
    pub unsafe fn message(&self, number: u64, bytes: usize) -> &[u8] {
        assert!(
            bytes <= self.slot_bytes,
            "a message of {bytes} bytes is longer than its slot"
        );
        let at = (number % u64::from(self.slots)) as usize * self.slot_bytes;
        // SAFETY: the slot lies within the region, and nobody writes there: the caller's promise, and the lease table knows
        // no lease of this region.
        unsafe { std::slice::from_raw_parts(self.region.start().as_ptr().add(at), bytes) }
    }
}
