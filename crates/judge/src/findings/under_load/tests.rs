//! What is said of counters under load.

use crate::findings::fixture::Fixture;
use crate::findings::{drift, judge};
use record::units::Nanos;
use record::{
    Cell, Collective, CounterDelta, CounterState, Event, FindingKind, Judgement, Load, Recorded,
    TransportKind, UnderLoadAnswer, UnderLoadQuestion,
};

/// What an end of `rail0` counted: packets that arrived, marked ones, microseconds paused and pausing others, packets out of sequence, symbol errors.
#[derive(Clone, Copy)]
struct Counted {
    arrived: u64,
    marked: u64,
    paused: u64,
    pauses: u64,
    lost: u64,
    wrong: u64,
}

const HEALTHY: Counted = Counted {
    arrived: 100_000,
    marked: 1_000,
    paused: 300,
    pauses: 0,
    lost: 0,
    wrong: 0,
};
/// A millisecond of a tenth of a second is one percent.
const WATCHED: Nanos = Nanos(100_000_000);

/// Six ranks, every one of them the receiver of an incast once, beside a victim; what each cell's ends count is asked of `counted`.
fn run(counted: impl Fn(&Cell, u32) -> Counted) -> Recorded {
    let mut fixture = Fixture::incast();
    let template = fixture.run.cells.clone();
    fixture.run.cells.clear();
    for shift in 0..6u32 {
        for cell in &template {
            let turned = |rank: &u32| (rank + shift) % 6;
            fixture.run.cells.push(Cell {
                id: fixture.run.cells.len() as u32,
                slot: cell.slot + 5 * shift,
                ranks: cell.ranks.iter().map(turned).collect(),
                transport: TransportKind::Verbs,
                ..cell.clone()
            });
        }
    }
    let mut recorded = fixture.references(Vec::new()).recorded();
    let end = recorded.events.pop().unwrap();
    for cell in recorded.run.cells.clone() {
        for rank in &cell.ranks {
            let seen = counted(&cell, *rank);
            for (name, by) in [
                ("rx_packets_phy", seen.arrived),
                ("np_ecn_marked_roce_packets", seen.marked),
                ("rx_prio3_pause_duration", seen.paused),
                ("tx_prio3_pause_duration", seen.pauses),
                ("out_of_sequence", seen.lost),
                ("symbol_error", seen.wrong),
            ] {
                recorded.events.push(Event::Counter(CounterDelta {
                    cell: cell.id,
                    round: 0,
                    rank: *rank,
                    rail: "rail0".to_string(),
                    name: name.to_string(),
                    before: Some(0),
                    after: Some(by),
                    ns: Some(WATCHED),
                    bits: None,
                    state: CounterState::Present,
                }));
            }
        }
    }
    recorded.events.push(end);
    recorded
}

/// The same, measured in so many more rounds.
fn again(mut recorded: Recorded, rounds: u16) -> Recorded {
    let (samples, events) = (recorded.samples.clone(), recorded.events.clone());
    let end = recorded.events.pop().unwrap();
    for round in 1..=rounds {
        recorded.samples.extend(
            samples
                .iter()
                .cloned()
                .map(|sample| record::Sample { round, ..sample }),
        );
        recorded
            .events
            .extend(events.iter().cloned().filter_map(|event| match event {
                Event::Counter(delta) => Some(Event::Counter(CounterDelta { round, ..delta })),
                Event::CellDone(done) => Some(Event::CellDone(record::CellDone { round, ..done })),
                _ => None,
            }));
    }
    recorded.events.push(end);
    recorded
}

fn is_root(cell: &Cell, rank: u32) -> bool {
    cell.collective == Collective::Incast && cell.ranks[0] == rank
}

fn answer(judgement: &Judgement, question: UnderLoadQuestion) -> UnderLoadAnswer {
    let row = judgement.under_load.iter().find(|row| row.question == question);
    row.unwrap().answer
}

fn kinds(judgement: &Judgement) -> Vec<(FindingKind, Vec<String>)> {
    let findings = judgement.findings.iter();
    findings
        .map(|finding| (finding.kind, finding.place.hosts.clone()))
        .collect()
}

#[test]
fn a_healthy_rail_is_fine_and_another_one_was_not_loaded() {
    let judgement = judge(&run(|_, _| HEALTHY));
    assert_eq!(kinds(&judgement), []);
    for (question, wanted) in [
        (UnderLoadQuestion::Lossless, UnderLoadAnswer::Fine),
        (UnderLoadQuestion::MarksFirst, UnderLoadAnswer::NotSeen),
        (UnderLoadQuestion::Pauses, UnderLoadAnswer::Fine),
        (UnderLoadQuestion::RailsApart, UnderLoadAnswer::NotSeen),
    ] {
        assert_eq!(answer(&judgement, question), wanted, "{question}");
    }
    assert_eq!(judgement.exit_code, 0, "{}", judgement.summary);
}

#[test]
fn losses_at_one_receiver_under_load_are_named_where_pauses_should_prevent_them() {
    let lossy = |cell: &Cell, rank: u32| Counted {
        lost: if is_root(cell, rank) && rank == 2 { 40 } else { 0 },
        ..HEALTHY
    };
    let once = run(lossy);
    // Three slots are too few: they are measured again.
    let judgement = judge(&once);
    assert_eq!(
        (kinds(&judgement), judgement.exit_code),
        (Vec::new(), 20),
        "{}",
        judgement.summary
    );
    let suspects = crate::findings::suspects(&once);
    let roots: Vec<u32> = once
        .run
        .cells
        .iter()
        .filter(|cell| is_root(cell, 2))
        .map(|cell| cell.id)
        .collect();
    assert!(roots.iter().all(|cell| suspects.contains(cell)), "{suspects:?}");
    let judgement = judge(&again(once, 3));
    let [(kind, hosts)] = kinds(&judgement).try_into().unwrap();
    assert_eq!(
        (kind, hosts),
        (FindingKind::LossyClass, vec!["node02".to_string()])
    );
    assert!(
        judgement.exit_code == 12 && judgement.findings[0].sentence.contains("lost in 12 of 12 slots"),
        "{}",
        judgement.summary
    );
    // Nothing says that they should be prevented.
    let unpaused = |cell: &Cell, rank: u32| Counted {
        paused: 0,
        ..lossy(cell, rank)
    };
    let judgement = judge(&run(unpaused));
    assert_eq!(kinds(&judgement), []);
    assert_eq!(
        answer(&judgement, UnderLoadQuestion::Lossless),
        UnderLoadAnswer::NotSeen
    );
}

#[test]
fn a_cable_that_loses_packets_is_no_class_that_is_not_lossless() {
    // Rank 2's cable loses as many of all packets, whoever sends them.
    let cable = |_: &Cell, rank: u32| Counted {
        lost: if rank == 2 { 40 } else { 0 },
        ..HEALTHY
    };
    let judgement = judge(&run(cable));
    assert!(
        !kinds(&judgement)
            .iter()
            .any(|(kind, _)| *kind == FindingKind::LossyClass)
    );
    assert_eq!(
        answer(&judgement, UnderLoadQuestion::Lossless),
        UnderLoadAnswer::Open
    );
    assert_eq!(judgement.exit_code, 20, "{}", judgement.summary);
    // Wrong bits explain what is lost.
    let dirty = |cell: &Cell, rank: u32| Counted {
        lost: if is_root(cell, rank) && rank == 2 { 40 } else { 0 },
        wrong: if is_root(cell, rank) && rank == 2 { 1 } else { 0 },
        ..HEALTHY
    };
    let judgement = judge(&run(dirty));
    assert_eq!(
        answer(&judgement, UnderLoadQuestion::Lossless),
        UnderLoadAnswer::Fine
    );
}

#[test]
fn pauses_without_marks_are_a_rails_fault_and_with_marks_none() {
    let paused = |marked: u64| {
        move |cell: &Cell, rank: u32| Counted {
            paused: if is_root(cell, rank) { 0 } else { 20_000 },
            marked,
            ..HEALTHY
        }
    };
    let judgement = judge(&run(paused(0)));
    assert_eq!(kinds(&judgement), [(FindingKind::LateMarks, Vec::new())]);
    assert_eq!(judgement.findings[0].part(), "rail0");
    let judgement = judge(&run(paused(500)));
    assert_eq!(kinds(&judgement), []);
    assert_eq!(
        answer(&judgement, UnderLoadQuestion::MarksFirst),
        UnderLoadAnswer::Fine
    );
}

/// An inventory in which the ends of rail0 have these settings, one after another.
fn with_ends(mut recorded: Recorded, facts: &[&[(&str, &str)]]) -> Recorded {
    let hosts: Vec<String> = recorded
        .run
        .ranks
        .iter()
        .map(|record| record.host.clone())
        .collect();
    for rank in &mut recorded.run.ranks {
        rank.rails = vec![record::RailEnd {
            rail: "rail0".to_string(),
            address: String::new(),
            interface: Some("eth0".to_string()),
            speed_mbit: None,
            rdma: None,
        }];
    }
    let nodes = hosts.iter().enumerate().map(|(number, host)| {
        let facts = facts[number % facts.len()];
        drift::fixture::node(
            host,
            vec![drift::fixture::part(record::PartClass::Interface, "eth0", facts)],
        )
    });
    recorded.inventory = Some(drift::fixture::inventory(nodes.collect()));
    recorded
}

#[test]
fn a_fabric_that_does_without_marks_is_not_told_every_night_that_it_has_none() {
    let unmarked = |cell: &Cell, rank: u32| Counted {
        paused: if is_root(cell, rank) { 0 } else { 20_000 },
        marked: 0,
        ..HEALTHY
    };
    let judged = |recorded: &Recorded| {
        let judgement = judge(recorded);
        let late = judgement
            .findings
            .iter()
            .any(|finding| finding.kind == FindingKind::LateMarks);
        (late, answer(&judgement, UnderLoadQuestion::MarksFirst))
    };
    let off: &[(&str, &str)] = &[("ecn-np", "off"), ("ecn-rp", "off")];
    let on: &[(&str, &str)] = &[("ecn-np", "3"), ("ecn-rp", "3")];
    let (told, not_asked) = ((true, UnderLoadAnswer::Fault), (false, UnderLoadAnswer::NotSeen));
    assert_eq!(judged(&with_ends(run(unmarked), &[off])), not_asked);
    assert_eq!(judged(&with_ends(run(unmarked), &[on])), told);
    assert_eq!(
        judged(&with_ends(run(unmarked), &[off, on])),
        told,
        "off at some is a fault, not a plan"
    );
    assert_eq!(
        judged(&with_ends(run(unmarked), &[off, &[]])),
        told,
        "of half of them it is not known"
    );
    // What switches do goes before what NICs do.
    let mut marking = with_ends(run(unmarked), &[off]);
    let leaf = drift::fixture::part(record::PartClass::Switch, "leaf0", &[("ecn", "3")]);
    let inventory = marking.inventory.as_mut().unwrap();
    inventory.switches = vec![drift::fixture::node("leaf0", vec![leaf])];
    assert_eq!(judged(&marking), told);
    // The suite goes before the inventory.
    let mut suite = run(unmarked);
    suite.run.rule.marks = record::MarksRule::None;
    assert_eq!(judged(&suite), not_asked);
    let mut expected = with_ends(run(unmarked), &[off]);
    expected.run.rule.marks = record::MarksRule::Expect;
    assert_eq!(judged(&expected), told);
}

#[test]
fn one_nic_that_pauses_does_not_make_a_fabric_lossless_and_pfc_in_the_inventory_does() {
    // A sixth host is paused now and then, and the queue of rank 2 overflows: in a lossy fabric that is no fault.
    let lossy = |paused_at: Option<u32>| {
        move |cell: &Cell, rank: u32| Counted {
            lost: if is_root(cell, rank) && rank == 2 { 40 } else { 0 },
            paused: if Some(rank) == paused_at { 300 } else { 0 },
            ..HEALTHY
        }
    };
    let lossless = |recorded: Recorded| {
        let judgement = judge(&again(recorded, 3));
        answer(&judgement, UnderLoadQuestion::Lossless)
    };
    assert_eq!(lossless(run(lossy(Some(5)))), UnderLoadAnswer::NotSeen);
    let on: &[(&str, &str)] = &[("pfc", "3")];
    let off: &[(&str, &str)] = &[("pfc", "off"), ("pause", "off")];
    assert_eq!(
        lossless(with_ends(run(lossy(None)), &[on])),
        UnderLoadAnswer::Fault
    );
    assert_eq!(
        lossless(with_ends(run(lossy(Some(5))), &[off])),
        UnderLoadAnswer::NotSeen
    );
    // Hosts that are set up as lossy ones, in a fabric whose ends pause each other: counters are believed, the inventory is not unanimous.
    let paused = |cell: &Cell, rank: u32| Counted {
        paused: 300,
        ..lossy(None)(cell, rank)
    };
    assert_eq!(
        lossless(with_ends(run(paused), &[on, off, off])),
        UnderLoadAnswer::Fault
    );
}

#[test]
fn a_class_that_is_not_lossless_at_one_host_is_told_with_the_setting_that_differs_there() {
    let lossy = |cell: &Cell, rank: u32| Counted {
        lost: if is_root(cell, rank) && rank == 2 { 40 } else { 0 },
        ..HEALTHY
    };
    let on: &[(&str, &str)] = &[("pfc", "3"), ("trust", "dscp")];
    let other: &[(&str, &str)] = &[("pfc", "3"), ("trust", "pcp")];
    let recorded = with_ends(again(run(lossy), 3), &[on, on, other, on, on, on]);
    let judgement = judge(&recorded);
    let mut findings = judgement.findings.iter();
    let finding = findings
        .find(|finding| finding.kind == FindingKind::LossyClass)
        .unwrap();
    let said = "trust of node02/rail0 is pcp, and dscp at all 5 others (by chance in 1 of 6 cases)";
    assert!(
        finding.evidence.iter().any(|line| line == said),
        "{:?}",
        finding.evidence
    );
    let plain = judge(&again(run(lossy), 3));
    let said = "congestion settings were not read: the run has no inventory";
    assert!(plain.findings[0].evidence.iter().any(|line| line == said));
}

#[test]
fn over_tcp_nics_say_nothing_of_losses_and_marks() {
    let paused = |cell: &Cell, rank: u32| Counted {
        paused: if is_root(cell, rank) { 0 } else { 20_000 },
        marked: 0,
        ..HEALTHY
    };
    let mut recorded = run(paused);
    for cell in &mut recorded.run.cells {
        cell.transport = TransportKind::Tcp;
    }
    let judgement = judge(&recorded);
    assert_eq!(kinds(&judgement), []);
    for question in [UnderLoadQuestion::Lossless, UnderLoadQuestion::MarksFirst] {
        assert_eq!(
            answer(&judgement, question),
            UnderLoadAnswer::NotSeen,
            "{question}"
        );
    }
}

#[test]
fn a_receiver_that_pauses_others_is_named_with_its_victim() {
    let slow = |cell: &Cell, rank: u32| Counted {
        pauses: if rank == 2 && cell.collective != Collective::RoundTrip {
            40_000
        } else {
            0
        },
        ..HEALTHY
    };
    let mut recorded = run(slow);
    // Whoever sends beside an incast to rank 2 waits.
    let slots: Vec<u32> = recorded
        .run
        .cells
        .iter()
        .filter(|cell| is_root(cell, 2) && cell.load == Load::Together)
        .map(|cell| cell.slot)
        .collect();
    let victims: Vec<u32> = recorded
        .run
        .cells
        .iter()
        .filter(|cell| slots.contains(&cell.slot) && cell.collective == Collective::PointToPoint)
        .map(|cell| cell.id)
        .collect();
    for sample in &mut recorded.samples {
        if victims.contains(&sample.cell) {
            sample.ns *= 3;
        }
    }
    let judgement = judge(&recorded);
    let [(kind, hosts)] = kinds(&judgement).try_into().unwrap();
    assert_eq!(
        (kind, hosts),
        (FindingKind::SpreadingPauses, vec!["node02".to_string()])
    );
    let sentence = &judgement.findings[0].sentence;
    assert!(
        sentence.contains("for 40 % of the time")
            && sentence.contains("victims: flow")
            && sentence.contains("took 3.0 times as long"),
        "{sentence}"
    );
}

#[test]
fn flows_that_wait_for_a_load_on_another_rail_are_a_fault_of_both() {
    let recorded = run(|_, _| HEALTHY);
    let mut more = Vec::new();
    // The same flows on rail1: alone, and while rail0 is loaded.
    for cell in recorded.run.cells.clone() {
        if cell.collective == Collective::PointToPoint {
            let load = match cell.load {
                Load::Together => Load::AcrossRails,
                other => other,
            };
            more.push((
                cell.id,
                Cell {
                    id: (recorded.run.cells.len() + more.len()) as u32,
                    rails: vec!["rail1".to_string()],
                    load,
                    ..cell
                },
            ));
        }
    }
    let judged = |factor: u64| {
        let mut recorded = recorded.clone();
        for (of, cell) in &more {
            let like = recorded.samples.iter().filter(|sample| sample.cell == *of);
            let like: Vec<_> = like
                .map(|sample| record::Sample {
                    cell: cell.id,
                    ns: match cell.load {
                        Load::AcrossRails => sample.ns * factor / 10,
                        _ => sample.ns,
                    },
                    ..*sample
                })
                .collect();
            recorded.samples.extend(like);
            let done = recorded.events.iter().find_map(|event| match event {
                Event::CellDone(done) if done.cell == *of => Some(done.clone()),
                _ => None,
            });
            let place = recorded.events.len() - 1;
            let done = record::CellDone {
                cell: cell.id,
                ..done.unwrap()
            };
            recorded.events.insert(place, Event::CellDone(done));
            recorded.run.cells.push(cell.clone());
        }
        judge(&recorded)
    };
    let row = |judgement: &Judgement| {
        let mut rows = judgement.under_load.iter();
        let row = rows.find(|row| row.rail == "rail1" && row.question == UnderLoadQuestion::RailsApart);
        row.unwrap().clone()
    };
    assert_eq!(row(&judged(10)).answer, UnderLoadAnswer::Fine);
    let slow = judged(20);
    // Six flows are too few to be sure; they are measured again.
    assert_eq!(row(&slow).answer, UnderLoadAnswer::Open, "{:?}", row(&slow));
    assert!(row(&slow).seen.contains("2.0 times as long"), "{:?}", row(&slow));
}
