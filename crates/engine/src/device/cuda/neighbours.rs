//! Which GPUs of this machine use each other's memory.

use std::ffi::c_int;

use super::driver::{Driver, cuda};
use super::error::CudaError;
use super::probe;

/// The other GPUs, by UUID, whose memory GPU `ordinal` can use. Opens none of them.
pub fn neighbours(ordinal: u32) -> Result<Vec<String>, CudaError> {
    let driver = Driver::get()?;
    let mine = probe::device(driver, ordinal)?;
    let mut neighbours = Vec::new();
    for other in probe::probe()? {
        if other.ordinal == ordinal {
            continue;
        }
        let theirs = probe::device(driver, other.ordinal)?;
        let mut can: c_int = 0;
        // SAFETY: writes one int; both devices were named by the driver.
        unsafe { cuda!(driver, cuDeviceCanAccessPeer(&mut can, mine, theirs)) }?;
        if can != 0 {
            neighbours.push(other.uuid);
        }
    }
    Ok(neighbours)
}
