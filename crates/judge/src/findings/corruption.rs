//! Wrong data was delivered: which rank, where in its result, which bits.

use std::collections::{BTreeMap, BTreeSet};

use super::analysis::RunAnalysis;
use super::detector::Detector;
use super::repeat;
use record::text;
use record::{self, Event, Finding, FindingKind, Place};

/// One finding per rank with wrong data, described by its first wrong element.
pub(super) struct Corruption;

impl Detector for Corruption {
    fn question(&self) -> &'static str {
        "Was every result that was checked right, bit by bit?"
    }

    fn find(&self, analysis: &RunAnalysis<'_>) -> Vec<Finding> {
        let mut by_rank: BTreeMap<u32, Vec<&record::Corruption>> = BTreeMap::new();
        for event in &analysis.recorded.events {
            if let Event::Corruption(corruption) = event {
                by_rank.entry(corruption.rank).or_default().push(corruption);
            }
        }
        by_rank
            .iter()
            .filter_map(|(rank, events)| one_rank(analysis, *rank, events, &by_rank))
            .collect()
    }
}

fn one_rank(
    analysis: &RunAnalysis<'_>,
    rank: u32,
    events: &[&record::Corruption],
    by_rank: &BTreeMap<u32, Vec<&record::Corruption>>,
) -> Option<Finding> {
    let first = events.first()?;
    let name = analysis.run().rank_name(rank);
    let cell = analysis.cell(first.cell);
    let described = cell.map_or(format!("cell {}", first.cell), |cell| cell.describe());
    let cells: BTreeSet<u32> = events.iter().map(|event| event.cell).collect();
    let rail = common_rail(analysis, &cells);
    let mut evidence = Vec::new();
    if events.len() > 1 {
        evidence.push(format!(
            "{} wrong results on this rank, in {} cells",
            events.len(),
            cells.len()
        ));
    }
    evidence.extend(rail.map(|rail| format!("all of them on {rail}")));
    let also: Vec<u32> = by_rank
        .iter()
        .filter(|(other, list)| **other != rank && list.iter().any(|event| is_same_fault(event, first)))
        .map(|(other, _)| *other)
        .collect();
    if !also.is_empty() {
        evidence.push(format!(
            "the same element is wrong on {}: it was corrupted before the result was forwarded",
            text::ranks(&also)
        ));
    }
    let mut terms = Vec::new();
    terms.extend(cell.map(|cell| ("test", cell.test.as_str())));
    terms.extend(rail.map(|rail| ("rail", rail)));
    let place = Place {
        hosts: analysis.hosts(&[rank]),
        ranks: vec![rank],
        rail: rail.map(str::to_string),
        ..Place::default()
    };
    Some(
        Finding::new(FindingKind::Corruption, place)
            .with_sentence(format!(
                "{name} got wrong data in iteration {} of round {}, {described}: element {} at byte {} is \
                 {}, expected {} ({}); {} wrong element{} in that result",
                first.iter,
                first.round,
                first.element,
                first.byte_offset,
                first.found_bits,
                first.expected_bits,
                flipped(&first.expected_bits, &first.found_bits),
                first.wrong_elements,
                text::plural(usize::try_from(first.wrong_elements).unwrap_or(usize::MAX))
            ))
            .with_rule("corrupt: a checked result differs in any bit from the one computed independently")
            .ambiguous_with(vec![
                format!("memory, device or NIC of {name}"),
                "every rank and link that the data crossed".into(),
            ])
            .with_evidence(evidence)
            .with_cells(cells)
            .with_next_step(format!(
                "take {name} out of service until it is explained: read its ECC, PCIe replay and link \
                 error counters, then repeat with its data on another rail and another partner"
            ))
            .with_repeat(repeat::command(analysis.run(), &terms)),
    )
}

fn is_same_fault(a: &record::Corruption, b: &record::Corruption) -> bool {
    (a.cell, a.round, a.iter, a.element) == (b.cell, b.round, b.iter, b.element)
}

/// The one rail that all of these cells used alone, when there are others to compare with.
fn common_rail<'a>(analysis: &RunAnalysis<'a>, cells: &BTreeSet<u32>) -> Option<&'a str> {
    let rails: BTreeSet<&[String]> = cells
        .iter()
        .filter_map(|id| analysis.cell(*id))
        .map(|cell| cell.rails.as_slice())
        .collect();
    match rails.into_iter().collect::<Vec<_>>().as_slice() {
        [[rail]] => Some(rail),
        _ => None,
    }
}

/// Which bits differ between two hexadecimal numbers, in words.
fn flipped(expected: &str, found: &str) -> String {
    let parse = |text: &str| {
        let digits = text.trim().trim_start_matches("0x").trim_start_matches("0X");
        u128::from_str_radix(digits, 16).ok()
    };
    let (Some(expected), Some(found)) = (parse(expected), parse(found)) else {
        return "bits not readable".into();
    };
    let xor = expected ^ found;
    let bits: Vec<String> = (0..128)
        .filter(|bit| xor >> bit & 1 == 1)
        .map(|bit: u32| bit.to_string())
        .collect();
    match bits.len() {
        0 => "no bit differs".into(),
        n => format!(
            "xor 0x{xor:x}: bit{} {} flipped",
            text::plural(n),
            text::list(&bits)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::flipped;

    #[test]
    fn the_flipped_bits_are_named_whatever_the_spelling() {
        assert_eq!(flipped("0x3f800000", "0x3f800400"), "xor 0x400: bit 10 flipped");
        assert_eq!(flipped("ff", "0xf0"), "xor 0xf: bits 0, 1, 2 and 3 flipped");
        assert_eq!(flipped("?", "0xf0"), "bits not readable");
        assert_eq!(flipped("f0", "0xf0"), "no bit differs");
    }
}
