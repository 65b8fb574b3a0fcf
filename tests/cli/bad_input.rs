//! What users get wrong: the answer names the place and what would be right, and nothing is measured.

use std::path::Path;
use std::process::Command;

use crate::harness::{Bench, SMALL};

/// Runs `SMALL` with `from` replaced by `to`; the complaint.
fn complaint(from: &str, to: &str) -> String {
    let suite = SMALL.replace(from, to);
    assert_ne!(suite, SMALL);
    let bench = Bench::new(&suite);
    let ended = bench.run("").must_exit(2);
    assert!(
        !bench.out().exists(),
        "a folder was made for a run that cannot be"
    );
    ended.stderr
}

#[test]
fn a_mistyped_key_is_placed_and_the_nearest_named() {
    let error = complaint("warmup = 1", "warmpu = 1");
    assert!(error.contains("suite.toml:12:1: unknown key `warmpu`"), "{error}");
    assert!(error.contains("did you mean `warmup`?"), "{error}");
}

#[test]
fn broken_toml_is_placed() {
    let error = complaint("ranks = 2", "ranks = = 2");
    assert!(error.contains("suite.toml:4:9: "), "{error}");
}

#[test]
fn a_wrong_value_is_placed() {
    let error = complaint("\"ring\"\nsizes", "\"rign\"\nsizes");
    assert!(error.contains("suite.toml:10:13: "), "{error}");
    assert!(error.contains("did you mean `ring`?"), "{error}");
}

#[test]
fn an_unknown_suite_lists_those_built_in() {
    let bench = Bench::new(SMALL);
    let error = bench.railgauge("run smok --out out").must_exit(2).stderr;
    assert!(error.contains("smoke, all-reduce, rails"), "{error}");
    let error = bench.railgauge("run no/such.toml --out out").must_exit(2).stderr;
    assert!(error.contains("no/such.toml"), "{error}");
    assert!(!bench.out().exists());
}

#[test]
fn an_unknown_type_or_operator_names_the_valid_ones() {
    let bench = Bench::new(SMALL);
    let error = bench.railgauge("all-reduce -d flaot").must_exit(2).stderr;
    assert!(
        error.contains("f32, f64, f16, bf16, i32, i64, u32, u8, all"),
        "{error}"
    );
    assert!(error.contains("float, double, half, bfloat16"), "{error}");
    let error = bench.railgauge("all-reduce -o sun").must_exit(2).stderr;
    assert!(
        error.contains("sum, prod, min, max, avg, all; did you mean `sum`?"),
        "{error}"
    );
}

#[test]
fn a_mistyped_fault_or_filter_is_refused_with_what_there_is() {
    let bench = Bench::new(SMALL);
    let error = bench.run("--inject flop:rank=1").must_exit(2).stderr;
    assert!(error.contains("flip:rank=R"), "{error}");
    let error = bench.run("--only colour=red").must_exit(2).stderr;
    assert!(error.contains("colour"), "{error}");
    assert!(!bench.out().exists());
}

#[test]
fn a_topology_that_cannot_be_about_this_run_is_refused_before_anything_is_measured() {
    let bench = Bench::new(SMALL);
    let host = nix::unistd::gethostname().unwrap().into_string().unwrap();
    let file = |host: &str, port: &str| {
        let text = format!(
            "[[host]]\nname = \"{host}\"\n[[switch]]\nname = \"leaf\"\ntier = \"leaf\"\n\n[[link]]\nname = \"c\"\n\
ends = [\"{host}/{port}\", \"leaf/p0\"]\nrate = \"1 Gb/s\"\n"
        );
        std::fs::write(bench.path().join("fabric.toml"), text).unwrap();
        bench.run("--rails loop0=127.0.1.1 --topology fabric.toml")
    };
    let error = file("elsewhere", "loop0").must_exit(2).stderr;
    let wanted = format!("fabric.toml: rank 0 runs on host `{host}`, which is not in this file");
    assert!(error.contains(&wanted), "{error}");
    let error = file(&host, "loop7").must_exit(2).stderr;
    let wanted = format!("fabric.toml:1: host `{host}` uses rail `loop0` (rank 0), but no cable ends at");
    assert!(error.contains(&wanted), "{error}");
    assert!(
        !bench.out().join("samples.jsonl").exists(),
        "something was measured"
    );
}

#[test]
fn a_missing_spec_row_is_inconclusive_never_a_pass() {
    let asked_in_suite = format!("{SMALL}[test.expect]\nspec = \"NOSUCH\"\n");
    for (suite, words) in [(SMALL, "--spec NOSUCH"), (asked_in_suite.as_str(), "")] {
        let bench = Bench::new(suite);
        let ended = bench.run(&format!("--transport tcp {words}")).must_exit(20);
        assert!(ended.stdout.contains("INCONCLUSIVE"), "{}", ended.stdout);
        let judgement = serde_json::to_string(&bench.judgement()).unwrap();
        assert!(
            judgement.contains("NOSUCH"),
            "the missing row is not named: {judgement}"
        );
    }
}

#[test]
fn a_filter_that_matches_nothing_is_an_error_not_an_empty_success() {
    let bench = Bench::new(SMALL);
    for command in ["plan suite.toml", "run suite.toml --out out"] {
        let error = bench
            .railgauge(&format!("{command} --only size=77M"))
            .must_exit(2)
            .stderr;
        assert!(error.contains("matches no cell"), "{error}");
        assert!(error.contains("64 KiB"), "what there is is not named: {error}");
    }
}

#[test]
fn a_missing_or_foreign_run_folder_is_a_usage_error() {
    let bench = Bench::new(SMALL);
    let error = bench.railgauge("report nowhere").must_exit(2).stderr;
    assert!(error.contains("nowhere"), "{error}");
    std::fs::create_dir(bench.out()).unwrap();
    std::fs::write(bench.out().join("run.json"), "{\"schema\": 1, \"hello\": []}").unwrap();
    let error = bench.railgauge("report out").must_exit(2).stderr;
    assert!(error.contains("run.json"), "{error}");
    std::fs::write(bench.out().join("run.json"), "{\"schema\": 999}").unwrap();
    let error = bench.railgauge("report out").must_exit(2).stderr;
    assert!(error.contains("newer"), "{error}");
}

#[test]
fn an_output_folder_that_cannot_be_made_ends_the_run_before_measuring() {
    let bench = Bench::new(SMALL);
    let ended = bench
        .railgauge("run suite.toml --out suite.toml/below")
        .must_exit(1);
    assert!(ended.stderr.contains("suite.toml/below"), "{}", ended.stderr);
    assert!(
        !ended.stderr.contains("joined"),
        "ranks were started: {}",
        ended.stderr
    );
}

#[test]
fn a_folder_that_holds_a_run_is_never_written_over() {
    let bench = Bench::new(SMALL);
    bench.run("").must_exit(20);
    let before = std::fs::read(bench.out().join("samples.jsonl")).unwrap();
    let ended = bench.run("").must_exit(1);
    assert!(ended.stderr.contains("--out"), "{}", ended.stderr);
    assert!(
        !ended.stderr.contains("joined"),
        "ranks were started: {}",
        ended.stderr
    );
    assert_eq!(std::fs::read(bench.out().join("samples.jsonl")).unwrap(), before);
}

/// A tiny file system, until dropped.
struct Tiny<'p>(&'p Path);

impl<'p> Tiny<'p> {
    fn mount(at: &'p Path) -> Result<Tiny<'p>, String> {
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=64k", "tmpfs"])
            .arg(at)
            .output();
        match mount {
            Ok(output) if output.status.success() => Ok(Tiny(at)),
            Ok(output) => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
            Err(error) => Err(error.to_string()),
        }
    }
}

impl Drop for Tiny<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0).status();
    }
}

#[test]
fn a_full_disk_ends_the_run_before_measuring() {
    let bench = Bench::new(SMALL);
    let disk = bench.path().join("disk");
    std::fs::create_dir(&disk).unwrap();
    let _mounted = match Tiny::mount(&disk) {
        Ok(mounted) => mounted,
        Err(reason) => return crate::skip::skip("small-file-system", &reason.to_string()),
    };
    let ended = bench.railgauge("run suite.toml --out disk/run").must_exit(1);
    assert!(ended.stderr.contains("disk/run"), "{}", ended.stderr);
    assert!(!disk.join("run/samples.jsonl").exists());
    assert!(
        !ended.stderr.contains("joined"),
        "ranks were started: {}",
        ended.stderr
    );
}
