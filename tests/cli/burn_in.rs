//! A burn-in on one machine: cycles, a status, a certificate; killed or told to stop, it is gone on with.

use std::path::Path;

use nix::sys::signal::Signal;
use record::{Certificate, EndReason, Event, Journal, JournalLine, Recorded, Ruling, files};

use crate::harness::{Bench, eventually};

/// Cycles of a second or so, and a part is decided on after one.
const SHORT: &str = r#"
name = "short"
[run]
ranks = 2
rails = ["loop0=127.0.1.1", "loop1=127.0.1.2"]
transport = "tcp"
deadline = "10s"
[rule]
# Other tests run beside: who was slow here for a moment says nothing.
straggler_factor = 1000
[burn-in]
reason = "a test has no day"
least_load = "1s"
least_cycles = 1
raw_cycles = 2
[[test]]
name = "pairs"
kind = "pairs"
sizes = ["64K"]
warmup = 1
iterations = 20
verify = "every"
[[test]]
name = "rings"
kind = "rails"
collective = "all-reduce"
algorithm = "ring"
sizes = ["64K", "256K"]
warmup = 1
iterations = 20
verify = "every"
"#;

fn journal(folder: &Path) -> Vec<JournalLine> {
    let text = std::fs::read_to_string(folder.join("journal.jsonl")).unwrap_or_default();
    text.lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}

fn certificate(folder: &Path) -> Certificate {
    serde_json::from_slice(&std::fs::read(folder.join("certificate.json")).unwrap()).unwrap()
}

/// So much more load than the burn-in in this folder has had, in seconds: how long that takes is the machine's affair.
fn load_and(more: u64, folder: &Path) -> u64 {
    let so_far = journal(folder).last().map_or(0, |line| line.load_ns.0);
    so_far / 1_000_000_000 + more
}

fn ended_cycles(folder: &Path) -> Vec<u32> {
    let ended = journal(folder).into_iter().filter_map(|line| match line.what {
        Journal::CycleEnded { cycle, .. } => Some(cycle),
        _ => None,
    });
    ended.collect()
}

#[test]
fn cycles_follow_each_other_with_other_data_until_the_time_is_over_and_old_samples_make_room() {
    let bench = Bench::new(SHORT);
    let mut ended = bench.railgauge("burn-in suite.toml --for 6s --out out");
    let out = bench.out();
    // On a busy machine a cycle may take all of it.
    while ended_cycles(&out).len() < 3 {
        let wanted = load_and(6, &out);
        ended = bench.railgauge(&format!("burn-in --resume out --for {wanted}s"));
    }
    let certificate = certificate(&out);
    assert_eq!(
        ended.code,
        Some(i32::from(certificate.exit_code)),
        "{}",
        ended.words()
    );
    assert!(certificate.load_ns >= certificate.wanted_ns);
    assert_eq!(certificate.ended, Some(EndReason::Finished));
    assert!(certificate.iterations > 0 && certificate.verified == certificate.iterations);
    assert_eq!(certificate.nodes.len(), 1, "one machine");
    assert!(
        certificate.links.is_empty(),
        "no cable is crossed within one machine"
    );
    for page in ["certificate.html", "certificate.md"] {
        assert!(
            std::fs::metadata(out.join(page)).is_ok_and(|file| file.len() > 0),
            "{page}"
        );
    }
    let cycles = ended_cycles(&out);
    assert!(cycles.iter().copied().eq(1..=cycles.len() as u32), "{cycles:?}");
    let [last, before] = [cycles.len() as u32, cycles.len() as u32 - 1].map(|cycle| {
        Recorded::read(&out.join(format!("cycles/{cycle:06}")))
            .unwrap()
            .run
    });
    assert_ne!(
        last.pattern_seed, before.pattern_seed,
        "every cycle has data of its own"
    );
    assert_eq!(last.seed, before.seed, "and the same cells");
    assert_eq!(last.cells, before.cells);
    let first = out.join("cycles/000001");
    assert!(first.join("histograms.jsonl").exists() && first.join("readings.json").exists());
    assert!(!first.join("samples.jsonl").exists(), "summarised, and gone");
    let status: serde_json::Value =
        serde_json::from_slice(&std::fs::read(out.join("status.json")).unwrap()).unwrap();
    assert_eq!(status["doing"], "ended");
    assert_eq!(status["ended"], "finished");
    let metrics = std::fs::read_to_string(out.join("metrics.prom")).unwrap();
    assert!(metrics.contains("railgauge_burn_in_ended 1\n") && metrics.ends_with("# EOF\n"));

    let again = bench
        .railgauge("burn-in suite.toml --for 6s --out out")
        .must_exit(2);
    assert!(again.stderr.contains("--resume out"), "{}", again.stderr);
    let rendered = bench.railgauge("report out");
    assert_eq!(
        rendered.code,
        Some(i32::from(certificate.exit_code)),
        "{}",
        rendered.words()
    );
}

#[test]
fn killed_in_the_middle_of_a_cycle_it_goes_on_there_and_loses_nothing() {
    let bench = Bench::new(SHORT);
    let out = bench.out();
    let run = bench.start("burn-in suite.toml --for 1h --out out --procs");
    let samples = out.join("cycles/000002/samples.jsonl");
    eventually("the second cycle is under way", || {
        std::fs::read_to_string(&samples).is_ok_and(|text| text.contains("cell-done"))
    });
    run.signal_group(Signal::SIGKILL);
    run.wait();
    let before = std::fs::read_to_string(&samples).unwrap();
    let whole = &before[..before.rfind('\n').map_or(0, |end| end + 1)];
    // What had been handed over to the kernel in the middle of a line.
    std::fs::write(&samples, format!("{whole}{{\"sample\":{{\"cel")).unwrap();
    let wanted = load_and(5, &out);
    let resumed = bench.railgauge(&format!("burn-in --resume out --for {wanted}s"));
    let certificate = certificate(&out);
    assert_eq!(
        resumed.code,
        Some(i32::from(certificate.exit_code)),
        "{}",
        resumed.words()
    );
    assert_eq!(certificate.resumed, 1);
    let cycles = ended_cycles(&out);
    assert!(
        cycles.iter().copied().eq(1..=cycles.len() as u32),
        "none twice: {cycles:?}"
    );
    let kept = journal(&out).into_iter().find_map(|line| match line.what {
        Journal::Met {
            resumes: Some(2),
            samples_kept,
            ..
        } => Some(samples_kept),
        _ => None,
    });
    assert_eq!(kept, Some(whole.matches("\"sample\"").count() as u64));
    if let Ok(after) = std::fs::read_to_string(&samples) {
        assert!(after.starts_with(whole), "lines were lost");
    }
}

/// Makes a recorded run one of another machine.
fn move_elsewhere(folder: &Path) {
    let path = folder.join(files::RUN);
    let mut run: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    for (list, name) in [("ranks", "host"), ("hosts", "name")] {
        for one in run[list].as_array_mut().unwrap() {
            one[name] = "elsewhere".into();
        }
    }
    std::fs::write(&path, serde_json::to_vec(&run).unwrap()).unwrap();
}

#[test]
fn a_cycle_that_was_cut_off_on_other_hosts_stays_as_it_is_and_the_next_one_begins() {
    let bench = Bench::new(SHORT);
    let out = bench.out();
    let run = bench.start("burn-in suite.toml --for 1h --out out --procs");
    let cut_off = out.join("cycles/000002");
    eventually("the second cycle is under way", || {
        std::fs::read_to_string(cut_off.join(files::SAMPLES)).is_ok_and(|text| text.contains("cell-done"))
    });
    run.signal_group(Signal::SIGKILL);
    run.wait();
    move_elsewhere(&cut_off);
    let wanted = load_and(3, &out);
    let resumed = bench.railgauge(&format!("burn-in --resume out --for {wanted}s"));
    let words = resumed.words();
    let stays = |line: &JournalLine| matches!(&line.what, Journal::CycleEnded { cycle: 2, ended, .. } if *ended == EndReason::Interrupted);
    assert!(journal(&out).iter().any(stays), "{:#?}", journal(&out));
    let certificate = certificate(&out);
    assert_eq!(certificate.ended, Some(EndReason::Finished), "{words}");
    let counting = certificate.incidents.iter().filter(|incident| incident.counts);
    assert_eq!(counting.count(), 0, "another place is no fault: {words}");
    let cycles = ended_cycles(&out);
    assert!(
        cycles.len() > 2 && cycles.iter().copied().eq(1..=cycles.len() as u32),
        "{cycles:?} {words}"
    );
}

#[test]
fn told_to_stop_it_ends_in_order_and_the_cycle_is_gone_on_with() {
    let bench = Bench::new(SHORT);
    let out = bench.out();
    let run = bench.start("burn-in suite.toml --for 1h --out out");
    eventually("a cycle is done", || !ended_cycles(&out).is_empty());
    run.signal(Signal::SIGTERM);
    let ended = run.wait();
    assert_eq!(
        certificate(&out).ended,
        Some(EndReason::Interrupted),
        "{}",
        ended.words()
    );
    let before = ended_cycles(&out).len() as u32;
    bench.railgauge("burn-in --resume out --for 1s");
    assert_eq!(certificate(&out).wanted_ns.as_secs_f64(), 1.0);
    let wanted = load_and(4, &out);
    let resumed = bench.railgauge(&format!("burn-in --resume out --for {wanted}s"));
    let cycles = ended_cycles(&out);
    assert!(cycles.len() as u32 > before, "{cycles:?} {}", resumed.words());
    assert!(cycles.iter().copied().eq(1..=cycles.len() as u32), "{cycles:?}");
}

#[test]
fn wrong_data_rejects_and_the_exit_code_says_so() {
    let bench = Bench::new(SHORT);
    let ended = bench
        .railgauge("burn-in suite.toml --for 3s --out out --inject flip:rank=1,iteration=3,byte=100,bit=2");
    let certificate = certificate(&bench.out());
    assert_eq!(certificate.ruling, Ruling::Reject);
    assert_eq!(ended.code, Some(22), "{}", ended.words());
    assert!(
        certificate
            .incidents
            .iter()
            .any(|incident| incident.counts && incident.kind.exit_code() == 22)
    );
    let first = Recorded::read(&bench.out().join("cycles/000001")).unwrap();
    let wrong = first
        .events
        .iter()
        .filter(|event| matches!(event, Event::Corruption(_)));
    assert!(wrong.count() > 0, "everything about suspects is kept");
}

#[test]
fn what_cannot_be_gone_on_with_is_refused_with_a_reason() {
    let bench = Bench::new(SHORT);
    let nothing = bench.railgauge("burn-in --resume nowhere").must_exit(1);
    assert!(
        nothing.stderr.contains("nowhere/burn-in.json"),
        "{}",
        nothing.stderr
    );
    std::fs::create_dir(bench.path().join("broken")).unwrap();
    std::fs::write(bench.path().join("broken/burn-in.json"), "{").unwrap();
    bench.railgauge("burn-in --resume broken").must_exit(2);
    bench.railgauge("burn-in").must_exit(2);
    let budget = bench
        .railgauge("burn-in suite.toml --budget 3s --out out")
        .must_exit(2);
    assert!(budget.stderr.contains("--for"), "{}", budget.stderr);
}
