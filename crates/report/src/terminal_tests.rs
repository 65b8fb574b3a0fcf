//! The summary on the smallest terminal: whatever was found, it fits, and it names the part that the page names.

use std::path::Path;

use strum::IntoEnumIterator;

use super::escape;
use super::terminal::{Page, summary};
use judge::findings::fixture::{Fixture, HEALTHY, spec};
use judge::findings::judge;
use record::{
    Cell, Event, FindingKind, Judgement, LossCause, Lost, Place, Recorded, Suspect, SuspectKind, Untested,
    Verdict,
};

const FOLDER: &str = "reports/2026-11-14T23-50-12Z-a-suite-with-a-rather-long-name-indeed";

/// Lines of a terminal of 80 columns that the text takes, with what colours it left out.
fn height(text: &str) -> usize {
    let rows = |line: &str| {
        let mut columns = 0;
        let mut is_escape = false;
        for letter in line.chars() {
            match letter {
                '\u{1b}' => is_escape = true,
                'm' if is_escape => is_escape = false,
                _ => columns += usize::from(!is_escape),
            }
        }
        columns.div_ceil(80).max(1)
    };
    text.lines().map(rows).sum()
}

/// Asserts that it fits and names the worst; hands back the text.
fn must_fit(judgement: &Judgement, what: &str) -> String {
    for color in [true, false] {
        let text = summary(judgement, Path::new(FOLDER), Page::terminal(color));
        assert!(height(&text) <= 24, "{what}: {} lines:\n{text}", height(&text));
        if let Some(worst) = judgement.findings.first() {
            let part = escape::line(&worst.part());
            assert!(text.contains(&part), "{what}: no {part}:\n{text}");
        }
        assert!(text.contains("report.html"), "{what}:\n{text}");
    }
    summary(judgement, Path::new(FOLDER), Page::terminal(false))
}

fn slow_rail(cell: &Cell, _: u16) -> f64 {
    match cell.rails[0].as_str() {
        "rail1" => 0.6 * HEALTHY,
        _ => HEALTHY,
    }
}

fn slow_rank(cell: &Cell, _: u16) -> f64 {
    match cell.ranks.contains(&2) {
        true => 0.5 * HEALTHY,
        false => HEALTHY,
    }
}

fn cut_off() -> Recorded {
    let mut recorded = Fixture::rails(2).recorded();
    recorded.events.pop();
    recorded.events.push(Event::Lost(Lost {
        rank: 3,
        host: "node03".into(),
        cell: Some(4),
        doing: "ring all-reduce 1 MiB f32, step 3 of 6, waiting for rank 2 (node02)".into(),
        reason: "the connection was closed by the other end without a word".into(),
        cause: LossCause::Unclear,
    }));
    recorded
}

#[test]
fn whatever_was_recorded_the_summary_fits_a_terminal_and_names_the_worst_part() {
    let runs = [
        ("healthy", Fixture::rails(3).recorded()),
        ("a slow rail", Fixture::rails(3).speed(slow_rail).recorded()),
        (
            "below its spec",
            Fixture::rails(3)
                .references(vec![spec(2.0 * HEALTHY, 0)])
                .recorded(),
        ),
        (
            "measured once",
            Fixture::rails(3).speed(slow_rail).measured_once(),
        ),
        ("a slow host", Fixture::pairs(6).speed(slow_rank).recorded()),
        (
            "slow round trips",
            Fixture::latency(6).speed(slow_rank).recorded(),
        ),
        ("an incast", Fixture::incast().speed(slow_rank).recorded()),
        ("a sweep", Fixture::sweep(4).speed(slow_rail).recorded()),
        (
            "a straggler",
            Fixture::rails(2)
                .extra_work(|_, rank, _| if rank == 1 { 3e7 } else { 0.0 })
                .recorded(),
        ),
        ("a lost rank", cut_off()),
    ];
    let mut accused = 0;
    for (what, recorded) in runs {
        let judgement = judge(&recorded);
        accused += usize::from(!judgement.findings.is_empty());
        must_fit(&judgement, what);
    }
    assert!(accused >= 6, "the fixtures have findings to show: {accused}");
}

/// A judgement in which everything that takes room takes much of it.
fn crowded(kind: FindingKind, part: &str) -> Judgement {
    let mut judgement = judge(&Fixture::rails(3).speed(slow_rail).recorded());
    let words = |many: usize| "some words about how it was found ".repeat(many);
    let mut finding = judgement.findings[0].clone();
    finding.kind = kind;
    // The sentence comes to the part too late.
    finding.sentence = format!("{}: {part}", words(20));
    finding.rule = words(12);
    finding.next_step = words(12);
    finding.repeat = Some(format!("railgauge diagnose {}", "--suspect node01 ".repeat(30)));
    finding.suspects = vec![Suspect {
        part: part.into(),
        kind: SuspectKind::FabricCable,
        direction: None,
        cable: None,
        confidence: 0.9,
        why: String::new(),
    }];
    judgement.findings = vec![finding; 40];
    let mut failed = judgement.tests[0].clone();
    failed.verdict = Verdict::Fail(words(5));
    judgement.tests = vec![failed; 30];
    judgement.injected = vec![words(6); 4];
    judgement.coverage.untested = vec![
        Untested {
            what: words(4),
            why: words(4),
        };
        9
    ];
    judgement
}

#[test]
fn every_kind_of_finding_names_its_part_even_when_its_sentence_is_cut() {
    for kind in FindingKind::iter() {
        let part = "pod-07-rail1-leaf12/u14->pod-07-rail1-spine03/d12";
        let text = must_fit(&crowded(kind, part), &kind.to_string());
        let whole = format!("  part     {part}");
        assert!(text.lines().any(|line| line == whole), "{kind}:\n{text}");
        assert!(
            text.contains("next ") && text.contains(" more in report.md"),
            "{kind}:\n{text}"
        );
    }
}

#[test]
fn the_findings_after_the_worst_name_their_parts_too() {
    let mut judgement = crowded(FindingKind::SlowLink, "leaf2/u1->spine1/d2");
    judgement.tests.truncate(1);
    judgement.findings[0].sentence = "short".into();
    judgement.findings[0].repeat = None;
    judgement.findings[1].suspects[0].part = "another-leaf/u1->another-spine/d9".into();
    let text = must_fit(&judgement, "two");
    assert!(
        text.contains("slow-link: another-leaf/u1->another-spine/d9: some words"),
        "{text}"
    );
}

#[test]
fn findings_without_suspects_are_named_by_their_place() {
    let mut judgement = crowded(FindingKind::LostRank, "unused");
    for (place, called) in [
        (Place::default(), "the whole run"),
        (
            Place {
                hosts: vec!["node07".into()],
                rail: Some("rail3".into()),
                ..Place::default()
            },
            "node07 on rail3",
        ),
    ] {
        judgement.findings.iter_mut().for_each(|finding| {
            finding.suspects.clear();
            finding.place = place.clone();
        });
        assert!(must_fit(&judgement, called).contains(called));
    }
}

#[test]
fn a_name_or_a_path_without_an_end_takes_no_more_than_its_lines() {
    let judgement = crowded(FindingKind::Drift, &"x".repeat(10_000));
    let folder = format!("/{}/the-run", "deep/".repeat(800));
    let text = summary(&judgement, Path::new(&folder), Page::terminal(true));
    assert!(height(&text) <= 24, "{} lines:\n{text}", height(&text));
    assert!(text.contains("the-run/{report.html"), "{text}");
    let log = summary(&judgement, Path::new(&folder), Page::log());
    assert!(
        log.contains(&folder) && log.contains(&"x".repeat(10_000)),
        "a log cuts nothing"
    );
}
