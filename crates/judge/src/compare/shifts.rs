//! What became slower or faster, one line for each part.

use std::collections::BTreeSet;

use super::cells::Cells;
use super::groups::{Group, Member, group};
use super::pace::Pair;
use super::wording;
use crate::findings::repeat;
use record::stats::median;
use record::{CommonPart, Pace, Run, Shift};

/// What became slower or faster, one line for each part.
pub(super) fn shifts(pairs: &[Pair<'_>], pace: Pace, now: &Cells<'_>, run: &Run) -> Vec<Shift> {
    let clear: Vec<&Pair<'_>> = pairs
        .iter()
        .filter(|pair| pair.row.pace != Pace::Unclear)
        .collect();
    let members: Vec<Member<'_>> = clear
        .iter()
        .map(|pair| Member {
            cell: pair.now.cell,
            hosts: now.hosts(pair.now.cell),
            moved: pair.row.pace == pace,
        })
        .collect();
    let groups = group(&members);
    groups
        .iter()
        .filter_map(|group| shift(group, &clear, run))
        .collect()
}

fn shift(group: &Group, clear: &[&Pair<'_>], run: &Run) -> Option<Shift> {
    let moved: Vec<&Pair<'_>> = group.moved.iter().map(|place| clear[*place]).collect();
    let ratio_of = |pair: &Pair<'_>| pair.row.ratio.map_or(1.0, |ratio| ratio.median);
    // The median is of integers: a millionth of a ratio is far below the precision of any measurement.
    let ratios: Vec<u64> = moved
        .iter()
        .map(|pair| (ratio_of(pair) * 1e6).round() as u64)
        .collect();
    let furthest = *moved
        .iter()
        .max_by(|a, b| ratio_of(a).ln().abs().total_cmp(&ratio_of(b).ln().abs()))?;
    let tests: BTreeSet<&str> = moved.iter().map(|pair| pair.row.test.as_str()).collect();
    let sizes = moved.iter().map(|pair| pair.row.size);
    let mut shift = Shift {
        part: group.part.clone(),
        common: group.common,
        cells: moved.len() as u32,
        of: group.of,
        sizes: (sizes.clone().min()?, sizes.max()?),
        ratio: median(&ratios)? / 1e6,
        furthest: furthest.row.new_cell,
        sentence: String::new(),
        repeat: Some(again(group, furthest, &tests, run)),
        tests: tests.into_iter().map(String::from).collect(),
    };
    shift.sentence = wording::shift(&shift, &furthest.row);
    Some(shift)
}

/// The command that measures them again, narrowed as far as they have something in common.
fn again(group: &Group, furthest: &Pair<'_>, tests: &BTreeSet<&str>, run: &Run) -> String {
    let cell = furthest.now.cell;
    let one_test = tests.first().filter(|_| tests.len() == 1);
    let mut terms: Vec<(&str, &str)> = one_test.map(|test| ("test", *test)).into_iter().collect();
    let rail = match (group.common, cell.rails.as_slice()) {
        (CommonPart::Rail, _) => Some(group.part.as_str()),
        (CommonPart::Port | CommonPart::Link | CommonPart::Hosts, [rail]) => Some(rail.as_str()),
        _ => None,
    };
    terms.extend(rail.map(|rail| ("rail", rail)));
    repeat::command(run, &terms)
}
