//! Executes lowered programs in memory, one chunk at a time, in any order the rules allow: every collective on every number of
//! ranks must yield what the oracle says.

use std::collections::HashMap;

use proptest::prelude::*;
use rand::{Rng, SeedableRng};

use super::*;
use crate::collective::oracle::Oracle;
use crate::device::cuda::abi::{self, Mode, NO_PORT};
use crate::device::host;
use record::units::Bytes;
use record::{Algorithm, Cell, Collective, DType, DeviceKind, Load, Placement, ReduceOp, TransportKind};

fn cell(collective: Collective, algorithm: Algorithm, ranks: usize, elements: usize) -> Cell {
    let mut cell: Cell = serde_json::from_value(serde_json::json!({
        "id": 0, "test": "t", "slot": 0, "load": Load::Alone, "collective": collective, "algorithm": algorithm,
        "ranks": (0..ranks).map(|rank| rank * 2 + 1).collect::<Vec<_>>(), "root": 0, "rails": [], "flows": 1,
        "source_port": null, "transport": TransportKind::Peer, "device": DeviceKind::Cuda, "size": 0,
        "dtype": DType::F32, "op": ReduceOp::Sum, "placement": Placement::OutOfPlace,
    }))
    .unwrap();
    cell.size = Bytes((elements * cell.dtype.size()) as u64);
    cell
}

/// One worker of one rank.
#[derive(Debug, Clone, Default)]
struct Worker {
    iteration: u32,
    op: usize,
    done: bool,
}

/// A connection (from, to, mode, number) and a worker on it.
type WorkerConnection = (u32, u32, Mode, u32, u32);

/// Everything in memory.
struct World<'a> {
    programs: &'a [DeviceProgram],
    inputs: Vec<Vec<u8>>,
    outputs: Vec<Vec<u8>>,
    /// Chunks in flight: connection, worker, and number of the chunk.
    slots: HashMap<(WorkerConnection, u64), Vec<u8>>,
    /// Counts of sender and receiver.
    tail: HashMap<WorkerConnection, u64>,
    head: HashMap<WorkerConnection, u64>,
}

impl World<'_> {
    fn connection(&self, rank: usize, port: usize) -> (u32, u32, Mode, u32) {
        let port = &self.programs[rank].ports[port];
        let me = self.programs[rank].rank;
        let (from, to) = if port.incoming {
            (port.peer, me)
        } else {
            (me, port.peer)
        };
        (from, to, port.mode, port.connection)
    }

    fn position(&self, world: u32) -> usize {
        self.programs.iter().position(|p| p.rank == world).unwrap()
    }

    /// Does the worker's next chunk if it can; whether it did something.
    fn advance(&mut self, cell: &Cell, rank: usize, index: u32, worker: &mut Worker) -> bool {
        let program = &self.programs[rank];
        if worker.iteration == program.iterations {
            worker.done = true;
            return true;
        }
        let (iteration, at) = (worker.iteration, worker.op);
        let Some((start, elements)) = (!program.ops.is_empty())
            .then(|| program.chunk_at(at, index, iteration))
            .flatten()
        else {
            worker.next(program.ops.len());
            return true;
        };
        let op = program.ops[at];
        let ports = |indices: [u32; 2]| {
            indices
                .into_iter()
                .filter(|connection| *connection != NO_PORT)
                .map(|connection| connection as usize)
        };
        let size = cell.dtype.size();
        let bytes = |first: u64| (first as usize * size)..((first + elements) as usize * size);
        let key = |connection: (u32, u32, Mode, u32)| {
            (connection.0, connection.1, connection.2, connection.3, index)
        };
        if op.flags & abi::COUNT_ONLY == 0 {
            // Words lie at places of their own; chunks in slots come one after another.
            let place = |at: u64| (at << 32) + (start - op.begin);
            for (end, port) in ports(op.source).enumerate() {
                let connection = self.connection(rank, port);
                if connection.2 == Mode::Words {
                    let word = (key(connection), place(op.source_at[end]));
                    if !self.slots.contains_key(&word) {
                        return false;
                    }
                    continue;
                }
                let taken = self.head.get(&key(connection)).copied().unwrap_or(0);
                // What is pulled is there from the beginning.
                if connection.2 != Mode::Pull
                    && self.tail.get(&key(connection)).copied().unwrap_or(0) <= taken
                {
                    return false;
                }
            }
            for port in ports(op.target) {
                let connection = self.connection(rank, port);
                let sent = self.tail.get(&key(connection)).copied().unwrap_or(0);
                let taken = self.head.get(&key(connection)).copied().unwrap_or(0);
                let slots = u64::from(program.ports[port].slots);
                if connection.2 == Mode::Fifo && taken + slots <= sent {
                    return false;
                }
            }
            let mut value: Option<Vec<u8>> = None;
            let mut combine = |operand: &[u8]| match &mut value {
                None => value = Some(operand.to_vec()),
                Some(value) => host::reduce(cell.dtype, cell.op, value, operand),
            };
            if op.flags & abi::OWN_INPUT != 0 {
                combine(&self.inputs[rank][bytes(start)]);
            }
            if op.flags & abi::OWN_OUTPUT != 0 {
                combine(&self.outputs[rank][bytes(start)]);
            }
            for (end, port) in ports(op.source).enumerate() {
                let connection = self.connection(rank, port);
                let there = op.source_at[end] + (start - op.begin);
                match connection.2 {
                    Mode::Pull => combine(&self.inputs[self.position(connection.0)][bytes(there)]),
                    Mode::Push => combine(&self.outputs[rank][bytes(there)]),
                    _ => {
                        let count = self.head.get(&key(connection)).copied().unwrap_or(0);
                        let number = if connection.2 == Mode::Words {
                            place(op.source_at[end])
                        } else {
                            count
                        };
                        combine(&self.slots.remove(&(key(connection), number)).unwrap());
                    }
                }
            }
            let mut value = value.unwrap();
            if op.flags & abi::FINISH != 0 {
                host::finish_avg(cell.dtype, &mut value, cell.world());
            }
            assert_eq!(value.len(), elements as usize * size);
            if op.flags & abi::KEEP != 0 {
                self.outputs[rank][bytes(start)].copy_from_slice(&value);
            }
            for (end, port) in ports(op.target).enumerate() {
                let connection = self.connection(rank, port);
                let there = op.target_at[end] + (start - op.begin);
                if connection.2 == Mode::Push {
                    let to = self.position(connection.1);
                    self.outputs[to][bytes(there)].copy_from_slice(&value);
                } else {
                    let count = self.tail.get(&key(connection)).copied().unwrap_or(0);
                    let number = if connection.2 == Mode::Words {
                        place(op.target_at[end])
                    } else {
                        count
                    };
                    let slot = (key(connection), number);
                    assert!(
                        self.slots.insert(slot, value.clone()).is_none(),
                        "a chunk was overwritten"
                    );
                }
            }
        }
        for port in ports(op.source) {
            *self.head.entry(key(self.connection(rank, port))).or_default() += 1;
        }
        for port in ports(op.target) {
            *self.tail.entry(key(self.connection(rank, port))).or_default() += 1;
        }
        worker.next(program.ops.len());
        true
    }
}

impl Worker {
    fn next(&mut self, ops: usize) {
        self.op += 1;
        if self.op >= ops {
            self.op = 0;
            self.iteration += 1;
        }
    }
}

/// Runs a cell with its workers taking turns at random; panics when it locks up or the result is wrong.
fn run(cell: &Cell, reach: &dyn Fn(u32, u32) -> MemoryAccess, limits: &Limits, seed: u64) {
    let programs = DeviceProgram::all(cell, reach, limits).unwrap();
    let oracle = Oracle::for_cell(cell, seed);
    let bytes = cell.size.as_usize();
    let mut inputs = vec![vec![0u8; bytes]; cell.world()];
    for (rank, input) in inputs.iter_mut().enumerate() {
        oracle.input(rank, 1, input);
    }
    let mut world = World {
        programs: &programs,
        inputs,
        outputs: vec![vec![0xa5; bytes]; cell.world()],
        slots: HashMap::new(),
        tail: HashMap::new(),
        head: HashMap::new(),
    };
    let mut workers: Vec<(usize, u32, Worker)> = Vec::new();
    for (rank, program) in programs.iter().enumerate() {
        assert!(program.blocks == program.workers || program.is_passive());
        assert!(program.iterations == 0 || !program.is_passive());
        workers.extend((0..program.workers).map(|worker| (rank, worker, Worker::default())));
    }
    let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
    let mut stood = 0;
    while workers.iter().any(|(_, _, worker)| !worker.done) {
        let at = random.next_u64() as usize % workers.len();
        let (rank, index, worker) = &mut workers[at];
        let moved = !worker.done && world.advance(cell, *rank, *index, worker);
        stood = if moved { 0 } else { stood + 1 };
        let stands = || {
            workers
                .iter()
                .map(|(rank, index, w)| (*rank, *index, w.iteration, w.op, w.done))
        };
        assert!(
            stood < 100_000,
            "locked up: {cell:?} {:?}\n{:?}\n{programs:#?}",
            stands().collect::<Vec<_>>(),
            (&world.tail, &world.head)
        );
    }
    assert!(world.slots.is_empty(), "chunks nobody took: {cell:?}");
    for (rank, program) in programs.iter().enumerate() {
        let verdict = oracle.check(rank, 1, &world.outputs[rank]);
        assert!(
            verdict.is_ok(),
            "rank {rank}: {verdict:?} in {cell:?}\n{program:#?}"
        );
    }
}

fn limits(cell: &Cell, capacity: u32, words: bool, chunk: usize, lag: u32) -> Limits {
    Limits {
        words_up_to: Some(if words { usize::MAX } else { 0 }),
        longest_chunk: Some(chunk),
        lag: Some(lag),
        ..Limits::new(
            vec![LaunchGroup {
                ranks: cell.ranks.clone(),
                capacity,
            }],
            32,
        )
    }
}

fn schemes() -> impl Strategy<Value = (Collective, Algorithm)> {
    let all: Vec<_> = crate::collective::ALGORITHMS
        .iter()
        .map(|scheme| (scheme.collective(), scheme.algorithm()))
        .collect();
    prop::sample::select(all)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn every_collective_yields_what_the_oracle_says_however_ranks_reach_each_other(
        (collective, algorithm) in schemes(),
        ranks in 2usize..9,
        elements in 1usize..3000,
        chunk in prop::sample::select(vec![128usize, 256, 1024]),
        capacity in 9u32..64,
        lag in 0u32..3,
        op in prop::sample::select(vec![ReduceOp::Sum, ReduceOp::Avg, ReduceOp::Max]),
        networks in any::<u64>(),
        seed in any::<u64>(),
    ) {
        let ranks = if collective.is_pairwise() { 2 } else { ranks };
        let elements = if collective.is_blocked() { elements.next_multiple_of(ranks) } else { elements };
        let mut cell = cell(collective, algorithm, ranks, elements);
        cell.op = if collective.reduces() { op } else { ReduceOp::Sum };
        // Any pair may be on different hosts.
        let reach = |a: u32, b: u32| {
            let (a, b) = (a.min(b), a.max(b));
            if networks >> ((a * 7 + b) % 64) & 1 == 1 { MemoryAccess::Proxy } else { MemoryAccess::Direct { same_gpu: true } }
        };
        run(&cell, &reach, &limits(&cell, capacity, false, chunk, lag), seed);
        let direct = |_: u32, _: u32| MemoryAccess::Direct { same_gpu: true };
        run(&cell, &direct, &limits(&cell, capacity, false, chunk, lag), seed);
        run(&cell, &direct, &limits(&cell, capacity, true, chunk, lag), seed);
        let proxied = |_: u32, _: u32| MemoryAccess::Proxy;
        run(&cell, &proxied, &limits(&cell, capacity, false, chunk, lag), seed);
    }
}
