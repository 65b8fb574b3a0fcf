//! A run from suite to report, in every way ranks and bytes can travel on one machine.

use record::{EndReason, Event, TransportKind};

use crate::harness::{Bench, SMALL, done};

/// Two rails that are each other's reference, with a margin that only a dead rail misses.
pub const RAILS: &str = r#"
name = "two-rails"
[run]
ranks = 2
rails = ["loop0=127.0.1.1", "loop1=127.0.1.2"]
deadline = "10s"
[[test]]
name = "rails"
kind = "rails"
collective = "all-reduce"
algorithm = "ring"
transport = "tcp"
sizes = ["64K"]
warmup = 1
iterations = 12
[test.expect]
peers = "99%"
"#;

/// Runs `SMALL` and checks that nothing of what a run must leave behind is missing.
fn leaves_a_complete_record(words: &str, transport: TransportKind) {
    let bench = Bench::new(SMALL);
    let ended = bench.run(words).must_exit(20);
    for file in ["run.json", "samples.jsonl", "findings.json", "report.md"] {
        let length = std::fs::metadata(bench.out().join(file)).map_or(0, |file| file.len());
        assert!(length > 0, "{file} is missing or empty");
    }
    assert!(ended.stdout.contains("no expectation"), "{}", ended.stdout);

    let samples = std::fs::read_to_string(bench.out().join("samples.jsonl")).unwrap();
    assert!(samples.ends_with('\n'));
    for line in samples.lines() {
        let event: Result<Event, _> = serde_json::from_str(line);
        assert!(event.is_ok(), "{line}");
    }
    let recorded = bench.recorded();
    // A machine that stalls under other load makes cells suspects, which are measured again: that is not tested here.
    let cells: Vec<_> = done(&recorded)
        .into_iter()
        .filter(|cell| cell.round == 0)
        .collect();
    assert_eq!(cells.len(), recorded.run.cells.len());
    assert!(recorded.run.cells.iter().all(|cell| cell.transport == transport));
    for cell in cells {
        assert!(!cell.planned.is_empty());
        assert_eq!(
            cell.moved, cell.planned,
            "bytes on the wire are not those of the schedule"
        );
        assert_eq!((cell.iterations, cell.verified), (8, 8));
        let of_cell = recorded.samples.iter();
        let of_cell = of_cell.filter(|sample| (sample.cell, sample.round) == (cell.cell, 0));
        assert_eq!(of_cell.count(), 2 * 8, "one sample per rank and iteration");
    }
    let end = recorded.events.last();
    assert!(
        matches!(
            end,
            Some(Event::End {
                reason: EndReason::Finished,
                ..
            })
        ),
        "{end:?}"
    );
}

#[test]
fn threads_over_shared_memory_leave_a_complete_verified_record() {
    leaves_a_complete_record("--transport shm", TransportKind::Shm);
}

#[test]
fn threads_over_tcp_leave_a_complete_verified_record() {
    leaves_a_complete_record("--transport tcp", TransportKind::Tcp);
}

#[test]
fn processes_leave_a_complete_verified_record() {
    leaves_a_complete_record("--procs", TransportKind::Tcp);
}

/// A machine that is busy with something else may leave suspicions open, which is honest; it must never accuse anybody,
/// and must let the run pass once it is quiet.
#[test]
fn a_healthy_run_passes_and_never_accuses() {
    for _ in 0..5 {
        let bench = Bench::new(RAILS);
        let ended = bench.railgauge_alone("run suite.toml --out out");
        assert_eq!(bench.judgement().findings, [], "{}", ended.stdout);
        if ended.code == Some(0) {
            assert!(ended.stdout.to_lowercase().contains("pass"), "{}", ended.stdout);
            assert_eq!(bench.judgement().exit_code, 0);
            return;
        }
        assert_eq!(ended.code, Some(20), "{}", ended.stdout);
    }
    panic!("five runs on this machine, and none passed");
}

#[test]
fn a_record_holds_neither_the_environment_nor_the_token() {
    let bench = Bench::new(SMALL);
    let ended = bench.run("--procs").must_exit(20);
    let mut everything = ended.stdout + &ended.stderr;
    for file in std::fs::read_dir(bench.out()).unwrap() {
        everything += &std::fs::read_to_string(file.unwrap().path()).unwrap();
    }
    assert!(!everything.contains("nobody's business"));
    assert!(!everything.contains("RAILGAUGE_TOKEN"));
    let mut longest_hex = 0;
    let mut here = 0;
    for byte in everything.bytes() {
        here = if byte.is_ascii_hexdigit() { here + 1 } else { 0 };
        longest_hex = longest_hex.max(here);
    }
    assert!(
        longest_hex < 64,
        "something as long as the run's token was written"
    );
}

#[test]
fn shared_memory_between_processes_is_refused_and_not_replaced() {
    let bench = Bench::new(SMALL);
    let ended = bench.run("--procs --transport shm");
    assert!(
        matches!(ended.code, Some(2 | 3)),
        "{:?} {}",
        ended.code,
        ended.stderr
    );
    assert!(ended.stderr.contains("shm"), "{}", ended.stderr);
    assert!(!bench.out().join("samples.jsonl").exists());
}

#[test]
fn a_recorded_run_is_judged_the_same_again() {
    let bench = Bench::new(RAILS);
    bench.run("");
    let first = bench.judgement();
    let code = i32::from(first.exit_code);
    bench.railgauge("report out").must_exit(code);
    assert_eq!(bench.judgement(), first);
    let json = bench
        .railgauge("report out --json --dry-run")
        .must_exit(code)
        .stdout;
    let printed: record::Judgement = serde_json::from_str(&json).unwrap();
    assert_eq!(printed, first);
}

#[test]
fn a_run_that_was_cut_off_anywhere_is_still_judged_and_never_passes() {
    let bench = Bench::new(RAILS);
    bench.run("");
    let samples = bench.out().join("samples.jsonl");
    let whole = std::fs::read(&samples).unwrap();
    let last_line = whole[..whole.len() - 1]
        .iter()
        .rposition(|byte| *byte == b'\n')
        .unwrap();
    let cuts = [
        0,
        1,
        17,
        whole.len() / 3,
        whole.len() / 2,
        last_line,
        last_line + 1,
        whole.len() - 2,
    ];
    for cut in cuts {
        std::fs::write(&samples, &whole[..cut]).unwrap();
        let ended = bench.railgauge("report out").must_exit(20);
        assert!(
            ended.stdout.contains("incomplete"),
            "cut at {cut}: {}",
            ended.stdout
        );
    }
    std::fs::remove_file(&samples).unwrap();
    bench.railgauge("report out").must_exit(20);
}
