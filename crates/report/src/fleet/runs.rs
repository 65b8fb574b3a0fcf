//! The runs of a fleet, and the parts that fail in more than one of them.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::verdict_words::verdict_words;
use record::{Judgement, SCHEMA, Verdict, exit_code};

/// The exit code of what cannot be read: nothing is known about it.
const UNKNOWN: u8 = exit_code::INCONCLUSIVE;

/// The part that a run accuses first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Worst {
    /// What kind of trouble.
    pub kind: String,
    /// The part.
    pub part: String,
    /// The finding in one sentence.
    pub sentence: String,
}

/// One run of a fleet.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FleetRun {
    /// What it was named as.
    pub name: String,
    /// Why it cannot be read; everything else is absent then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Name of the suite.
    pub suite: Option<String>,
    /// Start, RFC 3339 in UTC.
    pub started: Option<String>,
    /// Its verdict.
    pub verdict: Option<Verdict>,
    /// Its exit code, or that of a run about which nothing is known.
    pub exit_code: u8,
    /// How many findings it has.
    pub findings: u32,
    /// The finding that comes first.
    pub worst: Option<Worst>,
    /// Cells planned.
    pub planned: u32,
    /// Cells measured to their end.
    pub measured: u32,
    /// Whether faults were injected on purpose.
    pub negative_control: bool,
    /// Parts that it accuses, each with the kinds of trouble.
    #[serde(skip)]
    accused: BTreeMap<String, BTreeSet<String>>,
}

impl FleetRun {
    /// A run that was read and judged.
    pub fn of(name: &str, judgement: &Judgement) -> FleetRun {
        let mut accused: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for finding in &judgement.findings {
            // Inconclusive findings name no part as failing.
            if finding.kind.exit_code() != UNKNOWN {
                let kinds = accused.entry(finding.part()).or_default();
                kinds.insert(finding.kind.to_string());
            }
        }
        FleetRun {
            name: name.to_string(),
            error: None,
            suite: Some(judgement.suite.clone()),
            started: Some(judgement.started.clone()),
            verdict: Some(judgement.verdict.clone()),
            exit_code: judgement.exit_code,
            findings: judgement.findings.len() as u32,
            worst: judgement.findings.first().map(|finding| Worst {
                kind: finding.kind.to_string(),
                part: finding.part(),
                sentence: finding.sentence.clone(),
            }),
            planned: judgement.coverage.planned,
            measured: judgement.coverage.measured,
            negative_control: !judgement.injected.is_empty(),
            accused,
        }
    }

    /// A run that cannot be read, and why.
    pub fn unreadable(name: &str, error: &str) -> FleetRun {
        FleetRun {
            name: name.to_string(),
            error: Some(error.to_string()),
            suite: None,
            started: None,
            verdict: None,
            exit_code: UNKNOWN,
            findings: 0,
            worst: None,
            planned: 0,
            measured: 0,
            negative_control: false,
            accused: BTreeMap::new(),
        }
    }

    /// Its verdict in one word.
    pub(super) fn word(&self) -> &'static str {
        match &self.verdict {
            Some(verdict) => verdict_words(verdict).0,
            None => "unreadable",
        }
    }

    /// What is to be said of it in a few words: the part at fault, else why it did not pass.
    pub(super) fn said(&self) -> String {
        let reason = |verdict: &Verdict| verdict_words(verdict).1.map(str::to_string);
        match (&self.error, &self.worst) {
            (Some(error), _) => error.clone(),
            (None, Some(worst)) => format!("{} {}", worst.kind, worst.part),
            (None, None) => self.verdict.as_ref().and_then(reason).unwrap_or_default(),
        }
    }
}

/// A part that more than one run accuses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Repeated {
    /// The part.
    pub part: String,
    /// What kinds of trouble it is in.
    pub kinds: Vec<String>,
    /// The runs that accuse it.
    pub runs: Vec<String>,
}

/// Several runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fleet {
    /// Version of this format.
    pub schema: u32,
    /// Version of railgauge that judged.
    pub version: String,
    /// The highest of the runs'.
    pub exit_code: u8,
    /// One sentence for the person who reads nothing else.
    pub summary: String,
    /// The runs in the order of their start, unreadable ones last.
    pub runs: Vec<FleetRun>,
    /// Parts that fail in more than one run, the one with most runs first.
    pub repeated: Vec<Repeated>,
}

impl Fleet {
    /// Puts runs together.
    pub fn of(mut runs: Vec<FleetRun>) -> Fleet {
        runs.sort_by(|a, b| {
            let key = |run: &FleetRun| (run.error.is_some(), run.started.clone(), run.name.clone());
            key(a).cmp(&key(b))
        });
        let repeated = repeated(&runs);
        let exit_code = match runs.is_empty() {
            true => UNKNOWN,
            false => exit_code::worst(runs.iter().map(|run| run.exit_code)),
        };
        Fleet {
            schema: SCHEMA,
            version: record::VERSION.to_string(),
            exit_code,
            summary: summary(&runs, &repeated),
            runs,
            repeated,
        }
    }
}

impl Fleet {
    /// The verdict that its headline is coloured by: one run that failed is not hidden by another that cannot be read.
    pub(super) fn verdict(&self) -> Verdict {
        let failed = |run: &FleetRun| matches!(run.verdict, Some(Verdict::Fail(_)));
        match self.exit_code {
            _ if self.runs.iter().any(failed) => Verdict::Fail(String::new()),
            0 => Verdict::Pass,
            _ => Verdict::Inconclusive(String::new()),
        }
    }
}

fn repeated(runs: &[FleetRun]) -> Vec<Repeated> {
    let mut parts: BTreeMap<&str, (BTreeSet<&str>, Vec<String>)> = BTreeMap::new();
    for run in runs {
        for (part, kinds) in &run.accused {
            let (known, names) = parts.entry(part).or_default();
            known.extend(kinds.iter().map(String::as_str));
            names.push(run.name.clone());
        }
    }
    let mut repeated: Vec<Repeated> = parts
        .into_iter()
        .filter(|(_, (_, runs))| runs.len() > 1)
        .map(|(part, (kinds, runs))| Repeated {
            part: part.to_string(),
            kinds: kinds.into_iter().map(String::from).collect(),
            runs,
        })
        .collect();
    // Stable: parts that fail equally often stay in the order of their names.
    repeated.sort_by_key(|part| std::cmp::Reverse(part.runs.len()));
    repeated
}

fn summary(runs: &[FleetRun], repeated: &[Repeated]) -> String {
    let count = |wanted: fn(&FleetRun) -> bool| runs.iter().filter(|run| wanted(run)).count();
    let passed = count(|run| run.verdict == Some(Verdict::Pass));
    let failed = count(|run| matches!(run.verdict, Some(Verdict::Fail(_))));
    let unreadable = count(|run| run.error.is_some());
    let mut said = vec![format!(
        "{} runs: {passed} passed, {failed} failed, {} inconclusive",
        runs.len(),
        runs.len() - passed - failed - unreadable
    )];
    if unreadable > 0 {
        said.push(format!("{unreadable} cannot be read"));
    }
    if let Some(first) = repeated.first() {
        said.push(format!("{} fails in {} of them", first.part, first.runs.len()));
    }
    said.join(", ")
}
