//! Whether a GPU has joined the NVLink fabric that a fabric manager sets up: the one question the wrapper does not ask.

#![allow(unsafe_code)]

use std::mem::MaybeUninit;

use nvml_wrapper::Device;
use nvml_wrapper::error::{NvmlError, nvml_sym, nvml_try};

/// The states by their numbers in NVML.
const STATES: [&str; 4] = ["not supported", "not started", "in progress", "completed"];

/// The state in words; not supported where a GPU is in no such fabric.
pub(super) fn of(device: &Device<'_>) -> Result<String, NvmlError> {
    let library = device.nvml().lib();
    let ask = nvml_sym(library.nvmlDeviceGetGpuFabricInfo.as_ref())?;
    let mut info = MaybeUninit::zeroed();
    // SAFETY: the handle is that of a device whose NVML is open for as long as `device` lives. The function, taken from that very
    // library, fills in the structure it is given, whose every field is a number and thus valid with all bits zero.
    let info = unsafe {
        nvml_try(ask(device.handle(), info.as_mut_ptr()))?;
        info.assume_init()
    };
    if info.state == 0 {
        return Err(NvmlError::NotSupported);
    }
    let state = STATES.get(usize::from(info.state)).copied();
    let state = state.map_or_else(|| format!("state {}", info.state), str::to_string);
    match info.status {
        0 => Ok(state),
        status => Ok(format!("{state}, status {status}")),
    }
}
