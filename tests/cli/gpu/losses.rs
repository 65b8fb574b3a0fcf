//! Ranks on GPUs that die, stand still or cannot run together: the run ends in time and names them.

use record::FindingKind;

use super::bench;
use crate::harness::Bench;

/// A cell that does not end by itself within any test; 3 s is the deadline of every wait.
const LONG: &str = r#"
name = "long"
[run]
ranks = 2
rails = ["loop0=127.0.1.1"]
deadline = "3s"
[rule]
straggler_factor = 1000
[[test]]
name = "long"
collective = "all-reduce"
algorithm = "ring"
sizes = ["600K"]
warmup = 1
iterations = { min = 100000, max = 1000000 }
budget = "10m"
"#;

#[test]
fn killing_one_of_two_processes_on_a_gpu_ends_the_other_which_says_whom_it_waited_for() {
    for transport in ["peer", "tcp"] {
        let bench = bench(LONG);
        let words = format!("--device cuda --procs --transport {transport} --inject kill:rank=1,iteration=4");
        bench.run(&words).must_exit(21);
        let lost = bench.the_finding(FindingKind::LostRank);
        assert_eq!(lost.place.ranks, [1]);
        assert!(
            lost.sentence.contains("rank 0 waited for rank 1 in step"),
            "over {transport}: {}",
            lost.sentence
        );
    }
}

#[test]
fn a_process_that_stands_still_ends_the_kernel_of_the_other_at_the_deadline() {
    let bench = bench(LONG);
    let ended = bench
        .run("--device cuda --procs --inject freeze:rank=1,iteration=4")
        .must_exit(21);
    let words = ended.words();
    assert!(words.contains("rank 0 waited for rank 1 in step"), "{words}");
    assert!(words.contains("nothing moved for the deadline"), "{words}");
}

#[test]
fn a_rank_that_does_not_come_to_the_launch_is_named_by_those_who_share_its_gpu() {
    let bench = bench(LONG);
    let ended = bench
        .run("--device cuda --inject freeze:rank=1,iteration=4")
        .must_exit(21);
    let words = ended.words();
    assert!(words.contains("launch together with rank 1"), "{words}");
}

#[test]
fn more_ranks_than_a_gpu_runs_at_once_are_refused_before_they_hang() {
    let bench = bench(LONG);
    let ended = bench.run("--device cuda --ranks 64").must_exit(3);
    assert!(ended.stderr.contains("64 ranks share GPU"), "{}", ended.stderr);
    assert!(ended.stderr.contains("fewer ranks per GPU"), "{}", ended.stderr);
}

#[test]
fn a_throttle_that_could_not_strike_is_refused() {
    let bench = bench(LONG);
    let throttle = "--inject throttle:pair=0:1,rate=1MB/s";
    let ended = bench.run(&format!("--device cuda {throttle}")).must_exit(2);
    assert!(ended.stderr.contains("--transport tcp"), "{}", ended.stderr);
}

#[test]
fn without_a_driver_every_command_says_what_is_missing_and_exits_3() {
    let bench = Bench::new(LONG);
    std::fs::write(bench.path().join("libcuda.so.1"), "no library").unwrap();
    let here = bench.path().to_string_lossy().into_owned();
    let bench = bench.with("LD_LIBRARY_PATH", &here);
    for words in ["run suite.toml --out out", "plan suite.toml", "all-reduce"] {
        let ended = bench.railgauge(&format!("{words} --device cuda")).must_exit(3);
        assert!(ended.stderr.contains("libcuda.so.1"), "{words}: {}", ended.stderr);
    }
}
