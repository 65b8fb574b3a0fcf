//! Which parts differ from parts like them, fact by fact.
//!
//! Pure functions from inventories. The golden file says what is right (`golden`); where it says nothing, the
//! majority of like parts (`alike`), what the part itself is capable of (`capability`), and the settings of the other
//! end of its cable (`cables`). Unknown values are not compared: unreadable is not drift. Where two parts differ and
//! no majority exists, the result is inconclusive. What changed since an earlier inventory (`changes`) is separate
//! from what differs now. In a run, every value that deviates is tested against what was slow (`measured`, `effect`,
//! `association`).

mod alike;
mod association;
mod cables;
mod capability;
mod changes;
mod effect;
mod golden;
mod groups;
mod log;
mod measured;
mod parts;
mod rules;
mod wording;

pub(super) use association::explain_slow;
pub(crate) use changes::between as changes_between;
pub use changes::{IDENTITY, MAY_CHANGE};
pub(super) use rules::{
    CONGESTION_OF_HOST, CONGESTION_OF_INTERFACE, CONGESTION_OF_PORT, CONGESTION_OF_SWITCH,
};
pub use rules::{DriftRule, RULES, Scope};
pub use wording::{basis_in_words, by_node, effect_of, exit_code, findings, of_trait, places};

use std::collections::{BTreeMap, BTreeSet};

use super::analysis::RunAnalysis;
use super::detector::Detector;
use log::DriftLog;
use parts::Parts;
use record::{Drift, Fact, Finding, Inventory, PartClass, Unreadable, files};
use topology::suite::Golden;

/// Judges an inventory: what deviates, where that cannot be decided, what changed since `before`, what could not be
/// read.
pub fn judge(inventory: &Inventory, golden: Option<&Golden>, before: Option<&Inventory>) -> Drift {
    let parts = Parts::of(inventory);
    let mut log = DriftLog::default();
    let verdict = golden.map_or_else(golden::GoldenVerdict::default, |golden| {
        golden::compare(golden, &parts, &mut log)
    });
    if let Some(golden) = golden {
        golden::compatible(golden, &parts, &mut log);
    }
    alike::compare(RULES, &parts, &verdict.settled, &mut log);
    capability::compare(&parts, &verdict.settled, &mut log);
    cables::compare(inventory, &parts, &verdict.settled, &mut log);
    let (deviations, disagreements) = log.into_parts();
    let golden_facts = golden.map_or_else(BTreeSet::new, golden::facts);
    Drift {
        nodes: (inventory.nodes.len() + inventory.switches.len()) as u32,
        golden: golden.map(|golden| golden.origin.clone()),
        deviations,
        disagreements,
        since: before.map(|before| before.taken.clone()),
        changes: before.map_or_else(Vec::new, |before| changes::between(before, inventory)),
        unreadable: unreadable(&parts, &golden_facts),
        unused: verdict.unused,
        traits: Vec::new(),
        troubles: Vec::new(),
    }
}

/// Every fact that a rule or `others` would have compared and that could not be read, with its nodes: never drift,
/// and never silently left out.
fn unreadable(parts: &Parts<'_>, others: &BTreeSet<(PartClass, &str)>) -> Vec<Unreadable> {
    let mut compared: BTreeSet<(PartClass, &str)> = others.clone();
    for rule in RULES {
        let facts = rule.alike.iter().chain(rule.alike_if_known).chain(rule.agree);
        compared.extend(facts.map(|fact| (rule.class, *fact)));
    }
    type Reason<'a> = (PartClass, &'a str, &'a str, Option<&'a str>);
    let mut reasons: BTreeMap<Reason<'_>, BTreeSet<&str>> = BTreeMap::new();
    for located in parts.iter() {
        for (name, fact) in &located.part.facts {
            let Fact::Unreadable { why, needs } = fact else {
                continue;
            };
            if compared.contains(&(located.part.class, name.as_str())) {
                let reason = (located.part.class, name.as_str(), why.as_str(), needs.as_deref());
                reasons.entry(reason).or_default().insert(located.node);
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

/// What the inventory of a run says; none without one. Computed once per analysis. Where the golden file cannot be read, that is
/// reported and the rest is judged.
pub(super) fn of_run<'d>(analysis: &'d RunAnalysis<'_>) -> Option<&'d Drift> {
    analysis.drift.get_or_init(|| judge_run(analysis)).as_ref()
}

fn judge_run(analysis: &RunAnalysis<'_>) -> Option<Drift> {
    let recorded = analysis.recorded;
    let inventory = recorded.inventory.as_ref()?;
    let golden = recorded
        .golden
        .as_ref()
        .map(|text| Golden::parse(text, files::GOLDEN));
    let (golden, trouble) = match golden {
        Some(Ok(golden)) => (Some(golden), None),
        Some(Err(error)) => (None, Some(error.to_string())),
        None => (None, None),
    };
    let mut drift = judge(inventory, golden.as_ref(), recorded.inventory_before.as_ref());
    drift.troubles.extend(trouble);
    effect::fill(analysis, &mut drift);
    Some(drift)
}

/// Findings about the inventory of a run.
pub(in crate::findings) struct FirmwareDrift;

impl Detector for FirmwareDrift {
    fn question(&self) -> &'static str {
        "Does a part differ from parts like it, from the golden file, or from an earlier inventory?"
    }

    fn find(&self, analysis: &RunAnalysis<'_>) -> Vec<Finding> {
        of_run(analysis).map(findings).unwrap_or_default()
    }
}

#[cfg(any(test, feature = "fixtures"))]
pub mod fixture;
#[cfg(test)]
mod golden_tests;
#[cfg(test)]
mod tests;
