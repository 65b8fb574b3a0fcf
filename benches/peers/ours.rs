//! Our own engine without the measuring around it: two ranks as threads, one barrier, one timed call.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use engine::collective::{Buffers, Conditions, Execution, Program};
use engine::launch::Token;
use engine::transport::shm::Hub;
use engine::transport::tcp::LocalRail;
use engine::transport::{Mesh, Wanted};
use record::units::Bytes;
use record::{
    Algorithm, Cell, Collective, DType, DeviceKind, Engine, Load, Placement, ReduceOp, TransportKind,
};

/// What carries the bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    Shm,
    Tcp,
}

/// Median seconds of one all-reduce of `size` bytes.
pub fn all_reduce(wire: Wire, size: usize) -> f64 {
    let cell = cell(wire, size, 1, Collective::AllReduce, Algorithm::Ring);
    median_seconds(&cell, iterations(size))
}

/// What moves over TCP.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Traffic {
    OneWay,
    BothWays,
    AllReduce,
}

impl Traffic {
    pub fn name(self) -> &'static str {
        match self {
            Traffic::OneWay => "one way",
            Traffic::BothWays => "both ways",
            Traffic::AllReduce => "all-reduce",
        }
    }
}

/// Bytes per nanosecond on the wire, in each direction that is used.
pub fn wire_rate(flows: u16, traffic: Traffic) -> f64 {
    let size = 64 << 20;
    let (collective, algorithm) = match traffic {
        Traffic::OneWay => (Collective::PointToPoint, Algorithm::Direct),
        Traffic::BothWays => (Collective::Bidirectional, Algorithm::Direct),
        Traffic::AllReduce => (Collective::AllReduce, Algorithm::Ring),
    };
    let cell = cell(Wire::Tcp, size, flows, collective, algorithm);
    // With two ranks a ring all-reduce sends the payload once each way.
    size as f64 / median_seconds(&cell, 20) / 1e9
}

/// As many as the peer runs: see `all_reduce.c`.
fn iterations(size: usize) -> usize {
    ((256 << 20) / size).clamp(10, 400)
}

fn cell(wire: Wire, size: usize, flows: u16, collective: Collective, algorithm: Algorithm) -> Cell {
    let (transport, rails) = match wire {
        Wire::Shm => (TransportKind::Shm, Vec::new()),
        Wire::Tcp => (TransportKind::Tcp, vec!["loopback".to_string()]),
    };
    Cell {
        id: 0,
        test: String::new(),
        slot: 0,
        load: Load::Alone,
        collective,
        algorithm,
        ranks: vec![0, 1],
        root: 0,
        rails,
        flows,
        source_port: None,
        transport,
        device: DeviceKind::Host,
        size: Bytes(size as u64),
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

fn median_seconds(cell: &Cell, iterations: usize) -> f64 {
    let token = Token::generate().expect("random bytes");
    let hub = Hub::new();
    let rails: Vec<(String, LocalRail)> = cell
        .rails
        .iter()
        .map(|rail| (rail.clone(), IpAddr::V4(Ipv4Addr::LOCALHOST).into()))
        .collect();
    let open = |rank| Mesh::open(rank, rails.clone(), token, Arc::clone(&hub), Vec::new()).expect("loopback");
    let mut meshes = vec![open(0), open(1)];
    let endpoints: Vec<_> = meshes.iter().map(Mesh::endpoint).collect();
    meshes
        .iter_mut()
        .for_each(|mesh| mesh.set_peers(endpoints.clone()));
    let arrived = AtomicUsize::new(0);
    let times: Vec<Vec<f64>> = std::thread::scope(|scope| {
        let arrived = &arrived;
        let run = |(rank, mesh)| scope.spawn(move || run_rank(rank, mesh, cell, iterations, arrived));
        let threads: Vec<_> = (0..).zip(meshes).map(run).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("a rank"))
            .collect()
    });
    let slower: Vec<f64> = (0..iterations).map(|at| times[0][at].max(times[1][at])).collect();
    super::median(&slower)
}

fn run_rank(rank: u32, mut mesh: Mesh, cell: &Cell, iterations: usize, arrived: &AtomicUsize) -> Vec<f64> {
    let program = Program::new(cell, rank).expect("an algorithm that exists");
    let wanted = Wanted {
        cell,
        placed: false,
        deadline: Instant::now() + Duration::from_secs(10),
        give_up: &|| false,
    };
    let channels = mesh
        .connect(&program.peers(), &wanted)
        .map_err(|(_, error)| error)
        .expect("peers");
    let mut execution = Execution::new(program, channels);
    let buffers = Buffers::for_cell(cell, false);
    for region in [&buffers.input, &buffers.output] {
        region.try_write(0..region.len()).expect("nobody else").fill(0);
    }
    let abort = AtomicBool::new(false);
    let conditions = Conditions {
        deadline: Duration::from_secs(30),
        abort: &abort,
        crowded: false,
        moving: None,
        slowdown: 1.0,
    };
    let warmup = iterations / 5 + 2;
    let mut times = Vec::with_capacity(iterations);
    for iteration in 0..warmup + iterations {
        let everybody = 2 * (iteration + 1);
        arrived.fetch_add(1, Ordering::AcqRel);
        while arrived.load(Ordering::Acquire) < everybody {
            std::hint::spin_loop();
        }
        let took = execution
            .run(&buffers, None, &conditions)
            .expect("two healthy ranks");
        if iteration >= warmup {
            times.push(took.total.as_secs_f64());
        }
    }
    times
}
