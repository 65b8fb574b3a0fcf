//! One GPU, opened: its context, and the streams, kernels and memory that belong to it.
//!
//! A process has one [`Gpu`] per device, shared by all ranks on it. Any thread may call anything: each call makes the
//! context current first, which costs nanoseconds. What is made from a `Gpu` keeps it alive, so the context goes last.
//!
//! Some calls of the driver wait until the whole GPU is idle: allocating and freeing memory, pinning it, loading a
//! module. They must not be made while a kernel waits for something that the same thread still has to do; prepare first,
//! launch then.

use std::collections::HashMap;
use std::ffi::c_int;
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, Weak};

use cudarc::driver::sys::{CUcontext, CUdevice, CUfunction, CUmodule, CUresult, CUstream, CUstream_flags};

use super::driver::{Driver, cuda};
use super::error::CudaError;
use super::probe::{self, GpuInfo};
use crate::sync::lock;

/// A GPU this process uses.
pub struct Gpu {
    pub(super) driver: &'static Driver,
    info: GpuInfo,
    pub(super) device: CUdevice,
    context: CUcontext,
    /// For uploads, downloads and zeroing, which are waited for.
    service: CUstream,
    pub(super) loaded: Mutex<Loaded>,
}

/// What was translated for this GPU so far.
#[derive(Default)]
pub(super) struct Loaded {
    pub(super) modules: HashMap<&'static str, CUmodule>,
    pub(super) functions: HashMap<String, CUfunction>,
}

// SAFETY: contexts, streams, modules and functions are handles that the driver lets any thread use; what is changed here
// is behind a mutex.
unsafe impl Send for Gpu {}
// SAFETY: as above.
unsafe impl Sync for Gpu {}

/// The GPUs that are open in this process.
static OPEN: Mutex<Vec<(u32, Weak<Gpu>)>> = Mutex::new(Vec::new());

impl Gpu {
    /// Opens a GPU by the driver's number, or shares the one that is open already.
    pub fn open(ordinal: u32) -> Result<Arc<Gpu>, CudaError> {
        let mut open = lock(&OPEN);
        let shared = open.iter().find(|(other, _)| *other == ordinal);
        if let Some(gpu) = shared.and_then(|(_, gpu)| gpu.upgrade()) {
            return Ok(gpu);
        }
        let gpu = Arc::new(Gpu::make(ordinal)?);
        open.retain(|(other, _)| *other != ordinal);
        open.push((ordinal, Arc::downgrade(&gpu)));
        Ok(gpu)
    }

    fn make(ordinal: u32) -> Result<Gpu, CudaError> {
        let usable = probe::probe()?;
        let info = usable.iter().find(|gpu| gpu.ordinal == ordinal).cloned();
        let info = info.ok_or_else(|| CudaError::NoSuchGpu {
            ordinal,
            usable: usable.iter().map(|gpu| gpu.ordinal).collect(),
        })?;
        let driver = Driver::get()?;
        let device = probe::device(driver, ordinal)?;
        let mut gpu = Gpu {
            driver,
            info,
            device,
            context: null_mut(),
            service: null_mut(),
            loaded: Mutex::default(),
        };
        // SAFETY: writes one handle. The primary context is the one other libraries of this process use too.
        unsafe { cuda!(driver, cuDevicePrimaryCtxRetain(&mut gpu.context, device)) }?;
        gpu.service = gpu.new_stream()?;
        Ok(gpu)
    }

    /// What the driver says about it.
    pub fn info(&self) -> &GpuInfo {
        &self.info
    }

    /// Bytes of its memory that are free now.
    pub fn free_memory(&self) -> Result<u64, CudaError> {
        self.enter()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: writes two numbers.
        unsafe { cuda!(self.driver, cuMemGetInfo_v2(&mut free, &mut total)) }?;
        Ok(free as u64)
    }

    /// Lets kernels on this GPU use the memory of `other`, a GPU of the same process. Nothing to do for itself.
    pub fn enable_peer(&self, other: &Gpu) -> Result<(), CudaError> {
        if self.info.ordinal == other.info.ordinal {
            return Ok(());
        }
        self.enter()?;
        let mut can: c_int = 0;
        // SAFETY: writes one int.
        unsafe {
            cuda!(
                self.driver,
                cuDeviceCanAccessPeer(&mut can, self.device, other.device)
            )
        }?;
        if can == 0 {
            return Err(CudaError::NoPeerAccess {
                from: self.info.ordinal,
                to: other.info.ordinal,
            });
        }
        // SAFETY: both contexts are alive; this one is current.
        let code = unsafe { (self.driver.cuCtxEnablePeerAccess)(other.context, 0) };
        if code == CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED as u32 {
            return Ok(());
        }
        self.driver.check("cuCtxEnablePeerAccess", code)
    }

    /// Makes the context current on this thread.
    pub(super) fn enter(&self) -> Result<(), CudaError> {
        // SAFETY: the context is retained as long as `self` lives.
        unsafe { cuda!(self.driver, cuCtxSetCurrent(self.context)) }
    }

    /// A stream that waits for no other, not even the default one.
    pub(super) fn new_stream(&self) -> Result<CUstream, CudaError> {
        self.enter()?;
        let mut stream = null_mut();
        let flags = CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: writes one handle.
        unsafe { cuda!(self.driver, cuStreamCreate(&mut stream, flags)) }?;
        Ok(stream)
    }

    /// Runs something on the service stream and waits until it is done. Copies from and to ordinary memory return before
    /// the GPU has all bytes, and kernels on other streams would not wait for them.
    pub(super) fn run_on_service_stream(
        &self,
        work: impl FnOnce(CUstream) -> Result<(), CudaError>,
    ) -> Result<(), CudaError> {
        self.enter()?;
        work(self.service)?;
        // SAFETY: the stream lives as long as `self`.
        unsafe { cuda!(self.driver, cuStreamSynchronize(self.service)) }
    }

    /// Releases something in a destructor; errors go to the log.
    pub(super) fn release(&self, what: &'static str, release: impl FnOnce(&Driver) -> u32) {
        let outcome = self
            .enter()
            .and_then(|()| self.driver.check(what, release(self.driver)));
        if let Err(error) = outcome {
            tracing::warn!(%error, "a GPU resource was not released");
        }
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        if self.context.is_null() {
            return;
        }
        for &module in lock(&self.loaded).modules.values() {
            // SAFETY: loaded in this context; every kernel keeps the GPU, so none is in use.
            self.release("cuModuleUnload", |driver| unsafe {
                (driver.cuModuleUnload)(module)
            });
        }
        if !self.service.is_null() {
            // SAFETY: made by `make`, and everything on it was waited for.
            self.release("cuStreamDestroy", |driver| unsafe {
                (driver.cuStreamDestroy_v2)(self.service)
            });
        }
        // SAFETY: retained once in `make`.
        let code = unsafe { (self.driver.cuDevicePrimaryCtxRelease_v2)(self.device) };
        if let Err(error) = self.driver.check("cuDevicePrimaryCtxRelease", code) {
            tracing::warn!(%error, "a GPU's context was not released");
        }
    }
}

impl std::fmt::Debug for Gpu {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Gpu({} {})", self.info.ordinal, self.info.name)
    }
}
