//! Ranks that lose the first one: with `--rejoin` they wait for the next, otherwise they end.

use super::harness::{Lot, Started, eventually};

/// A run that measures, led by a process that is then killed.
fn leader_lost(lot: &Lot, rejoin: &str) -> Started {
    let words = "run long.toml --out first --launch env";
    let mut first = lot.start(words, &lot.own(0, 2));
    let other = lot.start(&format!("{words} {rejoin}"), &lot.own(1, 2));
    let samples = lot.path().join("first/samples.jsonl");
    eventually("it measures", || {
        std::fs::metadata(&samples).is_ok_and(|file| file.len() > 0)
    });
    first.child.kill().unwrap();
    first.child.wait().unwrap();
    other
}

#[test]
fn a_rank_whose_leader_died_takes_part_in_the_next_run() {
    let lot = Lot::new();
    let other = leader_lost(&lot, "--rejoin 100s");
    let second = lot.join(0, 2, "--rejoin 100s").wait();
    second.must_exit(20).says(&[]);
    assert_eq!(lot.launch().split(' ').next(), Some("2"), "{}", lot.launch());
    other
        .wait()
        .must_exit(0)
        .says(&["rank 1 lost rank 0", "rank 1 tries to rejoin at 127.0.0.1"]);
}

#[test]
fn a_rank_whose_leader_does_not_come_back_ends_when_it_has_waited_long_enough() {
    let lot = Lot::new();
    let ended = leader_lost(&lot, "--rejoin 1s").wait().must_exit(21);
    ended.says(&["rank 1 lost rank 0", "did not reach rank 0", "within 1 s"]);
}

#[test]
fn without_the_flag_a_lost_leader_is_the_end() {
    let lot = Lot::new();
    let ended = leader_lost(&lot, "").wait().must_exit(21);
    assert!(!ended.stderr.contains("tries to rejoin"), "{}", ended.stderr);
}

#[test]
fn nobody_comes_back_to_mpi() {
    let lot = Lot::new();
    let ended = lot.start("run suite.toml --launch mpi --rejoin 1m", "").wait();
    ended
        .must_exit(2)
        .says(&["--rejoin does not work with MPI", "use --launch env"]);
}
