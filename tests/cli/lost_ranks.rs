//! Ranks that die or stand still: the run ends soon, names them, and keeps what was measured.

use nix::sys::signal::{Signal, kill};
use record::{EndReason, Event, FindingKind};

use crate::harness::{Bench, LONG, done, eventually, is_alive};

/// What must hold after rank 1 of `LONG` was lost in the long cell.
fn rank_1_is_named_and_everything_earlier_is_kept(bench: &Bench) {
    let lost = bench.the_finding(FindingKind::LostRank);
    assert_eq!(lost.place.ranks, [1]);
    assert!(lost.sentence.contains("rank 1"), "{}", lost.sentence);
    // Lost after its last step of an iteration, nobody waits for it in a step; then that is what is said.
    let steps = [
        "rank 0 waited for rank 1 in step",
        "rank 0 was in wait for the next order (",
    ];
    assert!(
        steps.iter().any(|step| lost.sentence.contains(step)),
        "{}",
        lost.sentence
    );
    let recorded = bench.recorded();
    assert_eq!(done(&recorded).len(), 1, "the cell before it is complete");
    let in_flight = recorded
        .samples
        .iter()
        .filter(|sample| sample.cell == lost.cells[0]);
    assert!(in_flight.count() >= 6, "iterations before the loss are kept");
    let end = recorded.events.last();
    assert!(
        matches!(
            end,
            Some(Event::End {
                reason: EndReason::Lost,
                ..
            })
        ),
        "{end:?}"
    );
    let again = bench.railgauge("report out").must_exit(21);
    assert!(again.stdout.contains("rank 1"), "{}", again.stdout);
}

#[test]
fn a_rank_killed_on_purpose_is_named_with_the_step_others_were_in() {
    let bench = Bench::new(LONG);
    // Beyond the iterations of the short cell, so that it strikes in the long one.
    let ended = bench
        .run("--procs --inject kill:rank=1,iteration=10")
        .must_exit(21);
    assert!(
        ended.words().contains("rank 0 waited for rank 1 in step"),
        "{}",
        ended.stdout
    );
    assert!(ended.stdout.contains("SIGKILL"), "{}", ended.stdout);
    rank_1_is_named_and_everything_earlier_is_kept(&bench);
    let recorded = bench.recorded();
    let of_long = |rank| {
        let last = recorded.samples.iter().filter(|sample| sample.rank == rank);
        last.map(|sample| sample.iter).max()
    };
    assert_eq!(
        (of_long(0), of_long(1)),
        (Some(9), Some(9)),
        "every earlier iteration is on disk"
    );
}

#[test]
fn a_rank_killed_by_the_system_is_named_with_the_step_others_were_in() {
    let bench = Bench::new(LONG);
    let run = bench.start_measuring("--procs");
    eventually("the long cell is under way", || {
        done(&bench.recorded()).len() == 1 && bench.recorded().samples.len() > 50
    });
    kill(bench.pid_of(1), Signal::SIGKILL).unwrap();
    let ended = run.wait().must_exit(21);
    assert!(ended.stdout.contains("SIGKILL"), "{}", ended.stdout);
    rank_1_is_named_and_everything_earlier_is_kept(&bench);
    assert!(!is_alive(bench.pid_of(0)), "the other rank was left behind");
}

#[test]
fn a_rank_that_freezes_is_named_not_the_one_that_waited_for_it() {
    for words in ["--transport shm", "--transport tcp", "--procs"] {
        let bench = Bench::new(LONG);
        let freeze = format!("--deadline 1s --inject freeze:rank=1,iteration=2 {words}");
        let ended = bench.run(&freeze).must_exit(21);
        let hang = bench.the_finding(FindingKind::LostRank);
        assert_eq!(hang.place.ranks, [1], "{}", hang.sentence);
        assert!(
            hang.sentence.contains("rank 0 waited for rank 1 in step"),
            "{}",
            hang.sentence
        );
        assert!(
            ended.words().contains("rank 0 waited for rank 1 in step"),
            "{}",
            ended.stdout
        );
        assert!(!bench.recorded().samples.is_empty());
    }
}

#[test]
fn a_stopped_process_ends_the_run_within_its_deadline_and_is_named() {
    let bench = Bench::new(LONG);
    let run = bench.start_measuring("--procs --deadline 1s");
    let (healthy, stopped) = (bench.pid_of(0), bench.pid_of(1));
    kill(stopped, Signal::SIGSTOP).unwrap();
    run.wait().must_exit(21);
    let hang = bench.the_finding(FindingKind::LostRank);
    assert_eq!(hang.place.ranks, [1], "{}", hang.sentence);
    // Stopped between its last step and its answer, nobody but the coordinator waits for it.
    let waits = [
        "rank 0 waited for rank 1",
        "no answer for",
        "not heard over the management network",
    ];
    assert!(
        waits.iter().any(|wait| hang.sentence.contains(wait)),
        "{}",
        hang.sentence
    );
    for pid in [healthy, stopped] {
        assert!(!is_alive(pid), "a rank's process was left behind");
    }
}
