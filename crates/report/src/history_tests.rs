//! What changed since the last nights is in every format, and in none of a run that was compared with nothing.

use std::path::Path;

use super::terminal::{self, Page};
use super::{WRITERS, writer_of};
use judge::findings::fixture::Fixture;
use judge::findings::judge;
use record::{
    ChangeShape, FindingKind, History, Issue, IssueStatus, PartChange, PartKind, Quantity, Recorded,
    Replaced, SCHEMA, Severity, files,
};

fn issue(part: &str, status: IssueStatus, severity: Severity, due: bool) -> Issue {
    Issue {
        kind: Some(FindingKind::SlowRail),
        part: part.to_string(),
        sentence: format!("{}: {part} is slow", status.in_words()),
        status,
        severity,
        due,
        first: "2026-11-01T03-00-00Z-nightly".to_string(),
        finding: None,
        change: None,
    }
}

/// A night with one issue of every status, one of them a change that only the history shows.
pub(super) fn nights() -> History {
    let change = PartChange {
        kind: PartKind::Link,
        part: "h2/rail1->leaf1/p0".to_string(),
        quantity: Quantity::Bandwidth,
        shape: ChangeShape::Step,
        since: "2026-11-02T03-00-00Z-nightly".to_string(),
        since_at: "2026-11-02T03:00:00Z".to_string(),
        runs: 2,
        before: 46e9,
        after: 43e9,
        effect: -0.065,
        effect_interval: (-0.07, -0.06),
        score: 9.0,
        is_worse: true,
        with: vec!["h2/rail1 out".to_string()],
        sentence: "h2/rail1->leaf1/p0 carries 6.5 % less".to_string(),
    };
    History {
        schema: SCHEMA,
        suite: "smoke".to_string(),
        run: "2026-11-03T03-00-00Z-nightly".to_string(),
        started: "2026-11-03T03:00:00Z".to_string(),
        nights: 12,
        issues: vec![
            Issue {
                kind: None,
                change: Some(change),
                ..issue("h2/rail1->leaf1/p0", IssueStatus::New, Severity::Page, true)
            },
            issue(
                "rail1 of h3",
                IssueStatus::Still { night: 3 },
                Severity::Ticket,
                false,
            ),
            issue(
                "rail1 of h4",
                IssueStatus::Again { away: 2 },
                Severity::Ticket,
                true,
            ),
            issue(
                "rail1 of h5",
                IssueStatus::Gone { nights: 4 },
                Severity::Info,
                false,
            ),
            issue(
                "rail1 of h6",
                IssueStatus::Unknown { nights: 1 },
                Severity::Info,
                false,
            ),
        ],
        replaced: vec![Replaced {
            kind: PartKind::RailEnd,
            part: "h7/rail0 out".to_string(),
            before: "MT2231X01".to_string(),
            after: "MT2231X99".to_string(),
            since: "2026-11-03T03-00-00Z-nightly".to_string(),
        }],
        young: 3,
        compared: 61,
        skipped: vec!["2026-11-02-broken: run.json is missing".to_string()],
        summary: "one part changed since last night".to_string(),
    }
}

fn with_nights() -> Recorded {
    Recorded {
        history: Some(nights()),
        ..Fixture::rails(3).recorded()
    }
}

fn rendered(recorded: &Recorded, file: &str) -> String {
    let judgement = judge(recorded);
    writer_of(file).unwrap().render(recorded, &judgement).unwrap()
}

#[test]
fn every_format_says_what_changed_since_the_last_nights() {
    let recorded = with_nights();
    for file in [files::MARKDOWN, files::HTML, files::SUMMARY] {
        let text = rendered(&recorded, file);
        for words in [
            "Since earlier runs",
            "one part changed since last night",
            "new tonight",
            "gone, after 4 nights",
        ] {
            assert!(text.contains(words), "{file}: {words}");
        }
    }
    for file in [files::MARKDOWN, files::HTML] {
        let text = rendered(&recorded, file);
        for words in [
            "third night",
            "12 earlier runs",
            "MT2231X99",
            "run.json is missing",
        ] {
            assert!(text.contains(words), "{file}: {words}");
        }
    }
    let junit = rendered(&recorded, files::JUNIT);
    assert!(
        junit.contains("name=\"changed: h2/rail1-&gt;leaf1/p0\""),
        "{junit}"
    );
    assert!(
        !junit.contains("rail1 of h3"),
        "only what the exit code speaks of is red"
    );
    assert!(junit.contains("railgauge.history.nights\" value=\"12\""));
    let metrics = rendered(&recorded, files::METRICS);
    assert!(
        metrics.contains("railgauge_history_matters{suite=\"smoke\",standing=\"new\",severity=\"page\"} 1")
    );
    assert!(
        metrics.contains("railgauge_history_matters{suite=\"smoke\",standing=\"new\",severity=\"ticket\"} 0")
    );
    assert!(metrics.contains("railgauge_history_series{suite=\"smoke\",state=\"young\"} 3"));
}

#[test]
fn a_run_that_was_compared_with_nothing_does_not_speak_of_nights() {
    let recorded = Fixture::rails(3).recorded();
    let judgement = judge(&recorded);
    for writer in WRITERS.iter().filter(|writer| writer.is_wanted(&judgement)) {
        let text = writer.render(&recorded, &judgement).unwrap();
        assert!(!text.contains("Since earlier runs"), "{}", writer.file());
        assert!(!text.contains("railgauge_history"), "{}", writer.file());
    }
}

#[test]
fn a_terminal_shows_what_is_due_first_and_still_fits() {
    let recorded = with_nights();
    let judgement = judge(&recorded);
    let history = recorded.history.as_ref();
    let show = |page| terminal::summary_with_history(&judgement, history, Path::new("x"), page);
    let shown = show(Page::terminal(false));
    assert!(shown.lines().count() <= 24, "{shown}");
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
    assert!(shown.contains("history    one part changed"), "{shown}");
    assert!(
        shown.contains("page: new tonight: h2/rail1->leaf1/p0 is slow"),
        "{shown}"
    );
    assert!(
        shown.contains("ticket: again, after 2 nights without: rail1 of h4"),
        "{shown}"
    );
    assert!(
        !shown.contains("rail1 of h3"),
        "told before, and not due: {shown}"
    );
    assert!(shown.contains("1 more in report.md"), "{shown}");
    assert!(show(Page::log()).contains("rail1 of h6"));
}

#[test]
fn only_a_change_that_pages_calls_for_a_code_of_its_own() {
    let mut history = nights();
    assert_eq!(history.exit_code(), 12);
    history.issues[0].severity = Severity::Ticket;
    assert_eq!(history.exit_code(), 0);
    history.issues[1].severity = Severity::Page;
    assert_eq!(history.exit_code(), 0, "a finding has its code already");
}
