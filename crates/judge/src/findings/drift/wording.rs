//! Drift in sentences: one finding per deviation, per disagreement, and per kind of change.

use std::collections::{BTreeMap, BTreeSet};

use super::association::{self, NamedValue, shown};
use super::changes::IDENTITY;
use record::text;
use record::{
    Change, Deviation, Disagreement, Drift, DriftBasis, Fact, Finding, FindingKind, PartAt, PartClass, Place,
    Trait, exit_code,
};

/// Parts of one node that are named one by one; of more, only how many they are.
const NAMED_OF_A_NODE: usize = 2;

/// Everything that an inventory says, as findings, in order.
pub fn findings(drift: &Drift) -> Vec<Finding> {
    let mut findings: Vec<Finding> = drift.troubles.iter().map(|why| unusable(why)).collect();
    findings.extend(drift.deviations.iter().map(of_deviation));
    findings.extend(drift.disagreements.iter().map(of_disagreement));
    findings.extend(of_changes(drift));
    findings
}

/// The exit code that goes with what an inventory says: 0 when there is nothing to say.
pub fn exit_code(drift: &Drift) -> u8 {
    let codes = findings(drift)
        .into_iter()
        .map(|finding| finding.kind.exit_code());
    exit_code::worst(codes)
}

fn finding(kind: FindingKind, sentence: String, parts: &[&PartAt], class: PartClass) -> Finding {
    let nodes: BTreeSet<&str> = parts.iter().map(|at| at.node.as_str()).collect();
    let nodes: Vec<String> = nodes.into_iter().map(str::to_string).collect();
    let is_switch = class == PartClass::Switch;
    let place = Place {
        switch: nodes.first().filter(|_| is_switch && nodes.len() == 1).cloned(),
        hosts: if is_switch { Vec::new() } else { nodes },
        ..Place::default()
    };
    Finding::new(kind, place).with_sentence(sentence)
}

fn unusable(why: &str) -> Finding {
    let sentence = format!("the golden file cannot be used: {why}");
    let mut finding = finding(FindingKind::UnclearDrift, sentence, &[], PartClass::Host);
    finding.rule = "drift: parts are compared with the golden file where there is one".into();
    finding.next_step = "correct the golden file and judge again".into();
    finding
}

fn of_deviation(deviation: &Deviation) -> Finding {
    let parts: Vec<&PartAt> = deviation.parts.iter().collect();
    let subject = format!(
        "{} {} {}",
        deviation.class,
        deviation.fact,
        shown(deviation.value.as_deref())
    );
    let who = match is_all(deviation) {
        true => format!(
            "all {} of the kind{}, on {}",
            parts.len(),
            like(deviation),
            nodes(&parts)
        ),
        false => places(&parts),
    };
    let why = basis_in_words(deviation);
    let effect = effect_of(deviation).map_or_else(String::new, |effect| format!("; {effect}"));
    let sentence = format!("{subject} on {who}; {why}{effect}");
    let mut finding = finding(FindingKind::Drift, sentence, &parts, deviation.class);
    finding.rule = format!("drift, {}: {}", deviation.rule, deviation.because);
    finding.evidence = each(&parts);
    finding.next_step = deviation.advice.clone();
    finding
}

/// Whether all parts of a kind fall short of what they could do.
fn is_all(deviation: &Deviation) -> bool {
    let parts = deviation.parts.len() as u32;
    matches!(deviation.basis, DriftBasis::Capability { of, .. } if of == parts && of > 1)
}

/// ` (board MT_0000000838)`.
fn like(deviation: &Deviation) -> String {
    let like = deviation.like.as_ref();
    like.map_or_else(String::new, |like| format!(" ({like})"))
}

/// The expected value and its basis: `28.43.2026 on 254 of 256 like it (board MT_0000000838)`.
pub fn basis_in_words(deviation: &Deviation) -> String {
    let expected = &deviation.expected;
    match &deviation.basis {
        DriftBasis::Golden { file, line, text } => {
            let words = match deviation.rule == super::golden::COMPATIBLE {
                true => text.clone(),
                false => format!("{} {text}", deviation.class),
            };
            format!("{file} line {line} requires {expected}: {words}")
        }
        DriftBasis::Majority { agree, of } => {
            format!("{expected} on {agree} of {of} like it{}", like(deviation))
        }
        DriftBasis::OtherEnd { end } if deviation.parts.len() == 1 => {
            format!("{expected} at the other end of its cable, {end}")
        }
        DriftBasis::OtherEnd { .. } => format!("{expected} at the other end of each cable"),
        DriftBasis::Capability { fact, .. } => {
            let each = if deviation.parts.len() == 1 { "it" } else { "each" };
            let slots = if is_all(deviation) {
                ": their slots may be the limit"
            } else {
                ""
            };
            format!("{each} could do {expected} ({fact}){slots}")
        }
    }
}

/// How a deviation is associated with what was slow; none where its parts were not measured.
pub fn effect_of(deviation: &Deviation) -> Option<String> {
    let named = NamedValue {
        class: deviation.class,
        fact: &deviation.fact,
        value: deviation.value.as_deref().unwrap_or_default(),
    };
    let effect = deviation.effect.as_ref()?;
    Some(association::in_words(&named, effect))
}

/// What slow parts have in common although it is not drift.
pub fn of_trait(found: &Trait) -> String {
    let named = NamedValue {
        class: found.class,
        fact: &found.fact,
        value: &found.value,
    };
    association::in_words(&named, &found.effect)
}

fn of_disagreement(split: &Disagreement) -> Finding {
    let mut values: Vec<(&String, &Vec<PartAt>)> = split.values.iter().collect();
    values.sort_by_key(|(_, parts)| std::cmp::Reverse(parts.len()));
    let of: usize = values.iter().map(|(_, parts)| parts.len()).sum();
    let groups: Vec<String> = values
        .iter()
        .map(|(value, parts)| {
            let parts: Vec<&PartAt> = parts.iter().collect();
            format!("{} on {}", shown(Some(value)), places(&parts))
        })
        .collect();
    let like = split
        .like
        .as_ref()
        .map_or_else(String::new, |like| format!(" ({like})"));
    let mut sentence = format!(
        "{} {} differs, and no value has a majority among {of} that are alike{like}: {}",
        split.class,
        split.fact,
        groups.join("; ")
    );
    let mut evidence = Vec::new();
    for (value, effect) in &split.effects {
        let named = NamedValue {
            class: split.class,
            fact: &split.fact,
            value,
        };
        let said = association::in_words(&named, effect);
        match effect.explains {
            true => sentence.push_str(&format!("; {said}")),
            false => evidence.push(said),
        }
    }
    let parts: Vec<&PartAt> = split.values.values().flatten().collect();
    let mut finding = finding(FindingKind::UnclearDrift, sentence, &parts, split.class);
    finding.evidence = evidence;
    finding.rule = format!(
        "drift, {}: what more than half of the like parts say is right",
        split.rule
    );
    finding.next_step = format!(
        "state in a golden file which {} {} is right, then judge again",
        split.class, split.fact
    );
    finding
}

/// Changes of the same fact from the same value to the same are one finding; a replaced part is reported as replaced
/// only.
fn of_changes(drift: &Drift) -> Vec<Finding> {
    let since = drift.since.as_deref().unwrap_or("an earlier inventory");
    let is_identity = |change: &&Change| {
        let fact = change.fact.as_deref();
        let is_one = |(class, name): &(PartClass, &str)| *class == change.class && Some(*name) == fact;
        IDENTITY.iter().any(is_one) && known(&change.before).is_some() && known(&change.after).is_some()
    };
    let mut replaced: BTreeMap<PartClass, BTreeMap<&PartAt, Vec<&Change>>> = BTreeMap::new();
    for change in drift.changes.iter().filter(is_identity) {
        replaced
            .entry(change.class)
            .or_default()
            .insert(&change.at, Vec::new());
    }
    type Kind<'a> = (PartClass, Option<&'a str>, String, String);
    let mut alike: BTreeMap<Kind<'_>, Vec<&PartAt>> = BTreeMap::new();
    for change in &drift.changes {
        let of_part = replaced
            .get_mut(&change.class)
            .and_then(|parts| parts.get_mut(&change.at));
        match of_part {
            Some(facts) => facts.push(change),
            None if is_node(change) => {}
            None => {
                let kind = (
                    change.class,
                    change.fact.as_deref(),
                    in_words(&change.before),
                    in_words(&change.after),
                );
                alike.entry(kind).or_default().push(&change.at);
            }
        }
    }
    let mut findings = Vec::new();
    for (class, parts) in replaced {
        let places_of: Vec<&PartAt> = parts.keys().copied().collect();
        let was = if places_of.len() == 1 { "was" } else { "were" };
        let sentence = format!("{class} {} {was} replaced since {since}", places(&places_of));
        let mut finding = finding(FindingKind::Changed, sentence, &places_of, class);
        for (at, changes) in parts.iter().take(MOST_EVIDENCE) {
            let facts: Vec<String> = changes.iter().map(|change| arrow(change)).collect();
            finding.evidence.push(format!("{at}: {}", facts.join(", ")));
        }
        finding.rule = "changed: another serial number or GUID is another part".into();
        finding.next_step =
            "check that the replacement was intended and has the fleet's firmware and settings".into();
        findings.push(finding);
    }
    for ((class, fact, before, after), parts) in alike {
        let what = match fact {
            Some(fact) => format!("{class} {fact} changed from {before} to {after}"),
            None if after == GONE => format!("{class} is gone"),
            None => format!("{class} is new"),
        };
        let sentence = format!("{what} on {} since {since}", places(&parts));
        let mut finding = finding(FindingKind::Changed, sentence, &parts, class);
        finding.evidence = each(&parts);
        finding.rule = "changed: something is not as it was in the earlier inventory".into();
        finding.next_step = match fact {
            Some(_) => {
                "check that the change was intended; if so, compare with a newer inventory from now on".into()
            }
            None => "check that this was intended: a card that is no longer detected may have failed".into(),
        };
        findings.push(finding);
    }
    findings
}

/// Lines of evidence of one finding.
const MOST_EVIDENCE: usize = 20;
/// The value of a part that no longer exists.
const GONE: &str = "not there";

/// A node that is in one of the inventories only: it is not known what changed on it.
pub(super) fn is_node(change: &Change) -> bool {
    change.fact.is_none() && change.at.node == change.at.part
}

fn known(fact: &Option<Fact>) -> Option<&str> {
    fact.as_ref().and_then(Fact::value)
}

fn in_words(fact: &Option<Fact>) -> String {
    match fact {
        Some(Fact::Value(value)) => shown(Some(value)).to_string(),
        Some(Fact::Unreadable { why, .. }) => format!("unreadable ({why})"),
        Some(Fact::Absent) => "nothing".to_string(),
        None => GONE.to_string(),
    }
}

/// `guid a -> b`.
fn arrow(change: &Change) -> String {
    let fact = change.fact.as_deref().unwrap_or("part");
    format!(
        "{fact} {} -> {}",
        in_words(&change.before),
        in_words(&change.after)
    )
}

/// All parts by name, where there are more than the sentence names.
fn each(parts: &[&PartAt]) -> Vec<String> {
    let names: Vec<String> = parts.iter().map(|at| at.to_string()).collect();
    match names.len() {
        0..=NAMED_OF_A_NODE => Vec::new(),
        more if more > MOST_NAMES => vec![format!(
            "{} and {} more",
            names[..MOST_NAMES].join(", "),
            more - MOST_NAMES
        )],
        _ => vec![names.join(", ")],
    }
}

/// Parts that a line of evidence names.
const MOST_NAMES: usize = 64;

/// `node07/mlx5_3, node09 (8 of them) and 12 more`.
pub fn places(parts: &[&PartAt]) -> String {
    text::list(&by_node(parts.iter().copied()))
}

/// Every part, those of one node together where they are many: `node07/mlx5_3`, `node09 (8 of them)`.
pub fn by_node<'p>(parts: impl IntoIterator<Item = &'p PartAt>) -> Vec<String> {
    let mut by_node: BTreeMap<&str, Vec<&PartAt>> = BTreeMap::new();
    for at in parts {
        by_node.entry(&at.node).or_default().push(at);
    }
    by_node
        .into_iter()
        .flat_map(|(node, parts)| match parts.len() {
            0..=NAMED_OF_A_NODE => parts.iter().map(|at| at.to_string()).collect(),
            more => vec![format!("{node} ({more} of them)")],
        })
        .collect()
}

/// `3 nodes`, or the one there is.
fn nodes(parts: &[&PartAt]) -> String {
    let nodes: BTreeSet<&str> = parts.iter().map(|at| at.node.as_str()).collect();
    match nodes.len() {
        1 => nodes.into_iter().collect(),
        more => format!("{more} nodes"),
    }
}
