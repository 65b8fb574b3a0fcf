//! What a reader of a report would lose, each as one recorded run.

use std::fs;
use std::path::Path;

use super::terminal::{self, Page};
use super::{WRITERS, write_all};
use judge::findings::fixture::{Fixture, HEALTHY, spec};
use judge::findings::judge;
use record::{Cell, Engine, Event, Judgement, Recorded, Untested, Verdict, files};

fn with_slow_rail() -> Recorded {
    let slow = |cell: &Cell, _| {
        if cell.rails[0] == "rail1" {
            0.6 * HEALTHY
        } else {
            HEALTHY
        }
    };
    Fixture::rails(3).speed(slow).recorded()
}

fn render(file: &str, recorded: &Recorded, judgement: &Judgement) -> String {
    let writer = WRITERS.iter().find(|writer| writer.file() == file).unwrap();
    writer.render(recorded, judgement).unwrap()
}

#[test]
fn all_files_are_written_twice_the_same_and_nothing_else_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let recorded = with_slow_rail();
    let read = || -> Vec<(String, Vec<u8>)> {
        let entries = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().path());
        let mut files: Vec<_> = entries
            .map(|path| {
                (
                    path.file_name().unwrap().to_string_lossy().into_owned(),
                    fs::read(path).unwrap(),
                )
            })
            .collect();
        files.sort();
        files
    };
    write_all(folder.path(), &recorded, &judge(&recorded)).unwrap();
    let first = read();
    let names: Vec<&str> = first.iter().map(|(name, _)| name.as_str()).collect();
    let mut wanted: Vec<&str> = WRITERS.iter().map(|writer| writer.file()).collect();
    wanted.retain(|name| *name != files::ECMP);
    wanted.sort();
    assert_eq!(names, wanted, "nothing else, and nothing that was not asked for");
    write_all(folder.path(), &recorded, &judge(&recorded)).unwrap();
    assert_eq!(first, read());
    let at = names.iter().position(|name| *name == files::FINDINGS).unwrap();
    let json: Judgement = serde_json::from_slice(&first[at].1).unwrap();
    assert_eq!(json, judge(&recorded));
}

#[test]
fn a_folder_that_cannot_be_written_is_an_error_that_names_the_file() {
    let recorded = with_slow_rail();
    let error = write_all(Path::new("/nonexistent/folder"), &recorded, &judge(&recorded)).unwrap_err();
    assert!(
        error.to_string().contains("/nonexistent/folder/findings.json"),
        "{error}"
    );
}

#[test]
fn engines_stand_side_by_side_with_their_ratio() {
    let mut fixture = Fixture::rails(1).references(vec![spec(HEALTHY, 1 << 10)]);
    let twins: Vec<Cell> = fixture.run.cells.iter().map(by_nccl).collect();
    fixture.run.cells.extend(twins);
    let faster = |cell: &Cell, _| match cell.engine {
        Engine::Ours => 2.0 * HEALTHY,
        Engine::Nccl => HEALTHY,
    };
    let recorded = fixture.noise(0.001, 1).speed(faster).recorded();
    let judgement = judge(&recorded);
    let overview =
        "ours / NCCL 2.00 to 2.00 over 4 cells: ours faster in 4, NCCL faster in 0, no difference in 0";
    for page in [Page::terminal(false), Page::log()] {
        let text = terminal::summary(&judgement, Path::new("x"), page);
        assert!(
            text.contains(&format!("engines    {}", &overview[..60])),
            "{text}"
        );
    }
    let report = render(files::MARKDOWN, &recorded, &judgement);
    assert!(
        report.contains("## Engine comparison") && report.contains(overview),
        "{report}"
    );
    let rows = report.lines().filter(|line| line.ends_with("| 2.00 |")).count();
    assert_eq!(rows, 4, "{report}");
    let without = judge(&with_slow_rail());
    assert!(!render(files::MARKDOWN, &with_slow_rail(), &without).contains("NCCL"));
}

fn by_nccl(cell: &Cell) -> Cell {
    Cell {
        id: cell.id + 100,
        engine: Engine::Nccl,
        ..cell.clone()
    }
}

#[test]
fn the_terminal_says_measured_expected_rule_and_next_step_in_24_lines() {
    let judgement = judge(&with_slow_rail());
    let text = terminal::summary(&judgement, Path::new("reports/smoke"), Page::terminal(false));
    for part in [
        "FAIL",
        "exit code 12",
        "rail1: 0.6",
        "of 1.00 expected",
        "rule ",
        "next ",
        "coverage",
    ] {
        assert!(text.contains(part), "{part}:\n{text}");
    }
    assert!(
        text.contains("repeat   railgauge run smoke --only test=rails,rail=rail1\n"),
        "{text}"
    );
    assert!(
        text.lines().count() <= 24 && text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
    assert!(!text.contains('\u{1b}'));
}

#[test]
fn many_findings_and_tests_still_fit_the_terminal() {
    let mut judgement = judge(&with_slow_rail());
    judgement.findings = vec![judgement.findings[0].clone(); 40];
    judgement.tests = vec![judgement.tests[0].clone(); 40];
    judgement.injected = vec!["rail1 throttled".into()];
    for color in [false, true] {
        let text = terminal::summary(&judgement, Path::new("reports/smoke"), Page::terminal(color));
        assert!(
            text.lines().count() <= 24,
            "{} lines:\n{text}",
            text.lines().count()
        );
        assert!(
            text.contains("more in report.md") && text.contains("35 more tests"),
            "{text}"
        );
    }
}

#[test]
fn the_markdown_report_holds_every_cell_and_links_the_picture() {
    let recorded = with_slow_rail();
    let judgement = judge(&recorded);
    let text = render(files::MARKDOWN, &recorded, &judgement);
    assert!(
        text.contains("(bandwidth.svg)") && text.contains("## Rails alone and together"),
        "{text}"
    );
    for cell in &judgement.cells {
        assert!(text.contains(&format!("| {} | ring all-reduce", cell.cell.id)));
    }
}

#[test]
fn the_picture_tells_lines_apart_without_colour_and_shows_the_spec() {
    let recorded = Fixture::rails(3).references(vec![spec(HEALTHY, 0)]).recorded();
    let svg = render(files::BANDWIDTH, &recorded, &judge(&recorded));
    for part in [
        "<svg",
        "wire rate (GB/s)",
        "message size (B",
        "16 MiB",
        "rail2, together",
        "demanded by spec test-link",
    ] {
        assert!(svg.contains(part), "{part}");
    }
}

#[test]
fn a_run_without_a_sample_still_gives_every_report() {
    let mut recorded = with_slow_rail();
    recorded.samples.clear();
    recorded.events.clear();
    let judgement = judge(&recorded);
    assert_eq!(judgement.exit_code, 20);
    assert!(render(files::BANDWIDTH, &recorded, &judgement).contains("no wire rate was measured"));
    assert!(render(files::MARKDOWN, &recorded, &judgement).contains("0 of 12 planned cells measured"));
}

#[test]
fn hostile_names_are_inert_in_every_format() {
    let hostile = "\u{1b}[2J<script>alert(1)</script>\n# pwned | [x](http://evil) `\u{202e}";
    let mut recorded = with_slow_rail();
    let run = &mut recorded.run;
    run.suite = hostile.into();
    run.tests[0].name = hostile.into();
    run.tests[0].missing_references = vec![hostile.into()];
    run.injected = vec![hostile.into()];
    run.untested = vec![Untested {
        what: hostile.into(),
        why: hostile.into(),
    }];
    run.command = vec!["railgauge".into(), "run".into(), hostile.into()];
    run.hosts.iter_mut().for_each(|host| host.name = hostile.into());
    run.ranks.iter_mut().for_each(|rank| rank.host = hostile.into());
    for cell in &mut run.cells {
        cell.test = hostile.into();
        cell.rails.iter_mut().for_each(|rail| rail.push_str(hostile));
    }
    recorded.events.push(Event::Intruder { what: hostile.into() });
    let judgement = judge(&recorded);
    assert_eq!(judgement.findings.len(), 1);
    let markdown = render(files::MARKDOWN, &recorded, &judgement);
    let outside_code: String = markdown.split("```").step_by(2).collect();
    for live in ["<script", "[x](http", "pwned | ", " `"] {
        assert!(!outside_code.contains(live), "{live:?} in Markdown");
    }
    let picture = render(files::BANDWIDTH, &recorded, &judgement);
    assert!(!picture.contains("<script"));
    for text in [&markdown, &picture] {
        for live in ["\u{1b}", "\n# pwned", "\u{202e}"] {
            assert!(!text.contains(live), "{live:?}");
        }
    }
    let text = terminal::summary(&judgement, Path::new(hostile), Page::terminal(false));
    assert!(
        !text.contains('\u{1b}') && !text.contains('\u{202e}') && text.lines().count() <= 24,
        "{text}"
    );
    assert!(
        !render(files::FINDINGS, &recorded, &judgement).contains('\u{1b}'),
        "JSON escapes control characters"
    );
}

#[test]
fn a_log_keeps_every_word_that_a_terminal_has_no_room_for() {
    let mut judgement = judge(&Fixture::rails(3).recorded());
    let long = "a reason much longer than any terminal is wide ".repeat(5);
    judgement.tests[0].verdict = Verdict::Inconclusive(long.clone());
    let on = |page| terminal::summary(&judgement, Path::new("reports/smoke"), page);
    assert!(on(Page::log()).contains(long.trim_end()));
    assert!(!on(Page::terminal(false)).contains(long.trim_end()));
}
