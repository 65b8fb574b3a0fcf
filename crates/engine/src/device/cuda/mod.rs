//! The GPU: memory, kernels and arithmetic on one NVIDIA device, through a driver that is opened at run time.
//!
//! Everything here is built on every machine and runs where there is a driver; [`probe`] says what is missing elsewhere.
//! `kernels/shim` has a driver whose GPU is the CPU: with it in `LD_LIBRARY_PATH`, all of this runs without a GPU.
#![allow(unsafe_code)]

pub mod abi;
mod driver;
mod error;
mod gpu;
mod gpudirect;
mod kernel;
mod memory;
pub mod nccl;
pub mod pattern_kernels;
mod pinned;
mod probe;
pub mod ptx;
mod stream;

pub use driver::NEEDED;
pub use error::{CudaError, CudaUnavailable};
pub use gpu::Gpu;
pub use gpudirect::GpuDirectMemory;
pub use kernel::Kernel;
pub use memory::{Allocation, Imported, IpcHandle};
pub use pinned::{Pinned, Registered, SharedWords};
pub use probe::{GpuInfo, NEEDED_COMPUTE, peer_gpus, probe};
pub use stream::{Event, Progress, Stream};
