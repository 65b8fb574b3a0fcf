//! A run with less time than its suite asks for: it leaves out what it can best do without, says so, and ends in time.

use record::{EndReason, Untested, Verdict};

use crate::harness::{Bench, done};

/// Expected to take about fourteen seconds, since the estimate counts every iteration of the warm-up; a cell ends its warm-up after a quarter of
/// its budget, so that even a busy machine is far faster.
const MUCH: &str = r#"
name = "much"
[run]
ranks = 2
deadline = "10s"
transport = "shm"
[rule]
# Other tests run beside: who was slow here for a moment says nothing.
straggler_factor = 1000
remeasure = 0
[[test]]
name = "pairs"
kind = "pairs"
directions = "one-way"
sizes = ["4K"]
warmup = 100000
iterations = 8
budget = "1s"
[test.expect]
peers = "99%"
[[test]]
name = "sweep"
collective = "all-reduce"
algorithm = "ring"
groups = [[0, 1], [1, 0]]
sizes = { from = "64", to = "4K", factor = 4 }
warmup = 100000
iterations = 8
budget = "1s"
[test.expect]
peers = "99%"
[[test]]
name = "again"
collective = "all-gather"
groups = [[0, 1], [1, 0]]
sizes = ["64", "4K"]
warmup = 100000
iterations = 8
budget = "1s"
"#;

const WHY: &str = "does not fit into the budget of";

fn left_out(untested: &[Untested]) -> Vec<&str> {
    let gaps = untested.iter().filter(|gap| gap.why.starts_with(WHY));
    gaps.map(|gap| gap.what.as_str()).collect()
}

#[test]
fn a_plan_fits_itself_into_the_budget_and_lists_what_it_leaves_out() {
    let bench = Bench::new(MUCH);
    let planned = bench
        .railgauge("plan suite.toml --budget 16s")
        .must_exit(0)
        .stdout;
    let ended = bench.run("--budget 16s");
    let (recorded, judgement) = (bench.recorded(), bench.judgement());
    assert_eq!(
        judgement.ended,
        Some(EndReason::Finished),
        "what was planned fits: {}",
        ended.stderr
    );
    assert!(recorded.run.cells.iter().any(|cell| cell.test == "pairs"));
    let measured = done(&recorded).iter().filter(|cell| cell.round == 0).count();
    assert_eq!(
        measured,
        recorded.run.cells.len(),
        "all that was kept is measured"
    );
    let gaps = left_out(&judgement.coverage.untested);
    assert!(
        gaps.iter()
            .any(|what| what.contains("cells of test `sweep`, of ")),
        "{gaps:?}"
    );
    for what in &gaps {
        assert!(
            planned.contains(&format!("untested: {what}: {WHY}")),
            "the plan says it beforehand: {planned}"
        );
    }
    let page = std::fs::read_to_string(bench.out().join("report.md")).unwrap();
    assert!(page.contains(WHY), "{page}");
}

#[test]
fn a_test_that_is_left_out_as_a_whole_leaves_the_run_inconclusive_and_says_why() {
    let bench = Bench::new(MUCH);
    bench.run("--budget 5s").must_exit(20);
    let judgement = bench.judgement();
    assert_eq!(judgement.ended, Some(EndReason::Finished));
    let again = judgement.tests.iter().find(|test| test.name == "again").unwrap();
    let Verdict::NotRun(why) = &again.verdict else {
        panic!("{:?}", again.verdict);
    };
    assert!(why.starts_with(WHY), "{why}");
    assert!(left_out(&judgement.coverage.untested).contains(&"test `again`"));
    assert!(bench.recorded().run.cells.iter().all(|cell| cell.test != "again"));
}
