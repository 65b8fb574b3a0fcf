//! Host memory that a GPU reads and writes while the CPU does: flags, status, and slots that a proxy carries on.
//!
//! Both sides touch it at the same time, so on the CPU's side there are no references into it, only atomic words: a
//! release store is seen by an acquire load of the kernel at system scope, and the other way round, together with
//! everything written before it.

use std::ffi::c_void;
use std::ops::Deref;
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use bytemuck::Pod;
use cudarc::driver::sys;

use super::driver::cuda;
use super::error::CudaError;
use super::gpu::Gpu;
use crate::device::Region;

/// Words of host memory that a GPU sees.
pub struct SharedWords {
    start: NonNull<u8>,
    bytes: usize,
    address: u64,
}

// SAFETY: reached through atomic operations only.
unsafe impl Send for SharedWords {}
// SAFETY: as above.
unsafe impl Sync for SharedWords {}

impl SharedWords {
    /// Where the GPU finds it.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Bytes there are.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The word at a byte offset, and everything that was written before it.
    pub fn load_u64(&self, offset: usize) -> u64 {
        self.word_u64(offset).load(Ordering::Acquire)
    }

    /// Writes the word at a byte offset, after everything that was written before.
    pub fn store_u64(&self, offset: usize, value: u64) {
        self.word_u64(offset).store(value, Ordering::Release);
    }

    /// As [`SharedWords::load_u64`].
    pub fn load_u32(&self, offset: usize) -> u32 {
        self.word_u32(offset).load(Ordering::Acquire)
    }

    /// As [`SharedWords::store_u64`].
    pub fn store_u32(&self, offset: usize, value: u32) {
        self.word_u32(offset).store(value, Ordering::Release);
    }

    /// A copy of what lies at a byte offset, word by word: whole when nobody writes it at the same time.
    ///
    /// # Panics
    ///
    /// When it does not lie within this memory, or its size is not a multiple of four bytes.
    pub fn read<T: Pod>(&self, offset: usize) -> T {
        let mut value = T::zeroed();
        fence(Ordering::Acquire);
        for (i, word) in words_of(&mut value).enumerate() {
            let read = self.word_u32(offset + 4 * i).load(Ordering::Relaxed);
            word.copy_from_slice(&read.to_ne_bytes());
        }
        value
    }

    /// Writes `value` at a byte offset, word by word.
    ///
    /// # Panics
    ///
    /// As [`SharedWords::read`].
    pub fn write<T: Pod>(&self, offset: usize, mut value: T) {
        for (i, word) in words_of(&mut value).enumerate() {
            let word = u32::from_ne_bytes([word[0], word[1], word[2], word[3]]);
            self.word_u32(offset + 4 * i).store(word, Ordering::Relaxed);
        }
        fence(Ordering::Release);
    }

    fn word_u64(&self, offset: usize) -> &AtomicU64 {
        let at = self.at(offset, size_of::<u64>()).cast();
        // SAFETY: in range and aligned (checked in `at`), alive as long as `self`, and reached atomically by everybody.
        unsafe { AtomicU64::from_ptr(at.as_ptr()) }
    }

    fn word_u32(&self, offset: usize) -> &AtomicU32 {
        let at = self.at(offset, size_of::<u32>()).cast();
        // SAFETY: as in `word_u64`.
        unsafe { AtomicU32::from_ptr(at.as_ptr()) }
    }

    fn at(&self, offset: usize, size: usize) -> NonNull<u8> {
        let fits = offset.checked_add(size).is_some_and(|end| end <= self.bytes);
        assert!(
            fits && offset.is_multiple_of(size),
            "no word of {size} bytes at {offset}"
        );
        // SAFETY: just checked.
        unsafe { self.start.add(offset) }
    }
}

/// The 32-bit words of a value.
fn words_of<T: Pod>(value: &mut T) -> impl Iterator<Item = &mut [u8]> {
    assert!(size_of::<T>().is_multiple_of(4), "not made of words");
    bytemuck::bytes_of_mut(value).chunks_exact_mut(4)
}

/// Host memory taken from the driver: pinned, seen by every GPU, zero at first. Freed when dropped.
pub struct Pinned {
    words: SharedWords,
    gpu: Arc<Gpu>,
}

impl Gpu {
    /// `bytes` of zeroed host memory that this GPU sees, aligned to a page.
    pub fn pin(self: &Arc<Gpu>, bytes: usize) -> Result<Pinned, CudaError> {
        self.enter()?;
        let bytes = bytes.max(8).next_multiple_of(8);
        let flags = sys::CU_MEMHOSTALLOC_PORTABLE | sys::CU_MEMHOSTALLOC_DEVICEMAP;
        let mut start = null_mut();
        // SAFETY: writes one pointer.
        unsafe { cuda!(self.driver, cuMemHostAlloc(&mut start, bytes, flags)) }?;
        let Some(start) = NonNull::new(start.cast::<u8>()) else {
            let code = sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY as u32;
            return Err(CudaError::Call {
                call: "cuMemHostAlloc",
                code,
                name: "no memory".into(),
                text: "the driver gave none".into(),
            });
        };
        // SAFETY: just allocated with this size, and nobody else knows it.
        unsafe { start.write_bytes(0, bytes) };
        // Made before the address is asked for, so that the memory is freed when that fails.
        let mut pinned = Pinned {
            words: SharedWords {
                start,
                bytes,
                address: 0,
            },
            gpu: Arc::clone(self),
        };
        pinned.words.address = self.address_of(start.as_ptr().cast())?;
        Ok(pinned)
    }

    /// Pins a region that exists already, so that this GPU sees it; undone when the answer is dropped.
    ///
    /// The GPU keeps to no lease table. Whoever leases a part of the region must know, from flags, that no kernel writes it.
    pub fn register(self: &Arc<Gpu>, region: Arc<Region>) -> Result<Registered, CudaError> {
        self.enter()?;
        let (start, bytes) = (region.start(), region.len());
        let flags = sys::CU_MEMHOSTREGISTER_PORTABLE | sys::CU_MEMHOSTREGISTER_DEVICEMAP;
        // SAFETY: a region is mapped memory of this length which begins at a page; the answer keeps it alive.
        unsafe {
            cuda!(
                self.driver,
                cuMemHostRegister_v2(start.as_ptr().cast(), bytes, flags)
            )
        }?;
        let mut registered = Registered {
            words: SharedWords {
                start,
                bytes,
                address: 0,
            },
            gpu: Arc::clone(self),
            region,
        };
        registered.words.address = self.address_of(start.as_ptr().cast())?;
        Ok(registered)
    }

    /// Where the GPU sees pinned memory.
    fn address_of(&self, start: *mut c_void) -> Result<u64, CudaError> {
        let mut address = 0;
        // SAFETY: writes one address; the memory was pinned for devices.
        unsafe { cuda!(self.driver, cuMemHostGetDevicePointer_v2(&mut address, start, 0)) }?;
        Ok(address)
    }
}

impl Deref for Pinned {
    type Target = SharedWords;

    fn deref(&self) -> &SharedWords {
        &self.words
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let start = self.words.start.as_ptr().cast();
        // SAFETY: allocated by `pin`, freed once.
        self.gpu
            .release("cuMemFreeHost", |driver| unsafe { (driver.cuMemFreeHost)(start) });
    }
}

/// A region that a GPU sees.
pub struct Registered {
    words: SharedWords,
    gpu: Arc<Gpu>,
    region: Arc<Region>,
}

impl Registered {
    /// The region itself.
    pub fn region(&self) -> &Arc<Region> {
        &self.region
    }
}

impl Deref for Registered {
    type Target = SharedWords;

    fn deref(&self) -> &SharedWords {
        &self.words
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let start = self.words.start.as_ptr().cast();
        // SAFETY: registered by `register`, undone once; the region is dropped after this.
        self.gpu.release("cuMemHostUnregister", |driver| unsafe {
            (driver.cuMemHostUnregister)(start)
        });
    }
}
