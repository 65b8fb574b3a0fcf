//! 2,048 nodes with 8 rails each on one page: every part that fails is named, what passed is summed up.

use std::collections::HashSet;

use super::parser_tests;
use super::tests::{page, words_of};
use judge::findings::fixture::Fixture;
use judge::findings::judge;
use record::units::Rate;
use record::{
    CellVerdict, Deviation, Drift, DriftBasis, GpuSummary, Judgement, LinkCoverage, LinkState, PartAt,
    PartClass, Recorded, Verdict,
};

const NODES: u32 = 2048;
const RAILS: u32 = 8;
/// The most that a page may have, in bytes.
const LARGEST: usize = 5_000_000;

fn rail(at: u32) -> String {
    format!("rail{}", at % RAILS)
}

/// A run of one flow from every node to the next on every rail; `verdict` says how each did.
fn fleet(verdict: impl Fn(u32) -> Verdict) -> (Recorded, Judgement) {
    let recorded = Fixture::pairs(2).recorded();
    let mut judgement = judge(&recorded);
    let mut recorded = recorded;
    let (host, rank) = (recorded.run.hosts[0].clone(), recorded.run.ranks[0].clone());
    recorded.run.hosts = (0..NODES)
        .map(|node| record::HostRecord {
            name: format!("n{node}"),
            ..host.clone()
        })
        .collect();
    recorded.run.ranks = (0..NODES)
        .map(|node| record::RankRecord {
            rank: node,
            host: format!("n{node}"),
            ..rank.clone()
        })
        .collect();
    let model = judgement.cells[0].clone();
    judgement.cells = (0..NODES * RAILS)
        .map(|id| {
            let mut cell = CellVerdict {
                verdict: verdict(id),
                ..model.clone()
            };
            let node = id / RAILS;
            cell.cell.id = id;
            cell.cell.ranks = vec![node, (node + 1) % NODES];
            cell.cell.rails = vec![rail(id)];
            cell
        })
        .collect();
    (recorded, judgement)
}

fn slow(id: u32) -> Verdict {
    Verdict::Fail(format!("slow: 31.{id} GB/s of 48.0 GB/s expected by its peers"))
}

#[test]
fn a_few_slow_cells_among_many_each_have_a_row_and_the_rest_is_summed_up() {
    let is_slow = |id: u32| id % 97 == 3;
    let (recorded, judgement) = fleet(|id| if is_slow(id) { slow(id) } else { Verdict::Pass });
    let page = page(&recorded, &judgement);
    let words = words_of(&page, "cells");
    for id in (0..NODES * RAILS).filter(|id| is_slow(*id)) {
        assert!(words.contains(&format!("slow: 31.{id} GB/s")), "cell {id}");
    }
    assert!(
        words.contains("grouped by test, algorithm, size and rail"),
        "{words}"
    );
    assert!(page.len() < LARGEST / 2, "{}", page.len());
}

#[test]
fn when_every_cell_fails_every_pair_is_still_on_the_page() {
    let verdicts: [fn(u32) -> Verdict; 2] = [slow, |_| Verdict::NotRun("the run was cut off".to_string())];
    for verdict in verdicts {
        let (recorded, judgement) = fleet(verdict);
        let page = page(&recorded, &judgement);
        let words = words_of(&page, "cells");
        let words: Vec<&str> = words
            .split([' ', ',', ';'])
            .filter(|word| !word.is_empty())
            .collect();
        // Rows say `ranks 3:4`, those of several cells say `n3 to n4`.
        let mut pairs: HashSet<String> = words.iter().map(|word| word.to_string()).collect();
        let hosts = words.windows(3).filter(|three| three[1] == "to");
        pairs.extend(hosts.map(|three| three.join(" ")));
        for node in 0..NODES {
            let next = (node + 1) % NODES;
            let is_there = [format!("{node}:{next}"), format!("n{node} to n{next}")];
            assert!(is_there.iter().any(|pair| pairs.contains(pair)), "{is_there:?}");
        }
        assert!(page.len() < LARGEST, "{}", page.len());
    }
}

#[test]
fn slow_links_hot_gpus_and_drifted_nodes_are_named_among_thousands() {
    let (recorded, mut judgement) = fleet(|_| Verdict::Pass);
    let is_bad = |at: u32| at % 501 == 7;
    judgement.coverage.links = (0..NODES * RAILS * 2)
        .map(|at| LinkCoverage {
            link: format!("n{}/{}->leaf/p{at}", at / RAILS, rail(at)),
            cable: format!("c{at}"),
            rail: Some(rail(at)),
            rate: Rate(50e9),
            flows: 4,
            most: Some(Rate(48e9)),
            share: Some(0.96),
            state: match at {
                at if is_bad(at) => LinkState::Slow,
                at if at % 3 == 0 => LinkState::Untested,
                _ => LinkState::Healthy,
            },
            smallest_loss: None,
            why: None,
        })
        .collect();
    judgement.gpus = (0..NODES * RAILS)
        .map(|at| GpuSummary {
            uuid: format!("GPU-{at}-"),
            hosts: vec![format!("n{}", at / RAILS)],
            counters: [("ecc-uncorrected".to_string(), Some(u64::from(is_bad(at))))].into(),
            ..GpuSummary::default()
        })
        .collect();
    let part = |node: u32| PartAt {
        node: format!("n{node}"),
        part: format!("n{node}/mlx5_0"),
    };
    judgement.drift = Some(Drift {
        nodes: NODES,
        deviations: vec![Deviation {
            rule: "nic-firmware".to_string(),
            class: PartClass::Nic,
            fact: "firmware".to_string(),
            value: Some("1".to_string()),
            expected: "2".to_string(),
            basis: DriftBasis::Majority { agree: 1, of: 2 },
            like: None,
            parts: (0..NODES / 2).map(part).collect(),
            because: String::new(),
            advice: String::new(),
            effect: None,
        }],
        ..Drift::default()
    });
    let page = page(&recorded, &judgement);
    let [links, gpus, nodes] = ["links", "gpus", "nodes"].map(|id| words_of(&page, id));
    for at in (0..NODES * RAILS).filter(|at| is_bad(*at)) {
        assert!(links.contains(&format!("-&gt;leaf/p{at} slow")), "link {at}");
        assert!(gpus.contains(&format!("GPU-{at}-")), "GPU {at}");
    }
    for node in 0..NODES / 2 {
        assert!(
            nodes.contains(&format!("n{node}/n{node}/mlx5_0")) || nodes.contains(&format!("n{node}/mlx5_0"))
        );
    }
    assert!(!gpus.contains("GPU-1-"), "what is well is summed up");
    assert!(page.len() < LARGEST / 2, "{}", page.len());
}

#[test]
fn thousands_of_findings_each_keep_their_part_and_what_to_do() {
    let slow = |cell: &record::Cell, _| if cell.rails[0] == "rail1" { 0.6e9 } else { 1e9 };
    let recorded = Fixture::rails(3).speed(slow).recorded();
    let mut judgement = judge(&recorded);
    let finding = judgement.findings[0].clone();
    judgement.findings = (0..NODES)
        .map(|node| {
            let mut finding = finding.clone();
            finding.place.hosts = vec![format!("n{node}-")];
            finding
        })
        .collect();
    let page = page(&recorded, &judgement);
    parser_tests::elements(&page);
    let words = words_of(&page, "findings");
    let words: HashSet<&str> = words.split_whitespace().collect();
    for node in 0..NODES {
        assert!(words.contains(format!("n{node}-").as_str()), "finding {node}");
    }
    assert!(page.len() < LARGEST, "{}", page.len());
}
