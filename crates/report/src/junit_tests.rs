//! What the page of a pipeline would get wrong.

use proptest::prelude::*;
use roxmltree::{Document, Node};

use super::junit::JUnit;
use crate::escape;
use crate::writer::Writer;
use judge::findings::fixture::{Fixture, HEALTHY};
use judge::findings::judge;
use record::{Cell, FindingKind, Judgement, Recorded, Untested, Verdict};

fn with_slow_rail() -> (Recorded, Judgement) {
    let slow = |cell: &Cell, _| match cell.rails[0].as_str() {
        "rail1" => 0.6 * HEALTHY,
        _ => HEALTHY,
    };
    let recorded = Fixture::rails(3).speed(slow).recorded();
    let judgement = judge(&recorded);
    (recorded, judgement)
}

fn render((recorded, judgement): &(Recorded, Judgement)) -> String {
    JUnit.render(recorded, judgement).unwrap()
}

fn cases<'a>(document: &'a Document<'_>) -> Vec<Node<'a, 'a>> {
    let is_case = |node: &Node<'_, '_>| node.has_tag_name("testcase");
    document.descendants().filter(is_case).collect()
}

fn case<'a>(document: &'a Document<'_>, name: &str) -> Node<'a, 'a> {
    let all = cases(document);
    let found = all.into_iter().find(|case| case.attribute("name") == Some(name));
    found.unwrap_or_else(|| panic!("no case {name}"))
}

fn child<'a>(case: Node<'a, 'a>, name: &str) -> Option<Node<'a, 'a>> {
    case.children().find(|node| node.has_tag_name(name))
}

#[test]
fn a_slow_rail_is_a_failed_case_of_its_test_with_everything_one_needs() {
    let run = with_slow_rail();
    let text = render(&run);
    let document = Document::parse(&text).unwrap();
    let finding = &run.1.findings[0];
    let case = case(&document, &format!("slow-rail: {}", finding.part()));
    assert_eq!(case.attribute("classname"), Some("railgauge.smoke.rails"));
    let failure = child(case, "failure").unwrap();
    assert_eq!(failure.attribute("type"), Some("slow-rail"));
    assert_eq!(failure.attribute("message"), Some(finding.sentence.as_str()));
    let words = failure.text().unwrap();
    for part in [&finding.sentence, &finding.rule, &finding.next_step]
        .into_iter()
        .chain(&finding.evidence)
        .chain(&finding.repeat)
    {
        assert!(words.contains(&escape::line(part)), "{part}:\n{words}");
    }
}

#[test]
fn a_finding_that_rests_on_two_tests_is_told_by_both_and_is_one_case() {
    let mut run = with_slow_rail();
    let mut second = run.1.tests[0].clone();
    second.name = "pairs".into();
    run.1.tests.push(second);
    let last = *run.1.findings[0].cells.last().unwrap();
    for cell in run.1.cells.iter_mut().filter(|cell| cell.cell.id == last) {
        cell.cell.test = "pairs".into();
    }
    let text = render(&run);
    let document = Document::parse(&text).unwrap();
    let sentence = &run.1.findings[0].sentence;
    for test in ["rails", "pairs"] {
        let failure = child(case(&document, test), "failure").unwrap();
        assert!(failure.text().unwrap().contains(sentence), "{test}");
    }
    let name = format!("slow-rail: {}", run.1.findings[0].part());
    let class = case(&document, &name).attribute("classname");
    assert_eq!(class, Some("railgauge.smoke.findings"));
    assert_eq!(cases(&document).len(), 4);
}

#[test]
fn names_are_the_same_on_another_night_with_other_numbers() {
    let names = |seed: u64| -> Vec<String> {
        let slow = |cell: &Cell, _| match cell.rails[0].as_str() {
            "rail1" => 0.6 * HEALTHY,
            _ => HEALTHY,
        };
        let mut recorded = Fixture::rails(3).noise(0.03, seed).speed(slow).recorded();
        recorded.run.started = format!("2026-11-{:02}T23:50:12Z", 10 + seed);
        let judgement = judge(&recorded);
        let text = render(&(recorded, judgement));
        let document = Document::parse(&text).unwrap();
        let name =
            |case: Node<'_, '_>| format!("{:?} {:?}", case.attribute("classname"), case.attribute("name"));
        cases(&document).into_iter().map(name).collect()
    };
    assert_eq!(names(1), names(2));
    assert_eq!(names(1).len(), 3);
}

#[test]
fn a_run_that_did_not_pass_has_a_red_case_and_one_that_did_has_none() {
    let red = |run: &(Recorded, Judgement)| {
        let text = render(run);
        let document = Document::parse(&text).unwrap();
        let is_red =
            |case: &Node<'_, '_>| child(*case, "failure").is_some() || child(*case, "error").is_some();
        cases(&document).into_iter().filter(is_red).count()
    };
    let mut run = with_slow_rail();
    assert!(red(&run) >= 2);
    run.1.findings.clear();
    for test in &mut run.1.tests {
        test.verdict = Verdict::NotRun("no time".into());
    }
    run.1.verdict = Verdict::Inconclusive("rails: no time".into());
    assert_eq!(red(&run), 1, "that nothing was measured is not green");
    run.1.verdict = Verdict::Pass;
    for test in &mut run.1.tests {
        test.verdict = Verdict::Pass;
    }
    assert_eq!(red(&run), 0);
}

#[test]
fn the_counts_of_every_suite_are_those_of_its_cases() {
    let mut run = with_slow_rail();
    let mut unclear = run.1.findings[0].clone();
    unclear.kind = FindingKind::UnclearDrift;
    unclear.cells.clear();
    run.1.findings.extend([unclear.clone(), unclear]);
    let untested = |number: u32| Untested {
        what: format!("pair {number}"),
        why: "no time".into(),
    };
    run.1.coverage.untested = (0..1234).map(untested).collect();
    let text = render(&run);
    let document = Document::parse(&text).unwrap();
    let number = |node: Node<'_, '_>, name: &str| -> usize { node.attribute(name).unwrap().parse().unwrap() };
    let mut total = [0; 4];
    let names = ["tests", "failures", "errors", "skipped"];
    for suite in document.root_element().children().filter(Node::is_element) {
        let of = |name: &str| {
            let cases = suite.children().filter(|node| node.has_tag_name("testcase"));
            cases
                .filter(|case| name.is_empty() || child(*case, name).is_some())
                .count()
        };
        let counts = [of(""), of("failure"), of("error"), of("skipped")];
        assert_eq!(names.map(|name| number(suite, name)), counts);
        total = std::array::from_fn(|at| total[at] + counts[at]);
    }
    assert_eq!(names.map(|name| number(document.root_element(), name)), total);
    // Two findings of one name are two cases; what is left out beyond all measure is one.
    let name = format!("unclear-drift: {} (2)", run.1.findings[1].part());
    assert!(child(case(&document, &name), "error").is_some());
    let rest = child(case(&document, "everything else that was not tested"), "skipped").unwrap();
    assert!(rest.attribute("message").unwrap().starts_with("234 more"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn whatever_a_finding_says_a_reader_of_xml_gets_its_text(said in any::<String>()) {
        let (recorded, mut judgement) = (Recorded::clone(&SLOW.0), Judgement::clone(&SLOW.1));
        judgement.findings[0].sentence = said.clone();
        judgement.findings[0].next_step = said.clone();
        judgement.suite = said.clone();
        judgement.started = said.clone();
        let text = render(&(recorded, judgement));
        let document = Document::parse(&text).unwrap();
        let shown = escape::line(&said).replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}");
        let messages = document.descendants().filter_map(|node| node.attribute("message"));
        prop_assert_eq!(messages.filter(|message| *message == shown).count(), 1);
        let wanted = format!("next: {shown}");
        let texts = document.descendants().filter_map(|node| node.text());
        prop_assert!(texts.into_iter().any(|text| text.lines().any(|line| line == wanted)));
    }
}

static SLOW: std::sync::LazyLock<(Recorded, Judgement)> = std::sync::LazyLock::new(with_slow_rail);
