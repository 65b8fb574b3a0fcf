//! Parts against the golden file, and parts of one node against each other where the file says what goes together.

use std::collections::{BTreeMap, BTreeSet};

use super::log::DriftLog;
use super::parts::{LocatedPart, Parts, SettledFacts};
use record::{Deviation, DriftBasis, Fact, PartClass};
use topology::suite::Golden;
use topology::suite::golden::{Compatibility, Condition, GoldenEntry, GoldenLine};

/// The rule of what goes together.
pub(super) const COMPATIBLE: &str = "compatible";

const ADVICE: &str = "bring it to what the golden file says, or correct the file";
const BECAUSE: &str = "the golden file says what this fleet was qualified with";

/// What the golden file decides, and its lines that match no part.
#[derive(Default)]
pub(super) struct GoldenVerdict<'a> {
    /// Facts of parts that it covers: no other rule compares them.
    pub(super) settled: SettledFacts<'a>,
    /// Lines that match no part.
    pub(super) unused: Vec<String>,
}

/// Facts that a golden file covers.
pub(super) fn facts(golden: &Golden) -> BTreeSet<(PartClass, &str)> {
    let lines = golden.entries.iter();
    let mut facts: BTreeSet<(PartClass, &str)> = lines
        .flat_map(|entry| entry.lines.iter().map(|line| (entry.class, line.fact.as_str())))
        .collect();
    let rules = golden.compatible.iter();
    let conditions = rules.flat_map(|rule| rule.when.iter().chain(&rule.requires));
    facts.extend(conditions.map(|condition| (condition.class, condition.fact.as_str())));
    facts
}

/// Compares every part with the last line that is about it.
pub(super) fn compare<'a>(golden: &'a Golden, parts: &Parts<'a>, log: &mut DriftLog) -> GoldenVerdict<'a> {
    let mut verdict = GoldenVerdict::default();
    let mut used: BTreeSet<u32> = BTreeSet::new();
    type Line<'a> = (&'a GoldenEntry, &'a GoldenLine);
    type Wrong<'a> = (Line<'a>, Vec<LocatedPart<'a>>);
    let mut wrong: BTreeMap<(u32, Option<&str>), Wrong<'a>> = BTreeMap::new();
    for class in golden
        .entries
        .iter()
        .map(|entry| entry.class)
        .collect::<BTreeSet<_>>()
    {
        let entries: Vec<&GoldenEntry> = golden
            .entries
            .iter()
            .filter(|entry| entry.class == class)
            .collect();
        for located in parts.of_class(class) {
            let mut lines: BTreeMap<&str, Line<'_>> = BTreeMap::new();
            for entry in entries
                .iter()
                .filter(|entry| entry.selects(located.node, located.part))
            {
                for line in &entry.lines {
                    used.insert(line.line);
                    lines.insert(&line.fact, (entry, line));
                }
            }
            for (fact, (entry, line)) in lines {
                let value = match located.part.facts.get(fact) {
                    Some(Fact::Value(value)) => Some(value.as_str()),
                    Some(Fact::Absent) => None,
                    Some(Fact::Unreadable { .. }) | None => continue,
                };
                verdict.settled.insert((located.number, fact));
                if value.is_none_or(|value| !line.wanted.is_met_by(value)) {
                    let of_line = wrong
                        .entry((line.line, value))
                        .or_insert(((entry, line), Vec::new()));
                    of_line.1.push(*located);
                }
            }
        }
    }
    for ((_, value), ((entry, line), parts)) in wrong {
        log.add(&parts, deviation(golden, entry, line, value));
    }
    for entry in &golden.entries {
        let lines = entry.lines.iter().filter(|line| !used.contains(&line.line));
        verdict.unused.extend(
            lines.map(|line| format!("{}:{}: {} {}", golden.origin, line.line, entry.class, line.text)),
        );
    }
    verdict
}

fn deviation(golden: &Golden, entry: &GoldenEntry, line: &GoldenLine, value: Option<&str>) -> Deviation {
    Deviation {
        rule: "golden".to_string(),
        class: entry.class,
        fact: line.fact.clone(),
        value: value.map(str::to_string),
        expected: line.wanted.to_string(),
        basis: DriftBasis::Golden {
            file: golden.origin.clone(),
            line: line.line,
            text: line.text.clone(),
        },
        like: None,
        parts: Vec::new(),
        because: entry.because.clone().unwrap_or_else(|| BECAUSE.to_string()),
        advice: ADVICE.to_string(),
        effect: None,
    }
}

/// Checks on every node the combinations that the golden file requires.
pub(super) fn compatible<'a>(golden: &'a Golden, parts: &Parts<'a>, log: &mut DriftLog) {
    if golden.compatible.is_empty() {
        return;
    }
    let mut by_node: BTreeMap<&str, Vec<LocatedPart<'a>>> = BTreeMap::new();
    for located in parts.iter() {
        by_node.entry(located.node).or_default().push(*located);
    }
    for rule in &golden.compatible {
        let mut wrong: BTreeMap<(usize, Option<&str>), Vec<LocatedPart<'a>>> = BTreeMap::new();
        for of_node in by_node.values() {
            for (place, value, located) in broken(rule, of_node) {
                wrong.entry((place, value)).or_default().push(located);
            }
        }
        for ((place, value), parts) in wrong {
            let required = &rule.requires[place];
            log.add(
                &parts,
                Deviation {
                    rule: COMPATIBLE.to_string(),
                    class: required.class,
                    fact: required.fact.clone(),
                    value: value.map(str::to_string),
                    expected: required.wanted.to_string(),
                    basis: DriftBasis::Golden {
                        file: golden.origin.clone(),
                        line: rule.line,
                        text: format!("{} requires {}", in_words(&rule.when), in_words(&rule.requires)),
                    },
                    like: None,
                    parts: Vec::new(),
                    because: rule.because.clone(),
                    advice: "update whichever of the two is behind".to_string(),
                    effect: None,
                },
            );
        }
    }
}

/// What a node lacks by a rule: the requirement's place, the value, the part.
fn broken<'a>(
    rule: &Compatibility,
    of_node: &[LocatedPart<'a>],
) -> Vec<(usize, Option<&'a str>, LocatedPart<'a>)> {
    let classes: BTreeSet<PartClass> = rule.when.iter().map(|condition| condition.class).collect();
    let meets = |located: &LocatedPart<'_>| {
        let asked = rule
            .when
            .iter()
            .filter(|condition| condition.class == located.part.class);
        let mut asked = asked.peekable();
        asked.peek().is_some()
            && asked.all(|condition| {
                let value = located.part.value(&condition.fact);
                value.is_some_and(|value| condition.wanted.is_met_by(value))
            })
    };
    let concerned: Vec<&LocatedPart<'_>> = of_node.iter().filter(|located| meets(located)).collect();
    let applies = classes
        .iter()
        .all(|class| concerned.iter().any(|located| located.part.class == *class));
    if !applies {
        return Vec::new();
    }
    let mut broken = Vec::new();
    for (place, required) in rule.requires.iter().enumerate() {
        for located in of_node
            .iter()
            .filter(|located| located.part.class == required.class)
        {
            // A rule within one class applies to the very same part.
            if classes.contains(&required.class) && !meets(located) {
                continue;
            }
            let value = match located.part.facts.get(&required.fact) {
                Some(Fact::Value(value)) => Some(value.as_str()),
                Some(Fact::Absent) => None,
                Some(Fact::Unreadable { .. }) | None => continue,
            };
            if value.is_none_or(|value| !required.wanted.is_met_by(value)) {
                broken.push((place, value, *located));
            }
        }
    }
    broken
}

/// `nic firmware >= 28.42 and host kernel 6.8`.
fn in_words(conditions: &[Condition]) -> String {
    let words: Vec<String> = conditions
        .iter()
        .map(|condition| format!("{} {} {}", condition.class, condition.fact, condition.wanted))
        .collect();
    words.join(" and ")
}
