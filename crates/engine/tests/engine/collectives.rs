//! Every collective, over real shared memory and real sockets, checked by the oracle, with every byte accounted for.

use std::time::Duration;

use crate::ranks::{cell, over_tcp, run, with_type};
use proptest::prelude::*;
use railgauge_engine::collective::{ALGORITHMS, planned_bytes};
use record::{Algorithm, Cell, Collective, DType, LinkTraffic, Placement, ReduceOp};
use strum::IntoEnumIterator;

const PATIENCE: Duration = Duration::from_secs(120);

/// Runs the cell and checks results, inputs and bytes.
fn check(cell: &Cell) -> Result<(), String> {
    let outcomes = run(cell, 2, &[], PATIENCE);
    let mut moved: Vec<LinkTraffic> = Vec::new();
    for outcome in outcomes {
        let context =
            |problem: String| format!("{} {:?} {}: {problem}", cell.describe(), cell.placement, cell.op);
        outcome.took.map_err(|stopped| context(stopped.to_string()))?;
        outcome.verdict.map_err(context)?;
        if !outcome.input_untouched {
            return Err(context(
                "an out-of-place collective changed its input".to_string(),
            ));
        }
        moved.extend(outcome.moved);
    }
    let mut planned = planned_bytes(cell).map_err(|error| error.to_string())?;
    let key = |moved: &LinkTraffic| (moved.from, moved.to, moved.rail.clone());
    planned.sort_by_key(key);
    moved.sort_by_key(key);
    if planned != moved {
        return Err(format!(
            "{}: planned {planned:?} but moved {moved:?}",
            cell.describe()
        ));
    }
    Ok(())
}

fn placements(base: &Cell) -> impl Iterator<Item = Cell> {
    Placement::iter().map(move |placement| Cell {
        placement,
        ..base.clone()
    })
}

#[test]
fn every_algorithm_gives_the_right_answer_over_shared_memory() {
    for scheme in ALGORITHMS {
        for ranks in [1, 2, 3, 5, 8] {
            for elements in [0, 1, 7, 1000, 100_003] {
                let cell = cell(scheme.collective(), scheme.algorithm(), ranks, elements);
                for cell in placements(&cell) {
                    check(&cell).unwrap();
                }
            }
        }
    }
}

#[test]
fn every_algorithm_gives_the_right_answer_over_tcp_on_several_rails_and_flows() {
    for scheme in ALGORITHMS {
        for (ranks, rails, flows) in [(2, 1, 1), (3, 2, 1), (4, 1, 3), (5, 2, 2)] {
            for elements in [0, 1, 200_001] {
                let cell = over_tcp(
                    &cell(scheme.collective(), scheme.algorithm(), ranks, elements),
                    rails,
                    flows,
                );
                for cell in placements(&cell) {
                    check(&cell).unwrap();
                }
            }
        }
    }
}

#[test]
fn every_type_and_operator_is_reduced_exactly() {
    for algorithm in Collective::AllReduce.algorithms() {
        for dtype in DType::iter() {
            for op in ReduceOp::iter() {
                let cell = with_type(&cell(Collective::AllReduce, *algorithm, 3, 10_001), dtype, op);
                for cell in placements(&cell) {
                    check(&cell).unwrap();
                }
            }
        }
    }
}

#[test]
fn sixty_four_ranks_work() {
    for algorithm in Collective::AllReduce.algorithms() {
        check(&cell(Collective::AllReduce, *algorithm, 64, 5_000)).unwrap();
    }
    check(&cell(Collective::AllToAll, Algorithm::Direct, 64, 6_400)).unwrap();
}

#[test]
fn a_flipped_bit_in_transit_is_noticed_by_the_rank_that_received_it() {
    let over_shm = cell(Collective::AllReduce, Algorithm::Ring, 3, 30_000);
    for cell in [over_tcp(&over_shm, 1, 1), over_shm] {
        let fault = "flip:rank=1,iteration=1,byte=4001,bit=6".parse().unwrap();
        let outcomes = run(&cell, 2, &[fault], PATIENCE);
        assert!(outcomes.iter().all(|outcome| outcome.took.is_ok()));
        let verdict = outcomes[1].verdict.clone();
        assert!(verdict.is_err(), "{}: the flip went unnoticed", cell.describe());
    }
}

#[test]
fn a_standstill_says_which_step_waits_for_whom() {
    let cell = over_tcp(&cell(Collective::AllReduce, Algorithm::Ring, 2, 100_000), 1, 1);
    let fault = "throttle:pair=0:1,rate=1B/s".parse().unwrap();
    let outcomes = run(&cell, 1, &[fault], Duration::from_millis(300));
    let stopped = outcomes[1].took.clone().unwrap_err();
    assert_eq!(stopped.waiting_for, Some(0), "{stopped}");
    assert!(stopped.step.contains("receive and reduce block 0"), "{stopped}");
}

fn any_cell() -> impl Strategy<Value = Cell> {
    let scheme = 0..ALGORITHMS.len();
    let shape = (1u32..=9, prop_oneof![0usize..40, 0usize..30_000], 0u32..9);
    let kind = (0usize..8, 0usize..5, any::<bool>());
    let wire = (any::<bool>(), 1usize..=2, 1u16..=3);
    (scheme, shape, kind, wire).prop_map(|(scheme, (ranks, elements, root), (dtype, op, in_place), wire)| {
        let scheme = ALGORITHMS[scheme];
        let base = cell(scheme.collective(), scheme.algorithm(), ranks, elements);
        let dtype = DType::iter().nth(dtype).unwrap();
        let op = ReduceOp::iter().nth(op).unwrap();
        let mut cell = with_type(&base, dtype, op);
        cell.root = root % ranks;
        cell.placement = if in_place {
            Placement::InPlace
        } else {
            Placement::OutOfPlace
        };
        let (tcp, rails, flows) = wire;
        if tcp { over_tcp(&cell, rails, flows) } else { cell }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn any_cell_gives_the_right_answer_and_moves_the_bytes_it_states(cell in any_cell()) {
        if let Err(problem) = check(&cell) {
            prop_assert!(false, "{problem}");
        }
    }
}

#[test]
fn ranks_of_one_host_do_not_fight_over_pinned_source_ports() {
    let mut cell = over_tcp(&cell(Collective::AllToAll, Algorithm::Direct, 4, 4_000), 2, 2);
    cell.source_port = Some(25_000 + (std::process::id() % 5_000) as u16);
    check(&cell).unwrap();
}
