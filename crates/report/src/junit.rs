//! `junit.xml`: every verdict as a test case, for the pages of pipelines. The form is that of `docs/junit.xsd`.
//!
//! Held true: a case fails here only if the exit code reports it, and a run that did not pass has at least one; a case
//! has the same name every night for as long as it is about the same part; a name from elsewhere is text, and there is no
//! `system-out`, in which GitLab would look for files to attach.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io;

use super::escape::markup as inert;
use crate::writer::Writer;
use record::{
    Event, Finding, History, Judgement, Recorded, Severity, TestVerdict, Untested, Verdict, exit_code, files,
};

/// Things that were not tested, each with a case of its own; more than these share one.
const MOST_UNTESTED: usize = 1000;
/// Findings quoted in the case of a test; each also has a case of its own.
const MOST_SENTENCES: usize = 20;
/// The longest name of a case, in characters: viewers cut it anyway, and databases refuse it.
const LONGEST_NAME: usize = 200;

/// Verdicts as test cases.
pub(super) struct JUnit;

impl Writer for JUnit {
    fn file(&self) -> &'static str {
        files::JUNIT
    }

    fn render(&self, recorded: &Recorded, judgement: &Judgement) -> io::Result<String> {
        let mut suites = suites(judgement);
        suites.extend(changes_since_earlier_runs(judgement, recorded.history.as_ref()));
        let total =
            |count: fn(&Outcome) -> bool| suites.iter().map(|suite| suite.count(count)).sum::<usize>();
        let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
        let took = took(recorded, judgement);
        out.push_str(&format!(
            "<testsuites name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{took:.3}\">\n",
            inert(&format!("railgauge {}", judgement.suite)),
            total(|_| true),
            total(Outcome::is_failure),
            total(Outcome::is_error),
            total(Outcome::is_skipped),
        ));
        let host = recorded.run.hosts.first().map_or("", |host| host.name.as_str());
        for (id, suite) in suites.iter().enumerate() {
            let properties = (id == 0).then(|| properties(recorded, judgement));
            suite.write(&mut out, id, &judgement.started, host, properties.as_deref());
        }
        out.push_str("</testsuites>\n");
        Ok(out)
    }
}

/// What a viewer shows of a case. Messages are one line, details many.
enum Outcome {
    Passed,
    /// Measured, and not as it should be.
    Failed {
        kind: String,
        message: String,
        details: Vec<String>,
    },
    /// Nothing can be said: the test itself came to no end.
    Undecided {
        kind: String,
        message: String,
        details: Vec<String>,
    },
    /// Not measured.
    Skipped(String),
}

impl Outcome {
    fn of(verdict: &Verdict, details: Vec<String>) -> Outcome {
        match verdict {
            Verdict::Pass => Outcome::Passed,
            Verdict::Fail(why) => Outcome::Failed {
                kind: "fail".into(),
                message: why.clone(),
                details,
            },
            Verdict::Inconclusive(why) => Outcome::Undecided {
                kind: "inconclusive".into(),
                message: why.clone(),
                details,
            },
            Verdict::NotRun(why) => Outcome::Skipped(why.clone()),
        }
    }

    fn is_failure(&self) -> bool {
        matches!(self, Outcome::Failed { .. })
    }

    fn is_error(&self) -> bool {
        matches!(self, Outcome::Undecided { .. })
    }

    fn is_skipped(&self) -> bool {
        matches!(self, Outcome::Skipped(_))
    }
}

struct Case {
    name: String,
    seconds: f64,
    outcome: Outcome,
}

struct Suite {
    name: String,
    class: String,
    cases: Vec<Case>,
}

impl Suite {
    fn count(&self, wanted: fn(&Outcome) -> bool) -> usize {
        self.cases.iter().filter(|case| wanted(&case.outcome)).count()
    }

    fn write(&self, out: &mut String, id: usize, started: &str, host: &str, properties: Option<&str>) {
        let seconds: f64 = self.cases.iter().map(|case| case.seconds).sum();
        out.push_str(&format!(
            "  <testsuite id=\"{id}\" name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{seconds:.3}\"{} \
             hostname=\"{}\">\n",
            inert(&self.name),
            self.cases.len(),
            self.count(Outcome::is_failure),
            self.count(Outcome::is_error),
            self.count(Outcome::is_skipped),
            // Whatever is not a time would make the whole file invalid.
            match started.parse::<jiff::Timestamp>() {
                Ok(started) => format!(" timestamp=\"{started}\""),
                Err(_) => String::new(),
            },
            inert(host),
        ));
        out.push_str(properties.unwrap_or_default());
        let mut taken = HashSet::new();
        let mut times: HashMap<String, usize> = HashMap::new();
        for case in &self.cases {
            let name = distinct(inert(&case.name), &mut taken, &mut times);
            out.push_str(&format!(
                "    <testcase classname=\"{}\" name=\"{name}\" time=\"{:.3}\"",
                inert(&self.class),
                case.seconds
            ));
            write_outcome(out, &case.outcome);
        }
        out.push_str("  </testsuite>\n");
    }
}

/// Viewers take cases of one name for one case, and show the last: a name that is taken gets a number.
fn distinct(name: String, taken: &mut HashSet<String>, times: &mut HashMap<String, usize>) -> String {
    let mut attempt = name.clone();
    while !taken.insert(attempt.clone()) {
        let number = times.entry(name.clone()).or_insert(1);
        *number += 1;
        attempt = format!("{name} ({number})");
    }
    attempt
}

fn write_outcome(out: &mut String, outcome: &Outcome) {
    let (element, kind, message, details) = match outcome {
        Outcome::Passed => return out.push_str("/>\n"),
        Outcome::Skipped(why) => {
            return out.push_str(&format!(
                ">\n      <skipped message=\"{}\"/>\n    </testcase>\n",
                inert(why)
            ));
        }
        Outcome::Failed {
            kind,
            message,
            details,
        } => ("failure", kind, message, details),
        Outcome::Undecided {
            kind,
            message,
            details,
        } => ("error", kind, message, details),
    };
    let lines: Vec<String> = details.iter().map(|line| inert(line)).collect();
    out.push_str(&format!(
        ">\n      <{element} type=\"{}\" message=\"{}\">{}</{element}>\n    </testcase>\n",
        inert(kind),
        inert(message),
        lines.join("\n")
    ));
}

/// The run as a whole, each test with the findings that rest on it alone, the other findings, and what was not tested.
fn suites(judgement: &Judgement) -> Vec<Suite> {
    let suite = judgement.suite.as_str();
    let test_of: HashMap<u32, &str> = judgement
        .cells
        .iter()
        .map(|cell| (cell.cell.id, cell.cell.test.as_str()))
        .collect();
    let mut seconds: HashMap<&str, f64> = HashMap::new();
    for cell in &judgement.cells {
        let took = cell.time.map_or(0.0, |time| time.median.as_secs_f64());
        *seconds.entry(cell.cell.test.as_str()).or_default() += took * f64::from(cell.iterations);
    }
    let names: BTreeSet<&str> = judgement.tests.iter().map(|test| test.name.as_str()).collect();
    let mut concerns: BTreeMap<&str, Concerns<'_>> = BTreeMap::new();
    let mut others = Vec::new();
    for finding in &judgement.findings {
        let tests: BTreeSet<&str> = finding
            .cells
            .iter()
            .filter_map(|cell| test_of.get(cell).copied())
            .collect();
        let tests: Vec<&str> = tests.intersection(&names).copied().collect();
        for test in &tests {
            concerns.entry(test).or_default().all.push(finding);
        }
        match tests.as_slice() {
            [only] => concerns.entry(only).or_default().own.push(finding),
            _ => others.push(finding),
        }
    }
    let run = Case {
        name: format!("{} (whole run)", clip(suite)),
        seconds: 0.0,
        outcome: Outcome::of(&judgement.verdict, vec![judgement.summary.clone()]),
    };
    let mut suites = vec![named_suite(suite, None, vec![run])];
    for test in &judgement.tests {
        // With two tests of one name, findings appear once.
        let concerns = concerns.remove(test.name.as_str()).unwrap_or_default();
        let took = seconds.remove(test.name.as_str()).unwrap_or(0.0);
        suites.push(of_one_test(suite, test, &concerns, took));
    }
    if !others.is_empty() {
        let cases = others.into_iter().map(of_finding).collect();
        suites.push(named_suite(suite, Some("findings"), cases));
    }
    let coverage = &judgement.coverage;
    let left: Vec<&Untested> = coverage.not_measured.iter().chain(&coverage.untested).collect();
    if !left.is_empty() {
        suites.push(named_suite(suite, Some("coverage"), not_tested(&left)));
    }
    suites
}

/// Changes against earlier runs that the exit code reports; findings of this run have their cases already.
fn changes_since_earlier_runs(judgement: &Judgement, history: Option<&History>) -> Option<Suite> {
    let issues = history?.issues.iter();
    let failing = issues.filter(|issue| issue.severity == Severity::Page && issue.change.is_some());
    let cases: Vec<Case> = failing
        .map(|issue| Case {
            name: clip(&format!("changed: {}", issue.part)),
            seconds: 0.0,
            outcome: Outcome::Failed {
                kind: "changed".into(),
                message: issue.sentence.clone(),
                details: vec![
                    issue.sentence.clone(),
                    format!("status: {}", issue.status.in_words()),
                    format!("first seen: {}", issue.first),
                ],
            },
        })
        .collect();
    (!cases.is_empty()).then(|| named_suite(&judgement.suite, Some("history"), cases))
}

fn named_suite(suite: &str, part: Option<&str>, cases: Vec<Case>) -> Suite {
    let words: Vec<String> = [Some(suite), part].into_iter().flatten().map(dotless).collect();
    Suite {
        name: words.join("."),
        class: format!("railgauge.{}", words.join(".")),
        cases,
    }
}

/// The findings that have to do with a test.
#[derive(Default)]
struct Concerns<'a> {
    /// Those that rest on cells of it, worst first.
    all: Vec<&'a Finding>,
    /// Those of them that rest on no other test's.
    own: Vec<&'a Finding>,
}

fn of_one_test(suite: &str, test: &TestVerdict, concerns: &Concerns<'_>, seconds: f64) -> Suite {
    let mut details = vec![format!(
        "{} of {} planned cells measured",
        test.measured, test.planned
    )];
    let sentence = |finding: &&Finding| format!("{}: {}", finding.kind, finding.sentence);
    details.extend(concerns.all.iter().take(MOST_SENTENCES).map(sentence));
    match concerns.all.len().saturating_sub(MOST_SENTENCES) {
        0 => {}
        more => details.push(format!("and {more} more findings")),
    }
    let mut cases = vec![Case {
        name: clip(&test.name),
        seconds,
        outcome: Outcome::of(&test.verdict, details),
    }];
    cases.extend(concerns.own.iter().map(|finding| of_finding(finding)));
    named_suite(suite, Some(&test.name), cases)
}

/// A finding is a case that failed; one that says that nothing can be said is one that came to no end.
fn of_finding(finding: &Finding) -> Case {
    let kind = finding.kind.to_string();
    let (message, details) = (finding.sentence.clone(), in_full(finding));
    Case {
        name: clip(&format!("{kind}: {}", finding.part())),
        seconds: 0.0,
        outcome: match finding.kind.exit_code() {
            exit_code::INCONCLUSIVE => Outcome::Undecided {
                kind,
                message,
                details,
            },
            _ => Outcome::Failed {
                kind,
                message,
                details,
            },
        },
    }
}

fn in_full(finding: &Finding) -> Vec<String> {
    let mut lines = vec![finding.sentence.clone(), String::new()];
    lines.push(format!("part: {}", finding.part()));
    lines.extend(finding.measured.map(|measured| format!("measured: {measured}")));
    lines.extend(finding.expected.map(|expected| format!("expected: {expected}")));
    lines.push(format!("rule: {}", finding.rule));
    lines.extend(finding.confirmation.as_ref().map(|confirmation| {
        format!(
            "confirmed in {} rounds, p = {:.2e} corrected for {} comparisons",
            confirmation.rounds, confirmation.p_value, confirmation.comparisons
        )
    }));
    lines.extend(finding.suspects.iter().map(|suspect| {
        format!(
            "suspect: {} ({}), confidence {:.2}: {}",
            suspect.part, suspect.kind, suspect.confidence, suspect.why
        )
    }));
    lines.extend(finding.evidence.iter().map(|line| format!("evidence: {line}")));
    lines.extend(
        finding
            .not_told_apart_from
            .iter()
            .map(|part| format!("ambiguous with: {part}")),
    );
    lines.push(format!("next: {}", finding.next_step));
    lines.extend(finding.repeat.iter().map(|repeat| format!("repeat: {repeat}")));
    lines
}

fn not_tested(left: &[&Untested]) -> Vec<Case> {
    let skipped = |name: String, why: String| Case {
        name,
        seconds: 0.0,
        outcome: Outcome::Skipped(why),
    };
    let mut cases: Vec<Case> = left
        .iter()
        .take(MOST_UNTESTED)
        .map(|entry| skipped(clip(&entry.what), entry.why.clone()))
        .collect();
    let more = left.len() - cases.len();
    if more > 0 {
        cases.push(skipped(
            "everything else that was not tested".into(),
            format!("{more} more, each with its reason in {}", files::FINDINGS),
        ));
    }
    cases
}

/// From start to end of the run in seconds; 0 where the record does not say.
fn took(recorded: &Recorded, judgement: &Judgement) -> f64 {
    let ended = recorded.events.iter().rev().find_map(|event| match event {
        Event::End { at, .. } => Some(at.as_str()),
        _ => None,
    });
    let second = |text: &str| text.parse::<jiff::Timestamp>().ok().map(|at| at.as_second());
    match (second(&judgement.started), ended.and_then(second)) {
        (Some(start), Some(end)) => end.saturating_sub(start).max(0) as f64,
        _ => 0.0,
    }
}

fn properties(recorded: &Recorded, judgement: &Judgement) -> String {
    let verdict = crate::verdict_words::verdict_words(&judgement.verdict).0;
    let entries = [
        ("railgauge.version", judgement.version.clone()),
        ("railgauge.verdict", verdict.to_string()),
        ("railgauge.exit_code", judgement.exit_code.to_string()),
        ("railgauge.seed", recorded.run.seed.to_string()),
        ("railgauge.command", recorded.run.command.join(" ")),
        ("railgauge.injected", judgement.injected.join("; ")),
    ];
    let nights = recorded.history.iter().flat_map(|history| {
        [
            ("railgauge.history.nights", history.nights.to_string()),
            ("railgauge.history.summary", history.summary.clone()),
        ]
    });
    let mut out = String::from("    <properties>\n");
    for (name, value) in entries.into_iter().chain(nights) {
        out.push_str(&format!(
            "      <property name=\"{name}\" value=\"{}\"/>\n",
            inert(&value)
        ));
    }
    out + "    </properties>\n"
}

/// Viewers read what is before a dot as a package.
fn dotless(name: &str) -> String {
    clip(name).replace('.', "_")
}

/// A name of a case: neither empty nor without an end.
fn clip(name: &str) -> String {
    match name.chars().count() {
        0 => "unnamed".to_string(),
        1..=LONGEST_NAME => name.to_string(),
        _ => name.chars().take(LONGEST_NAME - 3).chain("...".chars()).collect(),
    }
}
