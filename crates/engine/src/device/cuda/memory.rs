//! GPU memory: what this process allocated, and what another process lets it use.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::sys::{CUipcMem_flags, CUipcMemHandle};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::driver::cuda;
use super::error::CudaError;
use super::gpu::Gpu;

/// Allocations are whole pages of the GPU: what is shared with another process is then nobody else's.
const PAGE: usize = 2 << 20;

/// Memory on a GPU; freed when dropped, which waits until the GPU is idle.
pub struct Allocation {
    gpu: Arc<Gpu>,
    address: u64,
    len: usize,
}

impl Gpu {
    /// `bytes` of memory, of unknown contents, aligned to 256 bytes and more.
    pub fn allocate(self: &Arc<Gpu>, bytes: usize) -> Result<Allocation, CudaError> {
        self.enter()?;
        let pages = bytes.max(1).div_ceil(PAGE);
        let mut address = 0;
        // SAFETY: writes one address.
        unsafe { cuda!(self.driver, cuMemAlloc_v2(&mut address, pages * PAGE)) }?;
        Ok(Allocation {
            gpu: Arc::clone(self),
            address,
            len: bytes,
        })
    }

    /// Memory that another process of this machine allocated on this GPU or one that can be reached from here. Opening
    /// the same memory several times is fine; a process cannot open its own.
    pub fn open_ipc(self: &Arc<Gpu>, handle: &IpcHandle) -> Result<Imported, CudaError> {
        self.enter()?;
        let raw = CUipcMemHandle {
            reserved: handle.0.map(|byte| byte as _),
        };
        let lazily = CUipcMem_flags::CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS as u32;
        let mut address = 0;
        // SAFETY: writes one address; a handle that means nothing to the driver is refused.
        unsafe { cuda!(self.driver, cuIpcOpenMemHandle_v2(&mut address, raw, lazily)) }?;
        Ok(Imported {
            gpu: Arc::clone(self),
            address,
        })
    }
}

impl Allocation {
    /// Where it begins, on the GPU.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Bytes that were asked for.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it holds no byte at all.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes it takes, in whole pages.
    pub fn page_bytes(&self) -> usize {
        self.len.max(1).div_ceil(PAGE) * PAGE
    }

    /// The GPU it lies on.
    pub fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }

    /// Writes zeros, and waits for that.
    pub fn zero(&self, range: Range<usize>) -> Result<(), CudaError> {
        let at = self.at(range.start, range.end)?;
        if range.is_empty() {
            return Ok(());
        }
        let driver = self.gpu.driver;
        // SAFETY: the range lies in this allocation.
        self.gpu.run_on_service_stream(|stream| unsafe {
            cuda!(driver, cuMemsetD8Async(at, 0, range.len(), stream))
        })
    }

    /// Copies `bytes` to the GPU, and waits until they are there for every kernel launched from now on.
    pub fn upload(&self, offset: usize, bytes: &[u8]) -> Result<(), CudaError> {
        let at = self.at(offset, offset.saturating_add(bytes.len()))?;
        if bytes.is_empty() {
            return Ok(());
        }
        let (driver, from) = (self.gpu.driver, bytes.as_ptr().cast());
        // SAFETY: source and destination have this many bytes, and the source is borrowed until the copy is done.
        self.gpu.run_on_service_stream(|stream| unsafe {
            cuda!(driver, cuMemcpyHtoDAsync_v2(at, from, bytes.len(), stream))
        })
    }

    /// Copies from the GPU. What kernels that are still running write may or may not be in it.
    pub fn download(&self, offset: usize, bytes: &mut [u8]) -> Result<(), CudaError> {
        let at = self.at(offset, offset.saturating_add(bytes.len()))?;
        if bytes.is_empty() {
            return Ok(());
        }
        let (driver, to, len) = (self.gpu.driver, bytes.as_mut_ptr().cast(), bytes.len());
        // SAFETY: source and destination have this many bytes, and the destination is borrowed until the copy is done.
        self.gpu.run_on_service_stream(|stream| unsafe {
            cuda!(driver, cuMemcpyDtoHAsync_v2(to, at, len, stream))
        })
    }

    /// A handle with which another process of this machine can open it.
    pub fn export(&self) -> Result<IpcHandle, CudaError> {
        self.gpu.enter()?;
        let mut handle = CUipcMemHandle { reserved: [0; 64] };
        // SAFETY: writes 64 bytes; the address is one that `cuMemAlloc` returned.
        unsafe { cuda!(self.gpu.driver, cuIpcGetMemHandle(&mut handle, self.address)) }?;
        Ok(IpcHandle(handle.reserved.map(|byte| byte as u8)))
    }

    /// The address of byte `start`, when everything up to `end` is part of this.
    fn at(&self, start: usize, end: usize) -> Result<u64, CudaError> {
        if start > end || end > self.len {
            let len = self.len;
            return Err(CudaError::OutOfRange { start, end, len });
        }
        Ok(self.address + start as u64)
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        // SAFETY: allocated by `allocate`, freed once.
        self.gpu.release("cuMemFree", |driver| unsafe {
            (driver.cuMemFree_v2)(self.address)
        });
    }
}

/// Memory of another process on a GPU; closed when dropped.
pub struct Imported {
    gpu: Arc<Gpu>,
    address: u64,
}

impl Imported {
    /// Where it begins, for kernels of this process.
    pub fn address(&self) -> u64 {
        self.address
    }
}

impl Drop for Imported {
    fn drop(&mut self) {
        // SAFETY: opened by `open_ipc`, closed once for each time it was opened.
        self.gpu.release("cuIpcCloseMemHandle", |driver| unsafe {
            (driver.cuIpcCloseMemHandle)(self.address)
        });
    }
}

/// What one process gives another so that it can open an allocation. Written as 128 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct IpcHandle(pub [u8; 64]);

impl fmt::Display for IpcHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for IpcHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IpcHandle({self})")
    }
}

impl std::str::FromStr for IpcHandle {
    type Err = String;

    fn from_str(text: &str) -> Result<IpcHandle, String> {
        let wrong = || format!("not 128 hexadecimal digits: {text:?}");
        if text.len() != 128 || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        let mut handle = [0; 64];
        for (byte, digits) in handle.iter_mut().zip(text.as_bytes().chunks(2)) {
            let digits = std::str::from_utf8(digits).map_err(|_| wrong())?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| wrong())?;
        }
        Ok(IpcHandle(handle))
    }
}

impl Serialize for IpcHandle {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for IpcHandle {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<IpcHandle, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_survives_the_way_to_another_process() {
        let handle = IpcHandle(std::array::from_fn(|i| (i * 37) as u8));
        let json = serde_json::to_string(&handle).unwrap();
        assert_eq!(json.len(), 130);
        assert_eq!(serde_json::from_str::<IpcHandle>(&json).unwrap(), handle);
        for bad in [
            "\"00\"".to_string(),
            json.replace('0', "x"),
            format!("\"{}\"", "+1".repeat(64)),
        ] {
            assert!(serde_json::from_str::<IpcHandle>(&bad).is_err(), "{bad}");
        }
    }
}
