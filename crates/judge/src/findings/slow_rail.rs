//! A rail below its reference, while others are not; or all of them below an absolute figure.

use std::collections::{BTreeMap, BTreeSet};

use super::{Detector, Seen, counters, repeat, wording};
use record::text;
use record::{Confirmation, Finding, FindingKind, Load, Place};

/// One finding per slow rail, or one for all.
pub(super) struct SlowRail;

impl Detector for SlowRail {
    fn question(&self) -> &'static str {
        "Is a rail slower than it should be?"
    }

    fn find(&self, seen: &Seen<'_>) -> Vec<Finding> {
        let mut findings: Vec<Finding> = seen
            .blame
            .rail
            .iter()
            .filter_map(|(rail, places)| one_rail(seen, rail, places))
            .collect();
        findings.extend(all_rails(seen, &seen.blame.all_rails));
        findings
    }
}

fn one_rail(seen: &Seen<'_>, rail: &str, places: &[usize]) -> Option<Finding> {
    let others: Vec<String> = judged_rails(seen)
        .into_iter()
        .filter(|other| *other != rail && !seen.blame.rail.contains_key(*other))
        .map(str::to_string)
        .collect();
    let mut finding = slow_places(seen, FindingKind::SlowRail, places, Some(rail))?;
    let normal = match others.is_empty() {
        true => "no other rail to compare with".to_string(),
        false => format!("{} normal", text::list(&others)),
    };
    let cause = counters::cause::of(seen, rail, &finding.cells, &|_| true);
    let moved = cause.facts.join("; ");
    finding.sentence = format!("{rail}: {}; {normal}; {moved}", finding.sentence);
    finding.evidence.push(normal);
    if others.is_empty() {
        finding
            .not_told_apart_from
            .push("a limit of the hosts themselves (CPU, PCIe, memory)".into());
    }
    finding
        .not_told_apart_from
        .push(format!("any one cable, NIC or switch port of {rail}"));
    finding.next_step = format!(
        "compare link speed, width and error counters of {rail} on {}; reseat or replace its cable or move it to another \
         switch port, then repeat",
        text::list(&finding.place.hosts)
    );
    cause.tell(&mut finding);
    Some(finding)
}

fn all_rails(seen: &Seen<'_>, places: &[usize]) -> Option<Finding> {
    let mut finding = slow_places(seen, FindingKind::SlowRail, places, None)?;
    let rails: Vec<String> = judged_rails(seen).into_iter().map(str::to_string).collect();
    finding.sentence = format!(
        "all {} rails: {}; no rail is normal",
        rails.len(),
        finding.sentence
    );
    finding.evidence.push(format!("slow: {}", text::list(&rails)));
    for rail in &rails {
        finding
            .evidence
            .extend(counters::evidence(seen, rail, &finding.cells));
    }
    finding
        .not_told_apart_from
        .push("a limit of the hosts themselves (CPU, PCIe, memory)".into());
    finding
        .not_told_apart_from
        .push("a spec that does not describe this fabric".into());
    finding.next_step =
        "check that the spec fits this fabric, then what all rails share: host configuration, PCIe, MTU, \
                         and the switches"
            .into();
    Some(finding)
}

/// Rails that single-rail cells were judged on, in order.
fn judged_rails<'a>(seen: &Seen<'a>) -> BTreeSet<&'a str> {
    let judged = seen
        .summaries
        .iter()
        .zip(&seen.speeds)
        .filter(|(_, speed)| speed.comparison().is_some());
    judged
        .filter_map(|(summary, _)| match summary.cell.rails.as_slice() {
            [rail] => Some(rail.as_str()),
            _ => None,
        })
        .collect()
}

/// A finding about slow cells, told by the worst of them: numbers, rule, confirmation, sizes and loads. Place and sentence
/// are as far as the cells themselves say.
pub(super) fn slow_places(
    seen: &Seen<'_>,
    kind: FindingKind,
    places: &[usize],
    rail: Option<&str>,
) -> Option<Finding> {
    let ratio = |place: usize| {
        seen.speeds[place]
            .comparison()
            .map_or(f64::INFINITY, |c| c.ratio())
    };
    let worst = places
        .iter()
        .copied()
        .min_by(|a, b| ratio(*a).total_cmp(&ratio(*b)))?;
    let comparison = seen.speeds[worst].comparison()?;
    let cell = seen.summaries[worst].cell;
    let ranks: BTreeSet<u32> = places
        .iter()
        .flat_map(|place| seen.summaries[*place].cell.ranks.iter().copied())
        .collect();
    let ranks: Vec<u32> = ranks.into_iter().collect();
    let mut terms = vec![("test", cell.test.as_str())];
    terms.extend(rail.map(|rail| ("rail", rail)));
    Some(Finding {
        kind,
        sentence: format!(
            "{} at {}, slow at {}",
            wording::against(comparison),
            cell.size,
            sizes(seen, places, rail)
        ),
        place: Place {
            hosts: seen.hosts(&ranks),
            ranks,
            rail: rail.map(str::to_string),
            ..Place::default()
        },
        measured: Some(comparison.measured),
        expected: Some(comparison.expected),
        rule: wording::rule(comparison, &seen.run().rule),
        confirmation: Some(Confirmation {
            rounds: comparison.rounds.1,
            p_value: comparison.p_value,
            comparisons: seen.comparisons,
        }),
        not_told_apart_from: Vec::new(),
        evidence: loads(seen, places),
        cells: seen.ids(places),
        next_step: String::new(),
        repeat: Some(repeat::command(seen.run(), &terms)),
        suspects: Vec::new(),
        curve: Vec::new(),
    })
}

/// `2 of 4 sizes`: sizes that are slow, of those judged in the same tests (on the same rail).
fn sizes(seen: &Seen<'_>, places: &[usize], rail: Option<&str>) -> String {
    let tests: BTreeSet<&str> = places
        .iter()
        .map(|place| seen.summaries[*place].cell.test.as_str())
        .collect();
    let slow: BTreeSet<u64> = places
        .iter()
        .map(|place| seen.summaries[*place].cell.size.0)
        .collect();
    let judged: BTreeSet<u64> = seen
        .summaries
        .iter()
        .zip(&seen.speeds)
        .filter(|(summary, speed)| speed.comparison().is_some() && tests.contains(summary.cell.test.as_str()))
        .filter(|(summary, _)| rail.is_none_or(|rail| summary.cell.rails.iter().any(|name| name == rail)))
        .map(|(summary, _)| summary.cell.size.0)
        .collect();
    let all = judged.union(&slow).count();
    format!("{} of {all} size{}", slow.len(), text::plural(all))
}

/// The worst cell alone and the worst together, each with what was expected.
fn loads(seen: &Seen<'_>, places: &[usize]) -> Vec<String> {
    let mut worst: BTreeMap<Load, usize> = BTreeMap::new();
    let ratio = |place: usize| {
        seen.speeds[place]
            .comparison()
            .map_or(f64::INFINITY, |c| c.ratio())
    };
    for place in places {
        let entry = worst.entry(seen.summaries[*place].cell.load).or_insert(*place);
        if ratio(*place) < ratio(*entry) {
            *entry = *place;
        }
    }
    worst
        .into_iter()
        .filter_map(|(load, place)| {
            let when = if load == Load::Alone { "alone" } else { "together" };
            let comparison = seen.speeds[place].comparison()?;
            Some(format!(
                "{when}: {} at {}",
                wording::against(comparison),
                seen.summaries[place].cell.size
            ))
        })
        .collect()
}
