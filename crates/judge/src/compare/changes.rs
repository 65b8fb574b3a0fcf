//! What changed about the runs themselves, and what a reader must know before believing a comparison.

use std::collections::{BTreeMap, BTreeSet};

use super::cells::Side;
use crate::findings::drift;
use record::text::{list, plural};
use record::{ComparisonCounts, Drift, EndReason, FindingKind, Run, RunChange};

/// Sentences that qualify everything else.
pub(super) fn remarks(old: &Side<'_>, new: &Side<'_>, counts: &ComparisonCounts) -> Vec<String> {
    let (before, after) = (&old.recorded.run, &new.recorded.run);
    let mut remarks = Vec::new();
    if before.suite != after.suite {
        remarks.push(format!(
            "different suites, {} and {}: only what they have in common is compared",
            before.suite, after.suite
        ));
    }
    let (then, now) = (hosts(before), hosts(after));
    let common = then.intersection(&now).count();
    if common == 0 {
        remarks.push("the runs have no host in common: these are different machines".to_string());
    } else if then != now {
        remarks.push(format!(
            "{common} host{} took part in both runs, {} only in the old one, {} only in the new one",
            plural(common),
            then.len() - common,
            now.len() - common
        ));
    }
    let both = counts.compared + counts.without_speed;
    let all = both + counts.other_partners + counts.only_old + counts.only_new;
    if counts.only_old + counts.only_new > 0 {
        remarks.push(format!("{both} of {all} cells were measured in both runs"));
    }
    if counts.other_partners > 0 {
        remarks.push(format!(
            "the parts of {} pair{} of the old run were measured with other partners in the new one, \
             which says nothing about their speed{}",
            counts.other_partners,
            plural(counts.other_partners as usize),
            match before.seed == after.seed {
                true => "",
                false => ": with the same --seed both runs have the same pairs",
            }
        ));
    }
    for (which, side) in [("old", old), ("new", new)] {
        if !side.recorded.run.injected.is_empty() {
            remarks.push(format!(
                "the {which} run is a negative control: {}",
                list(&side.recorded.run.injected)
            ));
        }
        if side.judgement.ended != Some(EndReason::Finished) {
            remarks.push(format!("the {which} run did not finish"));
        }
    }
    remarks
}

fn hosts(run: &Run) -> BTreeSet<&str> {
    run.hosts.iter().map(|host| host.name.as_str()).collect()
}

/// Settings that differ, in a fixed order.
pub(super) fn of_run(old: &Run, new: &Run) -> Vec<RunChange> {
    let mut changes = Vec::new();
    let mut note = |what: &str, old: String, new: String| {
        if old != new {
            changes.push(RunChange {
                what: what.to_string(),
                old,
                new,
            });
        }
    };
    note("railgauge", old.version.clone(), new.version.clone());
    note("suite", old.suite.clone(), new.suite.clone());
    note("seed", old.seed.to_string(), new.seed.to_string());
    note("ranks", old.ranks.len().to_string(), new.ranks.len().to_string());
    note("launch", old.launch.clone(), new.launch.clone());
    let nccl = |run: &Run| {
        run.nccl
            .as_ref()
            .map_or("none".to_string(), |nccl| nccl.version.clone())
    };
    note("NCCL", nccl(old), nccl(new));
    let rule = |run: &Run| {
        format!(
            "confidence {}, budget {}, re-measured {} time(s)",
            run.rule.confidence, run.rule.false_positive_budget, run.rule.remeasure
        )
    };
    note("decision rule", rule(old), rule(new));
    let names = |run: &Run, others: &Run| -> String {
        let only: Vec<String> = hosts(run)
            .difference(&hosts(others))
            .map(|host| host.to_string())
            .collect();
        match only.is_empty() {
            true => "-".to_string(),
            false => list(&only),
        }
    };
    note("hosts that only one run has", names(old, new), names(new, old));
    changes.extend(kernels(old, new));
    changes
}

/// Kernels of hosts that both runs have: hosts with the same change are one line.
fn kernels(old: &Run, new: &Run) -> Vec<RunChange> {
    let then: BTreeMap<&str, &str> = old
        .hosts
        .iter()
        .map(|host| (host.name.as_str(), host.kernel.as_str()))
        .collect();
    let mut alike: BTreeMap<(&str, &str), Vec<String>> = BTreeMap::new();
    for host in &new.hosts {
        if let Some(before) = then
            .get(host.name.as_str())
            .filter(|before| **before != host.kernel)
        {
            alike
                .entry((*before, &host.kernel))
                .or_default()
                .push(host.name.clone());
        }
    }
    let change = |((old, new), hosts): ((&str, &str), Vec<String>)| RunChange {
        what: format!("kernel of {}", list(&hosts)),
        old: old.to_string(),
        new: new.to_string(),
    };
    alike.into_iter().map(change).collect()
}

/// What changed in the inventory, one sentence for parts with the same change.
pub(super) fn of_inventory(old: &Side<'_>, new: &Side<'_>) -> Vec<String> {
    let (Some(before), Some(after)) = (&old.recorded.inventory, &new.recorded.inventory) else {
        return Vec::new();
    };
    let drift = Drift {
        since: Some("the old run".to_string()),
        changes: drift::changes_between(before, after),
        ..Drift::default()
    };
    let found = drift::findings(&drift).into_iter();
    found
        .filter(|finding| finding.kind == FindingKind::Changed)
        .map(|finding| finding.sentence)
        .collect()
}
