//! Memory that a NIC may read and write.

use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, Weak};

use rdma_mummy_sys as ib;
use rdma_mummy_sys::ibv_access_flags as flags;

use super::context::Context;
use crate::device::Region;
use crate::device::cuda::GpuDirectMemory;
use crate::sync::lock;

/// A protection domain: queue pairs reach memory of their own domain only.
pub struct ProtectionDomain {
    raw: NonNull<ib::ibv_pd>,
    context: Arc<Context>,
}

// SAFETY: libibverbs is thread-safe; the domain is only read after it was made.
unsafe impl Send for ProtectionDomain {}
// SAFETY: as above.
unsafe impl Sync for ProtectionDomain {}

impl ProtectionDomain {
    /// A new domain.
    pub fn new(context: &Arc<Context>) -> io::Result<Arc<ProtectionDomain>> {
        // SAFETY: the context is open.
        let raw = unsafe { ib::ibv_alloc_pd(context.raw()) };
        Ok(Arc::new(ProtectionDomain {
            raw: NonNull::new(raw).ok_or_else(io::Error::last_os_error)?,
            context: Arc::clone(context),
        }))
    }

    /// The device it is on.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    pub(super) fn raw(&self) -> *mut ib::ibv_pd {
        self.raw.as_ptr()
    }
}

impl Drop for ProtectionDomain {
    fn drop(&mut self) {
        // SAFETY: made in `new`; everything made from it holds it, so nothing is left.
        unsafe { ib::ibv_dealloc_pd(self.raw()) };
    }
}

/// Access flags of registered memory: everything, for this side and for peers that know its key.
fn access() -> i32 {
    let bits =
        flags::IBV_ACCESS_LOCAL_WRITE.0 | flags::IBV_ACCESS_REMOTE_WRITE.0 | flags::IBV_ACCESS_REMOTE_READ.0;
    bits as i32
}

/// Memory registered with a device.
pub struct Registration {
    raw: NonNull<ib::ibv_mr>,
    /// Address by which work requests name its first byte.
    start: u64,
    len: usize,
    _domain: Arc<ProtectionDomain>,
}

// SAFETY: libibverbs is thread-safe; the registration is only read after it was made.
unsafe impl Send for Registration {}
// SAFETY: as above.
unsafe impl Sync for Registration {}

impl Registration {
    /// Registers all of a region. The caller keeps the region alive for as long as work requests name its memory.
    pub fn of_region(domain: &Arc<ProtectionDomain>, region: &Region) -> io::Result<Registration> {
        let start = region.start();
        // SAFETY: the region's memory is mapped and as long as it says. The kernel pins its pages until deregistration, so
        // that a NIC never reaches memory of anybody else, even when the region goes first.
        let raw = unsafe { ib::ibv_reg_mr(domain.raw(), start.as_ptr().cast(), region.len(), access()) };
        Registration::new(domain, raw, start.as_ptr() as u64, region.len())
    }

    /// Registers memory of a GPU, by the dma-buf it was exported as, or by its address where it was not.
    pub fn of_gpu(domain: &Arc<ProtectionDomain>, memory: &GpuDirectMemory) -> io::Result<Registration> {
        let (start, len, access) = (memory.address(), memory.len(), access());
        let raw = match memory.exported() {
            // SAFETY: the descriptor is open; the kernel checks what it is and holds what it needs of it.
            Some(exported) => unsafe {
                ib::ibv_reg_dmabuf_mr(domain.raw(), 0, len, start, exported.as_raw_fd(), access)
            },
            // SAFETY: the address is not touched here; the kernel refuses one that no driver claims.
            None => unsafe { ib::ibv_reg_mr(domain.raw(), start as *mut _, len, access) },
        };
        Registration::new(domain, raw, start, len)
    }

    fn new(
        domain: &Arc<ProtectionDomain>,
        raw: *mut ib::ibv_mr,
        start: u64,
        len: usize,
    ) -> io::Result<Registration> {
        Ok(Registration {
            raw: NonNull::new(raw).ok_or_else(io::Error::last_os_error)?,
            start,
            len,
            _domain: Arc::clone(domain),
        })
    }

    /// Address of its first byte.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The key for work requests of this side.
    pub fn local_key(&self) -> u32 {
        // SAFETY: the registration is alive; the key never changes.
        unsafe { (*self.raw.as_ptr()).lkey }
    }

    /// The key for work requests of the peer.
    pub fn remote_key(&self) -> u32 {
        // SAFETY: as above.
        unsafe { (*self.raw.as_ptr()).rkey }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // SAFETY: made in `new` and not given back before.
        let answer = unsafe { ib::ibv_dereg_mr(self.raw.as_ptr()) };
        if answer != 0 {
            tracing::debug!(answer, "memory could not be deregistered");
        }
    }
}

/// Cached registrations: registering costs far more than sending.
pub struct Registrations<T> {
    known: Mutex<Vec<(Weak<T>, Arc<Registration>)>>,
}

impl<T> Default for Registrations<T> {
    fn default() -> Self {
        Registrations {
            known: Mutex::default(),
        }
    }
}

impl<T> Registrations<T> {
    /// The registration of some memory, made on first use, when those of freed memory are dropped.
    pub fn of(
        &self,
        memory: &Arc<T>,
        make: impl FnOnce() -> io::Result<Registration>,
    ) -> io::Result<Arc<Registration>> {
        let mut known = lock(&self.known);
        let found = known.iter().find(|(of, _)| of.as_ptr() == Arc::as_ptr(memory));
        if let Some((_, registration)) = found {
            return Ok(Arc::clone(registration));
        }
        known.retain(|(of, _)| of.strong_count() > 0);
        let registration = Arc::new(make()?);
        known.push((Arc::downgrade(memory), Arc::clone(&registration)));
        Ok(registration)
    }
}
