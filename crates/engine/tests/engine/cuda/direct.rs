//! GPU memory as NICs know it. With a real driver in place of the shim (`RAILGAUGE_REAL_GPU=1`), the first test asks that driver.

use std::sync::Arc;

use railgauge_engine::device::cuda::{Gpu, GpuDirectMemory};

use crate::shim::inside;

fn asked() -> Result<GpuDirectMemory, String> {
    let gpu = Gpu::open(0).map_err(|error| error.to_string())?;
    let memory = gpu.allocate(3 << 20).map_err(|error| error.to_string())?;
    GpuDirectMemory::of(&Arc::new(memory))
}

#[test]
fn a_real_gpu_says_whether_nics_reach_its_memory() {
    if std::env::var_os("RAILGAUGE_REAL_GPU").is_none() {
        crate::skip::skip("gpu", "set RAILGAUGE_REAL_GPU=1 where the real driver is");
        return;
    }
    match asked() {
        Ok(direct) => {
            eprintln!("{} bytes, dma-buf {:?}", direct.len(), direct.exported());
            assert_eq!(direct.len(), 4 << 20, "whole pages");
            direct.flush_nic_writes().unwrap();
        }
        Err(why) => assert!(!why.is_empty(), "a refusal says why"),
    }
}

#[test]
fn a_gpu_that_nics_cannot_reach_says_so() {
    if inside("cuda::direct::a_gpu_that_nics_cannot_reach_says_so", &[]) {
        let why = asked().err().expect("the shim does not do that unless told so");
        assert_eq!(why, "CPU shim (not a GPU) does not support GPUDirect RDMA");
    }
}

#[test]
fn memory_that_is_not_exported_is_known_by_its_address() {
    let name = "cuda::direct::memory_that_is_not_exported_is_known_by_its_address";
    if inside(name, &[("RAILGAUGE_SHIM_GPUDIRECT", "1")]) {
        let direct = asked().unwrap();
        assert!(direct.exported().is_none());
        assert!(direct.address() != 0 && direct.len() == 4 << 20);
        direct.flush_nic_writes().unwrap();
    }
}
