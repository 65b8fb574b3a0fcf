//! Every way of saying rank, world and meeting place leads to the same run.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::harness::{Ended, Lot, Started, eventually};

/// Starts four processes with the variables that `of` gives each rank; rank 0 last, as it may come.
fn four(lot: &Lot, words: &str, of: impl Fn(u32) -> String) -> Vec<Ended> {
    let words = format!("run suite.toml --out out {words}");
    let mut started: Vec<Started> = (0..4).rev().map(|rank| lot.start(&words, &of(rank))).collect();
    started.reverse();
    started.into_iter().map(Started::wait).collect()
}

/// The first rank reports, the others say nothing and end well.
#[track_caller]
fn one_world(lot: &Lot, ended: Vec<Ended>, launch: &str) {
    for (rank, ended) in ended.into_iter().enumerate() {
        let ended = ended.must_exit(if rank == 0 { 20 } else { 0 });
        assert_eq!(
            ended.stdout.is_empty(),
            rank != 0,
            "rank {rank}: {}",
            ended.stdout
        );
    }
    assert_eq!(lot.launch(), format!("4 processes on 1 host ({launch})"));
}

#[test]
fn railgauges_own_variables() {
    let lot = Lot::new();
    let ended = four(&lot, "--launch env", |rank| lot.own(rank, 4));
    one_world(&lot, ended, "railgauge's variables");
}

#[test]
fn torchruns_variables_without_a_word_about_launching() {
    let lot = Lot::new();
    let port = lot.port;
    let ended = four(&lot, "", |rank| {
        format!("RANK={rank} WORLD_SIZE=4 MASTER_ADDR=localhost MASTER_PORT={port}")
    });
    one_world(&lot, ended, "torchrun's variables");
}

#[test]
fn slurms_variables_without_a_word_about_launching() {
    let lot = Lot::new();
    let job = u32::from(lot.port);
    let ended = four(&lot, "", |rank| {
        format!(
            "SLURM_PROCID={rank} SLURM_NTASKS=4 SLURM_STEP_NODELIST=localhost SLURM_TASKS_PER_NODE=4 SLURM_JOB_ID={job} \
             SLURM_STEP_ID=0"
        )
    });
    one_world(&lot, ended, "Slurm variables");
}

#[test]
fn open_mpis_and_pmis_variables_with_a_meeting_place() {
    for (rank_name, world_name, launch) in [
        (
            "OMPI_COMM_WORLD_RANK",
            "OMPI_COMM_WORLD_SIZE",
            "Open MPI's variables",
        ),
        ("PMI_RANK", "PMI_SIZE", "PMI variables"),
    ] {
        let lot = Lot::new();
        let port = lot.port;
        let ended = four(&lot, "--launch env", |rank| {
            format!("{rank_name}={rank} {world_name}=4 RAILGAUGE_RENDEZVOUS=127.0.0.1:{port}")
        });
        one_world(&lot, ended, launch);
    }
}

#[test]
fn flags_alone_and_rails_by_name() {
    let lot = Lot::new();
    let words = |rank| {
        format!(
            "run suite.toml --out out --launch env --rank {rank} --world 2 --rendezvous 127.0.0.1:{} --rails \
             a=127.0.1.1,b=127.0.1.2 --data-port {}",
            lot.port,
            lot.port + 1
        )
    };
    let other = lot.start(&words(1), "");
    lot.start(&words(0), "").wait().must_exit(20);
    other.wait().must_exit(0);
    let run = std::fs::read_to_string(lot.out().join("run.json")).unwrap();
    assert!(run.contains("\"rail\": \"b\""), "{run}");
}

#[test]
fn a_hosts_file() {
    let lot = Lot::new();
    std::fs::write(
        lot.path().join("hosts"),
        "# all here\n127.0.0.1 slots=3\nlocalhost # the fourth\n",
    )
    .unwrap();
    let ended: Vec<Ended> = {
        let words = |rank| {
            format!(
                "run suite.toml --out out --launch env --hosts hosts --rank {rank} --rendezvous :{}",
                lot.port
            )
        };
        let started: Vec<Started> = (0..4).map(|rank| lot.start(&words(rank), "")).collect();
        started.into_iter().map(Started::wait).collect()
    };
    one_world(&lot, ended, "the hosts file");
}

#[test]
fn all_reduce_runs_on_many_processes_and_prints_once() {
    let lot = Lot::new();
    let words = "all-reduce -b 1K -e 4K -f 2 -n 4 --launch env";
    let others: Vec<Started> = (1..3).map(|rank| lot.start(words, &lot.own(rank, 3))).collect();
    let first = lot.start(words, &lot.own(0, 3)).wait().must_exit(0);
    assert!(first.stdout.contains("3 ranks over tcp"), "{}", first.stdout);
    assert!(
        first.stdout.contains("# Out of bounds values : 0 OK"),
        "{}",
        first.stdout
    );
    for other in others {
        assert_eq!(other.wait().must_exit(0).stdout, "");
    }
}

#[test]
fn a_scheduler_that_ends_the_job_gets_a_partial_report_from_the_first_rank() {
    let lot = Lot::new();
    let words = "run long.toml --out out --launch env";
    let others: Vec<Started> = (1..3).map(|rank| lot.start(words, &lot.own(rank, 3))).collect();
    let first = lot.start(words, &lot.own(0, 3));
    let samples = lot.out().join("samples.jsonl");
    eventually("samples are written", || {
        std::fs::metadata(&samples).is_ok_and(|file| file.len() > 0)
    });
    // Schedulers send it to all processes at the same time; nobody is to be taken for lost.
    for process in others.iter().chain([&first]) {
        kill(Pid::from_raw(process.child.id() as i32), Signal::SIGTERM).unwrap();
    }
    let first = first.wait().must_exit(20);
    assert!(first.stdout.contains("incomplete"), "{}", first.stdout);
    for other in others {
        other.wait().must_exit(0);
    }
}

#[test]
fn a_rank_that_is_told_to_end_by_itself_ends() {
    let lot = Lot::new();
    let alone = lot.join(1, 2, "--join-deadline 100s");
    std::thread::sleep(std::time::Duration::from_millis(500));
    kill(Pid::from_raw(alone.child.id() as i32), Signal::SIGTERM).unwrap();
    alone.wait().must_exit(128 + 15);
}
