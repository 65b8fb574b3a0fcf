//! Patterns planned, measured on the twin and judged, as `simulate` does it.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::flow::PathTable;
use crate::placement::Placements;
use crate::remeasure::cells_to_remeasure;
use crate::twin::{Noise, Shape, SlowLink, Twin, TwinRun, clos};
use crate::{Choices, FabricKnowledge, Plan};
use judge::findings::fixture::Fixture;
use judge::findings::{judge, suspects};
use record::units::Rate;
use record::{
    FindingKind, Judgement, PathPlacement, PatternKind, Run, TrafficOutcome, TrafficRow, Verdict,
    pairs_of_words,
};
use topology::suite::{Suite, SuiteFile, TransportChoice};
use topology::{Fabric, Topology};

/// Two-tier fabrics of one rail.
fn shape(hosts: u32, hosts_per_leaf: u32, spines: u32) -> Shape {
    Shape {
        hosts,
        rails: 1,
        hosts_per_leaf,
        spines,
        rate: Rate(50e9),
    }
}

/// A fabric with a suite that is run on it.
struct Case {
    topology: Topology,
    graph: Arc<Graph>,
    suite: Suite,
    placement: PathPlacement,
    polarised: Vec<String>,
}

impl Case {
    fn new(shape: &Shape) -> Case {
        let (topology, ranks) = clos(shape);
        let graph = Graph::of(&topology, &ranks).unwrap();
        Case {
            topology,
            graph: Arc::new(graph),
            suite: Suite::load("worst-traffic").unwrap(),
            placement: PathPlacement::Steady,
            polarised: Vec::new(),
        }
    }

    fn with_suite(mut self, more: &str) -> Case {
        let text = format!("name = \"s\"\n[[test]]\nname = \"patterns\"\nkind = \"permutation\"\n{more}");
        self.suite = SuiteFile::parse(&text, "x.toml").unwrap().check().unwrap();
        self
    }

    fn twin(&self, slow: &[SlowLink], seed: u64) -> Twin<'_> {
        Twin::new(&self.graph, slow, Noise::none(), seed)
            .with_placement(self.placement)
            .with_polarised(&self.polarised)
    }

    /// What tracing would have told, and the plan that is made of it.
    fn plan(&self, twin: &Twin<'_>) -> Plan {
        let mut table = PathTable::default();
        let fabric = Fabric::of(&self.topology);
        let ranks: Vec<u32> = fabric.ranks.iter().map(|record| record.rank).collect();
        let switches = || self.topology.switches.iter().map(|switch| &switch.name);
        match self.placement {
            PathPlacement::Steady => {
                let flows = self.suite.tests[0].flows;
                for (from, to) in pairs_to_trace(&self.graph, &ranks, "rail0") {
                    for port in FIRST_PORT..FIRST_PORT + flows {
                        let path = twin.route(from, to, "rail0", port).unwrap();
                        table.insert(from, to, "rail0", port, path);
                    }
                }
            }
            PathPlacement::Sprayed => table = table.with_spraying(switches().map(String::as_str)),
            _ => {}
        }
        let choices = Choices {
            transport: Some(TransportChoice::Tcp),
            topology: Some(self.topology.clone()),
            known: FabricKnowledge {
                graph: Some(Arc::clone(&self.graph)),
                paths: Arc::new(table),
                placements: Placements::assumed(switches(), self.placement),
                ..FabricKnowledge::default()
            },
            ..Choices::default()
        };
        let mut plan = Plan::new(&self.suite, &fabric, &choices).unwrap();
        twin.tell_paths_of_streams(&mut plan.cells);
        plan
    }

    fn run(&self, slow: &[SlowLink], seed: u64) -> Judgement {
        let twin = self.twin(slow, seed);
        let plan = self.plan(&twin);
        let fabric = Fabric::of(&self.topology);
        let switches = self.topology.switches.iter().map(|switch| &switch.name);
        let run = Run {
            hosts: fabric.hosts.clone(),
            ranks: fabric.ranks.clone(),
            rule: plan.rule.clone(),
            tests: plan.tests.clone(),
            cells: plan.cells.clone(),
            untested: plan.untested.clone(),
            placement: Placements::assumed(switches, self.placement).record(),
            ..Fixture::pairs(2).run
        };
        let mut bench = TwinRun::new(twin, run, Some(self.topology.to_toml()));
        bench.measure_round(&plan.cells, 0);
        for round in 1..=plan.rule.most_rounds_again() {
            let again = {
                let recorded = bench.recorded_so_far();
                cells_to_remeasure(&suspects(recorded), &recorded.run.cells)
            };
            if again.is_empty() {
                break;
            }
            bench.measure_round(&again, round);
        }
        judge(&bench.end("2026-11-20T00:00:00Z".to_string()).0)
    }
}

/// The pairs of every pattern of a plan, by name.
fn patterns(plan: &Plan) -> Vec<Pattern> {
    let of_slot = |cells: &[Cell]| {
        let pattern = cells[0].streams.as_ref()?.pattern.clone()?;
        let pairs = cells.iter().map(|cell| (cell.ranks[0], cell.ranks[1]));
        Some(Pattern::new(pattern.name, pattern.kind, pairs))
    };
    plan.slots().filter_map(of_slot).collect()
}

fn worst(judgement: &Judgement) -> &TrafficRow {
    let rows = judgement.traffic.iter();
    rows.min_by(|a, b| a.worst_share.total_cmp(&b.worst_share))
        .unwrap()
}

#[test]
fn a_search_finds_traffic_that_shares_a_cable_and_the_run_says_which_and_fails_nothing() {
    let case = Case::new(&shape(16, 4, 4));
    let judgement = case.run(&[], 3);
    let row = worst(&judgement);
    assert_eq!(row.kind, PatternKind::Searched, "{row:?}");
    assert_eq!(row.outcome, TrafficOutcome::Collides, "{row:?}");
    // Four hosts of a leaf, four uplinks: all of them on one is what a hash may do to some permutation.
    assert!(row.sharing >= 3 && row.worst_share < 0.4, "{row:?}");
    assert!(
        row.cable.as_ref().is_some_and(|cable| cable.contains("spine")),
        "{row:?}"
    );
    assert_eq!(row.rounds, 2, "measured again: {row:?}");
    assert_eq!(pairs_of_words(&row.pairs).unwrap().len(), 16);
    assert!(
        row.repeat.contains(&format!("pattern={}", row.pattern)),
        "{}",
        row.repeat
    );
    assert_eq!(judgement.verdict, Verdict::Pass, "{}", judgement.summary);
    assert!(judgement.findings.is_empty());
    let random = judgement
        .traffic
        .iter()
        .filter(|row| row.kind == PatternKind::Random);
    assert!(
        random
            .into_iter()
            .all(|other| other.worst_share >= row.worst_share)
    );
}

#[test]
fn a_polarised_hash_is_named_by_the_cable_that_all_flows_of_a_leaf_share() {
    let mut case = Case::new(&shape(16, 4, 4));
    case.polarised = vec!["rail0-leaf1".to_string()];
    let judgement = case.run(&[], 1);
    let row = worst(&judgement);
    let cable = row.cable.clone().unwrap();
    assert!(cable.starts_with("rail0-leaf1/u"), "{row:?}");
    let across = judgement
        .traffic
        .iter()
        .find(|row| row.pattern == "leaf-shift-1")
        .unwrap();
    assert!(
        across
            .cable
            .as_ref()
            .is_some_and(|cable| cable.starts_with("rail0-leaf1/u")),
        "{across:?}"
    );
    assert_eq!(across.sharing, 4);
    assert!((across.worst_share - 0.25).abs() < 0.02, "{across:?}");
    assert_eq!(judgement.exit_code, 0, "{}", judgement.summary);
}

#[test]
fn a_floor_that_the_suite_states_fails_what_stays_below_it_in_two_rounds() {
    let mut case = Case::new(&shape(16, 4, 4)).with_suite("[test.expect]\nat_least = \"50%\"");
    case.polarised = vec!["rail0-leaf1".to_string()];
    let judgement = case.run(&[], 1);
    let [finding] = judgement.findings.as_slice() else {
        panic!("{:?}", judgement.findings)
    };
    assert_eq!(finding.kind, FindingKind::TrafficBelowFloor);
    assert!(
        finding.next_step.contains("adaptive routing"),
        "{}",
        finding.next_step
    );
    assert!(
        finding
            .place
            .link
            .as_ref()
            .is_some_and(|link| link.starts_with("rail0-leaf1/u"))
    );
    assert_eq!(judgement.exit_code, 12);
    let healthy =
        Case::new(&shape(8, 4, 4)).with_suite("random = 1\nworst = 0\n[test.expect]\nat_least = \"20%\"");
    assert_eq!(healthy.run(&[], 1).exit_code, 0);
}

#[test]
fn where_every_packet_is_sprayed_over_a_non_blocking_fabric_nothing_collapses() {
    let mut case = Case::new(&shape(16, 4, 4));
    case.placement = PathPlacement::Sprayed;
    let judgement = case.run(&[], 1);
    assert_eq!(judgement.exit_code, 0, "{}", judgement.summary);
    for row in &judgement.traffic {
        assert_eq!(row.outcome, TrafficOutcome::Carried, "{row:?}");
    }
}

#[test]
fn an_oversubscribed_leaf_is_reported_as_by_design_with_its_ratio() {
    // Four hosts, two uplinks; sprayed, so that no hash adds to it.
    let mut case = Case::new(&shape(16, 4, 2)).with_suite("[test.expect]\nat_least = \"70%\"");
    case.placement = PathPlacement::Sprayed;
    let judgement = case.run(&[], 1);
    let across = judgement
        .traffic
        .iter()
        .find(|row| row.pattern == "leaf-shift-1")
        .unwrap();
    assert_eq!(across.outcome, TrafficOutcome::ByDesign, "{across:?}");
    assert!((across.by_design - 0.5).abs() < 0.03, "{across:?}");
    assert!(across.sentence.contains("by design"), "{}", across.sentence);
    assert_eq!(
        judgement.exit_code, 0,
        "a floor is of what the topology carries: {}",
        judgement.summary
    );
}

#[test]
fn a_cable_that_carries_less_than_the_paths_explain_is_suspected_and_fails_nothing() {
    let case = Case::new(&shape(16, 4, 4));
    let slow = case.graph.named("rail0-leaf2/p1->h9/rail0").unwrap();
    let judgement = case.run(&[SlowLink::always(slow, 0.4)], 1);
    assert_eq!(judgement.exit_code, 20, "{}", judgement.summary);
    let finding = &judgement.findings[0];
    assert_eq!(finding.kind, FindingKind::TrafficBelowPrediction);
    let links: Vec<&str> = judgement
        .findings
        .iter()
        .filter_map(|finding| finding.place.link.as_deref())
        .collect();
    let touches = |link: &&str| link.contains("h9/rail0");
    assert!(links.iter().any(touches), "{links:?}");
}

#[test]
fn connections_placed_by_lot_are_held_against_what_lots_give() {
    let mut case = Case::new(&shape(16, 4, 4));
    case.placement = PathPlacement::PerConnection;
    let judgement = case.run(&[], 2);
    assert_eq!(judgement.exit_code, 0, "{}", judgement.summary);
    let across = judgement
        .traffic
        .iter()
        .find(|row| row.pattern == "leaf-shift-1")
        .unwrap();
    assert_eq!(
        (across.outcome, across.cable.as_ref()),
        (TrafficOutcome::Collides, None),
        "{across:?}"
    );
    assert!(across.sentence.contains("drawn by lot"), "{}", across.sentence);
}

#[test]
fn a_pattern_that_a_suite_lists_is_measured_alone_and_unknown_ranks_are_refused() {
    let case = Case::new(&shape(16, 4, 4)).with_suite("pairs = \"0>4 1>5\"\n");
    let twin = case.twin(&[], 1);
    let plan = case.plan(&twin);
    assert_eq!(
        patterns(&plan),
        [Pattern::new("listed", PatternKind::Listed, [(0, 4), (1, 5)])]
    );
    let case = Case::new(&shape(16, 4, 4)).with_suite("pairs = \"0>40\"\n");
    let fabric = Fabric::of(&case.topology);
    let choices = Choices {
        transport: Some(TransportChoice::Tcp),
        known: FabricKnowledge {
            graph: Some(Arc::clone(&case.graph)),
            ..FabricKnowledge::default()
        },
        ..Choices::default()
    };
    let refused = Plan::new(&case.suite, &fabric, &choices).unwrap_err();
    assert!(refused.to_string().contains("40"), "{refused}");
}

#[test]
fn a_filter_repeats_one_pattern_of_the_same_plan() {
    let case = Case::new(&shape(16, 4, 4));
    let twin = case.twin(&[], 1);
    let whole = case.plan(&twin);
    let again = case.plan(&twin);
    assert_eq!(whole, again, "the same seed and paths give the same patterns");
    let filter: crate::Filter = "pattern=worst-1".parse().unwrap();
    let fabric = Fabric::of(&case.topology);
    let kept: Vec<&Cell> = whole
        .cells
        .iter()
        .filter(|cell| filter.matches(cell, &fabric))
        .collect();
    let slots: BTreeSet<u32> = kept.iter().map(|cell| cell.slot).collect();
    assert_eq!((kept.len(), slots.len()), (16, 1));
}

#[test]
fn without_a_topology_nothing_is_planned_and_it_is_said_why() {
    let case = Case::new(&shape(16, 4, 4));
    let choices = Choices {
        transport: Some(TransportChoice::Tcp),
        ..Choices::default()
    };
    let plan = Plan::new(&case.suite, &Fabric::of(&case.topology), &choices).unwrap();
    assert!(plan.cells.is_empty());
    assert!(plan.untested.iter().any(|gap| gap.why.contains("--topology")));
}

#[test]
fn of_many_hosts_only_pairs_that_leaf_shifts_bring_together_are_traced() {
    let case = Case::new(&shape(64, 8, 8));
    let ranks: Vec<u32> = (0..64).collect();
    let traced = pairs_to_trace(&case.graph, &ranks, "rail0");
    assert_eq!(traced.len(), 64 * 8 * 2, "two shifts, every host to eight each");
    let plan = case.plan(&case.twin(&[], 1));
    let found = patterns(&plan);
    let searched: Vec<&Pattern> = found
        .iter()
        .filter(|pattern| pattern.kind == PatternKind::Searched)
        .collect();
    assert!(!searched.is_empty());
    let known: BTreeSet<(u32, u32)> = traced.into_iter().collect();
    for pattern in searched {
        assert!(
            pattern.pairs.iter().all(|pair| known.contains(pair)),
            "{pattern:?}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10))]
    #[test]
    fn what_is_searched_for_is_a_permutation_and_never_better_than_what_it_began_with(
        leaves in 2u32..5, per_leaf in 2u32..6, spines in 1u32..5, seed in 0u64..1000,
    ) {
        let case = Case::new(&shape(leaves * per_leaf, per_leaf, spines));
        let twin = case.twin(&[], seed);
        let plan = case.plan(&twin);
        let mut table = PathTable::default();
        let ranks: Vec<u32> = (0..leaves * per_leaf).collect();
        for (from, to) in pairs_to_trace(&case.graph, &ranks, "rail0") {
            table.insert(from, to, "rail0", FIRST_PORT, twin.route(from, to, "rail0", FIRST_PORT).unwrap());
        }
        let mut paths = Paths::new(&case.graph, &table, "rail0", FIRST_PORT..FIRST_PORT + 1);
        let found = patterns(&plan);
        let slowdown = |paths: &mut Paths<'_>, pattern: &Pattern| paths.slowdown(&pattern.pairs);
        let mut others = 1.0f64;
        for pattern in found.iter().filter(|pattern| pattern.kind != PatternKind::Searched && pattern.is_permutation()) {
            others = others.max(slowdown(&mut paths, pattern));
        }
        for pattern in found.iter().filter(|pattern| pattern.name == "worst-1") {
            prop_assert!(pattern.is_permutation(), "{:?}", pattern);
            prop_assert!(slowdown(&mut paths, pattern) >= others - 1e-9);
        }
    }

    #[test]
    fn the_topology_never_carries_less_of_a_pattern_than_a_hash_in_total(
        leaves in 2u32..5, per_leaf in 2u32..6, seed in 0u64..1000,
    ) {
        // Non-blocking: as many spines as hosts of a leaf.
        let case = Case::new(&shape(leaves * per_leaf, per_leaf, per_leaf)).with_suite("random = 1\nworst = 1\n");
        let judgement = case.run(&[], seed);
        for row in &judgement.traffic {
            prop_assert!(row.predicted.unwrap().0 <= row.ideal.0 * (1.0 + 1e-9), "{:?}", row);
            prop_assert!(row.worst_share <= 1.001, "{:?}", row);
        }
    }
}
