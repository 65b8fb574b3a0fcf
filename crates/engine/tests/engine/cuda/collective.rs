//! The collective kernels themselves, launched as one group on the shim: every algorithm, type and operator yields what the
//! oracle says, launch after launch.

use std::time::Duration;

use bytemuck::cast_slice;
use railgauge_engine::collective::Oracle;
use railgauge_engine::collective::gpu::{DeviceProgram, LaunchGroup, Limits, MemoryAccess, arena_bytes};
use railgauge_engine::device::cuda::{Allocation, Gpu, Pinned, abi};
use record::units::Bytes;
use record::{
    Algorithm, Cell, Collective, DType, DeviceKind, Engine, Load, Placement, ReduceOp, TransportKind,
};
use strum::IntoEnumIterator;

use crate::shim::inside;

const LIMIT: Duration = Duration::from_secs(120);
const LAUNCHES: u64 = 3;

fn cell(collective: Collective, algorithm: Algorithm, ranks: u32, elements: usize) -> Cell {
    Cell {
        id: 0,
        test: "test".to_string(),
        slot: 0,
        load: Load::Alone,
        collective,
        algorithm,
        ranks: (0..ranks).collect(),
        root: ranks - 1,
        rails: Vec::new(),
        flows: 1,
        source_port: None,
        transport: TransportKind::Peer,
        device: DeviceKind::Cuda,
        size: Bytes((elements * DType::F32.size()) as u64),
        dtype: DType::F32,
        op: ReduceOp::Sum,
        placement: Placement::OutOfPlace,
        engine: Engine::Ours,
        batch: 1,
        verbs: None,
        path: Vec::new(),
        to_rail: None,
        group: None,
        streams: None,
        probes: None,
        line_mbit: None,
    }
}

/// Which protocol carries a cell.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Protocol {
    Walk,
    Words,
}

/// Runs a cell a few times on one GPU and compares every output. `missing` ranks are left out of the launch.
struct Launched {
    status: Vec<abi::Status>,
    wrong: Vec<String>,
}

fn run(cell: &Cell, protocol: Protocol, launches: u64, missing: u32, deadline: Duration) -> Launched {
    run_from(cell, protocol, launches, missing, deadline, 0)
}

/// The same with buffers that begin `apart` elements further on from rank to rank, the output twice as far as the input.
fn run_from(
    cell: &Cell,
    protocol: Protocol,
    launches: u64,
    missing: u32,
    deadline: Duration,
    apart: usize,
) -> Launched {
    let gpu = Gpu::open(0).unwrap();
    let threads = gpu.info().threads;
    let stream = gpu.stream().unwrap();
    let capacity = 2 * gpu.info().sms;
    let mut limits = Limits::new(
        vec![LaunchGroup {
            ranks: cell.ranks.clone(),
            capacity,
        }],
        threads,
    );
    limits.words_up_to = Some(if protocol == Protocol::Words {
        usize::MAX
    } else {
        0
    });
    // Small chunks, so that small payloads already go round the slots.
    limits.longest_chunk = Some(1024);
    let programs =
        DeviceProgram::all(cell, &|_, _| MemoryAccess::Direct { same_gpu: true }, &limits).unwrap();
    assert!(
        programs
            .iter()
            .all(|program| program.words == (protocol == Protocol::Words)),
        "{protocol:?}"
    );
    let kernel = gpu.kernel(&programs[0].kernel).unwrap();
    let largest = cell.size.0;
    let layouts = programs.iter().enumerate().map(|(rank, program)| {
        let mut layout = program.layout(largest).unwrap();
        let by = ((rank + 1) * apart * cell.dtype.size()) as u64;
        layout.output += if layout.input == layout.output { by } else { 2 * by };
        layout.input += by;
        layout
    });
    let layouts: Vec<_> = layouts.collect();
    let arenas: Vec<Allocation> = programs
        .iter()
        .map(|_| gpu.allocate(arena_bytes(largest) as usize).unwrap())
        .collect();
    let status: Pinned = gpu.pin(programs.len() * size_of::<abi::Status>()).unwrap();
    let abort = gpu.pin(8).unwrap();
    let jobs = gpu.allocate(programs.len() * size_of::<abi::Job>()).unwrap();
    let mut list = Vec::new();
    let mut blocks = 0;
    for (rank, (program, layout)) in programs.iter().zip(&layouts).enumerate() {
        let arena = &arenas[rank];
        arena
            .zero(layout.control.start as usize..layout.control.end as usize)
            .unwrap();
        let peer = |rank: u32| {
            let i = rank as usize;
            Some((arenas[i].address(), &programs[i], &layouts[i]))
        };
        let ports = program.resolve(layout, arena.address(), 0, &peer).unwrap();
        arena
            .upload(layout.ops as usize, cast_slice(&program.ops))
            .unwrap();
        arena.upload(layout.ports as usize, cast_slice(&ports)).unwrap();
        if (rank as u32) < missing {
            continue;
        }
        list.push(abi::Job {
            input: arena.address() + layout.input,
            output: arena.address() + layout.output,
            ops: arena.address() + layout.ops,
            ports: arena.address() + layout.ports,
            status: status.address() + (rank * size_of::<abi::Status>()) as u64,
            scratch: arena.address() + layout.scratch,
            op_count: program.ops.len() as u32,
            port_count: ports.len() as u32,
            workers: program.workers,
            blocks: program.blocks,
            first_block: blocks,
            chunk: program.chunk,
            ranks: programs.len() as u32,
            iterations: program.iterations,
        });
        blocks += program.blocks;
    }
    jobs.upload(0, cast_slice(&list)).unwrap();
    let oracle = Oracle::for_cell(cell, 17);
    let mut wrong = Vec::new();
    for sequence in 0..launches {
        for (rank, arena) in arenas.iter().enumerate() {
            let mut payload = vec![0; largest as usize];
            oracle.input(rank, sequence, &mut payload);
            arena.upload(layouts[rank].input as usize, &payload).unwrap();
        }
        let launch = abi::Launch {
            jobs: jobs.address(),
            gate: 0,
            abort: abort.address(),
            deadline: deadline.as_nanos() as u64,
            sequence,
            job_count: list.len() as u32,
            unused: 0,
        };
        stream.launch(&kernel, blocks, threads, 0, &launch, true).unwrap();
        stream.synchronize_within(LIMIT).unwrap();
        for (rank, arena) in arenas.iter().enumerate().skip(missing as usize) {
            let mut output = vec![0; largest as usize];
            arena
                .download(layouts[rank].output as usize, &mut output)
                .unwrap();
            if let Err(mismatch) = oracle.check(rank, sequence, &output) {
                wrong.push(format!("launch {sequence}, rank {rank}: {mismatch:?}"));
            }
        }
    }
    let said = |rank: usize| status.read(rank * size_of::<abi::Status>());
    let status = (0..programs.len()).map(said).collect();
    Launched { status, wrong }
}

fn expect_right(cell: &Cell, protocol: Protocol) {
    expect_right_from(cell, protocol, 0);
}

fn expect_right_from(cell: &Cell, protocol: Protocol, apart: usize) {
    let what = format!(
        "{} {} {} {} {:?} over {} ranks, {} elements, {protocol:?}, buffers {apart} elements apart",
        cell.collective,
        cell.algorithm,
        cell.dtype,
        cell.op,
        cell.placement,
        cell.world(),
        cell.elements()
    );
    let launched = run_from(cell, protocol, LAUNCHES, 0, LIMIT, apart);
    assert_eq!(launched.wrong, Vec::<String>::new(), "{what}");
    for (rank, status) in launched.status.iter().enumerate() {
        assert_eq!((status.done, status.failed), (LAUNCHES, 0), "{what}: rank {rank}");
        assert!(status.ended >= status.started, "{what}: rank {rank}");
    }
}

#[test]
fn every_collective_moves_its_data_right_at_any_size() {
    if !inside(
        "cuda::collective::every_collective_moves_its_data_right_at_any_size",
        &[],
    ) {
        return;
    }
    for collective in Collective::iter().filter(|collective| collective.is_scheduled()) {
        for &algorithm in collective.algorithms() {
            let pairs = collective.is_pairwise();
            for ranks in if pairs { 2..=2 } else { 2..=5 } {
                for elements in [1, 33, 4099] {
                    // Blocked collectives have whole blocks.
                    let whole = if collective.is_blocked() {
                        elements * ranks as usize
                    } else {
                        elements
                    };
                    let placements = [Placement::OutOfPlace, Placement::InPlace];
                    let mut cell = cell(collective, algorithm, ranks, whole);
                    cell.placement = placements[(elements + ranks as usize) % 2];
                    expect_right(&cell, Protocol::Walk);
                    if collective == Collective::AllReduce {
                        expect_right(&cell, Protocol::Words);
                    }
                }
            }
        }
    }
}

#[test]
fn buffers_may_begin_at_any_element() {
    if !inside("cuda::collective::buffers_may_begin_at_any_element", &[]) {
        return;
    }
    for dtype in [DType::U8, DType::Bf16, DType::F32, DType::F64] {
        for algorithm in [Algorithm::Ring, Algorithm::Tree, Algorithm::DoubleTree] {
            for placement in [Placement::OutOfPlace, Placement::InPlace] {
                let mut cell = cell(Collective::AllReduce, algorithm, 3, 0);
                cell.size = Bytes((2051 * dtype.size()) as u64);
                (cell.dtype, cell.placement) = (dtype, placement);
                for apart in [1, 3] {
                    expect_right_from(&cell, Protocol::Walk, apart);
                    expect_right_from(&cell, Protocol::Words, apart);
                }
            }
        }
    }
}

#[test]
fn every_type_and_operator_is_reduced_to_the_bit() {
    if !inside(
        "cuda::collective::every_type_and_operator_is_reduced_to_the_bit",
        &[],
    ) {
        return;
    }
    for dtype in DType::iter() {
        for op in ReduceOp::iter() {
            let mut cell = cell(Collective::AllReduce, Algorithm::Ring, 3, 0);
            cell.size = Bytes((1237 * dtype.size()) as u64);
            (cell.dtype, cell.op) = (dtype, op);
            expect_right(&cell, Protocol::Walk);
            expect_right(&cell, Protocol::Words);
        }
    }
}

#[test]
fn a_rank_that_never_comes_ends_the_others_and_they_say_whom_they_waited_for() {
    if !inside(
        "cuda::collective::a_rank_that_never_comes_ends_the_others_and_they_say_whom_they_waited_for",
        &[],
    ) {
        return;
    }
    for protocol in [Protocol::Walk, Protocol::Words] {
        let cell = cell(Collective::AllReduce, Algorithm::Ring, 3, 3000);
        let launched = run(&cell, protocol, 1, 1, Duration::from_millis(300));
        assert_eq!(launched.wrong.len(), 2, "{protocol:?}");
        for (rank, status) in launched.status.iter().enumerate().skip(1) {
            assert_eq!(
                (status.done, status.failed),
                (1, abi::FAILED_DEADLINE),
                "{protocol:?} rank {rank}"
            );
            assert!(
                status.stood >= 300_000_000,
                "{protocol:?} rank {rank}: {status:?}"
            );
        }
        let waited: Vec<_> = launched.status[1..].iter().map(|status| status.peer).collect();
        assert!(
            waited.contains(&0),
            "{protocol:?}: nobody names rank 0 but {waited:?}"
        );
    }
}

/// What the sanitizer looks at: few ranks and both protocols, so that it is done in seconds.
#[test]
fn ring_tree_and_words_in_short() {
    if !inside("cuda::collective::ring_tree_and_words_in_short", &[]) {
        return;
    }
    for algorithm in [Algorithm::Ring, Algorithm::Tree, Algorithm::DoubleTree] {
        for placement in [Placement::OutOfPlace, Placement::InPlace] {
            let mut cell = cell(Collective::AllReduce, algorithm, 3, 2051);
            cell.placement = placement;
            expect_right(&cell, Protocol::Walk);
            expect_right(&cell, Protocol::Words);
        }
    }
}
