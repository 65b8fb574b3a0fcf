//! Memory into which a peer's messages are written, slot by slot.
//!
//! What must hold: a peer writes to a slot only when it was told that the slot is free, so what has arrived in one stays as
//! it is until it is given back. The link keeps count of that.

use std::io;
use std::sync::Arc;

use super::memory::Registration;
use super::nic::Nic;
use crate::device::Region;

/// Bytes of a slot for payload: the longest chunk that host programs cut.
pub const CHUNK_BYTES: usize = 256 << 10;
/// Bytes of a slot for a grant.
pub const GRANT_BYTES: usize = 16;

/// Slots for arriving messages.
pub struct ReceiveSlots {
    /// Given back before the memory it names.
    registration: Registration,
    region: Arc<Region>,
    slots: u32,
    slot_bytes: usize,
}

impl ReceiveSlots {
    /// Memory for `slots` messages of up to `slot_bytes`, opened to the peers of a device.
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

    /// Where the peer finds the first slot.
    pub fn start(&self) -> u64 {
        self.registration.start()
    }

    /// The key by which it may write there.
    pub fn key(&self) -> u32 {
        self.registration.remote_key()
    }

    /// How many slots there are.
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// Bytes of each.
    pub fn slot_bytes(&self) -> u32 {
        self.slot_bytes as u32
    }

    /// Messages that may arrive before room for them is made again: one per slot, and the peer's answers to as many of ours.
    pub fn expected(&self) -> usize {
        2 * self.slots as usize + 8
    }

    /// What has arrived in message `number`, `bytes` long.
    ///
    /// # Safety
    ///
    /// The message has arrived, and the peer has not been told that its slot is free.
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
