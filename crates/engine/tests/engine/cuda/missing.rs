//! Machines on which there is no GPU to be used say what is missing, and nothing panics.

use railgauge_engine::device::cuda::{self, CudaError, Gpu};

use crate::shim::inside;

/// What a user is told, in a process of its own.
fn message() -> String {
    let reason = cuda::probe().unwrap_err();
    assert_eq!(Gpu::open(0).unwrap_err(), CudaError::Unavailable(reason.clone()));
    reason.to_string()
}

/// A folder whose `libcuda.so.1` is a file of these bytes. The process inside gets it by its own call of this.
fn folder_with(name: &str, bytes: &[u8]) -> String {
    let folder = std::env::temp_dir().join(format!("railgauge-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("libcuda.so.1"), bytes).unwrap();
    folder.to_str().unwrap().to_string()
}

#[test]
fn a_broken_driver_library_is_named_with_the_loaders_words() {
    let folder = folder_with("broken", b"this is not a library at all");
    if inside(
        "cuda::missing::a_broken_driver_library_is_named_with_the_loaders_words",
        &[("LD_LIBRARY_PATH", &folder)],
    ) {
        let message = message();
        assert!(message.contains("libcuda.so.1 cannot be opened"), "{message}");
        assert!(
            message.contains("invalid ELF header") || message.contains("file too short"),
            "{message}"
        );
        assert!(message.contains("--device host"), "{message}");
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_library_that_only_has_the_name_is_not_taken_for_a_driver() {
    // Any library will do: one that is on every machine this test runs on, because the test itself needs it.
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let libc = maps
        .split_whitespace()
        .find(|word| word.contains("/libc.so"))
        .unwrap();
    let folder = folder_with("libc", &std::fs::read(libc).unwrap());
    if inside(
        "cuda::missing::a_library_that_only_has_the_name_is_not_taken_for_a_driver",
        &[("LD_LIBRARY_PATH", &folder)],
    ) {
        let message = message();
        assert!(message.contains("has no cuDriverGetVersion"), "{message}");
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn an_old_driver_is_told_apart_with_both_versions() {
    let name = "cuda::missing::an_old_driver_is_told_apart_with_both_versions";
    if inside(name, &[("RAILGAUGE_SHIM_CUDA", "12040")]) {
        assert_eq!(
            message(),
            "the NVIDIA driver is too old: it is for CUDA 12.4, and CUDA 13.0 is needed (driver 580 or newer)"
        );
    }
}

#[test]
fn a_driver_without_a_gpu_is_told_apart() {
    if inside(
        "cuda::missing::a_driver_without_a_gpu_is_told_apart",
        &[("RAILGAUGE_SHIM_GPUS", "0")],
    ) {
        let message = message();
        assert!(message.contains("sees no GPU"), "{message}");
    }
}

#[test]
fn a_gpu_older_than_the_kernels_is_named() {
    if inside(
        "cuda::missing::a_gpu_older_than_the_kernels_is_named",
        &[("RAILGAUGE_SHIM_COMPUTE", "8")],
    ) {
        assert_eq!(
            message(),
            "the kernels are PTX for compute capability 9.0 and newer; here: CPU shim (not a GPU) (8.0)"
        );
    }
}

#[test]
fn a_gpu_that_is_not_there_cannot_be_opened() {
    if inside(
        "cuda::missing::a_gpu_that_is_not_there_cannot_be_opened",
        &[("RAILGAUGE_SHIM_GPUS", "2")],
    ) {
        let found = cuda::probe().unwrap();
        assert_eq!(found.len(), 2);
        assert_ne!(found[0].uuid, found[1].uuid);
        assert_eq!(found[1].pci, "0000:02:00.0");
        let error = Gpu::open(2).unwrap_err().to_string();
        assert_eq!(error, "GPU 2 is not among the GPUs that can be used here: [0, 1]");
    }
}
