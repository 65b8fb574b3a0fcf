//! GPU errors, with what to do about them.

use thiserror::Error;

/// Why this host has no usable GPU.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CudaUnavailable {
    /// No driver library, or one that cannot be opened.
    #[error(
        "no NVIDIA driver: libcuda.so.1 cannot be opened ({reason}); install NVIDIA driver 580 or newer, or use --device host"
    )]
    NoLibrary {
        /// What the loader said.
        reason: String,
    },
    /// A library of that name which is not a driver, or not all of it.
    #[error("libcuda.so.1 has no {missing}: it is not a complete NVIDIA driver; look at LD_LIBRARY_PATH")]
    NotADriver {
        /// The first function that is not there.
        missing: &'static str,
    },
    /// A driver from before the CUDA version the kernels are built for.
    #[error(
        "the NVIDIA driver is too old: it is for CUDA {}, and CUDA {} is needed (driver 580 or newer)",
        Version(*found),
        Version(*needed)
    )]
    DriverTooOld {
        /// Its version, as it counts: 12040 is 12.4.
        found: u32,
        /// The least version that will do.
        needed: u32,
    },
    /// The driver is there and does not work.
    #[error("the NVIDIA driver does not start: {text} ({name}, {code}); try nvidia-smi")]
    DoesNotStart {
        /// Its answer.
        code: u32,
        /// Name of the answer.
        name: String,
        /// Meaning of the answer.
        text: String,
    },
    /// A driver without a device.
    #[error(
        "the NVIDIA driver works but sees no GPU; look at nvidia-smi, CUDA_VISIBLE_DEVICES and the container's devices"
    )]
    NoDevice,
    /// Devices that the kernels cannot run on.
    #[error(
        "the kernels are PTX for compute capability {}.{} and newer; here: {}", needed.0, needed.1, found.join(", ")
    )]
    DevicesTooOld {
        /// The least compute capability that will do.
        needed: (u32, u32),
        /// What there is: names with their compute capability.
        found: Vec<String>,
    },
}

/// A CUDA version as people write it.
struct Version(u32);

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.0 / 1000, self.0 % 1000 / 10)
    }
}

/// Why something with a GPU did not work.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CudaError {
    /// There is no usable GPU.
    #[error(transparent)]
    Unavailable(#[from] CudaUnavailable),
    /// The driver refused.
    #[error("{call}: {text} ({name}, {code})")]
    Call {
        /// What was asked.
        call: &'static str,
        /// Its answer.
        code: u32,
        /// Name of the answer.
        name: String,
        /// Meaning of the answer.
        text: String,
    },
    /// There are fewer usable GPUs.
    #[error("GPU {ordinal} is not among the GPUs that can be used here: {usable:?}")]
    NoSuchGpu {
        /// Which one was asked for.
        ordinal: u32,
        /// Those that can be used.
        usable: Vec<u32>,
    },
    /// The driver could not translate the kernels for this GPU.
    #[error("the kernels in {module} do not load on {gpu}: {error}{}{log}", if log.is_empty() { "" } else { "\n" })]
    Translation {
        /// Which part of the embedded PTX.
        module: &'static str,
        /// The GPU's name.
        gpu: String,
        /// What the driver answered.
        error: Box<CudaError>,
        /// What its translator said.
        log: String,
    },
    /// The embedded PTX has no kernel of that name.
    #[error("there is no kernel {name}")]
    NoSuchKernel {
        /// Which one was asked for.
        name: String,
    },
    /// Host and kernel disagree about what is passed: the embedded PTX is not from this source.
    #[error("kernel {kernel} takes a parameter of {takes} bytes and was given {given}")]
    Parameter {
        /// Which kernel.
        kernel: String,
        /// What it takes.
        takes: usize,
        /// What it was given.
        given: usize,
    },
    /// A range that lies outside of what was allocated.
    #[error("bytes {start}..{end} lie outside an allocation of {len}")]
    OutOfRange {
        /// First byte.
        start: usize,
        /// The byte after the last.
        end: usize,
        /// Bytes there are.
        len: usize,
    },
    /// One GPU cannot read another's memory.
    #[error("GPU {from} has no peer access to GPU {to}")]
    NoPeerAccess {
        /// Who wanted to.
        from: u32,
        /// Whose memory.
        to: u32,
    },
    /// Work on the GPU did not end in time.
    #[error("{what} did not end in time")]
    Overdue {
        /// What was waited for.
        what: &'static str,
    },
}

impl CudaError {
    /// Whether the GPU has no memory left.
    pub fn is_out_of_memory(&self) -> bool {
        let out = cudarc::driver::sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY as u32;
        matches!(self, CudaError::Call { code, .. } if *code == out)
    }
}
