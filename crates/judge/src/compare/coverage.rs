//! What only one of two runs measured: cells, and cables that something crossed.
//!
//! A pair that only one run has is not a gap where the other measured the same parts with other partners: every cable
//! on its path, where the paths are known; both its ends, where the two runs had different seeds and so different
//! pairs.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::cells::{Cells, MeasuredCell, Side};
use super::groups::{Member, group};
use record::{LinkState, OneSided};

/// What one run measured and the other did not.
pub(super) struct OneSidedCells {
    /// Cells.
    pub(super) cells: u32,
    /// Cells whose parts the other run measured with other partners.
    pub(super) other_partners: u32,
    /// Parts, the one with most cells first, then cables.
    pub(super) lines: Vec<OneSided>,
}

/// What `own` measured and `other` did not. `unplanned` is the reason for what the other did not plan.
pub(super) fn one_sided<'a>(
    own: &Cells<'a>,
    other: &Cells<'a>,
    here: &Side<'_>,
    there: &Side<'_>,
    unplanned: &str,
) -> OneSidedCells {
    // Cells that a run added because of its own results are not expected of another run.
    let measured: Vec<&MeasuredCell<'a>> = own
        .list
        .iter()
        .filter(|cell| cell.missing.is_none() && !cell.added)
        .collect();
    let elsewhere = OtherRun::of(other, there, here.recorded.run.seed != there.recorded.run.seed);
    let mut other_partners = 0;
    let mut why = |cell: &MeasuredCell<'a>| match other.same_as(cell) {
        None if elsewhere.has_parts_of(cell, own) => {
            other_partners += 1;
            None
        }
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
    OneSidedCells {
        cells: reasons.iter().flatten().count() as u32,
        other_partners,
        lines,
    }
}

/// Parts that the other run measured, with any partner.
struct OtherRun<'a> {
    links: BTreeSet<String>,
    /// Test, host and rail of both ends of every pair; none where another pair is another measurement.
    ends: Option<HashSet<(&'a str, &'a str, &'a str)>>,
}

impl<'a> OtherRun<'a> {
    fn of(cells: &Cells<'a>, side: &Side<'_>, is_drawn_anew: bool) -> OtherRun<'a> {
        let pairs = cells.list.iter();
        let pairs = pairs.filter(|cell| cell.missing.is_none() && cell.cell.collective.is_pairwise());
        OtherRun {
            links: crossed(side),
            ends: is_drawn_anew.then(|| pairs.flat_map(|cell| ends(cell, cells)).collect()),
        }
    }

    fn has_parts_of(&self, cell: &MeasuredCell<'a>, cells: &Cells<'a>) -> bool {
        let is_crossed = |path: &[String]| path.iter().all(|link| self.links.contains(link));
        let is_measured = |known: &HashSet<_>| {
            let ends = ends(cell, cells);
            !ends.is_empty() && ends.iter().all(|end| known.contains(end))
        };
        cell.cell.collective.is_pairwise()
            && match cell.cell.path.as_slice() {
                [] => self.ends.as_ref().is_some_and(is_measured),
                path => is_crossed(path),
            }
    }
}

/// Both ends of a pair on one rail.
fn ends<'a>(cell: &MeasuredCell<'a>, cells: &Cells<'a>) -> Vec<(&'a str, &'a str, &'a str)> {
    let cell = cell.cell;
    let [rail] = cell.rails.as_slice() else {
        return Vec::new();
    };
    let other = cell.to_rail.as_ref().unwrap_or(rail);
    let hosts = cells.hosts(cell).into_iter().enumerate();
    hosts
        .map(|(number, host)| {
            (
                cell.test.as_str(),
                host,
                if number == 0 { rail } else { other }.as_str(),
            )
        })
        .collect()
}

/// Cables in one direction that something crossed.
fn crossed(side: &Side<'_>) -> BTreeSet<String> {
    let links = side.judgement.coverage.links.iter();
    links
        .filter(|link| link.state != LinkState::Untested)
        .map(|link| link.link.clone())
        .collect()
}

/// Cables in one direction that something crossed here and nothing there.
fn links(here: &Side<'_>, there: &Side<'_>) -> Vec<OneSided> {
    // A run without a topology knows no cables.
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
