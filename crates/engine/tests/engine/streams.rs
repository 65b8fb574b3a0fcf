//! Many streams between two ranks over real sockets: what arrives is counted and right, and one that cannot be made is no
//! trouble for the others.

use std::net::TcpListener;
use std::sync::Barrier;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use crate::ranks::{cell, meshes, over_tcp};
use railgauge_engine::collective::{Conditions, StreamEngine};
use railgauge_engine::launch::clock;
use railgauge_engine::transport::{Fault, Wanted};
use record::units::{Bytes, Nanos};
use record::{Algorithm, Cell, Collective, DType, StreamRecord, StreamTerms};

/// What the two ends of a cell know in the end.
struct Ends {
    sender: Vec<StreamRecord>,
    receiver: Vec<StreamRecord>,
    check: Result<(), String>,
}

/// `flows` streams from rank 1 to rank 0, so that the sender is not the lower one, from `first` on.
fn streams(flows: u16, first: u16, one_port: bool) -> Cell {
    let pair = over_tcp(&cell(Collective::Streams, Algorithm::Direct, 2, 0), 1, flows);
    Cell {
        ranks: vec![1, 0],
        source_port: Some(first),
        size: Bytes(4096),
        dtype: DType::U8,
        streams: Some(StreamTerms {
            set: 0,
            window: Nanos(60_000_000),
            one_port,
            into_one: false,
            pattern: None,
            ports: Vec::new(),
            round: 0,
            ways: Vec::new(),
        }),
        ..pair
    }
}

fn run(cell: &Cell, iterations: u32, faults: &[Fault]) -> Ends {
    run_while(cell, iterations, faults, true)
}

/// The same; the sender may be connected and send nothing.
fn run_while(cell: &Cell, iterations: u32, faults: &[Fault], sends: bool) -> Ends {
    let abort = AtomicBool::new(false);
    // Ranks of a run begin every iteration together, and part when all are done.
    let together = Barrier::new(2);
    let end = &|mut mesh: railgauge_engine::transport::Mesh, rank: u32| {
        let wanted = Wanted {
            cell,
            placed: false,
            deadline: Instant::now() + Duration::from_secs(20),
            give_up: &|| false,
        };
        let streams = mesh.streams(&wanted).unwrap();
        let terms = cell.streams.as_ref().unwrap();
        let mut engine = StreamEngine::new(cell, terms, rank, 5, streams);
        let conditions = Conditions {
            deadline: Duration::from_secs(20),
            abort: &abort,
            crowded: true,
            moving: None,
            slowdown: 1.0,
        };
        let mut check = Ok(());
        for iteration in [None].into_iter().chain((0..iterations).map(Some)) {
            together.wait();
            if sends || rank == cell.ranks[1] {
                engine.run_window(clock::now(), iteration, &conditions).unwrap();
            }
            check = check.and(engine.check_received().map_err(|wrong| format!("{wrong:?}")));
        }
        together.wait();
        (engine.records(), check)
    };
    let ends = std::thread::scope(|scope| {
        let threads: Vec<_> = meshes(cell, faults)
            .into_iter()
            .zip(&cell.ranks)
            .map(|(mesh, rank)| scope.spawn(move || end(mesh, *rank)))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect::<Vec<_>>()
    });
    let [(sender, sent), (receiver, check)] = ends.try_into().unwrap_or_else(|_| panic!("two ranks"));
    sent.unwrap();
    Ends {
        sender,
        receiver,
        check,
    }
}

#[test]
fn every_stream_comes_from_its_port_and_delivers_whole_messages_that_are_right() {
    let ends = run(&streams(9, 21_300, false), 2, &[]);
    assert_eq!(ends.check, Ok(()));
    for (number, record) in (0..).zip(&ends.receiver) {
        assert_eq!((record.stream, record.port), (number, Some(21_300 + number)));
        assert_eq!(record.problem, None);
        assert_eq!(record.bytes.len(), 2);
        assert!(
            record.bytes.iter().all(|bytes| *bytes > 0 && bytes % 4096 == 0),
            "{record:?}"
        );
    }
    assert!(
        ends.sender
            .iter()
            .all(|record| record.bytes.is_empty() && record.problem.is_none())
    );
}

#[test]
fn a_stream_that_cannot_be_made_is_named_and_the_others_go_on() {
    // Somebody else listens at the third stream's port, so that it cannot be bound.
    let taken = TcpListener::bind(("127.0.1.1", 21_342)).unwrap();
    let ends = run(&streams(5, 21_340, false), 1, &[]);
    drop(taken);
    assert_eq!(ends.check, Ok(()));
    for (number, (sent, received)) in ends.sender.iter().zip(&ends.receiver).enumerate() {
        let is_dead = number == 2;
        assert_eq!(received.bytes[0] == 0, is_dead, "{received:?}");
        assert_eq!(received.problem.is_some(), is_dead, "{received:?}");
        let said = sent.problem.as_deref().unwrap_or_default();
        assert_eq!(said.contains("cannot bind to 127.0.1.1:21342"), is_dead, "{said}");
    }
}

#[test]
fn streams_of_a_sender_with_one_port_share_one_connection() {
    let ends = run(&streams(4, 21_360, true), 1, &[]);
    let ports: Vec<_> = ends.receiver.iter().map(|record| record.port).collect();
    assert_eq!(ports, [Some(21_360); 4]);
    let shares: Vec<u64> = ends.receiver.iter().map(|record| record.bytes[0]).collect();
    assert!(
        shares[0] > 0 && shares.iter().all(|share| *share == shares[0]),
        "{shares:?}"
    );
}

#[test]
fn a_bit_that_flips_on_the_way_is_found_where_it_is() {
    let flip: Fault = "flip:rank=0,iteration=1,byte=4099,bit=3".parse().unwrap();
    let ends = run(&streams(3, 21_380, false), 2, &[flip]);
    let wrong = ends.check.unwrap_err();
    assert!(
        wrong.contains("byte_offset: 3") && wrong.contains("wrong_elements: 1"),
        "{wrong}"
    );
}

#[test]
fn a_stream_that_is_connected_and_over_which_nothing_comes_is_named() {
    let ends = run_while(&streams(2, 21_420, false), 1, &[], false);
    for record in &ends.receiver {
        assert_eq!(record.bytes, [0]);
        let problem = record.problem.as_deref();
        assert_eq!(
            problem,
            Some("it was connected, and nothing ever arrived"),
            "{record:?}"
        );
    }
}

#[test]
fn ports_are_free_for_the_next_cell_at_once() {
    for _ in 0..3 {
        let ends = run(&streams(6, 21_400, false), 1, &[]);
        assert!(
            ends.sender.iter().all(|record| record.problem.is_none()),
            "{:?}",
            ends.sender
        );
    }
}
