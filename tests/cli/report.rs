//! `railgauge report`: a recorded run as any of its files, and several runs as a fleet.

use std::path::Path;

use record::Judgement;

use crate::harness::{Bench, SMALL};

/// Formats by flag and file.
fn formats() -> [(&'static str, &'static str); 7] {
    [
        ("--html", "report.html"),
        ("--junit", "junit.xml"),
        ("--prom", "metrics.prom"),
        ("--md", "report.md"),
        ("--summary", "summary.md"),
        ("--csv", "cells.csv"),
        ("--json", "findings.json"),
    ]
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

fn recorded() -> Bench {
    let bench = Bench::new(SMALL);
    bench.run("").must_exit(20);
    bench
}

#[test]
fn every_format_is_printed_as_its_file_would_be_and_nothing_is_written() {
    let bench = recorded();
    for (flag, file) in formats() {
        let printed = bench
            .railgauge(&format!("report out --dry-run {flag}"))
            .must_exit(20)
            .stdout;
        bench
            .railgauge(&format!("report out {flag} --out written"))
            .must_exit(20);
        let written = std::fs::read_to_string(bench.path().join("written").join(file)).unwrap();
        assert_eq!(printed, written, "{flag}");
    }
    let before = names(&bench.out());
    bench.railgauge("report out --md").must_exit(20);
    assert_eq!(before, names(&bench.out()));
}

#[test]
fn several_formats_are_files_and_only_those() {
    let bench = recorded();
    let ended = bench
        .railgauge("report out --md --json --out there/and/deeper")
        .must_exit(20);
    let there = bench.path().join("there/and/deeper");
    assert_eq!(names(&there), ["findings.json", "report.md"]);
    assert!(
        ended.stdout.contains("small"),
        "the summary is shown: {}",
        ended.stdout
    );
}

#[test]
fn all_files_can_be_written_elsewhere() {
    let bench = recorded();
    bench.railgauge("report out --out elsewhere").must_exit(20);
    let written = names(&bench.path().join("elsewhere"));
    for file in ["findings.json", "report.md", "bandwidth.svg"] {
        assert!(written.iter().any(|name| name == file), "{written:?}");
    }
    assert!(!written.iter().any(|name| name == "samples.jsonl"));
}

#[test]
fn json_still_prints_the_findings_and_writes_the_files() {
    let bench = recorded();
    std::fs::remove_file(bench.out().join("report.md")).unwrap();
    let printed = bench.railgauge("report out --json").must_exit(20).stdout;
    let judgement: Judgement = serde_json::from_str(&printed).unwrap();
    assert_eq!(judgement, bench.judgement());
    assert!(bench.out().join("report.md").exists());
}

#[test]
fn several_runs_are_a_fleet_and_a_broken_one_is_listed() {
    let bench = recorded();
    bench.railgauge("run suite.toml --out second").must_exit(20);
    std::fs::create_dir(bench.path().join("broken")).unwrap();
    let ended = bench.railgauge("report out second broken").must_exit(20);
    assert!(
        ended
            .stdout
            .starts_with("3 runs: 0 passed, 0 failed, 2 inconclusive, 1 cannot be read"),
        "{}",
        ended.stdout
    );
    assert!(ended.stdout.contains("broken/run.json"), "{}", ended.stdout);

    let text = bench
        .railgauge("report out second broken --json")
        .must_exit(20)
        .stdout;
    let fleet: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(fleet["runs"].as_array().unwrap().len(), 3);

    bench
        .railgauge("report out second --out fleet --quiet")
        .must_exit(20);
    assert_eq!(
        names(&bench.path().join("fleet")),
        ["fleet.html", "fleet.json", "fleet.md"]
    );
    let page = bench.railgauge("report out second --html").must_exit(20).stdout;
    let written = std::fs::read_to_string(bench.path().join("fleet/fleet.html")).unwrap();
    assert_eq!(page, written);
}

#[test]
fn what_cannot_be_done_with_several_runs_is_said() {
    let bench = recorded();
    for (words, hint) in [
        ("report out out --junit", "--junit renders one run"),
        ("report out out --open", "--out DIR"),
        ("report out out --html --md", "--out DIR"),
        ("report", "RUN"),
        ("report out --dry-run --open", "--open"),
    ] {
        let ended = bench.railgauge(words).must_exit(2);
        assert!(ended.stderr.contains(hint), "{words}: {}", ended.stderr);
    }
    bench.railgauge("report nosuch").must_exit(2);
}

/// A browser that writes down what it was asked to open.
fn browser(bench: &Bench) -> String {
    use std::os::unix::fs::PermissionsExt;
    let path = bench.path().join("browser");
    std::fs::write(&path, "#!/bin/sh\nprintf '%s' \"$1\" > opened\n").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path.display().to_string()
}

#[test]
fn the_page_is_opened_by_the_browser_that_the_user_chose() {
    let bench = recorded();
    let program = browser(&bench);
    let bench = bench.with("BROWSER", &program);
    bench.railgauge("report out out --out fleet --open").must_exit(20);
    let opened = std::fs::read_to_string(bench.path().join("opened")).unwrap();
    assert!(
        opened.starts_with('/') && opened.ends_with("/fleet/fleet.html"),
        "{opened}"
    );
}

#[test]
fn without_a_browser_the_page_is_named_and_nothing_fails() {
    let bench = recorded()
        .with("BROWSER", "/nonexistent/browser")
        .with("PATH", "/nonexistent");
    let ended = bench.railgauge("report out out --out fleet --open").must_exit(20);
    assert!(
        ended.stderr.contains("cannot start a browser") && ended.stderr.contains("fleet/fleet.html"),
        "{}",
        ended.stderr
    );
}
