//! Ranks as threads over real channels, without the measuring around them.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use railgauge_engine::collective::{
    Buffers, Conditions, Execution, Oracle, Program, Stopped, Took, scheme_of,
};
use railgauge_engine::launch::Token;
use railgauge_engine::transport::shm::Hub;
use railgauge_engine::transport::tcp::LocalRail;
use railgauge_engine::transport::{Fault, Mesh, Wanted};
use record::units::Bytes;
use record::{
    Algorithm, Cell, Collective, DType, DeviceKind, Engine, LinkTraffic, Load, Placement, ReduceOp,
    TransportKind,
};

/// A cell of `ranks` ranks with `elements` f32 elements; change what the test is about.
pub fn cell(collective: Collective, algorithm: Algorithm, ranks: u32, elements: usize) -> Cell {
    Cell {
        id: 0,
        test: "test".to_string(),
        slot: 0,
        load: Load::Alone,
        collective,
        algorithm,
        ranks: (0..ranks).collect(),
        root: 0,
        rails: Vec::new(),
        flows: 1,
        source_port: None,
        transport: TransportKind::Shm,
        device: DeviceKind::Host,
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

/// The same cell with another element type; the element count stays.
pub fn with_type(cell: &Cell, dtype: DType, op: ReduceOp) -> Cell {
    let size = Bytes((cell.elements() * dtype.size()) as u64);
    Cell {
        dtype,
        op,
        size,
        ..cell.clone()
    }
}

/// The same cell over TCP on `rails` loopback rails with `flows` connections each.
pub fn over_tcp(cell: &Cell, rails: usize, flows: u16) -> Cell {
    let rails = (0..rails).map(|rail| format!("rail{rail}")).collect();
    Cell {
        transport: TransportKind::Tcp,
        rails,
        flows,
        ..cell.clone()
    }
}

/// What one rank saw.
pub struct Outcome {
    pub took: Result<Took, Stopped>,
    pub verdict: Result<(), String>,
    pub input_untouched: bool,
    pub moved: Vec<LinkTraffic>,
}

/// The ranks of `cell`, who know each other, with their rails on loopback.
pub fn meshes(cell: &Cell, faults: &[Fault]) -> Vec<Mesh> {
    let token = Token::generate().unwrap();
    let hub = Hub::new();
    let rails: Vec<(String, LocalRail)> = (0u8..)
        .zip(&cell.rails)
        .map(|(index, name)| {
            (
                name.clone(),
                IpAddr::V4(Ipv4Addr::new(127, 0, 1, index + 1)).into(),
            )
        })
        .collect();
    let mut meshes: Vec<Mesh> = cell
        .ranks
        .iter()
        .map(|rank| Mesh::open(*rank, rails.clone(), token, Arc::clone(&hub), faults.to_vec()).unwrap())
        .collect();
    let endpoints: Vec<_> = meshes.iter().map(Mesh::endpoint).collect();
    meshes
        .iter_mut()
        .for_each(|mesh| mesh.set_peers(endpoints.clone()));
    meshes
}

/// Runs `cell` for `iterations` iterations on threads and checks the last result of every rank.
pub fn run(cell: &Cell, iterations: u32, faults: &[Fault], deadline: Duration) -> Vec<Outcome> {
    let meshes = meshes(cell, faults);
    let abort = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let abort = &abort;
        let threads: Vec<_> = meshes
            .into_iter()
            .zip(&cell.ranks)
            .map(|(mesh, rank)| scope.spawn(move || run_rank(mesh, cell, *rank, iterations, deadline, abort)))
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn run_rank(
    mut mesh: Mesh,
    cell: &Cell,
    rank: u32,
    iterations: u32,
    deadline: Duration,
    abort: &AtomicBool,
) -> Outcome {
    let program = Program::new(cell, rank).unwrap();
    let wanted = Wanted {
        cell,
        placed: false,
        deadline: Instant::now() + Duration::from_secs(20),
        give_up: &|| false,
    };
    let channels = mesh.connect(&program.peers(), &wanted).unwrap();
    let mut execution = Execution::new(program, channels);
    let buffers = Buffers::for_cell(cell, scheme_of(cell).unwrap().stages_input_in_place());
    let oracle = Oracle::for_cell(cell, 7);
    let position = cell.ranks.iter().position(|member| *member == rank).unwrap();
    let slowdown = faults_slowdown(mesh.faults(), rank);
    let conditions = Conditions {
        deadline,
        abort,
        crowded: true,
        moving: None,
        slowdown,
    };
    let all = 0..cell.size.as_usize();
    let mut took = Err(Stopped {
        step: "never ran".into(),
        waiting_for: None,
        waited: Default::default(),
        problem: String::new(),
        aborted: false,
    });
    for iteration in 0..iterations {
        let mut input = loop {
            if let Some(lease) = buffers.input.try_write(all.clone()) {
                break lease;
            }
            std::thread::yield_now();
        };
        oracle.input(position, u64::from(iteration), &mut input);
        drop(input);
        took = execution.run(&buffers, Some(iteration), &conditions);
        if took.is_err() {
            return Outcome {
                took,
                verdict: Err("did not finish".into()),
                input_untouched: true,
                moved: Vec::new(),
            };
        }
    }
    let last = u64::from(iterations - 1);
    let output = buffers
        .output
        .try_read(all.clone())
        .expect("nobody writes any more");
    let verdict = oracle
        .check(position, last, &output)
        .map_err(|mismatch| format!("rank {rank}: {mismatch:?}"));
    let mut original = vec![0; all.len()];
    oracle.input(position, last, &mut original);
    let in_place = cell.placement == Placement::InPlace;
    let input_untouched = in_place
        || buffers
            .input
            .try_read(all)
            .is_some_and(|input| *input == original[..]);
    let moved = execution
        .channels()
        .flat_map(|channel| {
            channel
                .moved()
                .into_iter()
                .map(|(rail, bytes)| (channel.peer(), rail, bytes))
        })
        .filter(|(_, _, bytes)| *bytes > 0)
        .map(|(to, rail, bytes)| LinkTraffic {
            from: rank,
            to,
            rail,
            bytes: Bytes(bytes / u64::from(iterations)),
        })
        .collect();
    Outcome {
        took,
        verdict,
        input_untouched,
        moved,
    }
}

fn faults_slowdown(faults: &[Fault], rank: u32) -> f64 {
    let slow = faults.iter().find_map(|fault| match fault {
        Fault::SlowRank { rank: slow, factor } if *slow == rank => Some(*factor),
        _ => None,
    });
    slow.unwrap_or(1.0)
}
