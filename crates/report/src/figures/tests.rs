//! What a reader of figures would lose, each as one recorded run.

use super::{FIGURE_KINDS, all, palette};
use crate::figure::Figure;
use judge::findings::fixture::{Fixture, HEALTHY, spec};
use judge::findings::judge;
use record::units::{Nanos, Rate};
use record::{
    Cell, ClockLimit, Event, Extremes, FindingKind, GpuDuring, GpuLimits, GpuMoment, GpuReading, Judgement,
    LinkCoverage, LinkState, Load, Recorded,
};

fn with_slow_rail() -> Recorded {
    let slow = |cell: &Cell, _| match (cell.rails[0].as_str(), cell.load) {
        ("rail1", _) => 0.6 * HEALTHY,
        ("rail2", Load::Together) => 0.8 * HEALTHY,
        _ => HEALTHY,
    };
    Fixture::rails(3).speed(slow).recorded()
}

fn with_slow_sender() -> Recorded {
    let slow = |cell: &Cell, _| match cell.ranks[0] {
        1 => 0.5 * HEALTHY,
        _ => HEALTHY,
    };
    Fixture::pairs(5).speed(slow).recorded()
}

pub(super) fn runs() -> Vec<Recorded> {
    vec![
        with_slow_rail(),
        with_slow_sender(),
        Fixture::sweep(2)
            .references(vec![spec(HEALTHY, 1 << 12)])
            .recorded(),
        Fixture::latency(4).recorded(),
        Fixture::incast().recorded(),
        watched(),
    ]
}

/// A run whose GPUs were watched; that of rank 2 gets hot and slow.
pub(super) fn watched() -> Recorded {
    let mut recorded = Fixture::rails(1).recorded();
    for cell in recorded.run.cells.clone() {
        for rank in 0..4 {
            let hot = rank == 2;
            let moment = GpuMoment {
                celsius: Some(if hot { 91 } else { 60 }),
                milliwatts: Some(500_000),
                ..GpuMoment::default()
            };
            let extremes = |value| {
                Some(Extremes {
                    least: value,
                    most: value,
                })
            };
            let limited_by = hot
                .then_some((ClockLimit::HardwareThermal, 3))
                .into_iter()
                .collect();
            recorded.events.push(Event::Gpu(Box::new(GpuReading {
                cell: cell.id,
                round: 0,
                rank,
                uuid: format!("GPU-{rank}"),
                elapsed_ns: Nanos(1_000_000_000),
                limits: GpuLimits {
                    sm_mhz: Some(1980),
                    celsius: Some(87),
                    milliwatts: Some(700_000),
                    ..GpuLimits::default()
                },
                before: moment.clone(),
                during: GpuDuring {
                    readings: 3,
                    sm_mhz: extremes(if hot { 990 } else { 1980 }),
                    limited_by,
                    ..GpuDuring::default()
                },
                after: moment,
                held_ns: [].into(),
                counters: [].into(),
                nvlinks: None,
                unavailable: [].into(),
            })));
        }
    }
    recorded
}

/// Two leaves and two spines: h2's cable is slow away from the host, one cable between switches is untested.
pub(super) fn with_links(recorded: &Recorded) -> Judgement {
    let mut judgement = judge(recorded);
    let link = |from: &str, to: &str, state: LinkState, share: f64| LinkCoverage {
        link: format!("{from}->{to}"),
        cable: {
            let mut ends = [from, to].map(|end| end.split('/').next().unwrap_or(end));
            ends.sort_unstable();
            ends.join("-")
        },
        rail: Some("rail0".into()),
        rate: Rate(1e9),
        flows: 3,
        most: (state != LinkState::Untested).then_some(Rate(share * 1e9)),
        share: (state != LinkState::Untested).then_some(share),
        state,
        smallest_loss: (state == LinkState::Healthy).then_some(0.1),
        why: None,
    };
    for host in 0..4 {
        let (port, leaf) = (
            format!("node{host:02}/rail0"),
            format!("leaf{}/p{host}", host / 2),
        );
        let (state, share) = if host == 2 {
            (LinkState::Slow, 0.61)
        } else {
            (LinkState::Healthy, 0.99)
        };
        judgement.coverage.links.push(link(&port, &leaf, state, share));
        judgement
            .coverage
            .links
            .push(link(&leaf, &port, LinkState::Healthy, 0.98));
    }
    for (leaf, spine) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let (up, down) = (format!("leaf{leaf}/u{spine}"), format!("spine{spine}/d{leaf}"));
        let state = if leaf + spine == 2 {
            LinkState::Untested
        } else {
            LinkState::Healthy
        };
        judgement.coverage.links.push(link(&up, &down, state, 0.9));
        judgement.coverage.links.push(link(&down, &up, state, 0.9));
    }
    judgement
}

pub(super) fn find<'a>(figures: &'a [Figure], id: &str) -> &'a Figure {
    let ids: Vec<&str> = figures.iter().map(|figure| figure.id.as_str()).collect();
    figures
        .iter()
        .find(|figure| figure.id == id)
        .unwrap_or_else(|| panic!("no {id} among {ids:?}"))
}

/// Everything that holds for every figure.
pub(super) fn check(figures: &[Figure]) {
    let inks = palette::all_hex();
    let mut ids = std::collections::BTreeSet::new();
    for figure in figures {
        let Figure { id, svg, .. } = figure;
        assert!(ids.insert(id), "{id} twice");
        assert!(
            id.chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'),
            "{id}"
        );
        for (what, text) in [
            ("title", &figure.title),
            ("caption", &figure.caption),
            ("alternative", &figure.alternative),
        ] {
            assert!(text.chars().count() > 8, "{id} has no {what}: {text}");
        }
        assert!(
            svg.starts_with("<svg ") && svg.contains(" viewBox=\"0 ") && svg.trim_end().ends_with("</svg>"),
            "{id}"
        );
        assert!(!svg.contains(" id=\"") && !svg.contains(" opacity=\""), "{id}");
        for attribute in [" fill=\"#", " stroke=\"#"] {
            for piece in svg.split(attribute).skip(1) {
                let ink = format!("#{}", &piece[..6]);
                assert!(
                    inks.contains(&ink),
                    "{id} is drawn in {ink}, which is not of the palette"
                );
            }
        }
        assert!(!svg.contains("NaN") && !svg.contains("inf,"), "{id}");
    }
}

#[test]
fn every_figure_has_words_scales_and_keeps_to_the_palette() {
    let mut kinds = std::collections::BTreeSet::new();
    for recorded in runs() {
        let judgement = with_links(&recorded);
        let figures = all(&recorded, &judgement).unwrap();
        check(&figures);
        assert_eq!(figures, all(&recorded, &judgement).unwrap(), "twice the same");
        let kind = |figure: &Figure| {
            figure
                .id
                .trim_end_matches(|c: char| c.is_ascii_digit() || c == '-')
                .to_string()
        };
        kinds.extend(figures.iter().map(kind));
    }
    let expected = [
        "alone-together",
        "bandwidth",
        "gpus",
        "heat-map",
        "latency",
        "loss-map",
        "pairs",
        "timeline",
        "topology",
    ];
    assert_eq!(
        kinds.into_iter().collect::<Vec<_>>(),
        expected,
        "and the load of equal paths has tests of its own"
    );
    assert_eq!(FIGURE_KINDS.len(), expected.len() + 1);
}

#[test]
fn a_run_without_a_sample_has_no_figure_rather_than_empty_frames() {
    let mut recorded = with_slow_rail();
    recorded.samples.clear();
    recorded.events.clear();
    assert_eq!(all(&recorded, &judge(&recorded)).unwrap(), []);
}

#[test]
fn a_slow_sender_is_named_in_picture_and_words_and_its_neighbours_are_not() {
    let recorded = with_slow_sender();
    let judgement = judge(&recorded);
    let figures = all(&recorded, &judgement).unwrap();
    let map = find(&figures, "heat-map");
    assert!(
        map.alternative.starts_with("Failing: node01: rail0 50 % (low)"),
        "{}",
        map.alternative
    );
    assert_eq!(
        map.alternative.matches("Failing:").count(),
        1,
        "{}",
        map.alternative
    );
    assert!(
        map.svg.contains(">! node01<") && !map.svg.contains("! node02"),
        "{}",
        map.svg
    );
    let pairs = find(&figures, "pairs-0");
    assert!(
        pairs.alternative.contains("node01 (sends 50 %, receives 100 %)"),
        "{}",
        pairs.alternative
    );
    assert!(
        pairs.alternative.contains("node01 to node00 50 %"),
        "{}",
        pairs.alternative
    );
    assert!(
        !pairs.alternative.contains("node02 (sends"),
        "{}",
        pairs.alternative
    );
    assert!(
        pairs.svg.contains("! 2: node01") && !pairs.svg.contains("! 1: node00"),
        "{}",
        pairs.svg
    );
}

#[test]
fn nodes_that_were_only_measured_all_at_once_are_not_told_apart() {
    let recorded = with_slow_rail();
    let figures = all(&recorded, &judge(&recorded)).unwrap();
    let map = find(&figures, "heat-map");
    assert!(
        map.svg.contains("all 4 nodes") && !map.svg.contains("node01"),
        "{}",
        map.svg
    );
    assert!(
        map.caption.contains("All nodes were measured together"),
        "{}",
        map.caption
    );
    assert!(
        map.alternative.contains("Slow rail: rail1: median 60 %") && map.svg.contains(">! rail1<"),
        "{}",
        map.alternative
    );
}

#[test]
fn a_slow_rail_stands_below_its_peers_and_below_what_it_carries_alone() {
    let recorded = with_slow_rail();
    let judgement = judge(&recorded);
    let figures = all(&recorded, &judgement).unwrap();
    let alone = find(&figures, "bandwidth-0");
    assert!(
        alone.svg.contains("wire rate (GB/s)") && alone.svg.contains("bus rate (GB/s)"),
        "both rates"
    );
    assert!(
        alone.svg.contains("peers: from the accepted rate to the fastest"),
        "the band of peers"
    );
    assert!(
        alone.svg.contains(">rail1 !<") && !alone.svg.contains("rail0 !"),
        "{}",
        alone.svg
    );
    assert!(
        alone
            .alternative
            .contains("Failed: rail1, 1 MiB, 4 ranks: 0.60 GB/s ["),
        "{}",
        alone.alternative
    );
    let together = find(&figures, "alone-together");
    assert!(
        together
            .alternative
            .contains("loses much: rail2 in test rails at 16 MiB"),
        "{}",
        together.alternative
    );
    assert!(
        !together.alternative.contains("loses much: rail0"),
        "{}",
        together.alternative
    );
    assert!(together.svg.contains(">! 0."), "{}", together.svg);
}

#[test]
fn what_a_spec_demands_is_drawn_and_said() {
    let recorded = Fixture::sweep(2)
        .references(vec![spec(HEALTHY, 1 << 12)])
        .recorded();
    let figures = all(&recorded, &judge(&recorded)).unwrap();
    let figure = find(&figures, "bandwidth-0");
    assert!(
        figure.svg.contains("demanded by spec test-link: 0.90 GB/s")
            && figure.svg.contains("stroke-dasharray"),
        "{}",
        figure.svg
    );
    assert!(
        figure
            .alternative
            .contains("Spec test-link demands 0.90 GB/s from 4 KiB on"),
        "{}",
        figure.alternative
    );
    assert!(
        !figure.svg.contains("peers:"),
        "the test does not compare with peers"
    );
}

#[test]
fn percentiles_are_those_of_all_iterations_of_a_size() {
    let pause = |_: &Cell, _, iter: u32| if iter == 7 { 3e6 } else { 0.0 };
    let recorded = Fixture::latency(4).iterations(200).delay(pause).recorded();
    let figures = all(&recorded, &judge(&recorded)).unwrap();
    let figure = find(&figures, "latency-0");
    assert!(
        figure.alternative.contains("8 B: p50 ") && figure.alternative.contains("of 1200 iterations"),
        "{}",
        figure.alternative
    );
    assert!(figure.alternative.contains("max 3.0"), "{}", figure.alternative);
    for name in ["p50", "p95", "p99", "p99.9", "max"] {
        assert!(figure.svg.contains(&format!(">{name}<")), "{name}");
    }
}

#[test]
fn pauses_of_the_worst_cell_stand_out_beside_a_healthy_peer() {
    let pause = |cell: &Cell, _, iter: u32| {
        if cell.rails[0] == "rail1" && iter % 10 == 9 {
            5e7
        } else {
            0.0
        }
    };
    let recorded = Fixture::rails(3).iterations(60).delay(pause).recorded();
    let judgement = judge(&recorded);
    let kinds: Vec<FindingKind> = judgement.findings.iter().map(|finding| finding.kind).collect();
    let figures = all(&recorded, &judgement).unwrap();
    let figure = find(&figures, "timeline-0");
    assert!(
        figure.alternative.contains("on rail1") && figure.alternative.contains("set by rank"),
        "{kinds:?} {}",
        figure.alternative
    );
    assert!(
        figure.alternative.contains("Healthy peer: ring all-reduce"),
        "{kinds:?} {}",
        figure.alternative
    );
    let peer = figure.alternative.split("Healthy peer: ").nth(1).unwrap();
    assert!(!peer.contains("on rail1"), "{peer}");
    assert!(figure.svg.contains("a healthy peer: "), "{}", figure.svg);
}

#[test]
fn the_suspect_cable_is_thick_numbered_and_listed_and_untested_ones_are_dashed() {
    let recorded = Fixture::pairs(4).recorded();
    let judgement = with_links(&recorded);
    let figures = all(&recorded, &judgement).unwrap();
    let figure = find(&figures, "topology-0");
    assert_eq!(
        figure.svg.matches("stroke-width=\"5\"").count(),
        1,
        "{}",
        figure.svg
    );
    assert_eq!(
        figure.svg.matches("stroke-dasharray=\"6 4\"").count(),
        1,
        "leaf1 to spine1: {}",
        figure.svg
    );
    let said = "cable leaf1-node02: node02/rail0-&gt;leaf1/p2 slow, carried 0.61 GB/s, 61 % of its rate";
    assert!(figure.svg.contains(said), "{}", figure.svg);
    assert!(
        figure.alternative.contains("suspect: cable")
            && figure.alternative.contains("untested: leaf1/u1->spine1/d1"),
        "{}",
        figure.alternative
    );
    assert!(
        figure.alternative.contains("hosts: 4; leaves: 2; spines: 2"),
        "{}",
        figure.alternative
    );
    assert!(
        !find(&figures, "heat-map").svg.contains('!') || !figure.svg.contains("! node"),
        "no node is accused"
    );
}

#[test]
fn a_hot_gpu_is_marked_with_its_clock_and_heat() {
    let recorded = watched();
    let figures = all(&recorded, &judge(&recorded)).unwrap();
    let figure = find(&figures, "gpus");
    assert!(
        figure
            .alternative
            .starts_with("node02, rank 2 (GPU-2): clock 990 to 990 of 1980 MHz"),
        "{}",
        figure.alternative
    );
    assert!(
        figure
            .alternative
            .contains("throttled by hardware thermal slowdown in 4 cells"),
        "{}",
        figure.alternative
    );
    assert!(
        figure.svg.contains(">! node02, rank 2<") && !figure.svg.contains("! node01"),
        "{}",
        figure.svg
    );
}
