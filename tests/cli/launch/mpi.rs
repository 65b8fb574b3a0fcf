//! Ranks that mpirun starts.

use std::process::Command;

use super::harness::{Lot, Started};

/// `mpirun -n 4 railgauge WORDS`; none where there is no mpirun.
fn mpirun(lot: &Lot, words: &str) -> Option<Started> {
    mpirun_beside(lot, words, &[])
}

/// The same with more words for mpirun behind it.
fn mpirun_beside(lot: &Lot, words: &str, more: &[&str]) -> Option<Started> {
    if Command::new("mpirun").arg("--version").output().is_err() {
        crate::skip::skip("mpi", "there is no mpirun here");
        return None;
    }
    let mut command = Command::new("mpirun");
    command.args([
        "--allow-run-as-root",
        "--oversubscribe",
        "-n",
        "4",
        "--bind-to",
        "none",
    ]);
    command.args([
        "--mca",
        "mpi_yield_when_idle",
        "1",
        "--mca",
        "btl_vader_single_copy_mechanism",
        "none",
    ]);
    command.arg(env!("CARGO_BIN_EXE_railgauge"));
    lot.prepare(&mut command, words, "RAILGAUGE_TOKEN=");
    command.args(more);
    Some(Started::spawn(command))
}

#[test]
fn a_process_that_never_starts_mpi_is_not_waited_for_forever() {
    let lot = Lot::new();
    let words = "run suite.toml --launch mpi --join-deadline 2s";
    let Some(run) = mpirun_beside(&lot, words, &[":", "-n", "1", "sleep", "1000"]) else {
        return;
    };
    let ended = run.wait().must_exit(21);
    ended.says(&["MPI did not start all ranks within 2 s"]);
}

#[test]
fn mpirun_starts_one_world_of_four() {
    for launch in ["--launch mpi", ""] {
        let lot = Lot::new();
        let Some(run) = mpirun(&lot, &format!("run suite.toml --out out {launch}")) else {
            return;
        };
        let ended = run.wait().must_exit(20);
        assert_eq!(
            ended.stdout.matches("INCONCLUSIVE small").count(),
            1,
            "{}",
            ended.stdout
        );
        let launch = lot.launch();
        assert!(
            launch.starts_with("4 processes on 1 host (Open MPI v4"),
            "{launch}"
        );
    }
}

#[test]
fn a_clean_run_ends_mpi_properly() {
    let lot = Lot::new();
    let Some(run) = mpirun(&lot, "all-reduce -b 1K -e 1K -n 4 --launch mpi") else {
        return;
    };
    let ended = run.wait().must_exit(0);
    assert!(ended.stdout.contains("4 ranks over tcp"), "{}", ended.stdout);
    assert!(!ended.stderr.contains("finalize"), "{}", ended.stderr);
}

#[test]
fn a_process_that_mpi_finds_alone_although_its_launcher_started_several_is_no_world() {
    let lot = Lot::new();
    let ended = lot
        .start("run suite.toml --launch mpi", "PMI_RANK=0 PMI_SIZE=4")
        .wait();
    ended
        .must_exit(3)
        .says(&["MPI says this process is alone, but PMI_SIZE=4", "do not match"]);
}
