//! What is printed: plans, help, and nothing a log or a pipe chokes on.

use std::process::{Command, Stdio};

use crate::harness::{Bench, SMALL};

#[test]
fn a_plan_says_what_how_long_and_what_not() {
    let bench = Bench::new(SMALL);
    let plan = bench
        .railgauge("plan suite.toml --transport tcp")
        .must_exit(0)
        .stdout;
    assert!(plan.contains("4 cells in"), "two sizes on two rails: {plan}");
    assert!(plan.contains("about") && plan.contains("at most"), "{plan}");
    assert!(plan.contains("untested: "), "{plan}");
    let cells = bench
        .railgauge("plan suite.toml --transport tcp --cells")
        .must_exit(0)
        .stdout;
    assert_eq!(
        cells.lines().filter(|line| line.starts_with("cell ")).count(),
        4,
        "{cells}"
    );
    let asked = bench
        .railgauge("plan suite.toml --transport tcp --only rail=loop1,size=1K")
        .must_exit(0)
        .stdout;
    assert!(
        asked.contains("1 cells in 1 slots") || asked.contains("1 cell in 1 slot"),
        "{asked}"
    );
    assert!(!bench.path().join("reports").exists(), "a plan writes nothing");
}

#[test]
fn a_plan_for_machines_says_the_same() {
    let bench = Bench::new(SMALL);
    let text = bench
        .railgauge("plan suite.toml --transport tcp --json")
        .must_exit(0)
        .stdout;
    let plan: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(plan["cells"], 4);
    assert!(plan["time"]["expected"].as_u64().unwrap() > 0);
    assert!(plan["untested"].is_array());
}

#[test]
fn a_planned_run_measures_what_was_planned() {
    let bench = Bench::new(SMALL);
    let only = "--transport tcp --only rail=loop1";
    let text = bench
        .railgauge(&format!("plan suite.toml {only} --json"))
        .must_exit(0)
        .stdout;
    let plan: serde_json::Value = serde_json::from_str(&text).unwrap();
    bench.run(only).must_exit(20);
    let recorded = bench.recorded();
    assert_eq!(plan["cells"], recorded.run.cells.len());
    assert!(recorded.run.cells.iter().all(|cell| cell.rails == ["loop1"]));
}

#[test]
fn every_command_explains_itself_with_an_example() {
    let bench = Bench::new(SMALL);
    for command in ["run", "all-reduce", "plan", "ecmp-plan", "report", "compare"] {
        let help = bench.railgauge(&format!("{command} --help")).must_exit(0).stdout;
        assert!(help.contains("Example"), "{command}: {help}");
        assert!(
            help.contains(&format!("railgauge {command} ")),
            "{command}: {help}"
        );
    }
    let help = bench.railgauge("--help").must_exit(0).stdout;
    for text in ["run", "all-reduce", "plan", "report", "compare", "Exit codes"] {
        assert!(help.contains(text), "{help}");
    }
    bench.railgauge("").must_exit(2);
    bench.railgauge("runn").must_exit(2);
}

#[test]
fn pipes_and_logs_get_no_escape_bytes() {
    let bench = Bench::new(SMALL);
    for words in [
        "run suite.toml --out a --inject flip:rank=1",
        "report a",
        "plan suite.toml",
        "run nosuch",
    ] {
        let ended = bench.railgauge(words);
        assert!(!ended.stdout.contains('\x1b'), "{words}: {:?}", ended.stdout);
        assert!(!ended.stderr.contains('\x1b'), "{words}: {:?}", ended.stderr);
    }
}

/// Runs `railgauge` on a terminal of this kind made by `script`; what the terminal got, if there is such a program.
fn on_a_terminal(bench: &Bench, words: &str, kind: &str, no_color: &str) -> Option<String> {
    let line = format!("{} {words}", env!("CARGO_BIN_EXE_railgauge"));
    let mut command = Command::new("script");
    command
        .args(["-qec", &line, "/dev/null"])
        .current_dir(bench.path());
    command.env("TERM", kind).env("NO_COLOR", no_color);
    command.env_remove("OMPI_COMM_WORLD_RANK");
    let output = command.stdin(Stdio::null()).output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Whether something changes the colour or weight of letters; moving a cursor does not.
fn is_coloured(text: &str) -> bool {
    text.split("\x1b[").skip(1).any(|after| {
        after
            .find(|letter: char| letter.is_ascii_alphabetic())
            .is_some_and(|at| after[at..].starts_with('m') && !matches!(&after[..at], "" | "0"))
    })
}

#[test]
fn a_terminal_gets_colour_unless_no_color_is_set_or_it_knows_none() {
    let bench = Bench::new(SMALL);
    bench.run("").must_exit(20);
    let report = "report out --dry-run";
    let Some(colored) = on_a_terminal(&bench, report, "xterm", "") else {
        return crate::skip::skip("terminal", "no `script` to make a terminal with");
    };
    assert!(is_coloured(&colored), "{colored:?}");
    for (kind, no_color) in [("xterm", "1"), ("dumb", "")] {
        let plain = on_a_terminal(&bench, report, kind, no_color).unwrap();
        assert!(plain.contains("small") && !plain.contains('\x1b'), "{plain:?}");
    }
}

#[test]
fn whoever_watches_a_terminal_sees_cells_and_rounds_without_colour_and_a_dumb_one_gets_lines() {
    let bench = Bench::new(SMALL);
    let Some(bar) = on_a_terminal(&bench, "run suite.toml --transport tcp --out bar", "xterm", "1") else {
        return crate::skip::skip("terminal", "no `script` to make a terminal with");
    };
    assert!(bar.contains("/4 cells, round 1"), "{bar:?}");
    assert!(!bar.contains(" of 4 cells, round 1"), "{bar:?}");
    assert!(!is_coloured(&bar), "{bar:?}");
    let lines = on_a_terminal(&bench, "run suite.toml --transport tcp --out lines", "dumb", "").unwrap();
    assert!(lines.contains("4 of 4 cells, round 1"), "{lines:?}");
    assert!(!lines.contains('\x1b'), "{lines:?}");
}

#[test]
fn a_log_says_how_far_it_is_and_which_rail_is_worst_so_far_and_quiet_says_nothing() {
    let bench = Bench::new(SMALL);
    let ended = bench.run("--transport tcp").must_exit(20);
    let lines: Vec<&str> = ended
        .stderr
        .lines()
        .filter(|line| line.contains(" of 4 cells, round 1"))
        .collect();
    assert_eq!(lines.len(), 4, "{}", ended.stderr);
    assert!(
        lines[0].contains(" left; last ring all-reduce"),
        "one rail has no others: {}",
        lines[0]
    );
    let last = lines[3];
    assert!(
        last.starts_with("4 of 4 cells, round 1; worst rail so far: loop")
            && last.contains(" % of the others; last "),
        "{last}"
    );
    let quiet = bench
        .railgauge("run suite.toml --out quiet --quiet")
        .must_exit(20);
    assert!(!quiet.stderr.contains(" cells"), "{}", quiet.stderr);
}

#[test]
fn quiet_prints_the_verdict_only() {
    let bench = Bench::new(SMALL);
    let ended = bench.run("--quiet").must_exit(20);
    assert_eq!(ended.stdout.lines().count(), 1, "{}", ended.stdout);
    assert!(ended.stdout.contains("INCONCLUSIVE"), "{}", ended.stdout);
}

#[test]
fn a_run_printed_as_json_is_its_findings_file() {
    let bench = Bench::new(SMALL);
    let ended = bench.run("--json").must_exit(20);
    let printed: record::Judgement = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(printed, bench.judgement());
}

#[test]
fn a_reader_that_has_read_enough_and_gone_changes_no_exit_code() {
    let bench = Bench::new(SMALL);
    for words in [
        "plan suite.toml --transport tcp --cells",
        "plan suite.toml --transport tcp --json",
        "run suite.toml --out out --transport shm --json",
    ] {
        let run = |stdout: Stdio| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_railgauge"));
            command.args(words.split(' ')).current_dir(bench.path());
            let done = command.stdin(Stdio::null()).stdout(stdout).output().unwrap();
            let _ = std::fs::remove_dir_all(bench.out());
            (
                done.status.code(),
                String::from_utf8_lossy(&done.stderr).contains("panicked"),
            )
        };
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let (code, has_panicked) = run(writer.into());
        assert!(!has_panicked, "{words}");
        assert_eq!(code, run(Stdio::null()).0, "{words}");
    }
}
