//! `railgauge compare`: from two folders to an answer, an exit code and a part with a name.

use record::{Comparison, Event, Outcome, Recorded};

use crate::harness::{Bench, SMALL};
use crate::whole_run::RAILS;

/// A run of two rails, and the same recorded again with every time of `loop1` made longer: what a cable that went bad would leave.
fn before_and_after(factor: f64) -> Bench {
    let bench = Bench::new(RAILS);
    let code = bench.run("").code;
    assert!(matches!(code, Some(0 | 20)), "{code:?}");
    let recorded = bench.recorded();
    let slow: Vec<u32> = cells_on(&recorded, "loop1");
    assert!(!slow.is_empty());
    copy(&bench, "again", |event| {
        if let Event::Sample(sample) = event
            && slow.contains(&sample.cell)
        {
            sample.ns = (sample.ns as f64 * factor) as u64;
            sample.wait_ns = (sample.wait_ns as f64 * factor) as u64;
        }
        true
    });
    bench
}

fn cells_on(recorded: &Recorded, rail: &str) -> Vec<u32> {
    let cells = recorded.run.cells.iter().filter(|cell| cell.rails == [rail]);
    cells.map(|cell| cell.id).collect()
}

/// The recorded run in another folder, with events changed or left out.
fn copy(bench: &Bench, name: &str, mut keep: impl FnMut(&mut Event) -> bool) {
    let to = bench.path().join(name);
    std::fs::create_dir(&to).unwrap();
    std::fs::copy(bench.out().join("run.json"), to.join("run.json")).unwrap();
    let text = std::fs::read_to_string(bench.out().join("samples.jsonl")).unwrap();
    let mut lines = String::new();
    for line in text.lines() {
        let mut event: Event = serde_json::from_str(line).unwrap();
        if keep(&mut event) {
            lines += &serde_json::to_string(&event).unwrap();
            lines.push('\n');
        }
    }
    std::fs::write(to.join("samples.jsonl"), lines).unwrap();
}

fn printed(text: &str) -> Comparison {
    serde_json::from_str(text).unwrap()
}

#[test]
fn a_run_compared_with_itself_is_the_same_and_passes() {
    let bench = Bench::new(SMALL);
    bench.run("").must_exit(20);
    let said = bench.railgauge("compare out out").must_exit(0).stdout;
    assert!(said.starts_with("SAME"), "{said}");
    let said = bench.railgauge("compare out out --quiet").must_exit(0).stdout;
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.starts_with("SAME: "), "{said}");
}

#[test]
fn a_rail_that_got_slower_is_named_and_exits_12() {
    // Far beyond what a busy machine does to the very same samples.
    let bench = before_and_after(1000.0);
    let ended = bench.railgauge("compare out again --margin 30%").must_exit(12);
    let lines: Vec<&str> = ended.stdout.lines().collect();
    assert!(lines[0].starts_with("WORSE"), "{}", ended.stdout);
    assert!(
        lines[1].starts_with("slower     loop1: 99.9 % slower"),
        "{}",
        ended.stdout
    );
    assert!(
        ended.stdout.contains("repeat   railgauge run suite.toml"),
        "{}",
        ended.stdout
    );

    let text = bench
        .railgauge("compare out again --margin 30% --json")
        .must_exit(12)
        .stdout;
    let comparison = printed(&text);
    assert_eq!(comparison.outcome, Outcome::Worse);
    assert_eq!(comparison.slower.len(), 1);
    assert_eq!(comparison.slower[0].part, "loop1");
    assert_eq!(comparison.rule.margin, Some(0.3));

    let back = bench
        .railgauge("compare again out --margin 30% --json")
        .must_exit(0)
        .stdout;
    assert_eq!(printed(&back).faster[0].part, "loop1");

    let md = bench
        .railgauge("compare out again --margin 30% --md")
        .must_exit(12)
        .stdout;
    assert!(
        md.starts_with("# out -&gt; again: worse\n") || md.starts_with("# out -> again: worse\n"),
        "{md}"
    );
    assert!(md.contains("## Slower"), "{md}");
}

#[test]
fn a_rail_that_was_not_measured_again_exits_20() {
    let bench = before_and_after(1.0);
    let recorded = bench.recorded();
    let lost = cells_on(&recorded, "loop1");
    copy(&bench, "fewer", |event| match event {
        Event::Sample(sample) => !lost.contains(&sample.cell),
        Event::CellDone(done) => !lost.contains(&done.cell),
        _ => true,
    });
    let ended = bench.railgauge("compare out fewer").must_exit(20);
    assert!(ended.stdout.contains("untested   loop1: "), "{}", ended.stdout);
}

#[test]
fn what_is_no_run_and_what_is_no_margin_is_said() {
    let bench = Bench::new(SMALL);
    bench.run("").must_exit(20);
    let ended = bench.railgauge("compare out nosuch").must_exit(2);
    assert!(ended.stderr.contains("nosuch/run.json"), "{}", ended.stderr);
    for margin in ["5", "100%", "x"] {
        let ended = bench
            .railgauge(&format!("compare out out --margin {margin}"))
            .must_exit(2);
        assert!(ended.stderr.contains("5% or 0.05"), "{}", ended.stderr);
    }
    bench.railgauge("compare out").must_exit(2);
}

#[test]
fn comparing_writes_nothing() {
    let bench = Bench::new(SMALL);
    bench.run("").must_exit(20);
    let listing = || {
        let mut names: Vec<_> = std::fs::read_dir(bench.out())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        names.sort();
        names
    };
    let before = listing();
    bench.railgauge("compare out out --json").must_exit(0);
    assert_eq!(before, listing());
    assert_eq!(
        std::fs::read_dir(bench.path()).unwrap().count(),
        2,
        "the suite and the run"
    );
}
