//! 2,048 nodes by 8 rails: figures stay small, and whoever fails is still to be seen.

use std::sync::OnceLock;

use super::all;
use super::tests::check;
use crate::figure::Figure;
use judge::findings::fixture::Fixture;
use judge::findings::judge;
use record::units::{Bytes, Nanos, Rate};
use record::{
    CellVerdict, EcmpCause, EcmpVerdict, Event, Extremes, GpuDuring, GpuLimits, GpuMoment, GpuReading,
    GpuSummary, HostRecord, Interference, Interval, Judgement, LinkCoverage, LinkState, Load, MemberLoad,
    RankRecord, Recorded, Sample, Verdict,
};

const NODES: u32 = 2048;
const RAILS: u32 = 8;
/// Nodes whose sending is slow, and on which rail.
const SLOW: [(u32, u32); 3] = [(7, 3), (900, 0), (2047, 7)];

fn is_slow(node: u32, rail: u32) -> bool {
    SLOW.contains(&(node, rail))
}

fn rate(median: f64) -> Interval<Rate> {
    Interval {
        median: Rate(median),
        lower: Rate(median * 0.99),
        upper: Rate(median * 1.01),
    }
}

/// Every node sends to four others on every rail, judged by hand.
fn cells(template: &CellVerdict) -> Vec<CellVerdict> {
    let mut cells = Vec::new();
    for rail in 0..RAILS {
        for node in 0..NODES {
            for partner in [1, 13, 29, 57] {
                let mut verdict = template.clone();
                let slow = is_slow(node, rail);
                verdict.cell.id = cells.len() as u32;
                verdict.cell.ranks = vec![node, (node + partner) % NODES];
                verdict.cell.rails = vec![format!("rail{rail}")];
                verdict.cell.size = Bytes(if partner == 1 { 1 << 20 } else { 1 << 24 });
                verdict.wire_rate = Some(rate(if slow { 30e9 } else { 48e9 }));
                verdict.bus_rate = Some(Rate(48e9));
                verdict.expected = Some(Rate(48e9));
                verdict.verdict = if slow {
                    Verdict::Fail("slow".into())
                } else {
                    Verdict::Pass
                };
                verdict.iterations = 2;
                cells.push(verdict);
            }
        }
    }
    cells
}

fn links() -> Vec<LinkCoverage> {
    let mut links = Vec::new();
    for rail in 0..RAILS {
        let mut add = |from: String, to: String, state: LinkState| {
            links.push(LinkCoverage {
                link: format!("{from}->{to}"),
                cable: format!("{from}:{to}"),
                rail: Some(format!("rail{rail}")),
                rate: Rate(50e9),
                flows: 2,
                most: Some(Rate(if state == LinkState::Slow { 30e9 } else { 48e9 })),
                share: Some(if state == LinkState::Slow { 0.6 } else { 0.96 }),
                state,
                smallest_loss: None,
                why: None,
            });
        };
        for node in 0..NODES {
            let (port, leaf) = (
                format!("node{node:04}/r{rail}"),
                format!("r{rail}leaf{}/p{node}", node / 32),
            );
            let state = if is_slow(node, rail) {
                LinkState::Slow
            } else {
                LinkState::Healthy
            };
            add(port.clone(), leaf.clone(), state);
            add(leaf, port, LinkState::Healthy);
        }
        for (leaf, spine) in (0..NODES / 32).flat_map(|leaf| (0..16).map(move |spine| (leaf, spine))) {
            let (up, down) = (
                format!("r{rail}leaf{leaf}/u{spine}"),
                format!("r{rail}spine{spine}/d{leaf}"),
            );
            let state = if leaf == 3 {
                LinkState::Untested
            } else {
                LinkState::Healthy
            };
            add(up.clone(), down.clone(), state);
            add(down, up, state);
        }
    }
    links
}

fn gpus(recorded: &mut Recorded) -> Vec<GpuSummary> {
    let extremes = |value| {
        Some(Extremes {
            least: value,
            most: value,
        })
    };
    let gpus = (0..NODES).map(|node| {
        for cell in 0..4 {
            recorded.events.push(Event::Gpu(Box::new(GpuReading {
                cell,
                round: 0,
                rank: node,
                uuid: format!("GPU-{node}"),
                elapsed_ns: Nanos(1),
                limits: GpuLimits::default(),
                before: GpuMoment::default(),
                during: GpuDuring {
                    readings: 1,
                    sm_mhz: extremes(if node == 900 { 900 } else { 1980 }),
                    ..GpuDuring::default()
                },
                after: GpuMoment::default(),
                held_ns: [].into(),
                counters: [].into(),
                nvlinks: None,
                unavailable: [].into(),
            })));
        }
        GpuSummary {
            uuid: format!("GPU-{node}"),
            hosts: vec![format!("node{node:04}")],
            ranks: vec![node],
            sm_mhz: extremes(if node == 900 { 900 } else { 1980 }),
            ..GpuSummary::default()
        }
    });
    gpus.collect()
}

fn ecmp() -> Vec<EcmpVerdict> {
    let member = |spine: u32| MemberLoad {
        link: format!("leaf/u{spine}->spine{spine}/d0"),
        flows: 8,
        delivering: 8,
        rate: None,
        expected: None,
        counted: Some(Bytes(1000)),
        share: 1.0 / 32.0,
        band: (0.02, 0.05),
    };
    let group = |leaf: u32| EcmpVerdict {
        test: "spread".into(),
        rail: format!("rail{}", leaf % RAILS),
        switch: Some(format!("leaf{leaf}")),
        tier: 1,
        cause: EcmpCause::ExpectedCollision,
        part: None,
        sentence: "as by chance".into(),
        flows: 256,
        paths: 32,
        paths_used: 32,
        statistic: "chi-square".into(),
        value: 1.0,
        null_median: 1.0,
        p_value: 0.4,
        lost: None,
        max_over_mean: 1.2,
        counted_p_value: None,
        members: (0..32).map(member).collect(),
        pairs: Vec::new(),
        cells: Vec::new(),
        advice: String::new(),
    };
    (0..512).map(group).collect()
}

pub(super) fn fleet() -> (Recorded, Judgement) {
    let small = Fixture::pairs(3).recorded();
    let mut judgement = judge(&small);
    judgement.cells = cells(&judgement.cells[0]);
    judgement.coverage.links = links();
    judgement.ecmp = ecmp();
    let one = |(number, cell): (usize, &CellVerdict)| Interference {
        test: cell.cell.test.clone(),
        rail: cell.cell.rails[0].clone(),
        alone_cell: number as u32,
        together_cell: number as u32,
        alone: rate(48e9),
        together: rate(47e9),
        ratio: 47.0 / 48.0,
    };
    judgement.interference = judgement.cells.iter().enumerate().map(one).collect();
    let mut run = small.run.clone();
    run.hosts = (0..NODES)
        .map(|node| HostRecord {
            name: format!("node{node:04}"),
            ..small.run.hosts[0].clone()
        })
        .collect();
    run.ranks = (0..NODES)
        .map(|node| RankRecord {
            rank: node,
            host: format!("node{node:04}"),
            ..small.run.ranks[0].clone()
        })
        .collect();
    run.cells = judgement
        .cells
        .iter()
        .map(|verdict| verdict.cell.clone())
        .collect();
    let mut recorded = Recorded::new(run);
    judgement.gpus = gpus(&mut recorded);
    for cell in &recorded.run.cells {
        for (iter, rank) in (0..2).flat_map(|iter| cell.ranks.iter().map(move |rank| (iter, *rank))) {
            recorded.samples.push(Sample {
                cell: cell.id,
                round: 0,
                iter,
                rank,
                ns: 100_000 + u64::from(cell.id % 97) * 100,
                wait_ns: 0,
                late_ns: 0,
            });
        }
    }
    (recorded, judgement)
}

fn figures() -> &'static [Figure] {
    static FIGURES: OnceLock<Vec<Figure>> = OnceLock::new();
    FIGURES.get_or_init(|| {
        let (recorded, judgement) = fleet();
        assert_eq!(judgement.cells[0].cell.load, Load::Alone);
        all(&recorded, &judgement).unwrap()
    })
}

fn find(id: &str) -> &'static Figure {
    figures()
        .iter()
        .find(|figure| figure.id == id)
        .unwrap_or_else(|| panic!("no {id}"))
}

#[test]
fn a_page_about_2048_nodes_and_8_rails_still_opens() {
    check(figures());
    let mut all = 0;
    for Figure {
        id, svg, alternative, ..
    } in figures()
    {
        assert!(svg.len() < 200_000, "{id}: {} bytes", svg.len());
        assert!(
            alternative.len() < 50_000,
            "{id}: {} bytes of words",
            alternative.len()
        );
        all += svg.len() + alternative.len();
    }
    assert!(all < 1_500_000, "{all} bytes");
    assert!(figures().len() >= 15, "{}", figures().len());
}

#[test]
fn whoever_fails_among_2048_has_a_row_of_its_own() {
    let map = find("heat-map");
    for (node, rail) in SLOW {
        assert!(map.svg.contains(&format!(">! node{node:04}<")), "{node}");
        assert!(
            map.alternative.contains(&format!("Failing: node{node:04}: ")),
            "{node}"
        );
        assert!(
            map.alternative.contains(&format!("rail{rail} 62 % (low)")),
            "{}",
            map.alternative
        );
    }
    assert!(
        map.caption.contains(
            "2045 nodes are drawn in 24 groups of neighbours; each of the 3 failing nodes has its own row"
        ),
        "{}",
        map.caption
    );
    // Rails with slow pairs come first.
    let first: Vec<&Figure> = figures()
        .iter()
        .filter(|figure| figure.id.starts_with("pairs-"))
        .take(3)
        .collect();
    for (node, rail) in SLOW {
        let matrix = first
            .iter()
            .find(|figure| figure.title.starts_with(&format!("rail{rail}:")))
            .unwrap();
        assert!(
            matrix.alternative.contains(&format!("node{node:04} (sends 62 %")),
            "{}",
            matrix.alternative
        );
        assert!(
            matrix.svg.contains(&format!(": node{node:04}<")),
            "{}",
            matrix.title
        );
    }
}

#[test]
fn a_slow_cable_of_2048_is_drawn_with_its_neighbours_and_the_rest_is_counted() {
    let of = |rail: u32| {
        let title = format!("Cables of rail{rail}");
        figures().iter().find(|figure| figure.title == title)
    };
    for (node, rail) in SLOW {
        let figure = of(rail).unwrap_or_else(|| panic!("rail{rail} is not drawn"));
        assert!(figure.svg.contains("stroke-width=\"5\""), "{}", figure.title);
        assert!(
            figure.alternative.contains(&format!("node{node:04}/r{rail}->")),
            "{}",
            figure.alternative
        );
        assert!(figure.svg.contains("and 2038 more"), "{}", figure.svg);
        assert!(
            figure.alternative.contains("hosts: 2048; leaves: 64; spines: 16"),
            "{}",
            figure.alternative
        );
    }
    let last = find("topology-3");
    assert!(
        last.caption.contains("4 more rails not drawn"),
        "{}",
        last.caption
    );
}

#[test]
fn a_gpu_with_low_clocks_among_thousands_has_its_own_line() {
    let figure = find("gpus");
    assert!(
        figure.alternative.starts_with("node0900, rank 900"),
        "{}",
        figure.alternative
    );
    assert!(
        figure.caption.contains("2040 more GPUs are only in the band"),
        "{}",
        figure.caption
    );
}
