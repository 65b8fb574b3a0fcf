//! The driver library: opened at run time, every function looked up before the first one is called.
//!
//! Nothing here links against CUDA. A missing, incomplete or old driver is an error with a description, never a panic. Results stay
//! plain numbers until they are named, because a newer driver may return an unknown code.

use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::ptr::null;
use std::sync::OnceLock;

use cudarc::driver::sys;
use cudarc::driver::sys::{
    CUcontext, CUdevice, CUdevice_attribute, CUdeviceptr, CUevent, CUfunction, CUfunction_attribute,
    CUipcMemHandle, CUjit_option, CUmodule, CUstream, CUuuid,
};
use libloading::Library;

use super::error::{CudaError, CudaUnavailable};

/// The CUDA version the PTX is built for: a driver must know it.
pub const NEEDED: u32 = 13_000;

/// What the driver answers when all is well.
pub(super) const SUCCESS: u32 = 0;
/// There is work left in a stream, or before an event.
pub(super) const NOT_READY: u32 = sys::CUresult::CUDA_ERROR_NOT_READY as u32;

macro_rules! functions {
    ($($name:ident($($arg:ty),*);)+) => {
        /// The functions of the driver that are used here.
        #[allow(non_snake_case)]
        pub(super) struct Driver {
            $(pub(super) $name: unsafe extern "C" fn($($arg),*) -> u32,)+
            /// Holds a stream until a word in memory is high enough; not every driver has it.
            pub(super) wait_value: Option<unsafe extern "C" fn(CUstream, CUdeviceptr, u64, c_uint) -> u32>,
            /// Exports memory for other devices; not every driver has it.
            pub(super) handle_for_range:
                Option<unsafe extern "C" fn(*mut c_void, CUdeviceptr, usize, c_uint, c_ulonglong) -> u32>,
            /// Makes visible what other devices wrote; not every driver has it.
            pub(super) flush_writes: Option<unsafe extern "C" fn(c_uint, c_uint) -> u32>,
            /// Keeps the functions where they are.
            _library: Library,
        }

        impl Driver {
            /// Looks up every function; the name of the first one that is not there otherwise.
            fn load(library: Library) -> Result<Driver, &'static str> {
                Ok(Driver {
                    $($name: {
                        type Function = unsafe extern "C" fn($($arg),*) -> u32;
                        let name = stringify!($name);
                        // SAFETY: the signature is the one of the CUDA 13.0 driver interface for this name; names carry
                        // their version, so a later driver keeps it. The library is kept as long as the functions.
                        *unsafe { library.get::<Function>(name.as_bytes()) }.map_err(|_| name)?
                    },)+
                    // SAFETY: as above; this one may be missing.
                    wait_value: unsafe { library.get(b"cuStreamWaitValue64_v2") }.ok().map(|found| *found),
                    // SAFETY: as above; this one may be missing.
                    handle_for_range: unsafe { library.get(b"cuMemGetHandleForAddressRange") }
                        .ok()
                        .map(|found| *found),
                    // SAFETY: as above; this one may be missing.
                    flush_writes: unsafe { library.get(b"cuFlushGPUDirectRDMAWrites") }.ok().map(|found| *found),
                    _library: library,
                })
            }
        }
    };
}

functions! {
    cuInit(c_uint);
    cuGetErrorName(u32, *mut *const c_char);
    cuGetErrorString(u32, *mut *const c_char);
    cuDeviceGetCount(*mut c_int);
    cuDeviceGet(*mut CUdevice, c_int);
    cuDeviceGetName(*mut c_char, c_int, CUdevice);
    cuDeviceGetUuid_v2(*mut CUuuid, CUdevice);
    cuDeviceGetPCIBusId(*mut c_char, c_int, CUdevice);
    cuDeviceTotalMem_v2(*mut usize, CUdevice);
    cuDeviceGetAttribute(*mut c_int, CUdevice_attribute, CUdevice);
    cuDevicePrimaryCtxRetain(*mut CUcontext, CUdevice);
    cuDevicePrimaryCtxRelease_v2(CUdevice);
    cuCtxSetCurrent(CUcontext);
    cuDeviceCanAccessPeer(*mut c_int, CUdevice, CUdevice);
    cuCtxEnablePeerAccess(CUcontext, c_uint);
    cuMemGetInfo_v2(*mut usize, *mut usize);
    cuMemAlloc_v2(*mut CUdeviceptr, usize);
    cuMemFree_v2(CUdeviceptr);
    cuMemsetD8Async(CUdeviceptr, u8, usize, CUstream);
    cuMemcpyHtoDAsync_v2(CUdeviceptr, *const c_void, usize, CUstream);
    cuMemcpyDtoHAsync_v2(*mut c_void, CUdeviceptr, usize, CUstream);
    cuMemcpyAsync(CUdeviceptr, CUdeviceptr, usize, CUstream);
    cuMemHostAlloc(*mut *mut c_void, usize, c_uint);
    cuMemFreeHost(*mut c_void);
    cuMemHostGetDevicePointer_v2(*mut CUdeviceptr, *mut c_void, c_uint);
    cuMemHostRegister_v2(*mut c_void, usize, c_uint);
    cuMemHostUnregister(*mut c_void);
    cuIpcGetMemHandle(*mut CUipcMemHandle, CUdeviceptr);
    cuIpcOpenMemHandle_v2(*mut CUdeviceptr, CUipcMemHandle, c_uint);
    cuIpcCloseMemHandle(CUdeviceptr);
    cuModuleLoadDataEx(*mut CUmodule, *const c_void, c_uint, *mut CUjit_option, *mut *mut c_void);
    cuModuleUnload(CUmodule);
    cuModuleGetFunction(*mut CUfunction, CUmodule, *const c_char);
    cuFuncLoad(CUfunction);
    cuFuncGetAttribute(*mut c_int, CUfunction_attribute, CUfunction);
    cuFuncSetAttribute(CUfunction, CUfunction_attribute, c_int);
    cuFuncGetParamInfo(CUfunction, usize, *mut usize, *mut usize);
    cuOccupancyMaxActiveBlocksPerMultiprocessor(*mut c_int, CUfunction, c_int, usize);
    cuStreamCreate(*mut CUstream, c_uint);
    cuStreamDestroy_v2(CUstream);
    cuStreamQuery(CUstream);
    cuStreamSynchronize(CUstream);
    cuStreamWaitEvent(CUstream, CUevent, c_uint);
    cuLaunchKernel(CUfunction, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, CUstream, *mut *mut c_void, *mut *mut c_void);
    cuLaunchCooperativeKernel(CUfunction, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, CUstream, *mut *mut c_void);
    cuEventCreate(*mut CUevent, c_uint);
    cuEventDestroy_v2(CUevent);
    cuEventRecord(CUevent, CUstream);
    cuEventQuery(CUevent);
    cuEventElapsedTime_v2(*mut f32, CUevent, CUevent);
}

/// Where the driver is looked for: the name every driver has, then the one of development packages.
const NAMES: [&str; 2] = ["libcuda.so.1", "libcuda.so"];

impl Driver {
    /// The driver of this machine, started; the same answer every time.
    pub(super) fn get() -> Result<&'static Driver, CudaUnavailable> {
        static DRIVER: OnceLock<Result<Driver, CudaUnavailable>> = OnceLock::new();
        DRIVER.get_or_init(Driver::start).as_ref().map_err(Clone::clone)
    }

    fn start() -> Result<Driver, CudaUnavailable> {
        let library = open()?;
        let found = version(&library)?;
        if found < NEEDED {
            return Err(CudaUnavailable::DriverTooOld {
                found,
                needed: NEEDED,
            });
        }
        let driver = Driver::load(library).map_err(|missing| CudaUnavailable::NotADriver { missing })?;
        // SAFETY: the flags must be zero; may be called any number of times, from any thread.
        match unsafe { (driver.cuInit)(0) } {
            SUCCESS => Ok(driver),
            code if code == sys::CUresult::CUDA_ERROR_NO_DEVICE as u32 => Err(CudaUnavailable::NoDevice),
            code => {
                let (name, text) = driver.describe(code);
                Err(CudaUnavailable::DoesNotStart { code, name, text })
            }
        }
    }

    /// An error for every answer but success; `call` says what was asked.
    pub(super) fn check(&self, call: &'static str, code: u32) -> Result<(), CudaError> {
        if code == SUCCESS {
            return Ok(());
        }
        let (name, text) = self.describe(code);
        Err(CudaError::Call {
            call,
            code,
            name,
            text,
        })
    }

    /// Name and meaning of an answer.
    fn describe(&self, code: u32) -> (String, String) {
        let ask = |function: unsafe extern "C" fn(u32, *mut *const c_char) -> u32| {
            let mut text = null();
            // SAFETY: writes a pointer to a string that lives as long as the library, or null for a code it does not know.
            let known = unsafe { function(code, &mut text) } == SUCCESS && !text.is_null();
            // SAFETY: see above; the string ends with zero.
            known.then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
        };
        (
            ask(self.cuGetErrorName).unwrap_or_else(|| "unknown code".into()),
            ask(self.cuGetErrorString).unwrap_or_else(|| "unknown error".into()),
        )
    }
}

/// Opens the library; why it cannot be opened otherwise.
fn open() -> Result<Library, CudaUnavailable> {
    let mut reasons = Vec::new();
    for name in NAMES {
        // SAFETY: opening a driver library runs its initialisers, which a CUDA program has to accept; it happens once.
        match unsafe { Library::new(name) } {
            Ok(library) => return Ok(library),
            Err(error) => reasons.push(why(&error)),
        }
    }
    // The second name is only a fallback: what is wrong with the first one is what matters, unless it is not there at all.
    let reason = reasons
        .iter()
        .find(|reason| !reason.contains("No such file"))
        .or(reasons.first());
    Err(CudaUnavailable::NoLibrary {
        reason: reason.cloned().unwrap_or_default(),
    })
}

/// What the loader says, which is the source of the error rather than the error.
fn why(error: &libloading::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

/// The CUDA version a driver is for; asked before anything else, because an old one has not all functions.
fn version(library: &Library) -> Result<u32, CudaUnavailable> {
    type GetVersion = unsafe extern "C" fn(*mut c_int) -> u32;
    let missing = "cuDriverGetVersion";
    // SAFETY: the signature has been the same in every driver.
    let function = unsafe { library.get::<GetVersion>(missing.as_bytes()) };
    let function = function.map_err(|_| CudaUnavailable::NotADriver { missing })?;
    let mut version = 0;
    // SAFETY: writes one int; may be called before the driver is started.
    match unsafe { function(&mut version) } {
        SUCCESS => Ok(u32::try_from(version).unwrap_or(0)),
        code => Err(CudaUnavailable::DoesNotStart {
            code,
            name: "no name".into(),
            text: "it does not tell its version".into(),
        }),
    }
}

/// Calls a function of the driver and checks its answer. To be used inside `unsafe`, with a reason.
macro_rules! cuda {
    ($driver:expr, $name:ident($($arg:expr),* $(,)?)) => {
        $driver.check(stringify!($name), ($driver.$name)($($arg),*))
    };
}
pub(super) use cuda;
