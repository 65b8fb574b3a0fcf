//! What must hold for every algorithm in the registry: right results in any order, matched messages, known link loads.

mod simulate;

use std::collections::BTreeMap;

use proptest::prelude::*;
use strum::IntoEnumIterator;

use self::simulate::{Conditions, Fault, simulate, simulate_schedules};
use super::schedule::LinkLoad;
use super::{ALGORITHMS, Action, Oracle, Schedule, Scheme, Shape, Step, find};
use record::{Collective, DType, Placement, ReduceOp};

/// Element counts around the number of ranks, where blocks are empty or uneven.
fn awkward_counts(ranks: usize) -> [usize; 7] {
    [0, 1, ranks - 1, ranks, ranks + 1, 2 * ranks - 1, 97]
}

fn schedules(scheme: &dyn Scheme, ranks: usize, elements: usize, root: usize) -> Vec<Schedule> {
    (0..ranks)
        .map(|rank| {
            scheme.schedule(Shape {
                rank,
                ranks,
                elements,
                root,
            })
        })
        .collect()
}

fn name(scheme: &dyn Scheme) -> String {
    format!("{} {}", scheme.algorithm(), scheme.collective())
}

#[test]
fn every_algorithm_a_suite_may_name_exists_and_no_other() {
    let scheduled = || Collective::iter().filter(|collective| collective.is_scheduled());
    for collective in scheduled() {
        for &algorithm in collective.algorithms() {
            assert!(find(collective, algorithm).is_some(), "{algorithm} {collective}");
        }
    }
    let named: usize = scheduled().map(|collective| collective.algorithms().len()).sum();
    assert_eq!(ALGORITHMS.len(), named);
}

#[test]
fn every_algorithm_is_right_for_every_small_cluster_and_awkward_size() {
    for &scheme in ALGORITHMS {
        for ranks in 1..=17 {
            for (seed, elements) in awkward_counts(ranks).into_iter().enumerate() {
                for placement in Placement::iter() {
                    let (dtype, op, root) = (DType::F32, ReduceOp::Sum, seed % ranks);
                    let collective = scheme.collective();
                    let oracle = Oracle {
                        collective,
                        dtype,
                        op,
                        ranks,
                        root,
                        elements,
                        seed: 1,
                    };
                    let conditions = Conditions {
                        placement,
                        chunk: 2,
                        strict: seed % 2 == 0,
                        seed: seed as u64,
                    };
                    let done = simulate(scheme, &oracle, conditions);
                    assert_eq!(
                        done,
                        Ok(()),
                        "{}, {ranks} ranks, {elements} elements",
                        name(scheme)
                    );
                }
            }
        }
    }
}

fn any_element_count(ranks: usize) -> impl Strategy<Value = usize> {
    prop_oneof![prop::sample::select(awkward_counts(ranks).to_vec()), 0usize..2000]
}

fn any_oracle() -> impl Strategy<Value = (usize, Oracle)> {
    let ranks = (1usize..=64).prop_flat_map(|ranks| (Just(ranks), 0..ranks, any_element_count(ranks)));
    let dtype = prop::sample::select(DType::iter().collect::<Vec<_>>());
    let op = prop::sample::select(ReduceOp::iter().collect::<Vec<_>>());
    (0..ALGORITHMS.len(), ranks, dtype, op, any::<u64>()).prop_map(
        |(index, (ranks, root, elements), dtype, op, seed)| {
            let collective = ALGORITHMS[index].collective();
            (
                index,
                Oracle {
                    collective,
                    dtype,
                    op,
                    ranks,
                    root,
                    elements,
                    seed,
                },
            )
        },
    )
}

fn any_conditions() -> impl Strategy<Value = Conditions> {
    let placement = prop::sample::select(Placement::iter().collect::<Vec<_>>());
    (placement, 1usize..700, any::<bool>(), any::<u64>()).prop_map(|(placement, chunk, strict, seed)| {
        Conditions {
            placement,
            chunk,
            strict,
            seed,
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_type_operator_size_root_or_timing_changes_a_result(
        (index, oracle) in any_oracle(),
        conditions in any_conditions(),
    ) {
        prop_assert_eq!(simulate(ALGORITHMS[index], &oracle, conditions), Ok(()));
    }
}

#[test]
fn an_average_is_right_for_every_type_and_reducing_algorithm() {
    for &scheme in ALGORITHMS.iter().filter(|scheme| scheme.collective().reduces()) {
        for dtype in DType::iter() {
            for ranks in [1, 2, 3, 7, 64] {
                let (collective, op) = (scheme.collective(), ReduceOp::Avg);
                let oracle = Oracle {
                    collective,
                    dtype,
                    op,
                    ranks,
                    root: 0,
                    elements: 130,
                    seed: 2,
                };
                let placement = Placement::OutOfPlace;
                let conditions = Conditions {
                    placement,
                    chunk: 50,
                    strict: true,
                    seed: 3,
                };
                assert_eq!(
                    simulate(scheme, &oracle, conditions),
                    Ok(()),
                    "{} {dtype} {ranks}",
                    name(scheme)
                );
            }
        }
    }
}

#[test]
fn a_cluster_with_more_ranks_than_may_contribute_to_a_value_is_not_called_corrupt() {
    for &scheme in ALGORITHMS
        .iter()
        .filter(|scheme| scheme.collective() == Collective::AllReduce)
    {
        for (dtype, op) in [
            (DType::Bf16, ReduceOp::Sum),
            (DType::U8, ReduceOp::Prod),
            (DType::F16, ReduceOp::Avg),
        ] {
            let collective = scheme.collective();
            let oracle = Oracle {
                collective,
                dtype,
                op,
                ranks: 150,
                root: 0,
                elements: 400,
                seed: 4,
            };
            let placement = Placement::InPlace;
            let conditions = Conditions {
                placement,
                chunk: 100,
                strict: true,
                seed: 5,
            };
            assert_eq!(
                simulate(scheme, &oracle, conditions),
                Ok(()),
                "{} {dtype} {op}",
                name(scheme)
            );
        }
    }
}

#[test]
fn the_closed_form_of_every_link_load_is_what_the_steps_send() {
    for &scheme in ALGORITHMS {
        for ranks in 1..=64 {
            for elements in awkward_counts(ranks).into_iter().chain([1000]) {
                let root = elements % ranks;
                let sends = schedules(scheme, ranks, elements, root)
                    .into_iter()
                    .enumerate()
                    .flat_map(|(from, s)| {
                        let Schedule { blocks, steps, .. } = s;
                        let sends = steps.into_iter().filter(|step| step.action.sends());
                        sends.map(move |step| LinkLoad {
                            from,
                            to: step.peer,
                            elements: blocks[step.block].len(),
                        })
                    });
                let counted = LinkLoad::per_link(sends);
                let computed = scheme.link_elements(ranks, elements, root);
                assert_eq!(
                    computed,
                    counted,
                    "{}, {ranks} ranks, {elements} elements",
                    name(scheme)
                );
            }
        }
    }
}

#[test]
fn every_send_meets_a_receive_of_the_same_length_in_the_same_order() {
    for &scheme in ALGORITHMS {
        for ranks in 1..=64 {
            for elements in awkward_counts(ranks) {
                let (mut sent, mut received) = (BTreeMap::new(), BTreeMap::new());
                for (rank, schedule) in schedules(scheme, ranks, elements, ranks / 2).iter().enumerate() {
                    for step in &schedule.steps {
                        let length = schedule.blocks[step.block].len();
                        assert!(length > 0, "{} moves an empty block", name(scheme));
                        let (side, pair) = match step.action {
                            Action::Keep => {
                                assert_eq!(step.peer, rank);
                                continue;
                            }
                            action if action.sends() => (&mut sent, (rank, step.peer)),
                            _ => (&mut received, (step.peer, rank)),
                        };
                        assert_ne!(step.peer, rank, "{} talks to itself", name(scheme));
                        side.entry(pair)
                            .or_insert_with(Vec::new)
                            .push((length, step.block));
                    }
                }
                if scheme.collective() == Collective::AllToAll {
                    // A block changes its number on the way: only lengths are comparable.
                    let unnumbered = |side: &mut BTreeMap<(usize, usize), Vec<(usize, usize)>>| {
                        side.values_mut().flatten().for_each(|(_, block)| *block = 0);
                    };
                    unnumbered(&mut sent);
                    unnumbered(&mut received);
                }
                assert_eq!(
                    sent,
                    received,
                    "{}, {ranks} ranks, {elements} elements",
                    name(scheme)
                );
            }
        }
    }
}

#[test]
fn all_ranks_agree_on_the_blocks() {
    for &scheme in ALGORITHMS {
        for ranks in 1..=64 {
            for elements in awkward_counts(ranks) {
                let all = schedules(scheme, ranks, elements, 0);
                assert!(
                    all.iter().all(|schedule| schedule.blocks == all[0].blocks),
                    "{}",
                    name(scheme)
                );
            }
        }
    }
}

/// A ring all-reduce of two ranks, spoilt by the caller.
fn spoilt(spoil: impl Fn(usize, &mut Vec<Step>)) -> Result<(), Fault> {
    let ring = find(Collective::AllReduce, record::Algorithm::Ring).unwrap();
    let (collective, dtype, op) = (Collective::AllReduce, DType::I32, ReduceOp::Sum);
    let oracle = Oracle {
        collective,
        dtype,
        op,
        ranks: 2,
        root: 0,
        elements: 8,
        seed: 3,
    };
    let mut all = schedules(ring, 2, 8, 0);
    for (rank, schedule) in all.iter_mut().enumerate() {
        spoil(rank, &mut schedule.steps);
    }
    let placement = Placement::OutOfPlace;
    simulate_schedules(
        &all,
        false,
        &oracle,
        Conditions {
            placement,
            chunk: 4,
            strict: true,
            seed: 0,
        },
    )
}

#[test]
fn the_simulation_names_the_step_of_a_deadlock_and_a_message_nobody_takes() {
    assert_eq!(spoilt(|_, _| {}), Ok(()));
    let waits = Step {
        action: Action::RecvCopy,
        peer: 1,
        block: 0,
    };
    let lost_send = spoilt(|rank, steps| {
        if rank == 1 {
            steps.truncate(2)
        }
    });
    assert_eq!(
        lost_send,
        Err(Fault::Deadlock {
            rank: 0,
            step: 3,
            waiting: waits
        })
    );
    let lost_receive = spoilt(|rank, steps| {
        if rank == 1 {
            steps.truncate(3);
        }
    });
    assert_eq!(lost_receive, Err(Fault::Unmatched { from: 0, to: 1 }));
    let copied = spoilt(|_, steps| steps[1].action = Action::RecvCopy);
    assert!(matches!(copied, Err(Fault::Wrong { rank: 0, .. })), "{copied:?}");
}
