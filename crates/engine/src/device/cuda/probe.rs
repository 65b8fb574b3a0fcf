//! Which GPUs this machine has, and what keeps them from being used.

use std::ffi::{CStr, c_char, c_int};

use cudarc::driver::sys::CUdevice_attribute as Attribute;
use cudarc::driver::sys::{CUdevice, CUuuid};
use serde::{Deserialize, Serialize};

use super::driver::{Driver, cuda};
use super::error::{CudaError, CudaUnavailable};

/// The least compute capability the PTX runs on; newer GPUs translate it too.
pub const NEEDED_COMPUTE: (u32, u32) = (9, 0);

/// Threads of a block on a GPU that allows as many: enough to keep a multiprocessor's memory pipes full.
const THREADS: u32 = 512;

/// One GPU, as its driver describes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuInfo {
    /// The driver's number for it.
    pub ordinal: u32,
    /// Marketing name.
    pub name: String,
    /// Unique and lasting, as nvidia-smi prints it: `GPU-0123...`.
    pub uuid: String,
    /// Where it is plugged in: `0000:1b:00.0`.
    pub pci: String,
    /// Multiprocessors.
    pub sms: u32,
    /// Threads a block of our kernels has here.
    pub threads: u32,
    /// Bytes of memory.
    pub memory: u64,
    /// Bytes of second-level cache.
    pub l2: u64,
    /// Compute capability.
    pub compute: (u32, u32),
}

/// The GPUs our kernels can run on; why there is none otherwise. Starts the driver, and uses no memory on any GPU.
pub fn probe() -> Result<Vec<GpuInfo>, CudaUnavailable> {
    let driver = Driver::get()?;
    let mut all = Vec::new();
    for ordinal in 0..count(driver).map_err(does_not_answer)? {
        all.push(describe(driver, ordinal).map_err(does_not_answer)?);
    }
    if all.is_empty() {
        return Err(CudaUnavailable::NoDevice);
    }
    usable(all)
}

/// Those of the GPUs that the kernels run on; an error when there is none.
fn usable(all: Vec<GpuInfo>) -> Result<Vec<GpuInfo>, CudaUnavailable> {
    let (good, bad): (Vec<_>, Vec<_>) = all.into_iter().partition(|gpu| gpu.compute >= NEEDED_COMPUTE);
    for gpu in &bad {
        tracing::debug!(gpu = gpu.ordinal, name = gpu.name, compute = ?gpu.compute, "too old for the kernels");
    }
    if good.is_empty() {
        let found = |gpu: &GpuInfo| format!("{} ({}.{})", gpu.name, gpu.compute.0, gpu.compute.1);
        return Err(CudaUnavailable::DevicesTooOld {
            needed: NEEDED_COMPUTE,
            found: bad.iter().map(found).collect(),
        });
    }
    Ok(good)
}

/// A driver that started and then refuses to describe its devices.
fn does_not_answer(error: CudaError) -> CudaUnavailable {
    match error {
        CudaError::Unavailable(reason) => reason,
        CudaError::Call {
            call,
            code,
            name,
            text,
        } => CudaUnavailable::DoesNotStart {
            code,
            name,
            text: format!("{call}: {text}"),
        },
        other => CudaUnavailable::DoesNotStart {
            code: 0,
            name: "none".into(),
            text: other.to_string(),
        },
    }
}

fn count(driver: &Driver) -> Result<u32, CudaError> {
    let mut count = 0;
    // SAFETY: writes one int.
    unsafe { cuda!(driver, cuDeviceGetCount(&mut count)) }?;
    Ok(u32::try_from(count).unwrap_or(0))
}

/// The driver's handle of a device.
pub(super) fn device(driver: &Driver, ordinal: u32) -> Result<CUdevice, CudaError> {
    let mut device = 0;
    // SAFETY: writes one handle; a number without a device is refused.
    unsafe { cuda!(driver, cuDeviceGet(&mut device, ordinal as c_int)) }?;
    Ok(device)
}

fn describe(driver: &Driver, ordinal: u32) -> Result<GpuInfo, CudaError> {
    let device = device(driver, ordinal)?;
    let attribute = |which: Attribute| -> Result<u32, CudaError> {
        let mut value = 0;
        // SAFETY: writes one int.
        unsafe { cuda!(driver, cuDeviceGetAttribute(&mut value, which, device)) }?;
        Ok(u32::try_from(value).unwrap_or(0))
    };
    let (mut name, mut pci) = ([0 as c_char; 256], [0 as c_char; 32]);
    let mut uuid = CUuuid { bytes: [0; 16] };
    let mut memory = 0;
    // SAFETY: writes a string of at most this length, with its zero.
    unsafe { cuda!(driver, cuDeviceGetName(name.as_mut_ptr(), 256, device)) }?;
    // SAFETY: likewise.
    unsafe { cuda!(driver, cuDeviceGetPCIBusId(pci.as_mut_ptr(), 32, device)) }?;
    // SAFETY: writes 16 bytes.
    unsafe { cuda!(driver, cuDeviceGetUuid_v2(&mut uuid, device)) }?;
    // SAFETY: writes one number.
    unsafe { cuda!(driver, cuDeviceTotalMem_v2(&mut memory, device)) }?;
    Ok(GpuInfo {
        ordinal,
        name: text(&name),
        uuid: uuid_text(uuid.bytes.map(|byte| byte as u8)),
        pci: text(&pci).to_lowercase(),
        sms: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        threads: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?.min(THREADS),
        memory: memory as u64,
        l2: attribute(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?.into(),
        compute: (
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        ),
    })
}

/// A string the driver wrote into a buffer of zeros.
fn text(buffer: &[c_char]) -> String {
    let bytes: Vec<u8> = buffer.iter().map(|&c| c as u8).collect();
    let text = CStr::from_bytes_until_nul(&bytes).unwrap_or_default();
    text.to_string_lossy().into_owned()
}

/// As nvidia-smi prints it.
fn uuid_text(bytes: [u8; 16]) -> String {
    let mut text = String::from("GPU");
    for (i, byte) in bytes.iter().enumerate() {
        if matches!(i, 0 | 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

/// The other GPUs, by UUID, to which GPU `ordinal` has peer access. Opens none of them.
pub fn peer_gpus(ordinal: u32) -> Result<Vec<String>, CudaError> {
    let driver = Driver::get()?;
    let mine = device(driver, ordinal)?;
    let mut peers = Vec::new();
    for other in probe()? {
        if other.ordinal == ordinal {
            continue;
        }
        let theirs = device(driver, other.ordinal)?;
        let mut can: c_int = 0;
        // SAFETY: writes one int; both devices were named by the driver.
        unsafe { cuda!(driver, cuDeviceCanAccessPeer(&mut can, mine, theirs)) }?;
        if can != 0 {
            peers.push(other.uuid);
        }
    }
    Ok(peers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpu(ordinal: u32, name: &str, compute: (u32, u32)) -> GpuInfo {
        GpuInfo {
            ordinal,
            name: name.into(),
            uuid: uuid_text([0xab; 16]),
            pci: "0000:1b:00.0".into(),
            sms: 132,
            threads: 512,
            memory: 1 << 37,
            l2: 50 << 20,
            compute,
        }
    }

    #[test]
    fn a_machine_with_only_old_gpus_is_told_what_it_has_and_what_it_needs() {
        let error = usable(vec![gpu(0, "NVIDIA A100", (8, 0)), gpu(1, "Tesla T4", (7, 5))]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the kernels are PTX for compute capability 9.0 and newer; here: NVIDIA A100 (8.0), Tesla T4 (7.5)"
        );
    }

    #[test]
    fn an_old_gpu_beside_a_new_one_is_left_out_and_numbers_stay_the_drivers() {
        let good = usable(vec![
            gpu(0, "Tesla T4", (7, 5)),
            gpu(1, "NVIDIA H200", (9, 0)),
            gpu(2, "NVIDIA B200", (10, 0)),
        ])
        .unwrap();
        let ordinals: Vec<_> = good.iter().map(|gpu| gpu.ordinal).collect();
        assert_eq!(ordinals, [1, 2]);
    }

    #[test]
    fn a_uuid_is_written_as_nvidia_smi_writes_it() {
        let bytes = std::array::from_fn(|i| i as u8 * 17);
        assert_eq!(uuid_text(bytes), "GPU-00112233-4455-6677-8899-aabbccddeeff");
    }
}
