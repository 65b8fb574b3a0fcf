//! What a reader would lose of single sections of the page.

use super::tests::{assert_says, page, with_slow_rail};
use judge::findings::fixture::Fixture;
use judge::findings::judge;
use record::units::Rate;
use record::{
    ClockLimit, CounterDelta, CounterState, Coverage, EcmpCause, EcmpVerdict, Event, Extremes, Fact,
    GpuSummary, Inventory, InventoryPart, LinkCoverage, LinkState, MemberLoad, NodeInventory, PairSpread,
    PartClass, ThrottleTotal,
};

#[test]
fn tests_cells_comparisons_and_method_hold_every_figure() {
    let mut recorded = with_slow_rail();
    recorded.run.seed = 424_242;
    recorded.events.push(Event::Intruder {
        what: "a scanner".to_string(),
    });
    let judgement = judge(&recorded);
    let page = page(&recorded, &judgement);
    assert_says(&page, "tests", &["rails", "fail", "cells failed"]);
    assert_says(&page, "comparisons", &["together / alone", "rail2", "16 MiB"]);
    for cell in &judgement.cells {
        let (time, rate) = (cell.time.unwrap(), cell.wire_rate.unwrap());
        let facts = [
            cell.cell.describe(),
            format!("{} [{}, {}]", time.median, time.lower, time.upper),
            rate.to_string(),
        ];
        assert_says(&page, "cells", &facts.each_ref().map(String::as_str));
    }
    let method = [
        "424242",
        "railgauge run smoke",
        "local threads",
        "peers, less 25 %",
        "0.01",
        "node03",
        "0-3",
        "a scanner",
        "not used",
    ];
    assert_says(&page, "method", &method);
}

#[test]
fn firmware_that_drifts_is_marked_in_words_and_everything_else_is_counted() {
    let mut recorded = Fixture::rails(2).recorded();
    let node = |number: u32| NodeInventory {
        node: format!("node{number:02}"),
        parts: vec![
            InventoryPart::new(PartClass::Nic, "mlx5_0")
                .with("board", Fact::Value("MT_1".to_string()))
                .with(
                    "firmware",
                    Fact::Value(if number == 3 { "28.39.1002" } else { "28.43.2026" }.to_string()),
                )
                .with(
                    "driver",
                    Fact::Unreadable {
                        why: "denied".to_string(),
                        needs: Some("root".to_string()),
                    },
                ),
        ],
    };
    recorded.inventory = Some(Inventory {
        nodes: (0..8).map(node).collect(),
        ..Inventory::default()
    });
    let judgement = judge(&recorded);
    let page = page(&recorded, &judgement);
    let facts = [
        "28.39.1002 (drift: should be 28.43.2026)",
        "node03/mlx5_0",
        "denied",
        "root",
    ];
    assert_says(&page, "nodes", &facts);
    assert!(
        page.contains("<td class=\"bad\">28.39.1002 (drift"),
        "and in colour"
    );
    assert_says(&page, "worst", &["drift", "node03"]);
}

#[test]
fn counters_gpus_and_links_that_are_in_trouble_are_named() {
    let mut recorded = Fixture::rails(2).recorded();
    for (name, moved, state) in [
        ("local_link_integrity_errors", Some(7), CounterState::Present),
        (
            "symbol_error",
            None,
            CounterState::Unreadable("permission denied".to_string()),
        ),
    ] {
        recorded.events.push(Event::Counter(CounterDelta {
            rank: 1,
            rail: "rail0".to_string(),
            name: name.to_string(),
            before: moved.map(|_| 0),
            after: moved,
            state,
            ..CounterDelta::default()
        }));
    }
    let mut judgement = judge(&recorded);
    judgement.gpus = vec![GpuSummary {
        uuid: "GPU-7".to_string(),
        hosts: vec!["node01".to_string()],
        sm_mhz: Some(Extremes {
            least: 990,
            most: 1980,
        }),
        limited_by: [(ClockLimit::HardwareThermal, ThrottleTotal::default())].into(),
        ..GpuSummary::default()
    }];
    let link = |link: &str, state| LinkCoverage {
        link: link.to_string(),
        cable: String::new(),
        rail: None,
        rate: Rate(1e9),
        flows: 4,
        most: Some(Rate(0.5e9)),
        share: Some(0.5),
        state,
        smallest_loss: None,
        why: None,
    };
    judgement.coverage = Coverage {
        links: vec![
            link("a->b", LinkState::Healthy),
            link("b->a", LinkState::Slow),
            link("b->c", LinkState::Untested),
        ],
        ..judgement.coverage
    };
    let page = page(&recorded, &judgement);
    let counters = [
        "node01",
        "local_link_integrity_errors",
        "(bad)",
        "symbol_error",
        "permission denied",
    ];
    assert_says(&page, "counters", &counters);
    assert_says(&page, "gpus", &["GPU-7", "990-1980", "hardware thermal slowdown"]);
    let links = [
        "b-&gt;a",
        "slow",
        "untested",
        "50 %",
        "1 of 3 directed links carried",
    ];
    assert_says(&page, "links", &links);
}

/// The spread at a leaf over two paths.
fn leaf(number: u32, cause: EcmpCause) -> EcmpVerdict {
    let member = |(index, flows): (usize, u32)| MemberLoad {
        link: format!("leaf{number}/u{index}->spine{index}/d{number}"),
        flows,
        delivering: flows,
        rate: Some(Rate(25e6)),
        expected: Some(Rate(26e6)),
        counted: None,
        share: f64::from(flows) / 128.0,
        band: (0.4, 0.6),
    };
    EcmpVerdict {
        test: "spread".to_string(),
        rail: "rail0".to_string(),
        switch: Some(format!("leaf{number}")),
        tier: 1,
        cause,
        part: None,
        sentence: format!("leaf{number} sends 120 of 128 flows the same way"),
        flows: 128,
        paths: 2,
        paths_used: 2,
        statistic: "chi-square".to_string(),
        value: 98.0,
        null_median: 0.5,
        p_value: 1e-6,
        lost: Some(0.44),
        max_over_mean: 1.88,
        counted_p_value: None,
        members: [120, 8].into_iter().enumerate().map(member).collect(),
        pairs: vec![PairSpread {
            from: format!("h{number}"),
            to: "h9".to_string(),
            flows: vec![120, 8],
            unknown: 0,
            dead: 0,
        }],
        cells: vec![0],
        advice: "give the hash more fields".to_string(),
    }
}

#[test]
fn a_leaf_that_spreads_badly_is_named_with_its_paths_and_flows_however_many_there_are() {
    let recorded = Fixture::rails(2).recorded();
    for leaves in [2, 700] {
        let mut judgement = judge(&recorded);
        judgement.ecmp = (0..leaves)
            .map(|number| leaf(number, EcmpCause::Polarised))
            .collect();
        judgement.ecmp.push(leaf(leaves, EcmpCause::ExpectedCollision));
        let page = page(&recorded, &judgement);
        let facts = [
            "polarised",
            "leaf1 sends 120 of 128 flows the same way",
            "give the hash more fields",
            "leaf1/u0-&gt;spine0/d1",
            "94 % (!)",
            "h1 to h9",
            "as even as a fair hash",
            "44 %",
        ];
        assert_says(&page, "ecmp", &facts);
        let last = format!("leaf{} sends 120", leaves - 1);
        assert_says(&page, "ecmp", &[&last]);
    }
}

#[test]
fn a_negative_control_says_so_at_once_and_names_every_fault() {
    let mut recorded = with_slow_rail();
    recorded.run.injected = (0..40).map(|fault| format!("slow:cable{fault}=60%")).collect();
    let page = page(&recorded, &judge(&recorded));
    assert_says(
        &page,
        "verdict",
        &["negative control", "slow:cable0=60%", "and 37 more"],
    );
    for fault in &recorded.run.injected {
        assert_says(&page, "method", &[fault]);
    }
}
