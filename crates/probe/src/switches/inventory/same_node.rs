//! One node that goes by two names: `leaf1` calls itself so, and its neighbours see `leaf1.pod3.example`.

use std::collections::{HashMap, HashSet};

use super::told::Told;

/// Renames the far ends of cables to what those nodes call themselves, where that is one of them for certain.
pub(super) fn settle<'t>(told: impl Iterator<Item = &'t mut Told>) {
    let mut told: Vec<&mut Told> = told.collect();
    let mut known: HashSet<String> = HashSet::new();
    for told in &told {
        known.extend(told.parts.iter().map(|(switch, _)| switch.clone()));
        known.extend(told.cables.iter().map(|cable| cable.ends[0].node.clone()));
    }
    let mut by_short: HashMap<String, Vec<String>> = HashMap::new();
    for name in known.iter().filter(|name| is_word(name)) {
        by_short
            .entry(short(name).to_string())
            .or_default()
            .push(name.clone());
    }
    for end in told
        .iter_mut()
        .flat_map(|told| &mut told.cables)
        .map(|cable| &mut cable.ends[1])
    {
        if known.contains(&end.node) || !is_word(&end.node) {
            continue;
        }
        // Of two names one must be without a domain: with two domains they are two nodes.
        let has_domain = short(&end.node) != end.node;
        let fits = |name: &&String| !has_domain || short(name) == name.as_str();
        let candidates = by_short.get(short(&end.node)).into_iter().flatten().filter(fits);
        let candidates: Vec<&String> = candidates.collect();
        if let [name] = candidates[..] {
            end.node = name.clone();
        }
    }
}

fn short(name: &str) -> &str {
    name.split('.').next().unwrap_or(name)
}

/// Addresses have dots and colons, too, and are never cut short.
fn is_word(name: &str) -> bool {
    name.contains(|c: char| c.is_ascii_alphabetic()) && !name.contains(':')
}
