//! Parts that are alike, compared fact by fact: who says something else than most.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::capability;
use super::ledger::Ledger;
use super::majority::{Opinion, opinion};
use super::parts::{Owned, Parts, Settled};
use super::rules::{Rule, Scope};
use record::{Deviation, Disagreement, DriftBasis, PartAt};

/// Compares the parts that a rule is about.
pub(super) fn compare<'a>(rule: &Rule, parts: &Parts<'a>, settled: &Settled<'a>, ledger: &mut Ledger) {
    for alike in groups(rule, parts).into_values() {
        for fact in rule.agree {
            one_fact(rule, fact, &alike, settled, ledger);
        }
    }
}

/// What parts of a group have in common: their kind, then the slot or node where only those are compared.
type Kind<'a> = Vec<&'a str>;

/// The parts a rule is about, in groups of those that are alike.
pub(super) fn groups<'a>(rule: &Rule, parts: &Parts<'a>) -> BTreeMap<Kind<'a>, Vec<Owned<'a>>> {
    let nodes_with = match rule.scope {
        Scope::Node => nodes_by_name(rule, parts),
        Scope::Fleet | Scope::Slot => HashMap::new(),
    };
    let mut groups: BTreeMap<Kind<'_>, Vec<Owned<'_>>> = BTreeMap::new();
    for owned in parts.of_class(rule.class) {
        if owned.of_switch && rule.scope != Scope::Fleet {
            continue; // ports of switches are cabled each in its own way
        }
        let known: Option<Kind<'_>> = rule.alike.iter().map(|fact| owned.part.value(fact)).collect();
        let Some(mut kind) = known else { continue };
        let if_known = rule.alike_if_known.iter();
        kind.extend(if_known.map(|fact| owned.part.value(fact).unwrap_or_default()));
        match rule.scope {
            Scope::Fleet => {}
            Scope::Slot => kind.push(&owned.part.name),
            Scope::Node if nodes_with[owned.part.name.as_str()] > 1 => continue,
            Scope::Node => kind.push(owned.node),
        }
        groups.entry(kind).or_default().push(*owned);
    }
    groups
}

/// How many hosts have a part of each name.
fn nodes_by_name<'a>(rule: &Rule, parts: &Parts<'a>) -> HashMap<&'a str, usize> {
    let mut nodes: HashMap<&str, BTreeSet<&str>> = HashMap::new();
    for owned in parts.of_class(rule.class).filter(|owned| !owned.of_switch) {
        nodes.entry(&owned.part.name).or_default().insert(owned.node);
    }
    nodes
        .into_iter()
        .map(|(name, nodes)| (name, nodes.len()))
        .collect()
}

/// What makes parts like this one, in words: `board MT_0000000838`.
pub(super) fn in_words(rule: &Rule, part: &Owned<'_>) -> Option<String> {
    let facts = rule.alike.iter().chain(rule.alike_if_known);
    let known = facts.filter_map(|fact| Some(format!("{fact} {}", part.part.value(fact)?)));
    let words: Vec<String> = known.collect();
    (!words.is_empty()).then(|| words.join(", "))
}

fn one_fact<'a>(
    rule: &Rule,
    fact: &'static str,
    alike: &[Owned<'a>],
    settled: &Settled<'a>,
    ledger: &mut Ledger,
) {
    let known: Vec<(&Owned<'_>, &str)> = alike
        .iter()
        .filter(|owned| !settled.contains(&(owned.number, fact)))
        .filter_map(|owned| Some((owned, owned.value(fact)?)))
        .collect();
    let values: Vec<&str> = known.iter().map(|(_, value)| *value).collect();
    match opinion(&values) {
        Opinion::Agreed => {}
        Opinion::Most {
            value: expected,
            agree,
        } => {
            let mut others: BTreeMap<&str, Vec<Owned<'_>>> = BTreeMap::new();
            let deviate = known.iter().filter(|(_, value)| *value != expected);
            for (owned, value) in deviate.filter(|(owned, _)| !ledger.accuses(owned, fact)) {
                others.entry(value).or_default().push(**owned);
            }
            let basis = DriftBasis::Majority {
                agree: agree as u32,
                of: known.len() as u32,
            };
            for (value, parts) in others {
                ledger.add(
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
        // The parts themselves may say which of them could do more: that settles it.
        Opinion::Split
            if known
                .iter()
                .any(|(owned, _)| capability::falls_short(owned, fact)) => {}
        Opinion::Split => {
            let mut values: BTreeMap<String, Vec<PartAt>> = BTreeMap::new();
            for (owned, value) in &known {
                values.entry(value.to_string()).or_default().push(owned.at());
            }
            ledger.disagreements.push(Disagreement {
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
