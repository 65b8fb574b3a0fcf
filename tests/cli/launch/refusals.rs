//! What should be one world and is not, is noticed by everybody who could be misled.

use super::harness::{Lot, Started};

#[test]
fn a_missing_rank_is_named_with_its_host() {
    let lot = Lot::new();
    let variables = |rank| {
        format!(
            "SLURM_PROCID={rank} SLURM_NTASKS=3 SLURM_JOB_NODELIST=h[0-2] SLURM_TASKS_PER_NODE=1(x3) \
             RAILGAUGE_RENDEZVOUS=127.0.0.1:{}",
            lot.port
        )
    };
    let words = "run suite.toml --out out --launch env --join-deadline 3s";
    let joined = lot.start(words, &variables(1));
    let first = lot.start(words, &variables(0)).wait();
    first
        .must_exit(21)
        .says(&["rank 2 (h2) of 3 did not join within 3 s"]);
    joined.wait().must_exit(21).says(&["rank 1 lost rank 0"]);
}

#[test]
fn nobody_waits_for_ever_for_a_first_rank_that_is_not_there() {
    let lot = Lot::new();
    let ended = lot.join(1, 2, "--join-deadline 1s").wait().must_exit(21);
    ended.says(&[
        "rank 1 did not reach rank 0 at 127.0.0.1",
        "within 1 s",
        "Is rank 0 running",
    ]);
    let late = format!("{} RAILGAUGE_RENDEZVOUS=no-such-host.invalid:1", lot.own(1, 2));
    let ended = lot
        .start("run suite.toml --launch env --join-deadline 1s", &late)
        .wait();
    ended
        .must_exit(21)
        .says(&["no-such-host.invalid cannot be resolved"]);
}

#[test]
fn a_wrong_world_size_is_told_to_both_sides() {
    let lot = Lot::new();
    let first = lot.join(0, 2, "--join-deadline 4s");
    let other = lot.join(1, 8, "").wait().must_exit(3);
    other.says(&[
        "this run has 2 ranks, this process was started with world size 8",
        "separate worlds",
    ]);
    first.wait().must_exit(3).says(&[
        "rank 1 of 2 did not join",
        "tried to join as rank 1 of 8",
        "separate worlds",
    ]);
}

#[test]
fn a_rank_that_never_comes_is_not_waited_for_longer_than_the_whole_run_may_take() {
    let lot = Lot::new();
    let first = lot
        .join(0, 2, "--join-deadline 80s --budget 2s")
        .wait()
        .must_exit(21);
    first.says(&["rank 1 of 2 did not join within 2 s"]);
}

#[test]
fn a_second_process_with_the_same_rank_is_refused_and_the_run_is_no_success() {
    let lot = Lot::new();
    let words = "run long.toml --out out --launch env --budget 8s";
    let first = lot.start(words, &lot.own(0, 2));
    let joined = lot.start(words, &lot.own(1, 2));
    let samples = lot.out().join("samples.jsonl");
    super::harness::eventually("it measures", || {
        std::fs::metadata(&samples).is_ok_and(|file| file.len() > 0)
    });
    let second = lot.join(1, 2, "").wait().must_exit(3);
    second.says(&["rank 1 has joined already from 127.0.0.1", "a rank of its own"]);
    first
        .wait()
        .must_exit(20)
        .says(&["separate worlds: a second process tried to join as rank 1 from 127.0.0.1"]);
    joined.wait().must_exit(0);
}

#[test]
fn two_worlds_on_one_meeting_place_do_not_both_succeed() {
    let lot = Lot::new();
    let words = "run long.toml --out out --launch env --budget 8s";
    let first: Vec<Started> = (0..2).map(|rank| lot.start(words, &lot.own(rank, 2))).collect();
    let samples = lot.out().join("samples.jsonl");
    super::harness::eventually("it measures", || {
        std::fs::metadata(&samples).is_ok_and(|file| file.len() > 0)
    });
    lot.join(0, 2, "")
        .wait()
        .must_exit(3)
        .says(&["port taken", "another rank 0 of this run listens there already"]);
    lot.join(0, 4, "")
        .wait()
        .must_exit(3)
        .says(&["world size 2 listens there already, this process has world size 4"]);
    for ended in first.into_iter().map(Started::wait) {
        assert!(
            ended.stdout.is_empty() || ended.stderr.contains("separate worlds"),
            "{}",
            ended.stderr
        );
    }
}

#[test]
fn a_wrong_token_is_refused_and_nothing_more_is_said() {
    let lot = Lot::new();
    let first = lot.join(0, 2, "--join-deadline 4s");
    let stranger = Lot::new();
    let ended = lot
        .start(
            "run suite.toml --launch env",
            &format!("{} RAILGAUGE_TOKEN={}", lot.own(1, 2), stranger.token),
        )
        .wait()
        .must_exit(3);
    let ended = ended.says(&["rank 1 was refused", "same RAILGAUGE_TOKEN"]);
    assert!(!ended.stderr.contains("ranks, you say"), "{}", ended.stderr);
    first
        .wait()
        .must_exit(21)
        .says(&["rank 1 of 2 did not join", "wrong run token"]);
}

#[test]
fn a_port_that_something_else_holds_is_named() {
    let lot = Lot::new();
    let _held = std::net::TcpListener::bind(("127.0.0.1", lot.port)).unwrap();
    let ended = lot.join(0, 2, "").wait().must_exit(3);
    ended.says(&["port taken: 127.0.0.1", "choose another port"]);
}

#[test]
fn the_first_rank_must_run_where_ranks_meet() {
    let lot = Lot::new();
    let variables = format!("{} RAILGAUGE_RENDEZVOUS=192.0.2.1:29400", lot.own(0, 2));
    let ended = lot
        .start("run suite.toml --launch env", &variables)
        .wait()
        .must_exit(3);
    ended.says(&["192.0.2.1 is not an address of this machine: rank 0 must run on 192.0.2.1"]);
}

#[test]
fn launchers_that_disagree_start_nothing() {
    let lot = Lot::new();
    let variables = "SLURM_PROCID=1 SLURM_NTASKS=4 OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1";
    let ended = lot
        .start("run suite.toml --launch env --out out", variables)
        .wait()
        .must_exit(3);
    ended.says(&["SLURM_NTASKS=4", "OMPI_COMM_WORLD_SIZE=1", "separate worlds"]);
    assert!(!lot.out().exists());
}

#[test]
fn half_said_or_unsaid_is_an_error_that_says_what_to_set() {
    let lot = Lot::new();
    for (words, variables, says) in [
        (
            "--launch env",
            "",
            "set RAILGAUGE_RANK, RAILGAUGE_WORLD and RAILGAUGE_RENDEZVOUS",
        ),
        ("", "RANK=1", "RANK is set but WORLD_SIZE is not"),
        (
            "--launch env",
            "PMI_RANK=0 PMI_SIZE=2",
            "set RAILGAUGE_RENDEZVOUS=HOST:PORT",
        ),
        (
            "--launch env --rank 0 --world 2 --rendezvous 0.0.0.0:1",
            "",
            "not the unspecified address",
        ),
        ("--launch local --rank 1", "", "--launch local starts all ranks"),
        ("--launch env --hosts nowhere", "", "nowhere: No such file"),
    ] {
        let ended = lot
            .start(&format!("run suite.toml {words}"), variables)
            .wait()
            .must_exit(2);
        ended.says(&[says]);
    }
    let two = format!("{} {}", lot.own(0, 2), "");
    let ended = lot
        .start("run suite.toml --launch env --ranks 4", &two)
        .wait()
        .must_exit(2);
    ended.says(&["--ranks starts ranks on this machine"]);
}
