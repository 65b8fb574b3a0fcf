//! The GPU: memory, kernels and arithmetic on one NVIDIA device, through a driver that is opened at run time.

pub mod abi;
