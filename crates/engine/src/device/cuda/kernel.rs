//! Kernels: found by name in the embedded PTX, translated for the GPU by its driver, ready before they are needed.

use std::ffi::{CString, c_int, c_void};
use std::ptr::null_mut;
use std::sync::Arc;
use std::time::Instant;

use cudarc::driver::sys::{CUfunction, CUfunction_attribute as Attribute, CUjit_option, CUmodule};

use super::driver::cuda;
use super::error::CudaError;
use super::gpu::Gpu;
use super::ptx;
use crate::sync::lock;

/// Dynamic shared memory a block may have without asking for more.
const SHARED_WITHOUT_ASKING: u32 = 48 << 10;

/// Bytes kept of what the driver's translator says.
const LOG: usize = 8 << 10;

/// A kernel that is loaded and can be launched.
#[derive(Clone)]
pub struct Kernel {
    gpu: Arc<Gpu>,
    name: Arc<str>,
    function: CUfunction,
    /// Bytes of its one parameter.
    parameter: usize,
}

// SAFETY: a function is a handle that any thread may use; the GPU it belongs to is kept.
unsafe impl Send for Kernel {}
// SAFETY: as above.
unsafe impl Sync for Kernel {}

impl Gpu {
    /// The kernel of that name. The first one of a module waits until the driver has translated it, which may take seconds
    /// on a machine that has never done so; everything is loaded when this returns, so a launch never waits for it.
    pub fn kernel(self: &Arc<Gpu>, name: &str) -> Result<Kernel, CudaError> {
        self.enter()?;
        let function = self.function(name)?;
        let (mut offset, mut parameter) = (0, 0);
        // SAFETY: writes two numbers; all our kernels have a parameter 0.
        unsafe {
            cuda!(
                self.driver,
                cuFuncGetParamInfo(function, 0, &mut offset, &mut parameter)
            )
        }?;
        Ok(Kernel {
            gpu: Arc::clone(self),
            name: name.into(),
            function,
            parameter,
        })
    }

    fn function(&self, name: &str) -> Result<CUfunction, CudaError> {
        let mut loaded = lock(&self.loaded);
        if let Some(&function) = loaded.functions.get(name) {
            return Ok(function);
        }
        let unknown = || CudaError::NoSuchKernel { name: name.into() };
        let (module_name, source) = ptx::module_with(name).ok_or_else(unknown)?;
        let module = match loaded.modules.get(module_name) {
            Some(&module) => module,
            None => {
                let module = self.translate(module_name, source)?;
                loaded.modules.insert(module_name, module);
                module
            }
        };
        let c_name = CString::new(name).map_err(|_| unknown())?;
        let mut function = null_mut();
        // SAFETY: the module is loaded and stays so; writes one handle.
        unsafe {
            cuda!(
                self.driver,
                cuModuleGetFunction(&mut function, module, c_name.as_ptr())
            )
        }?;
        // The driver loads lazily by default, at the first launch, and may wait for the whole GPU then: do it now.
        // SAFETY: the function is of a loaded module.
        unsafe { cuda!(self.driver, cuFuncLoad(function)) }?;
        loaded.functions.insert(name.into(), function);
        Ok(function)
    }

    /// Has the driver translate PTX for this GPU.
    fn translate(&self, name: &'static str, source: &str) -> Result<CUmodule, CudaError> {
        let began = Instant::now();
        let image = CString::new(source).map_err(|_| CudaError::NoSuchKernel { name: name.into() })?;
        let mut log = vec![0u8; LOG];
        let mut options = [
            CUjit_option::CU_JIT_ERROR_LOG_BUFFER,
            CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
        ];
        let mut values: [*mut c_void; 2] = [log.as_mut_ptr().cast(), std::ptr::without_provenance_mut(LOG)];
        let mut module = null_mut();
        // SAFETY: the image ends with zero; there are two options with two values; the log has the length it is said to
        // have and outlives the call.
        let outcome = unsafe {
            cuda!(
                self.driver,
                cuModuleLoadDataEx(
                    &mut module,
                    image.as_ptr().cast(),
                    2,
                    options.as_mut_ptr(),
                    values.as_mut_ptr(),
                )
            )
        };
        outcome.map_err(|error| CudaError::Translation {
            module: name,
            gpu: self.info().name.clone(),
            error: Box::new(error),
            log: String::from_utf8_lossy(&log)
                .trim_end_matches('\0')
                .trim()
                .to_string(),
        })?;
        tracing::debug!(module = name, gpu = self.info().ordinal, took = ?began.elapsed(), "kernels translated");
        Ok(module)
    }
}

impl Kernel {
    /// Its name in the PTX.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The GPU it is loaded on.
    pub fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }

    pub(super) fn function(&self) -> CUfunction {
        self.function
    }

    pub(super) fn parameter(&self) -> usize {
        self.parameter
    }

    /// Blocks of this shape that run on one multiprocessor at the same time; more dynamic shared memory than a block may
    /// have without asking is asked for.
    pub fn resident_blocks(&self, threads: u32, shared: u32) -> Result<u32, CudaError> {
        self.gpu.enter()?;
        let driver = self.gpu.driver;
        if shared > SHARED_WITHOUT_ASKING {
            let most = Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            // SAFETY: the function is loaded; a size the GPU does not have is refused.
            unsafe { cuda!(driver, cuFuncSetAttribute(self.function, most, shared as c_int)) }?;
        }
        let mut blocks = 0;
        // SAFETY: writes one int.
        unsafe {
            cuda!(
                driver,
                cuOccupancyMaxActiveBlocksPerMultiprocessor(
                    &mut blocks,
                    self.function,
                    threads as c_int,
                    shared as usize,
                )
            )
        }?;
        Ok(u32::try_from(blocks).unwrap_or(0))
    }

    /// Registers of a thread, and bytes of memory a thread spills to: what occupancy is explained with.
    pub fn registers_and_spills(&self) -> Result<(u32, u32), CudaError> {
        self.gpu.enter()?;
        let ask = |which: Attribute| {
            let mut value = 0;
            // SAFETY: writes one int.
            unsafe {
                cuda!(
                    self.gpu.driver,
                    cuFuncGetAttribute(&mut value, which, self.function)
                )
            }?;
            Ok::<u32, CudaError>(u32::try_from(value).unwrap_or(0))
        };
        Ok((
            ask(Attribute::CU_FUNC_ATTRIBUTE_NUM_REGS)?,
            ask(Attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)?,
        ))
    }
}
