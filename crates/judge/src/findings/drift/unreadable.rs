//! What could not be read and therefore was not compared: never drift, and never silently left out.

use std::collections::{BTreeMap, BTreeSet};

use super::parts::Parts;
use super::rules::RULES;
use record::{Fact, PartClass, Unreadable};

/// Every fact that a rule or `others` would have compared and that could not be read, with the nodes where.
pub(super) fn of(parts: &Parts<'_>, others: &BTreeSet<(PartClass, &str)>) -> Vec<Unreadable> {
    let mut compared: BTreeSet<(PartClass, &str)> = others.clone();
    for rule in RULES {
        let facts = rule.alike.iter().chain(rule.alike_if_known).chain(rule.agree);
        compared.extend(facts.map(|fact| (rule.class, *fact)));
    }
    type Reason<'a> = (PartClass, &'a str, &'a str, Option<&'a str>);
    let mut reasons: BTreeMap<Reason<'_>, BTreeSet<&str>> = BTreeMap::new();
    for owned in parts.iter() {
        for (name, fact) in &owned.part.facts {
            let Fact::Unreadable { why, needs } = fact else {
                continue;
            };
            if compared.contains(&(owned.part.class, name.as_str())) {
                let reason = (owned.part.class, name.as_str(), why.as_str(), needs.as_deref());
                reasons.entry(reason).or_default().insert(owned.node);
            }
        }
    }
    let entries = reasons
        .into_iter()
        .map(|((class, fact, why, needs), nodes)| Unreadable {
            class,
            fact: fact.to_string(),
            why: why.to_string(),
            needs: needs.map(str::to_string),
            nodes: nodes.into_iter().map(str::to_string).collect(),
        });
    entries.collect()
}
