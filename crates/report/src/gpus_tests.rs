//! What a reader learns about GPUs.

use std::path::Path;

use super::terminal::{self, Page};
use super::{WRITERS, gpus};
use judge::findings::fixture::Fixture;
use judge::findings::judge;
use record::units::Nanos;
use record::{ClockLimit, Extremes, GpuSummary, Judgement, ThrottleTotal, files};

fn judged(gpus: Vec<GpuSummary>) -> Judgement {
    Judgement {
        gpus,
        ..judge(&Fixture::rails(2).recorded())
    }
}

fn markdown(judgement: &Judgement) -> String {
    let writer = WRITERS.iter().find(|writer| writer.file() == files::MARKDOWN);
    writer
        .unwrap()
        .render(&Fixture::rails(2).recorded(), judgement)
        .unwrap()
}

fn gpu() -> GpuSummary {
    let between = |least, most| Some(Extremes { least, most });
    let held = ThrottleTotal {
        cells: 3,
        held_ns: Some(Nanos(1_500_000_000)),
    };
    GpuSummary {
        uuid: "GPU-8c4f".into(),
        hosts: vec!["node01".into()],
        ranks: vec![0, 1],
        cells: 8,
        readings: 80,
        sm_mhz: between(1755, 1980),
        sm_mhz_limit: Some(1980),
        celsius: between(45, 67),
        celsius_limit: Some(87),
        milliwatts: between(120_000, 540_900),
        milliwatts_limit: Some(700_000),
        limited_by: [(ClockLimit::SoftwarePowerCap, held)].into(),
        pcie: Some((5, 8)),
        pcie_limit: Some((5, 16)),
        nvlinks: Some((17, 1)),
        counters: [
            ("pcie-replays".to_string(), Some(2)),
            ("ecc-corrected".to_string(), Some(0)),
            ("ecc-uncorrected".to_string(), None),
        ]
        .into(),
        unavailable: [
            ("memory temperature".to_string(), "not here".to_string()),
            ("nvlink-crc-data".to_string(), "not here".to_string()),
        ]
        .into(),
        ..GpuSummary::default()
    }
}

#[test]
fn clocks_limits_links_and_errors_stand_in_one_row_and_what_is_unknown_is_said() {
    let text = markdown(&judged(vec![gpu()]));
    let row = text
        .lines()
        .find(|line| line.starts_with("| node01, GPU-8c4f "))
        .unwrap();
    for part in [
        "| 0 1 |",
        "1755-1980 of 1980",
        "45-67 of 87",
        "120-540 of 700",
        "software power cap (3 cells, 1.50 s)",
        "gen 5 x8 of gen 5 x16",
        "17 up, 1 down",
        "ecc-uncorrected unknown, pcie-replays +2",
    ] {
        assert!(row.contains(part), "{part}: {row}");
    }
    assert!(
        text.contains("- memory temperature, nvlink-crc-data: not here"),
        "{text}"
    );
}

#[test]
fn without_gpus_there_is_no_section_and_no_line() {
    let judgement = judged(Vec::new());
    assert!(!markdown(&judgement).contains("## GPUs"));
    assert_eq!(gpus::summary(&judgement), None);
}

#[test]
fn the_terminal_has_one_line_that_does_not_call_the_unread_healthy() {
    let on = |judgement: &Judgement| {
        let text = terminal::summary(judgement, Path::new("reports/x"), Page::terminal(false));
        assert!(text.lines().count() <= 24, "{text}");
        text.lines()
            .find(|line| line.starts_with("gpus"))
            .unwrap()
            .to_string()
    };
    assert_eq!(
        on(&judged(vec![gpu()])),
        "gpus       1 monitored: SM 1755-1980 of 1980 MHz, up to 67 C, 540 W, clocks o..."
    );
    let free = GpuSummary {
        limited_by: Default::default(),
        ..gpu()
    };
    let page = |judgement: &Judgement| terminal::summary(judgement, Path::new("x"), Page::log());
    assert!(page(&judged(vec![free.clone()])).contains("clocks not throttled"));
    let mut blind = free;
    blind
        .unavailable
        .insert("what limits the clocks".into(), "not here".into());
    let text = page(&judged(vec![blind.clone()]));
    assert!(text.contains("not all clock limits readable"), "{text}");
    assert!(markdown(&judged(vec![blind.clone()])).contains("| unknown |"));
    blind
        .unavailable
        .insert("all sensors".into(), "NVML is not\u{1b}[2J installed".into());
    let line = on(&judged(vec![blind]));
    assert!(
        line.starts_with("gpus       1 not monitored: NVML is not") && !line.contains('\u{1b}'),
        "{line}"
    );
}
