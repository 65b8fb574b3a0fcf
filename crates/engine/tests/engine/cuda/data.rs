//! Test data on the GPU has the bits that the CPU defines, and what is wrong is found.

use std::time::Duration;

use railgauge_engine::collective::Oracle;
use railgauge_engine::device::cuda::pattern_kernels::{Expectation, PatternKernels};
use railgauge_engine::device::cuda::{Allocation, Gpu, Stream};
use railgauge_engine::device::{Pattern, host};
use record::{Collective, DType, ReduceOp};
use strum::IntoEnumIterator;

use crate::shim::inside;

const LIMIT: Duration = Duration::from_secs(60);
/// Across a boundary between spans, and not a multiple of anything.
const ELEMENTS: usize = 2500;

fn pattern(dtype: DType, op: ReduceOp, rank: u32, ranks: u32) -> Pattern {
    Pattern {
        seed: 0x1234_5678_9abc_def0,
        iteration: 5,
        rank,
        ranks,
        dtype,
        op,
    }
}

fn gpu_and_stream(bytes: usize) -> (Allocation, Stream) {
    let gpu = Gpu::open(0).unwrap();
    (gpu.allocate(bytes).unwrap(), gpu.stream().unwrap())
}

#[test]
fn the_gpu_fills_in_what_the_cpu_would() {
    if !inside("cuda::data::the_gpu_fills_in_what_the_cpu_would", &[]) {
        return;
    }
    let (memory, stream) = gpu_and_stream(8 * ELEMENTS + 8);
    for dtype in DType::iter() {
        let data = PatternKernels::new(memory.gpu(), dtype).unwrap();
        for op in ReduceOp::iter() {
            // 300 ranks share slots and take turns; 3 do not.
            for (rank, ranks) in [(0, 1), (2, 3), (217, 300)] {
                let pattern = pattern(dtype, op, rank, ranks);
                for (first, count) in [(0, ELEMENTS), (1021, 7), (5_000_000_001, 1500)] {
                    let mut expected = vec![0; count * dtype.size()];
                    pattern.fill(first, &mut expected);
                    let mut found = vec![0xee; expected.len() + 8];
                    memory.upload(0, &found).unwrap();
                    data.fill(&stream, memory.address(), &pattern, first as u64, count as u64)
                        .unwrap();
                    stream.synchronize_within(LIMIT).unwrap();
                    memory.download(0, &mut found).unwrap();
                    assert!(
                        found[..expected.len()] == expected,
                        "{dtype} {op} {rank}/{ranks} from {first}"
                    );
                    assert_eq!(found[expected.len()..], [0xee; 8], "wrote past the end");
                }
            }
        }
    }
}

/// The right result of an all-reduce, by the CPU's arithmetic.
fn reduced(dtype: DType, op: ReduceOp, ranks: u32) -> Vec<u8> {
    let mut total = vec![0; ELEMENTS * dtype.size()];
    let mut input = total.clone();
    pattern(dtype, op, 0, ranks).fill(0, &mut total);
    for rank in 1..ranks {
        pattern(dtype, op, rank, ranks).fill(0, &mut input);
        host::reduce(dtype, op, &mut total, &input);
    }
    if op == ReduceOp::Avg {
        host::finish_avg(dtype, &mut total, ranks as usize);
    }
    total
}

#[test]
fn the_gpu_accepts_what_the_oracle_accepts_and_finds_every_wrong_element() {
    if !inside(
        "cuda::data::the_gpu_accepts_what_the_oracle_accepts_and_finds_every_wrong_element",
        &[],
    ) {
        return;
    }
    let (memory, stream) = gpu_and_stream(8 * ELEMENTS + 8);
    for dtype in DType::iter() {
        let data = PatternKernels::new(memory.gpu(), dtype).unwrap();
        let size = dtype.size();
        for op in ReduceOp::iter() {
            for ranks in [1, 3, 7, 65] {
                let pattern = pattern(dtype, op, 0, ranks);
                let oracle = Oracle {
                    collective: Collective::AllReduce,
                    dtype,
                    op,
                    ranks: ranks as usize,
                    root: 0,
                    elements: ELEMENTS,
                    seed: pattern.seed,
                };
                let mut output = reduced(dtype, op, ranks);
                assert_eq!(
                    oracle.check(0, pattern.iteration, &output),
                    Ok(()),
                    "{dtype} {op} over {ranks}"
                );
                let verify = |output: &[u8], skip: usize| {
                    memory.upload(0, output).unwrap();
                    let first = skip as u64;
                    let address = memory.address() + (skip * size) as u64;
                    let count = (ELEMENTS - skip) as u64;
                    let expectation = Expectation::Reduction { first, op };
                    data.verify(&stream, address, count, &pattern, expectation, LIMIT)
                        .unwrap()
                };
                assert_eq!(verify(&output, 0), None, "{dtype} {op} over {ranks}");
                assert_eq!(verify(&output, 1001), None, "{dtype} {op} over {ranks}, a part");
                for at in [1020 * size, 2499 * size] {
                    output[at + size - 1] ^= 0x80;
                }
                let found = verify(&output, 1001).expect("two elements are wrong");
                assert_eq!((found.element, found.wrong), (19, 2), "{dtype} {op} over {ranks}");
            }
        }
    }
}

#[test]
fn data_that_was_only_moved_is_compared_with_its_senders() {
    if !inside(
        "cuda::data::data_that_was_only_moved_is_compared_with_its_senders",
        &[],
    ) {
        return;
    }
    let (memory, stream) = gpu_and_stream(8 * ELEMENTS + 8);
    let data = PatternKernels::new(memory.gpu(), DType::I64).unwrap();
    let sent = pattern(DType::I64, ReduceOp::Max, 2, 4);
    data.fill(&stream, memory.address(), &sent, 700, ELEMENTS as u64)
        .unwrap();
    let verify = |pattern: &Pattern, first| {
        let expectation = Expectation::Copy { first };
        data.verify(
            &stream,
            memory.address(),
            ELEMENTS as u64,
            pattern,
            expectation,
            LIMIT,
        )
        .unwrap()
    };
    assert_eq!(verify(&sent, 700), None);
    let misplaced = verify(&sent, 699).expect("it lies one element off");
    assert!(misplaced.element < 3 && misplaced.wrong > 2490, "{misplaced:?}");
    let other = verify(&pattern(DType::I64, ReduceOp::Max, 1, 4), 700).expect("another rank's");
    assert!(other.wrong > 2490, "{other:?}");
}
