//! A rank's memory, in which ranges are leased to readers and writers.
//!
//! Ranks of one process read each other's memory without copying it first, and a NIC reads memory while the CPU works
//! elsewhere in it. Invariant: a range with a reader is not written, and a range with a writer has no other user. The lease table
//! enforces this at run time, whatever a schedule does: a conflicting lease is refused, the executor retries later, and a leased
//! region stays alive until its last lease is dropped.
//!
//! This is the one place outside the FFI modules that needs `unsafe`: Rust's borrow rules cannot express ranges that are
//! lent to another thread and come back in their own time.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::num::NonZeroUsize;
use std::ops::{Deref, DerefMut, Range};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};

use crate::sync::lock;

use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap_anonymous, munmap};

/// Regions that fill several of these are aligned to one.
const HUGE_PAGE: usize = 2 << 20;

/// A lease in the table.
struct LeaseEntry {
    range: Range<usize>,
    writes: bool,
}

/// Zeroed, page-aligned memory whose ranges are leased.
pub struct Region {
    memory: NonNull<u8>,
    len: usize,
    /// What was asked of the kernel.
    mapping: (NonNull<c_void>, NonZeroUsize),
    leases: Mutex<Vec<LeaseEntry>>,
}

// SAFETY: the memory is reached through leases only, and the lease table, guarded by a mutex, never grants a writing
// lease that overlaps another lease. Taking and dropping leases synchronises through that mutex.
unsafe impl Sync for Region {}
// SAFETY: the region owns its memory; nothing in it is tied to a thread.
unsafe impl Send for Region {}

impl Region {
    /// A region of `len` zero bytes. Memory is taken when it is first touched.
    ///
    /// # Panics
    ///
    /// When the address space has no room for it.
    pub fn new(len: usize) -> Arc<Region> {
        let is_large = len >= 2 * HUGE_PAGE;
        let slack = if is_large { HUGE_PAGE } else { 0 };
        let mapped = NonZeroUsize::new(len + slack).unwrap_or(NonZeroUsize::MIN);
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a private anonymous mapping at an address the kernel chooses overlaps nothing.
        let mapping = unsafe { mmap_anonymous(None, mapped, protection, MapFlags::MAP_PRIVATE) };
        let mapping = mapping.unwrap_or_else(|error| panic!("no room for a region of {len} bytes: {error}"));
        let mut memory = mapping.cast::<u8>();
        if is_large {
            let to_boundary = memory.as_ptr().align_offset(HUGE_PAGE);
            // SAFETY: the slack is one huge page, so the next boundary and `len` bytes behind it lie in the mapping.
            memory = unsafe { memory.add(to_boundary) };
            // Huge pages spare address translation on large payloads; where they are not to be had, small ones do.
            // SAFETY: the range is this region's own, and the advice does not change what it holds.
            let _ = unsafe { madvise(memory.cast(), len, MmapAdvise::MADV_HUGEPAGE) };
        }
        Arc::new(Region {
            memory,
            len,
            mapping: (mapping, mapped),
            leases: Mutex::new(Vec::new()),
        })
    }

    /// Bytes in the region.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it holds no byte at all.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Leases `range` for reading; none while somebody writes to a part of it.
    pub fn try_read(self: &Arc<Self>, range: Range<usize>) -> Option<ReadLease> {
        self.lease(range, false).map(ReadLease)
    }

    /// Leases `range` for writing; none while anybody holds a part of it.
    pub fn try_write(self: &Arc<Self>, range: Range<usize>) -> Option<WriteLease> {
        self.lease(range, true).map(WriteLease)
    }

    fn lease(self: &Arc<Self>, range: Range<usize>, writes: bool) -> Option<Lease> {
        assert!(
            range.start <= range.end && range.end <= self.len,
            "range {range:?} lies outside a region of {} bytes",
            self.len
        );
        let mut leases = self.table();
        let overlaps = |other: &LeaseEntry| other.range.start < range.end && range.start < other.range.end;
        if leases
            .iter()
            .any(|other| (writes || other.writes) && overlaps(other))
        {
            return None;
        }
        leases.push(LeaseEntry {
            range: range.clone(),
            writes,
        });
        Some(Lease {
            region: Arc::clone(self),
            range,
            writes,
        })
    }

    /// The lease table; a thread that panicked while holding it left it consistent, because each change is one push or one removal.
    fn table(&self) -> std::sync::MutexGuard<'_, Vec<LeaseEntry>> {
        lock(&self.leases)
    }

    /// Its address, for a GPU or a NIC; nothing else may bypass the lease table.
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.memory
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        let (mapping, mapped) = self.mapping;
        // SAFETY: mapped in `new` with this length; every lease holds the region, so none is out any more.
        if let Err(error) = unsafe { munmap(mapping, mapped.get()) } {
            tracing::error!(%error, "a region's memory could not be given back");
        }
    }
}

/// The right to touch a range of a region until it is dropped.
struct Lease {
    region: Arc<Region>,
    range: Range<usize>,
    writes: bool,
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut leases = self.region.table();
        let mine = leases
            .iter()
            .position(|other| other.writes == self.writes && other.range == self.range);
        if let Some(index) = mine {
            leases.swap_remove(index);
        }
    }
}

/// The right to read a range; it may be handed to another thread.
pub struct ReadLease(Lease);

impl ReadLease {
    /// The region it is a part of.
    pub fn region(&self) -> &Arc<Region> {
        &self.0.region
    }

    /// Which part.
    pub fn range(&self) -> Range<usize> {
        self.0.range.clone()
    }
}

impl Deref for ReadLease {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let Lease { region, range, .. } = &self.0;
        // SAFETY: the range lies inside the region (checked when leased), and while this lease is out no writing lease
        // overlaps it, so nobody changes these bytes.
        unsafe { std::slice::from_raw_parts(region.start().as_ptr().add(range.start), range.len()) }
    }
}

/// The right to write a range.
pub struct WriteLease(Lease);

impl WriteLease {
    /// The region it is a part of.
    pub fn region(&self) -> &Arc<Region> {
        &self.0.region
    }

    /// Which part.
    pub fn range(&self) -> Range<usize> {
        self.0.range.clone()
    }
}

impl Deref for WriteLease {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let Lease { region, range, .. } = &self.0;
        // SAFETY: as for `ReadLease`; a writing lease is exclusive.
        unsafe { std::slice::from_raw_parts(region.start().as_ptr().add(range.start), range.len()) }
    }
}

impl DerefMut for WriteLease {
    fn deref_mut(&mut self) -> &mut [u8] {
        let Lease { region, range, .. } = &self.0;
        // SAFETY: no other lease overlaps a writing one, and `&mut self` keeps this one from being used twice at a time.
        unsafe { std::slice::from_raw_parts_mut(region.start().as_ptr().add(range.start), range.len()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_being_read_cannot_be_overwritten() {
        let region = Region::new(100);
        let reading = region.try_read(10..20).unwrap();
        assert!(region.try_read(15..30).is_some(), "readers share");
        assert!(region.try_write(19..25).is_none());
        assert!(region.try_write(20..25).is_some());
        drop(reading);
        assert!(region.try_write(10..20).is_some());
    }

    #[test]
    fn memory_being_written_cannot_be_seen() {
        let region = Region::new(64);
        let mut writing = region.try_write(0..8).unwrap();
        writing.copy_from_slice(b"railgaug");
        assert!(region.try_read(7..9).is_none());
        assert!(region.try_write(0..1).is_none());
        drop(writing);
        assert_eq!(&*region.try_read(0..8).unwrap(), b"railgaug");
    }

    #[test]
    fn a_lease_keeps_its_region_alive_on_another_thread() {
        let region = Region::new(1 << 16);
        region.try_write(0..4).unwrap().copy_from_slice(&[1, 2, 3, 4]);
        let lease = region.try_read(0..4).unwrap();
        drop(region);
        let sum = std::thread::spawn(move || lease.iter().map(|byte| u32::from(*byte)).sum::<u32>());
        assert_eq!(sum.join().unwrap(), 10);
    }

    #[test]
    fn empty_ranges_conflict_with_nothing() {
        let region = Region::new(0);
        let _write = region.try_write(0..0).unwrap();
        assert!(region.try_read(0..0).is_some());
        assert!(region.is_empty());
    }
}
