//! What a reader of a comparison would lose.

use super::compare::{json, markdown, terminal};
use super::hostile_tests::{attacks, check_command, check_lines, check_markdown, hostile, poisoned};
use super::schema::compare_schema;
use super::terminal::Page;
use judge::compare::{Side, compare};
use judge::findings::fixture::{Fixture, HEALTHY};
use judge::findings::judge;
use record::{Cell, Comparison, Judgement, Recorded};

fn with(seed: u64, rail: &'static str) -> Recorded {
    let speed = move |cell: &Cell, _| match cell.rails[0] == rail {
        true => 0.5 * HEALTHY,
        false => HEALTHY,
    };
    Fixture::rails(3).noise(0.02, seed).speed(speed).recorded()
}

fn sides(old: (&Recorded, &Judgement), new: (&Recorded, &Judgement)) -> Comparison {
    let side = |name, (recorded, judgement)| Side {
        name,
        recorded,
        judgement,
    };
    compare(side("monday", old), side("tuesday", new), None)
}

fn compared(old: &Recorded, new: &Recorded) -> Comparison {
    sides((old, &judge(old)), (new, &judge(new)))
}

#[test]
fn the_terminal_names_the_slower_part_first_and_fits() {
    let comparison = compared(&with(1, "none"), &with(2, "rail1"));
    let text = terminal(&comparison, Page::terminal(false));
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        lines[0].starts_with("WORSE") && lines[0].contains("monday -> tuesday (exit code 12)"),
        "{text}"
    );
    assert!(lines[1].starts_with("slower     rail1: 50"), "{text}");
    assert!(
        text.contains("repeat   railgauge run smoke --only test=rails,rail=rail1\n"),
        "{text}"
    );
    assert!(text.contains("failing    slow-rail"), "{text}");
    assert!(
        text.contains("12 compared: 4 slower, 0 faster, 8 the same, 0 unclear"),
        "{text}"
    );
    assert!(
        lines.len() <= 24 && lines.iter().all(|line| line.chars().count() <= 80),
        "{text}"
    );
}

#[test]
fn many_lines_still_fit_the_terminal_and_a_log_has_all() {
    let mut comparison = compared(&with(1, "none"), &with(2, "rail1"));
    comparison.slower = vec![comparison.slower[0].clone(); 60];
    comparison.findings = vec![comparison.findings[0].clone(); 60];
    comparison.remarks = vec!["a remark".into(); 9];
    let text = terminal(&comparison, Page::terminal(false));
    assert!(text.lines().count() <= 24 && text.contains(" more: "), "{text}");
    let log = terminal(&comparison, Page::log());
    assert_eq!(log.lines().filter(|line| line.starts_with("slower")).count(), 60);
    assert!(!log.contains(" more: "));
}

#[test]
fn markdown_has_regression_findings_and_intervals() {
    let comparison = compared(&with(1, "rail0"), &with(2, "rail1"));
    let text = markdown(&comparison).unwrap();
    for part in [
        "## Slower",
        "## Faster",
        "new: slow-rail",
        "gone: slow-rail",
        "## Cells that changed",
        "only test=rails,rail=rail1",
        "## Rule",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    check_markdown("compare.md", &text);
}

#[test]
fn comparisons_are_as_the_schema_says_and_read_back_the_same() {
    let schema = serde_json::from_str(&compare_schema()).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let (healthy, slow) = (with(1, "none"), with(2, "rail1"));
    let mut cut = with(3, "none");
    cut.events.truncate(3);
    for (old, new) in [
        (&healthy, &slow),
        (&slow, &healthy),
        (&healthy, &cut),
        (&cut, &cut),
    ] {
        let comparison = compared(old, new);
        let text = json(&comparison).unwrap();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        let errors: Vec<String> = validator
            .iter_errors(&value)
            .map(|error| error.to_string())
            .collect();
        assert_eq!(errors, Vec::<String>::new());
        let again: Comparison = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (again.outcome, again.counts),
            (comparison.outcome, comparison.counts)
        );
    }
    assert!(!validator.is_valid(&serde_json::json!({ "schema": 1 })));
}

#[test]
fn no_name_in_a_comparison_is_obeyed() {
    let (healthy, slow) = (with(1, "none"), with(2, "rail1"));
    for attack in attacks() {
        let (old, before) = hostile(&healthy, &attack);
        let (new, after) = hostile(&slow, &attack);
        let comparison = sides((&old, &before), (&new, &after));
        assert_eq!(comparison.slower.len(), 1, "{:?}", comparison.summary);
        check_command(comparison.slower[0].repeat.as_deref().unwrap());
        for comparison in [comparison.clone(), poisoned(&comparison, &attack)] {
            check_lines("terminal", &terminal(&comparison, Page::terminal(false)));
            check_lines("log", &terminal(&comparison, Page::log()));
            check_lines("json", &json(&comparison).unwrap());
            check_markdown("compare.md", &markdown(&comparison).unwrap());
        }
    }
}
