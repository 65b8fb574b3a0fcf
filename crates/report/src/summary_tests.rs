//! What the page of a pipeline's job must hold, and that it never holds too much.

use super::summary::Summary;
use crate::writer::Writer;
use judge::findings::fixture::{Fixture, HEALTHY};
use judge::findings::judge;
use record::{Cell, TestVerdict, Verdict};

#[test]
fn the_first_screen_of_a_job_names_verdict_part_numbers_and_what_to_do() {
    let slow = |cell: &Cell, _| match cell.rails[0].as_str() {
        "rail1" => 0.6 * HEALTHY,
        _ => HEALTHY,
    };
    let recorded = Fixture::rails(3).speed(slow).recorded();
    let judgement = judge(&recorded);
    let text = Summary.render(&recorded, &judgement).unwrap();
    let finding = &judgement.findings[0];
    for part in [
        "### FAIL: smoke".to_string(),
        format!("slow-rail: {}", finding.part()),
        format!("measured {}, expected", finding.measured.unwrap()),
        "- next: ".to_string(),
        finding.repeat.clone().unwrap(),
        "| rails | fail | 12 | 12 |".to_string(),
        "exit code 12".to_string(),
    ] {
        assert!(text.contains(&part), "{part}:\n{text}");
    }
    assert!(text.lines().count() < 30, "{text}");
}

#[test]
fn a_run_that_passed_says_so_in_one_sentence() {
    let recorded = Fixture::rails(3).recorded();
    let judgement = judge(&recorded);
    let text = Summary.render(&recorded, &judgement).unwrap();
    assert!(
        text.starts_with("### PASS: smoke\n\n**PASS: 1 of 1 tests passed"),
        "{text}"
    );
}

#[test]
fn however_much_is_wrong_the_page_of_a_job_takes_it() {
    let slow = |cell: &Cell, _| {
        if cell.rails[0] == "rail1" {
            0.6 * HEALTHY
        } else {
            HEALTHY
        }
    };
    let recorded = Fixture::rails(3).speed(slow).recorded();
    let mut judgement = judge(&recorded);
    let endless = "\u{1b}*".repeat(100_000);
    let mut finding = judgement.findings[0].clone();
    judgement.findings = vec![finding.clone(); 16_384];
    finding.sentence = endless.clone();
    finding.next_step = endless.clone();
    finding.repeat = Some(endless.clone());
    finding.place.rail = Some(endless.clone());
    judgement.findings[..100].fill(finding);
    judgement.tests = (0..5000)
        .map(|number| TestVerdict {
            name: match number < 100 || number == 4999 {
                true => format!("{number}{endless}"),
                false => number.to_string(),
            },
            verdict: if number == 4999 {
                Verdict::Fail("it is the last that failed".into())
            } else {
                Verdict::Pass
            },
            planned: 1,
            measured: 1,
        })
        .collect();
    judgement.summary = endless.clone();
    judgement.injected = vec![endless.clone(); 100];
    judgement.suite = endless;
    let text = Summary.render(&recorded, &judgement).unwrap();
    assert!(text.len() < 1 << 20, "{} bytes", text.len());
    assert!(
        text.contains("16374 more findings in report.md"),
        "what is left out is counted"
    );
    assert!(text.contains("it is the last that failed") && text.contains("4970 more in report.md"));
}
