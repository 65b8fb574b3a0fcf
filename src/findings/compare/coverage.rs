//! What only one of two runs measured: cells, and cables that something crossed.

use std::collections::{BTreeMap, BTreeSet};

use super::Side;
use super::cells::{Cells, Measured};
use super::groups::{Member, group};
use crate::record::{LinkState, OneSided};

/// What one run measured and the other did not.
pub(super) struct OnlyHere {
    /// Cells.
    pub(super) cells: u32,
    /// Parts, the one with most cells first, then cables.
    pub(super) lines: Vec<OneSided>,
}

/// What `own` measured and `other` did not. `unplanned` is said of what the other did not even plan.
pub(super) fn one_sided<'a>(
    own: &Cells<'a>,
    other: &Cells<'a>,
    here: &Side<'_>,
    there: &Side<'_>,
    unplanned: &str,
) -> OnlyHere {
    // What a run measured only because of what it had seen is no part of any other run's job.
    let measured: Vec<&Measured<'a>> = own
        .list
        .iter()
        .filter(|cell| cell.missing.is_none() && !cell.added)
        .collect();
    let why = |cell: &Measured<'a>| match other.same_as(cell) {
        None => Some(unplanned.to_string()),
        Some(same) => same.missing.clone(),
    };
    let reasons: Vec<Option<String>> = measured.iter().map(|cell| why(cell)).collect();
    let members: Vec<Member<'_>> = measured
        .iter()
        .zip(&reasons)
        .map(|(cell, reason)| Member {
            cell: cell.cell,
            hosts: own.hosts(cell.cell),
            moved: reason.is_some(),
        })
        .collect();
    let mut lines = Vec::new();
    for group in group(&members) {
        let mut told: BTreeMap<&str, usize> = BTreeMap::new();
        for reason in group.moved.iter().filter_map(|place| reasons[*place].as_deref()) {
            *told.entry(reason).or_default() += 1;
        }
        let most = told.iter().max_by_key(|(_, count)| **count);
        lines.push(OneSided {
            part: group.part,
            cells: Some(group.moved.len() as u32),
            of: Some(group.of),
            why: most.map_or_else(String::new, |(reason, _)| reason.to_string()),
        });
    }
    lines.extend(links(here, there));
    OnlyHere {
        cells: reasons.iter().flatten().count() as u32,
        lines,
    }
}

/// Cables in one direction that something crossed here and nothing there.
fn links(here: &Side<'_>, there: &Side<'_>) -> Vec<OneSided> {
    let crossed = |side: &Side<'_>| -> BTreeSet<String> {
        let links = side.judgement.coverage.links.iter();
        links
            .filter(|link| link.state != LinkState::Untested)
            .map(|link| link.link.clone())
            .collect()
    };
    // A run that was not told which cable is where knows of none.
    let known: BTreeMap<&str, Option<&String>> = there
        .judgement
        .coverage
        .links
        .iter()
        .map(|link| (link.link.as_str(), link.why.as_ref()))
        .collect();
    let there = crossed(there);
    let missing = crossed(here).into_iter().filter(|link| !there.contains(link));
    missing
        .filter_map(|link| {
            let why = known.get(link.as_str())?;
            Some(OneSided {
                why: why.map_or_else(
                    || "nothing is known to have crossed it".to_string(),
                    String::clone,
                ),
                part: link,
                cells: None,
                of: None,
            })
        })
        .collect()
}
