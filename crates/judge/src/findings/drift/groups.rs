//! Parts that are alike, in groups.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::parts::{LocatedPart, Parts};
use super::rules::{DriftRule, Scope};

/// What parts of a group have in common: their kind, then the slot or node where only those are compared.
pub(super) type GroupKey<'a> = Vec<&'a str>;

/// The parts a rule is about, in groups of those that are alike.
pub(super) fn groups<'a>(
    rule: &DriftRule,
    parts: &Parts<'a>,
) -> BTreeMap<GroupKey<'a>, Vec<LocatedPart<'a>>> {
    let nodes_with = match rule.scope {
        Scope::Node => nodes_by_name(rule, parts),
        Scope::Fleet | Scope::Slot => HashMap::new(),
    };
    let mut groups: BTreeMap<GroupKey<'_>, Vec<LocatedPart<'_>>> = BTreeMap::new();
    for located in parts.of_class(rule.class) {
        if located.of_switch && rule.scope != Scope::Fleet {
            continue; // ports of switches are cabled each in its own way
        }
        let known: Option<GroupKey<'_>> = rule.alike.iter().map(|fact| located.part.value(fact)).collect();
        let Some(mut kind) = known else { continue };
        let if_known = rule.alike_if_known.iter();
        kind.extend(if_known.map(|fact| located.part.value(fact).unwrap_or_default()));
        match rule.scope {
            Scope::Fleet => {}
            Scope::Slot => kind.push(&located.part.name),
            Scope::Node if nodes_with[located.part.name.as_str()] > 1 => continue,
            Scope::Node => kind.push(located.node),
        }
        groups.entry(kind).or_default().push(*located);
    }
    groups
}

/// How many hosts have a part of each name.
fn nodes_by_name<'a>(rule: &DriftRule, parts: &Parts<'a>) -> HashMap<&'a str, usize> {
    let mut nodes: HashMap<&str, BTreeSet<&str>> = HashMap::new();
    for located in parts.of_class(rule.class).filter(|located| !located.of_switch) {
        nodes.entry(&located.part.name).or_default().insert(located.node);
    }
    nodes
        .into_iter()
        .map(|(name, nodes)| (name, nodes.len()))
        .collect()
}

/// What makes parts alike, in words: `board MT_0000000838`.
pub(super) fn in_words(rule: &DriftRule, part: &LocatedPart<'_>) -> Option<String> {
    let facts = rule.alike.iter().chain(rule.alike_if_known);
    let known = facts.filter_map(|fact| Some(format!("{fact} {}", part.part.value(fact)?)));
    let words: Vec<String> = known.collect();
    (!words.is_empty()).then(|| words.join(", "))
}
