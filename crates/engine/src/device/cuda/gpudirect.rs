//! GPU memory that a NIC reads and writes directly (GPUDirect RDMA).
//!
//! It is registered with a NIC in one of two ways: by a dma-buf that the driver exports, or else by its address, which works where
//! the nvidia-peermem module translates it. Kernels see what a NIC has written only when the GPU orders such writes, or after a
//! flush.

use std::ffi::{c_int, c_uint, c_void};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;

use cudarc::driver::sys::{
    CUdevice_attribute as Attribute, CUflushGPUDirectRDMAWritesScope as Scope,
    CUflushGPUDirectRDMAWritesTarget as Target, CUmemRangeHandleType as Handle,
};

use super::driver::cuda;
use super::error::CudaError;
use super::gpu::Gpu;
use super::memory::Allocation;

/// The GPU sees a NIC's writes in order from this value of its ordering attribute on.
const ORDERED: c_int = 100;
/// The bit of its flush attribute that says that the host can flush.
const HOST_FLUSHES: c_int = 1;

/// GPU memory that NICs can register.
pub struct GpuDirectMemory {
    allocation: Arc<Allocation>,
    /// Its dma-buf; none where only its address can be registered.
    exported: Option<OwnedFd>,
    /// Whether a NIC's writes must be flushed before kernels read them.
    flushes: bool,
}

impl GpuDirectMemory {
    /// Prepares an allocation for registration, or says why that is impossible.
    pub fn of(allocation: &Arc<Allocation>) -> Result<GpuDirectMemory, String> {
        let gpu = allocation.gpu();
        let message = |error: CudaError| error.to_string();
        gpu.enter().map_err(message)?;
        let name = &gpu.info().name;
        if gpu.attribute(Attribute::CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED) != 1 {
            return Err(format!("{name} does not support GPUDirect RDMA"));
        }
        let ordering = gpu.attribute(Attribute::CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING);
        let options = gpu.attribute(Attribute::CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS);
        let flushes = ordering < ORDERED;
        if flushes && (options & HOST_FLUSHES == 0 || gpu.driver.flush_writes.is_none()) {
            return Err(format!(
                "{name} neither orders NIC writes nor lets the host flush them"
            ));
        }
        let exports = gpu.attribute(Attribute::CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED) == 1;
        let exported = match (exports, gpu.driver.handle_for_range) {
            (true, Some(export)) => {
                let mut descriptor: c_int = -1;
                let place = std::ptr::from_mut(&mut descriptor).cast::<c_void>();
                let kind = Handle::CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD as c_uint;
                let (address, len) = (allocation.address(), allocation.page_bytes());
                // SAFETY: writes one descriptor; the range is an allocation of whole pages.
                let code = unsafe { export(place, address, len, kind, 0) };
                gpu.driver
                    .check("cuMemGetHandleForAddressRange", code)
                    .map_err(message)?;
                // SAFETY: the driver has just made it for us.
                Some(unsafe { OwnedFd::from_raw_fd(descriptor) })
            }
            _ => None,
        };
        Ok(GpuDirectMemory {
            allocation: Arc::clone(allocation),
            exported,
            flushes,
        })
    }

    /// Where it begins, on the GPU.
    pub fn address(&self) -> u64 {
        self.allocation.address()
    }

    /// Bytes, in whole pages.
    pub fn len(&self) -> usize {
        self.allocation.page_bytes()
    }

    /// Whether it is empty; it never is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The dma-buf it was exported as, where it was.
    pub fn exported(&self) -> Option<BorrowedFd<'_>> {
        self.exported.as_ref().map(AsFd::as_fd)
    }

    /// Makes what NICs have written so far visible to kernels.
    pub fn flush_nic_writes(&self) -> Result<(), CudaError> {
        let gpu = self.allocation.gpu();
        let Some(flush) = gpu.driver.flush_writes.filter(|_| self.flushes) else {
            return Ok(());
        };
        gpu.enter()?;
        let target = Target::CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX as c_uint;
        let scope = Scope::CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER as c_uint;
        // SAFETY: takes two numbers.
        gpu.driver
            .check("cuFlushGPUDirectRDMAWrites", unsafe { flush(target, scope) })
    }
}

impl Gpu {
    /// A device attribute; 0 where the driver does not know it.
    fn attribute(&self, which: Attribute) -> c_int {
        let mut value = 0;
        // SAFETY: writes one number.
        let asked = unsafe { cuda!(self.driver, cuDeviceGetAttribute(&mut value, which, self.device)) };
        asked.map_or(0, |()| value)
    }
}
