//! What counters say about why a part is slow. There are counters at both ends of a cable; they distinguish its
//! optics from congestion, the host's bus, loss elsewhere, and settings.
//!
//! A broken rule is a symptom. Wrong bits and bus errors are symptoms also where no rate could be judged: at a slow
//! part without another explanation they are significant. "No counter moved" is reported only where all of them could
//! be read.

use super::breach::{BoundCheck, Breach, breaches, check_rule, level};
use super::of_ends;
use super::tally::{CounterQuery, CountersByEnd, EndCounters, ends};
use crate::findings::analysis::RunAnalysis;
use record::counters::{CounterKind, named};
use record::text;
use record::{CounterState, Finding, PortName, Question};

/// What the counters of the ends of a slow part say.
pub(in crate::findings) struct CounterDiagnosis {
    /// What moved, for the sentence.
    pub(in crate::findings) facts: Vec<String>,
    /// What that points to; none when nothing was read at all.
    points_to: Option<String>,
    /// What to do about it first.
    advice: Option<String>,
}

/// A broken rule at one end, with the counters that broke it.
struct EndSymptom<'s> {
    host: &'s str,
    words: String,
    counters: Vec<String>,
    kind: CounterKind,
    action: String,
}

/// Most specific first: wrong bits also cause loss and retransmissions.
const ORDER: [CounterKind; 4] = [
    CounterKind::Physical,
    CounterKind::Pcie,
    CounterKind::Congestion,
    CounterKind::Loss,
];

/// The rule about receivers that do not keep up.
const OF_THE_RECEIVER: &str = "receiver-out-of-room";

/// What the counters of `rail` at the ranks in question say about slow cells.
pub(in crate::findings) fn of(
    analysis: &RunAnalysis<'_>,
    rail: &str,
    cells: &[u32],
    concerns: &dyn Fn(u32) -> bool,
) -> CounterDiagnosis {
    let query = CounterQuery {
        rail: Some(rail),
        cells: Some(cells),
        concerns,
    };
    let ends = ends(&analysis.index, &query);
    let facts = of_ends(&ends, rail);
    let symptoms = symptoms(analysis, &ends);
    for kind in ORDER {
        let of_kind: Vec<&EndSymptom<'_>> =
            symptoms.iter().filter(|symptoms| symptoms.kind == kind).collect();
        if !of_kind.is_empty() {
            return of_kind_at(rail, kind, &of_kind, facts);
        }
    }
    let (points_to, advice) = without_symptoms(rail, &ends);
    CounterDiagnosis {
        facts,
        points_to,
        advice,
    }
}

/// The same about a cable between switches. Counters of hosts say nothing about its optics, only about congestion and
/// loss on the path.
pub(in crate::findings) fn between_switches(
    analysis: &RunAnalysis<'_>,
    rail: &str,
    cells: &[u32],
) -> CounterDiagnosis {
    let query = CounterQuery {
        rail: Some(rail),
        cells: Some(cells),
        concerns: &|_| true,
    };
    let ends = ends(&analysis.index, &query);
    let facts = of_ends(&ends, rail);
    let symptoms = symptoms(analysis, &ends);
    for kind in [CounterKind::Congestion, CounterKind::Loss] {
        let of_kind: Vec<&EndSymptom<'_>> =
            symptoms.iter().filter(|symptoms| symptoms.kind == kind).collect();
        if !of_kind.is_empty() {
            return CounterDiagnosis {
                advice: None,
                ..of_kind_at(rail, kind, &of_kind, facts)
            };
        }
    }
    CounterDiagnosis {
        facts,
        points_to: Some("error counters of the switches at its ends were not read".to_string()),
        advice: None,
    }
}

impl CounterDiagnosis {
    /// Adds it to a finding: as evidence, as the first step, and to the likeliest suspect.
    pub(in crate::findings) fn add_to(&self, finding: &mut Finding) {
        finding.evidence.extend(self.facts.iter().cloned());
        if let Some(points_to) = &self.points_to {
            finding.evidence.push(points_to.clone());
            if let Some(suspect) = finding.suspects.first_mut() {
                suspect.why = format!("{}; {points_to}", suspect.why);
            }
        }
        if let Some(advice) = &self.advice {
            finding.next_step = format!("{advice}; {}", finding.next_step);
        }
    }
}

/// All symptoms, per end and rule.
fn symptoms<'s>(analysis: &RunAnalysis<'_>, ends: &'s CountersByEnd<'_>) -> Vec<EndSymptom<'s>> {
    let level = level(analysis.run().rule.budget_of(Question::Counters), ends);
    let mut all: Vec<EndSymptom<'_>> = Vec::new();
    for ((_, host), end) in ends {
        let broken = breaches(end, &analysis.counter_rules, level);
        for breach in &broken {
            add(&mut all, host, breach);
        }
        for (name, moved) in end.trouble() {
            let kind = named(name).map(|counter| counter.kind);
            let Some(kind @ (CounterKind::Physical | CounterKind::Pcie)) = kind else {
                continue;
            };
            let mut about = analysis
                .counter_rules
                .rules
                .iter()
                .filter(|rule| rule.is_about(name));
            let unjudged = about.find(|rule| check_rule(end, moved, rule, level) == BoundCheck::Unjudged);
            let is_said = broken.iter().any(|breach| breach.counter == name);
            if let Some(rule) = unjudged.filter(|_| !is_said) {
                add(
                    &mut all,
                    host,
                    &Breach {
                        rule,
                        counter: name.to_string(),
                        kind,
                        moved: moved.clone(),
                        measured: None,
                    },
                );
            }
        }
    }
    all
}

fn add<'s>(all: &mut Vec<EndSymptom<'s>>, host: &'s str, breach: &Breach<'_>) {
    let words = breach.rule.words();
    let rate = breach
        .measured
        .as_ref()
        .map_or_else(String::new, |rate| format!(", {rate}"));
    let counter = format!("{} {}{rate}", breach.counter, breach.moved.words());
    let same = |symptoms: &&mut EndSymptom<'_>| symptoms.host == host && symptoms.words == words;
    match all.iter_mut().find(same) {
        Some(symptoms) => symptoms.counters.push(counter),
        None => all.push(EndSymptom {
            host,
            words,
            counters: vec![counter],
            kind: breach.kind,
            action: breach.rule.action.clone(),
        }),
    }
}

fn of_kind_at(
    rail: &str,
    kind: CounterKind,
    symptoms: &[&EndSymptom<'_>],
    facts: Vec<String>,
) -> CounterDiagnosis {
    let receiver = OF_THE_RECEIVER.replace('-', " ");
    let what = match kind {
        CounterKind::Physical => "optics or cable",
        CounterKind::Pcie => "the host's slot or bus, not the fabric",
        CounterKind::Congestion if symptoms.iter().all(|symptoms| symptoms.words == receiver) => {
            "congestion: the receiving host does not keep up"
        }
        CounterKind::Congestion => "congestion on the path or at its receiver, not a broken cable",
        _ => "loss further along the path",
    };
    let at = |symptom: &EndSymptom<'_>| {
        let port = PortName {
            node: symptom.host,
            port: rail,
        };
        port.to_string()
    };
    let each: Vec<String> = symptoms
        .iter()
        .map(|symptom| {
            let counters = text::list(&symptom.counters);
            format!("{} rising on {} ({counters})", symptom.words, at(symptom))
        })
        .collect();
    CounterDiagnosis {
        facts,
        points_to: Some(format!("{}: {what}", text::list(&each))),
        advice: symptoms
            .first()
            .map(|symptom| format!("{} ({})", symptom.action, at(symptom))),
    }
}

/// The diagnosis where no counter is a symptom.
fn without_symptoms(rail: &str, ends: &CountersByEnd<'_>) -> (Option<String>, Option<String>) {
    if ends.values().all(|end| end.known.is_empty()) {
        return (None, None);
    }
    let blind: Vec<String> = ends
        .iter()
        .filter_map(|((_, host), end)| {
            let unread = unread(end);
            let port = PortName {
                node: host,
                port: rail,
            };
            (!unread.is_empty()).then(|| format!("{} on {port}", text::list(&unread)))
        })
        .collect();
    if blind.is_empty() {
        return (
            Some(format!(
                "counters of wire, congestion and bus of {rail} were read and none moved beyond its \
                 bound: suspect the configuration (rate, width, MTU, firmware, routing)"
            )),
            Some("compare rate, width, MTU, firmware and routing of that part with its peers".to_string()),
        );
    }
    let why = format!("counters do not explain it; unreadable: {}", text::list(&blind));
    (Some(why), None)
}

/// Which of the needed counters of an end could not be read: wire, congestion, bus.
fn unread(end: &EndCounters<'_>) -> Vec<String> {
    let needed = [
        (CounterKind::Physical, "wire errors"),
        (CounterKind::Congestion, "congestion counters"),
        (CounterKind::Pcie, "PCI bus errors"),
    ];
    let lacking = needed.into_iter().filter(|(kind, _)| !end.knows(*kind));
    let mut unread: Vec<String> = lacking.map(|(_, what)| what.to_string()).collect();
    for (name, state) in &end.missing {
        if let CounterState::Unreadable(why) = state {
            unread.push(format!("{name} ({why})"));
        }
    }
    if end.missing.get("ethtool/*") == Some(&&CounterState::Absent) {
        unread.push("driver counters".to_string());
    }
    unread
}
