//! Parts that are alike, compared fact by fact: which ones deviate from the majority, where no golden file says what
//! is right.

use std::collections::BTreeMap;

use rayon::prelude::*;

use super::capability;
use super::groups::{groups, in_words};
use super::log::DriftLog;
use super::parts::{LocatedPart, Parts, SettledFacts};
use super::rules::DriftRule;
use record::{Deviation, Disagreement, DriftBasis, PartAt};

/// Compares the parts that rules are about.
pub(super) fn compare<'a>(
    rules: &[DriftRule],
    parts: &Parts<'a>,
    settled: &SettledFacts<'a>,
    log: &mut DriftLog,
) {
    let grouped: Vec<_> = rules.par_iter().map(|rule| groups(rule, parts)).collect();
    for (rule, groups) in rules.iter().zip(grouped) {
        for alike in groups.into_values() {
            for fact in rule.agree {
                one_fact(rule, fact, &alike, settled, log);
            }
        }
    }
}

fn one_fact<'a>(
    rule: &DriftRule,
    fact: &'static str,
    alike: &[LocatedPart<'a>],
    settled: &SettledFacts<'a>,
    log: &mut DriftLog,
) {
    let known: Vec<(&LocatedPart<'_>, &str)> = alike
        .iter()
        .filter(|located| !settled.contains(&(located.number, fact)))
        .filter_map(|located| Some((located, located.value(fact)?)))
        .collect();
    let values: Vec<&str> = known.iter().map(|(_, value)| *value).collect();
    match majority(&values) {
        Majority::Agreed => {}
        Majority::Most {
            value: expected,
            agree,
        } => {
            let mut others: BTreeMap<&str, Vec<LocatedPart<'_>>> = BTreeMap::new();
            let deviate = known.iter().filter(|(_, value)| *value != expected);
            for (located, value) in deviate.filter(|(located, _)| !log.accuses(located, fact)) {
                others.entry(value).or_default().push(**located);
            }
            let basis = DriftBasis::Majority {
                agree: agree as u32,
                of: known.len() as u32,
            };
            for (value, parts) in others {
                log.add(
                    &parts,
                    Deviation {
                        rule: rule.name.to_string(),
                        class: rule.class,
                        fact: fact.to_string(),
                        value: Some(value.to_string()),
                        expected: expected.to_string(),
                        basis: basis.clone(),
                        like: in_words(rule, &parts[0]),
                        parts: Vec::new(),
                        because: rule.because.to_string(),
                        advice: rule.advice.to_string(),
                        effect: None,
                    },
                );
            }
        }
        // The parts themselves may show which of them could do more: that decides.
        Majority::Split
            if known
                .iter()
                .any(|(located, _)| capability::falls_short(located, fact)) => {}
        Majority::Split => {
            let mut values: BTreeMap<String, Vec<PartAt>> = BTreeMap::new();
            for (located, value) in &known {
                values.entry(value.to_string()).or_default().push(located.at());
            }
            log.disagreements.push(Disagreement {
                rule: rule.name.to_string(),
                class: rule.class,
                fact: fact.to_string(),
                like: in_words(rule, known[0].0),
                values,
                effects: BTreeMap::new(),
            });
        }
    }
}

/// The majority among like parts about one fact.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Majority<'a> {
    /// All have the same value.
    Agreed,
    /// More than half have this value, and the others do not.
    Most {
        /// Their value.
        value: &'a str,
        /// How many.
        agree: usize,
    },
    /// No value has more than half: which is right is unknown.
    Split,
}

/// The majority of the known `values`.
fn majority<'a>(values: &[&'a str]) -> Majority<'a> {
    if values.windows(2).all(|pair| pair[0] == pair[1]) {
        return Majority::Agreed;
    }
    let mut count: BTreeMap<&'a str, usize> = BTreeMap::new();
    for value in values {
        *count.entry(value).or_default() += 1;
    }
    match count.iter().find(|(_, agree)| 2 * **agree > values.len()) {
        Some((value, agree)) => Majority::Most { value, agree: *agree },
        None => Majority::Split,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_two_is_not_blamed_and_one_of_three_is() {
        assert_eq!(majority(&[]), Majority::Agreed);
        assert_eq!(majority(&["a", "a"]), Majority::Agreed);
        assert_eq!(majority(&["a", "b"]), Majority::Split);
        assert_eq!(
            majority(&["a", "b", "a"]),
            Majority::Most { value: "a", agree: 2 }
        );
        assert_eq!(majority(&["a", "a", "b", "b", "c"]), Majority::Split);
    }
}
