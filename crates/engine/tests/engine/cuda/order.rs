//! Streams, events and kernels: work is done in order, waits end, and what does not fit is refused.

use std::time::{Duration, Instant};

use railgauge_engine::device::Pattern;
use railgauge_engine::device::cuda::pattern_kernels::PatternKernels;
use railgauge_engine::device::cuda::{CudaError, Gpu, Progress, abi, ptx};
use record::{DType, ReduceOp};

use crate::shim::inside;

const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn every_embedded_kernel_loads_and_takes_what_the_host_passes() {
    if !inside(
        "cuda::order::every_embedded_kernel_loads_and_takes_what_the_host_passes",
        &[],
    ) {
        return;
    }
    let gpu = Gpu::open(0).unwrap();
    let threads = gpu.info().threads;
    let mut seen = 0;
    for (module, name) in ptx::kernels() {
        let kernel = gpu.kernel(name).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(kernel.resident_blocks(threads, 0).unwrap() > 0, "{name}");
        let stream = gpu.stream().unwrap();
        // A parameter of the wrong size is refused before anything runs: sizes are told without running the kernel.
        let refused = stream.launch(&kernel, 1, threads, 0, &0u32, false).unwrap_err();
        let takes = match module {
            "fill" => size_of::<abi::Fill>(),
            "verify" => size_of::<abi::Verify>(),
            _ => size_of::<abi::Launch>(),
        };
        let kernel = name.to_string();
        assert_eq!(
            refused,
            CudaError::Parameter {
                kernel,
                takes,
                given: 4
            }
        );
        seen += 1;
    }
    assert!(seen >= 16, "{seen} kernels");
    let error = gpu.kernel("rg_fill_f128").err().unwrap();
    assert_eq!(error.to_string(), "there is no kernel rg_fill_f128");
}

#[test]
fn a_stream_does_its_work_in_order_and_events_tell_when() {
    if !inside(
        "cuda::order::a_stream_does_its_work_in_order_and_events_tell_when",
        &[],
    ) {
        return;
    }
    let gpu = Gpu::open(0).unwrap();
    let (first, second) = (gpu.stream().unwrap(), gpu.stream().unwrap());
    let data = PatternKernels::new(&gpu, DType::U8).unwrap();
    let count = 1 << 20;
    let (a, b) = (gpu.allocate(count).unwrap(), gpu.allocate(count).unwrap());
    let pattern = Pattern {
        seed: 1,
        iteration: 2,
        rank: 0,
        ranks: 1,
        dtype: DType::U8,
        op: ReduceOp::Max,
    };
    let (start, filled) = (gpu.event().unwrap(), gpu.event().unwrap());
    first.record(&start).unwrap();
    data.fill(&first, a.address(), &pattern, 0, count as u64).unwrap();
    first.record(&filled).unwrap();
    // Would copy what is not there yet if it did not wait for the other stream.
    second.wait_for(&filled).unwrap();
    second.copy(b.address(), a.address(), count).unwrap();
    second.synchronize_within(LIMIT).unwrap();
    assert_eq!(filled.query(), Ok(Progress::Ready));
    assert!(filled.since(&start).unwrap().0 > 0);
    let (mut found, mut expected) = (vec![0; count], vec![0; count]);
    b.download(0, &mut found).unwrap();
    pattern.fill(0, &mut expected);
    assert!(found == expected);
}

#[test]
fn waiting_for_the_gpu_ends_when_it_should() {
    if !inside("cuda::order::waiting_for_the_gpu_ends_when_it_should", &[]) {
        return;
    }
    let gpu = Gpu::open(0).unwrap();
    let stream = gpu.stream().unwrap();
    let data = PatternKernels::new(&gpu, DType::F64).unwrap();
    let elements = 4 << 20;
    let memory = gpu.allocate(8 * elements).unwrap();
    let pattern = Pattern {
        seed: 1,
        iteration: 2,
        rank: 0,
        ranks: 1,
        dtype: DType::F64,
        op: ReduceOp::Max,
    };
    data.fill(&stream, memory.address(), &pattern, 0, elements as u64)
        .unwrap();
    let began = Instant::now();
    let outcome = stream.synchronize_within(Duration::from_millis(1));
    let overdue = CudaError::Overdue {
        what: "work on the GPU",
    };
    assert_eq!(
        outcome,
        Err(overdue),
        "32 MiB took less than a millisecond on a CPU"
    );
    assert!(began.elapsed() < LIMIT);
    stream.synchronize_within(LIMIT).unwrap();
    assert_eq!(stream.query(), Ok(Progress::Ready));
}

#[test]
fn a_cooperative_launch_that_does_not_fit_is_refused() {
    if !inside(
        "cuda::order::a_cooperative_launch_that_does_not_fit_is_refused",
        &[],
    ) {
        return;
    }
    let gpu = Gpu::open(0).unwrap();
    let stream = gpu.stream().unwrap();
    let kernel = gpu.kernel("rg_fill_f32").unwrap();
    let threads = gpu.info().threads;
    let fits = kernel.resident_blocks(threads, 0).unwrap() * gpu.info().sms;
    let nothing: abi::Fill = bytemuck::Zeroable::zeroed();
    stream.launch(&kernel, fits, threads, 0, &nothing, true).unwrap();
    let error = stream
        .launch(&kernel, fits + 1, threads, 0, &nothing, true)
        .unwrap_err();
    assert!(
        error.to_string().contains("COOPERATIVE_LAUNCH_TOO_LARGE"),
        "{error}"
    );
    stream.synchronize_within(LIMIT).unwrap();
}
