//! Runs that are ended from outside: what was measured is kept and judged, and nothing is left running.

use nix::sys::signal::Signal;
use record::{EndReason, Event};

use crate::harness::{Bench, LONG, Started, eventually, is_alive, longer_than_expected};

/// Ends a run under way with `end`; what must then be there.
fn keeps_what_was_measured(words: &str, end: impl FnOnce(&Started)) {
    let bench = Bench::new(LONG);
    let run = bench.start_measuring(words);
    end(&run);
    let ended = run.wait().must_exit(20);
    assert!(ended.stdout.contains("incomplete"), "{}", ended.stdout);
    assert!(bench.out().join("report.md").exists());
    let recorded = bench.recorded();
    assert!(!recorded.truncated && !recorded.samples.is_empty());
    let last = recorded.events.last();
    assert!(
        matches!(
            last,
            Some(Event::End {
                reason: EndReason::Interrupted,
                ..
            })
        ),
        "{last:?}"
    );
    assert_eq!(bench.judgement().ended, Some(EndReason::Interrupted));
    bench.railgauge("report out").must_exit(20);
}

#[test]
fn ctrl_c_keeps_what_was_measured() {
    keeps_what_was_measured("", |run| run.signal_group(Signal::SIGINT));
}

#[test]
fn ctrl_c_on_processes_keeps_what_was_measured_and_loses_no_rank() {
    // A terminal sends it to all of them; the ranks must not take it for their own end.
    keeps_what_was_measured("--procs", |run| run.signal_group(Signal::SIGINT));
}

#[test]
fn a_scheduler_that_ends_the_job_gets_a_partial_report() {
    keeps_what_was_measured("--procs", |run| run.signal(Signal::SIGTERM));
}

#[test]
fn a_spent_budget_ends_the_run_with_what_was_measured() {
    let bench = Bench::new(&longer_than_expected());
    bench.run("--budget 1s").must_exit(20);
    assert_eq!(bench.judgement().ended, Some(EndReason::Budget));
    assert!(!bench.recorded().samples.is_empty());
}

#[test]
fn a_long_warm_up_does_not_use_up_the_time_for_measuring() {
    let suite = LONG.replace("budget = \"10m\"\n", "");
    let suite = suite.replace("warmup = 1\n", "warmup = 100000\nbudget = \"800ms\"\n");
    let suite = suite.replace("{ min = 100000, max = 1000000 }", "8");
    let bench = Bench::new(&suite);
    // Every iteration takes tens of milliseconds: the whole warm-up would take an hour.
    bench.run("--inject throttle:rail=loop0,rate=1MB/s").must_exit(20);
    assert_eq!(bench.judgement().ended, Some(EndReason::Finished));
    assert!(!bench.recorded().samples.is_empty());
}

#[test]
fn ranks_do_not_outlive_a_killed_run_and_its_record_is_still_judged() {
    let bench = Bench::new(LONG);
    let run = bench.start_measuring("--procs");
    let ranks = [bench.pid_of(0), bench.pid_of(1)];
    assert!(ranks.iter().all(|rank| is_alive(*rank)));
    run.signal(Signal::SIGKILL);
    assert_eq!(run.wait().code, None);
    eventually("the ranks have ended by themselves", || {
        !ranks.iter().any(|rank| is_alive(*rank))
    });
    let ended = bench.railgauge("report out").must_exit(20);
    assert!(ended.stdout.contains("incomplete"), "{}", ended.stdout);
    assert_eq!(bench.judgement().ended, None);
    assert!(!bench.recorded().samples.is_empty());
}
