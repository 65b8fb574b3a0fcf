//! NCCL as engine, end to end on the CPU shim: the library is a stand-in that does what it is told, and what is around it is
//! what runs beside the real one. Ranks are threads: the stand-in knows no other processes.

use std::path::Path;
use std::process::{Command, Output};

/// `railgauge all-reduce` on two ranks of the shim's GPU, 1 KiB and 4 KiB, with the stand-in.
fn all_reduce(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let sweep = [
        "all-reduce",
        "--device",
        "cuda",
        "--ranks",
        "2",
        "-b",
        "1K",
        "-e",
        "4K",
        "-f",
        "4",
        "-n",
        "3",
    ];
    railgauge(&[&sweep, arguments].concat(), variables)
}

fn railgauge(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let shim = crate::shim::folder();
    let mut command = Command::new(env!("CARGO_BIN_EXE_railgauge"));
    command
        .args(arguments)
        .env("LD_LIBRARY_PATH", shim)
        .env("NCCL_LIB", shim.join("nccl/libnccl.so.2"))
        .envs(variables.iter().copied());
    command.output().expect("railgauge can be started")
}

fn text(output: &Output) -> String {
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    format!("{out}{err}")
}

#[test]
fn the_same_cells_run_by_both_engines_and_are_right() {
    for batch in ["1", "4"] {
        let done = all_reduce(&["--engine", "both", "-c", "1", "--batch", batch], &[]);
        let text = text(&done);
        assert_eq!(done.status.code(), Some(0), "{text}");
        let rows = |engine: &str| text.lines().filter(|line| line.ends_with(engine)).count();
        assert_eq!((rows("  ours"), rows("  nccl")), (2, 2), "{text}");
        assert!(text.contains("# Out of bounds values : 0 OK"), "{text}");
    }
}

#[test]
fn a_suite_by_both_engines_is_reported_side_by_side_with_the_version() {
    let folder = tempfile::tempdir().unwrap();
    let suite = folder.path().join("both.toml");
    let tests = "name = \"both\"\n[run]\ndevice = \"cuda\"\nranks = 3\nengine = \"both\"\n\
        [[test]]\nname = \"t\"\ncollective = [\"all-reduce\", \"reduce-scatter\", \"all-gather\", \"broadcast\", \"all-to-all\"]\n\
        sizes = [\"3K\"]\ntype = [\"f32\", \"i64\"]\niterations = 6\nwarmup = 1\nbudget = \"30s\"\n\
        [[test]]\nname = \"pairs\"\nkind = \"pairs\"\nsizes = [\"1K\"]\niterations = 6\nwarmup = 1\nbudget = \"30s\"\n";
    std::fs::write(&suite, tests).unwrap();
    let out = folder.path().join("out");
    let (suite, out) = (suite.to_str().unwrap(), out.to_str().unwrap());
    let done = railgauge(&["run", suite, "--out", out], &[]);
    let text = text(&done);
    let read = |name: &str| -> serde_json::Value {
        let file = std::fs::read(Path::new(out).join(name)).unwrap_or_else(|_| panic!("{name}: {text}"));
        serde_json::from_slice(&file).unwrap()
    };
    let run = read("run.json");
    assert_eq!(run["nccl"]["version"], "2.30.99", "{run}");
    let findings = read("findings.json");
    let rows = findings["engines"].as_array().unwrap();
    // Ten collectives, and three pairs in two directions and both.
    assert_eq!(rows.len(), 10 + 9, "{text}");
    assert_eq!(findings["coverage"]["measured"], 2 * rows.len(), "{text}");
    assert!(findings["findings"].as_array().unwrap().is_empty(), "{findings}");
}

#[test]
fn nccl_that_refuses_two_ranks_on_one_gpu_is_not_asked_and_that_is_said() {
    let old = [("RG_NCCL_VERSION", "22809")];
    let both = all_reduce(&["--engine", "both"], &old);
    assert_eq!(both.status.code(), Some(0), "{}", text(&both));
    assert!(
        text(&both).contains("NCCL 2.28.9 refuses two ranks of one process on one GPU"),
        "{}",
        text(&both)
    );
    let alone = all_reduce(&["--engine", "nccl"], &old);
    assert_eq!(alone.status.code(), Some(3), "{}", text(&alone));
    assert!(
        text(&alone).contains("leaves nothing to measure"),
        "{}",
        text(&alone)
    );
}

#[test]
fn without_the_library_the_run_ends_with_what_is_missing() {
    let missing = [("NCCL_LIB", "/nowhere/libnccl.so.2")];
    let done = all_reduce(&["--engine", "both"], &missing);
    assert_eq!(done.status.code(), Some(3), "{}", text(&done));
    assert!(text(&done).contains("/nowhere/libnccl.so.2"), "{}", text(&done));
    let host = railgauge(&["all-reduce", "--engine", "nccl"], &[]);
    assert_eq!(host.status.code(), Some(2), "{}", text(&host));
}

#[test]
fn a_rank_that_hangs_in_nccl_ends_the_run_within_the_deadline() {
    let started = std::time::Instant::now();
    let done = all_reduce(
        &["--engine", "nccl", "--deadline", "2s"],
        &[("RG_NCCL_HANG", "1")],
    );
    let text = text(&done);
    assert_eq!(done.status.code(), Some(21), "{text}");
    assert!(text.contains("NCCL"), "{text}");
    assert!(
        !text.contains("no answer"),
        "a rank says where it stood before the coordinator gives it up: {text}"
    );
    assert!(
        started.elapsed() < crate::harness::HANGS,
        "it hung, whatever else this machine was doing: {text}"
    );
}

#[test]
fn wrong_data_by_nccl_is_named() {
    let done = all_reduce(&["--engine", "nccl", "-c", "1"], &[("RG_NCCL_FLIP", "1")]);
    assert_eq!(done.status.code(), Some(22), "{}", text(&done));
    assert!(text(&done).contains("bit 0 flipped"), "{}", text(&done));
}
