//! What a pattern is told to get, and what is made of records that say little.

use proptest::prelude::*;

use super::model::{Capacity, Flow, ideal, predicted};
use super::*;
use crate::findings::ecmp::fixture::{Fault, Streams};
use crate::findings::judge;
use record::{PatternKind, TrafficPattern};

/// Streams of a lab, of which every slot is a pattern.
fn recorded(at_least: Option<u8>) -> Recorded {
    let mut recorded = Streams::lab(1, Fault::None).recorded();
    for cell in &mut recorded.run.cells {
        let slot = cell.slot;
        if let Some(terms) = &mut cell.streams {
            terms.pattern = Some(TrafficPattern {
                name: format!("random-{slot}"),
                kind: PatternKind::Random,
                at_least,
            });
        }
    }
    recorded.run.tests[0].kind = record::TestKind::Permutation;
    recorded
}

fn graph(recorded: &Recorded) -> Graph {
    let topology = Topology::parse("t", recorded.topology.as_ref().unwrap()).unwrap();
    Graph::of(&topology, &recorded.run.ranks).unwrap()
}

#[test]
fn streams_of_patterns_are_not_judged_as_a_spread_over_equal_paths() {
    let judgement = judge(&recorded(None));
    assert!(judgement.ecmp.is_empty());
    let slots: BTreeSet<u32> = judgement.cells.iter().map(|cell| cell.cell.slot).collect();
    assert_eq!(judgement.traffic.len(), slots.len());
}

#[test]
fn one_round_below_a_floor_is_unclear_and_is_measured_again() {
    let recorded = recorded(Some(99));
    let traffic = Traffic::of(&recorded);
    let below: Vec<&TrafficRow> = traffic.rows.iter().filter(|row| row.worst_share < 0.99).collect();
    assert!(!below.is_empty());
    for row in below {
        assert_eq!(row.outcome, TrafficOutcome::Unclear, "{row:?}");
        assert!(row.cells.iter().all(|cell| traffic.suspected.contains(cell)));
    }
    assert!(judge(&recorded).findings.is_empty());
}

#[test]
fn a_pattern_of_which_a_flow_was_not_recorded_is_unclear() {
    let mut recorded = recorded(None);
    let first = recorded.run.cells[0].id;
    for event in &mut recorded.events {
        if let Event::CellDone(done) = event
            && done.cell == first
        {
            done.streams.clear();
        }
    }
    let traffic = Traffic::of(&recorded);
    let row = traffic
        .rows
        .iter()
        .find(|row| row.cells.contains(&first))
        .unwrap();
    assert_eq!((row.outcome, row.rounds), (TrafficOutcome::Unclear, 0));
    assert!(row.sentence.contains("not all of its flows"), "{}", row.sentence);
}

#[test]
fn without_a_topology_nothing_passes() {
    let mut recorded = recorded(None);
    recorded.topology = None;
    assert!(Traffic::of(&recorded).rows.is_empty());
    let judgement = judge(&recorded);
    assert_eq!(judgement.exit_code, 20, "{}", judgement.summary);
}

proptest! {
    #[test]
    fn flows_that_fill_links_fill_them_and_no_path_gives_more_than_a_hosts_cable(
        pairs in proptest::collection::vec((0u32..8, 0u32..8, 0usize..4), 1..24),
    ) {
        let recorded = Streams::four_spines(1, Fault::None).recorded();
        let graph = graph(&recorded);
        let hosts = recorded.run.ranks.len() as u32;
        let flows: Vec<Flow> = pairs
            .into_iter()
            .map(|(from, to, path)| (from % hosts, to % hosts, path))
            .filter(|(from, to, _)| from != to)
            .map(|(from, to, path)| {
                let paths = graph.paths(from, to, "rail0");
                Flow {
                    ranks: (from, to),
                    ends: [graph.up(from, "rail0"), graph.down(to, "rail0")],
                    path: paths.get(path % paths.len().max(1)).cloned(),
                    is_sprayed: false,
                    split: graph.crossing_probabilities(from, to, "rail0"),
                    delivered: Vec::new(),
                }
            })
            .collect();
        prop_assume!(!flows.is_empty());
        let (capacity, is_known) = Capacity::nominal(&graph, "rail0");
        prop_assert!(is_known);
        let prediction = predicted(&flows, &capacity, &graph, "rail0");
        prop_assert!(!prediction.is_drawn());
        for group in &prediction.groups {
            let link = group.link.unwrap();
            let filled = group.sum(&prediction.rates) / capacity.of_links[link.index()];
            prop_assert!((filled - 1.0).abs() < 1e-6);
        }
        for (flow, rates) in flows.iter().zip(prediction.rates.iter().zip(ideal(&flows, &capacity))) {
            prop_assert!(*rates.0 <= capacity.line(flow) * (1.0 + 1e-9));
            prop_assert!(rates.1 <= capacity.line(flow) * (1.0 + 1e-9));
        }
    }
}
