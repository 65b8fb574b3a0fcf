//! Findings and verdicts of tests side by side: new, still there, gone.
//!
//! A finding is the same when its kind and its part are. One that is gone although nothing it rests on was measured
//! again is not gone: it was not looked at.

use std::collections::BTreeMap;

use super::cells::{Cells, Side};
use record::{Finding, FindingChange, FindingKind, FindingState, Judgement, TestChange, Verdict};

/// What became of every finding: new ones first, each in the order of its run.
pub(super) fn of(old: &Side<'_>, new: &Side<'_>, then: &Cells<'_>, now: &Cells<'_>) -> Vec<FindingChange> {
    let mut left: BTreeMap<(FindingKind, String), Vec<&Finding>> = BTreeMap::new();
    for finding in old.judgement.findings.iter().rev() {
        left.entry((finding.kind, finding.part()))
            .or_default()
            .push(finding);
    }
    let mut changes = Vec::new();
    for finding in &new.judgement.findings {
        let key = (finding.kind, finding.part());
        let before = left.get_mut(&key).and_then(Vec::pop);
        changes.push(FindingChange {
            state: match before {
                Some(_) => FindingState::Still,
                None => FindingState::New,
            },
            kind: finding.kind,
            part: key.1,
            sentence: finding.sentence.clone(),
            looked_at_before: before.is_some() || was_measured(finding, now, then),
        });
    }
    // What is left over is gone, in the order in which the old run has it.
    for finding in &old.judgement.findings {
        let key = (finding.kind, finding.part());
        let is_left = left
            .get_mut(&key)
            .is_some_and(|kept| kept.pop_if(|next| std::ptr::eq(*next, finding)).is_some());
        if is_left {
            changes.push(FindingChange {
                state: match was_measured(finding, then, now) {
                    true => FindingState::Gone,
                    false => FindingState::NotLookedAt,
                },
                kind: finding.kind,
                part: key.1,
                sentence: finding.sentence.clone(),
                looked_at_before: true,
            });
        }
    }
    changes.sort_by_key(|change| change.state);
    changes
}

/// Whether any cell that a finding of one run rests on was measured in the other; those that rest on none are taken as looked at.
fn was_measured<'a>(finding: &Finding, own: &Cells<'a>, other: &Cells<'a>) -> bool {
    let mut cells = finding.cells.iter().filter_map(|id| own.with_id(*id)).peekable();
    cells.peek().is_none() || cells.any(|cell| other.same_as(cell).is_some_and(|same| same.missing.is_none()))
}

/// Tests whose verdict is another one, in the order of the new run, then those that only the old one has.
pub(super) fn tests(old: &Judgement, new: &Judgement) -> Vec<TestChange> {
    let by_name = |judgement: &Judgement| -> BTreeMap<String, Verdict> {
        let tests = judgement.tests.iter();
        tests
            .map(|test| (test.name.clone(), test.verdict.clone()))
            .collect()
    };
    let (then, now) = (by_name(old), by_name(new));
    let names = new
        .tests
        .iter()
        .chain(old.tests.iter().filter(|test| !now.contains_key(&test.name)));
    names
        .map(|test| TestChange {
            name: test.name.clone(),
            old: then.get(&test.name).cloned(),
            new: now.get(&test.name).cloned(),
        })
        .filter(|change| match (&change.old, &change.new) {
            // The reason of a verdict has numbers in it that differ from run to run.
            (Some(old), Some(new)) => std::mem::discriminant(old) != std::mem::discriminant(new),
            _ => true,
        })
        .collect()
}
