//! What all findings about slow cells have in common.

use std::collections::{BTreeMap, BTreeSet};

use super::analysis::RunAnalysis;
use super::repeat;
use record::text;
use record::{Confirmation, Finding, FindingKind, Load, Place};

/// Measured over threshold: the smaller, the worse.
fn ratio(analysis: &RunAnalysis<'_>, place: usize) -> f64 {
    let comparison = analysis.speeds[place].comparison();
    comparison.map_or(f64::INFINITY, |comparison| comparison.ratio())
}

/// The cell that misses its reference most.
pub(super) fn worst_of(analysis: &RunAnalysis<'_>, places: &[usize]) -> Option<usize> {
    let places = places.iter().copied();
    places.min_by(|a, b| ratio(analysis, *a).total_cmp(&ratio(analysis, *b)))
}

/// A finding about slow cells, described by the worst of them: numbers, rule, confirmation, sizes and loads. Place
/// and sentence contain what the cells themselves show.
pub(super) fn slow_places(
    analysis: &RunAnalysis<'_>,
    kind: FindingKind,
    places: &[usize],
    rail: Option<&str>,
) -> Option<Finding> {
    let worst = worst_of(analysis, places)?;
    let comparison = analysis.speeds[worst].comparison()?;
    let cell = analysis.summaries[worst].cell;
    let ranks: BTreeSet<u32> = places
        .iter()
        .flat_map(|place| analysis.summaries[*place].cell.ranks.iter().copied())
        .collect();
    let ranks: Vec<u32> = ranks.into_iter().collect();
    let mut terms = vec![("test", cell.test.as_str())];
    terms.extend(rail.map(|rail| ("rail", rail)));
    let place = Place {
        hosts: analysis.hosts(&ranks),
        ranks,
        rail: rail.map(str::to_string),
        ..Place::default()
    };
    Some(
        Finding::new(kind, place)
            .with_sentence(format!(
                "{} at {}, slow at {}",
                comparison.in_words(),
                cell.size,
                sizes(analysis, places, rail)
            ))
            .with_rate(Some(comparison.measured), Some(comparison.expected))
            .with_rule(comparison.rule_in_words(&analysis.run().rule))
            .with_confirmation(Confirmation {
                rounds: comparison.rounds.1,
                p_value: comparison.p_value,
                comparisons: analysis.comparisons,
            })
            .with_evidence(loads(analysis, places))
            .with_cells(analysis.ids(places))
            .with_repeat(repeat::command(analysis.run(), &terms)),
    )
}

/// `2 of 4 sizes`: sizes that are slow, of those judged in the same tests (on the same rail).
fn sizes(analysis: &RunAnalysis<'_>, places: &[usize], rail: Option<&str>) -> String {
    let tests: BTreeSet<&str> = places
        .iter()
        .map(|place| analysis.summaries[*place].cell.test.as_str())
        .collect();
    let slow: BTreeSet<u64> = places
        .iter()
        .map(|place| analysis.summaries[*place].cell.size.0)
        .collect();
    let judged: BTreeSet<u64> = analysis
        .summaries
        .iter()
        .zip(&analysis.speeds)
        .filter(|(summary, speed)| speed.comparison().is_some() && tests.contains(summary.cell.test.as_str()))
        .filter(|(summary, _)| rail.is_none_or(|rail| summary.cell.rails.iter().any(|name| name == rail)))
        .map(|(summary, _)| summary.cell.size.0)
        .collect();
    let all = judged.union(&slow).count();
    format!("{} of {all} size{}", slow.len(), text::plural(all))
}

/// The worst cell alone and the worst together, each with what was expected.
fn loads(analysis: &RunAnalysis<'_>, places: &[usize]) -> Vec<String> {
    let mut worst: BTreeMap<Load, usize> = BTreeMap::new();
    for place in places {
        let entry = worst
            .entry(analysis.summaries[*place].cell.load)
            .or_insert(*place);
        if ratio(analysis, *place) < ratio(analysis, *entry) {
            *entry = *place;
        }
    }
    worst
        .into_iter()
        .filter_map(|(load, place)| {
            let when = if load == Load::Alone { "alone" } else { "together" };
            let comparison = analysis.speeds[place].comparison()?;
            Some(format!(
                "{when}: {} at {}",
                comparison.in_words(),
                analysis.summaries[place].cell.size
            ))
        })
        .collect()
}
