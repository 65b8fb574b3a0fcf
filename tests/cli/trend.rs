//! `railgauge trend`: nights in a folder, what became of every part, and when there is nothing to say.

use record::{EndReason, PartKind, PartReading, Quantity, Readings, Trends, files};

use crate::harness::{Bench, SMALL};

/// One folder per night: 16 rail ends at 48 GB/s, give or take 0.4 %; from the `worse` night on one of them has 5 % less.
fn nights(bench: &Bench, count: u32, worse: u32) {
    for night in 1..=count {
        let folder = bench.path().join(format!("nights/night-{night:02}"));
        std::fs::create_dir_all(&folder).unwrap();
        let text = serde_json::to_vec(&readings(night, worse)).unwrap();
        std::fs::write(folder.join(files::READINGS), text).unwrap();
    }
}

fn readings(night: u32, worse: u32) -> Readings {
    let part = |end: u32| {
        let noise = f64::from((night * 31 + end * 17 + night * night * (end + 3)) % 9) - 4.0;
        let is_worse = end == 5 && night >= worse;
        let value = 48e9 * (1.0 + noise / 1000.0) * if is_worse { 0.95 } else { 1.0 };
        PartReading {
            kind: PartKind::RailEnd,
            part: format!("node{:02}/rail0 {}", end / 2, ["out", "in"][end as usize % 2]),
            quantity: Quantity::Bandwidth,
            value,
            lower: value,
            upper: value,
            expected: None,
            identity: None,
            cells: 4,
        }
    };
    Readings {
        schema: 1,
        suite: "nightly".to_string(),
        started: format!("2026-11-{night:02}T02:00:00Z"),
        ended: Some(EndReason::Finished),
        exit_code: 0,
        parts: (0..16).map(part).collect(),
        findings: Vec::new(),
        loads: Vec::new(),
        counters: Vec::new(),
        untested: Vec::new(),
        probes: None,
        iterations: 1000,
        verified: 250,
        injected: Vec::new(),
    }
}

#[test]
fn a_part_that_got_worse_is_named_with_its_night_in_table_json_and_page() {
    let bench = Bench::new(SMALL);
    nights(&bench, 18, 14);
    let torn = bench.path().join("nights/torn");
    std::fs::create_dir(&torn).unwrap();
    std::fs::write(torn.join(files::READINGS), "{").unwrap();

    let ended = bench.railgauge("trend nights --out trends");
    assert_eq!(ended.code, Some(12), "{}{}", ended.stdout, ended.stderr);
    let worse = ended
        .stdout
        .lines()
        .find(|line| line.starts_with("worse"))
        .unwrap();
    assert!(worse.contains("node02/rail0 in: bandwidth -5."), "{worse}");
    assert!(worse.contains("since night-14 (5 runs)"), "{worse}");
    assert!(ended.stdout.contains("torn: readings.json: "), "{}", ended.stdout);

    let text = std::fs::read(bench.path().join("trends/trend.json")).unwrap();
    let trends: Trends = serde_json::from_slice(&text).unwrap();
    assert_eq!(
        (trends.runs.len(), trends.compared, trends.changed.len()),
        (18, 16, 1)
    );
    let printed = bench.railgauge("trend nights --json");
    assert_eq!(
        serde_json::from_str::<Trends>(&printed.stdout).unwrap(),
        trends,
        "{}",
        printed.stderr
    );
    let page = std::fs::read_to_string(bench.path().join("trends/trend.html")).unwrap();
    assert!(page.contains("<svg") && page.contains("node02/rail0 in"));

    let one = bench.railgauge("trend nights --quiet --part node07");
    assert_eq!(one.stdout.lines().count(), 1, "{}", one.stdout);
}

#[test]
fn too_few_nights_and_no_nights_are_not_taken_for_health() {
    let bench = Bench::new(SMALL);
    nights(&bench, 4, 2);
    let few = bench.railgauge("trend nights");
    assert_eq!(few.code, Some(20), "{}{}", few.stdout, few.stderr);
    std::fs::create_dir(bench.path().join("empty")).unwrap();
    let none = bench.railgauge("trend empty");
    assert_eq!(none.code, Some(20), "{}{}", none.stdout, none.stderr);
    let nowhere = bench.railgauge("trend nowhere");
    assert!(matches!(nowhere.code, Some(1 | 2)), "{}", nowhere.stderr);
    assert!(
        nowhere.stderr.contains("cannot read nowhere"),
        "{}",
        nowhere.stderr
    );
}
