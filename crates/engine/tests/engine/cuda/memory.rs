//! Memory: what was put there is there, also for another process, and nothing reaches past its end.

use std::process::Command;
use std::sync::Arc;

use railgauge_engine::device::Region;
use railgauge_engine::device::cuda::{CudaError, Gpu, IpcHandle};

use crate::shim::inside;

#[test]
fn what_was_uploaded_comes_back_and_zeroing_stops_where_it_should() {
    if !inside(
        "cuda::memory::what_was_uploaded_comes_back_and_zeroing_stops_where_it_should",
        &[],
    ) {
        return;
    }
    let gpu = Gpu::open(0).unwrap();
    let memory = gpu.allocate(5000).unwrap();
    let bytes: Vec<u8> = (0..5000).map(|i| (i % 251) as u8 + 1).collect();
    memory.upload(0, &bytes).unwrap();
    memory.zero(100..4000).unwrap();
    let mut back = vec![0; 5000];
    memory.download(0, &mut back).unwrap();
    assert_eq!(back[..100], bytes[..100]);
    assert!(back[100..4000].iter().all(|byte| *byte == 0));
    assert_eq!(back[4000..], bytes[4000..]);
    let outside = CudaError::OutOfRange {
        start: 4999,
        end: 5001,
        len: 5000,
    };
    assert_eq!(memory.upload(4999, &[1, 2]), Err(outside.clone()));
    assert_eq!(memory.download(4999, &mut [1, 2]), Err(outside.clone()));
    assert_eq!(memory.zero(4999..5001), Err(outside));
}

#[test]
fn ranks_of_a_process_share_one_gpu_and_threads_need_no_preparation() {
    if !inside(
        "cuda::memory::ranks_of_a_process_share_one_gpu_and_threads_need_no_preparation",
        &[],
    ) {
        return;
    }
    let gpu = Gpu::open(0).unwrap();
    let memory = gpu.allocate(64).unwrap();
    std::thread::scope(|scope| {
        for i in 0..4u8 {
            let memory = &memory;
            let gpu = &gpu;
            scope.spawn(move || {
                assert!(Arc::ptr_eq(&Gpu::open(0).unwrap(), gpu));
                memory.upload(usize::from(i) * 16, &[i; 16]).unwrap();
            });
        }
    });
    let mut back = [9; 64];
    memory.download(0, &mut back).unwrap();
    assert_eq!(back, std::array::from_fn(|i| (i / 16) as u8));
}

/// Tells the other process which memory to open.
const HANDLE: &str = "RAILGAUGE_TEST_HANDLE";

#[test]
fn another_process_writes_into_memory_it_was_given() {
    let name = "cuda::memory::another_process_writes_into_memory_it_was_given";
    if !inside(name, &[]) {
        return;
    }
    let gpu = Gpu::open(0).unwrap();
    if let Ok(handle) = std::env::var(HANDLE) {
        let handle: IpcHandle = handle.parse().unwrap();
        let theirs = gpu.open_ipc(&handle).unwrap();
        let again = gpu.open_ipc(&handle).unwrap();
        assert_eq!(theirs.address(), again.address());
        drop(again);
        let mine = gpu.allocate(100).unwrap();
        mine.upload(0, &[7; 100]).unwrap();
        let stream = gpu.stream().unwrap();
        stream.copy(theirs.address() + 50, mine.address(), 100).unwrap();
        stream
            .synchronize_within(std::time::Duration::from_secs(10))
            .unwrap();
        return;
    }
    let memory = gpu.allocate(1 << 20).unwrap();
    memory.zero(0..1 << 20).unwrap();
    let handle = memory.export().unwrap();
    let own = gpu
        .open_ipc(&handle)
        .err()
        .expect("a process cannot open its own memory");
    assert!(own.to_string().contains("CUDA_ERROR_INVALID_CONTEXT"), "{own}");
    let other = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(HANDLE, handle.to_string())
        .status();
    assert!(other.unwrap().success());
    let mut back = vec![1; 200];
    memory.download(0, &mut back).unwrap();
    assert_eq!(back.iter().filter(|byte| **byte == 7).count(), 100);
    assert!(back[50..150].iter().all(|byte| *byte == 7));
}

#[test]
fn words_in_pinned_memory_and_in_a_region_are_seen_by_both_sides() {
    if !inside(
        "cuda::memory::words_in_pinned_memory_and_in_a_region_are_seen_by_both_sides",
        &[],
    ) {
        return;
    }
    let gpu = Gpu::open(0).unwrap();
    let stream = gpu.stream().unwrap();
    let limit = std::time::Duration::from_secs(10);
    let pinned = gpu.pin(100).unwrap();
    assert_eq!(pinned.read::<[u64; 12]>(0), [0; 12]);
    pinned.store_u64(8, 0x0123_4567_89ab_cdef);
    let region = Region::new(10_000);
    region.try_write(0..4).unwrap().copy_from_slice(b"gpu!");
    let registered = gpu.register(Arc::clone(&region)).unwrap();
    assert!(gpu.register(Arc::clone(&region)).is_err(), "it is pinned already");

    stream
        .copy(registered.address() + 16, pinned.address() + 8, 8)
        .unwrap();
    stream
        .copy(pinned.address() + 16, registered.address(), 4)
        .unwrap();
    stream.synchronize_within(limit).unwrap();
    assert_eq!(registered.load_u64(16), 0x0123_4567_89ab_cdef);
    assert_eq!(&*region.try_read(16..18).unwrap(), &[0xef, 0xcd]);
    assert_eq!(pinned.load_u32(16).to_ne_bytes(), *b"gpu!");
    drop(registered);
    assert!(stream.copy(pinned.address(), pinned.address() + 4096, 8).is_err());
    gpu.register(region).expect("it was unpinned");
}

#[test]
fn gpus_of_one_process_reach_each_other_once_they_were_told() {
    if inside(
        "cuda::memory::gpus_of_one_process_reach_each_other_once_they_were_told",
        &[("RAILGAUGE_SHIM_GPUS", "2")],
    ) {
        let (a, b) = (Gpu::open(0).unwrap(), Gpu::open(1).unwrap());
        a.enable_peer(&b).unwrap();
        a.enable_peer(&b).expect("once more is not an error");
        a.enable_peer(&a).expect("itself is not an error");
    }
}
